"""Where the examples are played: the same script in the simulator and on a real group.

A script sees members that say and hear, links that can be held, and waits for what it wants to see:

    joey = await world.member("joey", heard)   # calls heard(sender, text, tag)
    joey.say("hello")                          # to all, or to=["ross"]
    world.hold("ross", "joey")                 # nothing passes between them, for now
    await world.until(lambda: ...)
    await world.settle()                       # all that is not held has arrived

A member hears itself too: at once, or in its place in the order where the engine gives one.

``Simulated`` chooses by its seed which message arrives next, in no time.  ``Real`` has nodes over
tcp on this machine; each link runs through a forwarder that can hold it.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import thence
from thence.sim.cluster import Cluster, Watcher

Heard = Callable[[str, str, Any], None]
GROUP = "thence"


class Member(Protocol):
    """One member of one group, as its application sees it."""

    name: str

    def say(self, text: str, to: Sequence[str] = ()) -> Any:
        """Send this; its tag."""


class World(Protocol):
    """Members and the links between them."""

    async def member(self, name: str, heard: Heard, group: str = GROUP) -> Member:
        """Take part in a group; ``heard`` is told the sender, the text and the tag."""

    def hold(self, one: str, other: str) -> None:
        """Let nothing pass between these two."""

    def release(self, one: str, other: str) -> None:
        """Let it pass again, and what has waited."""

    async def until(self, seen: Callable[[], bool]) -> None:
        """Let things happen until this is so."""

    async def settle(self) -> None:
        """Let everything arrive that is not held."""


Script = Callable[[World], Awaitable[Any]]


def simulated(script: Script, names: Sequence[str], engine: str, seed: int = 1) -> Any:
    """Play it in the simulator; what the script returns."""
    return asyncio.run(_play(script, Simulated(names, engine, seed)))


def real(script: Script, names: Sequence[str], engine: str) -> Any:
    """Play it on a real group; what the script returns."""
    return asyncio.run(_play(script, Real(names, engine)))


async def _play(script: Script, world: Any) -> Any:
    async with world:
        return await script(world)


# ---- in the simulator ----------------------------------------------------------------------------


class Simulated:
    """Members in a simulated cluster for each group."""

    def __init__(self, names: Sequence[str], engine: str, seed: int = 1) -> None:
        self.names = list(names)
        self._engine = engine
        self._chance = random.Random(seed)
        self._held: set[frozenset[str]] = set()
        self._groups: dict[str, Cluster] = {}
        self._heard: dict[tuple[str, str], Heard] = {}

    async def __aenter__(self) -> Simulated:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def member(self, name: str, heard: Heard, group: str = GROUP) -> Member:
        if group not in self._groups:
            spec = thence.ENGINES[self._engine]
            self._groups[group] = Cluster(spec, self.names, watchers=[_Ears(self, group)])
        self._heard[group, name] = heard
        return _SimulatedMember(self, name, group)

    def hold(self, one: str, other: str) -> None:
        self._held.add(frozenset((one, other)))

    def release(self, one: str, other: str) -> None:
        self._held.discard(frozenset((one, other)))

    async def until(self, seen: Callable[[], bool]) -> None:
        while not seen():
            if not any([self._step(cluster) for cluster in self._groups.values()]):
                raise RuntimeError("nothing more will happen, and it is not so")

    async def settle(self) -> None:
        while any([self._step(cluster) for cluster in self._groups.values()]):
            pass

    def _step(self, cluster: Cluster) -> bool:
        """Somebody does what is next, or a message arrives; False if there is nothing."""
        local = [choice for choice in cluster.choices() if choice[0] != "network"]
        if local:
            cluster.perform(local[0])
            return True
        # Links keep the order of sending, as those of real groups do.
        oldest: dict[tuple[int, int], int] = {}
        for at, (i, j, _) in enumerate(cluster.in_flight):
            if frozenset((self.names[i], self.names[j])) not in self._held:
                oldest.setdefault((i, j), at)
        while oldest:
            link = self._chance.choice(sorted(oldest))
            at = oldest.pop(link)
            if cluster.network_deliver(*cluster.in_flight[at]):
                del cluster.in_flight[at]
                return True
        return any([cluster.flush(i) for i in range(cluster.size)])

    def say(self, name: str, group: str, text: str, to: Sequence[str]) -> Any:
        cluster = self._groups[group]
        slots = [self.names.index(each) for each in to] or None
        tag = cluster.client_broadcast(self.names.index(name), text.encode(), to=slots)
        if not cluster.spec.own:
            self.hear(name, group, tag)
        return tag

    def hear(self, name: str, group: str, tag: Any) -> None:
        if (group, name) in self._heard:
            self._heard[group, name](self.names[tag.origin], tag.payload.decode(), tag)


class _SimulatedMember:
    def __init__(self, world: Simulated, name: str, group: str) -> None:
        self.name = name
        self._world = world
        self._group = group

    def say(self, text: str, to: Sequence[str] = ()) -> Any:
        return self._world.say(self.name, self._group, text, to)


class _Ears(Watcher):
    def __init__(self, world: Simulated, group: str) -> None:
        self._world = world
        self._group = group

    def consumed(self, node: int, tag: Any) -> None:
        self._world.hear(self._world.names[node], self._group, tag)


# ---- on a real group -----------------------------------------------------------------------------


class Real:
    """Members are nodes that listen on this machine."""

    def __init__(self, names: Sequence[str], engine: str) -> None:
        self.names = list(names)
        self._engine = engine
        self._nodes: dict[str, thence.Node] = {}
        self._links: dict[frozenset[str], _Link] = {}
        self._groups: list[thence.Group] = []
        self._changed = asyncio.Event()
        self._failed: Exception | None = None

    async def __aenter__(self) -> Real:
        for name in self.names:
            self._nodes[name] = await thence.Node(name, listen="tcp://127.0.0.1:0").start()
        found = []
        for name, peer in itertools.permutations(self.names, 2):
            link = self._links.setdefault(frozenset((name, peer)), _Link())
            found.append((name, peer, await link.forward(self._nodes[peer].addresses[0])))
        for name, peer, url in found:
            self._nodes[name].know(peer, url)
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        for link in self._links.values():
            link.open.set()
        drain_s = None if kind is None else 0.0
        await asyncio.gather(*(node.aclose(drain_s=drain_s) for node in self._nodes.values()))
        for link in self._links.values():
            await link.aclose()

    async def member(self, name: str, heard: Heard, group: str = GROUP) -> Member:
        joined = await self._nodes[name].group(group, members=self.names, engine=self._engine)

        names = joined.driver.members.names

        def hear(tag: Any) -> None:
            try:
                heard(names[tag.origin], tag.payload.decode(), tag)
            except Exception as error:  # to raise it where the script waits
                self._failed = self._failed or error
            self._changed.set()

        joined.on_deliver(hear)
        self._groups.append(joined)
        return _RealMember(joined, hear)

    def hold(self, one: str, other: str) -> None:
        self._links[frozenset((one, other))].open.clear()

    def release(self, one: str, other: str) -> None:
        self._links[frozenset((one, other))].open.set()

    async def until(self, seen: Callable[[], bool]) -> None:
        while self._failed is None and not seen():
            self._changed.clear()
            await self._changed.wait()
        if self._failed is not None:
            raise self._failed

    async def settle(self) -> None:
        quiet = 0
        while quiet < 3:  # who has just got something may be about to answer
            await asyncio.sleep(0.01)
            quiet = 0 if any(map(self._lacks, self._groups)) else quiet + 1

    def _lacks(self, group: thence.Group) -> bool:
        """Whether somebody who could have all that was sent there does not."""
        links = [self._links[frozenset((group.node, peer))] for peer in group.behind()]
        return any(link.open.is_set() for link in links)


class _RealMember:
    def __init__(self, group: thence.Group, hear: Callable[[Any], None]) -> None:
        self.name = group.node
        self._group = group
        self._hear = hear

    def say(self, text: str, to: Sequence[str] = ()) -> Any:
        tag = self._send(text.encode(), to) if to else self._group.try_broadcast(text.encode())
        if not self._group.driver.spec.own:
            self._hear(tag)
        return tag

    def _send(self, payload: bytes, to: Sequence[str]) -> Any:
        try:  # there is room: it is sent before it would wait for anything
            self._group.send(payload, to).send(None)
        except StopIteration as sent:
            return sent.value
        raise RuntimeError("the group is full")


class _Link:
    """Forwards what two nodes send each other, while it is open."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def forward(self, url: str) -> str:
        """Where to dial to get through to that address."""
        port = int(url.rpartition(":")[2])

        async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while data := await reader.read(1 << 16):
                    await self.open.wait()
                    writer.write(data)
                    await writer.drain()
            except ConnectionError:
                pass
            finally:
                writer.close()

        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                beyond = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:  # that node has ended
                writer.close()
                return
            for pair in ((reader, beyond[1]), (beyond[0], writer)):
                task = asyncio.create_task(pump(*pair))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self._servers.append(server)
        return f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def aclose(self) -> None:
        """Nothing passes any more."""
        for server in self._servers:
            server.close()
        await asyncio.gather(*self._tasks)
        for server in self._servers:
            await server.wait_closed()
