"""How many seeds the random tests try.

A plain run stays short; ``THENCE_SEEDS=20 make test`` tries twenty times as many.
"""

from __future__ import annotations

import os

FACTOR = max(1, int(os.environ.get("THENCE_SEEDS", "1")))


def seeds(count: int) -> range:
    """The seeds of a random test that tries ``count`` of them in a plain run."""
    return range(count * FACTOR)
