"""What comes out when nodes do something to the same keys at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.store.commands.tables import TABLES
from tests.store.commands.world import World
from thence.store.replies import Members, Pairs

Case = tuple[str, str, str, str, Any]
"""First, then at the same time on two nodes, then what is read on the third, and the reply."""

CASES: dict[str, Case] = {
    "increments add up": ("SET n 10", "INCRBY n 5", "INCRBY n -3", "GET n", b"12"),
    "the later of two writes stays": ("SET s 0", "SET s a", "SET s b", "GET s", b"b"),
    "a write wins over a delete": ("SET s 0", "DEL s", "SET s b", "GET s", b"b"),
    "an increment survives a delete": ("SET n 10", "DEL n", "INCRBY n 2", "GET n", b"2"),
    "an increment adds to a write": ("SET n 10", "SET n 1", "INCRBY n 2", "GET n", b"3"),
    "of two appends one is lost": ("SET s x", "APPEND s a", "APPEND s b", "GET s", b"xb"),
    "an add wins over a remove": ("SADD t a b", "SREM t a b", "SADD t a", "SMEMBERS t", {b"a"}),
    "adds of both stay": ("SADD t a", "SADD t b", "SADD t c", "SCARD t", 3),
    "a delete removes what it saw": ("SADD t a b", "DEL t", "SADD t c", "SMEMBERS t", {b"c"}),
    "a write of a field wins over its removal": (
        "HSET h f 1 g 1",
        "HDEL h f g",
        "HSET h f 2",
        "HGETALL h",
        {b"f": b"2"},
    ),
    "fields of both stay": ("HSET h a 1", "HSET h b 2", "HSET h c 3", "HLEN h", 3),
    "counts of a field add up": ("HSET h f 1", "HINCRBY h f 5", "HINCRBY h f 7", "HGET h f", b"13"),
    "sums with a point are exact": (
        "HSET h f 0",
        "HINCRBYFLOAT h f 0.1",
        "HINCRBYFLOAT h f 0.2",
        "HGET h f",
        b"0.3",
    ),
    "scores add up": ("ZADD z 1 a", "ZINCRBY z 2 a", "ZINCRBY z 3 a", "ZSCORE z a", 6.0),
    "the later of two scores stays": ("ZADD z 1 a", "ZADD z 5 a", "ZADD z 3 a", "ZSCORE z a", 3.0),
    "ZREM leaves what it has not seen": (
        "ZADD z 4.1 a",
        "ZREM z a",
        "ZINCRBY z 2.0 a",
        "ZSCORE z a",
        2.0,
    ),
    "ZADD of the same score wins over ZREM": (
        "ZADD z 1 a",
        "ZREM z a",
        "ZADD z 1 a",
        "ZCARD z",
        1,
    ),
    "so does one with options": ("ZADD z 1 a", "ZREM z a", "ZADD z CH 1 a", "ZCARD z", 1),
    "two nodes may pop the same": ("ZADD z 1 a 2 b", "ZPOPMIN z", "ZPOPMIN z", "ZCARD z", 1),
    "what both push stays together": (
        "RPUSH l 0",
        "RPUSH l a1 a2",
        "RPUSH l b1 b2",
        "LLEN l",
        5,
    ),
    "both may pop the same": (
        "RPUSH l 1 2 3",
        "LPOP l",
        "LPOP l",
        "LRANGE l 0 -1",
        [b"2", b"3"],
    ),
    "both new elements stay": ("RPUSH l 0 1", "LSET l 0 a", "LSET l 0 b", "LLEN l", 3),
    "both trim": ("RPUSH l 0 1 2", "LTRIM l 1 -1", "LTRIM l 0 -2", "LRANGE l 0 -1", [b"1"]),
    "a member moves to both": ("SADD t a", "SMOVE t x a", "SMOVE t y a", "SUNION x y", {b"a"}),
    "to stay wins over a time": (
        "SET s 1 EX 100",
        "PERSIST s",
        "EXPIRE s 500",
        "TTL s",
        -1,
    ),
    "a time is one of a key that is there": ("SET s 1", "EXPIRE s 100", "DEL s", "TTL s", -2),
    "a flush removes what it saw": ("SET s 1", "FLUSHALL?", "SET x 1", "KEYS *", [b"x"]),
    "a push survives a delete": ("RPUSH l 1 2", "DEL l", "RPUSH l 3", "LRANGE l 0 -1", [b"3"]),
    "what a rename did not see stays": ("SET s 1", "RENAME s r", "INCR s", "GET s", b"1"),
    "the later of two expiries wins": (
        "SET s 1",
        "EXPIREAT s 9999999998",
        "EXPIREAT s 9999999999",
        "EXPIRETIME s",
        9999999999,
    ),
    "a key that both make is one": ("SET x 1", "SADD t a", "SADD t b", "DBSIZE?", 2),
    "of two types the string shows": ("SET x 1", "SET k v", "SADD k a", "TYPE k", "string"),
}


def words(text: str) -> list[str]:
    return text.split()


def read(world: World, text: str) -> Any:
    node = world.nodes[2]
    if text == "DBSIZE?":
        return node.size()
    reply: Any = node.run(*words(text))
    if isinstance(reply, Members):
        return set(reply.items)
    return reply.encoded[1:-2].decode() if text.startswith("TYPE") else reply


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first-second", "second-first"])
@pytest.mark.parametrize("name", list(CASES))
def test_of_two_nodes_at_the_same_time(name: str, order: tuple[int, int]):
    before, first, second, question, expected = CASES[name]
    world = World(TABLES, 3)
    world.nodes[2].run(*words(before))
    world.exchange()
    for at, text in zip(order, (first, second), strict=True):
        world.now_ms += 10
        if text == "FLUSHALL?":
            world.nodes[at].flush_all()
        else:
            world.nodes[at].run(*words(text))
    world.exchange(stabilise=False)
    assert read(world, question) == expected
    everywhere = {repr(node.run(*words("KEYS *"))) for node in world.nodes}
    world.stabilise()
    assert read(world, question) == expected
    assert everywhere == {repr(node.run(*words("KEYS *"))) for node in world.nodes}


def test_concurrent_pushes_are_not_mixed():
    world = World(TABLES, 3)
    world.nodes[0].run("RPUSH", "l", "a1", "a2", "a3")
    world.nodes[1].run("RPUSH", "l", "b1", "b2", "b3")
    world.exchange()
    (elements,) = {tuple(node.run("LRANGE", "l", 0, -1)) for node in world.nodes}
    assert [element[:1] for element in elements] in (
        [b"a"] * 3 + [b"b"] * 3,
        [b"b"] * 3 + [b"a"] * 3,
    )


def test_the_order_of_a_sorted_set_follows_other_nodes():
    world = World(TABLES, 3)
    here, there, _ = world.nodes
    here.run("ZADD", "z", 1, "a", 2, "b", 3, "c")
    world.exchange()
    assert here.run("ZRANGE", "z", 0, -1) == [b"a", b"b", b"c"]
    there.run("ZADD", "z", 9, "a", 0, "new")
    there.run("ZREM", "z", "b")
    world.exchange()
    assert here.run("ZRANGE", "z", 0, -1) == [b"new", b"c", b"a"]
    there.run("DEL", "z")
    there.run("ZADD", "z", 1, "again")
    world.exchange(stabilise=False)
    assert here.run("ZRANGE", "z", 0, -1, "WITHSCORES") == Pairs([(b"again", 1.0)])


def test_a_key_that_lost_its_last_element_takes_its_expiry_with_it():
    removals: list[tuple[str, Callable[[World], object]]] = [
        ("RPUSH k x", lambda world: world.run("LPOP", "k")),
        ("SADD k x", lambda world: world.run("SREM", "k", "x")),
        ("HSET k f x", lambda world: world.run("HDEL", "k", "f")),
        ("ZADD k 1 x", lambda world: world.run("ZREMRANGEBYRANK", "k", 0, -1)),
        ("RPUSH k x", lambda world: world.run("LREM", "k", 0, "x")),
        ("RPUSH k x", lambda world: world.run("LTRIM", "k", 1, 0)),
        ("RPUSH k x", lambda world: world.run("LMOVE", "k", "l", "LEFT", "LEFT")),
        ("SADD k x", lambda world: world.run("SPOP", "k")),
        ("SADD k x", lambda world: world.run("SMOVE", "k", "t", "x")),
        ("ZADD k 1 x", lambda world: world.run("ZPOPMIN", "k")),
        ("CRDT.RWSET ADD k x", lambda world: world.run("CRDT.RWSET", "REMOVE", "k", "x")),
    ]
    for made, remove in removals:
        world = World(TABLES, 2)
        world.run(*words(made))
        world.run("EXPIRE", "k", 100)
        world.exchange()
        remove(world)
        assert world.run("EXISTS", "k") == 0
        assert world.nodes[0].expiry(b"k") is None
        world.run(*words(made))
        assert world.run("TTL", "k") == -1, made


def test_an_expired_key_is_absent_on_every_node_at_once():
    world = World(TABLES, 2)
    world.run("SET", "s", "v", "PX", 100)
    world.exchange()
    world.now_ms += 100
    for node in world.nodes:
        assert node.run("GET", "s") is None
        assert node.run("EXISTS", "s") == 0
    world.nodes[1].run("SET", "s", "new")
    world.exchange()
    assert world.run("GET", "s") == b"new"
    assert world.run("TTL", "s") == -1
