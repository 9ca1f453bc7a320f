"""Degree of concurrency: how wide the causal order of a run's messages is.

The *width* is the size of the largest set of messages of which no two are ordered; the *share* is
that of concurrent pairs among all pairs.  Both are exact.

The share is a sum over version vectors.  The width is, by Dilworth's theorem, the least number of
chains that the messages can be divided into.  Origins are chains to begin with; an augmenting path
of Fulkerson's matching makes one chain less, and when there is none left these are the fewest.
What precedes a message in one origin is a prefix of that origin, so what a search has visited is
one number per origin, and a step of it is a gather over vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from thence.pipeline.metrics.base import Metric, Series
from thence.pipeline.observed import Floats, Order, WholeRun, one
from thence.trace.check import Facts
from thence.trace.columns import Ints

WIDTH_ENTRIES_MAX: Final = 1 << 23
"""Messages times origins up to which the width is computed: the search is not linear in them."""


def order_of(facts: Facts, entries_max: int = WIDTH_ENTRIES_MAX) -> Order:
    """The order of the messages that were sent."""
    ids = np.flatnonzero(facts.sent)
    count = len(ids)
    pairs = count * (count - 1) // 2
    origin = np.searchsorted(facts.run.numbering.base, ids, side="right") - 1
    used = np.unique(origin)
    if _contradictory(facts.vectors, ids, origin, used):
        return Order(
            messages=count, pairs=pairs, concurrent_pairs=None, width=None,
            contradictory=True, too_large=False,
        )  # fmt: skip
    ordered = sum(int(row.sum()) for row in _before(facts, ids, origin, used))
    too_large = count * len(used) > entries_max
    width = None
    if not too_large:
        before = np.empty((len(used), count), np.int32)
        for row, counted in zip(before, _before(facts, ids, origin, used), strict=True):
            row[:] = counted
        width = width_of(before, np.searchsorted(origin, used)) if count else 0
    return Order(
        messages=count, pairs=pairs, concurrent_pairs=pairs - ordered, width=width,
        contradictory=False, too_large=too_large,
    )  # fmt: skip


def _before(facts: Facts, ids: Ints, origin: Ints, used: Ints) -> Iterator[Ints]:
    """By origin, by message: how many messages of the origin precede it; a row at a time."""
    base = facts.run.numbering.base
    upto = np.cumsum(facts.sent, dtype=np.int64)  # by id: how many were sent up to it
    for code in used.tolist():
        yield upto[facts.vectors[code, ids]] - upto[base[code]] - (origin == code)


def _contradictory(vectors: Ints, ids: Ints, origin: Ints, used: Ints) -> bool:
    """Whether some message is in the past of something in its own past."""
    for code in used.tolist():
        others = origin != code
        latest = vectors[code, ids[others]]
        if bool((vectors[origin[others], latest] >= ids[others]).any()):
            return True
    return False


def width_of(before: Ints, starts: Ints) -> int:
    """The width of an order of messages that are numbered origin by origin, each a chain.

    ``before[o, m]``: how many messages of origin o precede message m.  ``starts``: by origin, its
    first message.
    """
    return _Chains(before, starts).fewest()


class _Chains:
    """Messages divided into chains.  ``previous`` and ``next`` are by message, -1 for none."""

    def __init__(self, before: Ints, starts: Ints) -> None:
        count = before.shape[1]
        self._before, self._starts = before, starts
        self._origin = np.searchsorted(starts, np.arange(count), side="right") - 1
        self.previous = np.arange(count) - 1
        self.previous[starts] = -1
        self.next = np.arange(count) + 1
        self.next[np.append(starts[1:], count) - 1] = -1

    def fewest(self) -> int:
        """Join chains until no two can be; how many there are then."""
        while self._join():
            pass
        return int(np.count_nonzero(self.previous < 0))

    def _join(self) -> bool:
        """Find a way to have one chain less, and go it.

        Level by level: from messages that are to get another predecessor, to all their possible
        ones not yet seen, to the messages that would lose those.  It ends at a predecessor that
        nobody has.
        """
        seen = np.zeros(len(self._starts), np.int64)  # by origin, from its first message on
        seeking = np.flatnonzero(self.previous < 0)
        levels = []
        while len(seeking):
            levels.append(seeking)
            reach = np.maximum(seen, self._before[:, seeking].max(axis=1))
            found = [
                np.arange(start + old, start + new)
                for start, old, new in zip(
                    self._starts.tolist(), seen.tolist(), reach.tolist(), strict=True
                )
                if new > old
            ]
            seen = reach
            if not found:
                return False
            candidates = np.concatenate(found)
            losing = self.next[candidates]
            free = np.flatnonzero(losing < 0)
            if len(free):
                self._turn(levels, int(candidates[free[0]]))
                return True
            seeking = losing
        return False

    def _turn(self, levels: Sequence[Ints], free: int) -> None:
        """Give predecessors anew along the path that ends at a free one."""
        for seeking in reversed(levels):
            origin = int(self._origin[free])
            rank = free - int(self._starts[origin])
            message = int(seeking[np.argmax(self._before[origin, seeking] > rank)])
            lost = int(self.previous[message])
            self.previous[message], self.next[free] = free, message
            free = lost


def _width(run: WholeRun) -> Floats:
    return one(run.order.width or None) if run.order is not None else one(None)


def _share(run: WholeRun) -> Floats:
    order = run.order
    if order is None or order.concurrent_pairs is None or not order.pairs:
        return one(None)
    return one(order.concurrent_pairs / order.pairs)


_CONTRADICTORY = (
    lambda run: run.order is not None and run.order.contradictory,
    "the logs contradict each other: a message precedes itself",
)

METRIC = Metric(
    name="concurrency",
    description="width of the causal order, and share of pairs of messages that are concurrent",
    series=(
        Series(
            name="width",
            unit="messages",
            of="run",
            values=_width,
            lacks=(
                _CONTRADICTORY,
                (
                    lambda run: run.order is not None and run.order.too_large,
                    f"messages times origins is more than {WIDTH_ENTRIES_MAX}",
                ),
            ),
            otherwise="nothing was sent",
        ),
        Series(
            name="share",
            unit="share",
            of="run",
            values=_share,
            lacks=(_CONTRADICTORY,),
            otherwise="fewer than two messages were sent",
        ),
    ),
)
