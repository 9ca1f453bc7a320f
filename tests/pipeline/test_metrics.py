"""Every metric on Spark against plain Python, at every level, on simulated and random runs."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.metrics_brute import with_arrivals
from tests.pipeline.metrics_expected import ABOUT, Measured, expected_rows, measured
from tests.pipeline.multicasts import multicast_run
from tests.pipeline.runs import write_run
from tests.trace.dynamics import dynamic_execution
from tests.trace.executions import execution, records_of
from thence.engine.base import EngineOptions
from thence.errors import UnusableInputError
from thence.pipeline.measure import SUMMARY_FILE, measure, read_metric, read_table
from thence.pipeline.measure_rows import OF_RUN
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import METRIC_COLUMNS, TABLES
from thence.sim.meter import Meter
from thence.sim.network import NetworkOptions
from thence.sim.run import SimulationOptions, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.reader import read_records
from thence.trace.record import info_from_json, info_to_json
from thence.trace.writer import RunWriter

Row = dict[str, Any]
LOSSY = NetworkOptions(loss=0.2)
SIMULATED = {
    "tagged": SimulationOptions(nodes=3, workload=WorkloadOptions(messages=12, phantom_ms=20)),
    "tagged-2": SimulationOptions(seed=2, nodes=3, workload=WorkloadOptions(messages=12)),
    "vector": SimulationOptions(
        engine="vector", nodes=3, workload=WorkloadOptions(messages=12), network=LOSSY
    ),
    "graph": SimulationOptions(
        engine="graph", nodes=4, workload=WorkloadOptions(messages=8), network=LOSSY,
        engine_options=EngineOptions(stability=False),
    ),
    "streams": SimulationOptions(nodes=3, workload=WorkloadOptions(messages=8, streams=0.3)),
}  # fmt: skip
SCENARIO = {"interval_ms": 10, "experiment": "two", "variant": "mine", "slow_nodes": ["a", "b"]}


def simulated(folder: Path, name: str, options: SimulationOptions) -> None:
    info = msgspec.structs.replace(run_info(options), run=name)
    if name.startswith("tagged"):
        info = msgspec.structs.replace(info, scenario={**info.scenario, **SCENARIO})
    meter = Meter()
    with RunWriter(folder, info, "jsonl" if name == "vector" else "parquet") as writer:
        simulate(options, writer, check=False, meter=meter)
    if name != "tagged-2":
        meter.write(folder, info.members)


def drawn(folder: Path, seed: int, kind: str) -> None:
    """A random execution, with arrivals unless its kind is ``bare``."""
    rng = random.Random(seed)
    logs, info = (dynamic_execution if kind == "dynamic" else execution)(seed)
    if kind == "bare":
        logs = {n: [e for e in log if e["kind"] != "receive"] for n, log in logs.items()}
    else:
        logs = with_arrivals(rng, logs)
    name = f"{kind}-{seed}"
    records = [
        msgspec.structs.replace(record, run=name, t_us=17 * record.t_us)
        for record in records_of(logs)
    ]
    # Nothing says that these nodes share a clock.
    write_run(folder, records, msgspec.structs.replace(info, run=name, engine=kind), seed)


def clockless(folder: Path) -> None:
    """A run whose records say nothing of time."""
    logs, info = execution(4)
    folder.mkdir()
    info = msgspec.structs.replace(info, run="clockless", engine="clockless")
    (folder / "run.json").write_bytes(info_to_json(info))
    for record in records_of(with_arrivals(random.Random(4), logs)):
        fields = msgspec.to_builtins(record) | {"run": "clockless"}
        del fields["t_us"]
        with (folder / f"{record.node}.jsonl").open("a") as log:
            log.write(json.dumps(fields) + "\n")


class Tables:
    """One call of ``measure`` over all runs, and what it should have found."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        runs = folder / "runs"
        for name, options in SIMULATED.items():
            simulated(runs / name, name, options)
        for kind, seed in (("drawn", 1), ("drawn", 6), ("dynamic", 3), ("dynamic", 4), ("bare", 6)):
            drawn(runs / f"{kind}-{seed}", seed, kind)
        multicast_run(runs / "multicasts", "multicasts", seed=1)
        self.runs = [self.read(place) for place in sorted(runs.iterdir())]
        clockless(runs / "clockless")
        self.steps: list[tuple[str, int, int]] = []
        self.out = folder / "out"
        self.spark = spark
        self.report = measure(
            spark, [runs], self.out, progress=lambda *step: self.steps.append(step)
        )

    def read(self, place: Path) -> Measured:
        info = info_from_json((place / "run.json").read_bytes())
        return measured(list(read_records([place])), info, place)

    def rows(self, name: str) -> list[Row]:
        return pq.read_table(self.out / "metrics" / name).to_pylist()


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    return Tables(spark, tmp_path_factory.mktemp("metrics"))


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_is_what_plain_python_says_at_every_level(tables: Tables, name: str):
    rows = [row for row in tables.rows(name) if row["engine"] != "clockless"]
    keys = ("series", "level", "run", "node", "bucket_us", *ABOUT)
    found = {tuple(row[key] for key in keys): row for row in rows}
    assert len(found) == len(rows), "no group twice"
    expected = expected_rows(tables.runs, name)
    assert {key for key, row in found.items() if row["count"]} == set(expected)
    for key, figures in expected.items():
        shown = {column: found[key][column] for column in figures}
        assert shown == pytest.approx(figures, rel=1e-12), key
        assert found[key]["lacks"] is None
    units = {series.name: series.unit for series in METRICS[name].series}
    assert {key[0] for key in expected} == set(units), "every series was seen"
    assert all(row["unit"] == units[row["series"]] for row in rows)


@pytest.mark.parametrize("name", METRICS)
def test_where_nothing_can_be_said_there_are_nulls_and_a_reason(tables: Tables, name: str):
    series = {series.name for series in METRICS[name].series}
    rows = tables.rows(name)
    assert all(tuple(row) == METRIC_COLUMNS for row in rows)
    of_runs = {(row["series"], row["run"]) for row in rows if row["level"] == "run"}
    names = {run.info.run for run in tables.runs} | {"clockless"}
    assert of_runs == {(one, run) for one in series for run in names}
    for row in rows:
        if not row["count"]:
            assert row["lacks"]
            figures = ("mean", "p25", "p50", "p75", "p90", "p99", "p999", "max")
            assert [row[name] for name in figures] == [None] * 8


def lacks(tables: Tables, name: str, series: str, run: str) -> str | None:
    (row,) = (
        row
        for row in tables.rows(name)
        if (row["level"], row["series"], row["run"]) == ("run", series, run)
    )
    return row["lacks"]


def test_the_reason_is_the_one(tables: Tables):
    clocks = "the clocks of the nodes are not known to be common"
    for name, series, run, reason in (
        ("cross_node_delay", "deliver", "drawn-6", clocks),
        ("cross_node_delay", "deliver", "tagged", None),
        ("noncausal_delivery", "all", "bare-6", "no receive records"),
        ("noncausal_delivery", "slow_waited", "vector", "not an end of a slow link"),
        ("delivery_delay", "delay", "bare-6", "no receive records"),
        ("delivery_delay", "delay", "clockless", "records without t_us"),
        ("noncausal_stability", "latency", "graph", "the engine computes no stability"),
        ("stability_lag", "lag", "graph", "the engine computes no stability"),
        ("memory", "words", "drawn-6", "no sample record has words"),
        ("metadata", "bytes", "drawn-6", "no send record has bytes"),
        ("throughput", "sent", "clockless", "records without t_us"),
        ("concurrency", "width", "clockless", None),
        ("noncausal_delivery", "all_work", "tagged", None),
        ("noncausal_delivery", "all_work", "tagged-2", "the run has no cpu.arrow"),
        ("noncausal_delivery", "slow_waited_work", "vector", "not an end of a slow link"),
        ("noncausal_stability", "told_work", "tagged-2", "the run has no cpu.arrow"),
        ("noncausal_stability", "told_work", "multicasts", None),
        ("noncausal_stability", "told_work", "graph", "the engine computes no stability"),
        ("work", "per_delivery", "graph", None),
        ("work", "per_delivery", "drawn-6", "the run has no cpu.arrow"),
    ):
        assert lacks(tables, name, series, run) == reason, (name, series, run)


def test_progress_is_told_and_the_summary_is_written(tables: Tables):
    assert "measuring runs" in {what for what, _, _ in tables.steps}
    assert all(0 <= done <= total for _, done, total in tables.steps)
    summary = json.loads((tables.out / SUMMARY_FILE).read_bytes())
    assert summary["complete"] is True
    assert summary["metrics"] == list(METRICS)
    assert tables.report.runs == len(tables.runs) + 1
    events = {run.info.run: sum(map(len, run.brute.logs.values())) for run in tables.runs}
    about = pq.read_table(tables.out / "runs").to_pylist()
    assert {row["run"]: row["events"] for row in about if row["run"] != "clockless"} == events


def test_what_was_written_is_read_on_spark(tables: Tables):
    for name in OF_RUN:
        assert read_table(tables.spark, tables.out, name).columns == list(TABLES[name])
    with pytest.raises(UnusableInputError, match=r"latency is not there: `thence metrics --rows`"):
        read_table(tables.spark, tables.out, "latency")
    assert read_metric(tables.spark, tables.out, "memory").columns == list(METRIC_COLUMNS)


def test_long_runs_are_measured_by_logs_on_spark(tables: Tables, tmp_path: Path):
    runs = tables.out.parent / "runs"
    report = measure(tables.spark, [runs], tmp_path, whole_events_max=-1)
    assert report.runs == tables.report.runs
    for name in (*OF_RUN, *(f"metrics/{name}" for name in METRICS)):
        expected, found = (pq.read_table(out / name).to_pylist() for out in (tables.out, tmp_path))
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), name
