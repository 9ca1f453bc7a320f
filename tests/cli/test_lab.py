"""The command joins runs, check and report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from thence.cli import check
from thence.cli.main import main
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import record_to_json

FILE = '[variants.v]\nengine = "vector"\n[experiments.e]\nvariants = ["v"]\nsizes = [3]\n'


def test_a_violation_fails_the_lab_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def here(paths: Any, *_: Any) -> Any:
        return check_paths(paths, keep_going=True), None

    monkeypatch.setattr(check, "check_spark", here)
    file, out = tmp_path / "mine.toml", tmp_path / "lab"
    file.write_text(FILE)
    words = ["lab", "run", str(file), "--out", str(out)]
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
