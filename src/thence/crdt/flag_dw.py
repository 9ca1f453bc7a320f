"""A flag that goes off if it is switched on while somebody else switches it off.

Operations: ``enable``, ``disable``, ``clear``.

A disable drops every enable, and is kept until it is stable: enables that have not seen it count
for nothing.  Clear drops the enables that it sees and is not kept, so it loses against concurrent
ones.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from thence.crdt.base import Crdt, Op, Stamp, StampOf, export_stamp
from thence.crdt.flag_ew import CLEAR, DISABLE, check_flag


class FlagDw(Crdt):
    """On or off; off at first."""

    __slots__ = ("_disables", "_enables", "_stable")
    NAME: ClassVar[str] = "flag_dw"
    CODE: ClassVar[int] = 15
    OPS: ClassVar[tuple[str, ...]] = ("enable", "disable", "clear")

    def __init__(self) -> None:
        self._stable = False
        self._enables: list[Stamp] = []
        self._disables: list[Stamp] = []

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        return check_flag(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """A disable drops all that was before; a disable stays when enable or clear comes."""
        return new if new[0] == DISABLE or last[0] != DISABLE else None

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == CLEAR:
            self.reset(stamp)
        elif number == DISABLE:
            self._stable = False
            self._enables = []
            self._disables = [kept for kept in self._disables if not stamp.sees(kept)]
            self._disables.append(stamp)
        elif all([stamp.sees(kept) for kept in self._disables]):
            self.reset(stamp)
            self._enables.append(stamp)

    def reset(self, stamp: Stamp) -> None:
        """Forget the enables that ``stamp`` sees; what rejects concurrent ones stays."""
        self._stable = False
        self._enables = [kept for kept in self._enables if not stamp.sees(kept)]

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """A stable enable needs no stamp; a stable disable has nothing left to reject."""
        left = [stamp for stamp in self._enables if stamp not in stamps]
        self._stable = self._stable or len(left) < len(self._enables)
        self._enables = left
        if self._disables:
            self._disables = [stamp for stamp in self._disables if stamp not in stamps]

    def value(self) -> bool:
        """Whether it is on."""
        return self._stable or bool(self._enables)

    @property
    def is_initial(self) -> bool:
        """Whether it is off, and no disable is kept."""
        return not self._disables and not self.value()

    @property
    def is_empty(self) -> bool:
        """Whether it is off."""
        return not self.value()

    def stamps(self) -> list[Stamp]:
        """Those of enables and disables that are not stable."""
        return list(dict.fromkeys([*self._enables, *self._disables]))

    def export(self) -> Any:
        """[whether there is a stable enable, [stamp of an enable, ...], [of a disable, ...]]."""
        return [
            self._stable,
            [export_stamp(stamp) for stamp in self._enables],
            [export_stamp(stamp) for stamp in self._disables],
        ]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> FlagDw:
        """The flag whose state was exported."""
        made = cls()
        made._stable = exported[0]
        made._enables = [stamp_of(*stamp) for stamp in exported[1]]
        made._disables = [stamp_of(*stamp) for stamp in exported[2]]
        return made
