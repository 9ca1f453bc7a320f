"""The add-wins set (thesis, figure 16): replicas agree by tags, and differ by order of arrival."""

from __future__ import annotations

from add_wins_set import NAMES, by_arrival, script

from tests.examples.ways import each_way, ways


@each_way
def test_an_addition_wins_at_every_replica(way: str):
    assert ways[way](script, NAMES, "tagged") == [{"a"}, {"a"}, {"a"}]


@each_way
def test_by_order_of_arrival_replicas_differ(way: str):
    assert ways[way](by_arrival, NAMES, "tagged") == [set(), set(), {"a"}]
