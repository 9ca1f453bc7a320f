"""Measuring run folders without Spark: what is read, where it goes, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.metrics_brute import brute_of, latency_rows, with_arrivals
from tests.pipeline.runs import write_run
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic
from tests.trace.executions import broken, records_of
from thence.errors import TraceError, UnusableInputError
from thence.pipeline.ingest import ingest
from thence.pipeline.measure import SUMMARY_FILE, Measured, chosen_metrics, measure_with
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import TABLES
from thence.pipeline.tasks import run_here
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.tables import table_of


def measure(paths: list[Path], out: Path, keep_going: bool = False, rows: bool = True) -> Measured:
    return measure_with(run_here, paths, str(out), rows=rows, keep_going=keep_going)


def rows(out: Path, table: str) -> list[dict[str, Any]]:
    return pq.read_table(out / table).to_pylist()


def write(folder: Path, run: str = "r", lines: list[dict[str, Any]] | None = None) -> Path:
    """A run of one log, a, in JSON Lines."""
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(info_to_json(RunInfo(run=run, members=("a", "b"))))
    given = LINES if lines is None else lines
    text = "".join(json.dumps({"v": 1, "run": run, "node": "a", **line}) + "\n" for line in given)
    (folder / "a.jsonl").write_text(text)
    return folder


LINES = [
    {"pos": 0, "kind": "receive", "dot": ["b", 1], "t_us": 10},
    {"pos": 1, "kind": "deliver", "dot": ["b", 1], "t_us": 30},
    {"pos": 2, "kind": "send", "dot": ["a", 1], "t_us": 40, "bytes": 7, "context": [["b", 1]]},
    {"pos": 3, "kind": "sample", "t_us": 50, "words": 12},
]


def test_clocks_follow_their_records_through_any_spread_over_files(tmp_path: Path):
    """Repeated and skipped positions, files in any form and order: each row has its own time."""
    for seed in seeds(25):
        kind = broken if seed % 2 else broken_dynamic
        logs, info = kind(seed)
        rng = random.Random(seed)
        records = records_of(with_arrivals(rng, logs))
        times = rng.sample(range(10 * len(records) + 1), len(records))
        records = [
            msgspec.structs.replace(record, t_us=t_us)
            for record, t_us in zip(records, times, strict=True)
        ]
        if not records:
            continue
        folder, out = tmp_path / f"{seed}", tmp_path / f"{seed}-out"
        write_run(folder, records, info, seed)
        measure([folder], out, keep_going=True)  # a log that is missing is set aside
        key = lambda row: (row["node"], row["life"], row["dot_node"], row["dot_seq"])  # noqa: E731
        expected = sorted(latency_rows(brute_of(as_read(folder, records), info)), key=key)
        assert sorted(rows(out, "latency"), key=key) == expected, f"seed {seed}"


def as_read(folder: Path, records: list[Record]) -> list[Record]:
    """The records in the order in which files are read: of equal positions the first counts."""
    by_content = {
        (r.node, r.pos, r.t_us): r for r in records
    }  # times differ, so this is one to one
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".parquet":
            table = pq.read_table(path, columns=["node", "pos", "t_us"]).to_pylist()
        elif path.suffix == ".jsonl":
            table = [json.loads(line) for line in path.read_text().splitlines()]
        else:
            continue
        found += [by_content[row["node"], row["pos"], row["t_us"]] for row in table]
    return found


def test_a_bad_line_does_not_lend_its_time_to_a_good_one(tmp_path: Path):
    bad = {"pos": 1, "kind": "deliver", "t_us": 999}  # a delivery needs a dot
    run = write(tmp_path / "run", lines=[LINES[0], bad, *LINES[1:]])
    with pytest.raises(TraceError, match=r"a\.jsonl:2: dot: a deliver record needs"):
        measure([run], tmp_path / "out")
    measured = measure([run], tmp_path / "out", keep_going=True)
    assert measured.quarantined_count == 1
    (delivered,) = (row for row in rows(tmp_path / "out", "latency") if not row["own"])
    assert (delivered["t_receive"], delivered["t_deliver"]) == (10, 30)


def test_a_line_without_end_is_set_aside_and_what_follows_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = write(tmp_path / "run")
    first, *others = (run / "a.jsonl").read_text().splitlines()
    (run / "a.jsonl").write_text("\n".join([first, "x" * 3500, *others]) + "\n")
    monkeypatch.setattr("thence.trace.segments.LINE_BYTES_MAX", 1000)
    measured = measure([run], tmp_path / "out", keep_going=True)
    assert [(item.line, item.reason) for item in measured.quarantined] == [
        (2, "longer than 1000 bytes")
    ]
    assert measured.events == len(LINES)
    (delivered,) = (row for row in rows(tmp_path / "out", "latency") if not row["own"])
    assert (delivered["t_receive"], delivered["t_deliver"]) == (10, 30)


def test_a_size_below_zero_is_set_aside_in_any_form(tmp_path: Path):
    bad = write(tmp_path / "lines", lines=[LINES[0], LINES[3] | {"pos": 1, "words": -1}])
    other = write(tmp_path / "rows", lines=[])
    (other / "a.jsonl").unlink()
    table = table_of("r", "a", 0, [("sample", 5, None), ("sample", 7, None)], {"words": [(1, -1)]})
    pq.write_table(table, other / "a.parquet")
    for folder, name in ((bad, "a.jsonl"), (other, "a.parquet")):
        with pytest.raises(TraceError, match=rf"{name}:2: words: expected a size"):
            measure([folder], tmp_path / "out")


def test_of_records_with_one_position_the_first_read_gives_its_time(tmp_path: Path):
    again = [{**LINES[1], "t_us": 888}, {**LINES[1], "t_us": 999}]
    run = write(tmp_path / "run", lines=[*LINES, again[0]])
    later = json.dumps({"v": 1, "run": "r", "node": "a", **again[1]})
    (run / "a2.jsonl").write_text(later + "\n")
    measure([run], tmp_path / "out")
    (delivered,) = (row for row in rows(tmp_path / "out", "latency") if not row["own"])
    assert delivered["t_deliver"] == 30


def test_a_bad_row_of_parquet_does_neither(tmp_path: Path):
    folder = write(tmp_path / "run", lines=[])
    (folder / "a.jsonl").unlink()
    events = [("send", 5, None), ("sample", 7, None), ("sample", 8, None)]
    table = table_of("r", "a", 0, events, {"words": [(1, 3), (2, 4)]})
    pq.write_table(table, folder / "a.parquet")
    measure([folder], tmp_path / "out", keep_going=True)
    found = [(row["t_us"], row["words"]) for row in rows(tmp_path / "out", "samples")]
    assert found == [(7, 3), (8, 4)]


def test_what_a_log_says_is_in_its_tables(tmp_path: Path):
    measure([write(tmp_path / "run")], tmp_path / "out")
    (log,) = rows(tmp_path / "out", "logs")
    counts = {"sends": 1, "receives": 1, "readies": 0, "deliveries": 1, "stables": 0}
    assert {name: log[name] for name in counts} == counts
    assert (log["samples"], log["span_us"], log["timed"]) == (1, 10, True)
    (sent,) = (row for row in rows(tmp_path / "out", "latency") if row["own"])
    assert (sent["context_dots"], sent["bytes"], sent["t_send"]) == (1, 7, 40)
    (run,) = rows(tmp_path / "out", "runs")
    assert (run["group_size"], run["clock"], run["interval_ms"]) == (2, None, None)


def test_without_clocks_times_are_null_and_counts_are_not(tmp_path: Path):
    lines = [{name: value for name, value in line.items() if name != "t_us"} for line in LINES]
    measure([write(tmp_path / "run", lines=lines)], tmp_path / "out")
    (log,) = rows(tmp_path / "out", "logs")
    assert (log["timed"], log["span_us"], log["deliveries"]) == (False, None, 1)
    for row in rows(tmp_path / "out", "latency"):
        assert {value for name, value in row.items() if name.startswith("t_")} == {None}
    (sample,) = rows(tmp_path / "out", "samples")
    assert (sample["t_us"], sample["bucket_us"], sample["words"]) == (None, None, 12)


def test_a_clock_that_is_no_integer_is_refused(tmp_path: Path):
    folder = write(tmp_path / "run", lines=[])
    (folder / "a.jsonl").unlink()
    table = table_of("r", "a", 0, [("sample", 7, None)], {"words": [(0, 3)]})
    as_time = table["t_us"].cast(pa.timestamp("ms"))
    place = table.schema.get_field_index("t_us")
    pq.write_table(table.set_column(place, "t_us", as_time), folder / "a.parquet")
    with pytest.raises(TraceError, match=r"t_us: expected integers, got timestamp\[ms\]"):
        measure([folder], tmp_path / "out")


def test_what_was_written_before_is_replaced_and_nothing_else_is(tmp_path: Path):
    out = tmp_path / "out"
    measure([write(tmp_path / "one", "one"), write(tmp_path / "two", "two")], out)
    (out / "mine.txt").write_text("kept")
    measure([tmp_path / "one"], out)
    assert {row["run"] for row in rows(out, "runs")} == {"one"}
    assert (out / "mine.txt").read_text() == "kept"
    assert {path.name for path in out.iterdir()} == {*TABLES, "metrics", SUMMARY_FILE, "mine.txt"}
    parts = [path.name for table in TABLES for path in (out / table).iterdir()]
    assert set(parts) == {"part-000000.parquet"}


def test_a_run_without_records_is_nothing_beside_others(tmp_path: Path):
    run = write(tmp_path / "runs/full", "full")
    write(tmp_path / "runs/empty", "empty", [])
    assert measure([tmp_path / "runs"], tmp_path / "out").runs == 1
    with pytest.raises(UnusableInputError, match="no trace records"):
        measure([tmp_path / "runs/empty"], tmp_path / "out")
    assert run.is_dir()


def test_folders_of_one_run_are_one_run(tmp_path: Path):
    write(tmp_path / "runs/a")
    other = write(tmp_path / "runs/b", lines=[])
    record = Record(run="r", node="b", pos=0, kind="sample", words=1)
    (other / "a.jsonl").write_bytes(record_to_json(record) + b"\n")
    assert measure([tmp_path / "runs"], tmp_path / "out").runs == 1
    assert {row["node"] for row in rows(tmp_path / "out", "logs")} == {"a", "b"}


def refused(paths: list[Path], out: Path) -> str:
    with pytest.raises(UnusableInputError) as failure:
        measure(paths, out)
    return str(failure.value)


def test_what_cannot_be_is_refused_in_a_sentence(tmp_path: Path):
    run = write(tmp_path / "runs/run")
    out = tmp_path / "out"
    assert refused([tmp_path / "nowhere"], out).endswith(
        "does not exist: name a run folder or a trace file"
    )
    assert "is a file: name a folder" in refused([run], run / "a.jsonl")
    assert "is inside" in refused([tmp_path / "runs"], tmp_path / "runs/metrics")
    assert "is inside" in refused([run], run)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/letter.txt").write_text("dear")
    assert "holds no metrics: choose another folder" in refused([run], tmp_path / "full")
    assert not out.exists(), "nothing was begun"
    nameless = write(tmp_path / "nameless")
    (nameless / "run.json").unlink()
    assert refused([run, nameless], out).startswith("two runs are named r:")
    twin = write(tmp_path / "twin")
    assert "both hold a log of a in one run" in refused([run, twin], out)


def test_a_metric_is_chosen_by_name():
    assert chosen_metrics([]) == list(METRICS)
    assert chosen_metrics(["throughput", "memory"]) == ["memory", "throughput"]
    with pytest.raises(UnusableInputError, match="no metric 'speed'; there are metadata, memory,"):
        chosen_metrics(["speed"])


def test_an_ingested_table_measures_as_the_folders_it_came_from(tmp_path: Path):
    write(tmp_path / "runs/one", "one")
    write(tmp_path / "runs/two", "two", LINES[:2])
    ingest(None, [str(tmp_path / "runs")], str(tmp_path / "table"))
    measure([tmp_path / "runs"], tmp_path / "out")
    measure([tmp_path / "table/events"], tmp_path / "out-table")
    for table in TABLES:
        found = [sorted(map(repr, rows(tmp_path / out, table))) for out in ("out", "out-table")]
        assert found[0] == found[1] != [], table
