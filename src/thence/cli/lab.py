"""``thence lab``: experiments from scenario files: runs, the check, the metrics, the report."""

from __future__ import annotations

import os
import platform
import shlex
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from thence import __version__
from thence.cli import check
from thence.cli.lab_worker import WorkersFlags, say
from thence.cli.plural import counted
from thence.cli.progress import progress_bar
from thence.cli.report import report_lab, text
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.lab.plan import Mode, RunPlan
from thence.lab.processes import Progress
from thence.lab.runs import LAB_FILE, RUNS_FOLDER, Made, check_lab, jobs_of, make_runs, runs_left
from thence.lab.scenarios import ScenarioFile, load, plans_of
from thence.lab.scenarios import quick as smaller
from thence.lab.worker_runs import make_runs_on_workers
from thence.report.build import METRICS_FOLDER, check_folder
from thence.report.data import LAB_VERSION, SUMMARY_FILE
from thence.trace.verdict import Report
from thence.trace.writer import replace_file

FOLDER = Path("experiments")
REPORT_FOLDER = "report"
Flag = Parameter(negative=())


def command(
    action: Literal["run", "list"],
    /,
    *files: Path,
    out: Path | None = None,
    mode: Mode = "simulated",
    quick: Annotated[bool, Flag] = False,
    only: str = "",
    jobs: int | None = None,
    report: Annotated[bool, Parameter(negative="--no-report", name="--report")] = True,
    master: str | None = None,
    listen: str | None = None,
    workers: int | None = None,
    secret_file: Path | None = None,
    wait_s: float | None = None,
) -> int:
    """Make the runs of scenario files, check them on Spark, measure them and draw a report.

    `thence lab run FILE... --out OUT` does it all; interrupted, the same command goes on where it
    was. `thence lab list` shows what scenario files ask for. Exit code 1: a trace breaks a rule.

    Parameters
    ----------
    action
        run or list.
    files
        Scenario files. list without any shows those of the folder experiments.
    out
        With run: a new folder for runs, metrics and report, or that of an earlier call.
    mode
        simulated: in virtual time, with the engines' CPU time measured; processes: in real time,
        each node a process of this machine; workers: the same on the machines that run
        `thence lab worker`.
    quick
        Only groups of up to 16 nodes, one seed, once.
    only
        Only runs whose name has one of these words in it, with commas between them.
    jobs
        Runs at a time: 2 by default, 1 with processes; always 1 with workers.
    report
        Whether to measure the runs and draw the report, or to stop after the check.
    master
        Spark's master, such as local[4] or spark://host:7077; the default is this machine.
    listen
        With workers: HOST:PORT where they find this coordinator.
    workers
        With workers: how many there are. The first run begins when all are here.
    secret_file
        With workers: a file with the secret that they must know; needed unless HOST is this machine
        alone.
    wait_s
        With workers: seconds to wait for them, also when one is lost; 300 by default.
    """
    if action == "list":
        print(listing([load(file) for file in files or sorted(FOLDER.glob("*.toml"))]), end="")
        return 0
    if not files:
        raise UnusableInputError("no scenario file given: see thence lab list")
    if out is None:
        raise UnusableInputError("no folder for the lab given: --out OUT")
    scenarios = [smaller(load(file)) if quick else load(file) for file in files]
    plans = chosen(plans_of(scenarios), only)
    flags = WorkersFlags(listen=listen, workers=workers, secret_file=secret_file, wait_s=wait_s)
    make = maker(mode, jobs, flags)
    check_lab(plans, out, mode)
    if report:
        check_folder(out / REPORT_FOLDER)
    words = ["thence", "lab", "run", *map(str, files), "--out", str(out), "--mode", mode]
    words += ["--quick"] * quick + (["--only", only] if only else []) + flags.words()
    about = about_lab(scenarios, plans, shlex.join(words), mode)
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    write_lab(out, about)
    if runs_left(plans, out / RUNS_FOLDER, mode):
        outdate(out / METRICS_FOLDER)
    with progress_bar() as progress:
        done = make(plans, out, progress=progress)
    print(f"runs: {done.made} made, {done.kept} kept from before")
    with progress_bar() as progress:
        verdict = checked(out / RUNS_FOLDER, master, progress)
    found = {"ok": verdict.ok, "text": check.text(verdict).splitlines()[0], "where": "on Spark"}
    about |= {"events": verdict.events, "check": found}
    if not done.kept:  # else an earlier call took some of the time
        about["seconds"] = round(time.monotonic() - started, 1)
    write_lab(out, about)
    if code := check.tell(verdict, None, as_json=False, keep_going=False):
        return code
    if report:
        with progress_bar() as progress:
            built = report_lab(out, out / REPORT_FOLDER, master, progress)
        print(text(built), end="")
    return 0


def maker(mode: Mode, jobs: int | None, flags: WorkersFlags) -> Callable[..., Made]:
    """What makes the runs; UnusableInputError if flags are missing or of another mode."""
    if mode != "workers":
        if words := flags.words():
            raise UnusableInputError(f"{words[0]} goes with --mode workers")
        return partial(make_runs, mode=mode, jobs=jobs_of(mode, jobs))
    if jobs is not None:
        raise UnusableInputError("--jobs: on workers one run is made at a time")
    return partial(make_runs_on_workers, options=flags.options(), say=say)


def outdate(metrics: Path) -> None:
    """These tables are of other runs than there will be, even if of as many: they are measured
    anew, however the making of runs ends.  The file stays, for it says whose folder this is."""
    summary = metrics / SUMMARY_FILE
    if summary.is_file():
        replace(summary, b'{"complete": false}\n')


def checked(runs: Path, master: str | None, progress: Progress) -> Report:
    """The verdict on all of these runs; UnusableInputError if some cannot be read."""
    again = "remove the folder of such a run, and the same command makes it anew"
    try:
        verdict = check.check_spark([str(runs)], master, None, None, progress)[0]
    except UnusableInputError as error:
        raise UnusableInputError(f"{error}; {again}") from None
    if verdict.quarantined_count:
        check.tell_quarantine(verdict)
        raise UnusableInputError(f"not all logs could be read, so nothing was decided: {again}")
    return verdict


def chosen(plans: Sequence[RunPlan], only: str) -> list[RunPlan]:
    """Those whose name has one of the words in it; all when there are none."""
    words = [word.strip() for word in only.split(",") if word.strip()]
    found = [plan for plan in plans if not words or any(word in plan.name for word in words)]
    if not found:
        raise UnusableInputError(
            f"--only {only}: no run has such a name; they have names such as {plans[0].name}"
        )
    return found


def listing(scenarios: Sequence[ScenarioFile]) -> str:
    """What the files ask for."""
    if not scenarios:
        raise UnusableInputError(f"there is no {FOLDER}/*.toml here: name scenario files")
    lines: list[str] = []
    for scenario in scenarios:
        plans = plans_of([scenario])
        about = f"{counted(len(plans), 'run')}, about {sum(plan.events for plan in plans):,} events"
        lines.append(f"{scenario.folder / scenario.name}: {scenario.title} ({about})")
        for name, experiment in scenario.experiments.items():
            runs = sum(plan.experiment == name for plan in plans)
            lines.append(f"  {name:<12} {counted(runs, 'run'):>9}  {experiment.title}".rstrip())
    return "".join(f"{line}\n" for line in lines)


def about_lab(
    scenarios: Sequence[ScenarioFile], plans: Sequence[RunPlan], command: str, mode: str
) -> dict[str, Any]:
    """What lab.json says before anything ran."""
    variants = {plan.variant.name: plan.variant for plan in plans}
    return {
        "v": LAB_VERSION,
        "files": [
            {"name": each.name, "title": each.title, "text": each.text} for each in scenarios
        ],
        "variants": [
            {**msgspec.to_builtins(each), "about": ENGINES[each.engine].summary}
            for each in variants.values()
        ],
        "experiments": [
            {"name": name, "title": experiment.title, "file": scenario.name}
            for scenario in scenarios
            for name, experiment in scenario.experiments.items()
        ],
        "command": command,
        "machine": machine(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "runs": len(plans),
        "mode": mode,
    }


def machine() -> dict[str, Any]:
    """Where it ran, without names of hosts."""
    try:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except (OSError, ValueError):
        memory, lines = 0, []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "memory": f"{memory / 2**30:.0f} GiB" if memory else "unknown",
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "thence": __version__,
    }


def write_lab(out: Path, about: dict[str, Any]) -> None:
    """Write or replace lab.json in one step."""
    replace(out / LAB_FILE, msgspec.json.format(msgspec.json.encode(about), indent=2) + b"\n")


def replace(file: Path, data: bytes) -> None:
    """There is the old file or the new one, at any moment."""

    def write(path: Path) -> None:
        path.write_bytes(data)

    replace_file(file, write)
