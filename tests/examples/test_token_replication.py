"""Copies and a token (Garg, problem 12.1): causal order keeps the copies equal, fifo does not."""

from __future__ import annotations

from token_replication import NAMES, script
from world import simulated

from tests.examples.ways import each_way, ways

MADE = ["draft", "final", "print"]


@each_way
def test_under_causal_order_all_copies_change_in_the_same_order(way: str):
    assert ways[way](script, NAMES, "tagged") == [MADE, MADE, MADE]


def test_so_it_is_for_any_order_of_arrival():
    for seed in range(50):
        assert simulated(script, NAMES, "tagged", seed) == [MADE, MADE, MADE], seed


@each_way
def test_under_fifo_a_change_overtakes_an_older_one(way: str):
    a, b, c = ways[way](script, NAMES, "fifo")
    assert a == b == MADE
    assert c == ["final", "print", "draft"]
