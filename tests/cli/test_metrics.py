"""``thence metrics``: the list, the tables, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from thence.cli.main import main
from thence.pipeline.metrics import METRICS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def run(tmp_path: Path, capsys: Capture) -> Path:
    """A clean run."""
    folder = tmp_path / "run"
    words = ["simulate", "--nodes", "3", "--messages", "5", "--out", str(folder)]
    assert main(words) == 0
    capsys.readouterr()
    return folder


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("thence.pipeline.session.spark_session", never)


@pytest.mark.usefixtures("no_spark")
def test_without_a_path_the_metrics_are_listed_one_line_each(capsys: Capture):
    assert main(["metrics"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "unit", "description"]
    assert [line.split()[0] for line in lines] == list(METRICS)
    for line, metric in zip(lines, METRICS.values(), strict=True):
        assert metric.unit in line
        assert line.endswith(metric.description)


@pytest.mark.usefixtures("no_spark")
def test_the_list_is_there_as_json(capsys: Capture):
    assert main(["metrics", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == list(METRICS)
    assert listed[0]["series"] == {"dots": "dots", "entries": "entries", "bytes": "bytes"}


@pytest.mark.usefixtures("no_spark")
def test_mistakes_are_one_sentence_before_spark_starts(run: Path, tmp_path: Path, capsys: Capture):
    out = str(tmp_path / "out")
    for words, sentence in (
        ([str(run)], "no folder for the tables given: --out DIR"),
        (["--out", out], "no trace given: name a run folder, or a trace file"),
        ([str(run), "--out", out, "--metric", "speed"], "no metric 'speed'; there are metadata"),
        ([str(tmp_path / "no"), "--out", out], "does not exist: name a run folder"),
        ([str(run), "--out", str(run)], "would be read as a trace the next time"),
    ):
        assert main(["metrics", *words]) == 2
        printed = capsys.readouterr()
        assert printed.out == ""
        assert printed.err.startswith("thence: ")
        assert sentence in printed.err
        assert printed.err.count("\n") == 1
    assert not Path(out).exists()


@pytest.mark.usefixtures("spark")
def test_a_run_is_measured_and_shown(run: Path, tmp_path: Path, capsys: Capture):
    out = tmp_path / "out"
    words = ["metrics", str(run), "--out", str(out), "--metric", "throughput"]
    assert main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["out"], shown["runs"], shown["quarantined"]) == (str(out), 1, 0)
    rows = shown["metrics"]["throughput"]
    assert {row["level"] for row in rows} == {"engine", "size", "interval", "run"}
    (sent,) = (row for row in rows if (row["level"], row["series"]) == ("run", "sent"))
    assert (sent["count"], sent["group_size"], sent["engine"]) == (1, 3, "tagged")
    assert sent["p50"] == sent["max"] > 0
    # Again, into the same folder, for people; with something to set aside.
    (run / "zz.jsonl").write_text("not a record\n")
    assert main(words) == 2
    assert "zz.jsonl:1: " in capsys.readouterr().err
    assert main([*words, "--keep-going"]) == 0
    text, error = capsys.readouterr()
    assert text.startswith("1 run, ")
    assert "\nthroughput: messages sent and delivered per second of the run's clock\n" in text
    assert "  sent_by_node " in text
    assert "zz.jsonl:1: " in error
