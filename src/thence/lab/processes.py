"""Nodes as processes of this machine: started, watched, stopped, and none left behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Final

import msgspec

from thence.client.station import run_info
from thence.errors import LocalProtocolError, ThenceError, UnreachableError
from thence.lab.orders import GroupOrders, check_size, orders_of
from thence.lab.plan import Mode, RunPlan
from thence.lab.watch import Counts, Watch
from thence.telemetry.asking import decode, fetch
from thence.trace.record import RunInfo
from thence.trace.writer import file_stem, mark_closed, write_info

POLL_S: Final = 0.1
ANSWER_S: Final = 5.0
END_S: Final = 20.0
"""Told to stop, a node is given so long; then it is killed."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
LOOPBACK: Final = "127.0.0.1"
NODES_FOLDER: Final = ".nodes"
"""In a run folder, while nodes write their logs there."""

Progress = Callable[[str, int, int], None]
"""Told what is counted, how much there is, and how much there will be."""


def run_processes(plan: RunPlan, folder: Path, progress: Progress | None) -> None:
    """Carry a plan out with a process for each node; the run folder is complete then."""
    check_size(plan)
    orders = orders_of(plan)
    info = begin_folder(plan, "processes", folder, is_one_machine=True)
    work = folder / NODES_FOLDER
    try:
        run_group(orders, work, progress)
        for path in sorted((work / file_stem(orders.group)).glob("*.parquet")):
            os.replace(path, folder / path.name)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    close_folder(folder, info)


def begin_folder(plan: RunPlan, mode: Mode, folder: Path, is_one_machine: bool) -> RunInfo:
    """Make the run folder; what is left of an earlier try is removed."""
    info = run_info(plan.name, plan.names, plan.variant.engine, plan.stability)
    scenario = {"simulated": False, **plan.scenario(mode)}
    if is_one_machine:
        scenario["clock"] = "common"  # so times of different nodes may be compared
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    info = msgspec.structs.replace(info, scenario=scenario)
    write_info(folder, info)
    return info


def close_folder(folder: Path, info: RunInfo) -> None:
    """All logs are there, and whole."""
    write_info(folder, msgspec.structs.replace(info, complete=True))
    mark_closed(folder)


def run_group(orders: GroupOrders, trace: Path, progress: Progress | None) -> None:
    """Start the nodes of a group here, wait until everything is delivered and stable, stop them.

    ``trace`` gets a folder with the logs of the group.
    """
    names = orders.names
    ports = free_ports(len(names))
    addresses = {name: f"tcp://{LOOPBACK}:{port}" for name, port in zip(names, ports, strict=True)}
    with ended_by_signals(), Crew(orders) as crew:
        for name in names:
            crew.start(name, addresses, trace)
        watch = Watch(orders, time.monotonic())
        while not watch.look(crew.counts(), time.monotonic()):
            if progress is not None:
                progress("deliveries", watch.delivered, orders.deliveries)
            time.sleep(POLL_S)
        crew.stop()


class Crew:
    """The nodes of a group that run on this machine; at its end none runs any more."""

    def __init__(self, orders: GroupOrders) -> None:
        self._orders = orders
        self._children: list[Child] = []
        self._folder = Path(tempfile.mkdtemp(prefix="thence-nodes-"))
        self._lock = threading.Lock()
        self._is_over = False

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def start(
        self, name: str, addresses: Mapping[str, str], trace: Path, listen: str | None = None
    ) -> None:
        """Start a node; the arguments are those of ``GroupOrders.flags``."""
        (page,) = free_ports(1)
        status = f"{LOOPBACK}:{page}"
        flags = self._orders.flags(name, addresses, status, trace, listen)
        # Another thread, or a signal, may end everything at this moment.
        with self._lock, uninterrupted():
            if self._is_over:
                raise LocalProtocolError(f"{name} is to start after the end of its group")
            log = self._folder / f"{len(self._children)}.log"
            self._children.append(Child(name, flags, page, log, self._orders.environ()))

    def counts(self) -> dict[str, Counts]:
        """How far the nodes are that answer; ThenceError if one has ended."""
        found = {child.name: child.counts() for child in self._children}
        return {name: each for name, each in found.items() if each is not None}

    def stop(self) -> None:
        """Have all of them stop in order; ThenceError if one does not."""
        for child in self._children:
            child.process.terminate()
        for child in self._children:
            child.expect_end()

    def end(self) -> None:
        """End what is left; may be called again."""
        with self._lock:
            self._is_over = True
        end_all(self._children)
        shutil.rmtree(self._folder, ignore_errors=True)


class Child:
    """One node, as a process of its own; what it says goes to a file."""

    def __init__(
        self, name: str, flags: list[str], page: int, log: Path, environ: dict[str, str]
    ) -> None:
        self.name = name
        self._page = page
        self._log = log
        with log.open("wb") as file:
            # A session of its own: Ctrl-C reaches whoever started it alone, who then ends all.
            # The pipe ends with whoever started it, however that happens, and so does the node.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "thence", "node", "--until-closed", *flags],
                stdin=subprocess.PIPE, stdout=file, stderr=file, env=environ,
                start_new_session=True,
            )  # fmt: skip

    def counts(self) -> Counts | None:
        """What it says of the group; None before it listens.  ThenceError if it has ended."""
        if self.process.poll() is not None:
            raise self._error(f"ended with exit code {self.process.returncode}")
        try:
            body = fetch(LOOPBACK, self._page, ANSWER_S)
        except UnreachableError:
            return None
        groups = decode(self.name, body).snapshot.groups
        if not groups:
            return None
        return Counts(groups[0].sent, groups[0].delivered, groups[0].stable)

    def expect_end(self) -> None:
        """It was told to stop, and does."""
        try:
            code = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise self._error(f"did not stop within {END_S:g} s") from None
        if code:
            raise self._error(f"ended with exit code {code}")

    def let_go(self) -> None:
        """Close its pipe."""
        if self.process.stdin is not None:
            self.process.stdin.close()

    def _error(self, what: str) -> ThenceError:
        said = self._log.read_text(errors="replace").strip().splitlines()
        last = f"; it said: {said[-1]}" if said else ""
        return ThenceError(f"node {self.name} {what}{last}")


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
        finally:
            child.let_go()


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM ends what goes on as Ctrl-C does, also where a shell that started it in the
    background has it ignore Ctrl-C: no process is left behind."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield  # signals are the main thread's
        return
    old = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals come when this is over: a process must be known before anything can raise, because
    who raises ends the processes that are known."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []

    def remember(number: int, frame: FrameType | None) -> None:
        came.append(number)

    old = {number: signal.signal(number, remember) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """Ports that nobody uses now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with contextlib.ExitStack() as stack:
        taken = [
            stack.enter_context(contextlib.closing(socket.create_server((host, 0), family=family)))
            for _ in range(count)
        ]
        return [sock.getsockname()[1] for sock in taken]
