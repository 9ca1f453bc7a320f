"""``thence demo``: a real group of processes with one slow link, its traces, the check on Spark and
a report with pictures."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from thence.cli import check
from thence.cli.progress import progress_bar
from thence.cli.report import measure_to
from thence.cli.simulate import prepare
from thence.client.station import run_info
from thence.engine.registry import ENGINES
from thence.errors import UnusableInputError
from thence.lab.orders import NODES_MAX, GroupOrders, NodeOrders
from thence.lab.processes import run_group
from thence.report.build import METRICS_FOLDER, build_runs, check_folder, remove
from thence.report.data import SUMMARY_FILE
from thence.report.run_figures import METRICS
from thence.report.runs_page import Checked
from thence.sim.names import node_names
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import RunInfo
from thence.trace.tally import NodeTally, percentile, tally
from thence.trace.verdict import Report
from thence.trace.writer import mark_closed, write_info

FOLDER: Final = Path("thence-demo")
GROUP: Final = "demo"
REPORT: Final = "report"
SLOW_MS: Final = 50.0
INTERVAL_MS: Final = 2.0
SAMPLE_MS: Final = 100.0


def command(
    *,
    nodes: int = 5,
    messages: int = 2000,
    engine: str = "tagged",
    seed: int = 1,
    out: Path = FOLDER,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Run a group of processes with a slow link, check their logs, draw what happened.

    Parameters
    ----------
    nodes
        How many nodes, at least 2; each is a process of its own.
    messages
        How many messages each node sends.
    engine
        One of `thence engines`.
    seed
        Of the moments at which nodes send. Real networks do not repeat themselves.
    out
        Folder for trace and report. The default one is replaced, any other must be empty.
    overwrite
        Replace the demonstration that is in the folder.
    """
    plan = Plan(nodes=nodes, messages=messages, engine=engine, seed=seed)
    plan.check()
    clear(out, overwrite or out == FOLDER)
    trace = out / GROUP
    info = plan.info()
    trace.mkdir(parents=True, exist_ok=True)
    write_info(trace, info)
    start = time.monotonic()
    with progress_bar() as progress:
        run_group(plan.orders(), out, progress)
    seconds = time.monotonic() - start
    write_info(trace, msgspec.structs.replace(info, complete=True))
    mark_closed(trace)
    show(plan, tally(read_records([trace])), seconds)
    verdict, where = _check(trace)
    told = check.text(verdict)
    print(f"check {where}: {told}", end="")
    print(f"trace: {out}  (thence check {out} checks it again)")
    first = told.splitlines()[0].removeprefix("ok: ")
    print(_report(plan, out, Checked(ok=verdict.ok, text=first, where=where)))
    return 0 if verdict.ok else 1


def _check(trace: Path) -> tuple[Report, str]:
    """The verdict on the trace, and where it was made: on Spark if that is installed."""
    with progress_bar() as progress:
        if find_spec("pyspark") is None:
            return check_paths([trace], progress=progress), "in this process"
        return check.check_spark([str(trace)], None, None, None, progress)[0], "on Spark"


def _report(plan: Plan, out: Path, checked: Checked) -> str:
    """Measure the trace in the session of the check and draw it; where the page is, in words."""
    lacking = [name for name in ("pyspark", "matplotlib", "jinja2") if find_spec(name) is None]
    if lacking:
        return f"report: none, it needs {' and '.join(lacking)}: pip install 'thence[all]'"
    metrics = out / METRICS_FOLDER
    with progress_bar() as progress:
        measure_to([str(out / GROUP)], metrics, None, progress, METRICS)
        about = f"The {plan.nodes} nodes were processes on one machine; {slowness(plan)}."
        built = build_runs(metrics, out / REPORT, checked=checked, about=about, progress=progress)
    found = built.summary[1] if plan.messages else "nothing was sent"
    return f"found: {found}\nreport: {built.page}"


def clear(out: Path, overwrite: bool) -> None:
    """Make sure that the folder can take a demonstration; only what one wrote is removed."""
    if (out / "run.json").exists():  # of a simulated one, from before there were real ones
        prepare(out, overwrite)
    old = {path.name for path in out.iterdir()} if out.is_dir() else set()
    if not overwrite or not old <= {GROUP, METRICS_FOLDER, REPORT}:
        prepare(out, False)
        return
    metrics = out / METRICS_FOLDER
    if metrics.exists() and not (metrics / SUMMARY_FILE).is_file():
        raise UnusableInputError(f"{metrics} holds no metrics: choose another folder")
    check_folder(out / REPORT)
    prepare(out / GROUP, True)
    if REPORT in old:
        remove(out / REPORT)  # should this one fail, no page of another stays beside its trace


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A group in which the first and the last node are far from each other."""

    nodes: int
    messages: int
    engine: str
    seed: int

    def check(self) -> None:
        """UnusableInputError says what cannot be."""
        if not 2 <= self.nodes <= NODES_MAX:
            raise UnusableInputError(f"nodes {self.nodes}: a group to show has 2 to {NODES_MAX}")
        if self.messages < 0:
            raise UnusableInputError(f"messages {self.messages}: expected 0 or more")
        if self.engine not in ENGINES:
            raise UnusableInputError(f"no engine {self.engine!r}; there are {', '.join(ENGINES)}")

    @property
    def names(self) -> list[str]:
        return node_names(self.nodes)

    @property
    def ends(self) -> tuple[str, str]:
        """The two nodes of the slow link."""
        return self.names[0], self.names[-1]

    def info(self) -> RunInfo:
        """Of the trace."""
        words = f"--nodes {self.nodes} --messages {self.messages} --engine {self.engine}"
        scenario = {"simulated": False, "command": f"thence demo {words} --seed {self.seed}"}
        info = run_info(GROUP, self.names, self.engine)
        return msgspec.structs.replace(info, scenario=scenario)

    def orders(self) -> GroupOrders:
        """What the processes are told."""
        far = dict(zip(self.ends, reversed(self.ends), strict=True))
        return GroupOrders(
            group=GROUP,
            nodes=tuple(
                NodeOrders(
                    name=name,
                    send=self.messages,
                    delay_to={far[name]: SLOW_MS} if name in far else {},
                )
                for name in self.names
            ),
            engine=self.engine,
            interval_ms=INTERVAL_MS,
            seed=self.seed,
            sample_ms=SAMPLE_MS,
        )


# ---- for people ---------------------------------------------------------------------------------

COLUMNS: Final = (
    "node", "sent", "delivered", "held back", "longest ms", "waiting for", "stable",
    "lag ms p50", "p99", "words max", "at end",
)  # fmt: skip


def slowness(plan: Plan) -> str:
    """What is slow on purpose."""
    first, last = plan.ends
    return f"between {first} and {last} everything is held back for {SLOW_MS:g} ms"


def show(plan: Plan, tallies: dict[str, NodeTally], seconds: float) -> None:
    """What happened."""
    print(
        f"{plan.nodes} processes, {plan.messages:,} messages each, engine {plan.engine}, seed "
        f"{plan.seed}: {seconds:.1f} s"
    )
    print(f"they talk over tcp on this machine; {slowness(plan)}")
    print(f"\n{table(tallies)}")
    sent = sum(node.sent for node in tallies.values())
    if sent:
        mean = sum(node.metadata_bytes for node in tallies.values()) / sent
        print(f"metadata on the wire: {mean:.1f} bytes a message (dot and context)")


def table(tallies: dict[str, NodeTally]) -> str:
    """One row per node.

    held back: arrived before something that precedes it; waiting for: whose messages released most
    of these; lag: from taking a message to knowing it is stable; words: metadata held.
    """
    rows = [list(COLUMNS)]
    for name, node in tallies.items():
        told = bool(node.stable)
        rows.append(
            [
                name,
                f"{node.sent:,}",
                f"{node.delivered:,}",
                f"{node.held:,}",
                _ms(node.held_us_max),
                node.waits_for() or "-",
                f"{node.stable:,}",
                _ms(percentile(node.stable_us, 50)) if told else "-",
                _ms(percentile(node.stable_us, 99)) if told else "-",
                f"{node.words_max:,}",
                f"{node.words_end:,}",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + "\n"
        for row in rows
    )


def _ms(us: int) -> str:
    return f"{us / 1000:,.1f}"
