"""Names of simulated nodes: a, b, c ... while one letter is enough, else n000, n001 ...

Sorted by name they are in the order of their slots, so that a trace reads the same either way.
"""

from __future__ import annotations

from string import ascii_lowercase


def node_names(count: int) -> list[str]:
    """Names for ``count`` nodes, ascending."""
    if count <= len(ascii_lowercase):
        return list(ascii_lowercase[:count])
    width = max(3, len(str(count - 1)))
    return [f"n{number:0{width}d}" for number in range(count)]
