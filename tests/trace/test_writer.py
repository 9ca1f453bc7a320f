"""Run folders: sealing, names, determinism, both forms alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from thence.causal.dot import Dot
from thence.errors import LocalProtocolError
from thence.trace.reader import read_records
from thence.trace.record import RunInfo, info_from_json
from thence.trace.writer import CLOSED_FILE, FORMS, Form, RunWriter, file_stem


def write(folder: Path, form: Form, segment_records: int = 4) -> None:
    info = RunInfo(run="r", engine="e", members=("a", "B/"))
    with RunWriter(folder, info, form, segment_records) as writer:
        a, b = writer.log("a"), writer.log("B é")
        for n in range(1, 6):
            before = [Dot("a", n - 1)] if n > 1 else []
            a.append("send", n, Dot("a", n), before, bytes=9, words=2, payload={"n": n})
            b.append("receive", n, Dot("a", n), peer="a")
            b.append("deliver", n, Dot("a", n))
        a.append("send", 7, Dot("a/s", 1), (), stream="s", to=["b"])
        a.append("sample", 8, extra={"name": "queue", "value": 3})
        writer.close(end_t_us=9)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read_back(tmp_path: Path, form: Form):
    write(tmp_path, form)
    found = list(read_records([tmp_path]))
    a = [record for record in found if record.node == "a"]
    assert [record.pos for record in a] == list(range(8))
    assert (a[1].dot, a[1].context) == (Dot("a", 2), (Dot("a", 1),))
    assert (a[1].bytes, a[1].words, a[1].payload, a[1].t_us) == (9, 2, {"n": 2}, 2)
    assert (a[0].context, a[5].stream, a[5].to) == ((), "s", ("b",))
    assert a[6].extra == {"name": "queue", "value": 3}
    b = [record for record in found if record.node == "B é"]
    assert (b[0].peer, b[1].peer, b[-1].kind, b[-1].t_us) == ("a", None, "end", 9)


def test_both_forms_hold_the_same(tmp_path: Path):
    for form in FORMS:
        write(tmp_path / form, form)
    assert list(read_records([tmp_path / "parquet"])) == list(read_records([tmp_path / "jsonl"]))


@pytest.mark.parametrize("form", FORMS)
def test_the_same_calls_give_the_same_bytes(tmp_path: Path, form: Form):
    """In another process too, with another hash seed."""
    script = f"""
import sys
from pathlib import Path
from tests.trace.test_writer import write
write(Path(sys.argv[1]), {form!r})
"""
    root = Path(__file__).parents[2]
    for number in (1, 2):
        environment = {"PYTHONHASHSEED": str(number), "PYTHONPATH": f"{root}:{root / 'src'}"}
        folder = str(tmp_path / str(number))
        subprocess.run([sys.executable, "-c", script, folder], check=True, env=environment)
    first, second = sorted((tmp_path / "1").iterdir()), sorted((tmp_path / "2").iterdir())
    assert [path.name for path in first] == [path.name for path in second]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.parametrize("form", FORMS)
def test_a_full_segment_can_be_read_while_the_run_goes_on(tmp_path: Path, form: Form):
    writer = RunWriter(tmp_path, RunInfo(run="r", members=("a",)), form, segment_records=2)
    log = writer.log("a")
    for n in range(1, 6):
        assert log.append("send", n, Dot("a", n)) == n - 1
    assert [record.pos for record in read_records([tmp_path])] == [0, 1, 2, 3]
    assert not info_from_json((tmp_path / "run.json").read_bytes()).complete
    writer.close()
    assert [record.pos for record in read_records([tmp_path])] == [0, 1, 2, 3, 4]
    assert info_from_json((tmp_path / "run.json").read_bytes()).complete
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_exception_leaves_the_run_incomplete_and_its_records_readable(tmp_path: Path):
    def fails() -> None:
        with RunWriter(tmp_path, RunInfo(run="r")) as writer:
            writer.log("a").append("send", 1, Dot("a", 1))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert not info_from_json((tmp_path / "run.json").read_bytes()).complete
    assert len(list(read_records([tmp_path]))) == 1


def test_closing_twice_is_closing_once(tmp_path: Path):
    writer = RunWriter(tmp_path, RunInfo(run="r"))
    writer.log("a").append("end", 1)
    writer.close()
    writer.close(complete=False)
    assert info_from_json((tmp_path / "run.json").read_bytes()).complete


def test_different_names_have_different_files_on_any_file_system():
    names = ["a", "A", "a b", "a%20b", "..", ".a", "a/b", "é", "a#2", "a-0", "a:1", "a\\b", ""]
    stems = [file_stem(name) for name in names]
    assert len({stem.lower() for stem in stems}) == len(names)
    assert all(not set(stem) & set('/\\:*?"<>| ') and not stem.startswith(".") for stem in stems)
    assert file_stem("a#2") == "a#2"


def test_misuse_is_said_at_once(tmp_path: Path):
    writer = RunWriter(tmp_path, RunInfo(run="r"), form="jsonl", segment_records=1)
    log = writer.log("a")
    assert writer.log("a") is log
    with pytest.raises(LocalProtocolError, match="needs a dot"):
        log.append("send", 1)
    log.append("end", 1)
    with pytest.raises(LocalProtocolError, match="has its end"):
        log.append("sample", 2)
    with pytest.raises(LocalProtocolError, match="cannot name a node"):
        writer.log("a/s")
    with pytest.raises(LocalProtocolError, match="already holds a trace"):
        RunWriter(tmp_path, RunInfo(run="r"))
    with pytest.raises(LocalProtocolError, match="segment_records"):
        RunWriter(tmp_path / "x", RunInfo(run="r"), segment_records=0)
    writer.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        writer.log("b")


@pytest.mark.parametrize("complete", [True, False])
def test_closing_marks_the_run_closed_whether_it_is_complete_or_not(tmp_path: Path, complete: bool):
    writer = RunWriter(tmp_path, RunInfo(run="r", members=("a",)))
    writer.log("a").append("send", 1, Dot("a", 1))
    assert not (tmp_path / CLOSED_FILE).exists()
    writer.close(complete=complete)
    assert (tmp_path / CLOSED_FILE).read_bytes() == b""
    assert info_from_json((tmp_path / "run.json").read_bytes()).complete is complete


def test_an_exception_closes_the_run_and_leaves_it_incomplete(tmp_path: Path):
    def fail() -> None:
        with RunWriter(tmp_path, RunInfo(run="r", members=("a",))) as writer:
            writer.log("a").append("send", 1, Dot("a", 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / CLOSED_FILE).exists()
    assert not info_from_json((tmp_path / "run.json").read_bytes()).complete
    assert len(list(read_records([tmp_path]))) == 1
