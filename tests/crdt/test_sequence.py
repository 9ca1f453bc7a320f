"""Random causal executions of ``sequence``, compared step by step with the tree of the paper."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import msgspec
import pytest

from tests.crdt.fugue_tree import FugueTree
from tests.seeds import seeds
from thence.crdt import sequence_list, sequence_snapshot, sequence_stable
from thence.crdt.sequence import DELETE, INSERT, Sequence

BATCHES = 14
"""Of each replica in an execution."""


class VectorStamp:
    """A stamp that knows its past as a version vector."""

    clock_ms = 0

    def __init__(self, node: str, seq: int, past: dict[str, int]) -> None:
        self.node = node
        self.seq = seq
        self.past = {**past, node: seq}

    def sees(self, stored: Any) -> bool:
        return self.past.get(stored.node, 0) >= stored.seq


class Batch:
    """Operations that travel together, as the sequence and as the tree have them."""

    def __init__(self, node: str, seq: int, past: dict[str, int]) -> None:
        self.dot = (node, seq)
        self.past = dict(past)
        self.ops: list[tuple[Any, list[Any]]] = []


class Replica:
    """A sequence, its twin that is never told what is stable, and the tree."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.past: dict[str, int] = {}
        self.stamps: dict[tuple[str, int], VectorStamp] = {}
        self.order: list[tuple[str, int]] = []
        self.sequence = Sequence()
        self.twin = Sequence()
        self.tree = FugueTree()
        self.settled = 0
        self.cursor = 0

    def begin(self, node: str, seq: int, past: dict[str, int]) -> VectorStamp:
        stamp = self.stamps[node, seq] = VectorStamp(node, seq, past)
        self.past[node] = seq
        self.order.append((node, seq))
        return stamp

    def effect(self, op: Any, stamp: VectorStamp) -> None:
        op = msgspec.msgpack.decode(msgspec.msgpack.encode(op))
        assert Sequence.check(op) == ""
        self.sequence.effect(op, stamp)
        self.twin.effect(op, stamp)

    def send(self, draw: random.Random, content: Any) -> Batch:
        seq = self.past.get(self.name, 0) + 1
        batch = Batch(self.name, seq, self.past)
        stamp = self.begin(self.name, seq, self.past)
        number = 0
        for _ in range(draw.choice((1, 1, 2, 3))):
            name, *arguments = self.choose(draw, content)
            op = self.sequence.prepare(name, *arguments)
            self.effect(op, stamp)
            if op[0] == INSERT:
                messages = self.tree.insert(op[1], op[2], batch.dot, number)
                number += len(messages)
            elif op[0] == DELETE:
                messages = self.tree.delete(op[1], op[2])
            else:
                messages = self.tree.delete(0, len(self.tree.nodes))
            batch.ops.append((op, messages))
            self.compare()
        return batch

    def choose(self, draw: random.Random, content: Any) -> tuple[Any, ...]:
        length = len(self.sequence)
        if draw.random() < 0.3:
            self.cursor = draw.choice((0, length, draw.randint(0, length)))
        at = self.cursor = min(self.cursor, length)
        what = draw.random()
        if length and what < 0.03:
            return ("clear",)
        if at and what < 0.2:
            count = draw.randint(1, min(at, 4))
            self.cursor = at - count
            return "delete", at - count, count
        if at < length and what < 0.35:
            return "delete", at, draw.randint(1, min(length - at, 4))
        count = draw.choice((1, 1, 1, 2, 3, 9))
        if draw.random() < 0.8:  # else the next run goes before this one
            self.cursor = at + count
        return "insert", at, content(count)

    def receive(self, batch: Batch) -> None:
        stamp = self.begin(*batch.dot, batch.past)
        for op, messages in batch.ops:
            self.effect(op, stamp)
            for message in messages:
                self.tree.apply(message)
            self.compare()

    def stabilise(self, dots: list[tuple[str, int]]) -> None:
        self.sequence.stabilise({self.stamps[dot] for dot in dots})
        self.compare()

    def join(self) -> None:
        """Go on from a snapshot."""
        snapshot = msgspec.msgpack.decode(msgspec.msgpack.encode(self.sequence.export()))
        self.sequence = Sequence.load(snapshot, lambda node, seq, _: self.stamps[node, seq])
        self.compare()
        again = self.sequence.export()
        assert again[0] == [tuple(stamp) for stamp in snapshot[0]]
        assert len(again[1]) == len(snapshot[1])

    def compare(self) -> None:
        expected = self.tree.elements()
        assert list(self.sequence) == expected
        assert list(self.twin) == expected
        assert len(self.sequence) == len(expected)
        sound(self.sequence)


def sound(sequence: Sequence) -> None:
    """What the state says twice agrees."""
    whole = sequence._blocks
    total = listed = 0
    shown = []
    for chunk in whole.chunks:
        assert chunk.blocks
        assert chunk.shown == sum(block.shown for block in chunk.blocks)
        shown.append(chunk.shown)
        for block in chunk.blocks:
            total += block.shown
            assert block.size > 0
            assert block.shown == (0 if block.content is None else block.size)
            assert (block.content is None) == (block.dead or bool(block.deletes))
            if block.content is not None:
                assert len(block.content) == block.size
                listed += 0 if isinstance(block.content, str) else block.size
            if chunk.settled:
                assert block.insert is None
                assert block.shown
            if block.insert is not None:
                assert block.tail == block.head + block.size - 1
                assert block.run is None or block.run[-1] == (block.size, block.insert)
    assert (whole.length, whole.listed) == (total, listed)
    assert whole.before == sum(shown[: whole.at])
    held = {
        stamp
        for chunk in whole.chunks
        for block in chunk.blocks
        for stamp in (block.insert, *(stamp for _, stamp in block.run or ()), *block.deletes)
        if stamp is not None
    }
    assert held <= set(sequence.stamps())


class Execution:
    """Replicas that send, receive in causal order, learn what is stable and join, by a seed."""

    def __init__(self, seed: int, content: Any) -> None:
        self.draw = random.Random(seed)
        self.content = content
        count = self.draw.choice((2, 3, 3, 4))
        self.replicas = [Replica(name) for name in "abcd"[:count]]
        self.batches: dict[tuple[str, int], Batch] = {}
        self.left = dict.fromkeys("abcd"[:count], BATCHES)

    def deliverable(self, replica: Replica) -> list[Batch]:
        return [
            batch
            for (node, seq), batch in self.batches.items()
            if seq == replica.past.get(node, 0) + 1
            and all(replica.past.get(other, 0) >= upto for other, upto in batch.past.items())
        ]

    def stable(self, replica: Replica) -> list[tuple[str, int]]:
        """What everybody has and everything is after that the replica is still to receive."""
        missing = [
            batch for (node, seq), batch in self.batches.items() if seq > replica.past.get(node, 0)
        ]
        return [
            (node, seq)
            for node, seq in replica.order[replica.settled :]
            if all(other.past.get(node, 0) >= seq for other in self.replicas)
            and all(batch.past.get(node, 0) >= seq for batch in missing)
        ]

    def stabilise(self, replica: Replica, everything: bool = False) -> None:
        dots = self.stable(replica)
        if not everything:
            dots = self.down_closed(replica, dots)
        if dots:
            replica.stabilise(dots)
            done = set(dots)
            replica.order = [dot for dot in replica.order if dot not in done]

    def down_closed(self, replica: Replica, dots: list[tuple[str, int]]) -> list[tuple[str, int]]:
        if not dots or self.draw.random() < 0.5:
            return dots
        upto = replica.stamps[self.draw.choice(dots)]
        return [dot for dot in dots if upto.sees(replica.stamps[dot])]

    def step(self) -> None:
        replica = self.draw.choice(self.replicas)
        what = self.draw.random()
        if what < 0.3 and self.left[replica.name]:
            self.left[replica.name] -= 1
            batch = replica.send(self.draw, self.content)
            self.batches[batch.dot] = batch
        elif what < 0.8:
            batches = self.deliverable(replica)
            if batches:
                replica.receive(self.draw.choice(batches))
        elif what < 0.95:
            self.stabilise(replica)
        else:
            replica.join()

    def run(self) -> None:
        while any(self.left.values()):
            self.step()
        for replica in self.replicas:
            while batches := self.deliverable(replica):
                replica.receive(self.draw.choice(batches))
                if self.draw.random() < 0.1:
                    self.stabilise(replica)
        first = self.replicas[0].sequence.value()
        for replica in self.replicas:
            assert replica.sequence.value() == first
            self.stabilise(replica, everything=True)
            assert replica.sequence.value() == first
            assert replica.sequence.stamps() == []
            assert replica.sequence.is_initial == (not first)
            entries = [[first] if isinstance(first, list) else first] if first else []
            assert replica.sequence.export() == [[], entries]


def characters() -> Any:
    made = 0

    def content(count: int) -> str:
        nonlocal made
        made += count
        return "".join(chr(0x100 + made - count + step) for step in range(count))

    return content


def elements() -> Any:
    made = 0

    def content(count: int) -> list[Any]:
        nonlocal made
        made += count
        numbers = range(made - count, made)
        return [(b"%d" % n, str(n), n, n / 2)[n % 4] for n in numbers]

    return content


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks and blocks that short executions fill.  (The compiled form does not listen.)"""
    for module in (sequence_list, sequence_stable, sequence_snapshot):
        monkeypatch.setattr(module, "CHUNK_BLOCKS_MAX", 4)
        monkeypatch.setattr(module, "BLOCK_ELEMENTS_MAX", 6)


@pytest.mark.parametrize("seed", seeds(20))
def test_text_is_what_the_tree_says(seed: int):
    for part in range(5):
        Execution(seed * 5 + part, characters()).run()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", seeds(20))
def test_text_in_many_chunks_is_what_the_tree_says(seed: int):
    for part in range(5):
        Execution(seed * 5 + part, characters()).run()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", seeds(5))
def test_lists_are_what_the_tree_says(seed: int):
    for part in range(5):
        Execution(seed * 5 + part, elements()).run()


@pytest.mark.parametrize("op", [(1, 9, 1), (2,)])
def test_what_changes_nothing_leaves_no_stamp(op: Any):
    sequence = Sequence()
    stamps = [VectorStamp("a", seq, {"a": seq - 1}) for seq in (1, 2)]
    if op[0] == 1:
        sequence.effect((0, 0, "text"), stamps[0])
        sequence.stabilise({stamps[0]: None})
    sequence.effect(op, stamps[1])
    sequence.stabilise({stamps[1]: None})
    left = weakref.ref(stamps.pop())
    gc.collect()
    assert left() is None


class AskedStamp(VectorStamp):
    """A stamp that counts how often it is asked what it sees."""

    asked = 0

    def sees(self, stored: Any) -> bool:
        AskedStamp.asked += 1
        return super().sees(stored)


@pytest.mark.parametrize("behind", [0, 1, 5])
def test_what_an_operation_sees_is_found_without_asking_for_all_that_is_not_stable(
    behind: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(AskedStamp, "asked", 0)
    sequence = Sequence()
    for seq in range(1, 301):
        mine = AskedStamp("a", seq, {"b": seq - 1})
        # The other one catches up now and then.
        theirs = AskedStamp("b", seq, {"a": seq - 1 - seq % (behind + 1)})
        sequence.effect((INSERT, 0, "m"), mine)
        sequence.effect((INSERT, 0, "t"), theirs)
    assert len(sequence.value()) == 600
    assert AskedStamp.asked < 300 * (10 + 2 * behind)


class SoughtStamp(VectorStamp):
    """A stamp that counts how often it is looked up."""

    sought = 0

    def __hash__(self) -> int:
        SoughtStamp.sought += 1
        return id(self)


def test_only_what_changed_is_counted_again_when_a_replica_has_seen_more(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(SoughtStamp, "sought", 0)
    sequence = Sequence()
    for seq in range(1, 601):
        before = dict.fromkeys("ab", seq - 1)
        for node in "ab":  # at the end of what both have
            sequence.effect((INSERT, 2 * (seq - 1), node), SoughtStamp(node, seq, before))
    assert sequence.value() == "ab" * 600
    assert SoughtStamp.sought < 600 * 200


def test_what_is_seen_of_chunks_that_became_one_is_counted_again():
    sequence = Sequence.load([[], ["x" * 512 * 25]], VectorStamp)  # two chunks
    gone = VectorStamp("a", 1, {})
    sequence.effect((DELETE, 0, 512 * 20), gone)
    sequence.effect((DELETE, 2559, 1), VectorStamp("d", 1, {"a": 1}))
    sequence.effect((INSERT, 2560, "b"), VectorStamp("b", 1, {"a": 1}))
    sequence.stabilise({gone})  # one chunk
    sequence.effect((DELETE, 10_000, 1), VectorStamp("c", 1, {"a": 1}))  # counts, changes nothing
    sequence.effect((INSERT, 2561, "c"), VectorStamp("c", 2, {"a": 1, "b": 1}))
    assert sequence.value() == "x" * 2559 + "bc"
