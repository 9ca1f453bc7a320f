"""What a run was like, for people, from its logs: who was held back and for whom, how late
stability came, how much metadata it took."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from thence.causal.dot import Dot
from thence.trace.record import DELIVER, READY, RECEIVE, SAMPLE, SEND, STABLE, Record


class NodeTally:
    """One node's share.  Times in microseconds of its clock."""

    def __init__(self) -> None:
        self.sent = 0
        self.delivered = 0
        self.stable = 0
        self.held = 0
        """Messages that arrived before something they come after."""
        self.held_us_max = 0
        self.held_for: Counter[str] = Counter()
        """By node: how many of them a message of that node released."""
        self.stable_us: list[int] = []
        """From consumption (or sending) to the stable event."""
        self.words_max = 0
        self.words_end = 0
        self.metadata_bytes = 0
        """Of the messages that it sent: dot and context on the wire."""
        self._arrived: dict[Dot, int] = {}
        self._arriving = ""
        """Sender of what arrived last: what is ready then has waited for it."""
        self._taken: dict[Dot, int] = {}

    def waits_for(self) -> str | None:
        """The node whose messages were waited for most often; None if nothing was held back."""
        held = self.held_for
        return max(sorted(held), key=lambda name: held[name]) if held else None

    def add(self, record: Record) -> None:
        """The next record of its log."""
        kind, dot, t_us = record.kind, record.dot, record.t_us
        if kind == SAMPLE:
            self.words_end = record.words or 0
            self.words_max = max(self.words_max, self.words_end)
        elif dot is None:
            return
        elif kind == SEND:
            self.sent += 1
            self.metadata_bytes += record.bytes or 0
            self._taken[dot] = t_us
        elif kind == RECEIVE:
            self._arrived[dot] = t_us
            self._arriving = dot.node.partition("/")[0]
        elif kind == READY:
            self._ready(t_us - self._arrived.pop(dot, t_us))
        elif kind == DELIVER:
            self.delivered += 1
            self._taken[dot] = t_us
        elif kind == STABLE:
            self.stable += 1
            self.stable_us.append(t_us - self._taken.pop(dot, t_us))

    def _ready(self, waited_us: int) -> None:
        if waited_us > 0:
            self.held += 1
            self.held_us_max = max(self.held_us_max, waited_us)
            self.held_for[self._arriving] += 1


def tally(records: Iterable[Record]) -> dict[str, NodeTally]:
    """By node, sorted; the records of each in the order of its log."""
    nodes: dict[str, NodeTally] = {}
    for record in records:
        if record.node not in nodes:
            nodes[record.node] = NodeTally()
        nodes[record.node].add(record)
    return dict(sorted(nodes.items()))


def percentile(samples: Sequence[int], percent: int) -> int:
    """The smallest sample that at least so many percent do not exceed; 0 of none."""
    if not samples:
        return 0
    rank = -(-len(samples) * percent // 100)
    return sorted(samples)[max(0, rank - 1)]
