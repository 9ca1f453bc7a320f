"""``thence demo``: a real group of processes with one slow link, its traces, the check on Spark."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from thence.cli import check, status
from thence.cli.progress import progress_bar
from thence.cli.simulate import prepare
from thence.client.station import run_info
from thence.config import SETTINGS
from thence.config.settings import CONFIG_VARIABLE
from thence.engine.registry import ENGINES
from thence.errors import ThenceError, UnreachableError, UnusableInputError
from thence.sim.names import node_names
from thence.telemetry.snapshot import GroupNumbers
from thence.trace.check import check_paths
from thence.trace.reader import read_records
from thence.trace.record import RunInfo
from thence.trace.tally import NodeTally, percentile, tally
from thence.trace.verdict import Report
from thence.trace.writer import mark_closed, write_info

FOLDER: Final = Path("thence-demo")
GROUP: Final = "demo"
SLOW_MS: Final = 50.0
INTERVAL_MS: Final = 2.0
SAMPLE_S: Final = 0.1
NODES_MAX: Final = 64
POLL_S: Final = 0.1
ANSWER_S: Final = 5.0
STALL_S: Final = 60.0
"""A group that makes no progress for so long has failed."""
QUIET_S: Final = 1.0
"""Engines without phantoms: no more becomes stable when nothing did for so long."""
END_S: Final = 20.0
"""Told to stop, a node is given so long; then it is killed."""
ORPHAN_S: Final = 3600
"""A node stops by itself after this, should nobody be left to stop it."""

Progress = Callable[[str, int, int], None]


def command(
    *,
    nodes: int = 5,
    messages: int = 2000,
    engine: str = "tagged",
    seed: int = 1,
    out: Path = FOLDER,
    overwrite: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Run a group of processes with a slow link, check their logs, show what happened.

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
        Folder for the trace. The default one is replaced, any other must be empty.
    overwrite
        Replace the trace that is in the folder.
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
        run(plan, out, progress)
    seconds = time.monotonic() - start
    write_info(trace, msgspec.structs.replace(info, complete=True))
    mark_closed(trace)
    show(plan, tally(read_records([trace])), seconds)
    report, where = _check(trace)
    print(f"check {where}: {check.text(report)}", end="")
    print(f"trace: {out}  (thence check {out} checks it again)")
    return 0 if report.ok else 1


def _check(trace: Path) -> tuple[Report, str]:
    """The verdict on the trace, and where it was made: on Spark if that is installed."""
    with progress_bar() as progress:
        if find_spec("pyspark") is None:
            return check_paths([trace], progress=progress), "in this process"
        return check.check_spark([str(trace)], None, None, None, progress)[0], "on Spark"


def clear(out: Path, overwrite: bool) -> None:
    """Make sure that the folder can take a trace; only traces of a demonstration are removed."""
    if (out / "run.json").exists():  # of a simulated one, from before there were real ones
        prepare(out, overwrite)
    if out.is_dir() and {path.name for path in out.iterdir()} <= {GROUP}:
        prepare(out / GROUP, overwrite)
    else:
        prepare(out, False)


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

    def flags(self, name: str, ports: dict[str, int], status_port: int, out: Path) -> list[str]:
        """Of ``thence node`` for one of the nodes."""
        words = ["--name", name, "--group", GROUP, "--engine", self.engine, "--trace", f"{out}"]
        words += ["--listen", f"tcp://127.0.0.1:{ports[name]}"]
        words += [
            "--status",
            f"127.0.0.1:{status_port}",
            "--log-level",
            "warning",
            "--trace-sample-s",
            f"{SAMPLE_S:g}",
        ]
        for peer, port in ports.items():
            if peer != name:
                words += ["--peer", f"{peer}=tcp://127.0.0.1:{port}"]
        if name in self.ends:
            (far,) = [end for end in self.ends if end != name]
            words += ["--delay-to", f"{far}={SLOW_MS:g}"]
        words += ["--send", f"{self.messages}", "--interval-ms", f"{INTERVAL_MS:g}"]
        return [*words, "--seed", f"{self.seed}", "--stop-after", f"{ORPHAN_S}"]

    def is_done(self, found: GroupNumbers) -> bool:
        """Whether a node has sent and delivered everything."""
        others = self.nodes - 1
        return found.sent >= self.messages and found.delivered >= self.messages * others

    @property
    def stable(self) -> int:
        """How many messages become stable at each node; 0 if that cannot be said."""
        return self.messages * self.nodes if ENGINES[self.engine].phantoms else 0


# ---- processes ----------------------------------------------------------------------------------


def run(plan: Plan, out: Path, progress: Progress | None) -> None:
    """Start the nodes, wait until everything is delivered and stable, stop them."""
    names = plan.names
    free = free_ports(2 * len(names))
    ports, pages = dict(zip(names, free, strict=False)), free[len(names) :]
    with tempfile.TemporaryDirectory(prefix="thence-demo-") as folder, ended_by_signals():
        children: dict[str, Child] = {}
        try:
            for name, page in zip(names, pages, strict=True):
                flags = plan.flags(name, ports, page, out)
                children[name] = Child(name, flags, page, Path(folder) / f"{len(children)}.log")
            watch(plan, list(children.values()), progress)
            for child in children.values():
                child.process.terminate()
            for child in children.values():
                child.expect_end()
        finally:
            end_all(list(children.values()))


class Child:
    """One node, as a process of its own; what it says on stderr goes to a file."""

    def __init__(self, name: str, flags: list[str], page: int, log: Path) -> None:
        self.name = name
        self._page = page
        self._log = log
        with log.open("wb") as file:
            # A session of its own: Ctrl-C reaches the demonstration alone, which then ends all.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "thence", "node", *flags],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=_environ(),
                start_new_session=True,
            )  # fmt: skip

    def numbers(self) -> GroupNumbers | None:
        """What it says of the group; None before it listens.  ThenceError if it has ended."""
        if self.process.poll() is not None:
            raise self._error(f"ended with exit code {self.process.returncode}")
        try:
            body = status.fetch("127.0.0.1", self._page, ANSWER_S)
        except UnreachableError:
            return None
        groups = status.decode(self.name, body).snapshot.groups
        return groups[0] if groups else None

    def expect_end(self) -> None:
        """It was told to stop, and does."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not stop within {END_S:g} s") from None
        if code:
            raise self._error(f"ended with exit code {code}")

    def _error(self, what: str) -> ThenceError:
        said = self._log.read_text(errors="replace").strip().splitlines()
        last = f"; it said: {said[-1]}" if said else ""
        return ThenceError(f"node {self.name} {what}{last}")


def watch(plan: Plan, children: Sequence[Child], progress: Progress | None) -> None:
    """Until every node has everything and, where phantoms see to that, all of it is stable."""
    total = plan.messages * plan.nodes * (plan.nodes - 1)
    before: list[tuple[int, int, int]] = []
    moved = time.monotonic()
    while True:
        found = [child.numbers() for child in children]
        known = [each for each in found if each is not None]
        now = [(each.sent, each.delivered, each.stable) for each in known]
        if now != before:
            before, moved = now, time.monotonic()
        if progress is not None:
            progress("deliveries", sum(delivered for _, delivered, _ in now), total)
        quiet_s = time.monotonic() - moved
        if len(known) == len(children) and all(map(plan.is_done, known)):
            if plan.stable and all(stable >= plan.stable for _, _, stable in now):
                return
            if not plan.stable and quiet_s > QUIET_S:
                return
        if quiet_s > STALL_S:
            raise ThenceError(f"the group has made no progress for {STALL_S:g} s: {now}")
        time.sleep(POLL_S)


def end_all(children: Sequence[Child]) -> None:
    """End every process that is left, by its id."""
    for child in children:
        if child.process.poll() is None:
            child.process.terminate()
    deadline = time.monotonic() + END_S
    for child in children:
        try:
            child.process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.process.kill()
            child.process.wait()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends the demonstration as Ctrl-C does, also where a shell that started it in the
    background has it ignore Ctrl-C: no process is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    old = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses now."""
    with contextlib.ExitStack() as stack:
        taken = [
            stack.enter_context(contextlib.closing(socket.create_server(("127.0.0.1", 0))))
            for _ in range(count)
        ]
        return [sock.getsockname()[1] for sock in taken]


def _environ() -> dict[str, str]:
    """Without settings for nodes: the flags say everything."""
    ours = {setting.variable for setting in SETTINGS.values()} | {CONFIG_VARIABLE}
    return {name: value for name, value in os.environ.items() if name not in ours}


# ---- for people ---------------------------------------------------------------------------------

COLUMNS: Final = (
    "node", "sent", "delivered", "held back", "longest ms", "waiting for", "stable",
    "lag ms p50", "p99", "words max", "at end",
)  # fmt: skip


def show(plan: Plan, tallies: dict[str, NodeTally], seconds: float) -> None:
    """What happened."""
    first, last = plan.ends
    print(
        f"{plan.nodes} processes, {plan.messages:,} messages each, engine {plan.engine}, seed "
        f"{plan.seed}: {seconds:.1f} s"
    )
    print(
        f"they talk over tcp on this machine; between {first} and {last} everything is held back "
        f"for {SLOW_MS:g} ms"
    )
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
