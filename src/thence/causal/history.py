"""A causal history: the explicit set of everything that happened before, itself included.

The definition that every cheaper mechanism abbreviates (thesis 2.2): ``a`` happened before ``b``
exactly when ``a``'s history is strictly inside ``b``'s.  Grows with the run, so it serves to
define and to test, not to ship.
"""

from __future__ import annotations

import msgspec


class CausalHistory(msgspec.Struct, frozen=True):
    """Immutable set of packed dots."""

    dots: frozenset[int] = frozenset()

    def __len__(self) -> int:
        return len(self.dots)

    def __contains__(self, dot: int) -> bool:
        return dot in self.dots

    def event(self, dot: int) -> CausalHistory:
        """The history of a new event that follows everything here."""
        return CausalHistory(self.dots | {dot})

    def union(self, other: CausalHistory) -> CausalHistory:
        """What is in either."""
        return CausalHistory(self.dots | other.dots)

    def precedes(self, other: CausalHistory) -> bool:
        """Everything here is there, and there is more there."""
        return self.dots < other.dots

    def concurrent(self, other: CausalHistory) -> bool:
        """Each has something that the other does not."""
        return not self.dots <= other.dots and not other.dots <= self.dots
