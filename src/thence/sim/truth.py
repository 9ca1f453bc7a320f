"""What tags must say, from explicit histories: exact predecessors, exact vectors.

The expectation is fixed when a message is sent and compared with the tag at the sender, with the
message on the wire and with the tag at every receiver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thence.causal.dot import SLOT_MAX, pack, seq_of, slot_of
from thence.message import Message, StreamDot, VectorMessage, WireMessage
from thence.sim.histories import Histories, key_of_tag


class Expected:
    """What the tag of one message must say."""

    __slots__ = ("context", "hidden", "past", "stream_context", "to", "vector", "wire_vector")

    def __init__(self, past: int) -> None:
        self.past = past
        self.context: tuple[int, ...] = ()
        self.stream_context: tuple[StreamDot, ...] = ()
        self.hidden: tuple[int, ...] = ()
        """Maximal on the usual stream, but for messages of streams."""
        self.to = 0
        self.vector: tuple[int, ...] = ()
        self.wire_vector: tuple[int, ...] = ()
        """What the middleware made of it, for engines that over-order on the wire."""


class Truth:
    """The expectations of one execution, by number of the message."""

    def __init__(self, histories: Histories) -> None:
        self.histories = histories
        self.expected: list[Expected] = []

    def add(self, past: int, own: int, taken: int, to: int = 0) -> None:
        """A message was sent after ``past``; ``own`` is its own bit.  ``taken`` is the part of the
        past that its application has sent or taken: a multicast may have been for others only.
        ``to`` is whom it is for, a bit per slot; 0 is everyone."""
        histories = self.histories
        expected = Expected(past)
        expected.to = to
        dots = [histories.keys[number] for number in histories.maximal(taken)]
        expected.context = tuple(sorted(pack(slot, seq) for slot, at, seq in dots if not at))
        expected.stream_context = tuple(sorted(StreamDot(*dot) for dot in dots if dot[1]))
        expected.vector = histories.vector(past | own)
        if expected.stream_context:
            front = self.maximal_dots(taken, histories.ordered)
            expected.hidden = tuple(dot for dot in front if dot not in expected.context)
        self.expected.append(expected)

    def maximal_dots(self, past: int, among: int) -> tuple[int, ...]:
        """The maximal messages of a set on the usual stream, as sorted packed dots."""
        front = [self.histories.keys[number] for number in self.histories.maximal(past, among)]
        return tuple(sorted(pack(slot, seq) for slot, _, seq in front))

    def wrong_tag(self, number: int, tag: Any, exact: bool) -> str | None:
        """What is wrong with a tag, if anything is."""
        expected = self.expected[number]
        if key_of_tag(tag) != self.histories.keys[number]:
            return f"names {key_of_tag(tag)}"
        if tag.predecessors is None and tag.vector is None:
            return "has neither predecessors nor vector"
        if tag.vector is not None:
            return _wrong_vector(tag.vector, expected.vector, exact)
        context, streams = _split(tag)
        if self.histories.keys[number][1]:
            return self._wrong_closure(number, context, streams)
        return self._wrong_context(expected, context, streams)

    def wrong_message(self, number: int, message: WireMessage, exact: bool) -> str | None:
        """What is wrong with a message as it travels, if anything is."""
        expected = self.expected[number]
        if isinstance(message, VectorMessage):
            expected.wire_vector = message.vector
            if message.application:
                return _wrong_vector(message.vector, expected.vector, False) or _wrong_vector(
                    message.application, expected.vector, True
                )
            return _wrong_vector(message.vector, expected.vector, exact)
        if not isinstance(message, Message):
            return "is no message"
        if sum(1 << slot for slot in message.to) != expected.to:
            return f"is for {message.to}"
        streams = tuple(sorted(message.stream_context))
        if message.stream:
            return self._wrong_closure(number, message.context, streams)
        if message.hidden != expected.hidden:
            return f"hides {self.show(message.hidden)}, not {self.show(expected.hidden)}"
        return self._wrong_context(expected, message.context, streams)

    def _wrong_context(
        self, expected: Expected, context: tuple[int, ...], streams: tuple[StreamDot, ...]
    ) -> str | None:
        if context != expected.context:
            return f"says {self.show(context)}, its history says {self.show(expected.context)}"
        if streams != expected.stream_context:
            return f"says {streams}, its history says {expected.stream_context}"
        return None

    def _wrong_closure(
        self, number: int, context: Sequence[int], streams: Sequence[StreamDot]
    ) -> str | None:
        """On a stream of its own a message names what it was told to; only the closure counts."""
        histories = self.histories
        slot, stream, seq = histories.keys[number]
        keys = [(slot_of(packed), "", seq_of(packed)) for packed in context]
        keys += [(dot.slot, dot.stream, dot.seq) for dot in streams]
        if seq > 1:
            keys.append((slot, stream, seq - 1))
        past = 0
        for key in keys:
            if key not in histories.number:
                return f"names {key}, which nobody sent"
            past |= histories.closure[histories.number[key]]
        wrong = past ^ self.expected[number].past
        return f"is wrong about {histories.show_all(wrong)}" if wrong else None

    def show(self, dots: Sequence[int]) -> str:
        """Packed dots for people."""
        names = self.histories.names
        return "{" + ", ".join(f"{names[slot_of(dot)]}:{seq_of(dot)}" for dot in dots) + "}"


def _wrong_vector(got: tuple[int, ...], want: tuple[int, ...], exact: bool) -> str | None:
    if exact:
        return None if got == want else f"is {got}, its history says {want}"
    covers = len(got) == len(want) and all(g >= w for g, w in zip(got, want, strict=True))
    return None if covers else f"is {got}, its history needs at least {want}"


def _split(tag: Any) -> tuple[tuple[int, ...], tuple[StreamDot, ...]]:
    """The predecessors of a tag: on the usual stream, and on streams of their own."""
    # Streams have local numbers above every slot.
    locally = [packed for packed in tag.predecessors if slot_of(packed) > SLOT_MAX]
    if not locally:
        return tag.predecessors, ()
    streams = tuple(sorted(tag.past.stream_dot(packed) for packed in locally))
    return tuple(p for p in tag.predecessors if slot_of(p) <= SLOT_MAX), streams
