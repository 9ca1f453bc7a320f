"""``thence ingest``: exit 0 all of it, 2 something set aside or unusable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thence.cli.main import main
from thence.errors import UnusableInputError

Capture = pytest.CaptureFixture[str]
PLAIN = r"(?<host>\w+) (?<clock>\{.*?\}) (?<event>.*)"


@pytest.fixture
def run(tmp_path: Path, capsys: Capture) -> Path:
    """A clean run in JSON Lines."""
    folder = tmp_path / "run"
    words = ["simulate", "--nodes", "3", "--messages", "10", "--form", "jsonl", "--out"]
    assert main([*words, str(folder)]) == 0
    capsys.readouterr()
    return folder


def ingest(*words: object) -> int:
    """The command, in this process."""
    return main(["ingest", "--local", *map(str, words)])


def test_a_run_is_taken_once_and_can_be_checked(run: Path, tmp_path: Path, capsys: Capture):
    table = tmp_path / "table"
    assert ingest(run, "--out", table) == 0
    out, error = capsys.readouterr()
    first, second, third, last = out.splitlines()
    assert first == "segments     3 taken, 0 already there"
    assert second.startswith("events       ")
    assert second.endswith(" of 3 nodes in 1 run")
    assert third.startswith("quarantined  0 of ")
    assert last == f"table in {table}; check it with: thence check {table}/events"
    assert error == ""
    for path in (table, table / "events"):
        assert main(["check", str(path)]) == 0
        assert capsys.readouterr().out.startswith("ok: 1 run, ")
    assert ingest(run, "--out", table) == 0
    assert "0 taken, 3 already there" in capsys.readouterr().out


def test_what_is_set_aside_is_named_and_exits_with_2_unless_that_is_wanted(
    run: Path, tmp_path: Path, capsys: Capture
):
    table = tmp_path / "table"
    with (run / "a-000000.jsonl").open("a") as file:
        file.write("nonsense\n" * 12)
    assert ingest(run, "--out", table) == 2
    out, error = capsys.readouterr()
    assert "quarantined  12 of" in out
    lines = error.splitlines()
    assert len(lines) == 12
    assert lines[0].startswith(f"{run}/a-000000.jsonl:")
    assert lines[10] == "... and 2 more set aside"
    assert lines[11].startswith("thence: not everything could be taken; ")
    assert ingest(run, "--out", table) == 2
    assert "quarantined  0 of 0 lines, and 12 earlier" in capsys.readouterr().out
    assert ingest(run, "--out", table, "--keep-going") == 0


def test_a_log_of_a_newer_version_exits_with_2_and_says_so(
    run: Path, tmp_path: Path, capsys: Capture
):
    log = run / "a-000000.jsonl"
    log.write_text(log.read_text().replace('{"v":1,', '{"v":2,'))
    assert ingest(run, "--out", tmp_path / "table") == 2
    error = capsys.readouterr().err
    assert error.startswith(f"{log}:1: v: expected 1, got 2: a newer thence wrote it; upgrade\n")


def test_what_a_check_would_object_to_is_a_sentence(run: Path, tmp_path: Path, capsys: Capture):
    (run / "b-000000.jsonl").unlink()
    assert ingest(run, "--out", tmp_path / "table") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"thence: {run}: no log of b in complete ")
    (run / "run.json").unlink()
    assert ingest(run, "--out", tmp_path / "other") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"thence: {run}: no run.json, so the members are taken to be the nodes")


def test_a_changed_segment_is_one_sentence(run: Path, tmp_path: Path, capsys: Capture):
    assert ingest(run, "--out", tmp_path / "table") == 0
    (run / "a-000000.jsonl").write_text("")
    capsys.readouterr()
    assert ingest(run, "--out", tmp_path / "table") == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert len(error.splitlines()) == 1
    assert "a-000000.jsonl has changed since it was ingested" in error


def test_logs_with_vector_clocks_become_runs(tmp_path: Path, capsys: Capture):
    log = tmp_path / "x.log"
    log.write_text('a {"a":1} one\n---\na {"a":1} two\nb {"b":1, "a":1, "c":9} three\n')
    table = tmp_path / "table"
    words = [log, "--out", table, "--shiviz", PLAIN, "--delimiter", "^---$", "--run", "mine"]
    assert ingest(*words) == 0
    out, error = capsys.readouterr()
    assert "events       4 of 3 nodes in 2 runs" in out
    assert "made of 3 events of the log" in out
    assert error == (f"{log}:4: the clock names c:9, and the log has no events of c (taken)\n")
    assert main(["check", "--json", f"{table}/events"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--out", "t"], "no input given"),
        (["nowhere", "--out", "t"], "nowhere does not exist"),
        (["x.log", "--out", "t", "--run", "r"], "--run is for logs of others"),
        (["x.log", "--out", "t", "--delimiter", "r"], "--delimiter is for logs of others"),
        (["x.log", "--out", "t", "--shiviz", "(?<host>a"], "is no regular expression"),
        (["x.log", "--out", "t", "--master", "local"], "--local and --master: choose one"),
        (["x.log", "--out", "x.log", "--shiviz", PLAIN], "is part of the table"),
        (["x.log", "--out", "y.log", "--shiviz", PLAIN], "y.log cannot be a table folder"),
    ],
    ids=str,
)
def test_what_cannot_be_done_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, words, sentence: str
):
    monkeypatch.chdir(tmp_path)
    for name in ("x.log", "y.log"):
        Path(name).write_text('a {"a":1} one\n')
    assert ingest(*words) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert len(error.splitlines()) == 1
    assert not Path("t").exists()


def test_spark_is_not_started_for_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    def never(*_: object) -> None:
        raise UnusableInputError("started")

    monkeypatch.setattr("thence.pipeline.session.spark_session", never)
    assert main(["ingest", str(tmp_path / "nowhere"), "--out", str(tmp_path / "t")]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_spark_gets_its_master(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    def session(master: str | None) -> None:
        raise UnusableInputError(f"asked for {master}")

    monkeypatch.setattr("thence.pipeline.session.spark_session", session)
    words = ["ingest", str(run), "--out", str(tmp_path / "t"), "--master", "spark://here:7077"]
    assert main(words) == 2
    assert "asked for spark://here:7077" in capsys.readouterr().err
