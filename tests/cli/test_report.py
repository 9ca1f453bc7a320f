"""``thence report``: of a lab, of runs, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.made_tables import Row, draw_nothing, make_lab, usual
from thence.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("thence.pipeline.session.spark_session", never)


@pytest.mark.usefixtures("no_spark")
def test_a_lab_with_its_metrics_needs_no_spark(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    draw_nothing(monkeypatch)
    lab = make_lab(tmp_path / "lab", sizes=(128,))
    out = tmp_path / "out"
    assert main(["report", str(lab), "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "Metadata: of 3 claims of the thesis about 128 nodes, 3 reproduced." in text
    assert text.splitlines()[-1] == f"report: {out / 'index.html'}"


@pytest.mark.usefixtures("no_spark")
def test_strict_fails_on_each_shape_that_is_not_reproduced(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
):
    draw_nothing(monkeypatch)

    def good(row: Row) -> float | None:
        square = row["variant"] in ("vector", "cbcast-e2e")
        if row["series"] == "words" and row["experiment"] == "exp3" and row["stability"]:
            return float(row["group_size"] ** (2 if square else 1))
        return usual(row)

    def bad(row: Row) -> float | None:
        return 500.0 if row["series"] == "entries" and row["variant"] == "graph" else good(row)

    flags = ["--out", str(tmp_path / "out"), "--strict"]
    assert main(["report", str(make_lab(tmp_path / "a", sizes=(4, 128), law=good)), *flags]) == 0
    assert capsys.readouterr().err == ""
    assert main(["report", str(make_lab(tmp_path / "b", sizes=(4, 128), law=bad)), *flags]) == 1
    said = capsys.readouterr().err.splitlines()
    names = ["entries-classic", "entries-vector", "entries-constant-work"]
    assert [line.split(": ")[1] for line in said] == names
    # Nothing measured is nothing shown: it does not pass either.
    assert main(["report", str(make_lab(tmp_path / "c", sizes=(4,), law=good)), *flags]) == 1
    assert "not measured" in capsys.readouterr().err


@pytest.mark.usefixtures("no_spark")
def test_mistakes_are_one_sentence_before_spark_starts(tmp_path: Path, capsys: Capture):
    lab = str(make_lab(tmp_path / "lab", sizes=(4,)))
    empty, full = tmp_path / "empty", tmp_path / "full"
    empty.mkdir()
    full.mkdir()
    (full / "mine").write_text("")
    out = str(tmp_path / "out")
    for words, sentence in (
        (["--out", out], "nothing to report on: name the folder of a lab"),
        ([lab], "no folder for the report given: --out DIR"),
        ([str(tmp_path / "no"), "--out", out], "does not exist: name a run folder"),
        ([str(empty), "--out", out], "holds no trace"),
        ([lab, "--out", str(full)], "is not empty and holds no report"),
        ([lab, str(empty), "--out", out], "is the folder of a lab: report on it alone"),
    ):
        assert main(["report", *words]) == 2
        said = capsys.readouterr().err.splitlines()
        assert len(said) == 1
        assert sentence in said[0]
    assert not Path(out).exists()


@pytest.mark.usefixtures("spark")
def test_runs_are_measured_and_drawn(tmp_path: Path, capsys: Capture):
    folder, out = tmp_path / "run", tmp_path / "out"
    flags = ["--nodes", "3", "--messages", "10", "--sample-ms", "10", "--out", str(folder)]
    assert main(["simulate", *flags]) == 0
    capsys.readouterr()
    assert main(["report", str(folder), "--out", str(out)]) == 0
    assert "30 messages were sent and 60 deliveries made" in capsys.readouterr().out
    facts = json.loads((out / "report.json").read_text())
    assert facts["kind"] == "runs"
    assert len(facts["pictures"]) == 5
    # A second time, over the first; these are no experiments of the thesis.
    assert main(["report", str(folder), "--out", str(out), "--strict"]) == 2
    assert json.loads((out / "report.json").read_text()) == facts


@pytest.mark.usefixtures("spark")
def test_a_lab_whose_metrics_are_not_complete_is_measured(tmp_path: Path, capsys: Capture):
    lab = tmp_path / "lab"
    for seed in ("1", "2"):
        words = ["simulate", "--nodes", "3", "--messages", "5", "--seed", seed]
        out = lab / "runs" / f"run{seed}"
        assert main([*words, "--experiment", "exp2", "--out", str(out)]) == 0
    variants = [{"name": "tagged", "engine": "tagged", "role": "flagship"}]
    (lab / "lab.json").write_text(json.dumps({"v": 1, "variants": variants, "runs": 2}))
    assert main(["report", str(lab), "--out", str(lab / "report")]) == 0
    assert "report: " in capsys.readouterr().out
    facts = json.loads((lab / "report" / "report.json").read_text())
    assert "32a" in facts["pictures"]
    # The tables beside the runs are no traces.
    assert main(["check", "--local", str(lab)]) == 0
    assert "2 runs" in capsys.readouterr().out
