"""The loop over runs, with real processes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from thence.errors import ThenceError, UnusableInputError
from thence.lab import runs
from thence.lab.plan import RunPlan, Variant
from thence.lab.runs import Made, make_runs
from thence.lab.simulated import run_simulated
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.work import read_cpu

AT_ONCE = Variant(name="at-once", engine="tagged", form="installed", stability_batch=1)
PLAN = RunPlan(experiment="here", variant=AT_ONCE, nodes=4, messages=20)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "cpu.arrow"}


def test_a_repeat_is_byte_identical(tmp_path: Path):
    for name in ("one", "two"):
        run_simulated(PLAN, tmp_path / name, None)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert check_paths([tmp_path / "one"]).ok


def test_cpu_times_add_up_with_the_trace(tmp_path: Path):
    run_simulated(PLAN, tmp_path / "run", None)
    calls = read_cpu(tmp_path / "run")
    assert calls is not None
    kinds = Counter((each.node, each.kind) for each in read_records([tmp_path / "run"]))
    for name in PLAN.names:
        assert calls[name].ready.sum() == kinds[name, "ready"] > 0
        assert calls[name].stable.sum() == kinds[name, "stable"] > 0
        assert calls[name].total.ns >= calls[name].ns.sum() > 0


def test_what_is_there_is_kept_and_what_is_not_whole_is_made_again(tmp_path: Path):
    plans = [PLAN, msgspec.structs.replace(PLAN, seed=2)]
    assert make_runs(plans, tmp_path / "lab") == Made(made=2, kept=0)
    (tmp_path / "lab" / "lab.json").write_text("{}")
    assert make_runs(plans, tmp_path / "lab") == Made(made=0, kept=2)
    (tmp_path / "lab" / "runs" / PLAN.name / "run.closed").unlink()
    assert make_runs(plans, tmp_path / "lab") == Made(made=1, kept=1)
    longer = [msgspec.structs.replace(plan, messages=21) for plan in plans]
    assert make_runs(longer, tmp_path / "lab") == Made(made=2, kept=0)
    with pytest.raises(UnusableInputError, match="not asked for now"):
        make_runs(plans[:1], tmp_path / "lab")


def test_a_run_that_fails_ends_the_lab_with_its_sentence(tmp_path: Path):
    wrong = msgspec.structs.replace(PLAN, variant=Variant(name="no", engine="rumour"))
    with pytest.raises(ThenceError, match="no engine 'rumour'"):
        make_runs([wrong], tmp_path / "lab")


def test_an_interrupt_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    going: list[runs._Going] = []
    start = runs._Going.__init__

    def started(self: runs._Going, *given: object) -> None:
        start(self, *given)  # type: ignore[arg-type]
        going.append(self)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs._Going, "__init__", started)
    long = [msgspec.structs.replace(PLAN, messages=100_000, seed=seed) for seed in (1, 2)]
    with pytest.raises(KeyboardInterrupt):
        make_runs(long, tmp_path / "lab", progress=interrupt)
    assert len(going) == 2
    assert all(each.process.poll() is not None for each in going)
