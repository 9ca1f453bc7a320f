"""Round-trip time, and how long to wait for an acknowledgement (RFC 6298).

Samples come only from packets that were sent once (Karn): an acknowledgement of one that was sent
again does not say which copy it is for.  For the same reason a time-out that was doubled stays
doubled until the next sample; so the estimate follows when a path becomes slower than the time-out,
though every packet on it is then sent again.
"""

from __future__ import annotations

from typing import Final

RETRANSMIT_S_FIRST: Final = 0.3
"""Before the first sample."""
RETRANSMIT_S_MIN: Final = 0.05
"""Above what a busy process and a delayed acknowledgement take on a near network."""
RETRANSMIT_S_MAX: Final = 4.0
"""Doubling ends here."""
GRANULARITY_S: Final = 0.001
"""Of the timers of event loops."""
DOUBLINGS_MAX: Final = 16
SAMPLE_S_MIN: Final = 1e-6
"""Of a clock that is too coarse for the path; 0 stands for no sample."""


class Rtt:
    """The estimate of one direction of one connection; all times in seconds."""

    __slots__ = ("_doublings", "_timeout_s", "smallest_s", "smooth_s", "variation_s")

    def __init__(self) -> None:
        self.smooth_s = 0.0
        """0 before the first sample."""
        self.variation_s = 0.0
        self.smallest_s = 0.0
        """Of all samples."""
        self._timeout_s = RETRANSMIT_S_FIRST
        self._doublings = 0

    @property
    def timeout_s(self) -> float:
        """How long to wait before a packet is sent again."""
        if not self._doublings:
            return self._timeout_s
        waited: float = self._timeout_s * (1 << self._doublings)
        return min(RETRANSMIT_S_MAX, waited)

    def sample(self, seconds: float) -> None:
        """A packet that was sent once was acknowledged after this time."""
        if seconds < SAMPLE_S_MIN:
            seconds = SAMPLE_S_MIN
        if self.smooth_s == 0.0:
            self.smooth_s = self.smallest_s = seconds
            self.variation_s = seconds / 2
        else:
            self.variation_s += (abs(self.smooth_s - seconds) - self.variation_s) / 4
            self.smooth_s += (seconds - self.smooth_s) / 8
            if seconds < self.smallest_s:
                self.smallest_s = seconds
        spread = 4 * self.variation_s
        wanted = self.smooth_s + (spread if spread > GRANULARITY_S else GRANULARITY_S)
        self._timeout_s = min(RETRANSMIT_S_MAX, max(RETRANSMIT_S_MIN, wanted))
        self._doublings = 0

    def back_off(self) -> None:
        """Nothing came within the time-out: wait twice as long."""
        if self._doublings < DOUBLINGS_MAX:
            self._doublings += 1
