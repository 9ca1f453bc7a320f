"""A counter that stays between a lower and an upper bound, and needs nobody's consent for that.

Operations, each with an amount: ``inc``, ``dec``, ``transfer`` (to whom, amount) of rights to
decrement, ``transfer_up`` of rights to increment, ``lower`` and ``raise``.

As ``counter_bounded``, with a second vector of rights: an increment uses up one to increment and
makes one to decrement, a decrement the reverse.  Both bounds are 0 at first; who lowers the one or
raises the other gets the rights that this makes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Op, Stamp, StampOf, merge_amounts, op_number
from thence.crdt.rights import Rights, node_fault
from thence.crdt.scalars import amount_fault, export_exact, load_exact
from thence.errors import LocalProtocolError

INC: Final = 0
DEC: Final = 1
TRANSFER: Final = 2
TRANSFER_UP: Final = 3
LOWER: Final = 4
RAISE: Final = 5


class CounterRanged(Crdt):
    """A whole number with a lower and an upper bound."""

    __slots__ = ("_down", "_lower", "_up")
    NAME: ClassVar[str] = "counter_ranged"
    CODE: ClassVar[int] = 9
    OPS: ClassVar[tuple[str, ...]] = ("inc", "dec", "transfer", "transfer_up", "lower", "raise")

    def __init__(self) -> None:
        self._lower = 0
        self._down = Rights()
        self._up = Rights()

    def prepare(self, name: str, *arguments: Any, me: str = "") -> Op:
        """The operation of a call.  All but lower and raise have to know at which replica they are
        prepared, ``me`` (as stamps name it); LocalProtocolError if it lacks the rights."""
        number = op_number(self, name)
        op = super().prepare(name, *(arguments or (1,)))
        fault = ""
        if number not in (LOWER, RAISE):
            rights = self._up if number in (INC, TRANSFER_UP) else self._down
            fault = node_fault(me) and "say which replica this is: me=..."
            fault = fault or rights.lack(me, op[-1])
            if number in (TRANSFER, TRANSFER_UP) and op[1] == me:
                fault = "a transfer is to another replica"
        if fault:
            raise LocalProtocolError(f"{self.NAME}.{name}: {fault}")
        return op

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        size = len(op)
        if size and type(op[0]) is int:
            if size == 3 and op[0] in (TRANSFER, TRANSFER_UP):
                return node_fault(op[1]) or amount_fault(op[2])
            if size == 2 and op[0] in (INC, DEC, LOWER, RAISE):
                return amount_fault(op[1])
        return (
            "expected inc, dec, lower or raise (amount), or transfer or transfer_up "
            "(replica, amount)"
        )

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Amounts of the same kind add up."""
        return None if len(last) != 2 or len(new) != 2 else merge_amounts(last, new)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == TRANSFER:
            self._down.transfer(stamp, op[1], op[2])
        elif number == TRANSFER_UP:
            self._up.transfer(stamp, op[1], op[2])
        elif number == LOWER:
            self._lower -= op[1]
            self._down.add(stamp.node, op[1])
        elif number == RAISE:
            self._up.add(stamp.node, op[1])
        else:
            amount = op[1] if number == INC else -op[1]
            self._down.add(stamp.node, amount)
            self._up.add(stamp.node, -amount)

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Nothing: no stamp is kept."""

    def reset(self, stamp: Stamp) -> None:
        """LocalProtocolError."""
        raise LocalProtocolError("counter_ranged cannot be reset: counter_resettable can")

    def value(self) -> int:
        """The lower bound and all rights to decrement."""
        return self._lower + self._down.total

    @property
    def bounds(self) -> tuple[int, int]:
        """What the value is never below, and never above."""
        return self._lower, self.value() + self._up.total

    def rights(self, node: str) -> tuple[int, int]:
        """How much a replica can decrement, and increment."""
        return self._down.of.get(node, 0), self._up.of.get(node, 0)

    @property
    def is_initial(self) -> bool:
        """Whether it is zero, and both bounds are."""
        return not self._lower and not self._down.of and not self._up.of

    def stamps(self) -> list[Stamp]:
        """None."""
        return []

    def export(self) -> Any:
        """[lower bound, [node, rights to decrement, ...], [node, rights to increment, ...]]."""
        return [export_exact(self._lower), self._down.export(), self._up.export()]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> CounterRanged:
        """The counter whose state was exported."""
        made = cls()
        made._lower = load_exact(exported[0])
        made._down = Rights.load(exported[1])
        made._up = Rights.load(exported[2])
        return made
