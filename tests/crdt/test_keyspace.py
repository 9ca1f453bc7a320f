"""Random causal executions of a keyspace, against objects that are kept apart and as they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from thence.crdt import batch
from thence.crdt.base import Crdt
from thence.crdt.children import UNREMOVABLE, class_of
from thence.crdt.keyspace import CLEAR, EXPIRY, KEYS, REMOVE, Keyspace
from thence.crdt.registry import CRDTS

REGISTER, SET_AW, MAP_UW, SEQUENCE, COUNTER = 1, 2, 3, 4, 6
FLAG_DW, SET_RW, BOUNDED = (CRDTS[name].CODE for name in ("flag_dw", "set_rw", "counter_bounded"))
KEYS_USED = (b"x", b"y", b"z")
BATCHES = 12


class VectorStamp:
    """A stamp that knows its past as a version vector."""

    def __init__(self, node: str, seq: int, past: dict[str, int], clock_ms: int) -> None:
        self.node, self.seq, self.clock_ms = node, seq, clock_ms
        self.past = {**past, node: seq}

    def sees(self, stored: Any) -> bool:
        return self.past.get(stored.node, 0) >= stored.seq


class Plain:
    """What a keyspace is meant to be: an object for each key and type, and nothing else."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Any, int], Crdt] = {}

    def apply(self, key: Any, code: int, op: Any, stamp: VectorStamp) -> None:
        if code != KEYS:
            found = self.objects.get((key, code))
            if found is None:
                found = self.objects[key, code] = class_of(code)()
            found.effect(op, stamp)
            return
        for (at, _), each in self.objects.items():
            if (op[0] == CLEAR or (op[0] == REMOVE and at == key)) and each.NAME not in UNREMOVABLE:
                each.reset(stamp)

    def stabilise(self, stamps: set[Any]) -> None:
        for each in self.objects.values():
            each.stabilise(stamps)

    def show(self) -> tuple[dict[Any, Any], dict[Any, Any]]:
        values, times = {}, {}
        for (key, code), each in sorted(self.objects.items()):
            if code == EXPIRY:
                if each.value() is not None:
                    times[key] = each.value()
            elif key not in values and not each.is_empty:
                values[key] = (code, each.value())
        return values, times


def shown(keyspace: Keyspace) -> tuple[dict[Any, Any], dict[Any, Any]]:
    values = {}
    for key in keyspace:
        found = keyspace.get(key)
        is_object = isinstance(found, Crdt)
        values[key] = (found.CODE, found.value()) if is_object else (REGISTER, found)
    assert len(keyspace) == len(values)
    return values, dict(keyspace.expiring())


class Site:
    """One replica: the keyspace, one that never learns what is stable, and the plain one; and the
    rows that a journal would have."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.past: dict[str, int] = {}
        self.stamps: dict[tuple[str, int], VectorStamp] = {}
        self.unstable: list[tuple[str, int]] = []
        self.keyspace, self.twin, self.plain = Keyspace(), Keyspace(), Plain()
        self.keyspace.dirty = {}
        self.rows: dict[Any, Any] = {}

    def carry_out(self, payload: bytes, node: str, seq: int, past: dict[str, int]) -> None:
        made = batch.decode(payload)
        assert isinstance(made, batch.Batch)
        stamp = self.stamps[node, seq] = VectorStamp(node, seq, past, made.clock_ms)
        self.past[node] = seq
        self.unstable.append((node, seq))
        for at in range(0, len(made.items), 3):
            for each in (self.keyspace, self.twin, self.plain):
                each.apply(*made.items[at : at + 3], stamp)
            self.compare()

    def stabilise(self, dots: list[tuple[str, int]]) -> None:
        stamps = {self.stamps[dot] for dot in dots}
        self.unstable = [dot for dot in self.unstable if dot not in dots]
        self.keyspace.stabilise(stamps)
        self.plain.stabilise(stamps)
        self.compare()

    def write_rows(self) -> None:
        for key in self.keyspace.dirty or ():
            self.rows[key] = msgspec.msgpack.encode(self.keyspace.export(key))
        self.keyspace.dirty = {}

    def come_back(self) -> None:
        """From the rows alone."""
        self.write_rows()
        again = Keyspace()
        for key, row in self.rows.items():
            exported = msgspec.msgpack.decode(row)
            if exported:
                again.load(key, exported, lambda node, seq, _: self.stamps[node, seq])
        again.dirty = {}
        self.keyspace = again
        self.compare()

    def compare(self) -> None:
        assert shown(self.keyspace) == self.plain.show() == shown(self.twin)


class World:
    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.sites = [Site(name) for name in "abc"[: self.draw.choice((2, 3))]]
        self.sent: dict[tuple[str, int], tuple[bytes, dict[str, int]]] = {}
        self.left = dict.fromkeys([site.name for site in self.sites], BATCHES)

    def operation(self, site: Site) -> list[Any]:
        draw, key = self.draw, self.draw.choice(KEYS_USED)
        number = draw.randrange(4)
        sequence: Any = site.keyspace.child(key, SEQUENCE)
        size = 0 if sequence is None else len(sequence)
        made: list[Callable[[], list[Any]]] = [
            lambda: [key, REGISTER, [0, b"%d" % number]],
            lambda: [key, REGISTER, [1, number]],
            lambda: [key, REGISTER, [2]],
            lambda: [key, SET_AW, [0, number, number + 1]],
            lambda: [key, SET_AW, [1, number]],
            lambda: [key, MAP_UW, [0, b"f", REGISTER, [1, number]]],
            lambda: [key, MAP_UW, [1, b"f"]],
            lambda: [key, SEQUENCE, [0, draw.randint(0, size), [number]]],
            lambda: [key, SEQUENCE, [1, draw.randrange(size), 1]] if size else [key, SEQUENCE, [2]],
            lambda: [key, FLAG_DW, [number % 2]],
            lambda: [key, SET_RW, [number % 2, number]],
            lambda: [key, COUNTER, [0, 1 + number]] if key == b"z" else [key, KEYS, [REMOVE]],
            lambda: [key, EXPIRY, [0, 1000 + number]],
            lambda: [key, EXPIRY, [1]],
            lambda: [key, KEYS, [REMOVE]],
            lambda: [b"", KEYS, [CLEAR]] if draw.random() < 0.2 else [key, KEYS, [REMOVE]],
        ]
        return draw.choice(made)()

    def step(self) -> None:
        site, what = self.draw.choice(self.sites), self.draw.random()
        if what < 0.35 and self.left[site.name]:
            self.left[site.name] -= 1
            self.send(site)
        elif what < 0.75:
            waiting = self.deliverable(site)
            if waiting:
                dot = self.draw.choice(waiting)
                site.carry_out(self.sent[dot][0], *dot, self.sent[dot][1])
        elif what < 0.9:
            self.stabilise(site)
        elif what < 0.95:
            site.write_rows()
        else:
            site.come_back()

    def send(self, site: Site) -> None:
        seq, past = site.past.get(site.name, 0) + 1, dict(site.past)
        # Several in one batch, each made when those before it have been done.
        items: list[Any] = []
        for _ in range(self.draw.choice((1, 1, 2, 4))):
            items += self.operation(site)
            if items[-2] == SEQUENCE:
                break
        [payload] = batch.encode(self.draw.randrange(3), items, 1 << 20)
        self.sent[site.name, seq] = (payload, past)
        site.carry_out(payload, site.name, seq, past)

    def deliverable(self, site: Site) -> list[tuple[str, int]]:
        return [
            (node, seq)
            for (node, seq), (_, past) in self.sent.items()
            if seq == site.past.get(node, 0) + 1
            and all(site.past.get(other, 0) >= upto for other, upto in past.items())
        ]

    def stabilise(self, site: Site) -> None:
        missing = [
            past for (node, seq), (_, past) in self.sent.items() if seq > site.past.get(node, 0)
        ]
        dots = [
            (node, seq)
            for node, seq in site.unstable
            if all(other.past.get(node, 0) >= seq for other in self.sites)
            and all(past.get(node, 0) >= seq for past in missing)
        ]
        if dots:
            site.stabilise(dots)

    def run(self) -> None:
        while any(self.left.values()):
            self.step()
        for site in self.sites:
            while waiting := self.deliverable(site):
                dot = self.draw.choice(waiting)
                site.carry_out(self.sent[dot][0], *dot, self.sent[dot][1])
        first = shown(self.sites[0].keyspace)
        for site in self.sites:
            assert shown(site.keyspace) == first
            self.stabilise(site)
            assert shown(site.keyspace) == first
            assert site.keyspace.stamps() == []
            assert all(site.keyspace.is_stable(key) for key in KEYS_USED)
            site.come_back()
        exported = [
            {key: site.keyspace.export(key) for key in site.keyspace.kept()} for site in self.sites
        ]
        if len(first[0]) == 0 and not first[1]:
            assert exported == [{}] * len(exported)


@pytest.mark.parametrize("seed", seeds(20))
def test_a_keyspace_is_what_its_objects_are(seed: int):
    for part in range(5):
        World(seed * 5 + part).run()


def test_the_shortcut_for_one_who_is_alone_is_a_set_that_is_stable():
    stamp = VectorStamp("a", 1, {}, 5)
    short, long = Keyspace(), Keyspace()
    for each in (short, long):
        each.apply(b"x", REGISTER, [1, 4], stamp)
        each.apply(b"y", SET_AW, [0, 1], stamp)
    for key in (b"x", b"y"):
        short.write(key, b"v")
        long.apply(key, REGISTER, [0, b"v"], stamp)
    for each in (short, long):
        each.stabilise({stamp})
    assert shown(short) == shown(long)
    assert [short.export(key) for key in (b"x", b"y")] == [long.export(key) for key in (b"x", b"y")]


def test_the_shortcut_for_one_who_is_alone_counts_its_key_and_tells_of_it():
    keyspace = Keyspace()
    told: list[Any] = []
    keyspace.apply(b"x", SET_AW, [0, 1], VectorStamp("a", 1, {}, 5))
    before = keyspace.export(b"x")
    keyspace.dirty = {}
    keyspace.watch = lambda key, code, op: told.append((key, code, op, keyspace.export(key)))
    keyspace.write(b"x", b"v")
    assert keyspace.dirty == {b"x": None}
    assert told == [(b"x", REGISTER, (0, b"v"), before)]
    assert len(keyspace) == len(list(keyspace)) == 1


class Counted(set[Any]):
    """Stable stamps, and how often somebody looked for one in them."""

    looked = 0

    def __contains__(self, stamp: object) -> bool:
        Counted.looked += 1
        return super().__contains__(stamp)


@pytest.mark.parametrize("at_once", [100, 1])
def test_what_becomes_stable_of_a_hot_counter_is_looked_for_once(
    at_once: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Counted, "looked", 0)
    keyspace = Keyspace()
    stamps = [VectorStamp("a", seq, {}, 0) for seq in range(1, 401)]
    for stamp in stamps:
        keyspace.apply(b"n", REGISTER, [1, 0.1 if stamp.seq % 2 else 1], stamp)
    for start in range(0, len(stamps), at_once):
        keyspace.stabilise(Counted(stamps[start : start + at_once]))
        assert keyspace.get(b"n") == 220.0
    assert keyspace.export(b"n") == [220.0]
    assert Counted.looked <= 3 * len(stamps)


@pytest.mark.parametrize("most", [1, 100])
def test_a_hot_counter_is_written_down_before_something_of_it_is_stable(most: int):
    keyspace = Keyspace()
    stamps = [VectorStamp("a", seq, {}, 0) for seq in range(1, 101)]
    for stamp in stamps:
        keyspace.apply(b"n", REGISTER, [1, 1], stamp)
    before = keyspace.export(b"n")
    told: list[Any] = []
    keyspace.dirty = {}
    keyspace.watch = lambda key, code, op: told.append((key, code, op, keyspace.export(key)))
    keyspace.stabilise(set(stamps[:most]))
    assert told == [(b"n", REGISTER, None, before)]
    assert keyspace.dirty == {b"n": None}


NONSENSE: list[Any] = [
    None,
    [],
    [1],
    [1, 0],
    [1, -1, []],
    [1, 0, [b"k", 1]],
    [1, 0, [b"k", 1, None]],
    [1, 0, [b"k", True, [0, b"v"]]],
    [1, 0, [b"k", 1, [True, b"v"]]],
    [1, 0, [b"k", 999, [0, b"v"]]],
    [1, 0, [[1], 1, [0, b"v"]]],
    [1, 0, [None, 1, [0, b"v"]]],
    [1, 0, [b"k", 1, [0, None]]],
    [1, 0, [b"k", 0, [7]]],
    [1, 0, [b"k", 0, [2, 3]]],
    [2, 1, 0, b""],
    [2, 0, 10**6, b""],
    [3, 1],
    [9],
]


@pytest.mark.parametrize("payload", NONSENSE, ids=repr)
def test_nonsense_is_no_batch(payload: Any):
    assert isinstance(batch.decode(msgspec.msgpack.encode(payload)), str)


def test_a_batch_of_nested_arrays_without_end_is_no_batch():
    assert isinstance(batch.decode(b"\x91" * 100_000), str)


def test_a_large_batch_comes_in_pieces():
    items = [b"k", REGISTER, (0, bytes(1000))]
    payloads = batch.encode(7, items, 300)
    pieces = [batch.decode(payload) for payload in payloads]
    assert all(len(payload) <= 300 for payload in payloads)
    data = b"".join([piece.data for piece in pieces])  # type: ignore[union-attr]
    made = batch.decode(data)
    assert made == batch.Batch(7, [b"k", REGISTER, [0, bytes(1000)]])
