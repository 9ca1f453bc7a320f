"""A slow engine that is right by construction, and can be told to be wrong in one way.

It keeps every causal history as a set of dots.  The oracle's own tests need an engine whose bugs
they choose: each bug here is one that some checker must find.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from thence.causal.dot import pack, slot_of
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.reject import DUPLICATE, Reject, Waiting
from thence.message import Message, Phantom, WireMessage

BUGS = (
    "early",  # deliver without waiting for predecessors
    "twice",  # deliver a duplicate again
    "own",  # deliver one's own messages
    "lost",  # never deliver the second message of the last node
    "under-tag",  # leave one predecessor out of the tag
    "over-tag",  # keep a predecessor that another covers
    "receiver-tag",  # hand the receiver an empty context
    "unsound",  # call stable what one member may not have
    "unsound-phantom",  # believe a phantom whose announcer's messages are missing
    "never-stable",  # forget to tell the first message
    "stable-twice",
    "disorder",  # tell stable messages in the wrong order
    "leak",  # keep metadata of stable messages
    "waiting",  # do not list what is held back
    "foreign",  # deliver a message that nobody sent
    "k-early",  # tell k-stable at once
    "k-never",
)


@dataclass(eq=False)
class NaiveTag:
    origin: int
    seq: int
    payload: bytes
    predecessors: tuple[int, ...]
    vector: None = None

    @property
    def dot(self) -> int:
        return pack(self.origin, self.seq)


@dataclass
class Shared:
    """What client and middleware of one node share: histories only ever grow."""

    history: dict[int, frozenset[int]] = field(default_factory=dict)

    def close(self, dots: Sequence[int]) -> frozenset[int]:
        found: set[int] = set()
        for dot in dots:
            found |= self.history[dot]
        return frozenset(found)

    def maximal(self, dots: frozenset[int]) -> tuple[int, ...]:
        covered: set[int] = set()
        for dot in dots:
            covered |= self.history[dot] - {dot}
        return tuple(sorted(dots - covered))


class NaiveClient:
    def __init__(self, slot: int, shared: Shared, bug: str) -> None:
        self.slot, self.shared, self.bug = slot, shared, bug
        self.seq = 0
        self.past: frozenset[int] = frozenset()

    def broadcast(self, payload: bytes) -> NaiveTag:
        self.seq += 1
        context = self.shared.maximal(self.past)
        dot = pack(self.slot, self.seq)
        self.shared.history[dot] = self.past | {dot}
        if self.bug == "under-tag" and len(context) > 1:
            context = context[1:]
        if self.bug == "over-tag" and len(self.past) > len(context):
            context = tuple(sorted({*context, min(self.past)}))
        self.past |= {dot}
        return NaiveTag(self.slot, self.seq, payload, context)

    def consume(self, tag: NaiveTag) -> None:
        self.past |= self.shared.history.get(tag.dot, frozenset([tag.dot]))

    def stabilised(self, tag: NaiveTag) -> None:
        pass

    def phantom(self) -> Phantom:
        return Phantom(self.slot, self.seq + 1, self.shared.maximal(self.past))


class NaiveEngine:
    def __init__(
        self, slot: int, size: int, shared: Shared, options: EngineOptions, bug: str
    ) -> None:
        self.slot, self.size, self.shared, self.bug = slot, size, shared, bug
        self.options = options
        self.pending: dict[int, Message] = {}
        self.delivered: dict[int, NaiveTag] = {}
        self.known: list[set[int]] = [set() for _ in range(size)]
        self.phantoms: list[Phantom] = []
        self.told: set[int] = set()
        self.k_told: set[int] = set()
        self.held: set[int] = set()

    def broadcast(self, tag: NaiveTag, out: Effects) -> None:
        out.send.append(Message(tag.origin, tag.seq, tag.predecessors, tag.payload))
        self._take(tag, out)
        if self.bug == "own":
            out.deliver.append(tag)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        out.send.append(phantom)

    def forget(self, tag: NaiveTag) -> None:
        if self.bug != "leak":
            self.held.discard(tag.dot)

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        if isinstance(message, Phantom):
            self.phantoms.append(message)
            self._stabilise(out)
            return
        assert isinstance(message, Message)
        dot = pack(message.origin, message.seq)
        if dot in self.delivered or dot in self.pending:
            out.reject.append(Reject(peer, DUPLICATE, "seen before"))
            if self.bug == "twice" and dot in self.delivered:
                out.deliver.append(self.delivered[dot])
            return
        if self.bug == "lost" and message.origin == self.size - 1 and message.seq == 2:
            return
        self.pending[dot] = message
        self._drain(out)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        for message in messages:
            self.receive(peer, message, out)

    def _missing(self, message: Message) -> list[int]:
        needed = list(message.context)
        if message.seq > 1:
            needed.append(pack(message.origin, message.seq - 1))
        return sorted(dot for dot in needed if dot not in self.delivered)

    def _drain(self, out: Effects) -> None:
        found = True
        while found:
            found = False
            for dot, message in sorted(self.pending.items()):
                if not self._missing(message) or self.bug == "early":
                    del self.pending[dot]
                    context = () if self.bug == "receiver-tag" else message.context
                    tag = NaiveTag(message.origin, message.seq, message.payload, context)
                    known = [d for d in message.context if d in self.shared.history]
                    self.shared.history[dot] = self.shared.close(known) | {dot}
                    out.deliver.append(tag)
                    if self.bug == "foreign":
                        out.deliver.append(NaiveTag(message.origin, 99, b"", ()))
                    self._take(tag, out)
                    found = True

    def _take(self, tag: NaiveTag, out: Effects) -> None:
        self.delivered[tag.dot] = tag
        self.held.add(tag.dot)
        self.known[tag.origin] |= self.shared.history[tag.dot]
        self.known[self.slot].add(tag.dot)
        self._stabilise(out)

    def flush(self, out: Effects) -> None:
        self._stabilise(out)

    def _use_phantoms(self) -> None:
        for phantom in self.phantoms:
            reached = sum(slot_of(dot) == phantom.origin for dot in self.delivered)
            if phantom.seq == reached + 1 or self.bug == "unsound-phantom":
                here = [dot for dot in phantom.context if dot in self.shared.history]
                self.known[phantom.origin] |= self.shared.close(here)

    def _stabilise(self, out: Effects) -> None:
        if not self.options.stability:
            return
        self._use_phantoms()
        last = self.size - 1
        need = [k for j, k in enumerate(self.known) if j < last or self.bug != "unsound"]
        stable = set(self.delivered).intersection(*need) - self.told
        if self.bug == "never-stable":
            stable.discard(pack(0, 1))
        order = sorted(stable, key=lambda dot: (len(self.shared.history[dot]), dot))
        if self.bug == "disorder":
            order.reverse()
        for dot in order:
            out.stable.append(self.delivered[dot])
            if self.bug == "stable-twice":
                out.stable.append(self.delivered[dot])
        self.told |= stable
        self._k_stabilise(out)

    def _k_stabilise(self, out: Effects) -> None:
        if not self.options.k or self.bug == "k-never":
            return
        for dot in sorted(set(self.delivered) - self.k_told):
            have = sum(dot in known for known in self.known)
            if have >= self.options.k or self.bug == "k-early":
                self.k_told.add(dot)
                out.k_stable.append(self.delivered[dot])

    def waiting(self) -> list[Waiting]:
        if self.bug == "waiting":
            return []
        return [Waiting(dot, self._missing(m)[0]) for dot, m in sorted(self.pending.items())]

    def words(self) -> int:
        return self.size + len(self.held) if self.options.stability else self.size


def naive(bug: str = "") -> EngineSpec:
    """The naive engine, with a bug or without."""

    def make(members: Members, slot: int, options: EngineOptions) -> Any:
        shared = Shared()
        engine = NaiveEngine(slot, len(members), shared, options, bug)
        return NaiveClient(slot, shared, bug), engine

    return EngineSpec(
        name=f"naive{'-' + bug if bug else ''}", summary="slow and right", guarantee="causal",
        tags="exact", stability=True, phantoms=True, make=make,
        k_stability=True,
    )  # fmt: skip
