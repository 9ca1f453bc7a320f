"""A star under fifo is causally ordered (Garg, problem 12.5); the same without the hub is not."""

from __future__ import annotations

from star import FRIENDS, NAMES, SENSE, directly, script
from world import simulated

from tests.examples.ways import each_way, ways


@each_way
def test_through_the_hub_all_see_a_conversation_that_makes_sense(way: str):
    assert ways[way](script, NAMES, "fifo") == [SENSE] * len(FRIENDS)


def test_so_it_is_for_any_order_of_arrival():
    for seed in range(50):
        assert simulated(script, NAMES, "fifo", seed) == [SENSE] * len(FRIENDS), seed


@each_way
def test_directly_joey_sees_nonsense(way: str):
    *_, joey = ways[way](directly, NAMES, "fifo")
    assert joey != SENSE
    assert joey.index(SENSE[1]) > joey.index(SENSE[2])  # sorry that Ross will come
