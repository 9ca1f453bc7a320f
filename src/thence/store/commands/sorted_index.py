"""The order of a sorted set by score and member, kept beside it once somebody asks for it.

A sorted set is a map from members to scores.  Its order is made by the first command that needs it;
from then on it hears which members operations touch, of clients and of other nodes alike, and looks
those up when the next command asks.  A sorted set that nobody asks in order has none.
"""

from __future__ import annotations

import math
from typing import Any, Final

from sortedcontainers import SortedList

from thence.crdt.zset_uw import SortedSet
from thence.store.commands.base import Database

Entry = tuple[float, bytes]
"""(score, member)."""
Span = tuple[int, int]
"""Ranks from the first to before the second."""
REBUILT_SHARE: Final = 4
"""Once more than one in so many members is touched, making a new order is cheaper."""
TOUCHED_MIN: Final = 256
"""So many are looked up one by one in any case."""


class SortedIndex:
    """The members of one sorted set in their order."""

    __slots__ = ("_all", "_order", "_scores", "_touched", "source")

    def __init__(self, source: SortedSet) -> None:
        self.source = source
        # A float and an integer of the same value are one score: entries are made by as_score.
        self._scores: dict[bytes, float] = {}
        self._order: Any = SortedList()
        self._touched: set[bytes] = set()
        self._all = True

    def touched(self, field: Any) -> None:
        """Its score may be another one, or it may have gone."""
        if not self._all:
            self._touched.add(field)
            count = len(self._touched)
            if count > TOUCHED_MIN and count * REBUILT_SHARE > len(self._scores):
                self.touched_all()

    def touched_all(self) -> None:
        """All of it has to be made anew."""
        self._all = True
        self._touched.clear()

    def follow(self, source: SortedSet) -> None:
        """The key may have gone and come back as another object."""
        if source is not self.source:
            self.source = source
            self.touched_all()

    def settle(self) -> Any:
        """The order as it is now: a sorted list of entries, for reading."""
        if self._all:
            self._rebuild()
        elif self._touched:
            self._look_up()
        return self._order

    def _rebuild(self) -> None:
        found = self.source.value()
        self._scores = {
            member: as_score(score) for member, score in found.items() if type(member) is bytes
        }
        self._order = SortedList([(score, member) for member, score in self._scores.items()])
        self._all = False

    def _look_up(self) -> None:
        scores, order, get = self._scores, self._order, self.source.get
        for member in self._touched:
            value = get(member)
            new = None if value is None else as_score(value)
            old = scores.get(member)
            if new == old or type(member) is not bytes:
                continue
            if old is not None:
                order.remove((old, member))
            if new is None:
                del scores[member]
            else:
                scores[member] = new
                order.add((new, member))
        self._touched.clear()


def as_score(value: Any) -> float:
    """A number as the score that Redis has: a double."""
    return value if type(value) is float else float(value)


def order_of(db: Database, key: bytes, found: SortedSet) -> Any:
    """The entries of a sorted set in their order: a list that can be cut, counted and bisected.
    It is that of the next moment, too: copy what is changed while it is read."""
    index: SortedIndex = db.index(key, lambda: SortedIndex(found))
    index.follow(found)
    return index.settle()


# Ranges.


class ScoreRange:
    """Scores from one to another; either end may be left out of it."""

    __slots__ = ("high", "high_open", "low", "low_open")

    def __init__(self, low: float, low_open: bool, high: float, high_open: bool) -> None:
        self.low: Final = low
        self.low_open: Final = low_open
        self.high: Final = high
        self.high_open: Final = high_open

    def span(self, order: Any) -> Span:
        """The ranks of the entries in the range."""
        first = _rank(order, self.low, self.low_open)
        last = _rank(order, self.high, not self.high_open)
        return first, max(first, last)


def _rank(order: Any, score: float, after: bool) -> int:
    """Of the first entry with this score, or with a greater one."""
    if after:
        if score == math.inf:
            return len(order)
        score = math.nextafter(score, math.inf)
    rank: int = order.bisect_left((score,))
    return rank


class LexRange:
    """Members from one to another; None is before, or after, all of them."""

    __slots__ = ("high", "high_open", "low", "low_open", "nothing")

    def __init__(
        self,
        low: bytes | None,
        low_open: bool,
        high: bytes | None,
        high_open: bool,
        nothing: bool,
    ) -> None:
        """``nothing``: the range begins after all members, or ends before them."""
        self.low: Final = low
        self.low_open: Final = low_open
        self.high: Final = high
        self.high_open: Final = high_open
        self.nothing: Final = nothing

    def span(self, order: Any) -> Span | None:
        """The ranks of the entries in the range, if all scores are the same.  Otherwise None: the
        members are in no order, and the entries have to be looked at one by one."""
        if self.nothing or not order:
            return 0, 0
        score = order[0][0]
        if order[-1][0] != score:
            return None
        first, last = 0, len(order)
        if self.low is not None:
            bisect = order.bisect_right if self.low_open else order.bisect_left
            first = bisect((score, self.low))
        if self.high is not None:
            bisect = order.bisect_left if self.high_open else order.bisect_right
            last = bisect((score, self.high))
        return first, max(first, last)

    def has(self, member: bytes) -> bool:
        """Whether it is in the range."""
        low, high = self.low, self.high
        if self.nothing:
            return False
        if low is not None and (member <= low if self.low_open else member < low):
            return False
        return high is None or (member < high if self.high_open else member <= high)
