"""A counter that never falls below its lower bound, and needs nobody's consent for that.

Operations, each with an amount: ``inc``, ``dec``, ``transfer`` (to whom, amount), ``lower``.

Each replica has rights to decrement: it gets them by its own increments, and others can transfer
theirs to it.  A decrement uses them up.  The bound is 0 at first; who lowers it gets the rights
that this makes.  So the value is the bound and all rights.  ``counter_ranged`` has an upper bound,
too.

Guarded is the origin only: ``prepare`` refuses what the replica ``me`` has no rights to.  Carried
out is everything, for then all commutes and nothing is logged; a replica that does not guard itself
can break the bound, though not make others disagree.  Rights of a replica that is gone for good are
gone with it, and a bounded counter cannot be reset: resets would take rights that are being used.
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
LOWER: Final = 3


class CounterBounded(Crdt):
    """A whole number with a lower bound."""

    __slots__ = ("_bound", "_rights")
    NAME: ClassVar[str] = "counter_bounded"
    CODE: ClassVar[int] = 8
    OPS: ClassVar[tuple[str, ...]] = ("inc", "dec", "transfer", "lower")

    def __init__(self) -> None:
        self._bound = 0
        self._rights = Rights()

    def prepare(self, name: str, *arguments: Any, me: str = "") -> Op:
        """The operation of a call.  dec and transfer have to know at which replica they are
        prepared, ``me`` (as stamps name it); LocalProtocolError if it lacks the rights."""
        number = op_number(self, name)
        op = super().prepare(name, *(arguments or (1,)))
        fault = ""
        if number in (DEC, TRANSFER):
            fault = node_fault(me) and "say which replica this is: me=..."
            fault = fault or self._rights.lack(me, op[-1])
            if number == TRANSFER and op[1] == me:
                fault = "a transfer is to another replica"
        if fault:
            raise LocalProtocolError(f"{self.NAME}.{name}: {fault}")
        return op

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        size = len(op)
        if size and type(op[0]) is int:
            if size == 3 and op[0] == TRANSFER:
                return node_fault(op[1]) or amount_fault(op[2])
            if size == 2 and op[0] in (INC, DEC, LOWER):
                return amount_fault(op[1])
        return "expected inc, dec or lower (amount), or transfer (replica, amount)"

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
            self._rights.transfer(stamp, op[1], op[2])
            return
        self._rights.add(stamp.node, -op[1] if number == DEC else op[1])
        if number == LOWER:
            self._bound -= op[1]

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Nothing: no stamp is kept."""

    def reset(self, stamp: Stamp) -> None:
        """LocalProtocolError."""
        raise LocalProtocolError("counter_bounded cannot be reset: counter_resettable can")

    def value(self) -> int:
        """The bound and all rights."""
        return self._bound + self._rights.total

    @property
    def lower_bound(self) -> int:
        """What the value is never below."""
        return self._bound

    def rights(self, node: str) -> int:
        """How much a replica can decrement."""
        return self._rights.of.get(node, 0)

    @property
    def is_initial(self) -> bool:
        """Whether it is zero, bounded by zero."""
        return not self._bound and not self._rights.of

    def stamps(self) -> list[Stamp]:
        """None."""
        return []

    def export(self) -> Any:
        """[bound, [node, rights, ...]]."""
        return [export_exact(self._bound), self._rights.export()]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> CounterBounded:
        """The counter whose state was exported."""
        made = cls()
        made._bound = load_exact(exported[0])
        made._rights = Rights.load(exported[1])
        return made
