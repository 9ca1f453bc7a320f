"""What a stream finds, in which order, and that it finds it once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import Row

from tests.pipeline.runs import write_run
from tests.trace.faults import info, records
from thence.errors import UnusableInputError
from thence.pipeline import stream, stream_pages
from thence.pipeline.stream_files import Entry, FileLog, require_folders
from thence.pipeline.stream_pages import Pages
from thence.pipeline.stream_source import FILES_PER_BATCH_MAX, FilesReader
from thence.trace.record import RunInfo
from thence.trace.writer import mark_closed, write_info


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def log_of(root: Path) -> FileLog:
    return FileLog([str(root)], str(root.parent / "store"))


def put(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("x")


def found(log: FileLog, start: int = 0) -> list[tuple[str, str, str]]:
    log.discover()
    return [(entry.kind, Path(entry.folder).name, entry.name) for entry in log.entries[start:]]


def test_segments_of_a_run_folder_are_found_once_in_order(root: Path):
    put(root / "one", "b-000000.parquet", "a-000000.jsonl", "a-000001.jsonl.gz", "c.jsonl.zst")
    put(root / "one", ".hidden.jsonl", "_odd.jsonl", "notes.txt")
    put(root / "one/_tables", "x.parquet")
    put(root / "one/pictures", "y.parquet")
    write_info(root / "one", RunInfo(run="r"))
    log = log_of(root)
    assert found(log) == [
        ("folder", "one", "run.json"),
        ("segment", "one", "a-000000.jsonl"),
        ("segment", "one", "a-000001.jsonl.gz"),
        ("segment", "one", "b-000000.parquet"),
        ("segment", "one", "c.jsonl.zst"),
    ]
    assert {entry.group for entry in log.entries} == {"run r"}
    assert found(log, 5) == []
    put(root / "one", "b-000001.parquet")
    assert found(log, 5) == [("segment", "one", "b-000001.parquet")]


def test_the_end_of_a_folder_comes_after_all_its_segments(root: Path, monkeypatch):
    """A listing that was begun before the last segment was there, and met the mark."""
    folder = root / "one"
    put(folder, "a-000000.jsonl", "a-000001.jsonl")
    write_info(folder, RunInfo(run="r"))
    mark_closed(folder)
    import thence.pipeline.stream_files as module

    real = module.folders
    stale = [(str(folder), ["a-000000.jsonl", "run.closed", "run.json"])]
    monkeypatch.setattr(
        module, "folders", lambda path: iter(stale) if path == str(root) else real(path)
    )
    assert [name for _, _, name in found(log_of(root))] == [
        "run.json", "a-000000.jsonl", "a-000001.jsonl", "run.closed",
    ]  # fmt: skip


def test_files_wait_until_it_is_known_to_which_run_they_belong(root: Path):
    put(root / "one", "a-000000.jsonl")
    log = log_of(root)
    assert found(log) == [("nameless", "one", "")]
    assert found(log, 1) == []
    write_info(root / "one", RunInfo(run="r"))
    assert found(log, 1) == [("folder", "one", "run.json"), ("segment", "one", "a-000000.jsonl")]


def test_a_folder_without_run_json_is_taken_when_it_is_closed(root: Path):
    put(root / "one", "a-000000.jsonl")
    mark_closed(root / "one")
    log = log_of(root)
    assert [kind for kind, _, _ in found(log)] == ["folder", "segment", "closed"]
    assert {entry.group for entry in log.entries} == {f"path {root / 'one'}"}


def test_a_run_json_that_cannot_be_used_is_told_once_and_may_be_mended(root: Path):
    put(root / "one", "run.json", "a-000000.jsonl")
    log = log_of(root)
    assert found(log) == [("bad", "one", "run.json")]
    assert log.entries[0].reason
    assert found(log, 1) == []
    write_info(root / "one", RunInfo(run="r"))
    assert [kind for kind, _, _ in found(log, 1)] == ["folder", "segment"]


def test_a_run_json_that_cannot_be_used_is_told_also_when_the_folder_is_closed(root: Path):
    put(root / "one", "run.json", "a-000000.jsonl")
    mark_closed(root / "one")
    kinds = [kind for kind, _, _ in found(log_of(root))]
    assert kinds == ["bad", "folder", "segment", "closed"]


def test_folders_of_one_run_are_one_group(root: Path):
    for name in ("a", "b"):
        put(root / name, f"{name}-000000.jsonl")
        write_info(root / name, RunInfo(run="r"))
    log = log_of(root)
    found(log)
    assert {entry.group for entry in log.entries} == {"run r"}


def test_what_was_found_is_found_again_after_a_restart(root: Path):
    put(root / "one", "a-000000.jsonl")
    write_info(root / "one", RunInfo(run="r"))
    before = log_of(root)
    found(before)
    put(root / "one", "a-000001.jsonl")
    after = log_of(root)
    assert after.entries == before.entries
    assert found(after, 2) == [("segment", "one", "a-000001.jsonl")]
    assert log_of(root).entries == after.entries


def test_a_page_that_was_not_finished_does_not_count(root: Path):
    store = root.parent / "store"
    put(root / "one", "a-000000.jsonl")
    log = log_of(root)
    (store / ".000000000000.json").write_text("half of it")
    found(log)
    assert len(log_of(root)) == 1
    assert len(Pages(str(store)).read()) == 1


def test_many_pages_become_one_at_the_next_start(root: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stream_pages, "PAGES_MAX", 3)
    store = root.parent / "store"
    put(root / "one", "a-000000.jsonl")
    write_info(root / "one", RunInfo(run="r"))
    log = log_of(root)
    for number in range(1, 8):
        found(log)
        put(root / "one", f"a-{number:06d}.jsonl")
    assert len(list(store.iterdir())) == 7
    again = log_of(root)
    assert again.entries == log.entries
    assert [path.name for path in store.iterdir()] == ["000000000007.whole.json"]
    found(again)
    third = log_of(root)
    assert third.entries == again.entries
    assert len(third) == len(log) + 1


def test_pages_before_one_that_stands_for_them_do_not_count(tmp_path: Path):
    pages = Pages(str(tmp_path))
    pages.append("a")
    old = (tmp_path / "000000000000.json").read_bytes()
    pages.replace("ab")
    (tmp_path / "000000000000.json").write_bytes(old)  # as after a crash before it was removed
    pages.append("c")
    assert Pages(str(tmp_path)).read() == [b'"ab"', b'"c"']


def test_pages_come_in_the_order_in_which_they_were_appended(tmp_path: Path):
    pages = Pages(str(tmp_path))
    for number in range(12):  # as text, 10 comes before 9
        pages.append(number)
    assert Pages(str(tmp_path)).read() == [str(number).encode() for number in range(12)]


def test_a_page_is_not_seen_before_it_is_whole(tmp_path: Path):
    class Slow:
        """A file system in which a page never gets its name."""

        def __init__(self, where) -> None:
            self.open_output_stream = where.open_output_stream

        def move(self, source: str, target: str) -> None:
            assert Pages(str(tmp_path)).read() == [b'"first"']
            raise OSError("killed")

    pages = Pages(str(tmp_path))
    pages.append("first")
    pages._where = Slow(pages._where)
    with pytest.raises(OSError, match="killed"):
        pages.append("second")
    assert Pages(str(tmp_path)).read() == [b'"first"']


def test_a_large_folder_is_taken_up_in_several_batches(root: Path):
    names = [f"a-{number:06d}.jsonl" for number in range(600)]
    put(root / "one", *names)
    write_info(root / "one", RunInfo(run="r"))
    reader = FilesReader([str(root)], str(root.parent / "store"))
    start, sizes, seen = reader.initialOffset(), [], []
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        rows = [row for part in reader.partitions(start, end) for row in reader.read(part)]
        sizes.append(len(rows))
        seen += [msgspec.json.decode(entry, type=Entry).name for _, entry in rows]
        assert {group for group, _ in rows} == {"run r"}
        start = end
    assert sizes == [FILES_PER_BATCH_MAX, FILES_PER_BATCH_MAX, 601 - 2 * FILES_PER_BATCH_MAX]
    assert seen == ["run.json", *names]


class KeptPieces:
    """A list in a state store."""

    def __init__(self) -> None:
        self.rows: list[tuple[bytes]] = []

    def get(self):
        return iter(self.rows)

    def put(self, rows: list[tuple[bytes]]) -> None:
        self.rows = list(rows)


def test_the_state_of_a_run_is_kept_in_pieces(root: Path, monkeypatch: pytest.MonkeyPatch):
    """A value of the state store has a limit, and the state of a run may be larger."""
    monkeypatch.setattr(stream, "CHUNK_BYTES", 100)
    made = records(a="send a:1; send a:2 < a:1; end", b="deliver a:2; deliver a:1; end")
    write_run(root / "r", made, info("a", "b", stability=False), 2)
    log = log_of(root)
    kept = KeptPieces()
    rules = []
    for step in ("segments", "end"):
        if step == "end":
            mark_closed(root / "r")
        before = len(log)
        log.discover()
        processor = stream.RunProcessor()
        processor._pieces = kept  # what init asks Spark for
        rows = [Row(entry=msgspec.json.encode(entry)) for entry in log.entries[before:]]
        found = list(processor.handleInputRows(("run r",), iter(rows), None))
        rules += [row["rule"] for row in found if row["what"] == "violation"]
        if step == "segments":
            assert len(kept.rows) > 5
            assert {len(piece) for (piece,) in kept.rows[:-1]} == {100}
    assert rules == ["deliver-early"]
    assert [row["events"] for row in found if row["what"] == "closed"] == [6]


def test_a_checkpoint_of_other_folders_is_refused(root: Path, tmp_path: Path):
    put(root / "one", "a-000000.jsonl")
    found(log_of(root))
    with pytest.raises(UnusableInputError, match=r"belongs to .*runs"):
        FileLog([str(tmp_path)], str(tmp_path / "store"))


def test_a_folder_below_two_given_folders_is_taken_once(root: Path):
    put(root / "one", "a-000000.jsonl")
    log = FileLog([str(root), str(root / "one")], str(root.parent / "store"))
    log.discover()
    assert log.entries == [Entry("nameless", str(root / "one"))]


def test_only_folders_can_be_watched(root: Path):
    put(root, "a.jsonl")
    require_folders([str(root)])
    for path in (root / "a.jsonl", root / "absent"):
        with pytest.raises(UnusableInputError, match="is not a folder"):
            require_folders([str(path)])
