"""Stamps of a replicated keyspace: tags of a group, as data types see them."""

from __future__ import annotations

from typing import Any

from thence.client.kept import Find
from thence.crdt.base import Stamp


class TagStamp:
    """The stamp of one batch at one replica."""

    __slots__ = ("clock_ms", "is_own", "node", "seq", "tag")

    def __init__(
        self, node: str, seq: int, clock_ms: int, tag: Any = None, is_own: bool = False
    ) -> None:
        self.node = node
        self.seq = seq
        self.clock_ms = clock_ms
        self.tag = tag
        """None while an own batch is not sent."""
        self.is_own = is_own
        """It comes after everything that was here when it took effect."""

    def sees(self, stored: Any) -> bool:
        """Whether ``stored`` is this stamp or happened before it."""
        if self.is_own or stored is self:
            return True
        tag = self.tag
        answer: bool = tag.past.precedes(stored.tag, tag)
        return answer

    def __repr__(self) -> str:
        return f"TagStamp({self.node}:{self.seq})"


class Placeholders:
    """Stamps of a state that is loaded before there are tags."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, int], TagStamp] = {}

    def stamp_of(self, node: str, seq: int, clock_ms: int) -> TagStamp:
        """One object for each batch."""
        found = self._made.get((node, seq))
        if found is None:
            found = self._made[node, seq] = TagStamp(node, seq, clock_ms)
        return found

    def resolve(self, find: Find, stamps: dict[int, TagStamp]) -> set[Stamp]:
        """Give them their tags, and note them by packed dot; those that are stable by now."""
        stable: set[Stamp] = set()
        for stamp in self._made.values():
            tag = find(stamp.node, stamp.seq)
            if tag is None:
                stable.add(stamp)
            else:
                stamp.tag = tag
                stamps[tag.packed] = stamp
        self._made = {}
        return stable
