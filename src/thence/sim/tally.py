"""What a run was like, for people: who was held back and for whom, how late stability came, how
much metadata it took.  A watcher, so it sees what the middleware and the applications see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thence.message import Phantom, WireMessage
from thence.sim.clock import TimedWatcher
from thence.sim.cluster import Cluster
from thence.sim.histories import Key, key_of_message, key_of_tag
from thence.wire.codec import metadata_bytes


class NodeTally:
    """One node's share."""

    def __init__(self, size: int) -> None:
        self.sent = 0
        self.delivered = 0
        self.stable = 0
        self.held = 0
        """Messages that arrived before something they come after."""
        self.held_us_max = 0
        self.held_for = [0] * size
        """By slot: how many of them a message of that node released."""
        self.stable_us: list[int] = []
        """From consumption (or sending) to the stable event."""
        self.words_max = 0
        self.words_end = 0

    def waits_for(self) -> int | None:
        """The node whose messages were waited for most often; None if nothing was held back."""
        return self.held_for.index(max(self.held_for)) if any(self.held_for) else None


class Tally(TimedWatcher):
    """Counts for every node; percentiles are of all samples, not estimates."""

    def __init__(self, size: int) -> None:
        self.nodes = [NodeTally(size) for _ in range(size)]
        self.metadata_bytes = 0
        self.wired_messages = 0
        self._arrived: list[dict[Key, int]] = [{} for _ in range(size)]
        self._arriving = 0
        """Sender of the message that is arriving: what it makes ready has waited for it."""
        self._taken: list[dict[Key, int]] = [{} for _ in range(size)]

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        self.nodes[node].sent += 1
        self._taken[node][key_of_tag(tag)] = self.now_us

    def wired(self, node: int, message: WireMessage) -> None:
        if isinstance(message, Phantom):
            return
        self.wired_messages += 1
        self.metadata_bytes += metadata_bytes(message)

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        if not isinstance(message, Phantom):
            key = key_of_message(message)
            self._arrived[node].setdefault(key, self.now_us)
            self._arriving = key[0]

    def ready(self, node: int, tag: Any) -> None:
        waited_us = self.now_us - self._arrived[node].pop(key_of_tag(tag), self.now_us)
        if waited_us:
            tally = self.nodes[node]
            tally.held += 1
            tally.held_us_max = max(tally.held_us_max, waited_us)
            tally.held_for[self._arriving] += 1

    def consumed(self, node: int, tag: Any) -> None:
        self.nodes[node].delivered += 1
        self._taken[node][key_of_tag(tag)] = self.now_us

    def stabilised(self, node: int, tag: Any) -> None:
        tally = self.nodes[node]
        tally.stable += 1
        tally.stable_us.append(self.now_us - self._taken[node].pop(key_of_tag(tag)))

    def sample(self, cluster: Cluster) -> None:
        for tally, engine in zip(self.nodes, cluster.engines, strict=True):
            tally.words_end = engine.words()
            tally.words_max = max(tally.words_max, tally.words_end)


def percentile(samples: Sequence[int], percent: int) -> int:
    """The smallest sample that at least so many percent do not exceed; 0 of none."""
    if not samples:
        return 0
    rank = -(-len(samples) * percent // 100)
    return sorted(samples)[max(0, rank - 1)]
