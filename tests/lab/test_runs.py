"""The loop over runs, with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


KILLED = """
import sys
from pathlib import Path
import msgspec
from thence.lab.plan import RunPlan
from thence.lab.runs import make_runs
if __name__ == "__main__":
    plans = msgspec.json.decode(sys.argv[1], type=list[RunPlan])
    print(make_runs(plans, Path(sys.argv[2]), jobs=1))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes in /proc")
def test_killed_in_the_middle_the_same_call_goes_on(tmp_path: Path):
    """What was whole is not touched, and all is as if nothing had happened."""
    plans = [msgspec.structs.replace(PLAN, seed=seed, messages=1000) for seed in range(1, 5)]
    words = [sys.executable, "-c", KILLED, msgspec.json.encode(plans).decode()]
    out = tmp_path / "lab"
    first = subprocess.Popen([*words, str(out)], start_new_session=True)
    deadline = time.monotonic() + 60
    while len(list(out.glob("runs/*/run.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    (going,) = Path(f"/proc/{first.pid}/task/{first.pid}/children").read_text().split()
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    while not has_ended(going):  # or two would write to one folder
        assert time.monotonic() < deadline
        time.sleep(0.01)
    (out / "lab.json").write_text("{}")
    whole = {path.parent: path.stat().st_mtime_ns for path in out.glob("runs/*/run.closed")}
    assert len(whole) == 2  # that run ended unfinished
    made = make_runs(plans, out)
    assert made == Made(made=len(plans) - len(whole), kept=len(whole))
    for folder, written in whole.items():
        assert (folder / "run.closed").stat().st_mtime_ns == written
    make_runs(plans, tmp_path / "again")
    for plan in plans:
        assert contents(out / "runs" / plan.name) == contents(tmp_path / "again/runs" / plan.name)


def has_ended(pid: str) -> bool:
    try:
        return ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
