"""Finding and reading traces, good and bad."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.trace.executions import broken, records_of
from tests.trace.faults import found_by_checker, info, plain, records
from thence.causal.dot import Dot
from thence.errors import TraceError, UnusableInputError
from thence.trace.check import check_paths
from thence.trace.reader import read_records, read_runs
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.segments import LINE_BYTES_MAX, Quarantined, told_together
from thence.trace.writer import Form, RunWriter

GOOD = b'{"v":1,"run":"r","node":"a","pos":0,"kind":"send","dot":["a",1],"t_us":1}\n'


def put(path: Path, made: list[Record], about: RunInfo | None) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "log.jsonl").write_bytes(b"".join(record_to_json(r) + b"\n" for r in made))
    if about is not None:
        (path / "run.json").write_bytes(info_to_json(about))


def test_a_run_folder(tmp_path: Path):
    put(tmp_path, records(a="send a:1; end"), info("a"))
    runs, quarantine = read_runs([tmp_path])
    assert [(columns.run, len(columns)) for columns, _ in runs] == [("r", 2)]
    assert runs[0][1].complete
    assert quarantine.count == 0


def test_a_run_without_run_json_has_the_members_seen_and_is_not_complete(tmp_path: Path):
    put(tmp_path, records(b="send b:1; end", a="deliver b:1"), None)
    [(_, about)], _ = read_runs([tmp_path])
    assert (about.run, about.members, about.complete) == ("r", ("a", "b"), False)


def test_a_folder_of_run_folders_and_several_paths(tmp_path: Path):
    for name in ("x", "y"):
        made = [Record(run=name, node="a", pos=0, kind="send", dot=Dot("a", 1))]
        put(tmp_path / "deep" / name, made, RunInfo(run=name, members=("a",)))
    assert [about.run for _, about in read_runs([tmp_path])[0]] == ["x", "y"]
    twice = [tmp_path / "deep" / "y", tmp_path, tmp_path / "deep" / "x"]
    assert [about.run for _, about in read_runs(twice)[0]] == ["y", "x"]
    assert check_paths([tmp_path]).runs == 2


def test_several_runs_in_one_file(tmp_path: Path):
    file = tmp_path / "all.jsonl"
    file.write_bytes(GOOD + GOOD.replace(b'"r"', b'"q"') + GOOD.replace(b":0,", b":1,"))
    runs, _ = read_runs([file])
    assert [(columns.run, columns.events) for columns, _ in runs] == [("q", 1), ("r", 2)]


def test_one_segment_of_a_complete_run_is_not_complete(tmp_path: Path):
    put(tmp_path, records(a="send a:1; end", b="end"), info("a", "b"))
    assert not check_paths([tmp_path]).ok
    assert check_paths([tmp_path / "log.jsonl"]).ok


def test_each_node_may_have_its_own_folder(tmp_path: Path):
    about = info("a", "b", stability=False)
    made = records(a="send a:1; end", b="deliver a:1; end")
    for node in ("a", "b"):
        put(tmp_path / node, [r for r in made if r.node == node], about)
    report = check_paths([tmp_path])
    assert (report.ok, report.runs, report.events) == (True, 1, 4)


def test_the_same_log_in_two_places_is_refused(tmp_path: Path):
    for place in ("one", "two"):
        put(tmp_path / place, records(a="send a:1"), info("a"))
    with pytest.raises(UnusableInputError, match="both hold a log of a"):
        check_paths([tmp_path])


def test_one_folder_named_in_two_ways_is_one_place(tmp_path: Path):
    run = tmp_path / "run"
    put(run, records(a="send a:1; end"), info("a", stability=False))
    link = tmp_path / "link"
    link.symlink_to(run)
    report = check_paths([tmp_path / "run" / ".." / "run", f"{run}/", run, link])
    assert (report.runs, report.events) == (1, 2)


def test_one_path_need_not_be_a_list(tmp_path: Path):
    put(tmp_path, records(a="send a:1; end"), info("a", stability=False))
    for path in (tmp_path, str(tmp_path)):
        report = check_paths(path)
        assert (report.events, report.paths) == (2, (str(tmp_path),))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (GOOD[:40], "the file ends inside this line"),
        (b"garbage\n", "malformed"),
        (b"\x00\xff\xfe\x80\n", "malformed"),
        (b"[1, 2]\n", "Expected `object`"),
        (b"null\n", "Expected `object`"),
        (GOOD.replace(b'"pos":0', b'"pos":"0"'), r"Expected `int`, got `str` - at `\$.pos`"),
        (GOOD.replace(b'"pos":0', b'"pos":1.5'), r"at `\$.pos`"),
        (GOOD.replace(b'"pos":0,', b""), "missing required field `pos`"),
        (GOOD.replace(b'"pos":0', b'"pos":-1'), "pos: expected"),
        (GOOD.replace(b'["a",1]', b'["a"]'), r"at `\$.dot`"),
        (GOOD.replace(b'["a",1]', b'["a",0]'), "dot: expected a seq from 1"),
        (GOOD.replace(b'["a",1]', b'["a",99999999999999999999]'), "dot"),
        (GOOD.replace(b'"dot":["a",1],', b""), "a send record needs"),
        (GOOD.replace(b'"v":1', b'"v":9'), "v: expected 1, got 9"),
        (GOOD.replace(b'"a",', b'"a/b",', 1), "node: expected a name without '/'"),
    ],
)
def test_a_bad_line_is_named_with_file_line_and_reason(tmp_path: Path, line: bytes, reason: str):
    file = tmp_path / "log.jsonl"
    file.write_bytes(GOOD + b"\n" + line)
    with pytest.raises(TraceError, match=reason) as caught:
        check_paths([file])
    assert (caught.value.file, caught.value.line) == (str(file), 3)
    report = check_paths([file], keep_going=True)
    assert report.events == 1
    assert [(q.file, q.line) for q in report.quarantined] == [(str(file), 3)]
    assert len(list(read_records([file], keep_going=True))) == 1
    with pytest.raises(TraceError):
        list(read_records([file]))


def test_all_bad_lines_are_counted_and_the_first_told(tmp_path: Path):
    file = tmp_path / "log.jsonl"
    file.write_bytes(GOOD + b"no\n" * 1500)
    with pytest.raises(TraceError, match="and 1499 more") as caught:
        check_paths([file])
    assert caught.value.line == 2
    report = check_paths([file], keep_going=True)
    assert (report.quarantined_count, len(report.quarantined)) == (1500, 1000)


def test_nothing_but_bad_lines_cannot_be_kept_going_with(tmp_path: Path):
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"no\n")
    for keep_going in (False, True):
        with pytest.raises(TraceError):
            check_paths([file], keep_going=keep_going)


def test_a_line_without_end_is_not_read_into_memory(tmp_path: Path):
    file = tmp_path / "log.jsonl"
    with file.open("wb") as out:
        out.write(GOOD)
        out.truncate(LINE_BYTES_MAX * 2)
    with pytest.raises(TraceError, match="longer than"):
        check_paths([file])


def test_a_last_line_without_newline_is_good(tmp_path: Path):
    file = tmp_path / "log.jsonl"
    file.write_bytes(GOOD.strip())
    assert check_paths([file]).events == 1


def test_a_corrupt_parquet_file_is_set_aside_whole(tmp_path: Path):
    (tmp_path / "a-000000.parquet").write_bytes(b"PAR1 this is not one PAR1")
    (tmp_path / "b.jsonl").write_bytes(GOOD)
    with pytest.raises(TraceError, match="not a readable Parquet segment") as caught:
        check_paths([tmp_path])
    assert caught.value.line is None
    assert check_paths([tmp_path], keep_going=True).events == 1


def test_a_truncated_parquet_file_is_set_aside(tmp_path: Path):
    with RunWriter(tmp_path, RunInfo(run="r", members=("a",))) as writer:
        writer.log("a").append("send", 1, Dot("a", 1))
    [segment] = tmp_path.glob("*.parquet")
    segment.write_bytes(segment.read_bytes()[:-20])
    with pytest.raises(TraceError):
        check_paths([tmp_path])


def test_a_parquet_file_of_something_else_says_what_it_lacks(tmp_path: Path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(TraceError, match="expected the columns run, node, pos"):
        check_paths([tmp_path])


def test_bad_rows_of_a_parquet_file_are_set_aside_by_row(tmp_path: Path):
    columns = {
        "run": ["r", "r", "r", None, "r"],
        "node": ["a", "a", "a/x", "a", "a"],
        "pos": [0, -1, 2, 3, 1],
        "kind": ["send", "end", "end", "end", "deliver"],
        "dot_node": ["a", None, None, None, None],
        "dot_seq": [1, None, None, None, None],
    }
    file = tmp_path / "x.parquet"
    pq.write_table(pa.table(columns), file)
    report = check_paths([file], keep_going=True)
    assert sorted((q.line, q.reason.partition(":")[0]) for q in report.quarantined) == [
        (2, "pos"), (3, "node"), (4, "run"), (5, "dot"),
    ]  # fmt: skip
    assert report.events == 1


def test_a_bad_run_json_is_told(tmp_path: Path):
    put(tmp_path, records(a="send a:1"), None)
    (tmp_path / "run.json").write_bytes(b"{}")
    with pytest.raises(TraceError, match=r"run\.json: .*`run`"):
        check_paths([tmp_path])


@pytest.mark.parametrize("name", ["absent", "absent/x.jsonl"])
def test_a_path_that_is_not_there(tmp_path: Path, name: str):
    with pytest.raises(UnusableInputError, match="does not exist"):
        check_paths([tmp_path / name])


def test_nothing_to_check_is_said(tmp_path: Path):
    with pytest.raises(UnusableInputError, match="no trace given"):
        check_paths([])
    with pytest.raises(UnusableInputError, match="holds no trace"):
        check_paths([tmp_path])
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(UnusableInputError, match="is not a trace"):
        check_paths([tmp_path / "notes.txt"])
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(UnusableInputError, match="no trace records"):
        check_paths([tmp_path])


def test_a_segment_still_being_written_is_not_read(tmp_path: Path):
    put(tmp_path, records(a="send a:1"), None)
    (tmp_path / ".a-000001.parquet.partial").write_bytes(b"half")
    (tmp_path / ".b.jsonl").write_bytes(b"half")
    assert check_paths([tmp_path]).events == 1


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_files_are_judged_as_the_records_in_them_are(tmp_path: Path, form: Form):
    for seed in range(30):
        logs, about = broken(seed)
        made = records_of(logs)
        folder = tmp_path / str(seed)
        _write(folder, made, about, form)
        if not made:
            continue
        report = check_paths([folder], keep_going=True)  # some lost a whole log
        found = [(v.node, v.pos, v.rule, plain(v.dot), plain(v.missing)) for v in report.violations]
        assert found == found_by_checker(made, about), f"seed {seed}"


def _write(folder: Path, made: list[Record], about: RunInfo, form: Form) -> None:
    if form == "jsonl":
        put(folder, made, about)
        return
    folder.mkdir()
    (folder / "run.json").write_bytes(info_to_json(about))
    rows = [
        {
            "v": 1, "run": r.run, "node": r.node, "pos": r.pos, "kind": r.kind, "t_us": r.t_us,
            "dot_node": r.dot and r.dot.node, "dot_seq": r.dot and r.dot.seq, "to": r.to,
            "context": r.context and [{"node": d.node, "seq": d.seq} for d in r.context],
        }
        for r in made
    ]  # fmt: skip
    for number, start in enumerate(range(0, len(rows), 7)):  # logs cut across files
        table = pa.Table.from_pylist(rows[start : start + 7], schema=_ROW_SCHEMA)
        pq.write_table(table, folder / f"{number:03d}.parquet")


_ROW_SCHEMA = pa.schema(
    [
        ("v", pa.int64()), ("run", pa.string()), ("node", pa.string()), ("pos", pa.int32()),
        ("kind", pa.large_string()), ("t_us", pa.int64()), ("dot_node", pa.string()),
        ("dot_seq", pa.int64()), ("to", pa.list_(pa.string())),
        ("context", pa.large_list(pa.struct([("node", pa.string()), ("seq", pa.int32())]))),
    ]
)  # fmt: skip


def test_equal_lines_one_after_the_other_are_told_together():
    aside = [
        Quarantined("a", None, "torn"),
        *(Quarantined("a", line, "old") for line in (1, 2, 3)),
        Quarantined("a", 4, "new"),
        *(Quarantined("a", line, "old") for line in (5, 7, 8)),
        *(Quarantined("b", line, "old") for line in (9, 10)),
    ]
    assert list(told_together(aside)) == [
        "a: torn",
        "a: lines 1-3: old",
        "a:4: new",
        "a:5: old",
        "a: lines 7-8: old",
        "b: lines 9-10: old",
    ]
    assert list(told_together([])) == []
