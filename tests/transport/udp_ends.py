"""Owners of UDP connections that remember everything, and both ends of one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from thence.transport.base import Connection, Url
from thence.transport.udp import UdpTransport

Run = Callable[[Coroutine[Any, Any, None]], None]
SECONDS_MAX = 30.0
HERE = Url("udp", "127.0.0.1", 0)


class Owner:
    """Remembers everything."""

    def __init__(self, trusts: bool = True) -> None:
        self.trusts = trusts
        self.connections: list[Connection] = []
        self.frames: list[tuple[int, bytes]] = []
        self.calls: list[str] = []
        self.reasons: list[str] = []
        self.on_frames: Callable[[Connection, list[tuple[int, bytes]]], None] | None = None

    def connected(self, connection: Connection) -> None:
        self.calls.append("connected")
        self.connections.append(connection)
        if self.trusts:
            connection.trust()

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        assert "closed" not in self.calls
        self.frames += frames
        if self.on_frames is not None:
            self.on_frames(connection, frames)

    def drained(self, connection: Connection) -> None:
        self.calls.append("drained")

    def closed(self, connection: Connection, reason: str) -> None:
        self.calls.append("closed")
        self.reasons.append(reason)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS_MAX):
        while not condition():
            await asyncio.sleep(0.002)


class Ends:
    """A listener, a dialled connection and its accepted end."""

    def __init__(self, **settings: Any) -> None:
        self.reports: list[tuple[str, str]] = []
        self.transport = UdpTransport(
            report=lambda what, detail: self.reports.append((what, detail)), **settings
        )
        self.listening, self.dialling = Owner(), Owner()

    async def __aenter__(self) -> Ends:
        self.listener = await self.transport.listen(HERE, self.listening)
        self.dialled = await self.transport.dial(self.listener.url, self.dialling)
        await until(lambda: bool(self.listening.connections))
        self.accepted = self.listening.connections[0]
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in (self.dialled, self.accepted):
            connection.close("the test is over")
        await self.listener.close()
        await until(lambda: "closed" in self.dialling.calls and "closed" in self.listening.calls)
