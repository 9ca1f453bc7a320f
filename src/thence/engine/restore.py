"""A node of the flagship after a crash: what it had confirmed, as a value, and a node made of it.

What is in it
    Exactly what the application had *confirmed* (engine/frontier.py): what it had taken and sent
    up to then, the context that its next message would have had, and every message of that which
    was not forgotten, in the order of then.  It names streams by node and name, and members by
    name, so it does not depend on what this process had numbered how.

What is not
    What was received and not confirmed: whoever restores feeds those messages to
    ``engine.receive`` again, and the application takes them again.  What was told stable and
    confirmed is forgotten for good.  What peers are known to have consumed is found again by the
    next pass, from the contexts of the messages; what they said in phantoms is lost, so a peer
    announces again to a node that came back.

Why it is right
    The application's events have one order, and what is confirmed is a beginning of it.  So it is
    closed under happened-before, and its frontier is what the client's was at that moment.  Own
    messages are all in it, because a broadcast confirms what was consumed before it; so no dot is
    used twice and nobody has seen a message of this node that it does not remember.  Phantoms
    must come from the confirmed frontier: nothing that anybody was told is then taken back.

    Everything between two remembered messages is remembered, because stable events are confirmed
    in causal order.  So comparisons are as exact as they were.  Of a forgotten message no tag is
    left at this node; stored bytes compare by what they carry, or raise.

The driver must call ``client.stabilised`` when a stable event is *confirmed*, not when it is taken:
a stable event that was not confirmed is told again, which needs the message.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.checks import aside_fault, context_fault
from thence.engine.frontier import Confirmed
from thence.engine.outgoing import message_of
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import SHELVED, Tag
from thence.engine.tagged import Tagged
from thence.engine.tagger import Tagger
from thence.errors import JournalError, LocalProtocolError
from thence.message import Context, Counts, Message, Slot, StreamDot


class Lost(msgspec.Struct, frozen=True, array_like=True):
    """Of a stream, the newest message that was dropped by its bound, not by stability."""

    dot: StreamDot
    position: int
    """How many of ``State.messages`` were taken before it."""


class State(msgspec.Struct, frozen=True):
    """What a node had confirmed.  A value for msgspec; the same state has the same bytes."""

    members: tuple[str, ...]
    """By slot."""
    slot: Slot
    confirmed: Counts
    """By slot, the number of the last message confirmed; at this node's own, sent."""
    streams: tuple[StreamDot, ...]
    """The same by stream, sorted."""
    context: Context
    hidden: Context
    stream_context: tuple[StreamDot, ...]
    """The frontier: what the next message names."""
    messages: tuple[Message, ...]
    """Confirmed and not forgotten, in the order in which they were consumed or sent."""
    k_told: tuple[int, ...] = ()
    """Packed dots of those of them that were told k-stable, sorted."""
    lost: tuple[Lost, ...] = ()
    shelved: tuple[tuple[int, int], ...] = ()
    """Ranges of packed dots, sorted: of these messages the payload is not here but on a shelf."""


def export_state(
    client: Tagger, engine: Tagged, confirmed: Confirmed, k_told: Iterable[Tag] = ()
) -> State:
    """What the application of this node has confirmed; ``k_told`` are the tags whose k-stable
    event it has confirmed.  Nothing changes.  It costs what is unstable."""
    past = client.past
    tags = [tag for tag in past.window.values() if 0 <= tag.index <= confirmed.clock]
    for tag in past.unsent.values():
        if tag.index > confirmed.clock:
            raise LocalProtocolError(f"{tag} was broadcast, and Confirmed.send was not told")
        tags.append(tag)
    tags.sort(key=_index)
    reached = confirmed.reached
    frontier = confirmed.frontier
    return State(
        members=tuple(past.members.names),
        slot=client.slot,
        confirmed=tuple(reached.get(k, 0) & SEQ_MAX for k in range(len(engine.delivered))),
        streams=_stream_dots(client, [d for k, d in reached.items() if k >= STREAM_BASE]),
        context=tuple(sorted(frontier.context)),
        hidden=tuple(sorted(frontier.newest_hidden())),
        stream_context=_stream_dots(client, frontier.stream_context),
        messages=tuple(map(_unfetched, tags)),
        k_told=tuple(sorted(tag.packed for tag in k_told if tag.gone < 0)),
        lost=_lost(client, confirmed, [tag.index for tag in tags]),
        shelved=_ranges(sorted([tag.packed for tag in tags if tag.body is SHELVED])),
    )


def _unfetched(tag: Tag) -> Message:
    """The message of a tag, without its payload if that is on a shelf."""
    if tag.body is not SHELVED:
        return message_of(tag)
    return Message(tag.origin, tag.seq, tag.raw_context, b"")


def _ranges(numbers: list[int]) -> tuple[tuple[int, int], ...]:
    """Sorted numbers, as ranges from the first to the last of those that follow each other."""
    found: list[tuple[int, int]] = []
    for number in numbers:
        first = found.pop()[0] if found and found[-1][1] == number - 1 else number
        found.append((first, number))
    return tuple(found)


def _lost(client: Tagger, confirmed: Confirmed, indices: list[int]) -> tuple[Lost, ...]:
    past = client.past
    found: list[Lost] = []
    for k, (packed, index) in past.lost.items():
        # What was dropped and not confirmed comes again.
        newest = min(packed, confirmed.reached.get(k, 0))
        if newest & SEQ_MAX:
            found.append(Lost(past.stream_dot(newest), sum([each < index for each in indices])))
    return tuple(sorted(found, key=lambda lost: lost.dot))


def restore(client: Tagger, engine: Tagged, confirmed: Confirmed, state: State) -> list[Tag]:
    """Make a fresh node go on from there; the tags of ``state.messages``, in that order.

    ``confirmed`` is fresh too, and says afterwards that all of this is confirmed.  A state that
    cannot be raises ``JournalError``, one of another node ``LocalProtocolError``; the node is of
    no use then.
    """
    past = client.past
    if past.clock or engine.arrivals or confirmed.reached or client.slot != confirmed.slot:
        raise LocalProtocolError("a state is restored into a node that has done nothing yet")
    if state.members != tuple(past.members.names) or state.slot != client.slot:
        known = ", ".join(state.members)
        raise LocalProtocolError(
            f"this is the state of member {state.slot} of {known}, not of member {client.slot} of "
            f"{', '.join(past.members.names)}"
        )
    if not client.keep and state.messages:
        raise LocalProtocolError("the state of a node with stability, restored into one without")
    tags = _Restored(client, engine, state).readmit()
    if state.shelved:
        by_packed = {tag.packed: tag for tag in tags}
        for first, last in state.shelved:
            for packed in range(first, last + 1):
                if packed not in by_packed:
                    raise _impossible("a payload is on a shelf, and its message is not there")
                by_packed[packed].body = SHELVED
    _resume(client, engine, confirmed, state)
    return tags


def _resume(client: Tagger, engine: Tagged, confirmed: Confirmed, state: State) -> None:
    """All but the messages."""
    past = client.past
    for k, seq in enumerate(state.confirmed):
        confirmed.reached[k] = k << SEQ_BITS | seq
    client.sent = confirmed.reached[client.slot]
    for dot in state.streams:
        number = past.open_stream(dot.slot, dot.stream)
        confirmed.reached[number] = engine.stream_delivered[number] = number << SEQ_BITS | dot.seq
        if dot.slot == client.slot:
            client.stream_sent[number] = confirmed.reached[number]
    frontier = client.frontier
    frontier.context = set(state.context)
    frontier.hidden = set(state.hidden)
    frontier.stream_context = {past.stream_packed(d) for d in state.stream_context}
    confirmed.frontier.become(frontier)
    confirmed.clock = past.clock
    for lost in state.lost:
        packed = past.stream_packed(lost.dot)
        past.lost[packed >> SEQ_BITS] = (packed, lost.position)
    engine.knowledge.k_told.update(state.k_told)
    engine.knowledge.resume()


class _Restored:
    """Checks a state while its messages are readmitted."""

    def __init__(self, client: Tagger, engine: Tagged, state: State) -> None:
        self.client = client
        self.engine = engine
        self.state = state
        self.size = len(engine.delivered)
        self.streams: dict[tuple[int, str], int] = {}
        """By slot and stream, the number of the last one that is there."""

    def readmit(self) -> list[Tag]:
        state, delivered = self.state, self.engine.delivered
        if len(state.confirmed) != self.size or any(d.slot >= self.size for d in state.streams):
            raise _impossible("it does not fit the members")
        self.streams = {(d.slot, d.stream): d.seq for d in state.streams}
        last = [k << SEQ_BITS | seq for k, seq in enumerate(state.confirmed)]
        for k, packed in enumerate(last):
            delivered[k] = packed
        for message in reversed(state.messages):  # what was there before the first of them
            if message.origin >= self.size:
                raise _impossible("a message is of no member")
            if message.stream:
                self.streams[message.origin, message.stream] = message.seq - 1
            else:
                delivered[message.origin] = message.origin << SEQ_BITS | message.seq - 1
        tags = [self._readmit_one(message) for message in state.messages]
        if delivered != last or self.streams != {(d.slot, d.stream): d.seq for d in state.streams}:
            raise _impossible("messages are missing, or there are too many")
        for context in (state.context, state.hidden):
            # As a context of the next own message, it names nothing that is not there.
            fault = context_fault(context, last[self.client.slot] + 1, last, -1)
            if fault is not None or not self._is_there(context, state.stream_context):
                raise _impossible("its frontier names what is not there")
        return tags

    def _readmit_one(self, message: Message) -> Tag:
        slot, stream = message.origin, message.stream
        delivered = self.engine.delivered
        last = self.streams.get((slot, stream), 0) if stream else delivered[slot] & SEQ_MAX
        packed = (STREAM_BASE if stream else slot) << SEQ_BITS | message.seq
        fault = context_fault(message.context, packed, delivered, -1)
        aside = message.aside
        if aside is not None:
            fault = fault or aside_fault(aside, slot, self.size, self.client.slot)
            fault = fault or context_fault(aside.hidden, packed, delivered, -1)
        if fault is not None:
            raise _impossible(f"message {message.seq} of slot {slot}: {fault[1]}")
        if message.seq != last + 1 or not self._is_there(message.context, message.stream_context):
            raise _impossible(f"message {message.seq} of slot {slot} cannot come next")
        tag = self.engine.readmit(message)
        self.client.readmit(tag)
        if stream:
            self.streams[slot, stream] = message.seq
        return tag

    def _is_there(self, context: tuple[int, ...], streams: tuple[StreamDot, ...]) -> bool:
        delivered = self.engine.delivered
        return all(delivered[d >> SEQ_BITS] >= d for d in context) and all(
            self.streams.get((d.slot, d.stream), 0) >= d.seq for d in streams
        )


def _stream_dots(client: Tagger, packed: Iterable[int]) -> tuple[StreamDot, ...]:
    return tuple(sorted([client.past.stream_dot(d) for d in packed]))


def _index(tag: Any) -> int:
    index: int = tag.index
    return index


def _impossible(why: str) -> JournalError:
    return JournalError(f"this cannot be the state of a node: {why}")
