"""Many messages in one loop each: tagging, receiving and handing over a burst.

What ``Tagger`` and ``Tagged`` do for one message after the other, for the common case: messages
of one sender, each right after the one before it (a *chain*), no streams, no recipients.  Whatever
is not the common case goes to them.  The results are the same, tag by tag.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.chains import chain_tags
from thence.engine.effects import Effects
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged
from thence.engine.tagger import Tagger
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Chain

Failed = Callable[[Exception], None]
"""Told what a callback raised."""


def post(client: Tagger, engine: Tagged, payloads: Sequence[bytes], out: Effects) -> list[Tag]:
    """Tag these now and send them, one after the other; all or, if one is too long, none.

    ``out.send`` has the messages of the first of them, usually of one or none; the rest are a
    chain after those.
    """
    for payload in payloads:
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
    slot, past, frontier = client.slot, client.past, client.frontier
    tags: list[Tag] = []
    count = len(payloads)
    if (client.sent & SEQ_MAX) + count > SEQ_MAX:
        raise LimitError("this node has used up its sequence numbers: take a new incarnation")
    if not count:
        return tags
    at = 0
    # The first names what was taken since the last one; without stability nothing is kept.
    if not client.keep or not frontier.is_only(client.sent):
        at = 1 if client.keep else count
        for i in range(at):
            tag = client.broadcast(payloads[i])
            engine.broadcast(tag, out)
            tags.append(tag)
    if at == count:
        return tags
    if client.sent != engine.delivered[slot]:
        raise LocalProtocolError("a message that was tagged before was not sent")
    knowledge = engine.knowledge
    rest = payloads[at:] if at else payloads
    made = chain_tags(past, client.sent, engine.latest[slot], rest, knowledge.log)
    clock = past.clock
    for tag in made:
        clock += 1
        tag.index = clock
    past.clock = clock
    packed = client.sent + len(made)
    client.sent = packed
    engine.delivered[slot] = packed
    engine.latest[slot] = made[-1]
    frontier.send(packed)
    if clock >= knowledge.due_clock:
        knowledge.look(engine.delivered, out)
    return tags + made if tags else made


def receive_chain(engine: Tagged, peer: int, chain: Chain, out: Effects) -> list[int]:
    """A chain arrived: as ``Tagged.receive`` for each of its messages.  The places of those that
    were refused, one for each ``out.reject``."""
    refused: list[int] = []
    j: int = chain.origin
    delivered = engine.delivered
    if (
        not engine.stability
        or peer != j
        or not 0 <= j < len(delivered)
        or not engine.is_member[j]
        or j == engine.slot
        or not engine.receive_chain(chain, j, out)
    ):
        for at, message in enumerate(chain.messages()):
            before = len(out.reject)
            engine.receive(peer, message, out)
            if len(out.reject) > before:
                refused.append(at)
    return refused


class Handed:
    """What was handed to an application in one go."""

    def __init__(self, slots: int) -> None:
        self.delivered = 0
        self.told = 0
        self.messages = [0] * slots
        """Deliveries, by the slot of the sender."""
        self.bytes = [0] * slots
        """Of their payloads."""
        self.is_unsaid = False
        """Something was delivered after the last broadcast."""

    def add(self, slot: int, count: int, size: int) -> None:
        """So many deliveries of a sender, of so many bytes."""
        self.delivered += count
        self.messages[slot] += count
        self.bytes[slot] += size


class Callbacks:
    """What an application wants to be called with: each tag, or a list of them (``many``)."""

    def __init__(self) -> None:
        self.deliver: Callable[[Any], None] | None = None
        self.deliver_many = False
        self.stable: Callable[[Any], None] | None = None
        self.stable_many = False
        self.other: Callable[[Any], None] | None = None
        """For every event that is neither."""

    def any(self) -> bool:
        """Whether there is one."""
        return self.deliver is not None or self.stable is not None or self.other is not None


def hand(
    client: Tagger,
    queue: deque[Any],
    calls: Callbacks,
    failed: Failed,
    handed: Handed,
) -> None:
    """Take deliveries and stable events from a queue, and call the callbacks with their tags, until
    it is empty or something else is at its front.  A tag that was taken before is there as stable.

    Each is consumed before the callback is called, and forgotten after it was told stable, or, if
    that callback sends something, before that (``client.telling``).  What a callback raises,
    ``failed`` is told.
    """
    many: list[Tag] = []  # of one kind, to be called with
    is_stable = False  # which
    said = -1
    sender, count, size = 0, 0, 0  # the deliveries of one sender that were not added up yet
    entries: list[Any] = []
    at = 0
    try:
        while queue:
            entries = list(queue)
            queue.clear()
            at = 0
            for entry in entries:
                if not isinstance(entry, Tag) or entry.aside is not None:
                    return
                tag: Tag = entry
                if tag.index >= 0:
                    if many and not is_stable:
                        batch, many = many, []
                        _call_many(client, calls, batch, False, failed)
                    at += 1
                    handed.told += 1
                    if calls.stable is None:
                        client.stabilised(tag)
                    elif calls.stable_many:
                        is_stable = True
                        many.append(tag)
                    else:
                        client.telling.append(tag)
                        _call(calls.stable, tag, failed)
                        if client.telling:
                            client.telling.clear()
                            client.stabilised(tag)
                    continue
                if many and is_stable:
                    batch, many = many, []
                    _call_many(client, calls, batch, True, failed)
                at += 1
                client.consume(tag)
                if tag.packed >> SEQ_BITS != sender:
                    handed.add(sender, count, size)
                    sender, count, size = tag.packed >> SEQ_BITS, 0, 0
                count += 1
                size += len(tag.payload)
                said = client.sent
                if calls.deliver is not None:
                    if calls.deliver_many:
                        is_stable = False
                        many.append(tag)
                    else:
                        _call(calls.deliver, tag, failed)
            if many:
                batch, many = many, []
                _call_many(client, calls, batch, is_stable, failed)
    finally:
        if at < len(entries):
            queue.extendleft(reversed(entries[at:]))
        handed.add(sender, count, size)
        if many:
            _call_many(client, calls, many, is_stable, failed)
        telling, client.telling = client.telling, []
        for tag in telling:  # a callback was broken off: what it was told is told
            client.stabilised(tag)
        handed.is_unsaid = said >= 0 and said == client.sent


def _call(callback: Callable[[Any], None], what: object, failed: Failed) -> None:
    try:
        callback(what)
    except Exception as error:
        failed(error)


def _call_many(
    client: Tagger,
    calls: Callbacks,
    tags: list[Tag],
    is_stable: bool,
    failed: Failed,
) -> None:
    if is_stable:
        client.telling.extend(tags)
        if calls.stable is not None:
            _call(calls.stable, tags[:], failed)
        if client.telling:
            client.telling.clear()
            for tag in tags:
                client.stabilised(tag)
    elif calls.deliver is not None:
        _call(calls.deliver, tags, failed)
