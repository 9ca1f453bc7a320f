"""The world of the executions, with Hypothesis deciding what happens next and making it small."""

from __future__ import annotations

import random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.crdt.mutants import CompactSetRw
from tests.crdt.world import Replica, World
from tests.seeds import FACTOR
from thence.crdt.base import Crdt
from thence.crdt.registry import CRDTS

EXAMPLES = 4
STEPS = 20
PLACES = st.integers(0, 5)
"""Of a replica, or of a batch that it can get: modulo how many there are."""
DRAWS = st.integers(0, 999).map(random.Random)


def machine(name: str, kind: type[Crdt] | None = None) -> type[RuleBasedStateMachine]:
    """A machine for one data type."""

    class Machine(RuleBasedStateMachine):
        @initialize(count=st.integers(2, 4), draw=DRAWS)
        def begin(self, count: int, draw: random.Random) -> None:
            self.world = World(name, count, draw, kind)

        def replica(self, at: int) -> Replica:
            return self.world.replicas[at % len(self.world.replicas)]

        @rule(at=PLACES, draw=DRAWS)
        def send(self, at: int, draw: random.Random) -> None:
            self.world.send(self.replica(at), draw)

        @precondition(lambda self: self.world.batches)
        @rule(at=PLACES, which=PLACES, is_merged=st.booleans())
        def receive(self, at: int, which: int, is_merged: bool) -> None:
            replica = self.replica(at)
            if batches := self.world.deliverable(replica):
                self.world.receive(replica, batches[which % len(batches)], is_merged)

        @precondition(lambda self: self.world.batches)
        @rule(at=PLACES, draw=DRAWS)
        def stabilise(self, at: int, draw: random.Random) -> None:
            self.world.stabilise(self.replica(at), draw)

        @rule(at=PLACES)
        def reload(self, at: int) -> None:
            self.world.reload(self.replica(at))

        @rule(at=PLACES)
        def join(self, at: int) -> None:
            self.world.join(self.replica(at))

        def teardown(self) -> None:
            if hasattr(self, "world"):
                self.world.finish(random.Random(0))

    return Machine


def settings(examples: int, **more: Any) -> hypothesis.settings:
    return hypothesis.settings(
        max_examples=examples,
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        **more,
    )


@pytest.mark.parametrize("name", CRDTS)
def test_no_course_of_events_shows_anything_else_than_the_specification(name: str):
    run_state_machine_as_test(machine(name), settings=settings(EXAMPLES * FACTOR))


def test_a_course_of_events_shows_that_the_compact_remove_wins_set_is_none():
    quick = settings(200, derandomize=True, database=None, phases=[hypothesis.Phase.generate])
    with pytest.raises(AssertionError):  # what differs first depends on the order of choices
        run_state_machine_as_test(machine("set_rw", CompactSetRw), settings=quick)
