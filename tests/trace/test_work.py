"""The CPU times of a run's calls, written and read."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from thence.errors import TraceError
from thence.trace.work import CPU_FILE, CPU_SCHEMA, ROWS_AT_A_TIME, CpuWriter, Total, read_cpu


def test_the_calls_of_a_node_come_back_in_their_order(tmp_path: Path):
    with CpuWriter(tmp_path) as writer:
        writer.call("b", 5, 700, ready=1)
        writer.call("a", 5, 400, ready=2, stable=3)
        writer.call("b", 6, 300, stable=1)
        writer.call("b", 7, 90)
    cpu = read_cpu(tmp_path)
    assert cpu is not None
    assert list(cpu) == ["b", "a"]
    b = cpu["b"]
    columns = [column.tolist() for column in (b.t_us, b.ns, b.ready, b.stable)]
    assert columns == [[5, 6], [700, 300], [1, 0], [0, 1]]
    assert b.total == Total(calls=3, ns=1090), "calls that released nothing count as well"
    assert cpu["a"].stable.tolist() == [3]


def test_a_node_whose_calls_released_nothing_has_its_total(tmp_path: Path):
    with CpuWriter(tmp_path) as writer:
        writer.call("a", 1, 50)
    cpu = read_cpu(tmp_path)
    assert cpu is not None
    assert len(cpu["a"].ns) == 0
    assert cpu["a"].total == Total(calls=1, ns=50)


def test_many_rows_are_many_batches_of_one_dictionary(tmp_path: Path):
    names = ["c", "a", "b"]
    with CpuWriter(tmp_path) as writer:
        for number in range(ROWS_AT_A_TIME + 10):
            writer.call(names[number % 3], number, number, ready=1)
    cpu = read_cpu(tmp_path)
    assert cpu is not None
    assert {name: int(calls.t_us[1]) for name, calls in cpu.items()} == {"c": 3, "a": 4, "b": 5}
    assert sum(len(calls.ns) for calls in cpu.values()) == ROWS_AT_A_TIME + 10


def test_the_file_is_an_arrow_file_as_documented(tmp_path: Path):
    with CpuWriter(tmp_path) as writer:
        writer.call("a", 1, 50, ready=1)
    with pa.ipc.open_file(tmp_path / CPU_FILE) as file:
        assert file.schema.remove_metadata() == CPU_SCHEMA
        totals = msgspec.json.decode(file.schema.metadata[b"totals"])
    assert totals == {"a": {"calls": 1, "ns": 50}}


def test_a_run_without_the_file_has_no_times(tmp_path: Path):
    assert read_cpu(tmp_path) is None


def test_nothing_is_written_when_the_run_breaks_off(tmp_path: Path):
    writer = CpuWriter(tmp_path)
    writer.call("a", 1, 50, ready=1)
    with pytest.raises(RuntimeError, match="broken"), writer:
        raise RuntimeError("broken")
    assert list(tmp_path.iterdir()) == []


def write(folder: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(folder / CPU_FILE, table.schema) as file:
        file.write_table(table)


ROW = {"node": "a", "t_us": 1, "ns": 2, "ready": 1, "stable": 0}


@pytest.mark.parametrize(
    ("row", "metadata", "reason"),
    [
        (ROW, {}, "no totals"),
        (ROW, {"totals": "[1"}, "got `array`"),
        (ROW, {"totals": "{}"}, "calls of a and no total"),
        (ROW | {"ns": -1}, {"totals": '{"a": {}}'}, "below 0"),
        (ROW | {"ready": None}, {"totals": '{"a": {}}'}, "null"),
        (ROW | {"ready": 1 << 40}, {"totals": '{"a": {}}'}, "not in range"),
        ({"node": "a"}, {"totals": '{"a": {}}'}, "t_us"),
    ],
)
def test_another_arrow_file_is_refused(
    tmp_path: Path, row: dict[str, object], metadata: dict[str, str], reason: str
):
    table = pa.Table.from_pylist([row])
    write(tmp_path, table.replace_schema_metadata(metadata))
    with pytest.raises(TraceError, match=f"{CPU_FILE}: not the CPU times of a run: .*{reason}"):
        read_cpu(tmp_path)


def test_a_damaged_file_is_refused(tmp_path: Path):
    with CpuWriter(tmp_path) as writer:
        for number in range(1000):
            writer.call("a", number, number % 7, ready=1)
    path = tmp_path / CPU_FILE
    whole = path.read_bytes()
    for bad in (b"", whole[: len(whole) // 2], whole[:300] + b"xx" * 200 + whole[700:]):
        path.write_bytes(bad)
        with pytest.raises(TraceError, match="not the CPU times of a run"):
            read_cpu(tmp_path)
