"""Nodes of the store in one event loop, that can be cut off from each other; clients of Redis."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from tests.client.meshes import QUICK
from thence.store.node import Store
from thence.store.settings import Settings
from thence.transport.memory import network_of_this_loop

PATIENCE_S = 20.0


class World:
    """Some nodes, each with one client."""

    def __init__(self, stores: dict[str, Store], clients: dict[str, Any]) -> None:
        self.stores = stores
        self.clients = clients
        self._hidden: dict[str, Any] = {}

    async def do(self, name: str, line: str) -> Any:
        """The reply to a command, as redis-py gives it."""
        return await self.clients[name].execute_command(*shlex.split(line))

    async def cut(self) -> None:
        """No node reaches another."""
        network = network_of_this_loop()
        self._hidden |= network.listeners
        network.listeners.clear()
        network.break_off()
        await until(lambda: not any(store.group.connected for store in self.stores.values()))

    async def heal(self) -> None:
        """They do again, and have what they missed."""
        network = network_of_this_loop()
        network.listeners.update(self._hidden)
        self._hidden.clear()
        others = len(self.stores) - 1
        await until(lambda: all([len(s.group.connected) == others for s in self.stores.values()]))
        await self.synced()

    async def synced(self) -> None:
        """Until all have the same."""
        replicas = [store.replica for store in self.stores.values()]
        await until(lambda: all([each.seen() == replicas[0].seen() for each in replicas[1:]]))

    async def stable(self) -> None:
        """Until all is stable everywhere."""
        replicas = [store.replica for store in self.stores.values()]
        await until(lambda: not any([each.unstable for each in replicas]))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def world(names: Sequence[str] = "ab", **settings: Any) -> AsyncIterator[World]:
    """Nodes that are all connected."""
    urls = {name: f"mem://{name}" for name in names}
    stores = {
        name: Store(
            name, listen=urls[name], peers={n: url for n, url in urls.items() if n != name},
            settings=Settings(port=0), **{"timing": QUICK, **settings},
        )
        for name in names
    }  # fmt: skip
    clients: dict[str, Any] = {}
    try:
        for name, store in stores.items():
            await store.start()
            clients[name] = client_of(store)
        for store in stores.values():
            await store.group.until_connected()
        yield World(stores, clients)
    finally:
        for client in clients.values():
            await client.aclose()
        await asyncio.gather(*(store.aclose() for store in stores.values()))


def client_of(store: Store, **options: Any) -> Any:
    """A client of Redis; texts instead of bytes."""
    host, _, port = store.address.rpartition(":")
    retry = Retry(NoBackoff(), 0)  # a request is made once
    return Redis(host=host, port=int(port), decode_responses=True, retry=retry, **options)


def shown(reply: Any) -> str:
    """A reply as a line of a schedule has it: sets and hashes in order, nil for nothing."""
    if reply is None:
        return "nil"
    if isinstance(reply, set):
        return " ".join(sorted(map(shown, reply)))
    if isinstance(reply, dict):
        return " ".join(f"{shown(key)} {shown(value)}" for key, value in sorted(reply.items()))
    if isinstance(reply, list | tuple):
        return " ".join(map(shown, reply))
    return str(int(reply)) if isinstance(reply, bool) else str(reply)
