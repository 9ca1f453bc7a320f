"""What engines exchange: typed values, frozen.  Bytes are the business of wire/.

Contexts are sorted tuples of packed dots (causal/dot.py), at most one per origin.  The bounds in
the types are what the codec holds bytes of a peer to; nothing checks them when a value is made.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX, SLOT_MAX
from thence.errors import LocalProtocolError

PAYLOAD_BYTES_MAX = 16 * 1024 * 1024
CHAIN_MESSAGES_MAX = 65_535
STREAM_CHARS_MAX = 64
CONTEXT_DOTS_MAX = 4096
STAMP_NUMBERS_MAX = 1 << 20
BUNDLE_MESSAGES_MAX = 65_535

Slot = Annotated[int, msgspec.Meta(ge=0, le=SLOT_MAX)]
Seq = Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)]
Packed = Annotated[int, msgspec.Meta(ge=1, le=SLOT_MAX << SEQ_BITS | SEQ_MAX)]
Context = Annotated[tuple[Packed, ...], msgspec.Meta(max_length=CONTEXT_DOTS_MAX)]
Payload = Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
StreamName = Annotated[str, msgspec.Meta(max_length=STREAM_CHARS_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=SEQ_MAX)]
Counts = Annotated[tuple[Count, ...], msgspec.Meta(max_length=SLOT_MAX + 1)]
Number = Annotated[int, msgspec.Meta(ge=0, le=SLOT_MAX << SEQ_BITS | SEQ_MAX)]
Numbers = Annotated[tuple[Number, ...], msgspec.Meta(max_length=STAMP_NUMBERS_MAX)]
Slots = Annotated[tuple[Slot, ...], msgspec.Meta(max_length=CONTEXT_DOTS_MAX)]


class StreamDot(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A message on a stream of its own: ``slot`` is the node, ``stream`` its name there."""

    slot: Slot
    stream: StreamName
    seq: Seq


class Aside(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What only some messages need: those on a stream of their own, those after such ones, and
    those that are for some members only."""

    stream: StreamName = ""
    """The stream; empty for the default one, the only one that takes part in stability."""
    context: Annotated[tuple[StreamDot, ...], msgspec.Meta(max_length=CONTEXT_DOTS_MAX)] = ()
    """Immediate predecessors that travelled on streams of their own, sorted."""
    hidden: Context = ()
    """Predecessors on the default stream that only messages of streams put before this one."""
    to: Annotated[tuple[Slot, ...], msgspec.Meta(max_length=CONTEXT_DOTS_MAX)] = ()
    """The members it is for, beside its sender, sorted; empty: for everyone."""
    hollow: bool = False
    """It was emptied for those whom it is not for: they order it, and do not take it."""


class Message(
    msgspec.Struct, frozen=True, array_like=True, tag=1, omit_defaults=True, gc=False
):  # fmt: skip
    """A message tagged by dot and context (engines ``tagged`` and ``graph``)."""

    origin: Slot
    seq: Seq
    context: Context
    payload: Payload
    aside: Aside | None = None
    """None for nearly every message."""

    @property
    def stream(self) -> str:
        """The stream it travels on; empty for the default one."""
        return "" if self.aside is None else self.aside.stream

    @property
    def stream_context(self) -> tuple[StreamDot, ...]:
        """Immediate predecessors on streams of their own."""
        return () if self.aside is None else self.aside.context

    @property
    def hidden(self) -> tuple[int, ...]:
        """Predecessors behind those."""
        return () if self.aside is None else self.aside.hidden

    @property
    def to(self) -> tuple[int, ...]:
        """The members it is for; empty: for everyone."""
        return () if self.aside is None else self.aside.to


class Chain(msgspec.Struct, frozen=True, array_like=True, tag=4, gc=False):
    """Messages ``seq``, ``seq + 1``, ... of one sender, each right after the one before it and
    nothing else: what a burst is after its first message.  Only on the wire; see ``messages``."""

    origin: Slot
    seq: Annotated[int, msgspec.Meta(ge=2, le=SEQ_MAX - CHAIN_MESSAGES_MAX)]
    payloads: Annotated[list[Payload], msgspec.Meta(min_length=1, max_length=CHAIN_MESSAGES_MAX)]

    def __len__(self) -> int:
        return len(self.payloads)

    def messages(self) -> list[Message]:
        """The messages, one by one."""
        origin, before = self.origin, (self.origin << SEQ_BITS) + self.seq - 1
        return [
            Message(origin, self.seq + at, (before + at,), payload)
            for at, payload in enumerate(self.payloads)
        ]


def hollow_form(message: Message) -> Message:
    """What those members get whom a multicast is not for: all but the payload."""
    aside = message.aside
    if aside is None or not aside.to:
        raise LocalProtocolError("a message for everyone has no hollow form")
    emptied = Aside(aside.stream, aside.context, aside.hidden, aside.to, True)
    return Message(message.origin, message.seq, message.context, b"", emptied)


class Phantom(msgspec.Struct, frozen=True, array_like=True, tag=2, gc=False):
    """``origin`` has consumed ``context``, and its next message will be ``seq`` (thesis 5.4)."""

    origin: Slot
    seq: Seq
    context: Context


class VectorMessage(
    msgspec.Struct, frozen=True, array_like=True, tag=3, omit_defaults=True, gc=False
):  # fmt: skip
    """A message tagged by a version vector (engines ``vector`` and ``cbcast``).

    ``application`` is the second, application-level vector of ``cbcast-e2e``; empty otherwise.
    """

    origin: Slot
    vector: Counts
    payload: Payload
    application: Counts = ()


class Stamped(
    msgspec.Struct, frozen=True, array_like=True, tag=5, omit_defaults=True, gc=False
):  # fmt: skip
    """A message with numbers that only its engine can read: clocks, a matrix, dots, changes."""

    origin: Slot
    seq: Seq
    stamp: Numbers
    payload: Payload
    to: Slots = ()
    """The members it is for, beside its sender, sorted; empty: for everyone."""


class Bundle(msgspec.Struct, frozen=True, array_like=True, tag=7, gc=False):
    """A message, the last one, and messages before it that whoever gets it may lack."""

    messages: Annotated[
        tuple[Stamped, ...], msgspec.Meta(min_length=1, max_length=BUNDLE_MESSAGES_MAX)
    ]

    @property
    def origin(self) -> int:
        """Of the last one."""
        return self.messages[-1].origin

    @property
    def payload(self) -> bytes:
        """All payloads, for those who count bytes."""
        return b"".join(message.payload for message in self.messages)


class Control(msgspec.Struct, frozen=True, array_like=True, tag=6, gc=False):
    """What engines say to each other beside messages: an acknowledgement, a token, an order."""

    origin: Slot
    kind: Annotated[int, msgspec.Meta(ge=0, le=255)]
    stamp: Numbers

    @property
    def payload(self) -> bytes:
        """There is none."""
        return b""


WireMessage = Message | Phantom | VectorMessage | Stamped | Control | Bundle


class Directed(msgspec.Struct, frozen=True, gc=False):
    """An engine's wish: a message for these members only, nothing goes to the others."""

    to: Slots
    """Sorted."""
    message: WireMessage
