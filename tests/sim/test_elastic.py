"""Whole nodes whose members come, go and crash, under everything that can befall them.

soak_elastic.py does the same for long.
"""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.sim.elastic_classes import CLASSES, options_of
from tests.sim.elastic_mutants import MUTANTS, first_failure
from tests.sim.node_mutants import Mutant, plant
from thence.sim.elastic import run_elastic

PLAIN_SEEDS = 2
MUTANT_SEEDS = range(60)


@pytest.mark.parametrize("name", CLASSES)
def test_members_agree_and_nothing_is_lost(name: str):
    for seed in seeds(PLAIN_SEEDS):
        run_elastic(options_of(name, seed))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_bug_put_in_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    plant(monkeypatch, mutant)
    assert first_failure(mutant, MUTANT_SEEDS) is not None


def test_a_run_is_the_same_again():
    options = options_of("everything", 3)
    assert run_elastic(options).digest() == run_elastic(options).digest()


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        # An opening that was meant for the former incarnation of a node.
        ("loss", 134),
        # One that is out learned of later views, with slots that it does not know.
        ("tight", 159),
        ("large", 113),
        # An old knock reached a member after the newcomer had the state from another.
        ("contacts crash", 100),
        # The dead knew a view that nobody else knew.
        ("pair", 0),
        ("everything", 37),
        # A newcomer that only the dead knew came again: the check took its two lives for one.
        ("everything", 30531),
        # Newcomers asked each other, and were away when the one member let them in.
        ("everything", 43558),
        ("everything", 49840),
        # All whom an evicted member knew had left before it could be told.
        ("everything", 49704),
        # After a crash, what members of an earlier view knew was told to be stable in a later one.
        ("restarts, everything", 51241),
        ("restarts, everything", 51385),
        # What was to be sent again became stable meanwhile: the peer had it from another.
        ("loss", 87607),
        # All whom a member knew had left while it was down: only its operator knew another.
        ("shelves", 60936),
        # The machine of an evicted node died while it closed its journal: the simulator's mistake.
        ("restarts", 61956),
    ],
)
def test_runs_that_failed_once(name: str, seed: int):
    run_elastic(options_of(name, seed))
