"""When a member's silence is suspicious: an accrual failure detector.  Pure; time is an argument.

After Hayashibara, Défago, Yared and Katayama, "The phi accrual failure detector" (SRDS 2004): the
times between signs of life of a member are taken as normally distributed, and phi is how unlikely
a silence as long as the present one is, as -log10 of its probability.  So a member that is heard
rarely or irregularly is given more time than one that is heard all the time.

Differences from the paper:

- A member is suspect only after a least silence as well, however regularly it was heard: a pause
  of half a second is no reason to evict anybody.
- Frames come in bursts.  Intervals below ``BURST_S`` are no samples; only the clock starts again.
- The deviation has a floor: a member on a quiet machine is not suspected for its first hiccup.
- An interval counts as ``OUTAGE_FACTOR`` least silences at most.  Otherwise one long outage would
  make the detector deaf to the next until it has left the window.
- Without samples the least silence alone decides.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Final

WINDOW: Final = 200
"""Intervals that are remembered of each member."""
BURST_S: Final = 0.001
"""What comes sooner after the last sign of life belongs to it."""
DEVIATION_S_MIN: Final = 0.010
DEVIATION_SHARE_MIN: Final = 0.25
"""Least standard deviation: so long, and this share of the mean."""
OUTAGE_FACTOR: Final = 2.0
_US: Final = 1_000_000
_Z_MAX: Final = 40.0
"""Beyond so many deviations the probability is 0 as a float."""


class Detector:
    """Whom to suspect, by when each member was heard.

    ``suspect_s``: silence, in seconds, that is never suspicious before it is over; above 0.
    ``phi_min``: how unlikely the silence must be as well; 0: it need not be.

    Members are keys.  One that is not known (never heard nor expected, or forgotten) is silent for
    no time and never suspect.  A time before that of an earlier call counts as that earlier time.
    """

    __slots__ = ("_phi_min", "_pulses", "_suspect_s", "_z_min")

    def __init__(self, suspect_s: float, phi_min: float) -> None:
        assert suspect_s > 0
        assert phi_min >= 0
        self._suspect_s = suspect_s
        self._phi_min = phi_min
        self._z_min = _deviations(phi_min)
        self._pulses: dict[int, _Pulse] = {}

    def expect(self, key: int, now: float) -> None:
        """Start the clock of a member that was not heard yet; of others nothing changes."""
        if key not in self._pulses:
            self._pulses[key] = _Pulse(now)

    def heard(self, key: int, now: float) -> None:
        """The member gave a sign of life."""
        pulse = self._pulses.get(key)
        if pulse is None:
            pulse = self._pulses[key] = _Pulse(now)
        interval = now - pulse.last
        if interval < 0:
            return
        # The wait for the first sign is no interval between two: it measures a connection.
        if pulse.heard and interval >= BURST_S:
            pulse.add(min(interval, OUTAGE_FACTOR * self._suspect_s))
        pulse.heard = True
        pulse.last = now

    def awoke(self, now: float, asleep_s: float) -> None:
        """This node itself was not there for so long, until now, and could hear nobody: that counts
        as no silence, and is no sample."""
        for pulse in self._pulses.values():
            pulse.last = max(pulse.last, min(now, pulse.last + asleep_s))

    def forget(self, key: int) -> None:
        """The member is gone for good, or begins anew."""
        self._pulses.pop(key, None)

    def silence(self, key: int, now: float) -> float:
        """Seconds since the last sign of life, or since it was expected."""
        pulse = self._pulses.get(key)
        return 0.0 if pulse is None else max(0.0, now - pulse.last)

    def phi(self, key: int, now: float) -> float:
        """How unlikely the silence is: -log10 of its probability, from 0 to infinity.

        Without samples nothing can be said, and this is infinite once the least silence is over.
        """
        pulse = self._pulses.get(key)
        if pulse is None:
            return 0.0
        silence = max(0.0, now - pulse.last)
        if not pulse.intervals_us:
            return math.inf if silence >= self._suspect_s else 0.0
        mean, deviation = pulse.shape()
        return _phi((silence - mean) / deviation)

    def is_suspect(self, key: int, now: float) -> bool:
        """Whether the silence is long enough, and unlikely enough."""
        return now >= self.due(key)

    def due(self, key: int) -> float:
        """When the member becomes suspect if nothing more is heard; infinite if it is not known.

        ``is_suspect`` goes by this, so a timer that is set to it never wakes up too early.
        """
        pulse = self._pulses.get(key)
        if pulse is None:
            return math.inf
        wait = self._suspect_s
        if pulse.intervals_us and self._phi_min > 0:
            mean, deviation = pulse.shape()
            wait = max(wait, mean + self._z_min * deviation)
        return pulse.last + wait


class _Pulse:
    """The signs of life of one member.

    Intervals are whole microseconds, so that their running sums are exact for ever.
    """

    __slots__ = ("_squares_us", "_total_us", "heard", "intervals_us", "last")

    def __init__(self, last: float) -> None:
        self.last = last
        self.heard = False
        self.intervals_us: deque[int] = deque()
        self._total_us = 0
        self._squares_us = 0

    def add(self, interval: float) -> None:
        """One more, and beyond the window the oldest less."""
        new = round(interval * _US)
        self.intervals_us.append(new)
        self._total_us += new
        self._squares_us += new * new
        if len(self.intervals_us) > WINDOW:
            old = self.intervals_us.popleft()
            self._total_us -= old
            self._squares_us -= old * old

    def shape(self) -> tuple[float, float]:
        """Mean and standard deviation of the intervals, in seconds, the latter with its floor."""
        count = len(self.intervals_us)
        mean = self._total_us / count / _US
        variance_us = count * self._squares_us - self._total_us * self._total_us
        deviation = math.sqrt(variance_us) / count / _US
        return mean, max(deviation, DEVIATION_SHARE_MIN * mean, DEVIATION_S_MIN)


def _phi(deviations: float) -> float:
    """-log10 of the probability that a normal variable is this far above its mean, or farther."""
    probability = math.erfc(deviations / math.sqrt(2)) / 2
    return max(0.0, -math.log10(probability)) if probability > 0 else math.inf


def _deviations(phi: float) -> float:
    """The inverse: how far above the mean is unlikely enough.  Found by halving, once."""
    low, high = -_Z_MAX, _Z_MAX
    while low < (middle := (low + high) / 2) < high:
        if _phi(middle) >= phi:
            high = middle
        else:
            low = middle
    return high
