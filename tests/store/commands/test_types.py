"""The data types that Redis does not have, as commands."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.commands.tables import TABLES
from tests.store.commands.world import World
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError
from thence.store.commands import types
from thence.store.commands.type_calls import CALLS
from thence.store.errors import WRONG_TYPE, CommandError
from thence.store.replies import OK, Members, Simple

CONCURRENT: dict[str, tuple[str, str, str, Any]] = {
    "a reset leaves what it has not seen": (
        "CRDT.COUNTER INC k 5",
        "CRDT.COUNTER RESET k",
        "CRDT.COUNTER INC k 2",
        2,
    ),
    "enabling wins": ("CRDT.FLAG ENABLE k", "CRDT.FLAG DISABLE k", "CRDT.FLAG ENABLE k", True),
    "disabling wins": (
        "CRDT.DWFLAG ENABLE k",
        "CRDT.DWFLAG DISABLE k",
        "CRDT.DWFLAG ENABLE k",
        None,
    ),
    "removing wins": (
        "CRDT.RWSET ADD k a b",
        "CRDT.RWSET REMOVE k a",
        "CRDT.RWSET ADD k a c",
        {b"b", b"c"},
    ),
    "what was removed never comes back": (
        "CRDT.2PSET ADD k a b",
        "CRDT.2PSET REMOVE k a",
        "CRDT.2PSET ADD k a",
        {b"b"},
    ),
    "all are added": ("CRDT.GSET ADD k a", "CRDT.GSET ADD k b", "CRDT.GSET ADD k c", {*b"abc"}),
    "all concurrent values are kept": (
        "CRDT.MV SET k x",
        "CRDT.MV SET k a",
        "CRDT.MV SET k b",
        [b"a", b"b"],
    ),
    "the last writer wins": ("CRDT.LWW SET k x", "CRDT.LWW SET k a", "CRDT.LWW SET k b", b"b"),
    "an update of a map wins": (
        "CRDT.MAP UPDATE k f counter_resettable INC 5",
        "CRDT.MAP REMOVE k f",
        "CRDT.MAP UPDATE k f counter_resettable INC 2",
        {b"f": 2},
    ),
    "a removal from a map wins": (
        "CRDT.RWMAP UPDATE k f counter_resettable INC 5",
        "CRDT.RWMAP REMOVE k f",
        "CRDT.RWMAP UPDATE k f counter_resettable INC 2",
        None,
    ),
    "edits of a text all count": (
        "CRDT.TEXT INSERT k 0 hello",
        "CRDT.TEXT INSERT k 5 !",
        "CRDT.TEXT DELETE k 0 1",
        "ello!",
    ),
}


@pytest.mark.parametrize("name", list(CONCURRENT))
def test_of_two_nodes_at_the_same_time(name: str):
    before, first, second, expected = CONCURRENT[name]
    if isinstance(expected, set):
        expected = {bytes([x]) if isinstance(x, int) else x for x in expected}
    world = World(TABLES, 3)
    world.run(*before.split())
    world.exchange()
    for node, text in zip(world.nodes, (first, second), strict=False):
        world.now_ms += 10
        reply = node.run(*text.split())
        assert not isinstance(reply, CommandError), reply
    for is_stable in (False, True):
        world.exchange(stabilise=is_stable)
        for node in world.nodes:
            found = node.run("CRDT.GET", "k")
            assert (set(found.items) if isinstance(found, Members) else found) == expected


def test_a_bounded_counter_takes_what_a_node_has_rights_to():
    world = World(TABLES, 2)
    here, there = world.nodes
    assert here.run("CRDT.BOUNDED", "INC", "k", 10) == 10
    world.exchange()
    refused = there.run("CRDT.BOUNDED", "DEC", "k", 1)
    assert "'b' has rights to 0" in str(refused)
    assert there.run("CRDT.GET", "k") == 10
    assert here.run("CRDT.BOUNDED", "TRANSFER", "k", "b", 4) == 10
    world.exchange()
    assert there.run("CRDT.RIGHTS", "k") == [4]
    assert there.run("CRDT.RIGHTS", "k", "a") == [6]
    assert there.run("CRDT.BOUNDED", "DEC", "k", 4) == 6
    assert isinstance(there.run("CRDT.BOUNDED", "DEC", "k"), CommandError)
    assert there.run("CRDT.BOUNDED", "LOWER", "k", 3) == 6
    assert there.run("CRDT.BOUNDED", "DEC", "k", 3) == 3
    assert here.run("CRDT.RIGHTS", "none") == [0]


def test_a_ranged_counter_stays_between_its_bounds():
    world = World(TABLES)
    assert world.run("CRDT.RANGED", "RAISE", "k", 5) == 0
    assert world.run("CRDT.RANGED", "INC", "k", 5) == 5
    assert isinstance(world.run("CRDT.RANGED", "INC", "k"), CommandError)
    assert world.run("CRDT.RIGHTS", "k") == [5, 0]
    assert world.run("CRDT.RANGED", "DEC", "k", 2) == 3


@pytest.mark.parametrize(
    "made", ["CRDT.BOUNDED INC k 1", "CRDT.GSET ADD k a", "CRDT.2PSET ADD k a"]
)
def test_what_cannot_be_removed_is_refused_before_anything_changes(made: str):
    world = World(TABLES)
    world.run(*made.split())
    world.run("SET", "s", "v")
    for words in (
        ["DEL", "k"],
        ["DEL", "s", "k"],
        ["RENAME", "k", "x"],
        ["SET", "k", "v"],
        ["MSET", "s", "w", "k", "v"],
        ["EXPIRE", "k", "100"],
        ["PEXPIREAT", "k", "1"],
    ):
        reply = world.run(*words)
        assert isinstance(reply, CommandError), words
        assert "cannot be removed" in str(reply)
    for words in (["RENAME", "s", "k"], ["COPY", "s", "k", "REPLACE"], ["SUNIONSTORE", "k", "no"]):
        assert "cannot be removed" in str(world.run(*words)), words
    assert sorted(world.run("KEYS", "*")) == [b"k", b"s"]
    assert world.run("GET", "s") == b"v"


def test_what_is_left_of_another_type_and_cannot_be_removed_is_in_nobodys_way():
    world = World(TABLES, 2)
    here, there = world.nodes
    here.run("CRDT.2PSET", "ADD", "k", "a")
    here.run("CRDT.2PSET", "REMOVE", "k", "a")
    world.exchange()
    there.run("RPUSH", "k", "x")
    there.run("PERSIST", "k")
    there.expire(b"k", world.now_ms + 1000)
    assert there.run("LPOP", "k") == b"x"
    there.run("RPUSH", "k", "y")
    assert there.run("TTL", "k") == -1


def test_maps_hold_any_type_in_one_another():
    world = World(TABLES)
    assert world.run("CRDT.MAP", "UPDATE", "k", "n", "counter_resettable", "INC", 3) == OK
    deep = ["map_rw", "UPDATE", "x", "map_uw", "UPDATE", "y", "register_lww", "SET", "v"]
    assert world.run("CRDT.MAP", "UPDATE", "k", "m", *deep) == OK
    text = ["sequence", "INSERT", 0, "héllo"]
    assert world.run("CRDT.MAP", "UPDATE", "k", "t", *text) == OK
    assert world.run("CRDT.GET", "k") == {b"n": 3, b"m": {b"x": {b"y": b"v"}}, b"t": "héllo"}
    assert world.run("CRDT.GET", "k", "m", "x", "y") == b"v"
    assert world.run("CRDT.GET", "k", "m", "none", "y") is None
    assert str(world.run("CRDT.GET", "k", "n", "x")) == WRONG_TYPE
    assert world.run("CRDT.LEN", "k") == 3
    assert world.run("CRDT.HAS", "k", "n", "z") == [1, 0]
    more = ["map_rw", "UPDATE", "x", "map_uw", "REMOVE", "y"]
    assert world.run("CRDT.MAP", "UPDATE", "k", "m", *more) == OK
    assert world.run("CRDT.GET", "k") == {b"n": 3, b"t": "héllo"}
    assert "cannot be written anew" in str(world.run("RENAME", "k", "other"))


def test_a_hash_is_a_map_of_strings():
    world = World(TABLES)
    world.run("HSET", "h", "f", "v")
    assert world.run("CRDT.MAP", "UPDATE", "h", "g", "register_counter", "INC", 5) == OK
    assert world.run("HGETALL", "h") == {b"f": b"v", b"g": b"5"}
    world.run("CRDT.MAP", "UPDATE", "h", "s", "set_aw", "ADD", "a")
    for words in (["HGET", "h", "s"], ["HINCRBY", "h", "s", 1], ["HGETALL", "h"], ["HVALS", "h"]):
        assert str(world.run(*words)) == WRONG_TYPE
    world.run("CRDT.MAP", "UPDATE", "h", "c", "counter_resettable", "INC", 5)
    assert str(world.run("HINCRBY", "h", "c", 1)) == WRONG_TYPE


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("CRDT.MAP UPDATE k f nonsense INC", "ERR no type is named nonsense"),
        ("CRDT.MAP UPDATE k f counter_bounded INC", "no map can hold it"),
        ("CRDT.MAP UPDATE k f register_lww SET", "ERR expected a type, an operation"),
        ("CRDT.MAP UPDATE k f map_uw UPDATE g", "ERR expected a type, an operation"),
        ("CRDT.MAP UPDATE k f set_aw JUMP x", "ERR expected a type, an operation"),
        ("CRDT.MAP UPDATE k f", "wrong number of arguments for 'crdt.map|update'"),
        ("CRDT.COUNTER INC k x", "not an integer"),
        ("CRDT.COUNTER INC k 0", "amount"),
        ("CRDT.COUNTER INC k 1 2", "wrong number of arguments for 'crdt.counter|inc'"),
        ("CRDT.COUNTER INC", "wrong number of arguments for 'crdt.counter|inc'"),
        ("CRDT.COUNTER JUMP k", "unknown subcommand 'JUMP'. Try CRDT.COUNTER HELP."),
        ("CRDT.TEXT INSERT k 5 x", "index 5 of 0"),
        ("CRDT.TEXT DELETE k 0 1", "elements 0 to 1 of 0"),
        ("CRDT.BOUNDED TRANSFER k b 1", "rights to 0"),
        ("CRDT.BOUNDED TRANSFER k a 1", "to another replica"),
        ("CRDT.RIGHTS k a b", "wrong number of arguments for 'crdt.rights'"),
    ],
)
def test_calls_that_make_no_sense_change_nothing(text: str, fault: str):
    world = World(TABLES)
    reply = world.run(*text.split())
    assert isinstance(reply, CommandError)
    assert fault in str(reply)
    assert not world.nodes[0].batch


def test_maps_in_maps_are_limited():
    world = World(TABLES)
    deep = ["map_uw", "UPDATE", "f"] * 20 + ["register_lww", "SET", "v"]
    assert isinstance(world.run("CRDT.MAP", "UPDATE", "k", "f", *deep), CommandError)
    assert not world.nodes[0].batch


def test_texts_count_characters_and_are_no_lists():
    world = World(TABLES)
    assert world.run("CRDT.TEXT", "INSERT", "t", 0, "naïve") == 5
    assert world.run("CRDT.TEXT", "INSERT", "t", 3, "ï") == 6
    assert world.run("CRDT.GET", "t") == "naïïve"
    assert world.run("TYPE", "t") == Simple(b"text")
    assert "UTF-8" in str(world.run(b"CRDT.TEXT", b"INSERT", b"t", b"0", b"\xff"))
    for words in (["LPUSH", "t", "x"], ["LRANGE", "t", 0, -1], ["LLEN", "t"], ["SORT", "t"]):
        assert str(world.run(*words)) == WRONG_TYPE
    world.run("RPUSH", "l", "x")
    assert str(world.run("CRDT.TEXT", "INSERT", "l", 0, "x")) == WRONG_TYPE
    assert world.run("CRDT.TEXT", "CLEAR", "t") == 0
    assert world.run("EXISTS", "t") == 0


def test_keys_of_these_types_are_renamed_and_copied():
    made = {
        "CRDT.COUNTER INC k 5": 5,
        "CRDT.COUNTER DEC k 5": -5,
        "CRDT.LWW SET k v": b"v",
        "CRDT.MV SET k v": [b"v"],
        "CRDT.FLAG ENABLE k": True,
        "CRDT.DWFLAG ENABLE k": True,
        "CRDT.RWSET ADD k v": Members([b"v"]),
        "CRDT.RWMAP UPDATE k f register_counter SET v": {b"f": b"v"},
        "CRDT.TEXT INSERT k 0 abc": "abc",
    }
    for text, expected in made.items():
        world = World(TABLES, 2)
        world.run(*text.split())
        kind = world.run("TYPE", "k")
        assert world.run("RENAME", "k", "other") == OK, text
        assert world.run("EXISTS", "k") == 0
        world.exchange()
        assert world.nodes[1].run("CRDT.GET", "other") == expected, text
        assert world.nodes[1].run("TYPE", "other") == kind
    world = World(TABLES)
    world.run("CRDT.COUNTER", "INC", "k", 5)
    world.run("CRDT.COUNTER", "DEC", "k", 5)
    world.run("RENAME", "k", "zero")
    assert world.run("CRDT.GET", "zero") == 0
    world = World(TABLES, 2)
    for node in world.nodes:
        node.run("CRDT.MV", "SET", "k", node.name)
    world.exchange()
    assert "concurrent values" in str(world.run("COPY", "k", "other"))


def test_reading_asks_for_a_type_that_can_answer():
    world = World(TABLES)
    world.run("SET", "s", "v")
    assert world.run("CRDT.GET", "s") == b"v"
    assert world.run("CRDT.GET", "none") is None
    for words in (["CRDT.HAS", "s", "v"], ["CRDT.LEN", "s"], ["CRDT.RIGHTS", "s"]):
        assert str(world.run(*words)) == WRONG_TYPE
    assert world.run("CRDT.HAS", "none", "a", "b") == [0, 0]
    assert world.run("CRDT.LEN", "none") == 0
    assert str(world.run("CRDT.COUNTER", "INC", "s")) == WRONG_TYPE
    world.run("CRDT.COUNTER", "INC", "c", 2**63 - 1)
    world.run("CRDT.COUNTER", "INC", "c", 1)
    assert world.run("CRDT.GET", "c") == b"9223372036854775808"


def test_help_names_every_operation_of_the_type():
    for command in types.TABLE:
        if "write" in command.flags:
            lines = World(TABLES).run(command.name, "HELP")
            assert isinstance(lines, list)
            assert len(lines) > 2
            assert command.name in repr(lines[0])


def test_calls_are_operations_of_their_types():
    for name, calls in CALLS.items():
        assert {call.name for call in calls} <= set(CRDTS[name].OPS), name


def test_every_type_that_a_store_shows_has_calls():
    """counter_pn cannot be reset and counter_resettable can; times are EXPIRE's, scores ZADD's."""
    assert {*CRDTS} - {*CALLS} == {"counter_pn", "expiry", "zset_uw"}
    with pytest.raises(LocalProtocolError):
        CRDTS["counter_pn"]().prepare("reset")
