"""``thence demo``: real processes, so nothing here depends on how fast they are."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thence.cli import demo
from thence.cli.main import main
from thence.engine.registry import ENGINES
from thence.lab import processes
from thence.trace.tally import NodeTally

Capture = pytest.CaptureFixture[str]
pytestmark = pytest.mark.usefixtures("spark")
# Of the engines that promise the same the first runs every time, the others in soaks.
FIRST: dict[tuple[object, ...], str] = {}
for spec in ENGINES.values():
    FIRST.setdefault((spec.guarantee, spec.tags, spec.phantoms), spec.name)
EACH_ENGINE = [
    pytest.param(name, marks=() if name in FIRST.values() else pytest.mark.soak) for name in ENGINES
]


def running(marker: str) -> list[str]:
    """The command lines of processes that name this; of systems with /proc."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(marker.encode() in word for word in words):
            found.append(b" ".join(words).decode())
    return found


@pytest.mark.parametrize("engine", EACH_ENGINE)
def test_it_runs_checks_and_shows_every_engine(engine: str, tmp_path: Path, capsys: Capture):
    out = tmp_path / "demo"
    words = ["demo", "--nodes", "3", "--messages", "30", "--engine", engine, "--out", str(out)]
    assert main(words) == 0
    text = capsys.readouterr().out
    assert "between a and c everything is held back for 50 ms" in text
    assert "check on Spark: ok: 1 run" in text
    assert str(out) in text
    rows = [line.split() for line in text.splitlines()]
    table = {row[0]: row for row in rows if row and row[0] in ("a", "b", "c")}
    assert list(table) == ["a", "b", "c"]
    assert [row[1] for row in table.values()] == ["30"] * 3
    assert [row[2] for row in table.values()] == ["90" if ENGINES[engine].own else "60"] * 3
    if ENGINES[engine].phantoms:
        assert [row[6] for row in table.values()] == ["90"] * 3
    assert main(["check", "--local", str(out)]) == 0
    assert (out / "demo" / "run.closed").exists()
    page = out / "report" / "index.html"
    assert text.splitlines()[-1] == f"report: {page}"
    assert "The check of causality on Spark: 1 run, " in page.read_text(encoding="utf-8")
    assert "found: Half of the deliveries came within " in text
    assert not running(str(out))


def test_the_usual_folder_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    monkeypatch.chdir(tmp_path)
    for seed in ("1", "2"):
        assert main(["demo", "--nodes", "2", "--messages", "5", "--seed", seed]) == 0
    assert main(["check", "thence-demo"]) == 0
    assert "--messages 5 --engine tagged --seed 2" in Path("thence-demo/demo/run.json").read_text()
    page = Path("thence-demo/report/index.html").read_text(encoding="utf-8")
    assert "--messages 5 --engine tagged --seed 2" in page
    capsys.readouterr()


@pytest.mark.parametrize("name", ["metrics", "report"])
def test_a_folder_of_somebody_else_beside_the_trace_is_refused(
    name: str, tmp_path: Path, capsys: Capture
):
    mine = tmp_path / name / "mine"
    mine.parent.mkdir()
    mine.write_text("")
    flags = ["--nodes", "2", "--messages", "5", "--out", str(tmp_path), "--overwrite"]
    assert main(["demo", *flags]) == 2
    assert "choose another folder" in capsys.readouterr().err
    assert mine.exists()
    assert not (tmp_path / "demo").exists()


def test_an_old_report_does_not_stay_beside_a_new_trace(tmp_path: Path):
    report = tmp_path / "report"
    report.mkdir()
    (report / "report.json").write_text('{"pictures": []}')
    (report / "index.html").write_text("old")
    (report / "mine").write_text("")
    demo.clear(tmp_path, True)
    assert not (report / "index.html").exists()
    assert (report / "mine").exists()


@pytest.mark.parametrize("words", [[], ["--overwrite"]])
def test_any_other_folder_must_be_empty(words: list[str], tmp_path: Path, capsys: Capture):
    (tmp_path / "mine").write_text("")
    flags = ["--nodes", "2", "--messages", "5", "--out", str(tmp_path)]
    assert main(["demo", *flags, *words]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize("words", [["--nodes", "1"], ["--engine", "nope"], ["--messages", "-1"]])
def test_bad_values_are_one_clear_sentence(words: list[str], tmp_path: Path, capsys: Capture):
    assert main(["demo", *words, "--out", str(tmp_path / "demo")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_process_behind(number: int, tmp_path: Path):
    out = tmp_path / "demo"
    words = ["demo", "--nodes", "3", "--messages", "100000", "--out", str(out)]
    demonstration = subprocess.Popen(
        [sys.executable, "-m", "thence", *words], stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 60
        while len(running(f"{out}")) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert len(running(f"{out}")) == 4
        demonstration.send_signal(number)
        _, said = demonstration.communicate(timeout=60)
    finally:
        demonstration.kill()
        demonstration.wait()
    assert demonstration.returncode == 130
    assert said == b"thence: interrupted\n"
    assert not running(f"{out}")


def test_a_node_that_ends_early_ends_the_demonstration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
):
    monkeypatch.setattr(processes, "free_ports", lambda count: [1] * count)
    out = tmp_path / "demo"
    assert main(["demo", "--nodes", "2", "--messages", "5", "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert "ended with exit code 2; it said: thence: " in said
    assert not running(str(out))


def test_a_node_that_told_nothing_has_no_lag_and_waits_for_nobody():
    assert demo.table({"a": NodeTally()}).splitlines()[1].split() == [
        "a", "0", "0", "0", "0.0", "-", "0", "-", "-", "0", "0",
    ]  # fmt: skip
