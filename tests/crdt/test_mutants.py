"""The executions find bugs: each of ``MUTANTS`` within a number of seeds."""

from __future__ import annotations

import pytest

from tests.crdt.calls import mapping
from tests.crdt.mutants import MUTANTS, FormBRegister, Mutant
from tests.crdt.world import Execution
from thence.crdt import children
from thence.crdt.registry import CRDTS

SEEDS_MAX = 60


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.kind.__name__)
def test_a_bug_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    if mutant.is_nested:
        monkeypatch.setitem(children.BY_CODE, mutant.kind.CODE, mutant.kind)
    for seed in range(SEEDS_MAX):
        kind = CRDTS[mutant.name] if mutant.is_nested else mutant.kind
        execution = Execution(mutant.name, seed, kind)
        execution.world.is_lamport = mutant.is_lamport
        if mutant.is_nested:
            execution.world.call = mapping(execution.draw, (mutant.kind.CODE,))
        try:
            execution.run()
        except AssertionError:
            return
    pytest.fail("no execution showed it")


def test_every_type_has_a_bug():
    assert {mutant.name for mutant in MUTANTS} == set(CRDTS)


def test_a_register_may_drop_by_clock_outside_of_maps_if_clocks_extend_happens_before():
    """So it is the map that breaks ``FormBRegister``, not the register."""
    for seed in range(SEEDS_MAX):
        execution = Execution("register_lww", seed, FormBRegister)
        execution.world.is_lamport = True
        execution.world.call = lambda draw, at, me: ("set", draw.randrange(9))
        execution.run()
