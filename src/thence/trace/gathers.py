"""Tables over dot ids, and looking a whole set of version vectors up in one.

All rules come down to these: what happened at or below a dot, at or above it, and the greatest or
least of that over the entries of every vector.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from thence.trace.columns import Ints
from thence.trace.numbering import NEVER, Numbering

BLOCK: Final = 1 << 15  # ids at a time: three buffers of this stay in the nearest caches


def prefix_max(table: Ints, numbering: Numbering) -> Ints:
    """By id: the largest entry at or below it in its origin."""
    result = np.empty_like(table)
    for first, end in zip(numbering.base[:-1].tolist(), numbering.base[1:].tolist(), strict=True):
        np.maximum.accumulate(table[first:end], out=result[first:end])
    return result


def suffix_min(table: Ints, numbering: Numbering) -> Ints:
    """By id: the smallest entry at or above it in its origin."""
    result = np.empty_like(table)
    for first, end in zip(numbering.base[:-1].tolist(), numbering.base[1:].tolist(), strict=True):
        np.minimum.accumulate(table[first:end][::-1], out=result[first:end][::-1])
    return result


def greatest(table: Ints, vectors: Ints, origins: Ints) -> Ints:
    """By id: the greatest of ``table`` over the entries of its vector, -1 for no entries."""
    return _fold(np.maximum, -1, table, vectors, origins)


def least(table: Ints, vectors: Ints, origins: Ints) -> Ints:
    """By id: the least of ``table`` over the entries of its vector, NEVER for no entries."""
    return _fold(np.minimum, NEVER, table, vectors, origins)


def _fold(ufunc: Any, start: int, table: Ints, vectors: Ints, origins: Ints) -> Ints:
    result = np.full(vectors.shape[1], start, np.int32)
    found = np.empty(BLOCK, np.int32)
    rows = origins.tolist()
    for first in range(0, len(result), BLOCK):
        block = result[first : first + BLOCK]
        buffer = found[: len(block)]
        for origin in rows:
            # clip: ids are in range by construction, and the checked modes copy the buffer.
            np.take(table, vectors[origin, first : first + BLOCK], out=buffer, mode="clip")
            ufunc(block, buffer, out=block)
    return result
