"""Causal stability by a matrix of vectors: lines 32-43 and 66-84 of algorithm 7.

Shared by the engines that tag with vectors.  Row ``j`` is the vector of the last message delivered
from ``j``; the own row is what is delivered here.  The minimum of a column says how many messages
of that origin are in the past of the last message of everybody, hence of everything still to come.
``lowest`` (Min) remembers one row per column that holds its minimum: as long as that row does not
change the minimum cannot have grown, so the column is not looked at.

Invariants: ``stable`` (SV) never shrinks; a delivered dot is in ``unstable`` (SMap) exactly while
its sequence number is above its column of ``stable``.

Differences from the thesis (tests/thesis/test_errata.py):
- 7:33 copies V into the own row on each delivery; here the row *is* V, which is the same value.
- 7:38 and 7:75 look at the columns of ``j`` only; the own row changes with every delivery too.
- 7:41 takes the last id of a column; all between the old and the new minimum become stable.
- 7:73 ``newSV := SV`` is a copy.
- A minimum that shrinks (a peer whose vectors go backwards) is ignored: tests/engine/test_vector.py
  test_a_peer_whose_vectors_go_backwards_makes_nothing_stable_twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from thence.causal.dot import pack
from thence.engine.effects import Effects


class MatrixStability:
    """The state M, SV, SMap, Min and ctr of algorithm 7."""

    __slots__ = ("_counter", "_lowest", "_rows", "_slot", "_stable", "_unstable")

    def __init__(self, slot: int, delivered: list[int]) -> None:
        """``delivered`` is the engine's own V: it is shared, and read on every update."""
        size = len(delivered)
        self._slot = slot
        self._rows: list[Sequence[int]] = [[0] * size for _ in range(size)]
        self._rows[slot] = delivered
        self._stable = [0] * size
        self._unstable: dict[int, tuple[int, Any]] = {}
        self._lowest = [0] * size
        self._counter = 0

    def update(self, origin: int, vector: Sequence[int], tag: Any, out: Effects) -> None:
        """A message of ``origin`` was delivered (or sent, if it is the own slot)."""
        if origin != self._slot:
            self._rows[origin] = vector
        self._counter += 1
        self._unstable[pack(origin, tag.seq)] = (self._counter, tag)
        lowest = self._lowest
        if origin in lowest or self._slot in lowest:
            new = self._calculate(origin)
            if new != self._stable:
                dots = [
                    pack(slot, seq)
                    for slot, low in enumerate(new)
                    for seq in range(self._stable[slot] + 1, low + 1)
                ]
                self._stabilise(dots, out)
                self._stable = new

    def _calculate(self, origin: int) -> list[int]:
        """SV after the rows of ``origin`` and of this node changed."""
        rows = self._rows
        lowest = self._lowest
        mine = self._slot
        new = self._stable.copy()
        for column, holder in enumerate(lowest):
            if holder in (origin, mine):
                counts = [row[column] for row in rows]
                low = min(counts)
                lowest[column] = counts.index(low)
                if low > new[column]:
                    new[column] = low
        return new

    def _stabilise(self, dots: list[int], out: Effects) -> None:
        """Tell these, in the order of their delivery here, and forget them."""
        unstable = self._unstable
        entries = [unstable.pop(dot) for dot in dots]
        entries.sort(key=itemgetter(0))
        out.stable.extend(tag for _, tag in entries)

    def words(self, vectors_per_message: int = 1) -> int:
        """N*N for the matrix and 2 + N for each message not yet stable (thesis 8.3.1.2)."""
        size = len(self._rows)
        return size * size + len(self._unstable) * (2 + size * vectors_per_message)
