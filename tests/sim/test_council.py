"""Councils in every order of small worlds and in random orders of larger ones; bugs put in show."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.client import test_council as rules
from tests.seeds import seeds
from tests.sim.council_mutants import MUTANTS
from tests.sim.node_mutants import Mutant, plant
from thence.errors import LimitError
from thence.sim.council import Broken
from thence.sim.council_explore import Scene, explore, follow
from thence.sim.council_walk import CouncilWalk, CouncilWalkOptions, plan_councils, walk_councils

PLAIN_WALKS = 120
MUTANT_WALKS = range(1500)
SMALL = {
    "one, join": Scene(nodes=1, joins=1),
    "one, join, leave": Scene(nodes=1, joins=1, leaves=(0,)),
    "pair, join": Scene(nodes=2, joins=1),
    "pair, all leave": Scene(nodes=2, leaves=(0, 1)),
    "pair, crash": Scene(nodes=2, crashes=(1,), sends=(1, 1)),
    "pair, crash of the first": Scene(nodes=2, crashes=(0,), sends=(0,)),
    "pair, doubt": Scene(nodes=2, doubts=((0, 1),), sends=(1,)),
    "join": Scene(joins=1),
    "leave of the first": Scene(leaves=(0,)),
    "leave": Scene(leaves=(1,)),
    "crash of the first": Scene(crashes=(0,), sends=(0, 0)),
    "crash": Scene(crashes=(2,), sends=(2, 2)),
    "crash of one that others depend on": Scene(crashes=(2,), sends=(2, 2, 1)),
    "crash, leave": Scene(crashes=(2,), sends=(2,), leaves=(1,)),
    "crash, leave of the first": Scene(crashes=(2,), sends=(2,), leaves=(0,)),
    "crash of the first, leave": Scene(crashes=(0,), sends=(0,), leaves=(1,)),
    "crash of one that leaves": Scene(crashes=(0,), leaves=(0,)),
    "the newcomer crashes": Scene(joins=1, crashes=(3,), contact=0),
    "join, crash": Scene(joins=1, crashes=(2,), contact=0, is_noticed=True),
}
LARGE = {
    "pair, join, both leave": Scene(nodes=2, joins=1, leaves=(0, 1)),
    "all leave": Scene(leaves=(0, 1, 2)),
    "the newcomer dies before it has the state": Scene(joins=1, perishes=(1,)),
    "the newcomer crashes, whoever is asked": Scene(joins=1, crashes=(3,)),
    "doubt": Scene(doubts=((0, 2),), sends=(2, 2)),
    "doubt of the first": Scene(doubts=((1, 0),), sends=(0,), ballots=2),
    "doubt, crash": Scene(doubts=((0, 2),), crashes=(0,), sends=(2,)),
    "fall of the first, leave": Scene(falls=(0,), leaves=(0,)),
    "fall of the first, crash": Scene(falls=(0,), crashes=(2,), sends=(2,)),
    "fall, crash": Scene(falls=(1,), crashes=(2,), sends=(2,)),
    "join, leave of the first": Scene(joins=1, leaves=(0,)),
    "join, leave": Scene(joins=1, leaves=(1,)),
    "join, crash of the first with a message": Scene(joins=1, crashes=(0,), sends=(0,)),
    "join, crash with a message": Scene(joins=1, crashes=(2,), sends=(2,)),
    "join, leave, crash": Scene(
        joins=1, leaves=(1,), crashes=(2,), contact=0, is_noticed=True, ballots=1
    ),
    "join, leave, crash of the first": Scene(
        joins=1, leaves=(1,), crashes=(0,), contact=1, is_noticed=True, ballots=1
    ),
    "join, leave of the first, crash": Scene(
        joins=1, leaves=(0,), crashes=(2,), contact=1, is_noticed=True, ballots=1
    ),
    "join, leave, crash of the contact": Scene(
        joins=1, leaves=(1,), crashes=(2,), contact=2, is_noticed=True, ballots=1
    ),
}


@pytest.mark.parametrize("name", SMALL)
def test_no_order_of_a_small_world_breaks_a_rule(name: str):
    assert explore(SMALL[name]).rests


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", LARGE)
def test_no_order_of_a_larger_world_breaks_a_rule(name: str, capsys: pytest.CaptureFixture[str]):
    found = explore(LARGE[name])
    with capsys.disabled():
        print(f"\n{name}: {found}")


def vouched(seed: int) -> CouncilWalkOptions:
    return msgspec.structs.replace(plan_councils(seed), is_vouched=True, crashes=2)


def rivals(seed: int) -> CouncilWalkOptions:
    """Much to agree on, and many who think that it is their turn."""
    return CouncilWalkOptions(
        seed=seed, nodes=3 + 2 * (seed % 3 == 0), steps=150, sends=0.0, joins=2, falls=seed % 7,
        doubts=12, resets=0.02 + 0.06 * (seed % 2), faults=0.4, patience=0.98, is_aimed=True,
    )  # fmt: skip


@pytest.mark.parametrize("plan", [plan_councils, vouched, rivals])
def test_no_random_order_breaks_a_rule(plan: Callable[[int], CouncilWalkOptions]):
    for seed in seeds(PLAIN_WALKS // (1 if plan is plan_councils else 3)):
        walk_councils(plan(seed))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("plan", [plan_councils, vouched, rivals])
def test_no_random_order_breaks_a_rule_for_long(plan: Callable[[int], CouncilWalkOptions]):
    for seed in range(100_000, 130_000):
        walk_councils(plan(seed))


def test_walks_reach_what_they_are_for():
    worlds = [walk_councils(seed) for seed in range(60)]
    views = [max(world.chain.values(), key=lambda each: each.num) for world in worlds]
    assert max(view.num for view in views) >= 4
    assert any(gone.is_evicted and gone.cut for view in views for gone in view.gone)
    assert any(not gone.is_evicted for view in views for gone in view.gone)
    assert any(
        member.incarnation > 1 for w in worlds for v in w.chain.values() for member in v.members
    )


def test_a_walk_depends_on_its_options_alone():
    for seed in range(10):
        walks = [CouncilWalk(plan_councils(seed)) for _ in range(2)]
        for walk in walks:
            walk.wander()
            walk.settle()
        assert walks[0].taken == walks[1].taken


def test_a_world_that_is_too_large_says_so():
    with pytest.raises(LimitError, match="more than 10 states"):
        explore(SMALL["join"], states_max=10)


def test_a_path_that_fails_can_be_followed(monkeypatch: pytest.MonkeyPatch):
    mutant = next(each for each in MUTANTS if each.name == "a cut is proposed before all have it")
    plant(monkeypatch, mutant)
    with pytest.raises(Broken) as found:
        explore(SMALL["crash"])
    what, path = str(found.value).split("\n")
    with pytest.raises(Broken, match=what[:40]):
        eval(path, {"follow": follow, "Scene": Scene})


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda each: each.name)
def test_a_mistake_shows(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, mutant)
    kind, _, which = mutant.seen_in.partition(" ")
    if kind == "rule":
        with pytest.raises((AssertionError, LookupError)):
            getattr(rules, which)()
    else:
        assert any(fails(seed) for seed in [int(which), *MUTANT_WALKS])


def fails(seed: int) -> bool:
    try:
        walk_councils(seed)
    except Broken:
        return True
    return False
