"""``thence simulate``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sim.naive import naive
from thence.cli.main import main
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError

SMALL = ["simulate", "--nodes", "3", "--messages", "10"]
Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_run_prints_a_summary_and_where_its_trace_is(
    engine: str, tmp_path: Path, capsys: Capture
):
    out = tmp_path / "run"
    spec = ENGINES[engine]
    links = ["--fifo"] if spec.fifo_links else []
    assert main([*SMALL, "--engine", engine, "--seed", "3", *links, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert f"{engine}, 3 nodes, seed 3" in text
    assert "messages              30" in text
    assert f"deliveries            {90 if spec.own else 60}" in text
    assert "no violation" in text
    assert f"thence check {out}" in text
    info = json.loads((out / "run.json").read_text())
    assert info["engine"] == engine
    assert info["members"] == ["a", "b", "c"]
    assert info["complete"] is True
    assert main(["check", str(out)]) == 0


def test_without_out_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    monkeypatch.chdir(tmp_path)
    assert main(SMALL) == 0
    assert list(tmp_path.iterdir()) == []
    assert "trace" not in capsys.readouterr().out


def test_what_metrics_group_by_is_in_run_json(tmp_path: Path):
    words = ["--interval-ms", "7", "--experiment", "slow start", "--out", str(tmp_path)]
    assert main([*SMALL, *words]) == 0
    scenario = json.loads((tmp_path / "run.json").read_text())["scenario"]
    assert (scenario["interval_ms"], scenario["experiment"]) == (7.0, "slow start")
    assert "--experiment 'slow start'" in scenario["command"]


def test_overwrite_opens_the_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A follower must not take the mark of the old run for the end of the new one."""
    again = [*SMALL, "--out", str(tmp_path), "--overwrite"]
    assert main(again) == 0
    seen = []

    def look(*_: object, **__: object) -> None:
        seen.append((tmp_path / "run.closed").exists())
        raise UnusableInputError("enough")

    monkeypatch.setattr("thence.cli.simulate.simulate", look)
    assert main(again) == 2
    assert seen == [False]


def test_lines_on_request(tmp_path: Path):
    assert main([*SMALL, "--out", str(tmp_path), "--form", "jsonl"]) == 0
    suffixes = sorted(path.suffix for path in tmp_path.iterdir())
    assert suffixes == [".closed", ".json", *[".jsonl"] * 3]


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path, capsys: Capture):
    (tmp_path / "precious").write_text("mine")
    assert main([*SMALL, "--out", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_overwrite_replaces_a_trace_and_nothing_else(tmp_path: Path):
    again = [*SMALL, "--out", str(tmp_path), "--overwrite"]
    assert main(again) == 0
    (tmp_path / "precious").write_text("mine")
    assert main([*again, "--form", "jsonl"]) == 0
    assert (tmp_path / "precious").read_text() == "mine"
    assert not list(tmp_path.glob("*.parquet"))


def test_overwrite_removes_nothing_where_other_data_lies(tmp_path: Path, capsys: Capture):
    again = [*SMALL, "--out", str(tmp_path), "--overwrite"]
    assert main(again) == 0
    (tmp_path / "sales.parquet").write_text("mine")
    files = sorted(tmp_path.iterdir())
    assert main(again) == 2
    assert "sales.parquet" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == files


def test_overwrite_leaves_a_folder_alone_that_holds_no_trace(tmp_path: Path, capsys: Capture):
    (tmp_path / "a-000000.parquet").write_text("mine")
    assert main([*SMALL, "--out", str(tmp_path), "--overwrite"]) == 2
    assert "holds no trace" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a-000000.parquet"]


def test_a_file_cannot_take_a_trace(tmp_path: Path, capsys: Capture):
    file = tmp_path / "file"
    file.write_text("")
    assert main([*SMALL, "--out", str(file)]) == 2
    assert "is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--engine", "nope"], "no engine 'nope'; there are tagged"),
        (["--nodes", "0"], "nodes 0: expected 1 to"),
        (["--nodes", "many"], "--nodes"),
        (["--messages", "-1"], "messages -1: expected 0 or more"),
        (["--loss", "1"], "loss 1.0: expected a chance"),
        (["--duplicate", "2"], "duplicate 2.0: expected a chance"),
        (["--slow-link", "a:b"], "expected A:B:FACTOR"),
        (["--slow-link", "a:z:3"], "there is no node 'z'"),
        (["--partition", "9:1:a"], "expected START_MS:END_MS"),
        (["--latency-ms", "-2"], "latency -2.0 ms"),
        (["--interval-ms", "nan"], "interval nan ms"),
        (["--distribution", "guess"], "--distribution"),
        (["--form", "csv"], "--form"),
        (["--engine", "vector", "--phantom-ms", "5"], "no phantoms"),
        (["--unheard-of"], "--unheard-of"),
    ],
)
def test_bad_values_are_one_clear_sentence(words: list[str], sentence: str, capsys: Capture):
    assert main(["simulate", *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("thence: ")
    assert sentence in lines[0]


def test_a_bad_value_creates_no_folder(tmp_path: Path):
    out = tmp_path / "run"
    assert main([*SMALL, "--loss", "7", "--out", str(out)]) == 2
    assert not out.exists()


def test_a_violation_prints_how_to_replay_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    monkeypatch.setitem(ENGINES, "naive-early", naive("early"))
    words = ["--engine", "naive-early", "--interval-ms", "1", "--distribution", "uniform"]
    assert main([*SMALL, *words, "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert "before its predecessors" in error
    assert (
        "replay: thence simulate --engine naive-early --nodes 3 --messages 10 --seed 1 "
        "--distribution uniform --interval-ms 1"
    ) in error
    assert json.loads((tmp_path / "run" / "run.json").read_text())["complete"] is False


def test_measured_times_go_to_a_file_of_their_own(tmp_path: Path):
    out, timing = tmp_path / "run", tmp_path / "timing.json"
    assert main([*SMALL, "--out", str(out), "--timing", str(timing)]) == 0
    assert set(json.loads(timing.read_text())) == {"seconds", "cpu_seconds"}
    assert timing.parent != out
