"""The frontier: the latest dots of what an application has sent and taken.

It is what the next message will name.  Sending replaces it by the new dot.  Taking m removes what m
names and adds m; no other dot of it can be older than m, because the message that names it would
have been taken before m.  So it stays the set of maximal elements, at most one per origin.

A frontier holds packed dots and never a copy of a tag, so one node can have several over the same
tags.  The client has one for what the application has *consumed*; a driver whose application
confirms later has a second one for what is *confirmed* (``Confirmed``), moved by the same events in
the same order, only later.  After a crash the node goes on from that one (engine/restore.py), so it
is also the one that phantoms speak for: what is consumed and not confirmed may be taken back.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import Tag
from thence.message import Phantom


class Frontier:
    """The latest dots, and what messages of streams hide of them."""

    def __init__(self) -> None:
        self.context: set[int] = set()
        """The latest dots on the default stream."""
        self.hidden: set[int] = set()
        """Dots of the default stream that only a message of a stream comes after."""
        self.stream_context: set[int] = set()
        """The latest dots on streams, by the local number of the stream."""

    def take(self, tag: Tag) -> None:
        """A message that was taken, or an own one on a stream."""
        packed = tag.packed
        if packed >> SEQ_BITS >= STREAM_BASE:
            self._take_of_stream(tag)
            return
        raw_context = tag.raw_context
        self.context.difference_update(raw_context)
        self.context.add(packed)
        if self.stream_context or self.hidden:
            self.hidden.difference_update(raw_context)
            if tag.streams is not None:
                self.stream_context.difference_update(tag.streams.context)
                self.hidden.difference_update(tag.streams.hidden)

    def send(self, packed: int) -> None:
        """An own message of the default stream: it is after everything."""
        self.context = {packed}
        if self.stream_context or self.hidden:
            self.stream_context = set()
            self.hidden = set()

    def newest_hidden(self) -> set[int]:
        """What streams hide, one dot per origin: a newer one of the same origin covers the rest."""
        newest: dict[int, int] = {d >> SEQ_BITS: d for d in self.context}
        for d in self.hidden:
            if newest.get(d >> SEQ_BITS, 0) < d:
                newest[d >> SEQ_BITS] = d
        return set(newest.values()) & self.hidden

    def phantom(self, slot: int, sent: int) -> Phantom:
        """What the node in that slot announces; ``sent`` is its last number (or packed dot)."""
        seen = self.context if not self.hidden else self.context | self.newest_hidden()
        return Phantom(slot, (sent & SEQ_MAX) + 1, tuple(sorted(seen)))

    def become(self, other: Frontier) -> None:
        """Say what the other one says, from now on independently."""
        self.context = set(other.context)
        self.hidden = set(other.hidden)
        self.stream_context = set(other.stream_context)

    def _take_of_stream(self, tag: Tag) -> None:
        """A message of a stream joins, in front of what it comes after."""
        behind = self.context.intersection(tag.raw_context)
        self.context -= behind
        self.hidden |= behind
        if tag.streams is not None:
            self.stream_context.difference_update(tag.streams.context)
        self.stream_context.discard(tag.packed - 1)
        self.stream_context.add(tag.packed)


class Confirmed:
    """What the application has confirmed: a frontier, how far it is at each origin, and when.

    Tell it every event of the application in the order in which the client was told, once it is
    confirmed: ``take`` for a delivery, ``send`` for an own message.  A broadcast confirms what was
    consumed before it, so an own message is told at once, after all of that.
    """

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.frontier = Frontier()
        self.reached: dict[int, int] = {}
        """By slot or local number of a stream, the last dot; own ones are those sent."""
        self.clock = 0
        """``Tag.index`` of the last message told."""

    def take(self, tag: Tag) -> None:
        """The application confirmed this delivery."""
        self.frontier.take(tag)
        self.reached[tag.packed >> SEQ_BITS] = tag.packed
        self.clock = tag.index

    def take_many(self, tags: Iterable[Tag]) -> None:
        """The application confirmed these deliveries, in this order."""
        for tag in tags:
            self.take(tag)

    def send(self, tag: Tag) -> None:
        """The application broadcast this, on whatever stream."""
        k = tag.packed >> SEQ_BITS
        if k < STREAM_BASE:
            self.frontier.send(tag.packed)
        else:
            self.frontier.take(tag)
        self.reached[k] = tag.packed
        self.clock = tag.index

    def phantom(self) -> Phantom:
        """What is confirmed, for ``Tagged.announce``."""
        return self.frontier.phantom(self.slot, self.reached.get(self.slot, 0))
