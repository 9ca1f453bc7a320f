"""What payloads that are not stable take, and where they are."""

from __future__ import annotations

import random
from typing import Any

import pytest

from thence.causal.dot import SEQ_BITS, pack
from thence.client import shelf as shelf_module
from thence.client.shelf import Shelf
from thence.engine.tag import SHELVED
from thence.errors import JournalError
from thence.journal.base import Identity
from thence.journal.memory import Fault, MemoryDisk, MemoryJournal

EVERYTHING = 1 << 40


class FakeTag:
    """As much of a tag as a shelf looks at."""

    def __init__(self, packed: int, body: bytes, index: int) -> None:
        self.packed, self.body, self.index = packed, body, index


class FakePast:
    """Unstable messages of some members, and a journal."""

    def __init__(self, members: int = 2) -> None:
        self.rows: list[dict[int, Any]] = [{} for _ in range(members)]
        self.shelf: Any = None
        self.clock = 0
        self.disk = MemoryDisk()
        self.journal = MemoryJournal(self.disk, Identity("g", "a"))
        self.sent = [0] * members

    def add(self, slot: int, size: int) -> None:
        self.clock += 1
        self.sent[slot] += 1
        packed = pack(slot, self.sent[slot])
        self.rows[slot][packed] = FakeTag(packed, bytes([self.sent[slot] % 256]) * size, self.clock)

    def forget(self, slot: int) -> None:
        row = self.rows[slot]
        if row:
            del row[next(iter(row))]

    def make(
        self, bytes_max: int, journal_bytes_max: int = EVERYTHING, has_journal: bool = True
    ) -> Shelf:
        journal = self.journal if has_journal else None
        return Shelf(self, bytes_max, journal, journal_bytes_max, clock=lambda: self.clock)


def test_the_oldest_of_whoever_has_most_go_first():
    past = FakePast()
    shelf = past.make(100)
    for size in (30, 30):
        past.add(0, size)
    past.add(1, 10)
    shelf.look()
    assert shelf.has_room
    assert [tag.body is SHELVED for tag in past.rows[0].values()] == [True, True]
    assert past.journal.shelved() == [(pack(0, 1), 30), (pack(0, 2), 30), (pack(1, 1), 10)]
    assert (shelf.bytes, shelf.shelved_bytes) == (0, 70)
    assert shelf.fetch(pack(0, 2)) == b"\2" * 30


def test_little_stays_in_memory():
    past = FakePast()
    shelf = past.make(100)
    past.add(0, 50)
    shelf.look()
    assert (shelf.bytes, past.journal.shelved()) == (50, [])


def test_without_a_journal_there_is_no_room_when_memory_is_full():
    past = FakePast()
    shelf = past.make(100, has_journal=False)
    past.add(0, 100)
    shelf.look()
    assert not shelf.has_room
    past.forget(0)
    shelf.look()
    assert (shelf.has_room, shelf.is_idle) == (True, True)
    with pytest.raises(JournalError):
        shelf.fetch(pack(0, 1))


def test_a_journal_that_holds_enough_takes_no_more():
    past = FakePast()
    shelf = past.make(100, journal_bytes_max=120)
    for _ in range(8):
        past.add(0, 40)
        shelf.look()
    assert shelf.shelved_bytes == 120
    assert (shelf.bytes, shelf.has_room) == (200, False)


def test_what_the_application_is_not_done_with_stays_in_memory():
    past = FakePast()
    shelf = past.make(10)
    past.add(0, 20)
    past.add(0, 20)
    past.rows[0][pack(0, 2)].index = past.clock + 5
    past.add(1, 20)
    past.rows[1][pack(1, 1)].index = -1
    shelf.look()
    assert past.journal.shelved() == [(pack(0, 1), 20)]


def test_a_journal_that_fails_is_told_and_nothing_is_lost():
    past = FakePast()
    shelf = past.make(10)
    past.add(0, 20)
    past.disk.fault = Fault(past.disk.operations + 1, "fail")
    with pytest.raises(JournalError):
        shelf.look()
    assert past.rows[0][pack(0, 1)].body == b"\1" * 20


def test_what_a_former_life_put_there_is_known():
    past = FakePast()
    shelf = past.make(10)
    for size in (20, 20, 3):
        past.add(0, size)
    past.rows[0][pack(0, 3)].index = -1
    shelf.look()
    again = past.make(10)
    assert (again.shelved_bytes, again.bytes) == (40, 3)
    past.forget(0)
    again.look()
    assert (again.shelved_bytes, again.stale_bytes) == (20, 20)
    again.settled()
    assert again.stale_bytes == 0


def test_when_everybody_is_there_nothing_is_looked_after_but_what_is_on_the_shelf():
    past = FakePast()
    shelf = past.make(100)
    past.add(0, 20)
    shelf.look()
    shelf.rest()
    assert (shelf.is_idle, shelf.bytes) == (True, 0)
    past.add(0, 60)
    shelf.look()
    shelf.rest()
    assert (shelf.is_idle, shelf.shelved_bytes) == (False, 80)
    for _ in range(2):
        past.forget(0)
    shelf.look()
    shelf.rest()
    assert shelf.is_idle


def test_a_payload_that_is_nowhere_is_said():
    past = FakePast()
    past.add(0, 20)
    past.rows[0][pack(0, 1)].body = SHELVED
    with pytest.raises(JournalError, match="neither in memory nor in the journal"):
        past.make(10)


@pytest.mark.parametrize("seed", range(12))
def test_it_counts_what_is_there(seed: int, monkeypatch: pytest.MonkeyPatch):
    rng = random.Random(seed)
    monkeypatch.setattr(shelf_module, "SHELVE_BYTES", rng.choice([50, 500]))
    past = FakePast(3)
    sizes: dict[int, int] = {}
    bytes_max = rng.choice([100, 1000])
    shelf = past.make(bytes_max)
    for _ in range(120):
        slot = rng.randrange(3)
        for _ in range(rng.randrange(12)):
            past.add(slot, rng.randrange(40))
            tag = past.rows[slot][pack(slot, past.sent[slot])]
            sizes[tag.packed] = len(tag.body)
        for _ in range(rng.choice([0, 3, 30, 200])):
            past.forget(rng.randrange(3))
        if rng.random() < 0.1:
            shelf = past.make(bytes_max)
        shelf.look()
        tags = [tag for row in past.rows for tag in row.values()]
        here = [len(tag.body) for tag in tags if tag.body is not SHELVED]
        there = [tag for tag in tags if tag.body is SHELVED]
        assert shelf.bytes == sum(here)
        assert shelf.shelved_bytes == sum(sizes[tag.packed] for tag in there)
        assert [shelf.size(tag) for tag in tags] == [sizes[tag.packed] for tag in tags]
        for tag in rng.sample(there, min(3, len(there))):
            seq = tag.packed & (1 << SEQ_BITS) - 1
            assert shelf.fetch(tag.packed) == bytes([seq % 256]) * sizes[tag.packed]
