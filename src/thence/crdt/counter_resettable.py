"""A counter that can be set back to nothing: what a reset has not seen still counts.

Operations: ``inc`` and ``dec``, each with an amount (1 if a call does not say), and ``reset``.

A reset drops the increments that it sees and is not kept.  What is stable is one number, which
every newcomer sees.  The counter is there, if only as 0, once something counts in it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Op, Stamp, StampOf, export_stamp, merge_amounts
from thence.crdt.scalars import amount_fault, export_exact, load_exact

INC: Final = 0
DEC: Final = 1
RESET: Final = 2


class CounterResettable(Crdt):
    """A whole number that is counted up and down, and reset."""

    __slots__ = ("_log", "_stable")
    NAME: ClassVar[str] = "counter_resettable"
    CODE: ClassVar[int] = 7
    OPS: ClassVar[tuple[str, ...]] = ("inc", "dec", "reset")

    def __init__(self) -> None:
        # The stable increments; None if there are none since the last reset.
        self._stable: int | None = None
        # The others, each stamp's as one number.
        self._log: dict[Stamp, int] = {}

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call: inc and dec with an amount or without."""
        default = (1,) if name in ("inc", "dec") else ()
        return super().prepare(name, *(arguments or default))

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        if len(op) == 2 and type(op[0]) is int and INC <= op[0] <= DEC:
            return amount_fault(op[1])
        if len(op) == 1 and type(op[0]) is int and op[0] == RESET:
            return ""
        return "expected inc (amount), dec (amount) or reset ()"

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """A reset drops what was before; amounts of the same direction add up."""
        return new if new[0] == RESET else merge_amounts(last, new)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        if op[0] == RESET:
            self.reset(stamp)
            return
        amount = op[1] if op[0] == INC else -op[1]
        self._log[stamp] = self._log.get(stamp, 0) + amount

    def reset(self, stamp: Stamp) -> None:
        """Forget the increments that ``stamp`` sees."""
        self._stable = None
        if self._log:
            self._log = {kept: n for kept, n in self._log.items() if not stamp.sees(kept)}

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Add up what is stable."""
        for stamp in [stamp for stamp in self._log if stamp in stamps]:
            self._stable = (self._stable or 0) + self._log.pop(stamp)

    def value(self) -> int:
        """Increments less decrements that no reset has seen."""
        return (self._stable or 0) + sum(self._log.values())

    @property
    def is_initial(self) -> bool:
        """Whether nothing counts in it."""
        return self._stable is None and not self._log

    def stamps(self) -> list[Stamp]:
        """Those of the increments that are not stable."""
        return list(self._log)

    def export(self) -> Any:
        """[stable number, [[stamp, number], ...]]."""
        log = [[export_stamp(stamp), export_exact(n)] for stamp, n in self._log.items()]
        return [export_exact(self._stable), log]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> CounterResettable:
        """The counter whose state was exported."""
        made = cls()
        made._stable = load_exact(exported[0])
        made._log = {stamp_of(*stamp): load_exact(n) for stamp, n in exported[1]}
        return made
