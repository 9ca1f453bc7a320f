"""Virtual time and a network with faults, for worlds of whole nodes."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any


class Stage:
    """A queue of what is planned, latencies, partitions and broken connections; one seed."""

    def __init__(self, seed: int, latency_s: float) -> None:
        self.chance = Random(seed)
        self.latency_s = latency_s
        self.now = 0.0
        self._planned = 0
        self._queue: list[tuple[float, int, Callable[[Any], object], Any]] = []
        self.cut: frozenset[str] = frozenset()
        """One side of a partition; empty when there is none."""
        self.pipes: list[Any] = []

    def at(self, time: float, action: Callable[[Any], object], argument: Any) -> None:
        """Plan something."""
        self._planned += 1
        heappush(self._queue, (max(time, self.now), self._planned, action, argument))

    def after(self, delay: float, action: Callable[[Any], object], argument: Any) -> None:
        """Plan something for later."""
        self.at(self.now + delay, action, argument)

    def latency(self, a: str = "", b: str = "") -> float:
        """How long something travels, from one to the other."""
        return self.latency_s * (0.2 + self.chance.expovariate(1.0))

    def is_cut(self, a: str, b: str) -> bool:
        """Whether a partition is between them."""
        return (a in self.cut) != (b in self.cut)

    def go(self, until: float) -> None:
        """Let everything happen that is planned up to then."""
        while self._queue and self._queue[0][0] <= until:
            self.now, _, action, argument = heappop(self._queue)
            action(argument)
        self.now = until

    def snap(self, _: Any = None) -> None:
        """Break a connection."""
        there = [pipe for pipe in self.pipes if pipe.open and pipe.owner.is_up]
        if there:
            self.chance.choice(there).snap("it broke")

    def split(self, names: list[str], most_s: float) -> None:
        """Cut the network in two, for up to so long."""
        count = self.chance.randrange(1, len(names))
        self.cut = frozenset(self.chance.sample(names, count))
        self.after(0.1 + self.chance.random() * most_s, self.heal, self.cut)

    def heal(self, which: Any) -> None:
        """End that partition."""
        if self.cut == which:
            self.cut = frozenset()
