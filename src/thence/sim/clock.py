"""Virtual time: whole microseconds, and a queue of what happens when.

Two things at the same microsecond happen in the order in which they were planned, so a run depends
on nothing but its seed.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from thence.sim.cluster import Cluster, Watcher

Action = Callable[[Any], None]

TIME_MS_MAX = 1e6  # of any option: virtual time is sampled, so a longer run takes for ever


class Clock:
    """Runs planned actions in order of time."""

    __slots__ = ("_planned", "_queue", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self._planned = 0
        # (time, order of planning, action, argument): plain tuples, compared by the first two.
        self._queue: list[tuple[int, int, Action, Any]] = []

    def __len__(self) -> int:
        """How many actions are planned."""
        return len(self._queue)

    def at(self, t_us: int, action: Action, argument: Any) -> None:
        """Plan an action; a time in the past means now."""
        self._planned = planned = self._planned + 1
        now = self.now_us
        heappush(self._queue, (t_us if t_us > now else now, planned, action, argument))

    def after(self, delay_us: int, action: Action, argument: Any) -> None:
        """Plan an action for so many microseconds from now."""
        self._planned = planned = self._planned + 1
        heappush(self._queue, (self.now_us + delay_us, planned, action, argument))

    def run(self) -> None:
        """Until nothing is planned any more."""
        queue = self._queue
        while queue:
            self.now_us, _, action, argument = heappop(queue)
            action(argument)


class TimedWatcher(Watcher):
    """A watcher of a timed run: it knows the time, and is asked for samples now and then."""

    clock: Clock
    """Set by the run before anything happens."""

    @property
    def now_us(self) -> int:
        """Virtual time."""
        return self.clock.now_us

    def sample(self, cluster: Cluster) -> None:
        """Time for a measurement; also once at the end."""
