"""What engines cost on one workload: counts that can be known beforehand."""

from __future__ import annotations

import pytest

from thence.engine.registry import ENGINES
from thence.sim.compare import CompareOptions, cost_of, costs

FEW = CompareOptions(messages=5)
CAUSAL = ["tagged", "vector", "graph", "cbcast", "cbcast-e2e", "fifo"]


@pytest.mark.parametrize("engine", CAUSAL)
def test_one_message_for_each_other_member_and_no_more(engine: str):
    cost = cost_of(ENGINES[engine], 4, FEW)
    assert (cost.broadcasts, cost.messages) == (20, 3.0)


def test_vectors_grow_with_the_group_and_numbers_do_not():
    small, large = (
        {cost.engine: cost.bytes for cost in costs([size], FEW, ["vector", "fifo"])}
        for size in (4, 32)
    )
    assert large["vector"] > small["vector"] + 20
    assert large["fifo"] == small["fifo"]


def test_the_network_itself_is_no_delay():
    # Rarely a message waits for another here, so that what is left is the mean of the network.
    assert abs(cost_of(ENGINES["fifo"], 8, CompareOptions(interval_ms=1000.0)).delay_ms) < 0.5


def test_the_same_seed_costs_the_same():
    assert list(costs([4], FEW, ["tagged"])) == list(costs([4], FEW, ["tagged"]))
