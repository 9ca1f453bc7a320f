"""Coordinates of a space-time diagram: nothing goes back, and what waits is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.seeds import seeds
from tests.trace.executions import broken, execution, records_of
from tests.trace.faults import info, records
from tests.web.brute import with_arrivals
from thence.cli.simulate import run_to
from thence.sim.run import SimulationOptions
from thence.sim.workload import WorkloadOptions
from thence.trace.check import vectors_of
from thence.trace.columns import gather_runs
from thence.trace.index import index_log
from thence.trace.layout import ARROW_PHANTOM, Layout, lay_out
from thence.trace.reader import read_records
from thence.trace.record import Record, RunInfo
from thence.trace.run import Opened, open_run
from thence.trace.segments import part_of_records


def laid_out(made: list[Record], about: RunInfo) -> tuple[Opened, Layout]:
    columns = gather_runs([part_of_records(made, measured=True)], about.members)[0]
    opened = open_run(columns, about)
    logs = [index_log(opened, node) for node in opened.nodes]
    vectors, _ = vectors_of(opened.run, logs)
    return opened, lay_out(opened, logs, vectors)


def row_of(opened: Opened, node: str, pos: int) -> int:
    code = opened.columns.names.index(node)
    rows = zip(opened.columns.node.tolist(), opened.columns.pos.tolist(), strict=True)
    return list(rows).index((code, pos))


@pytest.mark.parametrize("seed", seeds(20))
def test_levels_rise_along_logs_and_arrows_and_waste_no_room(seed: int):
    logs, about = execution(seed)
    _, layout = laid_out(with_arrivals(records_of(logs), seed), about)
    level, lane = layout.level, layout.lane
    same = lane[1:] == lane[:-1]
    assert (level[1:][same] > level[:-1][same]).all()
    assert (level[layout.arrows.head] > level[layout.arrows.tail]).all()
    # Each record is one step after something that it has to follow.
    tails = dict(zip(layout.arrows.head.tolist(), layout.arrows.tail.tolist(), strict=True))
    for row in range(len(layout)):
        before = [row - 1] if row and lane[row] == lane[row - 1] else []
        if row in tails:
            before.append(tails[row])
        assert level[row] == 1 + max((int(level[other]) for other in before), default=0)


@pytest.mark.parametrize("seed", seeds(30))
def test_logs_that_contradict_each_other_are_laid_out_all_the_same(seed: int):
    logs, about = broken(seed)
    made = records_of(logs)
    if made:
        _, layout = laid_out(made, about)
        assert (layout.level > 0).all()
        assert len(layout) == len({(record.node, record.pos) for record in made})


def test_a_log_that_waits_for_itself_through_another_goes_on():
    made = records(a="deliver b:1; send a:1", b="deliver a:1; send b:1")
    _, layout = laid_out(made, info("a", "b"))
    assert sorted(layout.level.tolist()) == [1, 2, 3, 4]


def test_a_message_has_one_arrow_to_each_node_to_its_first_record_there():
    made = records(
        a="send a:1; end",
        b="receive a:1; ready a:1; deliver a:1; deliver a:1; end",
        c="deliver a:1; end",
    )
    opened, layout = laid_out(made, info("a", "b", "c"))
    heads = {row_of(opened, "b", 0), row_of(opened, "c", 0)}
    assert set(layout.arrows.head.tolist()) == heads
    assert layout.arrows.tail.tolist() == [row_of(opened, "a", 0)] * 2


def test_phantoms_have_arrows_from_their_announcer():
    made = records(a="phantom a:1; end", b="phantom a:1; end")
    opened, layout = laid_out(made, info("a", "b"))
    assert layout.arrows.kind.tolist() == [ARROW_PHANTOM]
    assert layout.arrows.tail.tolist() == [row_of(opened, "a", 0)]


def test_a_phantom_comes_from_the_announcement_with_its_context():
    # b sends nothing, so all of its phantoms have the same dot; the last two say the same.
    b = "phantom b:1 < a:1; phantom b:1 < a:2; phantom b:1 < a:2 b/s:1"
    made = records(
        a="send a:1; phantom b:1 < a:1; send a:2 < a:1; phantom b:1 < a:2; phantom b:1 < a:2; "
        "phantom b:1 < a:9",
        b=f"deliver a:1; {b}",
    )
    opened, layout = laid_out(made, info("a", "b", complete=False))
    phantoms = layout.arrows.kind == ARROW_PHANTOM
    pairs = zip(layout.arrows.tail[phantoms], layout.arrows.head[phantoms], strict=True)
    expected = [(1, 1), (2, 3), (3, 4)]
    assert [(int(tail), int(head)) for tail, head in pairs] == [
        (row_of(opened, "b", tail), row_of(opened, "a", head)) for tail, head in expected
    ]


@pytest.mark.parametrize("seed", seeds(5))
def test_no_arrow_of_a_run_with_phantoms_goes_back(seed: int, tmp_path: Path):
    workload = WorkloadOptions(messages=6, passive=1, phantom_ms=10.0)
    run_to(tmp_path, SimulationOptions(seed=seed, nodes=3, workload=workload))
    made = list(read_records([tmp_path]))
    _, layout = laid_out(made, info(*"abc", run=made[0].run))
    tail, head = layout.arrows.tail, layout.arrows.head
    assert (layout.arrows.kind == ARROW_PHANTOM).sum() > 5
    assert (layout.level[tail] < layout.level[head]).all()
    assert (layout.t_us[tail] <= layout.t_us[head]).all()


def test_a_message_waits_for_the_predecessor_that_has_not_arrived():
    # b:1 needs a:1, b:2 needs b:1 as well: what both wait for is a:1.
    made = records(
        a="send a:1; end",
        b="deliver a:1; send b:1 < a:1; send b:2 < b:1; end",
        c="receive b:1; receive b:2; receive a:1; ready a:1; ready b:1; deliver a:1; ready b:2; "
        "deliver b:1; deliver b:2; end",
    )
    opened, layout = laid_out(made, info("a", "b", "c"))
    holds, dots = layout.holds, opened.run.numbering
    found = [
        (int(opened.columns.pos[row]), int(opened.columns.pos[until]), str(dots.dot(missing)))
        for row, until, missing in zip(
            holds.row.tolist(), holds.until.tolist(), holds.missing.tolist(), strict=True
        )
    ]
    assert found == [(0, 4, "a:1"), (1, 6, "a:1")]


def test_a_message_that_is_never_handed_over_waits_to_the_end():
    made = records(a="send a:1; send a:2 < a:1; end", b="receive a:2")
    opened, layout = laid_out(made, info("a", "b"))
    assert layout.holds.until.tolist() == [-1]
    assert str(opened.run.numbering.dot(int(layout.holds.missing[0]))) == "a:1"


def test_what_was_not_for_a_node_is_not_waited_for_there():
    made = records(
        a="send a:1 @ c; send a:2 < a:1; end",
        b="receive a:2; ready a:2; deliver a:2; end",
        c="deliver a:1; deliver a:2; end",
    )
    assert not len(laid_out(made, info("a", "b", "c"))[1].holds.row)


def test_in_a_total_order_a_message_waits_for_its_turn():
    made = records(
        a="send a:1; receive b:1; receive a:1; ready a:1; ready b:1; deliver a:1; deliver b:1; end",
        b="send b:1; receive a:1; ready a:1; deliver a:1; receive b:1; ready b:1; deliver b:1; end",
    )
    opened, layout = laid_out(made, info("a", "b", guarantee="causal-total"))
    rows = [int(opened.columns.pos[row]) for row in layout.holds.row]
    assert rows == [1]
    assert layout.holds.missing.tolist() == [-1]


def test_depth_is_the_longest_chain_of_contexts():
    made = records(
        a="send a:1; send a:2 < a:1; deliver b:1; send a:3 < a:2 b:1",
        b="send b:1",
    )
    opened, layout = laid_out(made, info("a", "b"))
    depth = {
        str(opened.columns.dot(row)): int(layout.depth[row])
        for row in range(len(layout))
        if layout.depth[row] > 0
    }
    assert depth == {"a:1": 1, "a:2": 2, "a:3": 3, "b:1": 1}
    assert len(layout.edges.tail) == 3


def test_a_record_without_a_clock_has_the_one_before_it():
    made = records(a="send a:1; send a:2 < a:1", b="deliver a:1")
    _, layout = laid_out(made, info("a", "b"))
    assert layout.has_clock
    assert layout.t_us.tolist() == [0, 1, 0]


def test_clocks_that_say_nothing_are_no_time_axis():
    made = [Record(run="r", node=node, pos=0, kind="end", t_us=0) for node in ("a", "b")]
    assert not laid_out(made, info("a", "b"))[1].has_clock
