"""Where the CPU of a node goes: drivers of one group in one process, without sockets.

    python benchmarks/bench_driver.py [--nodes 4] [--rounds 400] [--burst 64]

Every node sends a burst in each round, then all frames arrive, then all applications are called.
Microseconds for each delivery, except ``send``: for each message that was sent.  The ways to send
and to take are measured in turns, and medians of the turns are printed.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from thence.client.driver import Driver
from thence.client.handing import hand_over
from thence.engine.bursts import Callbacks
from thence.engine.registry import ENGINES
from thence.wire import talk
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

TURNS = 5
GC_OBJECTS = 50_000


class Group:
    """All nodes of a group."""

    def __init__(self, nodes: int) -> None:
        names = [chr(ord("a") + at) for at in range(nodes)]
        self.now = 1.0
        self.drivers = [Driver("g", names, name, ENGINES["tagged"], self.now) for name in names]
        for i, driver in enumerate(self.drivers):
            for j, other in enumerate(self.drivers):
                if i != j:
                    ((_, body),) = cut(driver.open(j, 0))
                    assert other.opened(i, talk.read(body, talk.Open), self.now) is None
        self.spent: Counter[str] = Counter()
        self.delivered = 0

    def round(self, payloads: list[bytes], together: bool, calls: Callbacks) -> None:
        """Everybody sends, and takes what the others sent."""
        self.now += 0.0005
        wires = []
        for i, driver in enumerate(self.drivers):
            start = time.perf_counter()
            if together:
                driver.broadcast_many(payloads, self.now)
            else:
                for payload in payloads:
                    driver.broadcast(payload, self.now)
            self._spend("send", start)
            start = time.perf_counter()
            driver.tick(self.now)
            driver.commit(self.now)
            others = [j for j in range(len(self.drivers)) if j != i]
            wires += [(i, j, f) for j in others for f in driver.frames(j, 0, False, self.now)]
            self._spend("frames", start)
        for i, j, data in wires:
            start = time.perf_counter()
            for kind, body in cut(data):
                self._arrive(self.drivers[j], i, kind, body)
            self._spend("receive", start)
        for driver in self.drivers:
            before = driver.counts["delivered"]
            start = time.perf_counter()
            hand_over(driver, self.now, calls, _must_not_fail)
            self._spend("hand over", start)
            self.delivered += driver.counts["delivered"] - before

    def _arrive(self, driver: Driver, peer: int, kind: int, body: bytes) -> None:
        if kind == talk.DATA:
            _, number, batch = talk.read_data(body)
            driver.data(peer, number, batch, self.now)
        elif kind == talk.ACK:
            driver.acknowledged(peer, talk.read_ack(body))
        else:
            driver.news(peer, talk.read_news(body)[1], self.now)

    def _spend(self, what: str, start: float) -> None:
        self.spent[what] += time.perf_counter() - start  # type: ignore[assignment]


def cut(data: bytes) -> list[tuple[int, bytes]]:
    return FrameReader(FRAME_BYTES_MAX).feed(data)


def _must_not_fail(error: Exception) -> None:
    raise error


def calls_of(many: bool) -> Callbacks:
    """An application that looks at every payload."""
    calls, seen = Callbacks(), [0]

    def one(tag: Any) -> None:
        seen[0] += len(tag.payload)

    def list_of(tags: list[Any]) -> None:
        for tag in tags:
            seen[0] += len(tag.payload)

    told: Callable[[Any], None] = list_of if many else one
    calls.deliver = calls.stable = told
    calls.deliver_many = calls.stable_many = many
    return calls


WAYS = {
    "broadcast_many, lists": (True, True),
    "broadcast_many, a call for each tag": (True, False),
    "broadcast, a call for each tag": (False, False),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--burst", type=int, default=64)
    given = parser.parse_args()
    gc.set_threshold(GC_OBJECTS)
    payloads = [bytes(64)] * given.burst
    found: dict[str, list[Counter[str]]] = {way: [] for way in WAYS}
    for _ in range(TURNS):
        for way, (together, many) in WAYS.items():
            group, calls = Group(given.nodes), calls_of(many)
            for at in range(given.rounds + 20):
                if at == 20:  # warm
                    group.spent.clear()
                    group.delivered = 0
                group.round(payloads, together, calls)
            us = Counter({k: v * 1e6 / group.delivered for k, v in group.spent.items()})
            us["all"] = sum(us.values())
            us["send"] *= given.nodes - 1  # type: ignore[assignment]
            found[way].append(us)
    kinds = ("send", "frames", "receive", "hand over", "all")
    head = f"{given.nodes} nodes, bursts of {given.burst}, us"
    print(f"{head:40}" + "".join(f"{k:>11}" for k in kinds))
    for way, turns in found.items():
        medians = [statistics.median(each[kind] for each in turns) for kind in kinds]
        print(f"{way:40}" + "".join(f"{value:11.2f}" for value in medians))


if __name__ == "__main__":
    main()
