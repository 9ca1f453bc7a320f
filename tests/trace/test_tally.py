"""What a run was like, from its logs."""

from __future__ import annotations

from pathlib import Path

from thence.causal.dot import Dot
from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions, SimulationResult, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.reader import read_records
from thence.trace.record import DELIVER, PHANTOM, READY, RECEIVE, SEND, STABLE, Record
from thence.trace.tally import NodeTally, percentile, tally
from thence.trace.writer import RunWriter


def run(folder: Path, options: SimulationOptions) -> tuple[SimulationResult, dict[str, NodeTally]]:
    with RunWriter(folder, run_info(options)) as writer:
        result = simulate(options, writer, check=True)
    return result, tally(read_records([folder]))


def test_a_slow_link_holds_back_what_comes_after_its_messages(tmp_path: Path):
    options = SimulationOptions(
        nodes=3,
        workload=WorkloadOptions(messages=50, phantom_ms=50.0),
        network=NetworkOptions(slow_links=(SlowLink("a", "c", 30.0),)),
    )
    result, nodes = run(tmp_path, options)
    a, b, c = nodes.values()
    assert list(nodes) == ["a", "b", "c"]
    assert a.waits_for() == "c"
    assert c.waits_for() == "a"
    assert a.held > 10 * b.held
    assert a.held_us_max > 200_000
    assert sum(node.sent for node in nodes.values()) == result.messages
    assert sum(node.delivered for node in nodes.values()) == result.deliveries
    assert sum(len(node.stable_us) for node in nodes.values()) == result.stable
    assert a.words_max > a.words_end
    assert a.metadata_bytes > 50 * 3


def test_nothing_held_back_waits_for_nobody(tmp_path: Path):
    options = SimulationOptions(
        nodes=2, workload=WorkloadOptions(messages=5), network=NetworkOptions(fifo=True)
    )
    _, nodes = run(tmp_path, options)
    assert [node.waits_for() for node in nodes.values()] == [None, None]
    assert [node.held for node in nodes.values()] == [0, 0]


def test_each_number_is_what_the_records_say():
    def record(pos: int, kind: str, t_us: int, dot: Dot | None = None, **more: int) -> Record:
        return Record(run="r", node="a", pos=pos, kind=kind, t_us=t_us, dot=dot, **more)

    mine, theirs, late = Dot("a", 1), Dot("b", 1), Dot("c/s", 1)
    (node,) = tally(
        [
            record(0, SEND, 10, mine, bytes=7),
            record(1, RECEIVE, 20, theirs),
            record(2, RECEIVE, 50, late),
            record(3, READY, 50, late),
            record(4, READY, 50, theirs),
            record(5, DELIVER, 60, late),
            record(6, DELIVER, 61, theirs),
            record(7, PHANTOM, 65, Dot("a", 2)),
            record(8, STABLE, 70, mine),
            record(9, STABLE, 91, theirs),
            record(10, "end", 99),
        ]
    ).values()
    assert (node.sent, node.delivered, node.stable, node.metadata_bytes) == (1, 2, 2, 7)
    assert (node.held, node.held_us_max, node.waits_for()) == (1, 30, "c")
    assert node.stable_us == [60, 30]


def test_percentiles_are_samples():
    assert percentile([], 50) == 0
    assert percentile([5], 99) == 5
    assert percentile(list(range(1, 101)), 50) == 50
    assert percentile(list(range(1, 101)), 99) == 99
    assert percentile([3, 1, 2], 100) == 3
