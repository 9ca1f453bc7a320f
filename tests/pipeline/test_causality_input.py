"""Input that cannot be used, in the stages and in one process: set aside and told alike."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.pipeline.runs import check_without_spark, write_parquet
from tests.trace.faults import info, records
from thence.errors import UnusableInputError
from thence.trace import segments
from thence.trace.check import check_paths
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.tables import PARQUET_OPTIONS
from thence.trace.verdict import Report

AB = info("a", "b", stability=False)
MADE = records(
    a="; ".join(f"send a:{k} < a:{k - 1}" if k > 1 else "send a:1" for k in range(1, 31)) + "; end",
    b="; ".join(f"deliver a:{k}" for k in range(1, 31)) + "; end",
)
WAYS = {
    "in one task": {},
    "by logs": {"whole_events_max": 0},
    "by row groups": {"whole_events_max": 0, "long_log_events": 10},
}


def of(node: str, run: str = "r") -> list[Record]:
    return [msgspec.structs.replace(r, run=run) for r in MADE if r.node == node]


def put_info(folder: Path, about: RunInfo = AB) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_bytes(info_to_json(about))


def put(folder: Path, about: RunInfo = AB, nodes: str = "ab") -> None:
    """A run of one Parquet file for each node."""
    put_info(folder, about)
    for node in nodes:
        write_parquet(folder / f"{node}.parquet", of(node, about.run))


def put_lines(path: Path, made: list[Record], *more: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(
        b"".join([record_to_json(r) + b"\n" for r in made] + [m + b"\n" for m in more])
    )


def rewrite(path: Path, change, rows: int | None = None) -> None:
    """The file with another table in it, in row groups of so many rows."""
    table = change(pq.read_table(path))
    pq.write_table(table, path, row_group_size=rows or len(table), **options_for(table))


def options_for(table: pa.Table) -> dict:
    options = dict(PARQUET_OPTIONS)
    if not pa.types.is_integer(table.schema.field("pos").type):
        options["column_encoding"] = {}
    if pa.types.is_string(table.schema.field("context").type):
        options = {"compression": "zstd", "write_page_checksum": True}
    return options


def column(name: str, make):
    """A change of one column."""
    return lambda table: table.set_column(table.column_names.index(name), name, make(table[name]))


def told(report: Report) -> tuple:
    aside = [(item.file, item.line, item.reason) for item in report.quarantined]
    return report.to_json(), report.notes, report.quarantined_count, aside


def both(paths: list[Path], work: Path, **options) -> Report:
    """What the local checker says, which must be what the stages say."""
    with pytest.raises(UnusableInputError) as here:
        check_paths(paths)
    with pytest.raises(type(here.value)) as there:
        check_without_spark(paths, work, **options)
    assert str(there.value) == str(here.value)
    local = check_paths(paths, keep_going=True)
    assert told(check_without_spark(paths, work, keep_going=True, **options)) == told(local)
    return local


@pytest.fixture(params=WAYS)
def way(request) -> dict[str, int]:
    return WAYS[request.param]


def flip_a_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    positions = pq.ParquetFile(path).metadata.row_group(2).column(3)
    assert (positions.path_in_schema, positions.has_dictionary_page) == ("pos", False)
    data[positions.data_page_offset + positions.total_compressed_size - 1] ^= 0xFF
    path.write_bytes(bytes(data))


ALL_BAD = {
    "another version": column("v", lambda values: pa.array([2] * len(values), pa.int32())),
    "no position": column("pos", lambda values: pc.subtract(values, 100)),
    "position as double": column("pos", lambda values: pc.add(values.cast(pa.float64()), 0.5)),
    "context as text": column("context", lambda values: pa.array(["x"] * len(values))),
    "name with a slash": column("node", lambda values: pa.array(["b/s"] * len(values))),
    "no name": column("node", lambda values: pa.array([""] * len(values))),
}


@pytest.mark.parametrize("change", ALL_BAD.values(), ids=ALL_BAD.keys())
def test_a_log_without_a_good_row_is_not_there(change, way, tmp_path):
    put(tmp_path / "run")
    rewrite(tmp_path / "run" / "b.parquet", change, rows=7)
    report = both([tmp_path / "run"], tmp_path / "work", **way)
    assert report.quarantined[-1].reason == "no log of b in complete r"
    assert report.events == 31
    assert report.quarantined_count in (2, 32)  # the file, or its rows; and that there is no log


def test_a_damaged_page_makes_a_file_unusable_as_a_whole(way, tmp_path):
    put(tmp_path / "run")
    path = tmp_path / "run" / "b.parquet"
    rewrite(path, lambda table: table, rows=7)
    flip_a_page(path)
    report = both([tmp_path / "run"], tmp_path / "work", **way)
    assert [item.line for item in report.quarantined] == [None, None]
    assert "not a readable Parquet segment" in report.quarantined[0].reason
    assert (report.events, report.quarantined_count) == (31, 2)


def test_bad_rows_of_several_kinds_are_told_row_by_row(way, tmp_path):
    put(tmp_path / "run")

    def change(table: pa.Table) -> pa.Table:
        kinds, versions = table["kind"].to_pylist(), table["v"].to_pylist()
        positions = table["pos"].to_pylist()
        kinds[25], kinds[3], positions[8], positions[20] = "", "", -1, -5
        versions[12], versions[5] = 2, 7
        table = column("kind", lambda _: pa.array(kinds))(table)
        table = column("pos", lambda _: pa.array(positions))(table)
        return column("v", lambda _: pa.array(versions, pa.int32()))(table)

    rewrite(tmp_path / "run" / "b.parquet", change, rows=7)
    report = both([tmp_path / "run"], tmp_path / "work", **way)
    lines = [(item.line, item.reason.partition(":")[0]) for item in report.quarantined]
    rows = [(4, "kind"), (6, "v"), (9, "pos"), (13, "v"), (21, "pos"), (26, "kind")]
    assert lines == rows
    newer = "v: expected 1, got 7: a newer thence wrote it; upgrade"
    assert report.quarantined[1].reason == newer


def test_what_is_set_aside_comes_in_the_order_of_reading(way, tmp_path):
    put(tmp_path / "runs" / "1", info("a", "b", "zz", run="one", stability=False))
    put_lines(tmp_path / "runs" / "1" / "c.jsonl", [], b"nothing")
    put_info(tmp_path / "runs" / "2", info("a", run="two", stability=False))
    put_lines(tmp_path / "runs" / "2" / "a.jsonl", of("a", "two"), b"not json", b"{}")
    put(tmp_path / "runs" / "3", info("a", "b", "yy", run="three", stability=False))
    rewrite(
        tmp_path / "runs" / "3" / "a.parquet",
        column("pos", lambda values: pa.array([-1, *values.to_pylist()[1:]])),
    )
    (tmp_path / "runs" / "4").mkdir()
    (tmp_path / "runs" / "4" / "run.json").write_text("{")
    report = both([tmp_path / "runs"], tmp_path / "work", **way)
    files = [
        Path(item.file).relative_to(tmp_path / "runs").as_posix() for item in report.quarantined
    ]
    expected = ["4/run.json", "1/c.jsonl", "1", "2/a.jsonl", "2/a.jsonl", "3/a.parquet", "3"]
    assert files == expected


def test_files_are_named_as_they_were_given(way, tmp_path, monkeypatch):
    put(tmp_path / "run")
    rewrite(tmp_path / "run" / "b.parquet", ALL_BAD["no position"], rows=7)
    put_lines(tmp_path / "run" / "c.jsonl", [], b"nothing")
    monkeypatch.chdir(tmp_path)
    report = both([Path("run")], tmp_path / "work", **way)
    assert {item.file for item in report.quarantined} == {"run/b.parquet", "run/c.jsonl", "run"}


def test_the_first_of_very_much_that_is_set_aside_is_listed(way, tmp_path, monkeypatch):
    monkeypatch.setattr(segments, "LISTED_MAX", 20)
    put(tmp_path / "run")
    for node, rows in (("a", range(5, 25)), ("b", range(31))):
        rewrite(
            tmp_path / "run" / f"{node}.parquet",
            column(
                "pos",
                lambda values, rows=rows: pa.array(
                    [-1 if at in rows else pos for at, pos in enumerate(values.to_pylist())]
                ),
            ),
            rows=7,
        )
    put_lines(tmp_path / "run" / "a-more.jsonl", [], *[b"nothing"] * 3)
    report = both([tmp_path / "run"], tmp_path / "work", **way)
    assert report.quarantined_count == 20 + 31 + 3 + 1
    names = [(Path(item.file).name, item.line) for item in report.quarantined]
    first = [("a-more.jsonl", line) for line in (1, 2, 3)]
    assert names == [*first, *(("a.parquet", row + 1) for row in range(5, 22))]


def test_a_log_in_two_places_is_refused(way, tmp_path):
    put(tmp_path / "one")
    put(tmp_path / "two", nodes="b")
    paths = [tmp_path / "one", tmp_path / "two"]
    with pytest.raises(UnusableInputError, match="both hold a log of b"):
        check_paths(paths)
    with pytest.raises(UnusableInputError, match="both hold a log of b"):
        check_without_spark(paths, tmp_path / "work", **way)


def test_a_log_without_a_good_row_has_no_place(way, tmp_path):
    put(tmp_path / "one")
    put(tmp_path / "two", nodes="b")
    rewrite(tmp_path / "two" / "b.parquet", ALL_BAD["no position"], rows=7)
    report = both([tmp_path / "one", tmp_path / "two"], tmp_path / "work", **way)
    assert (report.events, report.quarantined_count) == (62, 31)


def test_a_run_is_complete_when_all_its_places_say_so(way, tmp_path):
    made = records(a="send a:1; end", b="end")  # b lacks a:1
    for node, complete in (("a", True), ("b", False)):
        put_info(tmp_path / node, msgspec.structs.replace(AB, complete=complete))
        write_parquet(tmp_path / node / f"{node}.parquet", [r for r in made if r.node == node])
    paths = [tmp_path / "a", tmp_path / "b"]
    local = check_paths(paths)
    assert local.ok
    assert told(check_without_spark(paths, tmp_path / "work", **way)) == told(local)


@pytest.mark.parametrize("rows", [1, 100])
def test_a_parquet_file_may_hold_several_logs(rows, way, tmp_path):
    # The statistics of a column are its smallest and greatest value: one of them is not enough.
    put_info(tmp_path / "run")
    mixed = [record for pair in zip(of("a"), of("b"), strict=True) for record in pair]
    write_parquet(tmp_path / "run" / "all.parquet", mixed[::-1])
    rewrite(tmp_path / "run" / "all.parquet", lambda table: table, rows=rows)
    local = check_paths([tmp_path / "run"])
    assert (local.ok, local.events) == (True, 62)
    report = check_without_spark([tmp_path / "run"], tmp_path / "work", **way)
    assert told(report) == told(local)


def test_a_null_among_the_names_is_no_log_of_the_others(way, tmp_path):
    # Statistics pass over nulls: a and null have one value.
    put(tmp_path / "run")
    rewrite(
        tmp_path / "run" / "a.parquet",
        column("node", lambda values: pa.array([None, *values.cast(pa.string()).to_pylist()[1:]])),
    )
    report = both([tmp_path / "run"], tmp_path / "work", **way)
    assert [(item.line, item.reason) for item in report.quarantined] == [
        (1, "node: expected a name without '/'")
    ]
