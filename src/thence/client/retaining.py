"""An object of a replica that keeps all that was done to it: clones, undo and redo over a group.

Tags answer what was before what as long as they are not stable.  What is kept for good needs stamps
that answer for good: each has those that it did not see of what was there and not stable when it
came.  Everything else that came before it, it saw.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from thence.crdt.base import Crdt, Op, Stamp
from thence.crdt.retained import Retained
from thence.errors import LocalProtocolError


class _Settled(NamedTuple):
    """What is left of a stamp that is stable."""

    node: str
    seq: int
    clock_ms: int


class LastingStamp:
    """The stamp of one batch, which knows its past for good."""

    __slots__ = ("_number", "_of", "_unseen")

    def __init__(self, of: Stamp, number: int, unseen: frozenset[int]) -> None:
        self._of: Stamp | _Settled = of
        self._number = number
        self._unseen = unseen

    @property
    def node(self) -> str:
        """The replica it is from."""
        return self._of.node

    @property
    def seq(self) -> int:
        """The number of the batch there."""
        return self._of.seq

    @property
    def clock_ms(self) -> int:
        """The wall clock there."""
        return self._of.clock_ms

    @property
    def number(self) -> int:
        """Its place in the order in which they came here."""
        return self._number

    def settle(self) -> None:
        """It is stable: the message that it is of need not be kept for it."""
        self._of = _Settled(self._of.node, self._of.seq, self._of.clock_ms)

    def __repr__(self) -> str:
        return f"LastingStamp({self.node}:{self.seq})"

    def sees(self, stored: Stamp) -> bool:
        """Whether ``stored`` is this stamp or happened before it."""
        assert isinstance(stored, LastingStamp)
        return stored.number <= self._number and stored.number not in self._unseen


class Retaining:
    """Follows one object."""

    def __init__(self, kind: type[Crdt]) -> None:
        self.retained = Retained(kind)
        self._stamps: list[LastingStamp] = []
        self._count = 0
        self._live: dict[Stamp, LastingStamp] = {}  # those that are not stable

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Something was done to it."""
        self.retained.effect(op, self._lasting(stamp))

    def reset(self, stamp: Stamp) -> None:
        """It was removed."""
        self.retained.reset(self._lasting(stamp))

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """These stamps are stable."""
        stable = [self._live.pop(stamp) for stamp in stamps if stamp in self._live]
        if stable:
            self.retained.stabilise(dict.fromkeys(stable))
        for stamp in stable:
            stamp.settle()
        if not self.retained.is_complete:
            self._stamps.clear()

    def stamp(self, node: str, seq: int) -> LastingStamp:
        """That of a batch which did something to the object; LocalProtocolError if none did."""
        for stamp in self._stamps:
            if stamp.node == node and stamp.seq == seq:
                return stamp
        raise LocalProtocolError(f"nothing was done to this object by {node}:{seq}")

    def has(self, stamp: object) -> bool:
        """Whether this is the stamp of something that was done to it.  Those of other objects are
        counted apart, and say nothing here."""
        return any([stamp is each for each in self._stamps])

    @property
    def latest(self) -> LastingStamp | None:
        """That of the last thing that was done to it and is not undone."""
        undone = set(self.retained.undone)
        return next((each for each in reversed(self._stamps) if each not in undone), None)

    def _lasting(self, stamp: Stamp) -> LastingStamp:
        found = self._live.get(stamp)
        if found is None:
            unseen = [each.number for of, each in self._live.items() if not stamp.sees(of)]
            found = self._live[stamp] = LastingStamp(stamp, self._count, frozenset(unseen))
            self._count += 1
            self._stamps.append(found)
        return found
