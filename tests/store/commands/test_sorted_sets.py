"""Sorted sets where a Redis of version 7.0 has nothing to compare with."""

from __future__ import annotations

import math

import pytest

from tests.store.commands.tables import TABLES
from tests.store.commands.world import World
from thence.store.errors import NOT_A_FLOAT, RESULTING_SCORE_NAN, SYNTAX
from thence.store.replies import NULL_ARRAY


def test_a_rank_may_come_with_its_score():
    world = World(TABLES)
    world.run("ZADD", "z", 1.5, "a", 2.5, "b")
    assert world.run("ZRANK", "z", "b", "WITHSCORE") == [1, 2.5]
    assert world.run("ZREVRANK", "z", "b", "withscore") == [0, 2.5]
    assert world.run("ZRANK", "z", "none", "WITHSCORE") is NULL_ARRAY
    assert str(world.run("ZRANK", "z", "b", "SCORE")) == SYNTAX
    assert "number of arguments for 'zrank'" in str(world.run("ZRANK", "z", "b", "WITHSCORE", "x"))


def test_sums_of_scores_are_exact():
    world = World(TABLES)
    world.run("ZADD", "z", 0.1, "a")
    assert world.run("ZINCRBY", "z", 0.2, "a") == 0.3
    for _ in range(10):
        world.run("ZINCRBY", "z", 0.1, "b")
    assert world.run("ZSCORE", "z", "b") == 1.0


@pytest.mark.parametrize("is_stable", [True, False])
def test_infinite_scores_stay_what_they_are(is_stable: bool):
    world = World(TABLES, 2)
    here, there = world.nodes
    here.run("ZADD", "z", "inf", "up", "-inf", "down", 1, "a")
    world.exchange(stabilise=is_stable)
    assert here.run("ZINCRBY", "z", 5, "up") == math.inf
    there.run("ZINCRBY", "z", -5, "up")
    there.run("ZINCRBY", "z", "-inf", "a")
    here.run("ZINCRBY", "z", 7, "a")
    assert str(here.run("ZINCRBY", "z", "inf", "down")) == RESULTING_SCORE_NAN
    world.exchange(stabilise=is_stable)
    for node in world.nodes:
        assert node.run("ZRANGE", "z", 0, -1) == [b"a", b"down", b"up"]
        assert node.run("ZMSCORE", "z", "a", "up") == [-math.inf, math.inf]


@pytest.mark.parametrize("score", ["x1", "1_0", "0x10", "", "nan"])
def test_scores_are_numbers(score: str):
    world = World(TABLES)
    assert str(world.run("ZADD", "z", score, "a")) == NOT_A_FLOAT
    assert world.run("EXISTS", "z") == 0


def test_a_whole_score_travels_as_an_integer():
    world = World(TABLES)
    world.run("ZADD", "z", "3.0", "a")
    ((_, member, _, (_, score)),) = world.nodes[0].batch[2::3]
    assert (member, score, type(score)) == (b"a", 3, int)
