"""What a run was like."""

from __future__ import annotations

from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions, simulate
from thence.sim.tally import Tally, percentile
from thence.sim.workload import WorkloadOptions


def test_a_slow_link_holds_back_what_comes_after_its_messages():
    options = SimulationOptions(
        nodes=3,
        workload=WorkloadOptions(messages=50, phantom_ms=50.0),
        network=NetworkOptions(slow_links=(SlowLink("a", "c", 30.0),)),
    )
    tally = Tally(3)
    result = simulate(options, check=True, watchers=[tally])
    a, b, c = tally.nodes
    assert a.waits_for() == 2
    assert c.waits_for() == 0
    assert a.held > 10 * b.held
    assert a.held_us_max > 200_000
    assert sum(node.delivered for node in tally.nodes) == result.deliveries
    assert sum(len(node.stable_us) for node in tally.nodes) == result.stable
    assert a.words_max > a.words_end > 0


def test_nothing_held_back_waits_for_nobody():
    options = SimulationOptions(
        nodes=2, workload=WorkloadOptions(messages=5), network=NetworkOptions(fifo=True)
    )
    tally = Tally(2)
    simulate(options, watchers=[tally])
    assert [node.waits_for() for node in tally.nodes] == [None, None]


def test_percentiles_are_samples():
    assert percentile([], 50) == 0
    assert percentile([5], 99) == 5
    assert percentile(list(range(1, 101)), 50) == 50
    assert percentile(list(range(1, 101)), 99) == 99
    assert percentile([3, 1, 2], 100) == 3
