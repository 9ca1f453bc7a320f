"""A flag that stays on if it is switched on while somebody else switches it off.

Operations: ``enable``, ``disable``, ``clear`` (here the same as disable).

Each drops the enables that it sees; only enables are kept.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Op, Stamp, StampOf, export_stamp

ENABLE: Final = 0
DISABLE: Final = 1
CLEAR: Final = 2


def check_flag(op: Op) -> str:
    """What is wrong with enable (), disable () or clear ()."""
    if len(op) == 1 and type(op[0]) is int and ENABLE <= op[0] <= CLEAR:
        return ""
    return "expected enable (), disable () or clear ()"


class FlagEw(Crdt):
    """On or off; off at first."""

    __slots__ = ("_enables", "_stable")
    NAME: ClassVar[str] = "flag_ew"
    CODE: ClassVar[int] = 14
    OPS: ClassVar[tuple[str, ...]] = ("enable", "disable", "clear")

    def __init__(self) -> None:
        self._stable = False
        self._enables: list[Stamp] = []

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        return check_flag(op)

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
        if op[0] == ENABLE:
            self._enables.append(stamp)

    def reset(self, stamp: Stamp) -> None:
        """Forget the enables that ``stamp`` sees."""
        self._stable = False
        if self._enables:
            self._enables = [kept for kept in self._enables if not stamp.sees(kept)]

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """A stable enable needs no stamp."""
        left = [stamp for stamp in self._enables if stamp not in stamps]
        self._stable = self._stable or len(left) < len(self._enables)
        self._enables = left

    def value(self) -> bool:
        """Whether it is on."""
        return self._stable or bool(self._enables)

    @property
    def is_initial(self) -> bool:
        """Whether it is off."""
        return not self.value()

    def stamps(self) -> list[Stamp]:
        """Those of the enables that are not stable."""
        return self._enables.copy()

    def export(self) -> Any:
        """[whether there is a stable enable, [stamp, ...]]."""
        return [self._stable, [export_stamp(stamp) for stamp in self._enables]]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> FlagEw:
        """The flag whose state was exported."""
        made = cls()
        made._stable = exported[0]
        made._enables = [stamp_of(*stamp) for stamp in exported[1]]
        return made
