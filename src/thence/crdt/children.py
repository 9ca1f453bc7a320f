"""What maps know of the objects in them: any type by its number, except those that cannot be reset.

``registry.py`` fills the table of types; maps, being among them, cannot import it.
"""

from __future__ import annotations

import importlib
from typing import Any, Final

from thence.crdt.base import Crdt, Element, Op, op_number
from thence.crdt.register_counter import check_register
from thence.crdt.scalars import element_fault
from thence.errors import LocalProtocolError

REGISTRY: Final = "thence.crdt.registry"
BY_CODE: Final[dict[int, type[Crdt]]] = {}
REGISTER: Final = 1  # register_counter: maps keep its stable value itself
MAPS: Final = (3, 16)
UNREMOVABLE: Final = frozenset(
    {"counter_bounded", "counter_pn", "counter_ranged", "keyspace", "set_2p", "set_g"}
)
"""Types that cannot be reset: a map could not remove them."""
NESTING_MAX: Final = 16
"""Maps in maps; a limit on what a peer can make others descend into."""

UPDATE: Final = 0
REMOVE: Final = 1
CLEAR: Final = 2
MAP_OPS: Final = ("update", "remove", "clear")


def class_of(code: int) -> type[Crdt]:
    """The type of a number; KeyError if there is none."""
    if not BY_CODE:
        importlib.import_module(REGISTRY)
    return BY_CODE[code]


def child_fault(code: object) -> str:
    """Why objects of this number cannot be in a map; empty if they can."""
    if type(code) is not int:
        return "a type is named by its number"
    try:
        name = class_of(code).NAME
    except KeyError:
        return "no type has that number"
    return f"{name} cannot be reset, so no map can hold it" if name in UNREMOVABLE else ""


def check_map(op: Op) -> str:
    """What is wrong with update (field, type, operation), remove (field) or clear ()."""
    for _ in range(NESTING_MAX):
        size = len(op)
        if not size or type(op[0]) is not int:
            break
        if size == 1 and op[0] == CLEAR:
            return ""
        if size == 2 and op[0] == REMOVE:
            return element_fault(op[1])
        if size != 4 or op[0] != UPDATE:
            break
        code = op[2]
        inner = op[3]
        is_register = type(code) is int and code == REGISTER
        fault = element_fault(op[1])
        if not fault and not is_register:
            fault = child_fault(code)
        if fault:
            return fault
        if not isinstance(inner, (tuple, list)):
            return "the operation on a field is a sequence"
        if is_register:
            return check_register(inner)
        if code not in MAPS:
            # Peers' operations come as lists or tuples, as their decoder pleases.
            return class_of(code).check(inner)
        op = inner
    else:
        return f"at most {NESTING_MAX} maps inside one another"
    return "expected update (field, type, operation), remove (field) or clear ()"


def prepare_update(child: Crdt | None, field: Element, code: int, call: Any) -> Op:
    """The update of ``child`` (None: there is none yet) that a call asks for: an operation of the
    child as (name, argument, ...) or as it is sent."""
    if not isinstance(call, (tuple, list)) or not call:
        raise LocalProtocolError("the operation on a field is (name, argument, ...)")
    inner: Op
    if not isinstance(call[0], str):
        inner = tuple(call)
    elif code == REGISTER:  # as its ``prepare``, without making one
        inner = (op_number(class_of(code), call[0]), *call[1:])
    else:
        inner = (class_of(code)() if child is None else child).prepare(*call)
    op = (UPDATE, field, code, inner)
    fault = check_map(op)
    if fault:
        raise LocalProtocolError(fault)
    return op


def code_of(kind: Any) -> int:
    """The number of a type that is given by its name, its number or itself; LocalProtocolError if
    no map can hold it."""
    code = kind
    if isinstance(kind, type) and issubclass(kind, Crdt):
        code = kind.CODE
    elif isinstance(kind, str):
        class_of(REGISTER)
        code = next((number for number, found in BY_CODE.items() if found.NAME == kind), None)
        if code is None:
            raise LocalProtocolError(f"no type is named {kind}")
        if code == REGISTER:
            return REGISTER
    fault = child_fault(code)
    if fault:
        raise LocalProtocolError(fault)
    number: int = code
    return number
