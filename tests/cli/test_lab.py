"""The command joins runs, check and report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.report.made_tables import draw_nothing, make_tables, settings
from thence.cli import check, report
from thence.cli.main import main
from thence.pipeline.measure import usable_places
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import record_to_json
from thence.trace.segments import Quarantine

FILE = '[variants.v]\nengine = "vector"\n[experiments.e]\nvariants = ["v"]\nsizes = [3]\n'


@pytest.fixture(autouse=True)
def checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process instead of on Spark, with the same verdict."""

    def here(paths: Any, *_: Any) -> Any:
        return check_paths(paths, keep_going=True), None

    monkeypatch.setattr(check, "check_spark", here)


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    file = tmp_path / "mine.toml"
    file.write_text(FILE)
    return ["lab", "run", str(file), "--out", str(tmp_path / "lab")]


def test_a_violation_fails_the_lab_before_anything_is_measured(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "lab"
    assert main([*words, "--no-report"]) == 0
    (run,) = (out / "runs").iterdir()
    log = run / "a-000000.parquet"
    lines = [record_to_json(each) for each in read_records([run]) if each.node == "a"]
    log.unlink()
    at = next(i for i, line in enumerate(lines) if b'"deliver"' in line)
    (run / "a-000000.jsonl").write_bytes(b"\n".join(lines[:at] + lines[at + 1 :]) + b"\n")
    assert main(words) == 1
    assert "NOT ok" in capsys.readouterr().out
    assert not (out / "metrics").exists()
    assert not (out / "report").exists()


def test_a_log_that_cannot_be_read_decides_nothing_and_its_run_can_be_made_anew(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out = tmp_path / "lab"
    assert main([*words, "--no-report"]) == 0
    assert "seconds" in json.loads((out / "lab.json").read_bytes())
    (run,) = (out / "runs").iterdir()
    (run / "a-000000.parquet").write_bytes(b"no trace")
    assert main(words) == 2
    assert "check" not in json.loads((out / "lab.json").read_bytes())
    said = capsys.readouterr().err
    assert "a-000000.parquet: not a readable Parquet segment" in said
    assert said.endswith("remove the folder of such a run, and the same command makes it anew\n")
    shutil.rmtree(run)
    assert main([*words, "--no-report"]) == 0


def test_a_lab_with_tables_takes_a_run_that_is_made_anew(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    draw_nothing(monkeypatch)
    measured: list[str] = []

    def measure(paths: list[str], metrics: Path, *_: Any) -> None:
        usable_places(paths, str(metrics), Quarantine())  # the folder is one to be written to
        measured.append(str(metrics))
        make_tables(metrics, list(settings([4]))[:1])

    monkeypatch.setattr(report, "measure_to", measure)
    out = tmp_path / "lab"
    assert main(words) == 0
    assert main(words) == 0
    assert len(measured) == 1, "tables of the same runs are kept"
    shutil.rmtree(next((out / "runs").iterdir()))
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr("thence.cli.lab.checked", interrupt)
        assert main(words) == 130
    assert main(words) == 0
    assert len(measured) == 2, "although the last call made no run"


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_flags_that_cannot_be_leave_a_lab_as_it_was(words: list[str], tmp_path: Path):
    assert main([*words, "--jobs", "0"]) == 2
    assert not (tmp_path / "lab").exists()


def test_the_time_of_a_lab_that_went_on_is_not_told(words: list[str], tmp_path: Path):
    assert main([*words, "--no-report"]) == 0
    assert main([*words, "--no-report"]) == 0
    assert "seconds" not in json.loads((tmp_path / "lab" / "lab.json").read_bytes())


def test_words_that_no_run_has_are_answered_with_the_name_of_one(
    words: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([*words, "--only", "n99"]) == 2
    assert "names such as e-v-n3-i10-stable-s1" in capsys.readouterr().err
