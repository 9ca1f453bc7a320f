"""Two replicas of one object, in a group of two real engines.

What is timed and what is not:

- ``local``: prepare, effect, and the payload of the message (crdt/batch.py: its frame, the clock,
  key and type included);
- ``remote``: decode and check the payload, effect;
- ``stable``: the object is told what is stable, as many stamps at a time as the engine tells.

Making tags, causal order and stability are the group's work, and not counted unless ``whole`` asks
for it: then the message to bytes and back, tag, delivery, consumption and stability are in these
times, too.  Stamps ask tags (``Past.precedes``) in any case, so the price of ``sees`` is real.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.crdt.workload import Call
from thence.client.replica_stamps import TagStamp
from thence.crdt import batch
from thence.crdt.base import Crdt, Op
from thence.crdt.registry import CRDTS
from thence.engine.effects import Effects
from thence.engine.registry import make_node
from thence.message import PAYLOAD_BYTES_MAX
from thence.wire import codec

NAMES = ("a", "b")
KEY = "k"
CLOCK_MS = 1_790_000_000_000


class Replica:
    """One side: an object, its node, and the stamps that are not stable."""

    def __init__(self, slot: int, kind: str) -> None:
        self.slot = slot
        self.client, self.engine = make_node(NAMES, NAMES[slot])
        self.out = Effects()
        self.object: Crdt = CRDTS[kind]()
        self.code = self.object.CODE
        self.stamps: dict[int, TagStamp] = {}
        self.clock_ms = CLOCK_MS

    def stamp(self, tag: Any, clock_ms: int) -> TagStamp:
        """Made when a batch takes effect."""
        slot = tag.origin
        made = self.stamps[tag.packed] = TagStamp(
            NAMES[slot], tag.seq, clock_ms, tag, slot == self.slot
        )
        return made


class Ours:
    """Both sides, and the times that they took."""

    def __init__(self, kind: str, per_message: int = 1, whole: bool = False) -> None:
        self.sides = [Replica(slot, kind) for slot in range(len(NAMES))]
        self.kind = kind
        self.per_message = per_message
        self.whole = whole
        self.seconds = {"local": 0.0, "remote": 0.0, "stable": 0.0}
        self.bytes = 0

    def calls(self, calls: Sequence[Call]) -> list[Call]:
        """Calls as ``prepare`` takes them."""
        if self.kind == "map_uw":
            return [
                (name, arguments[0])
                if name == "remove"
                else ("update", arguments[0], "register_counter", ("set", arguments[1]))
                for name, *arguments in calls
            ]
        if self.kind == "register_counter":
            return [("inc", n if name == "inc" else -n) for name, n in calls]
        return list(calls)

    def local(self, slot: int, calls: Sequence[Call]) -> list[bytes]:
        """One side carries out calls; the messages."""
        side = self.sides[slot]
        batches = [
            calls[at : at + self.per_message] for at in range(0, len(calls), self.per_message)
        ]
        side.clock_ms += 1
        if self.whole:
            start = time.process_time()
            for made in batches:
                tag = side.client.broadcast(b"")
                tag.body = self._carry_out(side, made, side.stamp(tag, side.clock_ms))
                side.engine.broadcast(tag, side.out)
            messages = [codec.encode(message) for message in side.out.send]
            self.seconds["local"] += time.process_time() - start
            side.out.send.clear()
        else:
            tags = [side.client.broadcast(b"") for _ in batches]
            stamps = [side.stamp(tag, side.clock_ms) for tag in tags]
            start = time.process_time()
            payloads = [
                self._carry_out(side, made, stamp)
                for made, stamp in zip(batches, stamps, strict=True)
            ]
            self.seconds["local"] += time.process_time() - start
            for tag, payload in zip(tags, payloads, strict=True):
                tag.body = payload
                side.engine.broadcast(tag, side.out)
            messages = [codec.encode(message) for message in side.out.send]
            side.out.send.clear()
        self.bytes += sum(map(len, messages))
        return messages

    def _carry_out(self, side: Replica, calls: Sequence[Call], stamp: TagStamp) -> bytes:
        """Calls that share a message; its payload.  As in a replica (client/replica.py) they take
        effect one by one, and travel as fewer operations if some of them merge."""
        prepare, effect, merge = side.object.prepare, side.object.effect, side.object.merge
        code = side.code
        items: list[Any] = []
        last: Op | None = None
        for call in calls:
            op = prepare(*call)
            effect(op, stamp)
            merged = None if last is None else merge(last, op)
            if merged is None:
                items += (KEY, code, op)
                last = op
            else:
                last = items[-1] = merged
        clock_ms = stamp.clock_ms if batch.asks_clock(items) else 0
        return batch.encode(clock_ms, items, PAYLOAD_BYTES_MAX)[0]

    def remote(self, slot: int, messages: list[bytes]) -> None:
        """The other side's messages take effect."""
        side = self.sides[slot]
        start = time.process_time() if self.whole else 0.0
        for data in messages:
            side.engine.receive(1 - slot, codec.decode(data), side.out)
        tags = side.out.deliver
        for tag in tags:
            side.client.consume(tag)
        if not self.whole:
            start = time.process_time()
        effect = side.object.effect
        for tag in tags:
            made = batch.decode(tag.payload)
            assert isinstance(made, batch.Batch)
            stamp = side.stamp(tag, made.clock_ms)
            items = made.items
            for at in range(2, len(items), 3):
                effect(items[at], stamp)
        self.seconds["remote"] += time.process_time() - start
        assert not side.out.reject, side.out.reject[0]
        tags.clear()

    def settle(self) -> None:
        """Both hear what the other one has, and tell their objects what is stable."""
        for slot, side in enumerate(self.sides):
            side.engine.announce(side.client.phantom(), side.out)
            other = self.sides[1 - slot]
            for message in side.out.send:
                other.engine.receive(slot, message, other.out)
            side.out.send.clear()
        for side in self.sides:
            start = time.process_time() if self.whole else 0.0
            side.engine.flush(side.out)
            found = side.out.stable
            for tag in found:
                side.client.stabilised(tag)
                side.engine.forget(tag)
            if not self.whole:
                start = time.process_time()
            stamps = {side.stamps.pop(tag.packed): None for tag in found}
            side.object.stabilise(stamps)
            self.seconds["stable"] += time.process_time() - start
            found.clear()

    def value(self, slot: int) -> Any:
        """What the users of one side read."""
        return self.sides[slot].object.value()

    def stamps_left(self) -> int:
        """How many stamps are in the objects."""
        return sum(len(side.object.stamps()) for side in self.sides)
