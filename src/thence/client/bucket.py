"""A token bucket: how often something may happen.  Pure; time is an argument.

Kept as one number, the time at which the bucket is full again, so nothing has to be refilled.
"""

from __future__ import annotations

import math
from typing import Final

SLACK_S: Final = 1e-6
"""A token is there so much early: a timer for ``wait`` may be rounded down, and ring twice."""


class Bucket:
    """``burst`` tokens, full at first, and ``rate_per_s`` new ones while it is not full."""

    __slots__ = ("_burst_s", "_full_at", "_token_s")

    def __init__(self, rate_per_s: float, burst: int) -> None:
        assert rate_per_s > 0
        assert burst >= 1, "a bucket that holds no token gives none"
        self._token_s = 1 / rate_per_s
        self._burst_s = (burst - 1) / rate_per_s
        self._full_at = -math.inf

    def take(self, now: float) -> bool:
        """Take a token; whether there was one."""
        if self.wait(now) > 0:
            return False
        self._full_at = max(self._full_at, now) + self._token_s
        return True

    def wait(self, now: float) -> float:
        """Seconds until there is a token; 0 if there is one."""
        left = self._full_at - self._burst_s - now
        return left if left > SLACK_S else 0.0
