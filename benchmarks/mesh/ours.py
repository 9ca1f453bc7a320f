"""A group of thence over tcp: causal order and stability."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from benchmarks.mesh.load import NEVER, Load
from thence.client.events import Delivered, Stable
from thence.client.node import Node

NAMES = "abcdefghijklmnop"


class OurMesh:
    """One node."""

    def __init__(self, index: int, load: Load) -> None:
        self._name = NAMES[index]
        self._names = list(NAMES[: load.nodes])
        self._load = load
        self._stable = self._expected = 0
        self._reader: asyncio.Task[None] | None = None

    async def listen(self) -> int:
        self._node = await Node(self._name, listen="tcp://127.0.0.1:0").start()
        return int(self._node.addresses[0].rpartition(":")[2])

    async def connect(self, ports: list[int]) -> None:
        runtime = self._node.runtime
        for name, port in zip(self._names, ports, strict=True):
            if name < self._name:
                runtime.hub.know(name, f"tcp://127.0.0.1:{port}", runtime.now)
        self.group = await self._node.group(members=self._names)
        runtime.turn()
        while len(self.group.connected) < len(self._names) - 1:
            await asyncio.sleep(0.01)
        self.deliver_with("callbacks", None)

    def send(self, payloads: list[bytes]) -> None:
        taken = len(self.group.try_broadcast_many(payloads))
        assert taken == len(payloads), f"there was room for {taken} of {len(payloads)} messages"

    def deliver_with(self, how: str, each: Callable[[bytes], None] | None) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        self.group.on_deliver(None)
        self.group.on_stable(None)
        if how == "events":
            self._reader = asyncio.create_task(self._read())
            return
        many = how == "lists" and each is None
        self.group.on_stable(self._on_stable_many if many else self._on_stable, many)
        if each is not None:
            self.group.on_deliver(lambda tag: each(tag.payload))
        elif many:
            self.group.on_deliver(self._on_deliver_many, many)
        else:
            self.group.on_deliver(self._on_deliver)

    async def _read(self) -> None:
        deliver = self._load.deliver
        async for event in self.group.events():
            if type(event) is Delivered:
                deliver(event.payload)
            elif type(event) is Stable:
                self._stable += 1

    def _on_deliver(self, tag: Any) -> None:
        # Load.deliver, without a call in between.
        load = self._load
        load.got = got = load.got + 1
        load.got_bytes += len(tag.payload)
        if got >= load.wake_at:
            load.wake_at = NEVER
            load.wake()

    def _on_deliver_many(self, tags: list[Any]) -> None:
        load, size = self._load, 0
        for tag in tags:
            size += len(tag.payload)
        load.got_bytes += size
        load.got += len(tags)
        if load.got >= load.wake_at:
            load.wake_at = NEVER
            load.wake()

    def _on_stable(self, tag: Any) -> None:
        self._stable += 1

    def _on_stable_many(self, tags: list[Any]) -> None:
        self._stable += len(tags)

    def expect(self, messages: int) -> None:
        """So many of each node are to become stable."""
        self._stable = 0
        self._expected = messages * self._load.nodes

    def owed(self) -> bool:
        return self._stable < self._expected

    async def close(self) -> None:
        await self._node.aclose()
