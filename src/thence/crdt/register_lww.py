"""A register that shows the last of what was written to it.

Operations: ``set`` (a text, bytes, number, truth value or None) and ``clear``.

Each drops the sets that it sees.  Concurrent sets stay side by side, and the one with the greatest
(clock, node) is shown.  A set that another one beats by its clock must not be dropped for that:
clocks need not agree with what happened before what, and replicas that drop differ in the end.

What is stable: the winner of the stable sets, for newcomers see, and thus drop, all of them at
once; with its clock and node only while it competes with sets that are not stable.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Op, Stamp, StampOf, export_stamp
from thence.crdt.scalars import plain_fault

SET: Final = 0
CLEAR: Final = 1
NOTHING: Final = object()
Rank = tuple[int, str]
"""(clock_ms, node) of a set."""


def check_register(op: Op) -> str:
    """What is wrong with set (value) or clear ()."""
    if len(op) == 2 and type(op[0]) is int and op[0] == SET:
        return plain_fault(op[1])
    if len(op) == 1 and type(op[0]) is int and op[0] == CLEAR:
        return ""
    return "expected set (value) or clear ()"


class RegisterLww(Crdt):
    """A value that can be overwritten."""

    __slots__ = ("_rank", "_sets", "_stable")
    NAME: ClassVar[str] = "register_lww"
    CODE: ClassVar[int] = 10
    OPS: ClassVar[tuple[str, ...]] = ("set", "clear")

    def __init__(self) -> None:
        self._stable: Any = NOTHING
        # Of the stable set, only while others are not stable.
        self._rank: Rank | None = None
        self._sets: list[tuple[Stamp, Any]] = []

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        return check_register(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """The later one drops the other."""
        return new

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """If it is a set: it competes by its clock."""
        return bool(op[0] == SET)

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        self.reset(stamp)
        if op[0] == SET:
            self._sets.append((stamp, op[1]))

    def reset(self, stamp: Stamp) -> None:
        """Forget the sets that ``stamp`` sees."""
        self._stable = NOTHING
        self._rank = None
        if self._sets:
            self._sets = [entry for entry in self._sets if not stamp.sees(entry[0])]

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Keep the winner of the stable sets."""
        left = []
        for entry in self._sets:
            stamp = entry[0]
            if stamp not in stamps:
                left.append(entry)
                continue
            rank = (stamp.clock_ms, stamp.node)
            if self._rank is None or rank > self._rank:
                self._rank = rank
                self._stable = entry[1]
        self._sets = left
        if not left:
            self._rank = None

    def value(self) -> Any:
        """The value; None if there is none."""
        found = self._stable
        best = self._rank
        for stamp, value in self._sets:
            rank = (stamp.clock_ms, stamp.node)
            if best is None or rank > best:
                best = rank
                found = value
        return None if found is NOTHING else found

    @property
    def is_initial(self) -> bool:
        """Whether it has no value."""
        return self._stable is NOTHING and not self._sets

    def stamps(self) -> list[Stamp]:
        """Those of the sets that are not stable."""
        return [stamp for stamp, _ in self._sets]

    def export(self) -> Any:
        """[sets, rank, stable value], the last two without what is not there."""
        exported: list[Any] = [[[export_stamp(stamp), value] for stamp, value in self._sets]]
        return exported if self._stable is NOTHING else [*exported, self._rank, self._stable]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> RegisterLww:
        """The register whose state was exported."""
        made = cls()
        made._sets = [(stamp_of(*stamp), value) for stamp, value in exported[0]]
        if len(exported) > 1:
            made._rank = None if exported[1] is None else (exported[1][0], exported[1][1])
            made._stable = exported[2]
        return made
