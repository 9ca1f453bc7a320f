"""The tool that runs nodes whose members change for long (soak_elastic.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sim import soak_elastic
from tests.sim.elastic_classes import options_of
from thence.sim.elastic import ElasticWorld, run_elastic
from thence.sim.elastic_options import ElasticOptions
from thence.sim.node_view import Broken

CLASSES = ("--jobs", "1", "--classes", "pair", "leaves")


def rows(printed: str) -> dict[str, list[str]]:
    found = [line.split() for line in printed.splitlines()]
    return {row[0]: row[1:] for row in found if row and row[0] in ("pair", "leaves", "all")}


def test_what_was_stopped_goes_on_and_finds_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = ("--digest", *CLASSES)
    assert soak_elastic.main(["--seeds", "0:3", *words]) == 0
    whole = rows(capsys.readouterr().out)
    assert [whole[name][0] for name in ("pair", "leaves", "all")] == ["3", "3", "6"]
    state = ("--state", str(tmp_path / "state"))
    assert soak_elastic.main(["--seeds", "0:2", *words, *state]) == 0
    assert rows(capsys.readouterr().out)["pair"][0] == "2"
    assert soak_elastic.main(["--seeds", "0:3", *words, *state]) == 0
    assert rows(capsys.readouterr().out) == whole


def test_it_ends_when_the_time_is_over(capsys: pytest.CaptureFixture[str]):
    assert soak_elastic.main(["--seeds", "0:2000", "--seconds", "0.5", *CLASSES]) == 0
    found = rows(capsys.readouterr().out)
    assert found["pair"][0] == found["leaves"][0]


def test_a_state_of_other_runs_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    state = ("--state", str(tmp_path / "state"))
    assert soak_elastic.main(["--seeds", "0:1", *CLASSES, *state]) == 0
    with pytest.raises(SystemExit, match="other seeds"):
        soak_elastic.main(["--seeds", "1:2", *CLASSES, *state])


def test_runs_that_fail_are_listed_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def fails(options: ElasticOptions) -> ElasticWorld:
        if options == options_of("leaves", 1):
            raise Broken("this\nreplay: that")
        return run_elastic(options)

    monkeypatch.setattr(soak_elastic, "run_elastic", fails)
    assert soak_elastic.main(["--seeds", "0:3", *CLASSES]) == 1
    printed, complaints = capfd.readouterr()
    assert "in fails" in complaints, "where it went wrong"
    assert printed.splitlines()[-1] == "FAILED 'leaves', 1: this"
    assert [rows(printed)[name][:2] for name in ("pair", "leaves")] == [["3", "0"], ["3", "1"]]
