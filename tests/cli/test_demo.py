"""``thence demo``."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.cli.main import main
from thence.engine.registry import ENGINES

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("spark")


@pytest.mark.parametrize("engine", ENGINES)
def test_it_runs_checks_and_shows_every_engine(engine: str, tmp_path: Path, capsys: Capture):
    out = tmp_path / "demo"
    words = ["demo", "--nodes", "3", "--messages", "30", "--engine", engine, "--out", str(out)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "between a and c they are 20 times as long" in text
    assert "check on Spark: ok: 1 run" in text
    assert str(out) in text
    assert "again: thence simulate --engine" in text
    rows = [line.split() for line in text.splitlines()]
    table = {row[0]: row for row in rows if row and row[0] in ("a", "b", "c")}
    assert list(table) == ["a", "b", "c"]
    assert [row[1] for row in table.values()] == ["30"] * 3
    assert [row[2] for row in table.values()] == ["60"] * 3
    assert table["a"][5] == "c"
    assert main(["check", str(out)]) == 0


def test_the_usual_folder_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    monkeypatch.chdir(tmp_path)
    for seed in ("1", "2"):
        assert main(["demo", "--nodes", "2", "--messages", "5", "--seed", seed]) == 0
    assert main(["check", "thence-demo"]) == 0
    assert '"tagged-2x5-2"' in Path("thence-demo/run.json").read_text()
    capsys.readouterr()


def test_any_other_folder_must_be_empty(tmp_path: Path, capsys: Capture):
    (tmp_path / "mine").write_text("")
    assert main(["demo", "--nodes", "2", "--messages", "5", "--out", str(tmp_path)]) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--nodes", "1"], ["--engine", "nope"], ["--messages", "-1"]])
def test_bad_values_are_one_clear_sentence(words: list[str], tmp_path: Path, capsys: Capture):
    assert main(["demo", *words, "--out", str(tmp_path / "demo")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "demo").exists()
