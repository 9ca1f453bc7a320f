"""Writes what happens in a simulated cluster to a trace, one log per node.

The log of a node is in the order of its events.  ``send``, ``deliver``, ``stable`` and ``phantom``
(announced) are moments of the application; ``receive``, ``ready`` and ``phantom`` (taken) moments
of the middleware.  Where the middleware tags ("over"), ``send`` is the moment when it does.

Contexts are those of the tags.  For engines that tag by vectors they follow from the vectors: a
message of the frontier goes when a vector that came later counts it.  A vector that counts more
than the application saw is logged whole, the last message of every origin: what one application
saw by then cannot be told from what its middleware counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thence.causal.dot import SEQ_BITS, Dot, seq_of, slot_of
from thence.engine.base import Client, EngineSpec
from thence.message import (
    Aside,
    Bundle,
    Message,
    Phantom,
    Stamped,
    StreamDot,
    VectorMessage,
    WireMessage,
)
from thence.sim.clock import TimedWatcher
from thence.sim.cluster import Cluster
from thence.trace.record import DELIVER, END, PHANTOM, READY, RECEIVE, SAMPLE, SEND, STABLE
from thence.trace.writer import RunWriter
from thence.wire.codec import metadata_bytes


class Recorder(TimedWatcher):
    """A watcher that writes."""

    clients: Sequence[Client]
    """Set by the run before anything happens."""

    def __init__(self, spec: EngineSpec, names: list[str], writer: RunWriter) -> None:
        self._names = names
        self._logs = [writer.log(name) for name in names]
        self._over = spec.tags == "over"
        self._stamped = spec.stamped
        self._streams = len(names) << SEQ_BITS if spec.streams else 0
        """Packed dots from here on are numbers that a node gave to a stream; 0 without streams."""
        self._double = spec.name.endswith("-e2e")
        self._seen: list[set[int | Dot]] = [set() for _ in names]
        self._frontier: list[dict[int, int]] = [{} for _ in names]
        """For engines of vectors: newest message by slot, without what a later one counts."""
        self._dots: dict[int, Dot] = {}
        """Readable dots by packed dot: each message is logged 4 N times, its dot made once."""

    # What the watcher sees.

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        if self._over:
            return
        now_us = self.clock.now_us
        to = [self._names[slot] for slot in getattr(tag, "to", ())] or None
        if self._stamped:
            # What goes out for it, and when, the engine has yet to say.
            self._logs[node].append(SEND, now_us, self._dot(tag), to=to)
            return
        if tag.predecessors is not None:
            size = metadata_bytes(_message_of(tag))
            context = [self._by_number(tag, packed) for packed in tag.predecessors]
            context.sort()
        else:
            # The middleware's own vector is not known yet; it is as long as the application's.
            second = tag.vector if self._double else ()
            size = metadata_bytes(VectorMessage(tag.origin, tag.vector, b"", second))
            context = self._context(node, tag.origin, tag.seq)
        stream = getattr(tag, "stream", "") or None
        self._logs[node].append(SEND, now_us, self._dot(tag), context, size, stream, to=to)

    def wired(self, node: int, message: WireMessage) -> None:
        if self._over and isinstance(message, VectorMessage):
            counts = list(message.vector)
            dot = self._named(node << SEQ_BITS | counts[node])
            counts[node] -= 1
            context = [
                self._named(slot << SEQ_BITS | seq) for slot, seq in enumerate(counts) if seq
            ]
            size = metadata_bytes(message)
            self._logs[node].append(SEND, self.clock.now_us, dot, context, size)

    def phantom_made(self, node: int, phantom: Phantom) -> None:
        dot = self._named(phantom.origin << SEQ_BITS | phantom.seq)
        context = [self._named(packed) for packed in phantom.context]
        client: Any = self.clients[node]
        if self._streams and client.frontier.stream_context:
            # What travels leaves streams out; what is logged is the context of the next message.
            frontier = client.frontier
            named = sorted(frontier.context) + sorted(frontier.stream_context)
            context = sorted([client.past.dot_of(packed) for packed in named])
        self._logs[node].append(PHANTOM, self.clock.now_us, dot, context)

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        key: int | Dot
        if isinstance(message, Message):
            if message.aside is not None and message.aside.hollow:
                return
            key = message.origin << SEQ_BITS | message.seq
            if message.aside is not None and message.stream:
                key = self._stream_dot(StreamDot(message.origin, message.stream, message.seq))
        elif isinstance(message, VectorMessage):
            key = message.origin << SEQ_BITS | message.vector[message.origin]
        elif isinstance(message, Stamped):
            key = message.origin << SEQ_BITS | message.seq
        elif isinstance(message, Bundle):
            for each in message.messages:
                self.arriving(node, peer, each)
            return
        else:
            return
        seen = self._seen[node]
        if key not in seen:
            seen.add(key)
            dot = self._named(key) if isinstance(key, int) else key
            self._logs[node].append(RECEIVE, self.clock.now_us, dot)

    def arrived(self, node: int, peer: int, message: WireMessage) -> None:
        if isinstance(message, Phantom):
            dot = self._named(message.origin << SEQ_BITS | message.seq)
            context = [self._named(packed) for packed in message.context]
            now_us = self.clock.now_us
            self._logs[node].append(PHANTOM, now_us, dot, context, peer=self._names[peer])

    def ready(self, node: int, tag: Any) -> None:
        if not (self._streams and tag.hollow):
            self._logs[node].append(READY, self.clock.now_us, self._dot(tag))

    def consumed(self, node: int, tag: Any) -> None:
        self._logs[node].append(DELIVER, self.clock.now_us, self._dot(tag))
        if not self._over and tag.vector is not None:
            self._advance(node, tag)

    def stabilised(self, node: int, tag: Any) -> None:
        self._logs[node].append(STABLE, self.clock.now_us, self._dot(tag))

    # What the run asks for.

    def sample(self, cluster: Cluster) -> None:
        for log, engine in zip(self._logs, cluster.engines, strict=True):
            log.append(SAMPLE, self.clock.now_us, words=engine.words())

    def end(self) -> None:
        """Every log is complete."""
        for log in self._logs:
            log.append(END, self.clock.now_us)

    # Dots and contexts.

    def _named(self, packed: int) -> Dot:
        dot = self._dots.get(packed)
        if dot is None:
            dot = self._dots[packed] = Dot(self._names[slot_of(packed)], seq_of(packed))
        return dot

    def _stream_dot(self, dot: StreamDot) -> Dot:
        return Dot(f"{self._names[dot.slot]}/{dot.stream}", dot.seq)

    def _dot(self, tag: Any) -> Dot:
        if self._streams:
            # Tags of engines with streams carry their number; this runs four times per delivery.
            packed: int = tag.packed
            dot = self._dots.get(packed)
            if dot is not None:
                return dot
            if packed >= self._streams:
                named: Dot = tag.dot
                return named
            return self._named(packed)
        return self._named(tag.origin << SEQ_BITS | tag.seq)

    def _by_number(self, tag: Any, packed: int) -> Dot:
        if not self._streams or packed < self._streams:
            return self._named(packed)
        return self._stream_dot(tag.past.stream_dot(packed))

    def _context(self, node: int, origin: int, seq: int) -> list[Dot]:
        """The frontier of an engine of vectors; from now on it is this message alone."""
        frontier = self._frontier[node]
        context = [self._named(slot << SEQ_BITS | at) for slot, at in sorted(frontier.items())]
        self._frontier[node] = {origin: seq}
        return context

    def _advance(self, node: int, tag: Any) -> None:
        vector = tag.vector
        frontier = self._frontier[node]
        covered = [slot for slot, seq in frontier.items() if vector[slot] >= seq]
        for slot in covered:
            del frontier[slot]
        frontier[tag.origin] = tag.seq


def _message_of(tag: Any) -> Message:
    """What a tag by dots travels as, without its payload."""
    streams: tuple[int, ...] = getattr(tag, "stream_context", ())
    to: tuple[int, ...] = getattr(tag, "to", ())
    if not streams and not to and not getattr(tag, "stream", ""):
        return Message(tag.origin, tag.seq, tag.predecessors, b"")
    dots = tuple(tag.past.stream_dot(packed) for packed in streams)
    context = tuple(packed for packed in tag.predecessors if packed not in streams)
    return Message(tag.origin, tag.seq, context, b"", Aside(tag.stream, dots, tag.hidden, to))
