"""Speed of the store beside that of a server that does nothing but answer.

    python -m benchmarks.store [--rounds 5] [--requests 100000]

redis-benchmark makes the requests, with 50 connections.  Each round runs every line once, so that
what else the machine does meets all of them; a ratio is the median over rounds of the bare server's
time and the store's in the same round.  Two ratios are given: of requests a second, which also says
how the load generator and the server share the machine, and of the CPU time that the server's
process took for a request.  Three nodes share the machine with the load generator.  A second bare
server, whose parser is in C, says what is left to win; no bar is about it.  Exit code 1 when a bar
is missed.

    name                pipeline  store                        bar
    GET                        1  one node, journal            75 %
    SET                        1  one node, journal            50 %
    GET x16                   16  one node, journal            50 %
    SET x16, three nodes      16  three nodes, journals        25 %
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.mesh.__main__ import Bars

CONNECTIONS = 50
BARE, BARE_C = 0, -1  # as keys of servers; a store has its number of nodes
START_S = 60.0
CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Line(NamedTuple):
    """One comparison."""

    name: str
    command: str
    pipeline: int
    nodes: int
    bar: float


LINES = (
    Line("GET", "get", 1, 1, 0.75),
    Line("SET", "set", 1, 1, 0.50),
    Line("GET x16", "get", 16, 1, 0.50),
    Line("SET x16", "set", 16, 1, 0.0),
    Line("SET, three nodes", "set", 1, 3, 0.0),
    Line("SET x16, three nodes", "set", 16, 3, 0.25),
)


class Served(NamedTuple):
    """A server that runs."""

    port: int
    process: subprocess.Popen[str]


class Figures(NamedTuple):
    """One run of redis-benchmark."""

    per_s: float
    cpu_us: float
    """Of the server's process, for each request."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at the moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def start(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A server in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, text=True
    )


def await_ready(process: subprocess.Popen[str]) -> None:
    """Until it says so."""
    assert process.stdout is not None
    if not process.stdout.readline().startswith("ready"):
        raise SystemExit("a server did not start")


@contextlib.contextmanager
def servers(folder: str) -> Iterator[dict[int, Served]]:
    """The bare ones, a store of one node (1), the first of a store of three (3)."""
    resp = free_ports(6)
    inner = free_ports(3)
    group = [f"{name}={port}" for name, port in zip("abc", inner, strict=True)]
    processes = [start("benchmarks.store.bare", str(resp[0]))]
    processes.append(start("benchmarks.store.node", "solo", str(resp[1]), f"{folder}/solo"))
    for name, port in zip("abc", resp[2:5], strict=True):
        processes.append(
            start("benchmarks.store.node", name, str(port), f"{folder}/{name}", *group)
        )
    processes.append(start("benchmarks.store.bare", str(resp[5]), "c"))
    try:
        for each in processes:
            await_ready(each)
        yield {
            BARE: Served(resp[0], processes[0]),
            BARE_C: Served(resp[5], processes[5]),
            1: Served(resp[1], processes[1]),
            3: Served(resp[2], processes[2]),
        }
    finally:
        for each in processes:
            each.terminate()
        for each in processes:
            each.wait()


def cpu_s(process: subprocess.Popen[str]) -> float:
    """That the process has taken so far."""
    with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK_TICKS


def measure(server: Served, line: Line, requests: int) -> Figures:
    """One run."""
    before_s = cpu_s(server.process)
    done = subprocess.run(
        ["redis-benchmark", "-p", str(server.port), "-t", line.command, "-n", str(requests)]
        + ["-c", str(CONNECTIONS), "-P", str(line.pipeline), "-d", "3", "-r", "1000", "--csv"],
        capture_output=True,
        text=True,
        check=True,
    )
    taken_s = cpu_s(server.process) - before_s
    per_s = float(done.stdout.strip().splitlines()[-1].split(",")[1].strip('"'))
    return Figures(per_s, taken_s * 1e6 / requests)


class Round(NamedTuple):
    """What each did for one line."""

    bare: Figures
    ours: Figures
    bare_c: Figures


def compare(rounds: int, requests: int) -> dict[Line, list[Round]]:
    """Of every line what its rounds gave."""
    found: dict[Line, list[Round]] = {line: [] for line in LINES}
    with tempfile.TemporaryDirectory() as folder, servers(folder) as running:
        for line in LINES:  # what is done for the first time is not measured
            for server in (BARE, line.nodes, BARE_C):
                measure(running[server], line, requests // 10)
        for _ in range(rounds):
            for line in LINES:
                count = requests if line.pipeline == 1 else 4 * requests
                order = (BARE, line.nodes, BARE_C)
                found[line].append(Round(*(measure(running[each], line, count) for each in order)))
    return found


def show(found: dict[Line, list[Round]]) -> None:
    """One line each; ratios are medians, with the lowest and the highest round."""
    median = statistics.median
    print(
        f"{'':<22}{'bare/s':>10}{'store/s':>10}{'ratio':>8}{'(rounds)':>14}{'bar':>6}"
        f"{'bare us':>10}{'store us':>10}{'ratio':>8}{'C/s':>12}{'ratio':>8}"
    )
    for line, rounds in found.items():
        ratios = [each.ours.per_s / each.bare.per_s for each in rounds]
        ratios_c = [each.ours.per_s / each.bare_c.per_s for each in rounds]
        cpu_ratios = [each.bare.cpu_us / each.ours.cpu_us for each in rounds if each.ours.cpu_us]
        bar = f"{line.bar:.0%}" if line.bar else "-"
        between = f"{min(ratios):.0%}-{max(ratios):.0%}"
        print(
            f"{line.name:<22}{median([each.bare.per_s for each in rounds]):>10,.0f}"
            f"{median([each.ours.per_s for each in rounds]):>10,.0f}"
            f"{median(ratios):>8.0%}{between:>14}{bar:>6}"
            f"{median([each.bare.cpu_us for each in rounds]):>10.1f}"
            f"{median([each.ours.cpu_us for each in rounds]):>10.1f}{median(cpu_ratios):>8.0%}"
            f"{median([each.bare_c.per_s for each in rounds]):>12,.0f}{median(ratios_c):>8.0%}"
        )


def hold(found: dict[Line, list[Round]]) -> Bars:
    """The ratios of requests a second, against what is promised of them."""
    bars = Bars()
    for line, rounds in found.items():
        if line.bar:
            ratio = statistics.median([each.ours.per_s / each.bare.per_s for each in rounds])
            bars.at_least(f"{line.name}: requests a second, of the bare server's", ratio, line.bar)
    return bars


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=100_000)
    arguments = parser.parse_args()
    if shutil.which("redis-benchmark") is None:
        raise SystemExit("redis-benchmark makes the load: install redis-tools")
    from thence.store import resp

    form = "interpreted" if str(resp.__file__).endswith(".py") else "compiled"
    print(
        f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores, "
        f"protocol {form}, load {os.getloadavg()[0]:.1f}; "
        f"{arguments.rounds} rounds of {arguments.requests:,} requests"
    )
    found = compare(arguments.rounds, arguments.requests)
    show(found)
    sys.exit(hold(found).broken)


if __name__ == "__main__":
    main()
