"""CPU times that do not belong to a log are not used, and the reader is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence.pipeline.measure import Measured, measure_with
from thence.pipeline.tasks import run_here
from thence.sim.meter import Meter
from thence.sim.run import SimulationOptions, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.work import CPU_FILE, TOTALS_KEY, CpuWriter
from thence.trace.writer import RunWriter

OPTIONS = SimulationOptions(nodes=3, workload=WorkloadOptions(messages=6))
WAYS = {"in one task": 1 << 60, "by logs": -1}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    meter = Meter()
    with RunWriter(tmp_path / "run", run_info(OPTIONS)) as writer:
        simulate(OPTIONS, writer, check=False, meter=meter)
    meter.write(tmp_path / "run", OPTIONS.names)
    return tmp_path / "run"


def change(run: Path, changed: Callable[[pa.Table], pa.Table]) -> None:
    """Write the file anew with other rows."""
    table = changed(pa.ipc.open_file(run / CPU_FILE).read_all())
    with pa.ipc.new_file(run / CPU_FILE, table.schema) as file:
        file.write_table(table)


def other(table: pa.Table, name: str, value: int) -> pa.Table:
    """The same with another value in the first row."""
    values = table[name].to_pylist()
    values[0] += value
    at = table.schema.get_field_index(name)
    return table.set_column(at, table.schema.field(name), pa.array(values, table[name].type))


def measure(run: Path, out: Path, way: str) -> tuple[Measured, dict[str, str]]:
    measured = measure_with(run_here, [run], out, whole_events_max=WAYS[way])
    logs = pq.read_table(out / "logs").to_pylist()
    return measured, {log["node"]: log["cpu"] for log in logs}


def counts(out: Path) -> dict[str, int]:
    rows = pq.read_table(out / "metrics/noncausal_delivery").to_pylist()
    return {row["node"]: row["count"] for row in rows
            if row["level"] == "node" and row["series"] == "all_work"}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_times_that_fit_are_used(run: Path, tmp_path: Path, way: str):
    measured, states = measure(run, tmp_path / "out", way)
    assert states == dict.fromkeys(OPTIONS.names, "used")
    assert measured.notes == ()
    assert all(counts(tmp_path / "out").values())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("column", "value"), [("ready", 1), ("stable", 1), ("t_us", 1)])
def test_times_that_do_not_fit_one_log_are_left_out_there(
    run: Path, tmp_path: Path, way: str, column: str, value: int
):
    change(run, lambda table: other(table, column, value))
    measured, states = measure(run, tmp_path / "out", way)
    first, *others = OPTIONS.names
    assert states == {first: "unfit"} | dict.fromkeys(others, "used")
    (note,) = measured.notes
    assert f"{CPU_FILE} does not fit the log of {first}:" in note
    found = counts(tmp_path / "out")
    assert [bool(found[name]) for name in OPTIONS.names] == [False, True, True]


@pytest.mark.parametrize("way", WAYS)
def test_a_node_that_the_file_does_not_name_has_no_times(run: Path, tmp_path: Path, way: str):
    with CpuWriter(run) as writer:
        writer.call("elsewhere", 0, 10)
    measured, states = measure(run, tmp_path / "out", way)
    assert set(states.values()) == {"unfit"}
    assert "and 2 more:" in measured.notes[0]


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_cannot_be_read_is_told_once(run: Path, tmp_path: Path, way: str):
    change(run, lambda table: table.replace_schema_metadata({TOTALS_KEY: b"no JSON"}))
    measured, states = measure(run, tmp_path / "out", way)
    assert set(states.values()) == {"damaged"}
    (note,) = measured.notes
    assert note.endswith("the CPU times of this run are left out")
    assert not any(counts(tmp_path / "out").values())
