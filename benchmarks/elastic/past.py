"""Slots are never used again: what a message costs in a group that many have left."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import msgspec

from benchmarks.elastic.churn import Town, grow
from benchmarks.mesh.__main__ import Bars

MEMBERS = 4
PAST = (0, 100, 1000)
BURSTS = 100
WAIT_S = 30.0
PAYLOAD = bytes(64)


class Counted:
    """Deliveries and stable messages of a town."""

    def __init__(self, town: Town) -> None:
        self.town = town
        self.delivered = 0
        self.stable = 0
        for group in town.groups.values():
            group.on_deliver(self._deliver, many=True)
            group.on_stable(self._settle, many=True)

    def _deliver(self, tags: list[Any]) -> None:
        self.delivered += len(tags)

    def _settle(self, tags: list[Any]) -> None:
        self.stable += len(tags)

    async def cost_us(self, burst: int) -> float:
        """CPU time for a delivery: every member sends BURSTS bursts, until all are stable."""
        groups = list(self.town.groups.values())
        self.delivered = self.stable = 0
        sent = burst * BURSTS * len(groups)
        payloads = [PAYLOAD] * burst
        start, end = time.process_time(), time.monotonic() + WAIT_S
        for _ in range(BURSTS):
            for group in groups:
                await group.broadcast_many(payloads)
            await asyncio.sleep(0)
        while self.stable < sent * len(groups):
            if time.monotonic() > end:
                raise AssertionError(f"{self.stable} of {sent * len(groups)} stable")
            await asyncio.sleep(0.001)
        return (time.process_time() - start) / self.delivered * 1e6


async def churn(town: Town, count: int) -> float:
    """Let so many come and go; seconds."""
    start = time.perf_counter()
    for _ in range(count):
        group = await town.join()
        await town.leave(group.node)
    await town.agree()
    return time.perf_counter() - start


async def measure(bars: Bars, rounds: int = 7) -> None:
    towns: dict[int, Counted] = {}
    for past in PAST:
        town = await grow(MEMBERS)
        seconds = await churn(town, past)
        if past:
            print(f"\n{past} joins and leaves, one after the other, in {seconds:.1f} s", end="")
        towns[past] = Counted(town)
    print(f"\n\nCPU us for a delivery, {MEMBERS} members in one process, after so many past ones")
    print(f"{'past':>6}{'bursts of 64':>14}{'one by one':>12}{'slots':>7}{'view bytes':>12}")
    costs: dict[tuple[int, int], list[float]] = {}
    for number in range(rounds + 1):
        for past, counted in towns.items():
            for burst in (64, 1):
                cost = await counted.cost_us(burst)
                if number:  # the first is to warm up
                    costs.setdefault((past, burst), []).append(cost)
    for past, counted in towns.items():
        view = next(iter(counted.town.groups.values())).view
        size = len(msgspec.msgpack.encode(view))
        many, one = (statistics.median(costs[past, burst]) for burst in (64, 1))
        print(f"{past:>6}{many:>14.2f}{one:>12.2f}{view.slots:>7}{size:>12,}")
    for past in PAST[1:]:
        for burst, what in ((64, "bursts of 64"), (1, "one by one")):
            pairs = zip(costs[past, burst], costs[0, burst], strict=True)
            ratio = statistics.median(late / early for late, early in pairs)
            bars.at_most(f"{past} past members / none: {what}", ratio, 2.0)
    for counted in towns.values():
        await counted.town.close()
