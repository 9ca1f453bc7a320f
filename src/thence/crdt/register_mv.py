"""A register that shows all of what was written to it concurrently.

Operations: ``set`` (a text, bytes, number, truth value or None) and ``clear``.

Each drops the sets that it sees; only sets are kept.  Several may be stable: they were concurrent,
and whatever comes sees, and thus drops, all of them at once.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from thence.crdt.base import Crdt, Op, Stamp, StampOf, export_stamp
from thence.crdt.register_lww import SET, check_register
from thence.crdt.scalars import order_of


class RegisterMv(Crdt):
    """The values that nobody has overwritten."""

    __slots__ = ("_sets", "_stable")
    NAME: ClassVar[str] = "register_mv"
    CODE: ClassVar[int] = 11
    OPS: ClassVar[tuple[str, ...]] = ("set", "clear")

    def __init__(self) -> None:
        self._stable: list[Any] = []
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
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        self.reset(stamp)
        if op[0] == SET:
            self._sets.append((stamp, op[1]))

    def reset(self, stamp: Stamp) -> None:
        """Forget the sets that ``stamp`` sees."""
        self._stable = []
        if self._sets:
            self._sets = [entry for entry in self._sets if not stamp.sees(entry[0])]

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Stable values need no stamp."""
        left = []
        for entry in self._sets:
            if entry[0] in stamps:
                self._stable.append(entry[1])
            else:
                left.append(entry)
        self._sets = left

    def value(self) -> list[Any]:
        """The values, each once, by type and then by size or alphabet; [] if there are none."""
        values = [*self._stable, *[value for _, value in self._sets]]
        distinct = {order_of(value): value for value in values}
        return [distinct[order] for order in sorted(distinct)]

    @property
    def is_initial(self) -> bool:
        """Whether it has no value."""
        return not self._stable and not self._sets

    def stamps(self) -> list[Stamp]:
        """Those of the sets that are not stable."""
        return [stamp for stamp, _ in self._sets]

    def export(self) -> Any:
        """[stable values, [[stamp, value], ...]]."""
        return [self._stable, [[export_stamp(stamp), value] for stamp, value in self._sets]]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> RegisterMv:
        """The register whose state was exported."""
        made = cls()
        made._stable = list(exported[0])
        made._sets = [(stamp_of(*stamp), value) for stamp, value in exported[1]]
        return made
