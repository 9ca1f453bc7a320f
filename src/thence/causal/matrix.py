"""A matrix clock: what each slot is known to have of each slot.

Row ``i`` is the latest vector known of slot ``i``.  The minimum of column ``j`` is how many
messages of ``j`` everybody is known to have: what causal stability asks (thesis 5.1.1, ``low``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thence.errors import LocalProtocolError


class MatrixClock:
    """Mutable.  Rows only grow: taking in an old row or matrix changes nothing."""

    __slots__ = ("rows",)

    def __init__(self, size: int) -> None:
        self.rows: list[list[int]] = [[0] * size for _ in range(size)]

    def __len__(self) -> int:
        return len(self.rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixClock) and self.rows == other.rows

    __hash__ = None  # type: ignore[assignment]  # mutable

    def merge_row(self, slot: int, counts: Iterable[int]) -> None:
        """``slot`` has at least these."""
        merged = [max(pair) for pair in zip(self.rows[slot], counts, strict=True)]
        self.rows[slot] = merged

    def merge(self, other: MatrixClock) -> None:
        """Take in everything that ``other`` knows."""
        if len(other) != len(self):
            raise LocalProtocolError(f"matrices of {len(self)} and {len(other)} slots do not merge")
        for slot, row in enumerate(other.rows):
            self.merge_row(slot, row)

    def column_min(self, slot: int, among: Sequence[int] | None = None) -> int:
        """How many messages of ``slot`` each of ``among`` (everybody by default) has."""
        rows = self.rows if among is None else [self.rows[other] for other in among]
        return min(row[slot] for row in rows)

    def minimum(self) -> tuple[int, ...]:
        """The minimum of every column."""
        return tuple(map(min, zip(*self.rows, strict=True)))
