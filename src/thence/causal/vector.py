"""A version vector: how many messages of each slot are in a causal past.

Because messages of one origin are taken in order, a count says exactly which ones: 1 to count.
A message's vector counts the message itself, so two messages compare by their vectors alone:
one happened before the other exactly when its vector is smaller (thesis 2.3, 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from thence.causal.dot import pack, seq_of, slot_of
from thence.errors import LocalProtocolError


class VersionVector(msgspec.Struct, frozen=True, gc=False):
    """Immutable; ``counts[slot]`` messages of each slot.  ``<=`` is the partial order."""

    counts: tuple[int, ...]

    @staticmethod
    def zero(size: int) -> VersionVector:
        """Nothing of anybody."""
        return VersionVector((0,) * size)

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, slot: int) -> int:
        return self.counts[slot]

    def __iter__(self) -> Iterator[int]:
        return iter(self.counts)

    def __le__(self, other: VersionVector) -> bool:
        """Everything counted here is counted there."""
        self._same_size(other)
        return all(mine <= theirs for mine, theirs in zip(self.counts, other.counts, strict=True))

    def __lt__(self, other: VersionVector) -> bool:
        return self <= other and self.counts != other.counts

    def dominates(self, other: VersionVector) -> bool:
        """Everything counted there is counted here."""
        return other <= self

    def concurrent(self, other: VersionVector) -> bool:
        """Each counts something that the other does not."""
        return not self <= other and not other <= self

    def covers(self, dot: int) -> bool:
        """The message of this packed dot is among those counted."""
        return seq_of(dot) <= self.counts[slot_of(dot)]

    def increment(self, slot: int) -> VersionVector:
        """One more message of ``slot``."""
        counts = self.counts
        return VersionVector((*counts[:slot], counts[slot] + 1, *counts[slot + 1 :]))

    def merge(self, other: VersionVector) -> VersionVector:
        """The smallest vector that dominates both."""
        self._same_size(other)
        return VersionVector(tuple(map(max, self.counts, other.counts)))

    def last_dots(self) -> tuple[int, ...]:
        """The last counted message of each slot that has one, as sorted packed dots."""
        return tuple(pack(slot, seq) for slot, seq in enumerate(self.counts) if seq)

    def _same_size(self, other: VersionVector) -> None:
        if len(self.counts) != len(other.counts):
            raise LocalProtocolError(
                f"vectors of {len(self.counts)} and {len(other.counts)} slots do not compare"
            )
