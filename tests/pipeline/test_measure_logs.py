"""A run measured log by log gives the tables that one task gives, without holding two logs."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from tests.pipeline.metrics_brute import with_arrivals
from tests.pipeline.runs import write_run
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import Logs, broken, execution, records_of
from thence.errors import UnusableInputError
from thence.pipeline import measure_plan
from thence.pipeline.measure import WORK_FOLDER, Measured, measure_with
from thence.pipeline.measure_plan import sized
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import TABLES
from thence.pipeline.tasks import Runner, run_here
from thence.trace.reader import Place
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.segments import Quarantine, read_lines

Execution = Callable[[int], tuple[Logs, RunInfo]]
BY_LOGS, WHOLE = -1, 1 << 60


class Watched:
    """A Runner that counts its tasks, and runs them in another folder, as executors do."""

    def __init__(self, elsewhere: Path) -> None:
        self.elsewhere = elsewhere
        self.elsewhere.mkdir(exist_ok=True)
        self.tasks: Counter[str] = Counter()

    def __call__(
        self, what: str, work: Any, specs: Sequence[Any], result: Any, weights: Any = None
    ) -> list[Any]:
        assert weights is None or len(weights) == len(specs)
        self.tasks[what] += len(specs)
        sent = [msgspec.msgpack.decode(msgspec.msgpack.encode(s), type=type(s)) for s in specs]
        here = os.getcwd()
        os.chdir(self.elsewhere)
        try:
            return run_here(what, work, sent, result)
        finally:
            os.chdir(here)


def rows(out: Path, table: str) -> list[str]:
    return sorted(map(repr, pq.read_table(out / table).to_pylist()))


def measured(
    runner: Runner, paths: Sequence[Path], out: Path, events_max: int
) -> tuple[Measured, dict[str, list[str]]]:
    report = measure_with(
        runner, paths, out, rows=True, keep_going=True, whole_events_max=events_max
    )
    assert not (out / WORK_FOLDER).exists()
    names = [*TABLES, *(f"metrics/{name}" for name in METRICS)]
    return msgspec.structs.replace(report, out=""), {name: rows(out, name) for name in names}


def same_both_ways(paths: Sequence[Path], folder: Path) -> Counter[str]:
    """Measure in one task and by logs; how many tasks of each kind the latter took."""
    runner = Watched(folder / "elsewhere")
    whole = measured(run_here, paths, folder / "whole", WHOLE)
    assert whole == measured(runner, paths, folder / "logs", BY_LOGS)
    return runner.tasks


def write(folder: Path, kind: Execution, seed: int, run: str | None = None) -> bool:
    """A drawn execution as a run folder; False when it has no records."""
    logs, info = kind(seed)
    rng = random.Random(seed)
    records = records_of(with_arrivals(rng, logs))
    run = run or info.run
    records = [
        msgspec.structs.replace(record, run=run, words=rng.choice([None, 0, 7]))
        for record in records
    ]
    info = msgspec.structs.replace(info, run=run, scenario={"simulated": bool(seed % 2)})
    if records:
        write_run(folder, records, info, seed)
    return bool(records)


@pytest.mark.parametrize(
    "kind", [execution, broken, dynamic_execution, broken_dynamic], ids=lambda kind: kind.__name__
)
def test_a_run_measured_by_logs_has_the_tables_of_one_task(tmp_path: Path, kind: Execution):
    tasks: Counter[str] = Counter()
    for seed in seeds(15):
        folder = tmp_path / f"{seed}"
        if write(folder / "run", kind, seed):
            tasks += same_both_ways([folder / "run"], folder)
    assert tasks["measuring logs"] > 30
    assert tasks["measuring runs"] == 0
    if kind in (broken, broken_dynamic):
        assert tasks["closing pasts"] > 0, "some vectors had to be closed"


def test_runs_are_measured_together_whatever_their_files_and_folders(tmp_path: Path):
    """Several runs in one stage, one in two folders, one without run.json, bad lines, no log."""
    runs = tmp_path / "runs"
    for seed, kind in enumerate((execution, broken, dynamic_execution, broken_dynamic), 40):
        assert write(runs / f"{seed}", kind, seed, run=f"run{seed}")
    for node in "ab":
        (runs / f"two-{node}").mkdir()
        info = RunInfo(run="two", members=("a", "b", "c"), complete=True)
        (runs / f"two-{node}/run.json").write_bytes(info_to_json(info))
        lines = [{"pos": 0, "kind": "sample", "t_us": 1, "words": 3}, {"pos": -1, "kind": "end"}]
        text = [json.dumps({"v": 1, "run": "two", "node": node, **line}) for line in lines]
        (runs / f"two-{node}/log.jsonl").write_text("\n".join(text) + "\n")
    (runs / "40" / "run.json").unlink()
    same_both_ways([runs], tmp_path)
    report, _ = measured(run_here, [runs], tmp_path / "again", BY_LOGS)
    assert (report.runs, report.quarantined_count, len(report.notes)) == (5, 3, 1)


def test_each_task_has_one_log(tmp_path: Path):
    assert write(tmp_path / "run", execution, 3)
    seen: list[tuple[str, set[str]]] = []

    def runner(what: str, work: Any, specs: Sequence[Any], result: Any, weights: Any = None) -> Any:
        for spec in specs:
            seen.append((what, {piece.node for piece in getattr(spec, "pieces", ())}))
        return run_here(what, work, specs, result, weights)

    measure_with(runner, [tmp_path / "run"], tmp_path / "out", whole_events_max=BY_LOGS)
    for what in ("reading logs", "measuring logs"):
        found = [nodes for name, nodes in seen if name == what]
        assert all(len(nodes) == 1 for nodes in found)
        assert len(found) == len({node for nodes in found for node in nodes}) > 1


def test_numbers_with_great_holes_go_to_one_task(tmp_path: Path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_bytes(info_to_json(RunInfo(run="r", members=("a", "b"))))
    send = Record(run="r", node="a", pos=0, kind="send", dot=("a", 1 << 30), t_us=5)
    take = Record(run="r", node="b", pos=0, kind="receive", dot=("a", 1 << 30), t_us=6)
    for record in (send, take):
        (folder / f"{record.node}.jsonl").write_bytes(record_to_json(record) + b"\n")
    assert same_both_ways([folder], tmp_path)["measuring in one task"] == 1


def test_chains_of_faults_beyond_the_rounds_go_to_one_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(measure_plan, "ROUNDS_MAX", 2)
    tasks: Counter[str] = Counter()
    for seed in seeds(10):
        folder = tmp_path / f"{seed}"
        if write(folder / "run", broken, seed):
            tasks += same_both_ways([folder / "run"], folder)
    assert tasks["measuring in one task"] > 0


def test_two_folders_with_one_log_are_refused(tmp_path: Path):
    for name in ("one", "two"):
        assert write(tmp_path / "runs" / name, execution, 3, run="r")
    with pytest.raises(UnusableInputError, match="both hold a log of"):
        measured(run_here, [tmp_path / "runs"], tmp_path / "out", BY_LOGS)
    assert not (tmp_path / "out" / WORK_FOLDER).exists()


def test_paths_mean_the_same_in_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert write(tmp_path / "run", execution, 3)
    monkeypatch.chdir(tmp_path)
    for events_max in (WHOLE, BY_LOGS):
        runner = Watched(tmp_path / "elsewhere")
        report = measure_with(runner, ["run"], "out", whole_events_max=events_max)
        assert report.out == str(tmp_path / "out")
        assert len(rows(tmp_path / "out", "runs")) == 1


def test_what_is_long_is_told_by_the_sizes_of_files(tmp_path: Path):
    sizes = {"a.jsonl": 1000, "a.jsonl.gz": 80, "a.parquet": 40}
    for name, size in sizes.items():
        (tmp_path / name).write_bytes(b"x" * size)
        assert sized([Place("", (str(tmp_path / name),), None)]).events == 10


def test_lines_are_not_held_as_objects(tmp_path: Path):
    lines = 5000
    with (tmp_path / "a.jsonl").open("w") as file:
        for pos in range(lines):
            line = {"v": 1, "run": "r", "node": "a", "pos": pos, "kind": "send", "bytes": 500 + pos}
            line |= {"dot": ["a", pos + 1], "context": [["b", pos + 1]], "t_us": 1000 * pos}
            file.write(json.dumps(line) + "\n")
    tracemalloc.start()
    try:
        part = read_lines(str(tmp_path / "a.jsonl"), Quarantine(), measured=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(part.node) == lines
    assert peak / lines < 150  # an integer alone is 32 bytes as an object; there are eleven a line
