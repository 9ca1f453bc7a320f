"""When something expires: of concurrent times the latest wins, and never is later than any.

Operations: ``at`` (milliseconds) and ``never``.  Each drops what it sees.

What is stable: the latest of the stable times, for newcomers see all of them.  A stable never is
kept while it competes with times that are not stable; alone, it is as if nothing had been said.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import INTEGER_MAX, Crdt, Op, Stamp, StampOf, export_stamp, mypyc_attr

AT: Final = 0
NEVER: Final = 1
# As times: no time, and one after all that operations can say.
NOTHING_MS: Final = -1
NEVER_MS: Final = INTEGER_MAX


@mypyc_attr(allow_interpreted_subclasses=True)
class Expiry(Crdt):
    """A time in milliseconds, or none."""

    __slots__ = ("_log", "_stable_ms")
    NAME: ClassVar[str] = "expiry"
    CODE: ClassVar[int] = 17
    OPS: ClassVar[tuple[str, ...]] = ("at", "never")

    def __init__(self) -> None:
        self._stable_ms = NOTHING_MS
        self._log: list[tuple[Stamp, int]] | None = None

    @classmethod
    def of(cls, at_ms: int) -> Expiry:
        """The object with this stable time."""
        made = cls()
        made._stable_ms = at_ms
        return made

    @property
    def settled_ms(self) -> int | None:
        """The time, if it is stable and nothing else is there."""
        return None if self._log is not None or self._stable_ms == NOTHING_MS else self._stable_ms

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        size = len(op)
        if size == 2 and type(op[0]) is int and op[0] == AT:
            if type(op[1]) is int and 0 <= op[1] < NEVER_MS:
                return ""
            return "a time is a number of milliseconds, at least 0, of at most 63 bits"
        if size == 1 and type(op[0]) is int and op[0] == NEVER:
            return ""
        return "expected at (milliseconds) or never ()"

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
        entry = (stamp, op[1] if op[0] == AT else NEVER_MS)
        if self._log is None:
            self._log = [entry]
        else:
            self._log.append(entry)

    def reset(self, stamp: Stamp) -> None:
        """Forget the times that ``stamp`` sees."""
        self._stable_ms = NOTHING_MS
        if self._log is not None:
            self._log = [entry for entry in self._log if not stamp.sees(entry[0])] or None

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Keep the latest of the stable times."""
        if self._log is None:
            return
        left = []
        for entry in self._log:
            if entry[0] not in stamps:
                left.append(entry)
            elif entry[1] > self._stable_ms:
                self._stable_ms = entry[1]
        self._log = left or None
        if self._log is None and self._stable_ms == NEVER_MS:
            self._stable_ms = NOTHING_MS

    def value(self) -> int | None:
        """As ``at_ms``."""
        return self.at_ms

    @property
    def at_ms(self) -> int | None:
        """The time; None if it never expires, or nothing was said."""
        latest = self._stable_ms
        if self._log is not None:
            for _, at_ms in self._log:
                if at_ms > latest:
                    latest = at_ms
        return None if latest == NOTHING_MS or latest == NEVER_MS else latest

    @property
    def is_set(self) -> bool:
        """Whether there is a time: ``at_ms`` is not None."""
        return self.at_ms is not None

    @property
    def is_initial(self) -> bool:
        """Whether nothing is kept."""
        return self._stable_ms == NOTHING_MS and self._log is None

    @property
    def is_empty(self) -> bool:
        """Whether there is no time."""
        return self.at_ms is None

    def owner(self) -> Stamp | None:
        """The stamp of the time that wins, while it is not stable."""
        found = None
        latest = self._stable_ms
        for stamp, at_ms in self._log or ():
            if at_ms > latest:
                latest = at_ms
                found = stamp
        return found

    def stamps(self) -> list[Stamp]:
        """Those of the times that are not stable."""
        return [stamp for stamp, _ in self._log or ()]

    def export(self) -> Any:
        """[stable time, [[stamp, time], ...]]."""
        return [self._stable_ms, [[export_stamp(stamp), ms] for stamp, ms in self._log or ()]]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> Expiry:
        """The object whose state was exported."""
        made = cls()
        made._stable_ms = exported[0]
        made._log = [(stamp_of(*stamp), at_ms) for stamp, at_ms in exported[1]] or None
        return made
