"""``thence check``: exit 0 clean, 1 violations, 2 unusable."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thence.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, capsys: Capture) -> Path:
    """A clean run in JSON Lines."""
    folder = tmp_path / "run"
    words = ["simulate", "--nodes", "3", "--messages", "10", "--form", "jsonl", "--out"]
    assert main([*words, str(folder)]) == 0
    capsys.readouterr()
    return folder


def drop(run: Path, kind: str, dot: str) -> None:
    """Take one record out of the log of a and close the gap."""
    log = run / "a-000000.jsonl"
    kept = []
    for line in log.read_text().splitlines():
        record = json.loads(line)
        if not (record["kind"] == kind and f"{record['dot'][0]}:{record['dot'][1]}" == dot):
            kept.append(json.dumps(record | {"pos": len(kept)}))
    log.write_text("\n".join(kept) + "\n")


def test_a_clean_run_is_ok(run: Path, capsys: Capture):
    for words in ([], ["--local"]):
        assert main(["check", str(run), *words]) == 0
        out, error = capsys.readouterr()
        assert out.startswith("ok: 1 run, ")
        assert error == ""


def test_a_violation_is_counted_and_named(run: Path, capsys: Capture):
    drop(run, "deliver", "b:3")
    assert main(["check", str(run)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("NOT ok: ")
    assert "deliver-missing" in out
    assert "before b:3, which precedes it [deliver-early]" in out


def test_json_is_the_object_of_the_contract(run: Path, capsys: Capture):
    assert main(["check", str(run), "--json"]) == 0
    clean = json.loads(capsys.readouterr().out)
    assert list(clean) == ["ok", "runs", "events", "counts", "violations"]
    assert clean["ok"] is True
    assert clean["runs"] == 1
    drop(run, "deliver", "b:3")
    assert main(["check", str(run), "--json"]) == 1
    broken = json.loads(capsys.readouterr().out)
    assert broken["ok"] is False
    assert broken["counts"]["deliver-missing"] == 1
    first = broken["violations"][0]
    assert list(first) == ["run", "node", "pos", "rule", "dot", "missing", "why"]


def test_explain_adds_the_step_and_the_records_around_it(run: Path, capsys: Capture):
    drop(run, "deliver", "b:3")
    assert main(["check", str(run), "--explain"]) == 1
    out = capsys.readouterr().out
    assert "the log of a:" in out
    assert "vector" in out
    assert main(["check", str(run), "--explain", "--json"]) == 1
    out, error = capsys.readouterr()
    assert json.loads(out)["ok"] is False
    assert "the log of a:" in error


def test_a_malformed_line_is_named_and_nothing_is_decided(run: Path, capsys: Capture):
    log = run / "b-000000.jsonl"
    lines = log.read_text().splitlines()
    lines[4] = lines[4][:20]
    log.write_text("\n".join(lines) + "\n")
    assert main(["check", str(run)]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert f"{log}:5: " in error
    assert "--keep-going" in error


def test_keep_going_checks_the_rest(run: Path, capsys: Capture):
    log = run / "b-000000.jsonl"
    with log.open("a") as file:
        file.write('{"v": 1, "run": \n')
    assert main(["check", str(run), "--keep-going"]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("ok: ")
    assert str(log) in error


def test_several_runs_are_checked_together(run: Path, capsys: Capture):
    second = run.parent / "second"
    words = ["simulate", "--nodes", "2", "--messages", "5", "--seed", "9", "--out"]
    assert main([*words, str(second)]) == 0
    capsys.readouterr()
    assert main(["check", str(run), str(second)]) == 0
    assert capsys.readouterr().out.startswith("ok: 2 runs")
    assert main(["check", str(run.parent)]) == 0
    assert capsys.readouterr().out.startswith("ok: 2 runs")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "no trace given"),
        (["--spark", "--local", "somewhere"], "choose one"),
        (["--follow", "--local", "somewhere"], "choose one"),
        (["--follow", "--explain", "somewhere"], "do not go with --follow"),
        (["--follow", "--work", "x", "somewhere"], "do not go with --follow"),
        (["s3://"], "names no bucket"),
        (["--out", "tables", "somewhere"], "--out and --work go with --spark"),
        (["--until-closed", "somewhere"], "go with --follow"),
        (["does-not-exist"], "does not exist"),
    ],
)
def test_unusable_input_is_one_clear_sentence(words: list[str], sentence: str, capsys: Capture):
    assert main(["check", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert sentence in lines[0]


def test_an_empty_folder_is_no_trace(tmp_path: Path, capsys: Capture):
    assert main(["check", str(tmp_path)]) == 2
    assert "holds no trace" in capsys.readouterr().err


def test_equal_lines_that_cannot_be_read_are_one_line_and_all_counted(run: Path, capsys: Capture):
    log = run / "b-000000.jsonl"
    lines = log.read_text().count("\n")
    log.write_text(log.read_text().replace('"v":1,', '"v":2,'))
    assert main(["check", str(run)]) == 2
    error = capsys.readouterr().err.splitlines()
    reason = "v: expected 1, got 2: a newer thence wrote it; upgrade"
    assert error[0] == f"{log}: lines 1-{lines}: {reason}"
    assert error[-1].startswith(f"thence: {lines + 1} inputs could not be read")
