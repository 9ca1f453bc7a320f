"""Ingest, without Spark: what is taken, what is set aside, what comes again."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trace.executions import broken, records_of
from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.pipeline.ingest import ingest
from thence.pipeline.ingest_pieces import table_of_records
from thence.pipeline.tables import EVENTS, PLAIN, QUARANTINE, SEGMENTS, STAGING
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json

FORMS = ("jsonl", "jsonl.gz", "jsonl.zst", "parquet")


def record(pos: int, node: str = "a", run: str = "r", **more: Any) -> Record:
    """A record that has nothing to say."""
    fields: dict[str, Any] = {"kind": "sample", "t_us": pos, **more}
    return Record(run=run, node=node, pos=pos, **fields)


def write_records(path: Path, records: Iterable[Record]) -> None:
    """A segment in the form that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = list(records)
    text = b"".join(record_to_json(each) + b"\n" for each in records)
    if path.name.endswith(".parquet"):
        pq.write_table(table_of_records(records), path)
    elif path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(text))
    elif path.name.endswith(".zst"):
        path.write_bytes(pa.compress(text, codec="zstd", asbytes=True))
    else:
        path.write_bytes(text)


def rows_of(root: Path) -> list[dict[str, Any]]:
    """All events of a table, by run, node, file, in the order of the file."""
    files = sorted((root / EVENTS).glob("*/*.parquet"))
    return [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]


def positions(root: Path, node: str = "a") -> list[list[int]]:
    """Positions in each file of a node."""
    files = sorted((root / EVENTS).glob(f"*/{node}-*.parquet"))
    return [pq.ParquetFile(file).read()["pos"].to_pylist() for file in files]


def quarantined(root: Path) -> list[tuple[Any, ...]]:
    """(file name, line, run, reason, text) of the quarantine table."""
    rows = [
        row
        for file in sorted((root / QUARANTINE).glob("*.parquet"))
        for row in pq.ParquetFile(file).read().to_pylist()
    ]
    rows.sort(key=lambda row: (row["file"], row["line"] or 0))
    return [
        (Path(row["file"]).name, row["line"], row["run"], row["reason"], row["text"])
        for row in rows
    ]


def snapshot(root: Path) -> dict[str, bytes]:
    """Everything a reader of a table can see."""
    hidden = (STAGING, "_lock")
    return {
        str(file.relative_to(root)): file.read_bytes()
        for file in sorted(root.rglob("*"))
        if file.is_file() and file.relative_to(root).parts[0] not in hidden
    }


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_taken_and_every_field_survives(tmp_path: Path, form: str):
    full = Record(
        run="r", node="a", pos=0, kind="send", t_us=7, dot=Dot("a", 1), context=(Dot("b", 2),),
        bytes=12, payload={"text": ["é", 1.5, None, 10**20]}, to=("b", "c"), stream="s", words=3,
        peer="b", stable=(Dot("c", 4),), extra={"view": 9, "extra": {"x": [1]}},
    )  # fmt: skip
    bare = record(1, kind="somebody-else's")
    write_records(tmp_path / "raw" / f"a-000000.{form}", [full, bare])
    report = ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert report.ok
    assert (report.segments, report.read, report.taken, report.events) == (1, 2, 2, 2)
    assert list(read_records([tmp_path / "table" / EVENTS])) == [full, bare]


def test_a_log_in_any_spread_of_files_ends_sorted_with_one_node_a_file(tmp_path: Path):
    rng = random.Random(1)
    records = [record(pos, node) for node in "abc" for pos in range(200)]
    rng.shuffle(records)
    for at in range(12):
        form = FORMS[at % len(FORMS)]
        write_records(tmp_path / "raw" / f"{at:02d}.{form}", records[at::12])
    report = ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert (report.events, report.nodes, report.files) == (600, 3, 3)
    for node in "abc":
        assert positions(tmp_path / "table", node) == [list(range(200))]
    assert {row["node"] for row in rows_of(tmp_path / "table")[:200]} == {"a"}


def spread(folder: Path, records: Sequence[Record], rng: random.Random) -> None:
    """Records in their order over one to four files of any form."""
    cuts = sorted(rng.randrange(len(records) + 1) for _ in range(rng.randint(0, 3)))
    for at, (start, end) in enumerate(zip([0, *cuts], [*cuts, len(records)], strict=True)):
        if start < end:
            write_records(folder / f"{at:02d}.{rng.choice(FORMS)}", records[start:end])


@pytest.mark.parametrize("seed", range(25))
def test_the_check_says_the_same_of_the_table_as_of_the_raw_logs(tmp_path: Path, seed: int):
    """Mutated executions: duplicate positions, gaps, foreign dots, lost logs and all."""
    logs, info = broken(seed)
    records = records_of(logs)
    if not records:
        return
    raw, table = tmp_path / "raw", tmp_path / "table"
    spread(raw, records, random.Random(seed))
    (raw / "run.json").write_bytes(info_to_json(info))
    ingest(None, [raw], table)
    for keep_going in (False, True):
        try:
            before = check_paths([raw], keep_going).to_json()
        except UnusableInputError as error:
            with pytest.raises(type(error)):
                check_paths([table / EVENTS], keep_going)
        else:
            assert check_paths([table / EVENTS], keep_going).to_json() == before


def test_duplicate_positions_are_kept_the_first_one_read_first(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "0.jsonl", [record(1, t_us=10), record(0), record(1, t_us=11)])
    write_records(raw / "1.jsonl", [record(1, t_us=12), record(2)])
    report = ingest(None, [raw], table)
    assert report.events == 5
    assert positions(table) == [[0, 1, 1, 1, 2]]
    assert [row["t_us"] for row in rows_of(table) if row["pos"] == 1] == [10, 11, 12]
    assert check_paths([table / EVENTS]).counts == check_paths([raw]).counts == {"log-gap": 1}


def test_a_second_ingest_takes_only_what_is_new(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "a-000000.jsonl", [record(pos) for pos in range(3)])
    assert ingest(None, [raw], table).events == 3
    before = snapshot(table)
    again = ingest(None, [raw], table)
    assert (again.segments, again.segments_there, again.events) == (0, 1, 0)
    assert snapshot(table) == before
    write_records(raw / "a-000001.parquet", [record(pos) for pos in range(3, 5)])
    more = ingest(None, [raw], table)
    assert (more.segments, more.segments_there, more.events) == (1, 1, 2)
    assert positions(table) == [[0, 1, 2], [3, 4]]


def test_positions_that_come_late_overlap_and_readers_sort(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    (raw / "x").mkdir(parents=True)
    write_records(raw / "x" / "1.jsonl", [record(0), record(2)])
    ingest(None, [raw], table)
    write_records(raw / "x" / "2.jsonl", [record(1), record(3)])
    ingest(None, [raw], table)
    assert positions(table) == [[0, 2], [1, 3]]
    assert check_paths([table / EVENTS]).ok


def test_a_changed_segment_is_an_error_and_nothing_is_taken(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "a.jsonl", [record(0)])
    ingest(None, [raw], table)
    before = snapshot(table)
    write_records(raw / "a.jsonl", [record(0), record(1)])
    write_records(raw / "b.jsonl", [record(0, "b")])
    with pytest.raises(UnusableInputError, match=r"a\.jsonl has changed since it was ingested"):
        ingest(None, [raw], table)
    assert snapshot(table) == before
    assert not os.listdir(table / STAGING)


def test_a_segment_with_another_time_and_the_same_bytes_is_the_same(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "a.jsonl", [record(0)])
    ingest(None, [raw], table)
    os.utime(raw / "a.jsonl", (1, 1))
    report = ingest(None, [raw], table)
    assert (report.segments, report.segments_there) == (0, 1)


def test_a_change_that_keeps_the_size_is_seen_by_the_bytes(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "a.jsonl", [record(0, t_us=1)])
    ingest(None, [raw], table)
    write_records(raw / "a.jsonl", [record(0, t_us=2)])
    os.utime(raw / "a.jsonl", (1, 1))
    with pytest.raises(UnusableInputError, match="has changed"):
        ingest(None, [raw], table)


def test_a_moved_or_copied_segment_is_not_taken_twice(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "a.jsonl", [record(0)])
    ingest(None, [raw], table)
    shutil.copytree(raw, tmp_path / "archive")
    report = ingest(None, [tmp_path / "archive"], table)
    assert (report.segments, report.segments_copied, report.events) == (0, 1, 0)
    assert ingest(None, [tmp_path / "archive"], table).segments_there == 1
    shutil.copy(raw / "a.jsonl", tmp_path / "both.jsonl")
    write_records(tmp_path / "both" / "a.jsonl", [record(1, "z")])
    write_records(tmp_path / "both" / "b.jsonl", [record(1, "z")])
    report = ingest(None, [tmp_path / "both"], table)
    assert (report.segments, report.segments_copied, report.events) == (1, 1, 1)


def test_two_runs_of_one_name_are_not_mixed(tmp_path: Path):
    for at, folder in enumerate("xy"):
        write_records(tmp_path / folder / "a.jsonl", [record(at)])
    with pytest.raises(UnusableInputError, match="both hold a log of a in the run r"):
        ingest(None, [tmp_path / "x", tmp_path / "y"], tmp_path / "table")
    ingest(None, [tmp_path / "x"], tmp_path / "table")
    before = snapshot(tmp_path / "table")
    with pytest.raises(UnusableInputError, match="both hold a log of a in the run r"):
        ingest(None, [tmp_path / "y"], tmp_path / "table")
    assert snapshot(tmp_path / "table") == before


def test_the_nodes_of_a_run_may_have_folders_of_their_own(tmp_path: Path):
    table = tmp_path / "table"
    for node, complete in (("a", True), ("b", False)):
        folder = tmp_path / "raw" / node
        write_records(folder / "0.jsonl", [record(0, node)])
        info = RunInfo(run="r", members=("a", "b"), complete=complete)
        (folder / "run.json").write_bytes(info_to_json(info))
    ingest(None, [tmp_path / "raw" / "a"], table)
    kept = table / EVENTS / "run=r" / "_run.json"
    assert json.loads(kept.read_bytes())["complete"] is True
    ingest(None, [tmp_path / "raw" / "b"], table)
    assert json.loads(kept.read_bytes())["complete"] is False
    info = RunInfo(run="r", members=("a", "b"), complete=True)
    (tmp_path / "raw" / "b" / "run.json").write_bytes(info_to_json(info))
    report = ingest(None, [tmp_path / "raw" / "b"], table)
    assert (report.segments, report.segments_there) == (0, 1)
    assert json.loads(kept.read_bytes()) == json.loads(info_to_json(info))


BAD_LINES = {
    b"nonsense": None,
    b'{"v":1,"run":"r","node":"a","pos":"x","kind":"end","t_us":0}': "r",
    b'{"v":2,"run":"r","node":"a","pos":1,"kind":"end","t_us":0}': "r",
    b'{"v":1,"run":"r","node":"a/b","pos":1,"kind":"end","t_us":0}': "r",
    b'{"v":1,"run":"r","node":"a","pos":1,"kind":"send","t_us":0}': "r",
    b'{"v":1,"run":"r","node":"a","pos":-1,"kind":"end","t_us":0,"other":1}': "r",
    b'{"v":1,"run":"r","node":"a","pos":1,"kind":"send","dot":["a",0],"t_us":0}': "r",
    b"[1, 2]": None,
    b"\xff\xfe": None,
    b"[" * 100_000: None,
    b'{"v":1,"run":"' + b"r" * 1000 + b'","node":"a","pos":1,"kind":"end"}': "r" * 1000,
    b'{"v":1,"run":"r","node":"a","pos":' + b"9" * 30 + b',"kind":"end"}': "r",
    b'{"v":1,"run":"r","node":"a","pos":1,"kind":"end","t_us":' + b"9" * 30 + b"}": "r",
    b'{"v":1,"run":"r","node":"a","po': None,
}


def test_malformed_lines_are_set_aside_with_file_line_reason_and_text(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    good = record_to_json(record(0))
    lines = [good, b"", *BAD_LINES]
    write_records(raw / "b.jsonl", [record(0, "b")])
    (raw / "a.jsonl").write_bytes(b"\n".join(lines))
    report = ingest(None, [raw], table)
    assert not report.ok
    assert (report.segments, report.read, report.taken, report.quarantined) == (2, 16, 2, 14)
    found = quarantined(table)
    assert [(file, line) for file, line, *_ in found] == [("a.jsonl", at) for at in range(3, 17)]
    assert [run for _, _, run, _, _ in found] == list(BAD_LINES.values())
    assert all(reason for *_, reason, _ in found)
    assert found[-1][3].startswith("the file ends inside this line")
    assert found[8][4] == r"\xff\xfe"
    assert [line.line for line in report.listed] == list(range(3, 17))
    again = ingest(None, [raw], table)
    assert (again.quarantined, again.quarantined_before, again.ok) == (0, 14, False)


def test_reasons_are_those_of_the_local_checker(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    raw.mkdir()
    # All but a name that cannot be a folder, which is for the ingest alone to say.
    lines = [line for line, run in BAD_LINES.items() if run is None or len(run) < 1000]
    (raw / "a.jsonl").write_bytes(b"\n".join([record_to_json(record(0)), *lines]))
    ingest(None, [raw], table)
    local = check_paths([raw], keep_going=True).quarantined
    ours = [(line, reason) for _, line, _, reason, _ in quarantined(table)]
    assert ours == [(item.line, item.reason) for item in local]


def test_a_file_that_breaks_off_is_set_aside_as_a_whole_and_tried_again(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    names = ("a.parquet", "b.jsonl.gz", "c.jsonl.zst")
    for name in names:
        write_records(raw / name, [record(pos, name[0]) for pos in range(100)])
        whole = (raw / name).read_bytes()
        (tmp_path / name).write_bytes(whole)
        (raw / name).write_bytes(whole[: len(whole) * 2 // 3])
    write_records(raw / "d.jsonl", [record(0, "d")])
    for _ in range(2):
        report = ingest(None, [raw], table)
        assert report.unreadable == 3
        assert [(file, line) for file, line, *_ in quarantined(table)] == [(n, None) for n in names]
        assert len(rows_of(table)) == 1
    for name in names:
        shutil.copy(tmp_path / name, raw / name)
    report = ingest(None, [raw], table)
    assert (report.segments, report.events, report.ok) == (3, 300, True)
    assert not quarantined(table)


def test_a_run_json_that_cannot_be_read_is_set_aside_until_it_can(tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "table"
    write_records(raw / "a.jsonl", [record(0)])
    (raw / "run.json").write_bytes(b"{")
    report = ingest(None, [raw], table)
    assert (report.events, report.unreadable, report.ok) == (1, 1, False)
    assert [file for file, *_ in quarantined(table)] == ["run.json"]
    (raw / "run.json").write_bytes(info_to_json(RunInfo(run="r", complete=True)))
    report = ingest(None, [raw], table)
    assert report.ok
    assert not quarantined(table)
    assert json.loads((table / EVENTS / "run=r" / "_run.json").read_bytes())["complete"] is True


def test_a_table_among_its_own_inputs_is_passed_over(tmp_path: Path):
    write_records(tmp_path / "one" / "a.jsonl", [record(0)])
    ingest(None, [tmp_path], tmp_path / "table")
    report = ingest(None, [tmp_path], tmp_path / "table")
    assert (report.segments, report.segments_there) == (0, 1)
    with pytest.raises(UnusableInputError, match="is part of the table"):
        ingest(None, [tmp_path / "table" / EVENTS], tmp_path / "table")


def test_a_table_can_be_ingested_into_another(tmp_path: Path):
    write_records(tmp_path / "raw" / "a.jsonl", [record(0), record(1)])
    (tmp_path / "raw" / "run.json").write_bytes(info_to_json(RunInfo(run="r", engine="x")))
    ingest(None, [tmp_path / "raw"], tmp_path / "one")
    report = ingest(None, [tmp_path / "one" / EVENTS], tmp_path / "two")
    assert report.events == 2
    assert rows_of(tmp_path / "two") == rows_of(tmp_path / "one")
    kept = json.loads((tmp_path / "two" / EVENTS / "run=r" / "_run.json").read_bytes())
    assert kept["engine"] == "x"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda raw: None, "does not exist"),
        (lambda raw: raw.mkdir(), "holds no trace"),
        (lambda raw: raw.write_text("x"), "is not a trace"),
        (lambda raw: (raw.mkdir(), (raw / "run.json").write_text('{"run":"r"}')), "no segments"),
    ],
    ids=["missing", "empty", "foreign", "nothing"],
)
def test_a_path_with_nothing_in_it_is_a_sentence_and_no_table(tmp_path: Path, make, sentence):
    make(tmp_path / "raw")
    with pytest.raises(UnusableInputError, match=sentence):
        ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert not (tmp_path / "table").exists()


def test_a_folder_that_holds_something_else_is_not_made_a_table(tmp_path: Path):
    write_records(tmp_path / "raw" / "a.jsonl", [record(0)])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(UnusableInputError, match=r"holds other things \(thesis\.tex\)"):
        ingest(None, [tmp_path / "raw"], tmp_path / "mine")


def test_two_ingests_at_once_are_refused(tmp_path: Path):
    import fcntl

    write_records(tmp_path / "raw" / "a.jsonl", [record(0)])
    ingest(None, [tmp_path / "raw"], tmp_path / "table")
    with open(tmp_path / "table" / "_lock", "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(UnusableInputError, match="is being written by another ingest"):
            ingest(None, [tmp_path / "raw"], tmp_path / "table")


def test_urls_of_pyarrow_are_paths_like_others(tmp_path: Path):
    write_records(tmp_path / "raw" / "a.jsonl.gz", [record(0), record(1)])
    (tmp_path / "raw" / "run.json").write_bytes(info_to_json(RunInfo(run="r")))
    ingest(None, [f"file://{tmp_path}/raw"], f"file://{tmp_path}/table")
    assert positions(tmp_path / "table") == [[0, 1]]
    assert (tmp_path / "table" / EVENTS / "run=r" / "_run.json").exists()


def test_the_ledger_says_what_was_taken(tmp_path: Path):
    write_records(tmp_path / "raw" / "a.jsonl", [record(0), record(0, "b")])
    (tmp_path / "raw" / "c.jsonl").write_bytes(b"nonsense\n")
    ingest(None, [tmp_path / "raw"], tmp_path / "table")
    (file,) = (tmp_path / "table" / SEGMENTS).glob("*.parquet")
    first, second = pq.ParquetFile(file).read().to_pylist()
    assert (first["read"], first["taken"], first["quarantined"]) == (2, 2, 0)
    assert first["logs"] == [{"run": "r", "node": "a"}, {"run": "r", "node": "b"}]
    assert (second["read"], second["taken"], second["quarantined"]) == (1, 0, 1)


def test_files_hold_the_columns_of_a_trace_and_their_statistics(tmp_path: Path):
    write_records(tmp_path / "raw" / "a.jsonl", [record(pos) for pos in range(10)])
    ingest(None, [tmp_path / "raw"], tmp_path / "table")
    (file,) = (tmp_path / "table" / EVENTS).glob("*/*.parquet")
    found = pq.ParquetFile(file)
    assert found.schema_arrow.names == PLAIN.names
    pos = found.metadata.row_group(0).column(PLAIN.names.index("pos"))
    assert (pos.statistics.min, pos.statistics.max) == (0, 9)


def test_counts_that_do_not_add_up_stop_the_ingest(tmp_path: Path, monkeypatch: Any):
    """The sum is checked, not assumed: an intake that loses a line is noticed."""
    from thence.pipeline.ingest_intake import Intake

    def lose(self: Intake, table: pa.Table) -> None:
        self.read += len(table)

    monkeypatch.setattr(Intake, "take_rows", lose)
    write_records(tmp_path / "raw" / "a.jsonl", [record(0)])
    with pytest.raises(RuntimeError, match="1 read, 0 taken, 0 set aside"):
        ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert not list((tmp_path / "table" / EVENTS).iterdir())


def test_a_row_that_is_lost_in_writing_stops_the_ingest(tmp_path: Path, monkeypatch: Any):
    from thence.pipeline import ingest_pieces

    merge = ingest_pieces.merge
    monkeypatch.setattr(
        ingest_pieces, "merge", lambda *given: (table.slice(1) for table in merge(*given))
    )
    write_records(tmp_path / "raw" / "a.jsonl", [record(0), record(1)])
    with pytest.raises(RuntimeError, match="2 events were read and 1 written"):
        ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert not list((tmp_path / "table" / EVENTS).iterdir())


def test_the_report_can_be_sent(tmp_path: Path):
    write_records(tmp_path / "raw" / "a.jsonl", [record(0)])
    report = ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert msgspec.json.decode(msgspec.json.encode(report))["runs"] == ["r"]


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_table_that_cannot_be_written_is_no_fault_of_the_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("thence.pipeline.ingest_pieces.PieceWriter._write", full)
    write_records(tmp_path / "raw" / f"a.{form}", [record(0)])
    monkeypatch.setattr("thence.pipeline.ingest_pieces.HELD_BYTES_MAX", 1)
    with pytest.raises(OSError, match="No space left"):
        ingest(None, [tmp_path / "raw"], tmp_path / "table")
    monkeypatch.undo()
    assert ingest(None, [tmp_path / "raw"], tmp_path / "table").ok
