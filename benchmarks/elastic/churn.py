"""Members that come, go and die in quick succession: how many a second, and what each costs.

All nodes run in this process, over tcp on loopback, without traces, so the rates are those of one
core for all of them.  What members say to each other about members is counted where it leaves.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.mesh.__main__ import Bars
from thence.client.group import Group
from thence.client.lobby import Lobby
from thence.config.node import MembershipConfig, TimingConfig
from thence.wire import membership as said
from thence.wire.frame import HEAD_BYTES

SIZES = (4, 8, 16)
CHANGES = 10
"""Joins, and as many leaves, in one measurement."""
EVICT_S = 1.0
MEMBERSHIP = MembershipConfig(
    elastic=True, joins_per_s=10_000.0, beat_ms=100.0, suspect_s=0.5, evict_s=EVICT_S,
    suspect_phi=0.0,
)  # fmt: skip
TIMING = TimingConfig(reconnect_ms_max=200.0, drain_s=20.0)
WAIT_S = 60.0


class Talk:
    """What was said about members, without the signs of life that come anyway."""

    def __init__(self) -> None:
        self.kinds: Counter[str] = Counter()
        self.bytes = 0

    def count(self, data: bytes) -> None:
        message = said.decode(data[HEAD_BYTES + 1 :])[1]
        name = type(message).__name__
        self.kinds[name] += 1
        if name != "Beat":
            self.bytes += len(data)

    @property
    def frames(self) -> int:
        return self.kinds.total() - self.kinds["Beat"]


@contextmanager
def listening() -> Iterator[Talk]:
    """Count what leaves."""
    talk, tell = Talk(), Lobby._tell

    def counted(lobby: Lobby, told: list[tuple[str, bytes]]) -> None:
        for peer, data in told:
            if peer in lobby.by_peer:
                talk.count(data)
        tell(lobby, told)

    Lobby._tell = counted  # type: ignore[method-assign]
    try:
        yield talk
    finally:
        Lobby._tell = tell  # type: ignore[method-assign]


class Town:
    """A group in this process."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.changes = 0
        """Of the membership, as the first member is told."""
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"n{self._names:05}"

    async def join(self) -> Group:
        """Found the group, or join it by way of one of its members."""
        members = list(self.groups.values())
        contact = {"join": members[self._names % len(members)].addresses[0]} if members else {}
        group = Group(
            self.name(), listen="tcp://127.0.0.1:0", membership=MEMBERSHIP, timing=TIMING, **contact
        )
        await group.start()
        group.on_deliver(_nothing, many=True)
        group.on_stable(_nothing, many=True)
        self.groups[group.node] = group
        return group

    async def leave(self, name: str) -> None:
        await self.groups.pop(name).aclose()

    async def die(self, name: str) -> None:
        """Like a process that is killed: sockets close, nothing is said."""
        runtime = self.groups.pop(name)._runtime
        runtime._stopped = True
        if runtime._timer is not None:
            runtime._timer.cancel()
        for connection in list(runtime.hub.links):
            connection.abort("killed")  # type: ignore[attr-defined]
        for listener in runtime.listeners:
            await listener.close()

    async def agree(self) -> None:
        """Until everybody has the same view, of those that are here."""
        end = time.monotonic() + WAIT_S
        names = set(self.groups)
        while time.monotonic() < end:
            if all({m.name for m in g.view.members} == names for g in self.groups.values()):
                return
            await asyncio.sleep(0.002)
        raise AssertionError(f"no agreement on {len(names)} members within {WAIT_S:g} s")

    async def close(self) -> None:
        for name in list(self.groups):
            await self.groups.pop(name).aclose(drain_s=0)


def _nothing(tags: list[Any]) -> None: ...


async def grow(size: int) -> Town:
    town = Town()
    await town.join()
    for _ in range(size - 1):
        await town.join()
    await town.agree()
    return town


class Cost:
    """Of one kind of change."""

    def __init__(self, changes: int, seconds: float, talk: Talk) -> None:
        self.per_second = changes / seconds
        self.frames = talk.frames / changes
        self.bytes = talk.bytes / changes
        self.beats = talk.kinds["Beat"] / changes


async def one_by_one(town: Town) -> tuple[Cost, Cost]:
    """Somebody joins, until all agree, and leaves again."""
    seconds, talks = [0.0, 0.0], [Talk(), Talk()]
    for _ in range(CHANGES):
        for at in (0, 1):
            with listening() as talk:
                start = time.perf_counter()
                if at == 0:
                    await town.join()
                else:
                    await town.leave(list(town.groups)[-1])
                await town.agree()
                seconds[at] += time.perf_counter() - start
            talks[at].kinds += talk.kinds
            talks[at].bytes += talk.bytes
    joins, leaves = (Cost(CHANGES, seconds[at], talks[at]) for at in (0, 1))
    return joins, leaves


async def at_once(town: Town) -> Cost:
    """As many join at the same time, and then leave at the same time."""
    with listening() as talk:
        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            joined = [tasks.create_task(town.join()) for _ in range(CHANGES)]
        await town.agree()
        async with asyncio.TaskGroup() as tasks:
            for each in joined:
                tasks.create_task(town.leave(each.result().node))
        await town.agree()
        return Cost(2 * CHANGES, time.perf_counter() - start, talk)


async def evictions(town: Town, count: int) -> tuple[Cost, float]:
    """Members die, the most senior first; the cost of each, and seconds after the time-out."""
    late: list[float] = []
    with listening() as talk:
        for _ in range(count):
            await town.join()
            await town.agree()
            talk.kinds.clear()
        total = Talk()
        for _ in range(count):
            with listening() as talk:
                start = time.perf_counter()
                await town.die(next(iter(town.groups)))
                await town.agree()
                late.append(time.perf_counter() - start - EVICT_S)
            total.kinds += talk.kinds
            total.bytes += talk.bytes
    return Cost(count, 1.0, total), statistics.median(late)


async def measure(sizes: tuple[int, ...], bars: Bars) -> None:
    print("\nChanges a second, and frames and bytes for each; one process, tcp on loopback")
    print(
        f"{'N':>4}{'join/s':>8}{'frames':>8}{'bytes':>9}{'leave/s':>9}{'frames':>8}{'bytes':>9}"
        f"{'both at once/s':>16}{'evict frames':>14}{'bytes':>9}{'s after time-out':>18}"
    )
    for size in sizes:
        town = await grow(size)
        try:
            joins, leaves = await one_by_one(town)
            together = await at_once(town)
            evicted, late = await evictions(town, 3)
        finally:
            await town.close()
        print(
            f"{size:>4}{joins.per_second:>8.1f}{joins.frames:>8.0f}{joins.bytes:>9,.0f}"
            f"{leaves.per_second:>9.1f}{leaves.frames:>8.0f}{leaves.bytes:>9,.0f}"
            f"{together.per_second:>16.1f}{evicted.frames:>14.0f}{evicted.bytes:>9,.0f}"
            f"{late:>18.2f}",
            flush=True,
        )
        if size == 16:
            # Two round trips and the news of it: 5 (N - 1), and what the newcomer says.
            bars.at_most("N=16: frames for a join / members", joins.frames / size, 8)
            bars.at_most("N=16: frames for a leave / members", leaves.frames / size, 8)
            bars.at_most("N=16: seconds from time-out to the view without it", late, 1.0)
