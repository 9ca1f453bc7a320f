"""How often each value was observed, and what follows from that: exact percentiles.

Counts can be put together without loss, so a task needs to know no observation but its own.  The
percentiles of many tallies are found by halving the range of values: each step asks every tally how
many observations it has up to a value.  So nothing is merged, and tallies may stay in mapped files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from thence.pipeline.metrics.base import PERCENTILES
from thence.pipeline.observed import Floats
from thence.trace.columns import Ints

AT_ONCE_MAX: Final = 1 << 22
"""Observations that are counted in one step, one by one; more of them by their tallies."""
HALVING_MIN: Final = 1 << 15
"""Up to so many values, merging tallies is faster than halving."""
_LOWER_BITS: Final = np.int64((1 << 63) - 1)


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """Values in order, none twice, and how many observations there are up to each."""

    values: Floats
    upto: Ints
    sum: float
    """Of the observations."""

    @property
    def count(self) -> int:
        """How many observations there are."""
        return int(self.upto[-1]) if len(self.upto) else 0


def tally_of(observations: Sequence[Floats]) -> Tally:
    """Count observations."""
    values, counts = np.unique(np.concatenate([_NONE, *observations]), return_counts=True)
    return _tally(values, counts)


_NONE: Final[Floats] = np.zeros(0, np.float64)


def _tally(values: Floats, counts: Ints) -> Tally:
    upto = np.cumsum(counts, dtype=np.int64)
    return Tally(values=values, upto=upto, sum=float(np.dot(values, counts)))


def merged(tallies: Sequence[Tally]) -> Tally:
    """All of them as one."""
    some = [tally for tally in tallies if len(tally.values)]
    if len(some) == 1:
        return some[0]
    counts = [np.diff(tally.upto, prepend=0) for tally in some]
    if sum(tally.count for tally in some) <= AT_ONCE_MAX:
        # Sorting values alone is several times faster than sorting them with their counts.
        return tally_of(
            [np.repeat(tally.values, often) for tally, often in zip(some, counts, strict=True)]
        )
    values = np.concatenate([tally.values for tally in some])
    order = np.argsort(values, kind="stable")  # which merges what is in order already
    values = values[order]
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    return _tally(values[starts], np.add.reduceat(np.concatenate(counts)[order], starts))


def figures(tallies: Sequence[Tally]) -> dict[str, Any]:
    """What a row of a metric says of them; percentiles between ranks, in proportion."""
    some = [tally for tally in tallies if len(tally.values)]
    count = sum(tally.count for tally in some)
    if not count:
        return {"count": 0}
    position = (count - 1) * np.array(list(PERCENTILES.values()))
    rank = position.astype(np.int64)
    found = _at_ranks(some, np.concatenate([rank, np.minimum(rank + 1, count - 1)]))
    low, high = np.split(found, 2)
    between = low + (high - low) * (position - rank)
    return {
        "count": count,
        "mean": sum(tally.sum for tally in some) / count,
        **dict(zip(PERCENTILES, between.tolist(), strict=True)),
        "max": max(float(tally.values[-1]) for tally in some),
    }


def _at_ranks(tallies: Sequence[Tally], ranks: Ints) -> Floats:
    """The observations of these ranks, counted from 0 over all tallies."""
    if sum(len(tally.values) for tally in tallies) <= HALVING_MIN:
        tallies = [merged(tallies)]
    if len(tallies) == 1:
        found: Floats = tallies[0].values[np.searchsorted(tallies[0].upto, ranks, side="right")]
        return found
    ends = np.array([[tally.values[0], tally.values[-1]] for tally in tallies])
    low = np.full(len(ranks), _keys(ends[:, 0]).min())
    high = np.full(len(ranks), _keys(ends[:, 1]).max())
    while bool((low < high).any()):
        middle = (low >> 1) + (high >> 1) + (low & high & 1)  # which cannot overflow
        value = _values(middle)
        upto = np.zeros(len(ranks), np.int64)
        for tally in tallies:
            place = np.searchsorted(tally.values, value, side="right")
            upto += np.where(place > 0, tally.upto[place - 1], 0)
        reached = upto > ranks
        high = np.where(reached, middle, high)
        low = np.where(reached, low, middle + 1)
    return _values(low)


def _keys(values: Floats) -> Ints:
    """Integers in the order of these numbers: their bits, below zero those but the sign turned."""
    bits = (values + 0.0).view(np.int64)  # of the two zeros the one above
    keys: Ints = np.where(bits < 0, bits ^ _LOWER_BITS, bits)
    return keys


def _values(keys: Ints) -> Floats:
    """The numbers of these keys."""
    bits: Ints = np.where(keys < 0, keys ^ _LOWER_BITS, keys)
    return bits.view(np.float64)
