"""Every interleaving of small worlds.  ``m`` broadcasts, ``p`` announces, ``f`` flushes."""

from __future__ import annotations

import pytest

from tests.sim.naive import naive
from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.errors import LimitError
from thence.sim.checkers import OracleFailure
from thence.sim.explore import World, explore, follow

SMALL = ["m,m", "mm,m", "m,m,", "m,mp", "m,mpf", "mmm,m", "mm,m,", "mm,,p"]
LARGE = ["m,m,m", "mm,m,m", "mmm,m,", "m,mp,p", "mm,mp,"]


def world(scripts: str, options: EngineOptions | None = None) -> World:
    return World(tuple(scripts.split(",")), options or EngineOptions(stability_batch=1))


@pytest.mark.parametrize("scripts", SMALL)
def test_the_flagship_breaks_no_rule_in_any_interleaving(scripts: str):
    assert explore(ENGINES["tagged"], world(scripts)).ends


@pytest.mark.parametrize("scripts", ["mm,m", "m,mpf", "m,m,"])
@pytest.mark.parametrize(
    "options",
    [
        EngineOptions(),
        EngineOptions(stability=False),
        EngineOptions(stability_batch=1, k=2),
        EngineOptions(stability_batch=1, pending_per_origin_max=1),
    ],
)
def test_the_flagship_with_other_options(scripts: str, options: EngineOptions):
    assert explore(ENGINES["tagged"], world(scripts, options)).ends


@pytest.mark.parametrize("name", ["vector", "graph", "cbcast", "cbcast-e2e"])
@pytest.mark.parametrize("scripts", ["m,m", "mm,m", "m,m,"])
def test_the_other_engines_in_the_smallest_worlds(name: str, scripts: str):
    assert explore(ENGINES[name], world(scripts)).ends


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scripts", LARGE)
def test_the_flagship_in_larger_worlds(scripts: str):
    assert explore(ENGINES["tagged"], world(scripts)).ends


@pytest.mark.parametrize(
    "bug", ["early", "under-tag", "unsound", "unsound-phantom", "never-stable", "own"]
)
def test_a_bug_is_found_and_its_path_can_be_followed(bug: str):
    spec = naive(bug)
    found = None
    for scripts in ("mm,m,", "m,mpf", "m,mm"):
        try:
            explore(spec, world(scripts))
        except OracleFailure as failure:
            found = failure
            break
    assert found is not None
    assert found.replay.startswith(f"follow(ENGINES['naive-{bug}'], World(")


def test_orders_of_steps_that_commute_are_followed_once():
    alone = explore(naive(), world("m,"))
    assert alone.ends == 1
    assert alone.states <= 6


def test_a_world_that_is_too_large_says_so():
    with pytest.raises(LimitError, match="more than 10 states"):
        explore(naive(), world("mm,m"), states_max=10)


def test_a_path_leads_to_the_same_state():
    path = [("script", 0), ("middleware", 0), ("network", 0)]
    first, second = (follow(ENGINES["tagged"], world("m,m"), path) for _ in range(2))
    assert first.state() == second.state()
    assert first.choices() == [("script", 1), ("take", 1)]
