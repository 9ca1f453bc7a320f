"""The external merge sort: bounded memory, sorted logs, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pipeline.test_ingest import record
from thence.pipeline import ingest_pieces
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_pieces import PieceWriter, merge, table_of_records, write_log
from thence.trace.record import Record


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits that a handful of records reach."""
    monkeypatch.setattr(ingest_pieces, "HELD_BYTES_MAX", 700)
    monkeypatch.setattr(ingest_pieces, "RECORDS_HELD_MAX", 2)
    monkeypatch.setattr(ingest_pieces, "BATCH_ROWS", 3)
    monkeypatch.setattr(ingest_pieces, "GROUP_ROWS_MAX", 4)
    monkeypatch.setattr(ingest_pieces, "FILE_ROWS_MAX", 10)


Segments = list[list[tuple[str, int]]]
SEGMENTS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12)), max_size=25), max_size=5
)


def pieces_of(files: TableFiles, segments: Segments) -> dict[str, list[ingest_pieces.Piece]]:
    """The pieces of each node; a record's t_us is its place in the order of reading."""
    found: dict[str, list[ingest_pieces.Piece]] = {}
    number = 0
    for at, segment in enumerate(segments):
        writer = PieceWriter(files, "pieces", at)
        for node, pos in segment:
            writer.add(record(pos, node, t_us=number))
            number += 1
        writer.close()
        assert writer.rows == len(segment)
        for piece in writer.pieces:
            found.setdefault(piece.node, []).append(piece)
    return found


def expected(segments: Segments, node: str) -> list[tuple[int, int]]:
    """(pos, order of reading), sorted by position."""
    flat = [each for segment in segments for each in segment]
    rows = [(pos, number) for number, (name, pos) in enumerate(flat) if name == node]
    return sorted(rows, key=lambda row: row[0])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(segments=SEGMENTS)
def test_logs_come_out_sorted_and_whole(tmp_path: Path, small: None, segments: Segments):
    files = TableFiles(tmp_path)
    files.make_folder("pieces")
    files.make_folder("logs")
    found = pieces_of(files, segments)
    for node in "ab":
        want = expected(segments, node)
        merged = [
            (row["pos"], row["t_us"])
            for table in merge(files, found.get(node, []))
            for row in table.to_pylist()
        ]
        assert sorted(merged) == sorted(want)
        assert [pos for pos, _ in merged] == [pos for pos, _ in want]
        # Of equal positions the first one read is the first.
        assert dict(reversed(merged)) == dict(reversed(want))


def test_pieces_that_follow_each_other_are_in_memory_one_batch_at_a_time(
    tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch
):
    files = TableFiles(tmp_path)
    files.make_folder("pieces")
    segments = [[("a", 100 * at + k) for k in range(20)] for at in range(10)]
    found = pieces_of(files, segments)["a"]
    loaded: list[int] = []
    advance = ingest_pieces._Cursor.advance

    def count(cursor: ingest_pieces._Cursor) -> bool:
        done = advance(cursor)
        loaded.append(len(cursor.rows))
        return done

    monkeypatch.setattr(ingest_pieces._Cursor, "advance", count)
    sizes = [len(table) for table in merge(files, found)]
    assert sum(sizes) == 200
    assert max(sizes) <= 3
    assert max(loaded) <= 3


def test_files_and_row_groups_have_a_largest_size(tmp_path: Path, small: None):
    files = TableFiles(tmp_path)
    for folder in ("pieces", "logs"):
        files.make_folder(folder)
    found = pieces_of(files, [[("a", pos) for pos in range(23)]])["a"]
    written = write_log(files, "logs/x", found)
    assert [rows for _, rows in written] == [8, 8, 7]
    first = pq.ParquetFile(tmp_path / written[0][0])
    assert [first.metadata.row_group(at).num_rows for at in range(2)] == [4, 4]
    rows = pa.concat_tables([pq.ParquetFile(tmp_path / name).read() for name, _ in written])
    assert rows["pos"].to_pylist() == list(range(23))


def test_a_wide_payload_makes_smaller_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ingest_pieces, "GROUP_BYTES_MAX", 10_000)
    monkeypatch.setattr(ingest_pieces, "BATCH_ROWS", 4)
    files = TableFiles(tmp_path)
    for folder in ("pieces", "logs"):
        files.make_folder(folder)
    writer = PieceWriter(files, "pieces", 0)
    for pos in range(20):
        writer.add(record(pos, payload="x" * 2000))
    writer.close()
    ((name, rows),) = write_log(files, "logs/x", writer.pieces)
    assert rows == 20
    assert pq.ParquetFile(tmp_path / name).metadata.num_row_groups == 3


def test_records_become_rows_with_their_runs_and_nodes():
    records = [record(3, "b", "s", extra={"x": 1}), Record(run="r", node="a", pos=0, kind="end")]
    rows = table_of_records(records).to_pylist()
    assert [(row["run"], row["node"], row["pos"]) for row in rows] == [("s", "b", 3), ("r", "a", 0)]
    assert [row["extra"] for row in rows] == ['{"x":1}', None]


@pytest.mark.parametrize("payload", [{}, [], "", 0, False])
def test_a_payload_that_is_empty_is_a_payload(payload: object):
    (row,) = table_of_records([record(0, payload=payload)]).to_pylist()
    assert json.loads(row["payload"]) == payload
    assert row["extra"] is None
