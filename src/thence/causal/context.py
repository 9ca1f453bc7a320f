"""A context: the immediate predecessors of a message, an antichain of packed dots.

It is the transitive reduction of a causal past (thesis 4.4.1): the maximal dots, of which each
origin has at most one because its messages are ordered among themselves.  As a value it is a
sorted tuple; while it is being kept up to date it is a ``Frontier``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from thence.causal.dot import SEQ_BITS, SEQ_MAX, seq_of, slot_of
from thence.causal.history import CausalHistory

Context = tuple[int, ...]

EMPTY: Context = ()


def is_wellformed(context: Context) -> bool:
    """Sorted, at most one dot per origin, sequence numbers from 1.

    That the dots are concurrent cannot be seen from the dots alone: see ``maximal``.
    """
    last_slot = -1
    for dot in context:
        # Sorted packed dots are sorted by origin, so one comparison serves both rules.
        if dot >> SEQ_BITS <= last_slot or not dot & SEQ_MAX:
            return False
        last_slot = dot >> SEQ_BITS
    return True


def advance(context: Context, dot: int, its_context: Context) -> Context:
    """The context after taking ``dot``, whose own context is ``its_context``."""
    frontier = Frontier(context)
    frontier.consume(dot, its_context)
    return frontier.context()


def maximal(dots: Iterable[int], histories: Mapping[int, CausalHistory]) -> Context:
    """The dots that no other of them follows; ``histories`` has the history of each."""
    chosen = sorted(set(dots))
    past: set[int] = set()
    for dot in chosen:
        past |= histories[dot].dots - {dot}
    return tuple(dot for dot in chosen if dot not in past)


class Frontier:
    """Mutable: the maximal dots of what one client has sent and consumed so far."""

    __slots__ = ("_dots",)

    def __init__(self, context: Context = EMPTY) -> None:
        self._dots: dict[int, int] = {slot_of(dot): dot for dot in context}

    def __len__(self) -> int:
        return len(self._dots)

    def context(self) -> Context:
        """As a value, for the next message."""
        return tuple(sorted(self._dots.values()))

    def send(self, dot: int) -> None:
        """An own message follows everything so far: it replaces all (errata, prose of alg. 4)."""
        self._dots = {slot_of(dot): dot}

    def consume(self, dot: int, its_context: Context) -> None:
        """Take a message: what it names is no longer maximal."""
        dots = self._dots
        for named in its_context:
            if dots.get(slot_of(named)) == named:
                del dots[slot_of(named)]
        dots[slot_of(dot)] = dot

    def consume_vector(self, dot: int, vector: Sequence[int]) -> None:
        """Take a message tagged by a vector: what the vector counts is no longer maximal."""
        kept = {slot: own for slot, own in self._dots.items() if seq_of(own) > vector[slot]}
        kept[slot_of(dot)] = dot
        self._dots = kept
