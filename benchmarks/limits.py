"""How far a group over real sockets goes: members, message size, memory, time to reconnect.

    python -m benchmarks.limits [--members 4 8 16 32] [--only members,size,reconnect]

All nodes run in this process, on loopback, without journal and trace, so rates are those of one
core for all of them (benchmarks/mesh has a process for each).  docs/limits.md has the numbers.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import statistics
import time
from collections.abc import Sequence

from thence.client.group import Group
from thence.client.node import Node
from thence.config import TimingConfig
from thence.message import PAYLOAD_BYTES_MAX

MESSAGES = 20
"""Of each member, in the test of members."""
BREAKS = 20
AWAY_S = 3.0
WAIT_S = 120.0
PARTS = ("members", "size", "reconnect")


def resident_kib() -> float:
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1024


class Mesh:
    """Some nodes, each connected to all others."""

    def __init__(self, count: int, scheme: str = "tcp") -> None:
        self.names = [f"n{at:03}" for at in range(count)]
        self.nodes = {
            name: Node(name, listen=f"{scheme}://127.0.0.1:0", timing=TimingConfig(drain_s=0.0))
            for name in self.names
        }
        self.groups: dict[str, Group] = {}
        self._stable = dict.fromkeys(self.names, 0)

    async def __aenter__(self) -> Mesh:
        for node in self.nodes.values():
            await node.start()
        for name, node in self.nodes.items():
            for peer in self.names:
                if peer > name:  # one connection for a pair
                    node.know(peer, self.nodes[peer].addresses[0])
            group = self.groups[name] = await node.group(members=self.names)
            group.on_stable(lambda tag, name=name: self._told(name))
        return self

    async def __aexit__(self, *error: object) -> None:
        for node in self.nodes.values():
            await node.aclose()

    def _told(self, name: str) -> None:
        self._stable[name] += 1

    async def connected(self) -> None:
        for group in self.groups.values():
            await group.until_connected()

    async def all_stable(self, count: int) -> None:
        while min(self._stable.values()) < count:
            await asyncio.sleep(0.001)


async def members(counts: Sequence[int]) -> None:
    print("members  connected in s  KiB per node and connection  stable everywhere, messages/s")
    for count in counts:
        before, start = resident_kib(), time.perf_counter()
        async with Mesh(count) as mesh:
            async with asyncio.timeout(WAIT_S):
                await mesh.connected()
                connected_s = time.perf_counter() - start
                each_kib = (resident_kib() - before) / (count * (count - 1))
                start = time.perf_counter()
                for _ in range(MESSAGES):
                    for group in mesh.groups.values():
                        await group.broadcast(b"x" * 64)
                await mesh.all_stable(MESSAGES * count)
            rate = MESSAGES * count / (time.perf_counter() - start)
            print(f"{count:7}  {connected_s:14.2f}  {each_kib:27.1f}  {rate:30,.0f}", flush=True)


async def size() -> None:
    print("payload bytes  tcp: stable at 3 members in ms  udp: the same")
    for payload in (64, 1 << 10, 1 << 16, 1 << 20, PAYLOAD_BYTES_MAX):
        found = []
        for scheme in ("tcp", "udp"):
            async with Mesh(3, scheme) as mesh, asyncio.timeout(WAIT_S):
                await mesh.connected()
                times = []
                for number in range(1, 6):
                    start = time.perf_counter()
                    await mesh.groups["n000"].broadcast(bytes(payload))
                    await mesh.all_stable(number)
                    times.append(time.perf_counter() - start)
                found.append(1000 * statistics.median(times))
        print(f"{payload:13,}  {found[0]:29.1f}  {found[1]:13.1f}", flush=True)


async def reconnect() -> None:
    for scheme in ("tcp", "udp"):
        async with Mesh(2, scheme) as mesh, asyncio.timeout(WAIT_S):
            await mesh.connected()
            times = []
            for _ in range(BREAKS):
                hub = mesh.nodes["n000"].runtime.hub
                for connection in list(hub.links):
                    connection.refuse("broken", "for the benchmark")  # type: ignore[attr-defined]
                while mesh.groups["n000"].connected or mesh.groups["n001"].connected:
                    await asyncio.sleep(0)
                start = time.perf_counter()
                await mesh.connected()
                times.append(1000 * (time.perf_counter() - start))
        print(
            f"{scheme}: a connection that broke is back after {statistics.median(times):.0f} ms "
            f"(median of {BREAKS}; longest {max(times):.0f} ms)"
        )
    await away()


async def away() -> None:
    """A node that is away for a while and comes back at the same address."""
    here = Node("here", listen="tcp://127.0.0.1:0")
    there = Node("there", listen="tcp://127.0.0.1:0")
    await there.start()
    url = there.addresses[0]
    await here.start()
    here.know("there", url)
    group = await here.group(members=["here", "there"])
    await there.group(members=["here", "there"])
    await group.until_connected()
    await there.aclose(drain_s=0.0)
    await asyncio.sleep(AWAY_S)
    again = Node("there", listen=url)
    await again.start()
    start = time.perf_counter()
    await again.group(members=["here", "there"])
    await group.until_connected()
    print(
        f"tcp: a peer that was away for {AWAY_S:g} s and is only dialled is there again "
        f"{1000 * (time.perf_counter() - start):.0f} ms after it listens"
    )
    await here.aclose(drain_s=0.0)
    await again.aclose(drain_s=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--only", default=",".join(PARTS))
    given = parser.parse_args()
    chosen = given.only.split(",")
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ModuleNotFoundError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        if "members" in chosen:
            runner.run(members(given.members))
        if "size" in chosen:
            runner.run(size())
        if "reconnect" in chosen:
            runner.run(reconnect())


if __name__ == "__main__":
    main()
