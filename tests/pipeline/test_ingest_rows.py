"""Parquet segments: every row is judged, and foreign files are made to fit."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.test_ingest import quarantined, record, rows_of
from thence.causal.dot import Dot
from thence.pipeline.ingest import ingest
from thence.pipeline.ingest_pieces import table_of_records
from thence.pipeline.ingest_rows import conform, fault_of_row, plainly_good
from thence.trace.reader import read_segment
from thence.trace.record import Record
from thence.trace.segments import Quarantine

GOOD: dict[str, Any] = {
    "v": 1, "run": "r", "node": "a", "pos": 5, "kind": "send", "dot_node": "a", "dot_seq": 1,
    "context": [{"node": "b", "seq": 2}], "t_us": 3, "bytes": 1, "payload": '"x"', "to": ["b"],
    "stream": None, "words": 1, "from": None, "stable": None, "extra": '{"y":1}',
}  # fmt: skip

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"v": 2}, "v: expected 1, got 2"),
    "no version": ({"v": None}, "v: expected a value, got null"),
    "no run": ({"run": None}, "run: expected a value, got null"),
    "empty run": ({"run": ""}, "run: expected a name, got ''"),
    "long run": ({"run": "r" * 500}, "run: too long for the name of a folder: "),
    "no node": ({"node": None}, "node: expected a value, got null"),
    "slash": ({"node": "a/b"}, "node: expected a name without '/', got 'a/b'"),
    "no pos": ({"pos": None}, "pos: expected a value, got null"),
    "negative pos": ({"pos": -1}, "pos: expected 0 to 2**53-1, got -1"),
    "large pos": ({"pos": 1 << 53}, "pos: expected 0 to 2**53-1"),
    "no kind": ({"kind": None}, "kind: expected a value, got null"),
    "empty kind": ({"kind": ""}, "kind: expected a word"),
    "no dot": ({"dot_node": None, "dot_seq": None}, "dot: a send record needs"),
    "half a dot": ({"dot_seq": None}, "dot: expected a seq from 1 to 2**40-1, got 0"),
    "the other half": ({"dot_node": None}, "dot: a send record needs [node, seq]"),
    "half a dot of no message": ({"kind": "sample", "dot_seq": None}, "dot: expected a seq"),
    "seq zero": ({"dot_seq": 0}, "dot: expected a seq from 1 to 2**40-1, got 0"),
    "seq large": ({"dot_seq": 1 << 40}, "dot: expected a seq from 1 to 2**40-1"),
    "dot without a name": ({"dot_node": ""}, "dot: expected the name of a node"),
    "context seq": ({"context": [{"node": "b", "seq": 0}]}, "context[0]: expected a seq"),
    "context name": ({"context": [{"node": "", "seq": 1}]}, "context[0]: expected the name"),
    "context null": ({"context": [None]}, "context: expected names and seqs, got null"),
    "context half": ({"context": [{"node": "b", "seq": None}]}, "context: expected names"),
    "context long": (
        {"context": [{"node": "b", "seq": 1}] * 65537},
        "context: expected at most 65536 dots, got 65537",
    ),
    "snapshot seq": (
        {"kind": "snapshot", "stable": [{"node": "b", "seq": 0}]},
        "stable[0]: expected a seq",
    ),
    "snapshot null": ({"kind": "snapshot", "stable": [None]}, "stable: expected names and seqs"),
    "stable seq": ({"stable": [{"node": "b", "seq": 0}]}, "stable[0]: expected a seq"),
    "bytes": ({"bytes": -1}, "bytes: expected a size, got -1"),
    "words": ({"words": -1}, "words: expected a size, got -1"),
    "to": ({"to": [None]}, "to: expected names, got null"),
    "payload": ({"payload": "{"}, "payload: expected JSON text, got '{'"),
    "extra": ({"extra": "[1]"}, "extra: expected a JSON object, got '[1]'"),
}


def table_of_rows(*rows: dict[str, Any]) -> pa.Table:
    """Rows as some other tool might write them: everything may be null."""
    shape = conform(table_of_records([record(0)])).schema
    return pa.Table.from_pylist(list(rows), schema=shape)


def test_a_good_row_is_good_both_ways():
    assert plainly_good(table_of_rows(GOOD))
    assert fault_of_row(GOOD) is None


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_seen_by_the_columns_and_named_by_the_row(name: str):
    change, reason = BAD[name]
    assert not plainly_good(table_of_rows(GOOD, GOOD | change, GOOD))
    assert (fault_of_row(GOOD | change) or "").startswith(reason)


def test_bad_rows_are_set_aside_by_their_number_and_the_rest_is_taken(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    raw.mkdir()
    rows = [GOOD | {"pos": at} for at in range(6)]
    rows[1] |= {"dot_seq": 0}
    rows[4] |= {"run": None}
    pq.write_table(table_of_rows(*rows), raw / "a.parquet")
    report = ingest(None, [raw], table)
    assert (report.read, report.taken, report.quarantined) == (6, 4, 2)
    assert [row["pos"] for row in rows_of(table)] == [0, 2, 3, 5]
    (first, second) = quarantined(table)
    assert first[:3] == ("a.parquet", 2, "r")
    assert second[:3] == ("a.parquet", 5, None)
    assert json.loads(first[4])["dot_seq"] == 0


# In columns that the checker does not read, or not on records of this kind.
ONLY_HERE = {"long run", "stable seq", "bytes", "words", "payload", "extra"}


@pytest.mark.parametrize("name", BAD)
def test_a_fault_alone_in_its_file_is_set_aside_as_the_checker_does(tmp_path: Path, name: str):
    raw = tmp_path / "a.parquet"
    pq.write_table(table_of_rows(GOOD, GOOD | BAD[name][0]), raw)
    report = ingest(None, [raw], tmp_path / "table")
    assert [line.line for line in report.listed] == [2]
    quarantine = Quarantine()
    part = read_segment(str(raw), quarantine)
    assert part is not None
    local = [item.line for item in quarantine.listed]
    assert local == ([] if name in ONLY_HERE else [2])
    assert len(part.node) == 2 - len(local)


def test_a_file_of_another_tool_is_made_to_fit(tmp_path: Path):
    """Other types, absent columns, columns of its own: nothing is lost."""
    raw, table = tmp_path / "raw", tmp_path / "table"
    raw.mkdir()
    theirs = pa.table(
        {
            "node": pa.array(["a", "a"], pa.large_string()),
            "run": pa.array(["r", "r"]).dictionary_encode(),
            "pos": pa.array([0, 1], pa.int16()),
            "kind": ["send", "sample"],
            "dot_node": ["a", None],
            "dot_seq": pa.array([1, None], pa.uint8()),
            "extra": ['{"view":3}', None],
            "rack": ["x", None],
            "seen": [datetime.datetime(2024, 1, 2), None],
        }
    )
    pq.write_table(theirs, raw / "a.parquet")
    assert ingest(None, [raw], table).ok
    first, second = rows_of(table)
    assert (first["v"], first["t_us"], first["dot_seq"]) == (1, 0, 1)
    expected = {"view": 3, "rack": "x", "seen": "2024-01-02T00:00:00"}
    assert json.loads(first["extra"]) == expected
    assert second["extra"] is None


def test_a_field_of_extra_wins_over_a_column_of_its_name():
    table = table_of_rows(GOOD).append_column("y", pa.array([2]))
    assert json.loads(conform(table)["extra"][0].as_py()) == {"y": 1}


def test_a_column_of_the_wrong_type_is_named(tmp_path: Path):
    columns = {name: pa.array([value]) for name, value in GOOD.items() if value is not None}
    pq.write_table(pa.table(columns | {"pos": ["first"]}), tmp_path / "a.parquet")
    report = ingest(None, [tmp_path / "a.parquet"], tmp_path / "table")
    assert report.unreadable == 1
    assert report.listed[0].reason.startswith("column pos: expected int64, got string")


def test_a_file_without_the_columns_says_which(tmp_path: Path):
    pq.write_table(pa.table({"x": [1], "run": ["r"]}), tmp_path / "a.parquet")
    report = ingest(None, [tmp_path / "a.parquet"], tmp_path / "table")
    reason = "expected the columns run, node, pos, kind, dot_node, dot_seq; no node, pos, kind"
    assert report.listed[0].reason.startswith(reason)


def test_a_flipped_bit_is_not_taken_for_an_event(tmp_path: Path):
    from thence.trace.tables import PARQUET_OPTIONS

    records = [
        Record(run="r", node="a", pos=at, kind="send", dot=Dot("a", at + 1)) for at in range(999)
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(table_of_records(records), path, **PARQUET_OPTIONS)
    whole = path.read_bytes()
    outcomes = set()
    for at in range(100, len(whole), len(whole) // 8):
        text = bytearray(whole)
        text[at] ^= 1
        path.write_bytes(text)
        table = tmp_path / f"table{at}"
        report = ingest(None, [path], table)
        outcomes.add(report.unreadable)
        # Either it hit what nobody reads, a statistic say, or nothing is taken.
        positions = [row["pos"] for row in rows_of(table)]
        assert positions == ([] if report.unreadable else list(range(999)))
    assert 1 in outcomes
