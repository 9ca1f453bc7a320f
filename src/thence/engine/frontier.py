"""The frontier: the latest dots of what an application has sent and taken.

It is what the next message will name.  Sending replaces it by the new dot.  Taking m removes what m
names and adds m; no other dot of it can be older than m, because the message that names it would
have been taken before m.  So it stays the set of maximal elements, at most one per origin.

Multicasts
----------
A message that is not for this node is *hollow* here: ordered, and never taken.  So m may name a
hollow message h, and what is before m in the frontier may be named by h only, or by what h names.
``see_through`` finds it before m is taken: a walk from m over hollow messages, each once, since
nothing before a hollow message that was passed comes into the frontier again.  A hollow message is
forgotten only when this node has passed it too, so the walk misses nothing.  What was found is
noted at m, for a second frontier, which takes m later.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.aside import TagAside
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import Tag
from thence.message import Phantom


class Frontier:
    """The latest dots, and what messages of streams hide of them."""

    def __init__(self) -> None:
        self._context: set[int] = set()
        self._tip = -1  # one more dot of the context: it moves with a chain of messages
        self.hidden: set[int] = set()
        """Dots of the default stream that only a message of a stream comes after."""
        self.stream_context: set[int] = set()
        """The latest dots on streams, by the local number of the stream."""

    @property
    def context(self) -> set[int]:
        """The latest dots on the default stream."""
        if self._tip >= 0:
            self._context.add(self._tip)
            self._tip = -1
        return self._context

    @context.setter
    def context(self, dots: set[int]) -> None:
        self._context = dots
        self._tip = -1

    def is_only(self, packed: int) -> bool:
        """Whether the next message will name this dot and nothing else."""
        context = self.context
        if self.hidden or self.stream_context:
            return False
        return len(context) == 1 and packed in context

    def take(self, tag: Tag) -> None:
        """A message that was taken, or an own one on a stream."""
        aside = tag.aside
        if aside is not None:
            self._take_aside(tag, aside)
            return
        packed = tag.packed
        if tag.named is None and packed - 1 == self._tip and not self.hidden:
            self._tip = packed
            return
        raw_context = tag.raw_context
        self.context.difference_update(raw_context)
        self.context.discard(packed - 1)  # a peer may forget to name its own
        self._tip = packed
        if self.hidden:
            self.hidden.difference_update(raw_context)

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

    def see_through(self, tag: Tag) -> None:
        """Note what is before this message of the default stream by way of hollow ones only."""
        past = tag.past
        found: set[int] = set()
        # A peer may forget to name its own, also where they are hollow here.
        work = [*tag.raw_context, *tag.hidden, tag.packed - 1]
        for d in work:  # grows while it is walked
            known = past.known(d)
            if known is not None and known.aside is not None and known.aside.hollow:
                if not known.aside.passed:
                    known.aside.passed = True
                    found.update(known.predecessors)
                    named = (*known.raw_context, *known.aside.hidden, d - 1)
                    found.update(named)
                    work.extend(named)
        found &= self.context | self.hidden | self.stream_context
        if found:
            if tag.aside is None:
                tag.aside = TagAside((), ())
            tag.aside.behind = tuple(sorted(found))

    def _take_aside(self, tag: Tag, aside: TagAside) -> None:
        if aside.hollow:
            return
        if tag.packed >> SEQ_BITS >= STREAM_BASE:
            # It joins in front of what it comes after.
            behind = self.context.intersection(tag.raw_context)
            self.context -= behind
            self.hidden |= behind
            self.stream_context.difference_update(aside.context)
            self.stream_context.discard(tag.packed - 1)
            self.stream_context.add(tag.packed)
            return
        self.context.difference_update(tag.raw_context)
        self.context.discard(tag.packed - 1)
        self.hidden.difference_update(tag.raw_context)
        self.hidden.difference_update(aside.hidden)
        self.stream_context.difference_update(aside.context)
        if aside.behind:
            self.context.difference_update(aside.behind)
            self.hidden.difference_update(aside.behind)
            self.stream_context.difference_update(aside.behind)
        self.context.add(tag.packed)


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
        """The application confirmed this delivery; a hollow one, all before it."""
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
