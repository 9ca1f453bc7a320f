"""Random causal executions of one object of any data type.

Replicas do several things in one batch, get batches in any causal order (as they were prepared, or
merged), are told in batches and in any order what is stable, are loaded from their own state and
from that of others who let them in.  After every step each replica shows what the specification
says of what it has seen, and so does its twin, which is never told what is stable.
"""

from __future__ import annotations

import gc
import random
import types
from fractions import Fraction
from typing import Any

import msgspec

from tests.crdt import specification
from tests.crdt.calls import CALLS, NODES, Call, prepared
from tests.crdt.specification import EMPTY, NOTHING, SHOWN, Did
from thence.crdt.base import Crdt
from thence.crdt.children import UNREMOVABLE
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError

CLOCK_MS_MAX = 3
"""Clocks that say little, and not what happened before what."""
JOINERS_MAX = 2


class VectorStamp:
    """A stamp that knows its past as a version vector."""

    def __init__(self, node: str, seq: int, clock_ms: int, past: dict[str, int]) -> None:
        self.node = node
        self.seq = seq
        self.clock_ms = clock_ms
        self.past = {**past, node: seq}

    def sees(self, stored: Any) -> bool:
        return self.past.get(stored.node, 0) >= stored.seq


class Batch:
    """What travels: operations; and what the specification is told of them."""

    def __init__(self, node: str, seq: int, clock_ms: int, past: dict[str, int]) -> None:
        self.dot = (node, seq)
        self.clock_ms = clock_ms
        self.past = dict(past)
        self.ops: list[Any] = []
        self.done: list[Did] = []

    def stamp(self, kind: type[Crdt]) -> VectorStamp:
        """As a receiver has it: without a clock if no operation asks for it."""
        asks = any([kind.asks_clock(op) for op in self.ops])
        return VectorStamp(*self.dot, self.clock_ms if asks else 0, self.past)

    def merged(self, kind: type[Crdt]) -> list[Any]:
        """The operations, as few as they can be."""
        ops: list[Any] = []
        for op in self.ops:
            one = kind.merge(ops[-1], op) if ops else None
            ops[-1:] = [one] if one is not None else [*ops[-1:], op]
        return ops


class Replica:
    """An object, and its twin that is never told what is stable."""

    def __init__(self, name: str, kind: type[Crdt]) -> None:
        self.name = name
        self.kind = kind
        self.past: dict[str, int] = {}
        self.stamps: dict[tuple[str, int], VectorStamp] = {}
        self.unsettled: list[tuple[str, int]] = []
        self.done: list[Did] = []
        self.object = kind()
        self.twin = kind()

    def begin(self, batch: Batch) -> VectorStamp:
        node, seq = batch.dot
        stamp = batch.stamp(self.kind)
        if node == self.name:
            stamp.clock_ms = batch.clock_ms
        self.stamps[batch.dot] = stamp
        self.past[node] = seq
        self.unsettled.append(batch.dot)
        return stamp

    def effect(self, op: Any, stamp: VectorStamp) -> None:
        op = through_bytes(op)
        assert self.kind.check(op) == ""
        self.object.effect(op, stamp)
        self.twin.effect(op, stamp)

    def reload(self, name: str = "", stamps: dict[Any, VectorStamp] | None = None) -> Replica:
        """The replica that goes on from this one's state: this one again, or a newcomer."""
        made = Replica(name or self.name, self.kind)
        made.past = dict(self.past)
        made.stamps = self.stamps if stamps is None else stamps
        made.unsettled = self.unsettled.copy()
        made.done = self.done.copy()

        def stamp_of(node: str, seq: int, clock_ms: int) -> VectorStamp:
            made.stamps[node, seq].clock_ms = clock_ms
            return made.stamps[node, seq]

        made.object = self.kind.load(through_bytes(self.object.export()), stamp_of)
        made.twin = self.kind.load(through_bytes(self.twin.export()), stamp_of)
        return made


class World:
    """An execution; whoever draws decides what happens next."""

    def __init__(
        self, name: str, count: int, draw: random.Random, kind: type[Crdt] | None = None
    ) -> None:
        self.name = name
        self.call = CALLS[name](draw)
        self.kind = kind or CRDTS[name]
        self.replicas = [Replica(node, self.kind) for node in NODES[:count]]
        self.joiners = 0
        self.is_lamport = False
        """Whether clocks extend happens-before."""
        self.batches: dict[tuple[str, int], Batch] = {}
        self.expected: dict[Any, Any] = {}

    # What can happen

    def send(self, replica: Replica, draw: random.Random) -> None:
        seq = replica.past.get(replica.name, 0) + 1
        clock_ms = draw.randrange(CLOCK_MS_MAX)
        if self.is_lamport:
            clock_ms = 1 + max([seen.clock_ms for seen in replica.stamps.values()], default=0)
        batch = Batch(replica.name, seq, clock_ms, replica.past)
        stamp = batch.stamp(self.kind)
        call: Call = ()
        for _ in range(draw.choice((1, 1, 2, 3))):
            again = bool(call) and draw.random() < 0.2  # something to merge
            call = call if again else self.call(draw, replica.object, replica.name)
            try:
                op = prepared(replica.object, call, replica.name)
            except LocalProtocolError:
                assert again or self.lacks_rights(replica, call)
                continue
            if not batch.ops:
                stamp = replica.begin(batch)
            self.carry_out(replica, batch, stamp, op, call)
        if batch.ops:
            self.batches[batch.dot] = batch

    def carry_out(
        self, replica: Replica, batch: Batch, stamp: VectorStamp, op: Any, call: Call
    ) -> None:
        node, seq = batch.dot
        did = Did(node, seq, len(batch.ops), batch.clock_ms, batch.past, call[0], call[1:])
        batch.ops.append(op)
        batch.done.append(did)
        replica.done.append(did)
        replica.effect(op, stamp)
        self.compare(replica)

    def receive(self, replica: Replica, batch: Batch, is_merged: bool) -> None:
        stamp = replica.begin(batch)
        for op, did in zip(batch.ops, batch.done, strict=True):
            replica.done.append(did)
            if not is_merged:
                replica.effect(op, stamp)
                self.compare(replica)
        if is_merged:
            for op in batch.merged(self.kind):
                replica.effect(op, stamp)
            self.compare(replica)

    def deliverable(self, replica: Replica) -> list[Batch]:
        return [
            batch
            for (node, seq), batch in self.batches.items()
            if seq == replica.past.get(node, 0) + 1
            and all(replica.past.get(other, 0) >= upto for other, upto in batch.past.items())
        ]

    def stable(self, replica: Replica) -> list[tuple[str, int]]:
        """What everybody has, and all that the replica is still to receive is after."""
        missing = [
            batch for (node, seq), batch in self.batches.items() if seq > replica.past.get(node, 0)
        ]
        return [
            (node, seq)
            for node, seq in replica.unsettled
            if all(other.past.get(node, 0) >= seq for other in self.replicas)
            and all(batch.past.get(node, 0) >= seq for batch in missing)
        ]

    def stabilise(self, replica: Replica, draw: random.Random, everything: bool = False) -> None:
        dots = self.stable(replica)
        if dots and not everything and draw.random() < 0.5:
            upto = replica.stamps[draw.choice(dots)]
            dots = [dot for dot in dots if upto.sees(replica.stamps[dot])]
        draw.shuffle(dots)
        replica.object.stabilise({replica.stamps[dot]: None for dot in dots})
        replica.unsettled = [dot for dot in replica.unsettled if dot not in dots]
        self.compare(replica)

    def reload(self, replica: Replica) -> None:
        at = self.replicas.index(replica)
        self.replicas[at] = replica.reload()
        self.compare(self.replicas[at])

    def join(self, host: Replica) -> None:
        """A newcomer goes on from a copy of the host's state."""
        if self.joiners == JOINERS_MAX:
            return
        stamps = {dot: self.batches[dot].stamp(self.kind) for dot in host.stamps}
        joiner = host.reload(NODES[-1 - self.joiners], stamps)
        self.joiners += 1
        self.replicas.append(joiner)
        self.compare(joiner)

    # What must hold

    def compare(self, replica: Replica) -> None:
        # The last batch may not be complete.
        latest = replica.done[-1][:3] if replica.done else None
        cut = (*sorted(replica.past.items()), len(replica.done), latest)
        if cut not in self.expected:
            self.expected[cut] = [SHOWN[self.name](replica.done), None]
        shown, seen = self.expected[cut]
        for one in (replica.object, replica.twin):
            value = one.value()
            if self.name in EMPTY:
                assert one.is_empty == (shown is NOTHING)
            wanted = EMPTY[self.name] if shown is NOTHING else shown
            assert same(value, wanted), f"{value} instead of {wanted}"
            coherent(one, value)
            # Whoever is at this cut shows the same to the last detail: 1 is not 1.0.
            seen = self.expected[cut][1] = seen or details(value)
            assert details(value) == seen
        if self.name in ("counter_bounded", "counter_ranged"):
            self.compare_rights(replica)

    @property
    def is_removable(self) -> bool:
        return self.name not in UNREMOVABLE

    def compare_rights(self, replica: Replica) -> None:
        one: Any = replica.object
        made = specification.of(replica.done, "lower")
        lower = -sum(did.arguments[0] for did in made)
        for node in NODES:
            down = specification.rights(replica.done, node)
            assert down >= 0
            if self.name == "counter_bounded":
                assert one.rights(node) == down
            else:
                up = specification.rights(replica.done, node, upwards=True)
                assert up >= 0
                assert one.rights(node) == (down, up)
        if self.name == "counter_bounded":
            assert one.lower_bound == lower <= one.value()
        else:
            upper = sum(did.arguments[0] for did in specification.of(replica.done, "raise"))
            assert one.bounds == (lower, upper)
            assert lower <= one.value() <= upper

    def lacks_rights(self, replica: Replica, call: Call) -> bool:
        """Whether a call has to be refused; other ``CALLS`` make sense."""
        if self.name not in ("counter_bounded", "counter_ranged"):
            return False
        upwards = self.name == "counter_ranged" and call[0] in ("inc", "transfer_up")
        return specification.rights(replica.done, replica.name, upwards) < call[-1]

    def finish(self, draw: random.Random) -> None:
        """Everybody gets everything, all becomes stable, and nothing of stamps is left."""
        self.drain(draw)
        first = self.replicas[0].object
        for replica in self.replicas:
            assert details(replica.object.value()) == details(first.value())
            self.stabilise(replica, draw, everything=True)
            settled(replica.object)
        if self.is_removable:
            self.undo_everything(draw)

    def drain(self, draw: random.Random) -> None:
        for replica in self.replicas:
            while batches := self.deliverable(replica):
                self.receive(replica, draw.choice(batches), draw.random() < 0.5)
                if draw.random() < 0.1:
                    self.stabilise(replica, draw)

    def undo_everything(self, draw: random.Random) -> None:
        """A reset that sees all leaves nothing, as soon as it is stable."""
        last = self.replicas[0]
        batch = Batch(last.name, last.past.get(last.name, 0) + 1, 0, last.past)
        for replica in self.replicas:
            stamp = batch.stamp(self.kind)
            for one in (replica.object, replica.twin):
                one.reset(stamp)
                assert one.is_empty
            replica.object.stabilise({stamp: None})
            assert replica.object.is_initial
            assert replica.object.export() == self.kind().export()


class Execution:
    """A world, by a seed."""

    def __init__(
        self, name: str, seed: int, kind: type[Crdt] | None = None, batches: int = 5
    ) -> None:
        self.draw = random.Random(f"{name} {seed}")
        self.world = World(name, self.draw.choice((2, 3, 3, 4)), self.draw, kind)
        self.left = len(self.world.replicas) * batches

    def step(self) -> None:
        draw, world = self.draw, self.world
        replica = draw.choice(world.replicas)
        what = draw.random()
        if what < 0.3:
            self.left -= 1
            world.send(replica, draw)
        elif what < 0.75:
            if batches := world.deliverable(replica):
                world.receive(replica, draw.choice(batches), draw.random() < 0.5)
        elif what < 0.93:
            world.stabilise(replica, draw)
        elif what < 0.98:
            world.reload(replica)
        else:
            world.join(replica)

    def run(self) -> None:
        while self.left:
            self.step()
        self.world.finish(self.draw)


def through_bytes(what: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(what))


def same(value: Any, wanted: Any) -> bool:
    """Whether a value is what the specification says."""
    if isinstance(wanted, dict):
        return value.keys() == wanted.keys() and all(same(value[k], wanted[k]) for k in wanted)
    if isinstance(wanted, Fraction):
        return bool(value == (float(wanted) if isinstance(value, float) else wanted))
    if isinstance(wanted, set) and isinstance(value, list):
        return len(value) == len(wanted) == len(set(map(repr, value)) | wanted)
    return type(value) is type(wanted) and bool(value == wanted)


def details(value: Any) -> str:
    """All that can be told apart, in one order."""
    if isinstance(value, dict):
        return str(sorted((repr(field), details(shown)) for field, shown in value.items()))
    if isinstance(value, set):
        return str(sorted(map(repr, value)))
    return repr(value)


def coherent(one: Any, value: Any) -> None:
    """What an object says of its value in other ways agrees."""
    if isinstance(value, set | dict):
        assert len(one) == len(value)
        assert set(one) == set(value)
        assert all(element in one for element in value)
        assert "no such element" not in one
    if isinstance(value, dict):
        assert {field: details(one.get(field)) for field in one} == {
            field: details(shown) for field, shown in value.items()
        }
    if one.is_initial:
        assert one.is_empty
        assert one.stamps() == []


def settled(one: Crdt) -> None:
    """All that it knows is stable: no stamp is left, and nothing that nobody sees."""
    assert one.stamps() == []
    assert not reachable_stamps(one)
    assert not exported_stamps(one.export())
    if one.NAME not in UNREMOVABLE:
        assert one.is_initial == one.is_empty


def reachable_stamps(one: Any) -> list[VectorStamp]:
    """Stamps that an object keeps alive."""
    found: list[VectorStamp] = []
    seen: set[int] = set()
    left = [one]
    while left:
        what = left.pop()
        if id(what) in seen or isinstance(what, type | types.ModuleType | types.FunctionType):
            continue
        seen.add(id(what))
        if isinstance(what, VectorStamp):
            found.append(what)
        else:
            left += gc.get_referents(what)
    return found


def exported_stamps(exported: Any) -> list[Any]:
    """What looks like a stamp in an exported state."""
    found: list[Any] = []
    left = [exported]
    while left:
        what = left.pop()
        if isinstance(what, list | tuple):
            left += what
            if len(what) == 3 and what[0] in NODES and type(what[2]) is int:
                found.append(what)
    return found
