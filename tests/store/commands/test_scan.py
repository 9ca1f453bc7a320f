"""Scans see everything that is there all along, once at least, whatever else comes and goes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.seeds import seeds
from tests.store.commands.tables import TABLES
from tests.store.commands.world import World
from tests.store.raw import run
from tests.store.stores import world as world_of_stores
from thence.store.commands import samples

MEMBERS = [b"m%d" % number for number in range(3000)]

Write = Callable[[World, bytes], object]
KINDS: dict[str, tuple[list[str], Write, Write]] = {
    "SCAN": ([], lambda w, m: w.run("SET", m, "v"), lambda w, m: w.run("DEL", m)),
    "SSCAN": (["k"], lambda w, m: w.run("SADD", "k", m), lambda w, m: w.run("SREM", "k", m)),
    "HSCAN": (["k"], lambda w, m: w.run("HSET", "k", m, "v"), lambda w, m: w.run("HDEL", "k", m)),
    "ZSCAN": (["k"], lambda w, m: w.run("ZADD", "k", 1, m), lambda w, m: w.run("ZREM", "k", m)),
}


def portion(world: World, kind: str, cursor: bytes, *options: Any) -> tuple[bytes, list[bytes]]:
    reply = world.run(kind, *KINDS[kind][0], cursor, *options)
    assert isinstance(reply, list)
    after, found = reply
    return after, found[::2] if kind in ("HSCAN", "ZSCAN") else found


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("seed", seeds(2))
def test_what_is_there_all_along_is_seen(kind: str, seed: int):
    draw = random.Random(seed)
    _, add, remove = KINDS[kind]
    world = World(TABLES)
    stay, come, go = MEMBERS[:1000], MEMBERS[1000:2000], MEMBERS[2000:]
    for member in [*stay, *go]:
        add(world, member)
    seen: set[bytes] = set()
    cursor, calls = b"0", 0
    while True:
        cursor, found = portion(world, kind, cursor, "COUNT", draw.choice([1, 10, 100]))
        seen.update(found)
        calls += 1
        if cursor == b"0":
            break
        for _ in range(draw.randrange(8)):
            add(world, draw.choice(come))
            remove(world, draw.choice(go))
    assert seen >= set(stay)
    assert seen <= set(MEMBERS)
    assert calls > 10


def test_what_went_meanwhile_is_not_shown():
    world = World(TABLES)
    for member in MEMBERS[:2000]:
        world.run("SADD", "k", member)
    cursor, first = portion(world, "SSCAN", b"0", "COUNT", 5)
    gone = set(MEMBERS[:2000]) - set(first)
    for member in sorted(gone)[:500]:
        world.run("SREM", "k", member)
    later: set[bytes] = set()
    while cursor != b"0":
        cursor, found = portion(world, "SSCAN", cursor, "COUNT", 100)
        later.update(found)
    assert not later & set(sorted(gone)[:500])


def test_a_scan_that_begins_later_sees_what_is_new():
    world = World(TABLES)
    world.run("SADD", "k", *MEMBERS[:1000])
    portion(world, "SSCAN", b"0", "COUNT", 5)
    world.run("SADD", "k", *MEMBERS[1000:])
    seen: set[bytes] = set()
    cursor = b"0"
    while True:
        cursor, found = portion(world, "SSCAN", cursor, "COUNT", 200)
        seen.update(found)
        if cursor == b"0":
            break
    assert seen == set(MEMBERS)


def test_scans_that_begin_together_share_an_order(monkeypatch: pytest.MonkeyPatch):
    made: list[int] = []
    make = samples.HashOrder.__init__

    def counted(self: samples.HashOrder, members: Any, size: int) -> None:
        made.append(size)
        make(self, members, size)

    monkeypatch.setattr(samples.HashOrder, "__init__", counted)

    async def main() -> None:
        async with world_of_stores("ab") as nodes:
            clients = nodes.clients
            await clients["a"].mset({f"k{number}": "v" for number in range(100)})
            for _ in range(10):
                await clients["a"].scan(0)
            assert made == [100]
            await clients["a"].set("own", "v")
            assert b"own" in await keys_of(clients["a"])
            assert made == [100, 101]
            await clients["b"].set("theirs", "v")
            await nodes.synced()
            assert b"theirs" in await keys_of(clients["a"])
            assert made == [100, 101, 102]
            async with clients["a"].pipeline(transaction=True) as pipe:
                for number in range(3):  # a batch that is not whole yet is no reason to be wrong
                    pipe.set(f"more{number}", "v").scan(0, count=99)
                await pipe.execute()
            assert made == [100, 101, 102, 103, 104, 105]

    run(main())


async def keys_of(client: Any) -> set[bytes]:
    return {key.encode() async for key in client.scan_iter()}


def test_many_scans_at_a_time_all_come_to_an_end():
    world = World(TABLES)
    for member in MEMBERS[:600]:
        for number in range(samples.KEPT_MAX + 4):
            world.run("SADD", f"k{number}", member)
    cursors = dict.fromkeys(range(samples.KEPT_MAX + 4), b"0")
    seen: dict[int, set[bytes]] = {number: set() for number in cursors}
    for _ in range(100):
        for number, cursor in list(cursors.items()):
            reply: Any = world.run("SSCAN", f"k{number}", cursor, "COUNT", 50)
            after, found = reply
            seen[number].update(found)
            cursors[number] = after
            if after == b"0":
                del cursors[number]
    assert not cursors
    assert all([found == set(MEMBERS[:600]) for found in seen.values()])


def test_patterns_and_types_choose():
    world = World(TABLES)
    world.run("SET", "s1", "v")
    world.run("SADD", "t1", "v")
    world.run("CRDT.COUNTER", "INC", "c1")
    assert world.run("SCAN", 0, "MATCH", "s*") == [b"0", [b"s1"]]
    assert world.run("SCAN", 0, "TYPE", "SET") == [b"0", [b"t1"]]
    assert world.run("SCAN", 0, "TYPE", "counter_resettable") == [b"0", [b"c1"]]
    assert world.run("SCAN", 0, "TYPE", "none") == [b"0", []]


def test_members_of_one_hash_come_together(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(samples, "crc32", lambda member: 7)
    order = samples.HashOrder(MEMBERS[:100], 100)
    assert order.take(0, 1) == (MEMBERS[:100], 0)
