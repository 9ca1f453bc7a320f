"""The chat in one order (Garg, problem 12.10): one screen under total order, several without."""

from __future__ import annotations

import pytest
from ordered_chat import ASKED, NAMES, script
from world import simulated

from tests.examples.ways import each_way, ways
from thence import ENGINES

TOTAL = [name for name, spec in ENGINES.items() if "total" in spec.guarantee]


@each_way
@pytest.mark.parametrize("engine", TOTAL)
def test_all_see_the_same(way: str, engine: str):
    screens = ways[way](script, NAMES, engine)
    assert screens[0] == screens[1] == screens[2]
    assert sorted(screens[0]) == sorted(ASKED)


@pytest.mark.parametrize("engine", TOTAL)
def test_so_it_is_for_any_order_of_arrival(engine: str):
    for seed in range(50):
        screens = simulated(script, NAMES, engine, seed)
        assert screens[0] == screens[1] == screens[2], seed


@each_way
@pytest.mark.parametrize("engine", ["tagged", "cbcast", "fifo"])
def test_without_a_total_order_each_sees_its_own_first(way: str, engine: str):
    screens = ways[way](script, NAMES, engine)
    assert [screen[0] for screen in screens] == list(ASKED)
