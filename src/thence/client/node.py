"""A node: one name, its addresses, and the groups it takes part in."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from thence.client.group import Group
from thence.client.joining import enter, join_again
from thence.client.kept import Kept
from thence.client.membership import Hooks, Restore, Snapshot
from thence.client.runtime import Runtime
from thence.client.station import DEFAULT_GROUP, Station, node_config
from thence.config import NodeConfig
from thence.engine.base import EngineOptions
from thence.errors import LocalProtocolError


class Node:
    """One node.  Its groups share its connections.

    ``async with Node("a", listen="tcp://127.0.0.1:7001", peers={"b": "tcp://127.0.0.1:7002"}) as
    node: group = await node.group()``
    """

    def __init__(
        self, name: str = "", *, config: NodeConfig | None = None, **settings: Any
    ) -> None:
        """``settings`` are fields of ``NodeConfig``; ``listen`` may be one address, ``data`` and
        ``trace`` name folders.  Or give a whole ``config``."""
        self._station = Station(node_config(name, config, settings))
        self.groups: dict[str, Group] = {}

    @property
    def config(self) -> NodeConfig:
        """Its settings."""
        return self._station.config

    @property
    def name(self) -> str:
        """Of the node."""
        return self._station.config.name

    @property
    def runtime(self) -> Runtime:
        """What it runs on; there once the node is started."""
        return self._station.runtime

    @property
    def addresses(self) -> list[str]:
        """Where it listens, with the ports that were chosen."""
        return [str(listener.url) for listener in self.runtime.listeners]

    @property
    def status_address(self) -> str:
        """HOST:PORT of its status page; empty without one."""
        return "" if self._station.status is None else self._station.status.address

    async def start(self) -> Node:
        """Listen and begin to dial."""
        await self._station.start()
        return self

    def know(self, peer: str, url: str) -> None:
        """Say where a peer can be reached, now or again: it may have moved."""
        self.runtime.hub.know(peer, url, self.runtime.now)
        self.runtime.turn()

    async def group(
        self,
        name: str = DEFAULT_GROUP,
        *,
        members: Sequence[str] | None = None,
        engine: str | None = None,
        options: EngineOptions | None = None,
        snapshot: Snapshot | None = None,
        restore: Restore | None = None,
        kept: Kept | None = None,
    ) -> Group:
        """Take part in a group.  ``members``: all of it, this node too; by default this node and
        all its peers.  The same at every member."""
        hooks = Hooks(snapshot, restore, kept)
        driver = await enter(self._station, name, members, engine, options, hooks)
        group = Group.of(driver, self._station)
        self.groups[name] = group
        return group

    async def rejoin(
        self, name: str = DEFAULT_GROUP, *, snapshot: Snapshot | None = None,
        restore: Restore | None = None, kept: Kept | None = None,
    ) -> Group:  # fmt: skip
        """Take part again in a group that this node is out of, as a new incarnation.

        The old ``Group`` is closed, and its events end.  What this node had sent and the group did
        not accept (``Evicted.rejected``) is not sent again by itself.  If nobody lets it in
        (``UnreachableError``) it may be tried again.
        """
        old = self.groups.get(name)
        if old is None or not old.is_out:
            raise LocalProtocolError(f"{self.name} is not out of {name}: there is nothing to join")
        old.close()
        driver = await join_again(self._station, old.driver, Hooks(snapshot, restore, kept))
        self.groups[name] = Group.of(driver, self._station)
        return self.groups[name]

    async def drain(self, drain_s: float | None = None) -> bool:
        """Take no more broadcasts, and wait until the members have what was sent; whether they
        do (``Group.drain``)."""
        if self._station.status is not None:
            self._station.status.stopping = True
        return all(await asyncio.gather(*(group.drain(drain_s) for group in self.groups.values())))

    async def aclose(self, ended: bool = False, drain_s: float | None = None) -> None:
        """Drain, say goodbye, let go; may be called again.

        ``ended``: write into the traces that they are complete.
        """
        await self.drain(drain_s)
        await self._station.stop()
        groups, self.groups = self.groups, {}
        for group in groups.values():
            group.close(ended)

    async def __aenter__(self) -> Node:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose(drain_s=None if kind is None else 0.0)
