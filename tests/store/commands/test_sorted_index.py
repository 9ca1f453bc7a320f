"""The order of a sorted set is at all times what sorting it anew gives."""

from __future__ import annotations

import math
import random

import pytest

from tests.seeds import seeds
from tests.store.commands.tables import TABLES
from tests.store.commands.world import World
from thence.crdt.zset_uw import SortedSet
from thence.store.commands import sorted_index
from thence.store.commands.sorted_index import LexRange, ScoreRange, SortedIndex

MEMBERS = [b"%03d" % number for number in range(600)]


def expected_order(world: World, at: int) -> list[tuple[float, bytes]]:
    found = world.nodes[at].typed(b"z", SortedSet)
    if found is None:
        return []
    return sorted([(float(score), member) for member, score in found.value().items()])


def order(world: World, at: int) -> list[tuple[float, bytes]]:
    reply = world.nodes[at].run("ZRANGE", "z", 0, -1, "WITHSCORES")
    return [(score, member) for member, score in reply.items] if reply else []


@pytest.mark.parametrize("seed", seeds(6))
def test_the_order_is_that_of_sorting_anew(seed: int):
    draw = random.Random(seed)
    world = World(TABLES, 2)
    few = draw.choice([5, 50, 600])
    for _ in range(40):
        for _ in range(draw.choice([1, 1, 3, 40, 200])):
            node = draw.choice(world.nodes)
            member = MEMBERS[draw.randrange(few)]
            kind = draw.random()
            if kind < 0.5:
                node.run("ZADD", "z", draw.choice([0, 1, 1, 2.5, -3, "inf"]), member)
            elif kind < 0.7:
                node.run("ZINCRBY", "z", draw.choice([1, -1, 0.5]), member)
            elif kind < 0.98:
                node.run("ZREM", "z", member)
            else:
                node.run(draw.choice(["DEL", "ZPOPMIN"]), "z")
        if draw.random() < 0.5:
            world.exchange(stabilise=draw.random() < 0.5)
        at = draw.randrange(2)
        assert order(world, at) == expected_order(world, at)


def test_few_changes_of_a_large_order_are_not_sorted_anew(monkeypatch: pytest.MonkeyPatch):
    world = World(TABLES)
    for number, member in enumerate(MEMBERS):
        world.run("ZADD", "z", number, member)
    assert order(world, 0) == expected_order(world, 0)
    monkeypatch.setattr(SortedIndex, "_rebuild", None)
    world.run("ZADD", "z", 5.5, MEMBERS[0])
    world.run("ZREM", "z", MEMBERS[9])
    assert order(world, 0) == expected_order(world, 0)


def test_what_nobody_asks_for_is_not_remembered_without_end():
    index = SortedIndex(SortedSet())
    index.settle()
    for number in range(10 * sorted_index.TOUCHED_MIN):
        index.touched(number)
        assert len(index._touched) <= sorted_index.TOUCHED_MIN + 1


def test_an_object_that_came_back_as_another_one_is_looked_at_anew():
    world = World(TABLES)
    world.run("ZADD", "z", 1, "a")
    first = world.nodes[0].typed(b"z", SortedSet)
    index = SortedIndex(first)
    assert list(index.settle()) == [(1.0, b"a")]
    world.run("DEL", "z")
    world.run("ZADD", "z", 2, "b")
    index.follow(world.nodes[0].typed(b"z", SortedSet))
    assert list(index.settle()) == [(2.0, b"b")]


SCORES = [-math.inf, -1.0, 0.0, 0.5, 1.0, math.inf]


def test_score_ranges_are_those_of_comparing_each_score():
    world = World(TABLES)
    for number, score in enumerate([*SCORES, *SCORES]):
        world.run("ZADD", "z", score, f"m{number}")
    found = SortedIndex(world.nodes[0].typed(b"z", SortedSet)).settle()
    for low in SCORES:
        for high in SCORES:
            for low_open in (False, True):
                for high_open in (False, True):
                    first, last = ScoreRange(low, low_open, high, high_open).span(found)
                    inside = [
                        entry
                        for entry in found
                        if (entry[0] > low or (entry[0] == low and not low_open))
                        and (entry[0] < high or (entry[0] == high and not high_open))
                    ]
                    assert list(found[first:last]) == inside


def test_name_ranges_are_those_of_comparing_each_member():
    world = World(TABLES)
    bounds = [None, b"", b"a", b"ab", b"c", b"zz"]
    for member in bounds[1:]:
        world.run("ZADD", "z", 0, member)
    found = SortedIndex(world.nodes[0].typed(b"z", SortedSet)).settle()
    for low in bounds:
        for high in bounds:
            for low_open in (False, True):
                for high_open in (False, True):
                    range_ = LexRange(low, low_open, high, high_open, False)
                    first, last = range_.span(found)
                    assert list(found[first:last]) == [e for e in found if range_.has(e[1])]
    nothing = LexRange(None, False, None, False, True)
    assert nothing.span(found) == (0, 0)
    assert not nothing.has(b"a")
