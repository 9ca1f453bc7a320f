"""A lock on a total order: one at a time and fair; without such an order neither."""

from __future__ import annotations

import pytest
from mutual_exclusion import NAMES, script
from world import simulated

from tests.examples.ways import each_way, ways
from thence import ENGINES

FAIR = [name for name, spec in ENGINES.items() if spec.guarantee == "causal-total"]


@each_way
@pytest.mark.parametrize("engine", FAIR)
def test_one_is_inside_and_who_asked_knowing_of_others_comes_after_them(way: str, engine: str):
    most, log = ways[way](script, NAMES, engine)
    assert most == 1
    assert sorted(log) == sorted(NAMES)
    assert log[-1] == "cat"


@pytest.mark.parametrize("engine", FAIR)
def test_so_it_is_for_any_order_of_arrival(engine: str):
    for seed in range(50):
        most, log = simulated(script, NAMES, engine, seed)
        assert (most, log[-1]) == (1, "cat"), seed


@each_way
@pytest.mark.parametrize("engine", ["tagged", "fifo"])
def test_without_a_total_order_two_are_inside(way: str, engine: str):
    most, _ = ways[way](script, NAMES, engine)
    assert most == 2
