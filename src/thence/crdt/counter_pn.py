"""A counter: increments and decrements commute, so there is nothing to log.

Operations: ``inc`` and ``dec``, each with an amount (1 if a call does not say).
It cannot be reset, for it does not know whose increments it holds: maps have
``counter_resettable``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Op, Stamp, StampOf, merge_amounts, mypyc_attr
from thence.crdt.scalars import amount_fault, export_exact, load_exact
from thence.errors import LocalProtocolError

INC: Final = 0
DEC: Final = 1


@mypyc_attr(allow_interpreted_subclasses=True)
class CounterPn(Crdt):
    """A whole number that is counted up and down."""

    __slots__ = ("_total",)
    NAME: ClassVar[str] = "counter_pn"
    CODE: ClassVar[int] = 6
    OPS: ClassVar[tuple[str, ...]] = ("inc", "dec")

    def __init__(self) -> None:
        self._total = 0

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call: (name, amount) or (name)."""
        return super().prepare(name, *(arguments or (1,)))

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        if len(op) != 2 or type(op[0]) is not int or not INC <= op[0] <= DEC:
            return "expected inc (amount) or dec (amount)"
        return amount_fault(op[1])

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Amounts add up; up and down by the same amount stay as they are."""
        if last[0] == new[0]:
            return merge_amounts(last, new)
        if last[1] == new[1]:
            return None
        more, less = (last, new) if last[1] > new[1] else (new, last)
        return more[0], more[1] - less[1]

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Count."""
        if op[0] == INC:
            self._total += op[1]
        else:
            self._total -= op[1]

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Nothing: no stamp is kept."""

    def reset(self, stamp: Stamp) -> None:
        """LocalProtocolError."""
        raise LocalProtocolError("counter_pn cannot be reset: counter_resettable can")

    def value(self) -> int:
        """Increments less decrements."""
        return self._total

    @property
    def is_initial(self) -> bool:
        """Whether it is zero."""
        return self._total == 0

    def stamps(self) -> list[Stamp]:
        """None."""
        return []

    def export(self) -> Any:
        """The total."""
        return export_exact(self._total)

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> CounterPn:
        """The counter with the exported total."""
        made = cls()
        made._total = load_exact(exported)
        return made
