"""What ``thence check --follow`` prints of a table of findings; no Spark."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thence.cli.follow import Teller, _raise_failure
from thence.errors import ThenceError, UnusableInputError
from thence.pipeline.stream_run import Finding
from thence.pipeline.stream_sink import Sink

COLUMNS = [name for name in Finding.__struct_fields__ if name != "what"]
NUMBERS = {"pos", "dot_seq", "missing_seq", "line", "events", "violations"}
SCHEMA = pa.schema(
    [(name, pa.int64() if name in NUMBERS else pa.string()) for name in COLUMNS]
)  # fmt: skip

VIOLATION = Finding(
    what="violation", run="r", node="b", pos=3, rule="deliver-unsent", dot_node="a", dot_seq=7,
    why="b delivered a:7, which no log says was sent",
)  # fmt: skip
OPENED = Finding(what="opened", run="r", file="runs/r")
CLOSED = Finding(what="closed", run="r", file="runs/r", events=1200, violations=1)
ASIDE = Finding(what="quarantine", file="runs/r/a.jsonl", line=4, reason="not a record")


class Table:
    """A folder as Spark's file sink leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.written: list[str] = []

    def write(self, *findings: Finding) -> list[str]:
        """Files, one for each finding, that no batch names yet."""
        names = []
        for finding in findings:
            folder = self.folder / f"what={finding.what}"
            folder.mkdir(parents=True, exist_ok=True)
            name = f"{folder.name}/part-{len(self.written):05d}.parquet"
            row = msgspec.structs.asdict(finding)
            del row["what"]
            pq.write_table(pa.Table.from_pylist([row], SCHEMA), self.folder / name)
            self.written.append(name)
            names.append(name)
        return names

    def commit(self, batch: str, names: list[str]) -> None:
        folder = self.folder / "_spark_metadata"
        folder.mkdir(exist_ok=True)
        lines = [json.dumps({"path": f"file:///x/{name}", "action": "add"}) for name in names]
        (folder / batch).write_text("\n".join(["v1", *lines]))
        (folder / f".{batch}.crc").write_text("x")


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "out")


def teller(tmp_path: Path, as_json: bool = False) -> Teller:
    return Teller(str(tmp_path / "checkpoint"), str(tmp_path / "out"), as_json)


def test_only_files_of_committed_batches_count(table: Table):
    table.write(VIOLATION)
    first = table.write(CLOSED, OPENED)
    table.commit("0", first)
    sink = Sink(str(table.folder))
    assert [finding for name in sink.fresh() for finding in sink.rows(name)] == [OPENED, CLOSED]
    assert sink.fresh() == []


def test_a_compacted_log_says_what_the_batches_before_it_said(table: Table):
    sink = Sink(str(table.folder))
    assert sink.fresh() == []
    first = table.write(OPENED)
    table.commit("0", first)
    assert sink.fresh() == first
    second = table.write(VIOLATION)
    table.commit("1.compact", first + second)
    assert sink.fresh() == second
    (table.folder / "_spark_metadata" / "0").unlink()
    third = table.write(CLOSED)
    table.commit("2", third)
    assert sink.fresh() == third
    assert sorted(Sink(str(table.folder)).fresh()) == sorted(first + second + third)


def test_findings_are_printed_once_also_over_restarts(table: Table, tmp_path: Path, capsys):
    table.commit("0", table.write(OPENED, VIOLATION))
    teller(tmp_path).drain()
    line = "r b at 3: b delivered a:7, which no log says was sent [deliver-unsent]\n"
    assert capsys.readouterr().out == line
    table.commit("1", table.write(CLOSED))
    again = teller(tmp_path)
    again.drain()
    assert capsys.readouterr().out == "closed: r, 1,200 events, 1 violation\n"
    assert again.all_closed
    assert again.sum_up(keep_going=False) == 1
    summary = "NOT ok: 1 violation: 1 run closed, 0 open, 1,200 events in closed runs\n"
    assert capsys.readouterr().out == summary


def test_why_a_run_was_checked_as_a_whole_is_told(table: Table, tmp_path: Path, capsys):
    closed = msgspec.structs.replace(CLOSED, why="a went back to a:2")
    table.commit("0", table.write(OPENED, closed))
    teller(tmp_path).drain()
    assert "(checked as a whole: a went back to a:2)" in capsys.readouterr().out


def test_what_was_set_aside_goes_to_stderr_and_makes_the_exit_code_2(
    table: Table, tmp_path: Path, capsys
):
    table.commit("0", table.write(OPENED, ASIDE, Finding(what="note", reason="by the way")))
    told = teller(tmp_path, as_json=True)
    told.drain()
    captured = capsys.readouterr()
    assert captured.err == "thence: by the way\nruns/r/a.jsonl:4: not a record\n"
    assert [json.loads(line)["what"] for line in captured.out.splitlines()] == ["opened"]
    assert told.sum_up(keep_going=False) == 2
    assert told.sum_up(keep_going=True) == 0


def test_equal_lines_are_told_together_and_counted_one_by_one(table: Table, tmp_path: Path, capsys):
    aside = [msgspec.structs.replace(ASIDE, line=line) for line in (4, 5, 6, 8)]
    (name, *_) = table.write(ASIDE)
    rows = [{key: getattr(one, key) for key in COLUMNS} for one in aside]
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), table.folder / name)
    table.commit("0", [*table.write(OPENED), name])
    told = teller(tmp_path)
    told.drain()
    lines = "runs/r/a.jsonl: lines 4-6: not a record\nruns/r/a.jsonl:8: not a record\n"
    assert capsys.readouterr().err == lines
    assert told.sum_up(keep_going=False) == 2
    assert capsys.readouterr().err == "thence: 4 inputs could not be used\n"


def test_nothing_at_all_is_unusable(table: Table, tmp_path: Path, capsys):
    told = teller(tmp_path)
    told.drain()
    assert not told.all_closed
    (tmp_path / "runs" / "r").mkdir(parents=True)
    assert told.sum_up(keep_going=False, paths=[str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err == "thence: there was no run to check\n"


def test_stopped_before_the_first_batch_is_not_an_empty_folder(
    table: Table, tmp_path: Path, capsys
):
    (tmp_path / "runs" / "r").mkdir(parents=True)
    (tmp_path / "runs" / "r" / "a-000000.jsonl").write_text("{}")
    assert teller(tmp_path).sum_up(keep_going=False, paths=[str(tmp_path / "runs")]) == 2
    assert capsys.readouterr().err == "thence: stopped before anything was read\n"


class Ended:
    def __init__(self, text: str) -> None:
        self.text = text

    def exception(self) -> str | None:
        return self.text or None


def test_a_query_that_failed_is_told_in_one_sentence():
    _raise_failure(Ended(""))
    text = (
        "[STREAM_FAILED] Query failed\n  File ...\nthence.errors.UnusableInputError: no, thanks\n"
    )
    with pytest.raises(UnusableInputError, match=r"^no, thanks$"):
        _raise_failure(Ended(text))
    with pytest.raises(ThenceError, match="Spark failed while following: out of memory"):
        _raise_failure(Ended("out of memory\n at ..."))
