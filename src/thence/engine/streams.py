"""Streams have local numbers, so that their dots are packed integers like all others.

The numbers lie above every slot and are this node's own: what travels, and what is written down,
names a stream by its node and its name.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from typing import Final

from thence.causal.dot import SEQ_BITS, SEQ_MAX, SLOT_MAX
from thence.message import Message, StreamDot

STREAM_BASE: Final = SLOT_MAX + 1  # local numbers of streams start here, above every slot
STREAMS_PER_NODE_MAX: Final = 256


class StreamNames:
    """The streams that were used or named so far."""

    def __init__(self) -> None:
        self.streams: list[tuple[int, str]] = []
        """By local number, from STREAM_BASE: slot and name."""
        self.stream_ids: dict[tuple[int, str], int] = {}
        self.opened: dict[int, set[str]] = {}
        """By slot, the streams on which that node has sent."""

    def stream_number(self, slot: int, stream: str) -> int:
        """The local number of a stream, whether its node has used it yet or somebody named it."""
        key = (slot, stream)
        number = self.stream_ids.get(key, -1)
        if number < 0:
            number = STREAM_BASE + len(self.streams)
            self.streams.append(key)
            self.stream_ids[key] = number
        return number

    def may_open(self, slot: int, stream: str) -> bool:
        """May that node use this stream?  Only what it opened itself counts, so nobody else can
        use up its streams by naming them."""
        opened = self.opened.get(slot)
        return opened is None or stream in opened or len(opened) < STREAMS_PER_NODE_MAX

    def open_stream(self, slot: int, stream: str) -> int:
        """That node uses this stream; its local number."""
        self.opened.setdefault(slot, set()).add(stream)
        return self.stream_number(slot, stream)

    def stream_dot(self, packed: int) -> StreamDot:
        """The form of a stream's dot that travels."""
        slot, stream = self.streams[(packed >> SEQ_BITS) - STREAM_BASE]
        return StreamDot(slot, stream, packed & SEQ_MAX)

    def stream_packed(self, dot: StreamDot) -> int:
        """The local form of a stream's dot that travelled."""
        return self.stream_number(dot.slot, dot.stream) << SEQ_BITS | dot.seq

    def named_by(self, message: Message) -> tuple[int, ...]:
        """What a message names on streams, in local numbers, sorted."""
        if message.aside is None:
            return ()
        return tuple(sorted([self.stream_packed(d) for d in message.aside.context]))
