"""The log of a node that is started again: what it finds, cuts off, seals and refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from thence.causal.dot import Dot
from thence.errors import LocalProtocolError, TraceError
from thence.trace import resumable
from thence.trace.reader import read_records
from thence.trace.record import RunInfo
from thence.trace.resumable import ResumableLog
from thence.trace.writer import FORMS, Form, RunWriter, write_info


def log_in(folder: Path, at: int | None = 0, **options: Any) -> ResumableLog:
    return ResumableLog(folder, "r", "a", at, **options)


def fill(log: ResumableLog, count: int) -> int:
    """Append that many sends, the clock of each its position; how many records there are then."""
    for _ in range(count):
        pos = len(log)
        assert log.append("send", pos, Dot("a", pos + 1)) == pos
    return log.flush()


def sealed(folder: Path) -> list[int]:
    """The clocks of the sealed records, in order of their positions, which are dense."""
    if not any(path for path in folder.iterdir() if not path.name.startswith(".")):
        return []
    records = sorted(read_records([folder]), key=lambda record: record.pos)
    assert [record.pos for record in records] == list(range(len(records)))
    return [record.t_us for record in records]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def every_field(log: Any) -> None:
    """One record with each field, and such as have to be escaped."""
    log.append("send", 1, Dot("a", 1), (), bytes=9, words=2, payload={"n": [1, "é\n"]})
    log.append("send", -5, Dot("a", 2), [Dot("a", 1), Dot("b", 7)], to=["b", "c"], payload=0)
    log.append("send", 3, Dot("a/s", 1), stream="s")
    log.append("receive", 3, Dot("b", 8), peer="b")
    log.append("restart", 4, context=[Dot("b", 8)], stable=[Dot("a", 1)])
    log.append("restart", 4, context=[], stable=[], to=())
    log.append("sample", 5, extra={"name": "queue", "value": {"x": 3}, "extra": None})
    log.append('odd "kind"', 6, payload="")


@pytest.mark.parametrize("form", FORMS)
def test_it_holds_what_a_log_of_run_writer_holds(tmp_path: Path, form: Form):
    writer = RunWriter(tmp_path / "one", RunInfo(run="r"), form)
    every_field(writer.log("a"))
    writer.close()
    log = log_in(tmp_path / "two", form=form)
    every_field(log)
    log.seal(log.flush())
    log.close()
    assert list(read_records([tmp_path / "two"])) == list(read_records([tmp_path / "one"]))
    if form == "parquet":
        files = [tmp_path / folder / "a-000000.parquet" for folder in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.parametrize("form", FORMS)
def test_readers_see_sealed_segments_only(tmp_path: Path, form: Form):
    log = log_in(tmp_path, form=form)
    log.seal(fill(log, 3))
    fill(log, 2)
    assert sealed(tmp_path) == [0, 1, 2]
    assert names(tmp_path) == [".a-000001.jsonl.open", f"a-000000.{form}"]
    log.seal(5)
    log.seal(5)  # of nothing
    log.close()
    assert sealed(tmp_path) == [0, 1, 2, 3, 4]
    assert names(tmp_path) == [f"a-000000.{form}", f"a-000001.{form}"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("at", [3, 4, 5, None])
def test_what_the_journal_does_not_know_did_not_happen(tmp_path: Path, form: Form, at: int | None):
    log = log_in(tmp_path, form=form)
    log.seal(fill(log, 3))
    fill(log, 2)
    log.append("send", 99, Dot("a", 99))  # never flushed
    log.close()
    log = log_in(tmp_path, at, form=form)
    kept = 5 if at is None else at
    assert len(log) == kept
    log.append("restart", 100)
    log.seal(log.flush())
    log.close()
    assert sealed(tmp_path) == [*range(kept), 100]


def test_a_torn_last_line_is_dropped(tmp_path: Path):
    log = log_in(tmp_path)
    fill(log, 4)
    log.close()
    path = tmp_path / ".a-000000.jsonl.open"
    whole = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        log = log_in(tmp_path, None)
        lines = sum(end <= size for end in ends)
        assert len(log) == lines
        assert path.read_bytes() == whole[: ([0, *ends])[lines]]
        log.close()


def test_fewer_records_than_the_journal_knows_are_refused_and_left_alone(tmp_path: Path):
    log = log_in(tmp_path)
    log.seal(fill(log, 3))
    fill(log, 2)
    log.close()
    path = tmp_path / ".a-000001.jsonl.open"
    with path.open("ab") as file:
        file.write(b'{"v":1,"run"')
    before = path.read_bytes()
    with pytest.raises(TraceError, match="has 5 records and its journal says 6"):
        log_in(tmp_path, 6)
    assert path.read_bytes() == before
    path.unlink()
    with pytest.raises(TraceError, match="has 3 records and its journal says 5"):
        log_in(tmp_path, 5)


@pytest.mark.parametrize("form", FORMS)
def test_a_sealed_record_is_never_cut_off(tmp_path: Path, form: Form):
    log = log_in(tmp_path, form=form)
    fill(log, 3)
    with pytest.raises(LocalProtocolError, match="2 records of a are committed and 3 are logged"):
        log.seal(2)
    log.append("sample", 3)
    with pytest.raises(LocalProtocolError, match="flush and commit them"):
        log.seal(4)
    log.seal(log.flush())
    log.close()
    before = names(tmp_path)
    for at in (0, 3):
        with pytest.raises(TraceError, match=f"4 sealed records, and its journal says {at}"):
            log_in(tmp_path, at)
    assert names(tmp_path) == before


def test_a_segment_is_due_when_it_is_full_or_old(tmp_path: Path):
    log = log_in(tmp_path, segment_records=3, segment_age_s=10.0)
    assert not log.due(0.0)
    fill(log, 2)
    assert not log.due(100.0)  # its age counts from here
    assert not log.due(109.0)
    assert log.due(110.0)
    fill(log, 1)
    assert log.due(101.0)
    log.seal(3)
    assert not log.due(120.0)
    fill(log, 1)
    assert not log.due(200.0)
    assert not log.due(209.0)
    log.close()
    log = log_in(tmp_path, 4, segment_records=3, segment_age_s=10.0)
    assert not log.due(5.0)  # another process, another clock
    assert log.due(15.0)
    fill(log, 2)
    assert log.due(6.0)
    log.close()


def test_a_segment_is_due_when_it_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(resumable, "OPEN_BYTES", 300)
    log = log_in(tmp_path)
    fill(log, 1)
    assert not log.due(0.0)
    fill(log, 5)
    assert log.due(0.0)
    log.seal(6)
    fill(log, 1)
    assert not log.due(0.0)
    log.close()


@pytest.mark.parametrize("form", FORMS)
def test_the_end_is_the_end_after_a_restart_too(tmp_path: Path, form: Form):
    log = log_in(tmp_path, form=form)
    fill(log, 1)
    log.append("end", 9)
    log.flush()
    for step in ("open", "sealed"):
        assert log.ended, step
        with pytest.raises(LocalProtocolError, match="has its end"):
            log.append("sample", 10)
        if step == "sealed":
            log.seal(2)
        log.close()
        log = log_in(tmp_path, 2, form=form)
    assert log.ended
    log.close()


def test_an_end_that_is_cut_off_is_none(tmp_path: Path):
    log = log_in(tmp_path)
    fill(log, 1)
    log.append("end", 9)
    log.flush()
    log.close()
    log = log_in(tmp_path, 1)
    assert not log.ended
    log.close()


def test_the_form_may_change_between_lives(tmp_path: Path):
    forms: list[Form] = ["jsonl", "parquet", "jsonl", "parquet"]
    for life, form in enumerate(forms):
        log = log_in(tmp_path, 2 * life, form=form)
        log.seal(fill(log, 2))
        log.close()
    assert sealed(tmp_path) == list(range(8))
    assert names(tmp_path) == [f"a-{n:06d}.{form}" for n, form in enumerate(forms)]


def test_all_segments_but_the_last_may_be_moved(tmp_path: Path):
    log = log_in(tmp_path)
    for _ in range(3):
        log.seal(fill(log, 2))
    log.close()
    for number in range(2):
        (tmp_path / f"a-{number:06d}.parquet").unlink()
    log = log_in(tmp_path, 6)
    assert len(log) == 6
    log.seal(fill(log, 1))
    log.close()
    assert names(tmp_path) == ["a-000002.parquet", "a-000003.parquet"]


def test_half_a_segment_of_an_earlier_life_is_removed(tmp_path: Path):
    """Also when this life seals in another form, and would not overwrite it."""
    for name in (".a-000000.parquet.partial", ".b-000000.parquet.partial"):
        (tmp_path / name).write_bytes(b"PAR1")
    log_in(tmp_path, form="jsonl").close()
    assert names(tmp_path) == [".b-000000.parquet.partial"]


def test_nodes_share_a_folder(tmp_path: Path):
    """Each in its own process; names that begin alike are not mixed up."""
    nodes = ["a", "a#2", "A", "a-0", "b", "a.jsonl"]
    for life in range(2):
        for node in nodes:
            log = ResumableLog(tmp_path, "r", node, 2 * life, "jsonl")
            log.append("sample", 0)
            log.seal(log.flush())
            log.append("sample", 1)
            log.flush()
            log.close()
    write_info(tmp_path, RunInfo(run="r", members=tuple(nodes)))
    found = [(record.node, record.pos) for record in read_records([tmp_path])]
    assert sorted(found) == sorted((node, pos) for node in nodes for pos in range(3))


def test_what_is_not_this_log_is_refused(tmp_path: Path):
    log = log_in(tmp_path)
    fill(log, 2)
    log.close()
    path = tmp_path / ".a-000000.jsonl.open"
    whole = path.read_bytes()
    first, second = whole.splitlines(keepends=True)
    with pytest.raises(TraceError, match="a record of a in run r, in the log of a in s"):
        ResumableLog(tmp_path, "s", "a", 2)
    for text, match in (
        (second + first, r":1: pos: expected 0, got 1"),
        (first + first, r":2: pos: expected 1, got 0"),
        (first + b"{}\n", r":2: .*missing required field"),
        (first + b"\xff\xfe\n" + second, r":2: "),
        (b"\n" + first + second, r":1: "),
    ):
        path.write_bytes(text)
        with pytest.raises(TraceError, match=match):
            log_in(tmp_path, 2)
        assert path.read_bytes() == text
    path.write_bytes(whole)
    path.rename(tmp_path / ".a-000002.jsonl.open")
    with pytest.raises(TraceError, match="no segment 1 before it"):
        log_in(tmp_path, 2)


@pytest.mark.parametrize("text", [b"", b"PAR1 not", b'{"v":1}\n'])
@pytest.mark.parametrize("form", FORMS)
def test_a_last_segment_that_cannot_be_read_is_refused(tmp_path: Path, form: Form, text: bytes):
    (tmp_path / f"a-000000.{form}").write_bytes(text)
    with pytest.raises(TraceError, match=f"a-000000.{form}"):
        log_in(tmp_path, 0)


def test_misuse_is_said_at_once(tmp_path: Path):
    for node in ("", "a/s"):
        with pytest.raises(LocalProtocolError, match="cannot name a node"):
            ResumableLog(tmp_path, "r", node)
    with pytest.raises(LocalProtocolError, match="segment_records"):
        log_in(tmp_path, segment_records=0)
    log = log_in(tmp_path)
    with pytest.raises(LocalProtocolError, match="needs a dot"):
        log.append("send", 1)
    assert len(log) == 0
    assert log.flush() == 0
    assert not names(tmp_path)


def test_a_flush_that_failed_may_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = log_in(tmp_path, form="jsonl")
    fill(log, 2)
    real = os.write
    left = [3]

    def write(descriptor: int, data: memoryview) -> int:
        """The disk takes some bytes and is full."""
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: left.pop()])

    log.append("sample", 2)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        for _ in range(2):
            with pytest.raises(TraceError, match="cannot be written: No space left"):
                log.flush()
            left.append(5)
        left.append(7)
    log.append("sample", 3)
    log.seal(log.flush())
    log.close()
    assert sealed(tmp_path) == [0, 1, 2, 3]


@pytest.mark.parametrize("form", FORMS)
def test_a_seal_that_failed_may_be_tried_again_and_is_not_due_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form
):
    log = log_in(tmp_path, form=form, segment_records=2)
    fill(log, 2)
    assert log.due(0.0)

    def replace(source: object, target: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace)
        with pytest.raises(TraceError, match="cannot be written"):
            log.seal(2)
    assert names(tmp_path) == [".a-000000.jsonl.open"]
    assert not log.due(0.0)
    fill(log, 2)
    assert log.due(0.0)
    log.seal(4)
    log.close()
    assert sealed(tmp_path) == [0, 1, 2, 3]


def test_synced_files_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    for sync in (False, True):
        log = log_in(tmp_path / f"{sync}", sync=sync)
        log.seal(fill(log, 3))
        fill(log, 1)
        log.close()
        assert bool(synced) == sync
    assert names(tmp_path / "True") == names(tmp_path / "False")
    assert len(synced) == 6  # twice a new name and its bytes, and the segment with its name
