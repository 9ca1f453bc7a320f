"""The trace of a real node: what its application was told and what arrived, in order.

The same records as the simulator writes (sim/recorder.py), from the inside of one node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thence.causal.context import Frontier
from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot
from thence.engine.streams import STREAM_BASE
from thence.message import Bundle, Message, Phantom, Stamped, VectorMessage, WireMessage
from thence.trace.payload import payload_of
from thence.trace.record import (
    DELIVER,
    END,
    JOIN,
    PHANTOM,
    READY,
    RECEIVE,
    RESTART,
    SAMPLE,
    SEND,
    SNAPSHOT,
    STABLE,
)
from thence.trace.resumable import ResumableLog
from thence.wire.codec import metadata_bytes


class Tracing:
    """Writes the log of one node.  Times are microseconds of the node's clock."""

    def __init__(
        self, log: ResumableLog, names: Sequence[str], payloads: bool, over: bool = False
    ) -> None:
        """``over``: the engine's vectors count more than its application saw."""
        self.log = log
        self._names = names
        self._payloads = payloads
        self._over = over
        self._frontier = Frontier()  # for engines that tag by vectors
        # For engines of bundles, the last message by origin: what came alone, and what was brought.
        self._alone: dict[int, int] = {}
        self._brought: dict[int, int] = {}

    def sent(self, now_us: int, tag: Any, message: WireMessage) -> None:
        """The application broadcast."""
        recipients: list[str] | None = None
        stream = ""
        if isinstance(message, Message):
            stream = message.stream
            if message.to:
                recipients = [self._names[slot] for slot in message.to]
            context = self.context_of(message)
        elif isinstance(message, VectorMessage):
            context = self._context_of(tag, message)
        else:
            context = []
        self.log.append(
            SEND,
            now_us,
            self._dot(tag),
            context,
            bytes=metadata_bytes(message),
            stream=stream or None,
            payload=self._payload(tag.payload),
            to=recipients,
        )

    def stamped(self, now_us: int, tag: Any, messages: Sequence[WireMessage]) -> None:
        """The application broadcast, and these went out for it: none if it has to wait for its
        turn.  What was before it the log itself says."""
        to = [self._names[slot] for slot in tag.to] or None
        size = max(map(metadata_bytes, messages), default=None)
        payload = self._payload(tag.payload)
        self.log.append(SEND, now_us, self._dot(tag), [], bytes=size, payload=payload, to=to)

    def _arrived_together(self, now_us: int, bundle: Bundle) -> None:
        """Most of a bundle is not there for the first time: those of a sender come in order."""
        for message in bundle.messages:
            origin = message.origin
            if message.seq > max(self._brought.get(origin, 0), self._alone.get(origin, 0)):
                self._brought[origin] = message.seq
                self.log.append(RECEIVE, now_us, self._dot_of(message.origin, "", message.seq))

    def arrived(self, now_us: int, messages: Sequence[WireMessage]) -> None:
        """The network brought these, for the first time."""
        for message in messages:
            if isinstance(message, Message):
                if message.aside is not None and message.aside.hollow:
                    continue  # it is for others
                dot = self._dot_of(message.origin, message.stream, message.seq)
            elif isinstance(message, VectorMessage):
                dot = self._dot_of(message.origin, "", message.vector[message.origin])
            elif isinstance(message, Stamped):
                if message.seq <= self._brought.get(message.origin, 0):
                    continue
                self._alone[message.origin] = message.seq
                dot = self._dot_of(message.origin, "", message.seq)
            elif isinstance(message, Bundle):
                self._arrived_together(now_us, message)
                continue
            else:
                continue
            self.log.append(RECEIVE, now_us, dot)

    def ready(self, now_us: int, tags: Sequence[Any]) -> None:
        """These may be handed over."""
        for tag in tags:
            if not getattr(tag, "hollow", False):
                self.log.append(READY, now_us, self._dot(tag))

    def delivered(self, now_us: int, tag: Any) -> None:
        """The application took it."""
        self.log.append(DELIVER, now_us, self._dot(tag))
        if tag.vector is not None and not self._over:
            self._frontier.consume_vector(tag.origin << SEQ_BITS | tag.seq, tag.vector)

    def told(self, now_us: int, tag: Any) -> None:
        """The application was told that it is stable."""
        self.log.append(STABLE, now_us, self._dot(tag))

    def announced(self, now_us: int, phantom: Phantom, context: Sequence[Dot]) -> None:
        """This node told the others what it has consumed; ``context`` is what its next message
        would name, streams included, which do not travel."""
        self.log.append(PHANTOM, now_us, self._phantom_dot(phantom), context)

    def heard(self, now_us: int, phantom: Phantom, peer: str) -> None:
        """A peer told it."""
        context = [self._named(packed) for packed in phantom.context]
        self.log.append(PHANTOM, now_us, self._phantom_dot(phantom), context, peer=peer)

    def sample(self, now_us: int, words: int) -> None:
        """How much metadata there is."""
        self.log.append(SAMPLE, now_us, words=words)

    def restarted(
        self, now_us: int, taken: Sequence[Dot], told: Sequence[Dot],
        members: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        """The node came back with this confirmed.

        ``members``: as its application had confirmed them; None: as it was last told of them.
        """
        self.log.append(RESTART, now_us, context=taken, stable=told, to=members)

    def follow(self, names: Sequence[str]) -> None:
        """Name members by this list, which grows as they come."""
        self._names = names

    def changed(self, now_us: int, kind: str, member: str, cut: int, view: int) -> None:
        """The application was told that a member joined, left or was evicted."""
        dot = Dot(member, cut) if cut and kind != JOIN else None
        self.log.append(kind, now_us, dot, peer=member, extra={"view": view})

    def began(
        self, now_us: int, provider: str, taken: Sequence[Dot], told: Sequence[Dot],
        members: Sequence[str],
    ) -> None:  # fmt: skip
        """The node took over the state of another."""
        self.log.append(
            SNAPSHOT, now_us, context=taken, stable=told, peer=provider, to=list(members)
        )

    def ended(self, now_us: int) -> None:
        """The log is complete."""
        self.log.append(END, now_us)

    def context_of(self, message: Message) -> list[Dot]:
        """The immediate predecessors, those on streams included."""
        dots = [self._named(packed) for packed in message.context]
        dots += [self._dot_of(d.slot, d.stream, d.seq) for d in message.stream_context]
        return sorted(dots)

    def _context_of(self, tag: Any, message: VectorMessage) -> list[Dot]:
        """What the vector stands for.  One that counts more than its application saw is logged
        whole: what was seen by then cannot be told from it."""
        if self._over:
            counts = list(message.vector)
            counts[message.origin] -= 1
            return [self._named(slot << SEQ_BITS | seq) for slot, seq in enumerate(counts) if seq]
        context = [self._named(packed) for packed in self._frontier.context()]
        self._frontier.send(tag.origin << SEQ_BITS | tag.seq)
        return context

    def _named(self, packed: int) -> Dot:
        return Dot(self._names[packed >> SEQ_BITS], packed & SEQ_MAX)

    def _dot_of(self, slot: int, stream: str, seq: int) -> Dot:
        name = self._names[slot]
        return Dot(f"{name}/{stream}" if stream else name, seq)

    def _phantom_dot(self, phantom: Phantom) -> Dot:
        return Dot(self._names[phantom.origin], phantom.seq)

    def _dot(self, tag: Any) -> Dot:
        packed = getattr(tag, "packed", -1)
        if packed >> SEQ_BITS >= STREAM_BASE:
            dot: Dot = tag.dot
            return dot
        return Dot(self._names[tag.origin], tag.seq)

    def _payload(self, payload: bytes) -> Any:
        return payload_of(payload) if self._payloads else None
