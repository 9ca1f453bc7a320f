"""A map of scores, as a sorted set of Redis is: an update wins over a concurrent remove.

Operations: those of ``map_uw``, and of the objects in it only ``register_counter`` with ``set``
(number) and ``inc`` (number).  So a member has a number: of concurrent sets the one with the
greatest (clock, node), and increments add up.  A score may be set to an infinity, as in Redis; it
is counted up by finite numbers only.

The order by score is the business of whoever asks for it: replicas need not keep it.
"""

from __future__ import annotations

from typing import Any, ClassVar

from thence.crdt.base import Crdt, Op, mypyc_attr, op_number
from thence.crdt.children import REGISTER, UPDATE, check_map, code_of
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import INC, SET, RegisterCounter
from thence.crdt.scalars import element_fault, element_of, number_fault
from thence.errors import LocalProtocolError


@mypyc_attr(allow_interpreted_subclasses=True)
class SortedSet(MapUw):
    """Members with their scores; ``in``, ``len``, ``get`` and iteration work on it as it is."""

    __slots__ = ()
    NAME: ClassVar[str] = "zset_uw"
    CODE: ClassVar[int] = 5

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call: update (member, "register_counter", ("set" or "inc", number)),
        remove (member), clear ()."""
        number = op_number(self, name)
        if number != UPDATE or len(arguments) != 3:
            return super().prepare(name, *arguments)
        member, kind, call = arguments
        try:
            inner = call
            if isinstance(call, tuple | list) and call and isinstance(call[0], str):
                # Not by RegisterCounter.prepare: it knows no infinities.
                inner = (op_number(RegisterCounter, call[0]), *call[1:])
            op = (UPDATE, element_of(member), code_of(kind), inner)
            fault = self.check(op)
        except LocalProtocolError as error:
            fault = str(error)
        if fault:
            raise LocalProtocolError(f"{self.NAME}.{name}: {fault}")
        return op

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        if len(op) != 4 or type(op[0]) is not int or op[0] != UPDATE:
            return check_map(op)
        code, inner = op[2], op[3]
        fault = element_fault(op[1])
        if fault:
            return fault
        if type(code) is not int or code != REGISTER:
            return "a member has a register_counter"
        if isinstance(inner, tuple | list) and len(inner) == 2 and type(inner[0]) is int:
            if inner[0] == SET:
                return score_fault(inner[1])
            if inner[0] == INC:
                return number_fault(inner[1])
        return "expected set (number) or inc (number)"

    def child(self, field: Any, code: int) -> Crdt | None:
        """The object that a member has; None if there is no such member, or no such type here."""
        return super().child(field, code) if code == REGISTER else None


def score_fault(value: Any) -> str:
    """Why this is no score; empty if it is one."""
    if type(value) is float and value in (float("inf"), float("-inf")):
        return ""
    return number_fault(value)
