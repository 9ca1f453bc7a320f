"""What is sent of a long run is bounded; near by, it is every record there is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from thence.cli.simulate import run_to
from thence.sim.run import SimulationOptions
from thence.sim.workload import WorkloadOptions
from thence.trace.columns import KIND_CODE, Columns, Ints
from thence.trace.record import RunInfo
from thence.web.axes import Fold, duration, fold_quiet, label, ticks
from thence.web.execution import Execution
from thence.web.sources import find_sources
from thence.web.windows import ARROWS_MAX, BINS_MAX, MARKS_MAX, Ask, Windows

WINDOW_BYTES_MAX = 600_000
NODES = 8
ROUNDS = 780  # times 8 senders, and at each other node arrival and delivery: 100,000 records


def rounds(nodes: int, count: int) -> Columns:
    """In each round every node sends, then takes what the others sent in it."""
    names = tuple(chr(ord("a") + node) for node in range(nodes))
    per_round = 1 + 3 * (nodes - 1)
    kind = np.tile(
        [KIND_CODE["send"], *[KIND_CODE[k] for k in ("receive", "ready", "deliver")] * (nodes - 1)],
        nodes * count,
    ).astype(np.int8)
    node = np.repeat(np.arange(nodes), count * per_round).astype(np.int16)
    pos = np.tile(np.arange(count * per_round), nodes)
    origin = np.concatenate([
        np.tile([each, *np.repeat([n for n in range(nodes) if n != each], 3)], count)
        for each in range(nodes)
    ]).astype(np.int16)  # fmt: skip
    seq = np.tile(np.repeat(np.arange(1, count + 1), per_round), nodes)
    is_send = kind == KIND_CODE["send"]
    start: Ints = np.concatenate([[0], np.cumsum(np.where(is_send & (seq > 1), nodes, 0))])
    named = np.tile(np.arange(nodes), nodes * (count - 1)).astype(np.int16)
    t_us = np.tile(np.repeat(np.arange(count), per_round) * 1000, nodes)
    t_us = t_us + np.tile(np.tile(np.arange(per_round) * 10, count), nodes)
    return Columns(
        run="long", names=names, node=node, pos=pos, kind=kind, dot_node=origin, dot_seq=seq,
        context_start=start, context_node=named,
        context_seq=np.tile(np.repeat(np.arange(1, count), nodes), nodes),
        to={}, changes={}, repeated_node=np.zeros(0, np.int64), repeated_pos=np.zeros(0, np.int64),
        measured=np.stack([t_us, t_us, t_us]),
    )  # fmt: skip


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Windows:
    columns = rounds(NODES, ROUNDS * 22 // (1 + 3 * (NODES - 1)))
    about = RunInfo(run="long", members=columns.names, stability=False)
    return Windows(Execution(columns, about), tmp_path_factory.mktemp("windows"))


@pytest.mark.parametrize("axis", ["order", "time", "graph"])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.05, 0.01, 0.001])
def test_a_window_of_a_long_run_is_bounded(long: Windows, axis: str, share: float):
    assert len(long.execution.layout) > 100_000
    low, high = long.extent(Ask(axis=axis, low=0, high=1))
    begin = low + (high - low) * 0.4
    ask = Ask(axis=axis, low=begin, high=begin + (high - low) * share, bins=10_000)
    answer = long.window(ask)
    assert len(msgspec.json.encode(answer)) < WINDOW_BYTES_MAX
    if "marks" in answer:
        assert len(answer["marks"]["x"]) == answer["count"] <= MARKS_MAX
        assert len(answer["arrows"]["x1"]) <= ARROWS_MAX
    else:
        assert answer["count"] > MARKS_MAX
        assert answer["density"]["bins"] <= BINS_MAX
        assert sum(map(sum, answer["density"]["counts"])) == answer["count"]


def test_windows_side_by_side_show_each_record_once(tmp_path: Path):
    run_to(tmp_path, SimulationOptions(seed=1, nodes=3, workload=WorkloadOptions(messages=30)))
    read = find_sources(str(tmp_path), tmp_path)[0].read()
    windows = Windows(Execution(read.columns, read.info), tmp_path)
    for axis in ("order", "time"):
        low, high = windows.extent(Ask(axis=axis, low=0, high=1))
        edges = np.linspace(low - 0.5, high + 0.5, 9)
        seen = []
        for begin, end in zip(edges[:-1], edges[1:] - 1e-6, strict=True):
            marks = windows.window(Ask(axis=axis, low=begin, high=end))["marks"]
            seen += list(zip(marks["lane"], marks["pos"], strict=True))
        assert len(seen) == len(set(seen)) == len(windows.execution.layout)


def test_a_fold_keeps_the_order_and_the_ends_of_what_it_folds():
    x = np.array([0.0, 1, 2, 3, 1000, 1001, 1002])
    fold = fold_quiet(x)
    assert len(fold.folds) == 1
    u = fold.to_u(x)
    assert (np.diff(u) > 0).all()
    assert u[-1] < 10
    assert [fold.to_x(float(one)) for one in u] == pytest.approx(x.tolist())


def test_what_is_even_is_not_folded():
    assert fold_quiet(np.arange(100.0)).folds == ()
    assert fold_quiet(np.zeros(0)).folds == ()


@pytest.mark.parametrize("count", [3, 10, 40])
def test_nor_is_what_is_even_and_short_or_has_records_side_by_side(count: int):
    assert fold_quiet(np.arange(count) * 1e6).folds == ()
    assert fold_quiet(np.repeat(np.arange(float(count)), 4)).folds == ()


def test_ticks_are_round_numbers_and_few():
    plain = Fold(np.zeros(1), np.zeros(1))
    found = ticks("order", 0.0, 103.0, plain, 0)
    assert [tick["label"] for tick in found] == [str(n) for n in range(0, 101, 10)]
    assert label("time", 1500.0, 500.0, 0) == "1.50 ms"
    assert label("time", 0.0, 1e6, 1_700_000_000_000_000) == "22:13:20"
    assert duration(2_500_000.0, 100_000.0) == "2.5 s"


def test_ticks_go_on_behind_a_fold():
    fold = fold_quiet(np.array([0.0, 1, 2, 3, 1_000_000, 1_000_001, 1_000_002]))
    high = float(fold.to_u(1_000_002.0))
    found = ticks("order", 0.0, high, fold, 0)
    assert found[0]["label"] == "0"
    assert found[-1]["label"].startswith("1,000,00")
    assert len(found) < 20


@pytest.mark.parametrize("start_us", [1 << 62, 253_402_300_799_000_000, 1_700_000_000_000_000])
def test_clocks_that_no_calendar_has_are_labelled_too(start_us: int):
    for low, high in ((0.0, 5e6), (-1e20, 1e20), (4e18, 5e18)):
        assert all(
            tick["label"]
            for tick in ticks("time", low, high, Fold(np.zeros(1), np.zeros(1)), start_us)
        )
