"""Groups of real processes beside a raw mesh and ZeroMQ, in the same run.

    python -m benchmarks.mesh [--nodes 4 8] [--rounds 5] [--soak 20] [--only CPU,LATENCY,...]

One process for each node, on loopback, 64-byte payloads.  Contestants:

- thence:     a group over tcp with uvloop, causal order and stability, everything told stable;
              sent by ``try_broadcast_many``, taken by callbacks with lists of tags
              (``on_deliver``, ``on_stable``), by callbacks with each tag, and by ``events()``;
- joined:     a raw mesh on uvloop, no order but each link's: the messages of a tick are joined
              into one write for each peer, the receiver cuts frames and calls a function for each;
- single:     the same mesh with one message in a tick, so a write for each message;
- zeromq:     PUB/SUB sockets, without asyncio.

Bursts are 64 messages a tick.  A node is at most ``WINDOW`` messages ahead of what it has received,
for all contestants.  They take turns in the same run and medians are compared, so that a busy
machine slows all of them.  CPU is that of all processes, all threads, for each delivery.

Promises (exit code 1 when one is broken): CPU at most 2.5x joined and below 1.5x zeromq; one
message a tick at least 35 % of the rate of single; p50 latency at 800 messages a second in all at
most 1.6x raw; the rate after 100,000 messages of each node at least 90 % of that of the first
1,000 to 10,000; resident memory flat.  ``--soak 600`` is the long soak.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from benchmarks.mesh.fleet import Fleet

BURST = 64
WINDOW = 1024
SINGLE_WINDOW = 256
DELIVERIES = {"burst": 960_000, "single": 60_000}
"""Of all nodes in one run, about."""
LATENCY_RATE = 800
LATENCY_S = 2.0
LATENCY_ROUNDS = 3
LONG_MESSAGES = 121_600
SLICE = 1_000
RUN_S_MAX = 900
"""The watchdog of every process, beside the soak."""
PARTS = ("cpu", "latency", "long", "soak")


class Bars:
    """Promises: printed with what was measured, and remembered when broken."""

    def __init__(self) -> None:
        self.broken = False

    def at_least(self, what: str, value: float, bar: float) -> None:
        self._tell(what, value, f">= {bar}", value >= bar)

    def at_most(self, what: str, value: float, bar: float) -> None:
        self._tell(what, value, f"<= {bar}", value <= bar)

    def below(self, what: str, value: float, bar: float) -> None:
        self._tell(what, value, f"< {bar}", value < bar)

    def _tell(self, what: str, value: float, bar: str, holds: bool) -> None:
        print(
            f"{what:58}{value:8.2f}  {bar:8} {'holds' if holds else 'BROKEN'}",
            flush=True,
        )
        self.broken |= not holds


@contextmanager
def fleets(kinds: tuple[str, ...], nodes: int, seconds_max: int) -> Iterator[dict[str, Fleet]]:
    """Fleets of these kinds, ended afterwards."""
    made: dict[str, Fleet] = {}
    try:
        for kind in kinds:
            made[kind] = Fleet(kind, nodes, seconds_max)
        yield made
    finally:
        for fleet in made.values():
            fleet.end()


def messages_for(kind: str, nodes: int, per_tick: int) -> int:
    """Of each node, in whole ticks."""
    each = DELIVERIES[kind] // (nodes * (nodes - 1))
    return max(1, each // per_tick) * per_tick


CONTESTS: dict[str, tuple[str, str, int, str]] = {
    "thence": ("thence", "burst", BURST, "lists"),
    "joined": ("raw", "burst", BURST, "callbacks"),
    "thence, a call each": ("thence", "burst", BURST, "callbacks"),
    "thence events()": ("thence", "burst", BURST, "events"),
    "zeromq": ("zeromq", "burst", BURST, "callbacks"),
    "thence, 1 a tick": ("thence", "single", 1, "callbacks"),
    "single": ("raw", "single", 1, "callbacks"),
}
"""By name: the kind of fleet, how much, messages in a tick, how they are taken."""


def contest(fleet: dict[str, Fleet], nodes: int, rounds: int, bars: Bars) -> None:
    """CPU and rates."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in CONTESTS}
    for number in range(rounds + 1):
        for name, (kind, amount, per_tick, how) in CONTESTS.items():
            window = WINDOW if per_tick > 1 else SINGLE_WINDOW
            messages = messages_for(amount, nodes, per_tick)
            result = fleet[kind].run(messages, per_tick, window, how)
            if number:  # the first is to warm up
                found[name].append(result)
    us, rate = {}, {}
    print(f"\nN = {nodes}, medians of {rounds}: CPU us for a delivery, deliveries a second")
    for name, results in found.items():
        us[name] = statistics.median(result["us"] for result in results)
        rate[name] = statistics.median(result["rate"] for result in results)
        spread = f"{min(r['us'] for r in results):.2f}-{max(r['us'] for r in results):.2f}"
        print(f"  {name:20}{us[name]:8.2f}  ({spread:>11}) {rate[name]:12,.0f}")
    bars.at_most(f"N={nodes}: CPU, thence / joined", us["thence"] / us["joined"], 2.5)
    bars.below(f"N={nodes}: CPU, thence / zeromq", us["thence"] / us["zeromq"], 1.5)
    for name in ("thence, a call each", "thence events()"):
        print(f"{f'N={nodes}: CPU, {name} / joined':58}{us[name] / us['joined']:8.2f}")
    bars.at_least(
        f"N={nodes}: rate, thence with 1 a tick / single",
        rate["thence, 1 a tick"] / rate["single"],
        0.35,
    )


def latency(fleet: dict[str, Fleet], nodes: int, bars: Bars) -> None:
    """From the call to the function that is called, in another process."""
    kinds = ("thence", "raw")
    p50: dict[str, list[float]] = {kind: [] for kind in kinds}
    p99: dict[str, list[float]] = {kind: [] for kind in kinds}
    order = {"do": "pace", "per_second": LATENCY_RATE / nodes, "seconds": LATENCY_S}
    offsets = [index / LATENCY_RATE for index in range(nodes)]
    for _ in range(LATENCY_ROUNDS):
        for kind in kinds:
            fleet[kind].prepare()
            answers = fleet[kind].ask(order, offset_s=offsets)
            ages = sorted(age for answer in answers for age in answer["ages"])
            p50[kind].append(ages[len(ages) // 2])
            p99[kind].append(ages[len(ages) * 99 // 100])
    for kind in kinds:
        middle, high = statistics.median(p50[kind]), statistics.median(p99[kind])
        print(f"  N={nodes} latency at {LATENCY_RATE}/s, {kind:8} p50 {middle:6.0f} us, "
              f"p99 {high:6.0f} us")  # fmt: skip
    ratio = statistics.median(p50["thence"]) / statistics.median(p50["raw"])
    bars.at_most(f"N={nodes}: p50 latency at {LATENCY_RATE}/s, thence / raw", ratio, 1.6)


def long_run(fleet: Fleet, bars: Bars) -> None:
    """Whether history slows it down: medians over slices of SLICE messages of each node."""
    result = fleet.run(LONG_MESSAGES, BURST, WINDOW, slice_messages=SLICE)

    def rate(low: int, high: int) -> float:
        found = []
        for answer in result["answers"]:
            peers = fleet.nodes - 1
            marks = [(got, at) for got, at in answer["marks"] if low <= got // peers <= high]
            found += [(b - a) / (t - s) for (a, s), (b, t) in pairwise(marks)]
        return float(statistics.median(found)) * fleet.nodes

    first, late = rate(1_000, 10_000), rate(100_000, LONG_MESSAGES)
    print(f"  N={fleet.nodes}: {first:,.0f} deliveries a second from message 1,000 to 10,000 of "
          f"each node, {late:,.0f} after 100,000")  # fmt: skip
    bars.at_least(f"N={fleet.nodes}: rate after 100,000 messages / first", late / first, 0.9)


def soak(fleet: Fleet, seconds: float, bars: Bars) -> None:
    """Memory in the last quarter beside that in the second one."""
    order = {"do": "soak", "seconds": seconds, "per_tick": BURST, "window": WINDOW}
    fleet.prepare()
    answers = fleet.ask(order)
    growth = []
    for answer in answers:
        memory = answer["memory"]
        quarter = max(1, len(memory) // 4)
        middle = statistics.median(memory[quarter : 2 * quarter])
        growth.append(statistics.median(memory[-quarter:]) / middle)
    got = sum(answer["got"] for answer in answers)
    print(f"  N={fleet.nodes}: soak of {seconds:g} s, {got:,} deliveries, resident at the end "
          f"{max(answer['memory'][-1] for answer in answers) / 1024:.0f} MiB at most")  # fmt: skip
    bars.at_most(f"N={fleet.nodes}: resident memory, last quarter / second", max(growth), 1.05)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--soak", type=float, default=20.0)
    parser.add_argument("--only", default=",".join(PARTS), help=", ".join(PARTS))
    options = parser.parse_args()
    parts = options.only.split(",")
    bars = Bars()
    start = time.monotonic()
    kinds = ("thence", "raw", "zeromq")
    for nodes in options.nodes:
        with fleets(kinds, nodes, RUN_S_MAX) as fleet:
            if "cpu" in parts:
                contest(fleet, nodes, options.rounds, bars)
            if "latency" in parts:
                latency(fleet, nodes, bars)
    nodes = options.nodes[0]
    with fleets(("thence",), nodes, RUN_S_MAX + int(options.soak)) as fleet:
        if "long" in parts:
            long_run(fleet["thence"], bars)
        if "soak" in parts:
            soak(fleet["thence"], options.soak, bars)
    print(f"{time.monotonic() - start:.0f} s")
    if bars.broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
