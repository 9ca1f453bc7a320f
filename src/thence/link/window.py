"""How many packets may be on their way: more while they arrive, fewer when some are lost.

Additive increase, multiplicative decrease: doubled in a round trip up to the threshold, then one
packet more in each; on loss, seven tenths of it, once for all losses of one window; after a
time-out, PACKETS_MIN and up again.  Loss that is not congestion (a bad radio) makes it smaller than
need be: that is the price of being a good neighbour without asking the network anything.
"""

from __future__ import annotations

from typing import Final

PACKETS_FIRST: Final = 10
"""RFC 6928."""
PACKETS_MIN: Final = 2
PACKETS_MIN_LOST: Final = 4
"""After a loss that others outlived: enough to see the next loss without a time-out."""
DECREASE: Final = 0.7


class Window:
    """The congestion window of one direction; in packets."""

    __slots__ = ("_size", "_threshold", "largest", "packets")

    def __init__(self, largest: int) -> None:
        self.largest = largest
        self.packets = min(PACKETS_FIRST, largest)
        """How many may be on their way now."""
        self._size = float(self.packets)
        self._threshold = float(largest)

    def acked(self, count: int) -> None:
        """So many packets arrived while the window was what held others back."""
        if self._size < self._threshold:
            self._size += count
        else:
            self._size += count / self._size
        if self._size > self.largest:
            self._size = float(self.largest)
        self.packets = int(self._size)

    def lost(self) -> None:
        """Packets of one window were lost."""
        self._size = max(float(PACKETS_MIN_LOST), self._size * DECREASE)
        self._threshold = self._size
        self.packets = int(self._size)

    def timed_out(self) -> None:
        """Nothing came back at all."""
        self._threshold = max(float(PACKETS_MIN), self._threshold_after_silence())
        self._size = float(PACKETS_MIN)
        self.packets = PACKETS_MIN

    def _threshold_after_silence(self) -> float:
        """Repeated time-outs must not forget what the path carried before the first one."""
        return self._size * DECREASE if self._size > PACKETS_MIN else self._threshold
