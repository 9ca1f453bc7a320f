"""Members that are texts and numbers, as peers that are no stores may add them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.store.commands.tables import TABLES
from tests.store.commands.world import Node, World
from thence.crdt.children import REGISTER, UPDATE
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import SET
from thence.crdt.sequence import INSERT, Sequence
from thence.crdt.set_aw import ADD, SetAw
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.samples import SMALL_MAX
from thence.store.replies import Members, Pairs

MEMBERS: tuple[Any, ...] = ("7", b"7", 3, 2.5, b"11")


def mixed(more: tuple[Any, ...] = ()) -> Node:
    """A node with a set, a sorted set, a hash and a list of such members: t, z, h and l."""
    node = World(TABLES).nodes[0]
    members = (*MEMBERS, *more)
    node.update(b"t", SetAw, (ADD, *members))
    node.update(b"l", Sequence, (INSERT, 0, list(members)))
    for at, member in enumerate(members):
        node.update(b"z", SortedSet, (UPDATE, member, REGISTER, (SET, at)))
        node.update(b"h", MapUw, (UPDATE, member, REGISTER, (SET, b"v")))
    return node


def plain(reply: Any) -> Any:
    if isinstance(reply, Members | Pairs):
        return [list(each) if isinstance(each, tuple) else each for each in reply.items]
    return reply


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("SORT t", [b"2.5", b"3", b"7", b"7", b"11"]),
        ("SORT l ALPHA", [b"11", b"2.5", b"3", b"7", b"7"]),
        ("SORT l BY w* DESC", [b"7", b"7", b"3", b"2.5", b"11"]),
        ("SORT l GET # GET x* LIMIT 0 1", [b"2.5", None]),
        ("SORT t STORE to", 5),
        ("ZUNION 2 t z WITHSCORES", [[b"7", 2.0], [b"11", 5.0]]),
        ("ZINTER 2 t z", [b"7", b"11"]),
        ("ZDIFF 2 t nothing", [b"11", b"7"]),
        ("ZUNIONSTORE to 2 z t", 2),
        ("ZINTERSTORE to 1 t", 2),
        ("ZDIFFSTORE to 2 z nothing", 2),
        ("ZINTERCARD 2 t z", 2),
    ],
)
def test_what_is_put_in_order_takes_them_as_bytes_or_leaves_them_out(line: str, reply: Any):
    assert plain(mixed().run(*line.split())) == reply


@pytest.mark.parametrize("count", [0, 2 * SMALL_MAX])
@pytest.mark.parametrize("command", ["SSCAN t", "HSCAN h", "ZSCAN z"])
def test_scans_find_them_as_bytes(command: str, count: int):
    more = tuple(range(1000, 1000 + count)) + tuple(f"x{at}" for at in range(count))
    node = mixed(more)
    for pattern, expected in (("7", {"7", b"7"}), ("?", {"7", b"7", 3}), ("*", {*MEMBERS, *more})):
        found = set()
        cursor: Any = 0
        while cursor != b"0":
            name, key = command.split()
            cursor, members = node.run(name, key, cursor, "MATCH", pattern)  # type: ignore[misc]
            found.update(members if name == "SSCAN" else members[::2])
        assert found == expected
