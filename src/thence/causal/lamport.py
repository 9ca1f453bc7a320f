"""A Lamport clock: one number per event that grows along happens-before.

If ``a`` happened before ``b`` then ``a``'s stamp is smaller.  The converse does not hold: stamps
order concurrent events too, by time and then by slot, so that all nodes agree on one total order.
"""

from __future__ import annotations

import msgspec

from thence.errors import LocalProtocolError


class Stamp(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """When, by Lamport's clock, and where: no two events of a run share one."""

    time: int
    slot: int


class LamportClock:
    """Mutable; the clock of one slot.  ``time`` is that of its latest event, 0 before the first."""

    __slots__ = ("slot", "time")

    def __init__(self, slot: int, time: int = 0) -> None:
        self.slot = slot
        self.time = time

    def tick(self) -> Stamp:
        """An event happens here."""
        self.time += 1
        return Stamp(self.time, self.slot)

    def witness(self, remote: Stamp) -> Stamp:
        """An event happens here that follows the remote one, such as the receipt of a message."""
        if remote.time < 0:
            raise LocalProtocolError(f"a stamp's time is not negative, but {remote.time} is")
        self.time = max(self.time, remote.time)
        return self.tick()
