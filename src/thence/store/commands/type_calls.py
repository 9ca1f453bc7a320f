"""Calls of data types as clients write them: ``INC key 5`` becomes an operation of the type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from thence.crdt.base import Crdt, Op
from thence.crdt.children import MAPS, class_of, code_of
from thence.crdt.scalars import shown as number_shown
from thence.crdt.sequence import Sequence
from thence.errors import LocalProtocolError
from thence.store.commands.arguments import integer
from thence.store.commands.kinds import TEXT, kind_of
from thence.store.errors import CommandError, WrongType
from thence.store.replies import Members, Reply

NOT_A_TEXT: Final = "ERR a text has to be UTF-8"
NOT_AN_OPERATION: Final = "ERR expected a type, an operation of it, and its arguments"
INTEGER_BITS_MAX: Final = 63

Reader = Callable[[list[bytes]], tuple[Any, ...]]
"""From the arguments of a call to those of the operation."""


def text_of(argument: bytes) -> str:
    """What is a text for the data type; CommandError if it is none."""
    try:
        return argument.decode()
    except UnicodeDecodeError:
        raise CommandError(NOT_A_TEXT) from None


def _plain(args: list[bytes]) -> tuple[Any, ...]:
    return tuple(args)


def _amount(args: list[bytes]) -> tuple[Any, ...]:
    return tuple([integer(argument) for argument in args])


def _transfer(args: list[bytes]) -> tuple[Any, ...]:
    return text_of(args[0]), integer(args[1])


def _insert_text(args: list[bytes]) -> tuple[Any, ...]:
    return integer(args[0]), text_of(args[1])


class Call:
    """One operation of a type, as clients write it."""

    __slots__ = ("arguments_max", "arguments_min", "name", "read", "usage")

    def __init__(self, name: str, usage: str, low: int, high: int, read: Reader = _plain) -> None:
        """``usage`` is what comes after the key; there are ``low`` to ``high`` arguments."""
        self.name: Final = name
        self.usage: Final = usage
        self.arguments_min: Final = low
        self.arguments_max: Final = high
        self.read: Final = read


MANY: Final = 1 << 31
_COUNT: Final = (
    Call("inc", "[amount]", 0, 1, _amount),
    Call("dec", "[amount]", 0, 1, _amount),
)
_ADD: Final = Call("add", "member [member ...]", 1, MANY)
_REMOVE: Final = Call("remove", "member [member ...]", 1, MANY)
_CLEAR: Final = Call("clear", "", 0, 0)
_REGISTER: Final = (Call("set", "value", 1, 1), _CLEAR)
_FLAG: Final = (Call("enable", "", 0, 0), Call("disable", "", 0, 0))
_TRANSFER: Final = Call("transfer", "node amount", 2, 2, _transfer)
_LOWER: Final = Call("lower", "[amount]", 0, 1, _amount)

CALLS: Final[dict[str, tuple[Call, ...]]] = {
    "counter_resettable": (*_COUNT, Call("reset", "", 0, 0)),
    "counter_bounded": (*_COUNT, _LOWER, _TRANSFER),
    "counter_ranged": (
        *_COUNT,
        _LOWER,
        Call("raise", "[amount]", 0, 1, _amount),
        _TRANSFER,
        Call("transfer_up", "node amount", 2, 2, _transfer),
    ),
    "register_counter": (
        Call("set", "value", 1, 1),
        Call("inc", "amount", 1, 1, _amount),
        Call("del", "", 0, 0),
    ),
    "register_lww": _REGISTER,
    "register_mv": _REGISTER,
    "flag_ew": _FLAG,
    "flag_dw": _FLAG,
    "set_aw": (_ADD, _REMOVE, _CLEAR),
    "set_rw": (_ADD, _REMOVE, _CLEAR),
    "set_g": (_ADD,),
    "set_2p": (_ADD, _REMOVE),
    "sequence": (
        Call("insert", "index text", 2, 2, _insert_text),
        Call("delete", "index count", 2, 2, _amount),
        _CLEAR,
    ),
    "map_uw": (
        Call("update", "field type operation [argument ...]", 3, MANY),
        Call("remove", "field", 1, 1),
        _CLEAR,
    ),
    "map_rw": (
        Call("update", "field type operation [argument ...]", 3, MANY),
        Call("remove", "field", 1, 1),
        _CLEAR,
    ),
}
"""What clients can do with each type."""


def call_named(kind: type[Crdt], word: bytes) -> Call | None:
    """The call of a type that is written so; None if it has none."""
    name = word.decode("utf-8", "replace").lower()
    for call in CALLS.get(kind.NAME, ()):
        if call.name == name:
            return call
    return None


def operation(kind: type[Crdt], found: Crdt | None, call: Call, args: list[bytes], me: str) -> Op:
    """The operation that a call is at this node, which is called ``me``."""
    made = found or kind()
    try:
        if kind.CODE in MAPS and call.name == "update":
            return made.prepare("update", *_update(made, args))
        if kind.NAME in ("counter_bounded", "counter_ranged"):
            return made.prepare(call.name, *call.read(args), me=me)  # type: ignore[call-arg]
        return made.prepare(call.name, *call.read(args))
    except LocalProtocolError as error:
        raise CommandError(f"ERR {error}") from None


def _update(found: Any, args: list[bytes]) -> tuple[Any, Any, Any]:
    """field type operation [argument ...], where the operation of a map is such an update again:
    outer maps first, the inmost call last."""
    path: list[tuple[bytes, type[Crdt]]] = []
    while True:
        if len(args) < 3:
            raise CommandError(NOT_AN_OPERATION)
        field, kind = args[0], class_of(code_of(text_of(args[1])))
        call = call_named(kind, args[2])
        args = args[3:]
        if call is None or not call.arguments_min <= len(args) <= call.arguments_max:
            raise CommandError(NOT_AN_OPERATION)
        path.append((field, kind))
        found = found.child(field, kind.CODE) if found is not None else None
        if kind.CODE not in MAPS or call.name != "update":
            break
    inner: Op = (found or kind()).prepare(call.name, *call.read(args))
    while len(path) > 1:
        field, kind = path.pop()
        inner = (0, field, kind.CODE, inner)
    return path[0][0], path[0][1], inner


# Replies.


def render(value: Any) -> Reply:
    """What users read of an object, as a reply."""
    if isinstance(value, Crdt):
        if isinstance(value, Sequence) and kind_of(value) != TEXT:
            return list(value)
        return render(value.value())
    if isinstance(value, dict):
        return {field: render(item) for field, item in value.items()}
    if isinstance(value, set | frozenset):
        return Members([render(item) for item in value])
    if isinstance(value, list):
        return [render(item) for item in value]
    value = number_shown(value)
    if type(value) is int and value.bit_length() > INTEGER_BITS_MAX:
        return b"%d" % value
    reply: Reply = value
    return reply


def inside(found: Any, path: list[bytes]) -> Any:
    """What is in a map, field by field; None if there is nothing."""
    value = found.value() if isinstance(found, Crdt) else found
    for field in path:
        if not isinstance(value, dict):
            raise WrongType
        value = value.get(field)
        if value is None:
            return None
    return value
