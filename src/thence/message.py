"""What engines exchange: typed values, frozen.  Bytes are the business of wire/.

Contexts are sorted tuples of packed dots (causal/dot.py), at most one per origin.
"""

from __future__ import annotations

import msgspec

PAYLOAD_BYTES_MAX = 16 * 1024 * 1024
STREAM_CHARS_MAX = 64


class StreamDot(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """A message on a stream of its own: ``slot`` is the node, ``stream`` its name there."""

    slot: int
    stream: str
    seq: int


class Aside(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What only messages need that travel on a stream of their own, or come after such ones."""

    stream: str = ""
    """The stream; empty for the default one, the only one that takes part in stability."""
    context: tuple[StreamDot, ...] = ()
    """Immediate predecessors that travelled on streams of their own, sorted."""
    hidden: tuple[int, ...] = ()
    """Predecessors on the default stream that only messages of streams put before this one."""


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message tagged by dot and context (engines ``tagged`` and ``graph``)."""

    origin: int
    seq: int
    context: tuple[int, ...]
    payload: bytes
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


class Phantom(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """``origin`` has consumed ``context``, and its next message will be ``seq`` (thesis 5.4)."""

    origin: int
    seq: int
    context: tuple[int, ...]


class VectorMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message tagged by a version vector (engines ``vector`` and ``cbcast``).

    ``application`` is the second, application-level vector of ``cbcast-e2e``; empty otherwise.
    """

    origin: int
    vector: tuple[int, ...]
    payload: bytes
    application: tuple[int, ...] = ()


WireMessage = Message | Phantom | VectorMessage
