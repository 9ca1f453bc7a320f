"""A message to bytes and back: MessagePack arrays, the first element says which kind.

    [1, origin, seq, [dot, ...], payload, nil]                      Message
    [1, origin, seq, [dot, ...], payload, [stream, [[slot, stream, seq], ...], [dot, ...],
                                           [slot, ...], hollow]]    streams, recipients
    [2, origin, seq, [dot, ...]]                                    Phantom
    [3, origin, [count, ...], payload, []]                          VectorMessage
    [3, origin, [count, ...], payload, [count, ...]]                VectorMessage, two vectors
    [4, origin, seq, [payload, ...]]                                Chain, in batches only
    [5, origin, seq, [number, ...], payload, [slot, ...]]           Stamped
    [6, origin, kind, [number, ...]]                                Control
    [7, [[5, ...], ...]]                                            Bundle

A dot in a context travels as it is in memory, packed into one integer of up to nine bytes: pairs of
small numbers are about three bytes shorter, and cost several times the work of all the rest
(docs/adr/0009).  A batch is an array of messages, each encoded once however many peers it goes to;
in it a chain stands for several messages that name nothing but the one before them.

Whatever bytes come in, ``decode`` gives a message of the right types and sizes or raises
``WireError``; whether the message makes sense is for the engine to say.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from thence.errors import WireError
from thence.message import (
    Bundle,
    Chain,
    Control,
    Message,
    Phantom,
    Stamped,
    VectorMessage,
    WireMessage,
)

BATCH_MESSAGES_MAX: Final = 65_535
"""In one batch: its length has two bytes."""

Plain = Message | VectorMessage | Stamped | Control | Bundle
BatchItem = Plain | Chain
"""What a batch is made of."""

_decoder = msgspec.msgpack.Decoder(Plain | Phantom)
_batch_decoder = msgspec.msgpack.Decoder(list[Plain | Chain])
_encoder = msgspec.msgpack.Encoder()
_ARRAY: Final = struct.Struct(">BH")
_ARRAY_16: Final = 0xDC

encode = _encoder.encode
"""The bytes of a message."""


def decode(data: bytes) -> WireMessage:
    """The message in these bytes; WireError says what is wrong with anything else."""
    try:
        message: WireMessage = _decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"{len(data)} bytes are not a message: {error}") from None
    return message


def join_batch(messages: Sequence[bytes]) -> list[bytes]:
    """The parts of a batch of encoded messages, at most BATCH_MESSAGES_MAX."""
    return [_ARRAY.pack(_ARRAY_16, len(messages)), *messages]


def decode_batch(data: bytes | memoryview) -> list[BatchItem]:
    """What a batch is made of, or WireError.  Phantoms do not travel in batches."""
    try:
        items: list[BatchItem] = _batch_decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"{len(data)} bytes are not a batch of messages: {error}") from None
    return items


def messages_of(items: Iterable[BatchItem]) -> list[Plain]:
    """The messages of a batch, one by one."""
    messages: list[Plain] = []
    for item in items:
        if type(item) is Chain:
            messages += item.messages()
        else:
            messages.append(item)  # type: ignore[arg-type]
    return messages


def metadata_bytes(message: WireMessage) -> int:
    """What the message takes on the wire beside its payload: dot, context or vectors, kind."""
    if isinstance(message, Message):
        message = Message(message.origin, message.seq, message.context, b"", message.aside)
    elif isinstance(message, VectorMessage):
        message = VectorMessage(message.origin, message.vector, b"", message.application)
    elif isinstance(message, Stamped):
        message = Stamped(message.origin, message.seq, message.stamp, b"", message.to)
    elif isinstance(message, Bundle):
        # Payloads that come along belong to other messages: they are the price of this one.
        last = message.messages[-1]
        bare = Stamped(last.origin, last.seq, last.stamp, b"", last.to)
        message = Bundle((*message.messages[:-1], bare))
    return len(_encoder.encode(message))
