"""Goes through a list of plans: some at a time, the largest first, what is there already is kept.

OUT/lab.json says what was asked for, OUT/runs/NAME is the folder of a run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, get_args

import msgspec

from thence.errors import ThenceError, UnusableInputError
from thence.lab.modes import Errand, environ_of
from thence.lab.orders import check_size, orders_of
from thence.lab.plan import LocalMode, Mode, RunPlan, plan_of_scenario
from thence.lab.processes import END_S, Progress, ended_by_signals, uninterrupted
from thence.trace.record import info_from_json
from thence.trace.writer import CLOSED_FILE

LAB_FILE: Final = "lab.json"
RUNS_FOLDER: Final = "runs"
JOBS: Final[dict[str, int]] = {"simulated": 2, "processes": 1}
"""Runs at a time; groups of processes would take the processors from each other."""
JOBS_MAX: Final = 256
POLL_S: Final = 0.05
FORESEEN: Final = 0.02
"""The time left is told once this share of the work is done."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What going through the list came to."""

    made: int
    kept: int
    """Runs that were there already."""


def check_lab(plans: Sequence[RunPlan], out: Path, mode: Mode) -> None:
    """UnusableInputError if these runs cannot be made, or not in this folder."""
    if mode not in get_args(Mode):
        known = ", ".join(get_args(Mode))
        raise UnusableInputError(f"there is no mode {mode!r}; expected one of {known}")
    for plan in plans if mode != "simulated" else ():
        if mode == "processes":
            check_size(plan)
        orders_of(plan)
    if out.exists() and not out.is_dir():
        raise UnusableInputError(f"{out} is a file: name a folder for the lab")
    if out.is_dir() and any(out.iterdir()) and not (out / LAB_FILE).is_file():
        raise UnusableInputError(f"{out} is not empty and holds no lab: choose another folder")
    runs = out / RUNS_FOLDER
    others = {path.name for path in runs.iterdir()} if runs.is_dir() else set()
    if others := others - {plan.name for plan in plans}:
        raise UnusableInputError(
            f"{runs} holds runs that are not asked for now, such as {min(others)}: choose another "
            "folder, or ask for them too"
        )


def jobs_of(mode: LocalMode, jobs: int | None) -> int:
    """So many runs at a time; UnusableInputError if that cannot be."""
    if jobs is None:
        return JOBS[mode]
    if not 1 <= jobs <= JOBS_MAX:
        raise UnusableInputError(f"jobs {jobs}: expected 1 to {JOBS_MAX}")
    return jobs


def is_done(plan: RunPlan, folder: Path, mode: Mode) -> bool:
    """Whether this folder holds the whole run that the plan means."""
    try:
        info = info_from_json((folder / "run.json").read_bytes())
    except (OSError, ThenceError, ValueError):
        return False
    scenario = info.scenario or {}
    return (
        info.complete
        and plan_of_scenario(scenario) == plan.digest
        and scenario.get("mode") == mode
        and (folder / CLOSED_FILE).is_file()
    )


def runs_left(plans: Sequence[RunPlan], runs: Path, mode: Mode) -> list[RunPlan]:
    """Those that are not in this folder yet, to be taken from the end: the largest first."""
    runs.mkdir(parents=True, exist_ok=True)
    left = [plan for plan in plans if not is_done(plan, runs / plan.name, mode)]
    return sorted(left, key=lambda plan: (plan.events, plan.name))


def make_runs(
    plans: Sequence[RunPlan],
    out: Path,
    *,
    mode: LocalMode = "simulated",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> Made:
    """Make every run that is not there yet on this machine; ThenceError with the first that fails.

    However this ends, no process is left.
    """
    jobs = jobs_of(mode, jobs)
    check_lab(plans, out, mode)
    runs = out / RUNS_FOLDER
    left = runs_left(plans, runs, mode)
    kept, count = len(plans) - len(left), len(left)
    clock = TimeLeft(left)
    going: list[_Going] = []
    with ended_by_signals():
        try:
            while left or going:
                while left and len(going) < jobs:
                    plan = left.pop()
                    with uninterrupted():
                        going.append(_Going(plan, runs / plan.name, mode))
                if progress is not None:
                    done = len(plans) - len(left) - len(going)
                    progress(f"making runs{clock.text()}", done, len(plans))
                time.sleep(POLL_S)
                for each in [each for each in going if each.is_over()]:
                    going.remove(each)
                    clock.done(each.plan.events)
        finally:
            for each in going:
                each.process.terminate()
            for each in going:
                each.end()
    return Made(made=count, kept=kept)


class _Going:
    """The process of a run that goes on."""

    def __init__(self, plan: RunPlan, folder: Path, mode: LocalMode) -> None:
        self.plan = plan
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is over
        # A session of its own: Ctrl-C reaches whoever started it alone, who then ends all.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "thence.lab.modes"],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said,
            env=environ_of(plan), start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        errand = Errand(mode=mode, plan=plan, folder=str(folder))
        self.process.stdin.write(msgspec.json.encode(errand) + b"\n")
        self.process.stdin.flush()  # and stays open: it ends with this process, and so does the run

    def is_over(self) -> bool:
        """Whether it has ended, and well; ThenceError if not well."""
        code = self.process.poll()
        if code is None:
            return False
        self._close_stdin()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        self._said.close()
        if code:
            last = said[-1] if said else "it said nothing"
            raise ThenceError(f"run {self.plan.name} failed with exit code {code}: {last}")
        return True

    def end(self) -> None:
        """It was told to end; should it not, it is killed."""
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._close_stdin()
        self._said.close()

    def _close_stdin(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.close()


class TimeLeft:
    """From the records of the runs that are done; the largest come first, so it is no promise."""

    def __init__(self, plans: Sequence[RunPlan]) -> None:
        self._events = max(sum(plan.events for plan in plans), 1)
        self._done = 0
        self._start = time.monotonic()

    def done(self, events: int) -> None:
        """So many more."""
        self._done += events

    def text(self) -> str:
        """Empty while nothing can be said."""
        share = self._done / self._events
        if share < FORESEEN:
            return ""
        seconds = (time.monotonic() - self._start) * (1 - share) / share
        about = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
        return f", about {about} left"
