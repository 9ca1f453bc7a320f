"""A message to bytes and back: MessagePack arrays, the first element says which kind.

    [1, origin, seq, [slot, seq, ...], payload]                      Message
    [1, origin, seq, [slot, seq, ...], payload, [stream, [[slot, stream, seq], ...], [slot, ...]]]
    [2, origin, seq, [slot, seq, ...]]                               Phantom
    [3, origin, [count, ...], payload]                               VectorMessage
    [3, origin, [count, ...], payload, [count, ...]]                 VectorMessage, two vectors

Contexts travel as flat pairs: small numbers take one byte each, a packed dot would take nine.
Whatever bytes come in, ``decode`` gives a message of the right types and sizes or raises
``WireError``; whether the message makes sense is for the engine to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX, SLOT_MAX
from thence.errors import WireError
from thence.message import (
    PAYLOAD_BYTES_MAX,
    STREAM_CHARS_MAX,
    Aside,
    Message,
    Phantom,
    StreamDot,
    VectorMessage,
    WireMessage,
)

CONTEXT_DOTS_MAX = 4096

_Slot = Annotated[int, msgspec.Meta(ge=0, le=SLOT_MAX)]
_Seq = Annotated[int, msgspec.Meta(ge=1, le=SEQ_MAX)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=SEQ_MAX)]
_Pairs = Annotated[list[_Count], msgspec.Meta(max_length=2 * CONTEXT_DOTS_MAX)]
_Vector = Annotated[tuple[_Count, ...], msgspec.Meta(max_length=SLOT_MAX + 1)]
_Payload = Annotated[bytes, msgspec.Meta(max_length=PAYLOAD_BYTES_MAX)]
_StreamName = Annotated[str, msgspec.Meta(max_length=STREAM_CHARS_MAX)]


class _StreamDot(msgspec.Struct, array_like=True, gc=False):
    slot: _Slot
    stream: _StreamName
    seq: _Seq


class _Aside(msgspec.Struct, array_like=True, gc=False):
    stream: _StreamName
    context: Annotated[list[_StreamDot], msgspec.Meta(max_length=CONTEXT_DOTS_MAX)]
    hidden: _Pairs


class _Message(msgspec.Struct, array_like=True, tag=1, omit_defaults=True, gc=False):
    origin: _Slot
    seq: _Seq
    context: _Pairs
    payload: _Payload
    aside: _Aside | None = None


class _Phantom(msgspec.Struct, array_like=True, tag=2, gc=False):
    origin: _Slot
    seq: _Seq
    context: _Pairs


class _VectorMessage(msgspec.Struct, array_like=True, tag=3, gc=False):
    origin: _Slot
    vector: _Vector
    payload: _Payload
    application: _Vector = ()


_decoder = msgspec.msgpack.Decoder(_Message | _Phantom | _VectorMessage)
_encoder = msgspec.msgpack.Encoder()


def encode(message: WireMessage) -> bytes:
    """The bytes of a message."""
    return _encoder.encode(
        _to_wire(message, b"" if isinstance(message, Phantom) else message.payload)
    )


def decode(data: bytes) -> WireMessage:
    """The message in these bytes; WireError says what is wrong with anything else."""
    try:
        wire = _decoder.decode(data)  # ValueError: text that is not UTF-8
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"{len(data)} bytes are not a message: {error}") from None
    if isinstance(wire, _Message):
        aside = None if wire.aside is None else _read_aside(wire.aside)
        return Message(wire.origin, wire.seq, _packed(wire.context), wire.payload, aside)
    if isinstance(wire, _Phantom):
        return Phantom(wire.origin, wire.seq, _packed(wire.context))
    return VectorMessage(wire.origin, wire.vector, wire.payload, wire.application)


def metadata_bytes(message: WireMessage) -> int:
    """What the message takes on the wire beside its payload: dot, context or vectors, kind."""
    return len(_encoder.encode(_to_wire(message, b"")))


def _to_wire(message: WireMessage, payload: bytes) -> tuple[object, ...]:
    if isinstance(message, Message):
        head = (1, message.origin, message.seq, _flat(message.context), payload)
        aside = message.aside
        if aside is None:
            return head
        return (*head, (aside.stream, aside.context, _flat(aside.hidden)))
    if isinstance(message, Phantom):
        return (2, message.origin, message.seq, _flat(message.context))
    if message.application:
        return (3, message.origin, message.vector, payload, message.application)
    return (3, message.origin, message.vector, payload)


def _flat(context: Sequence[int]) -> list[int]:
    return [part for d in context for part in (d >> SEQ_BITS, d & SEQ_MAX)]


def _packed(flat: list[int]) -> tuple[int, ...]:
    if len(flat) % 2:
        raise WireError("a context has a slot without a sequence number")
    pairs = iter(flat)
    return tuple([slot << SEQ_BITS | seq for slot, seq in zip(pairs, pairs, strict=True)])


def _read_aside(aside: _Aside) -> Aside:
    named = tuple([StreamDot(d.slot, d.stream, d.seq) for d in aside.context])
    return Aside(aside.stream, named, _packed(aside.hidden))
