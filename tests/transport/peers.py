"""What tests of transports share: a handler that remembers, both event loops, certificates."""

from __future__ import annotations

import asyncio
import atexit
import shutil
import tempfile
from collections.abc import Callable, Coroutine
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from thence.transport.base import Connection, Listener, Transport, Url
from thence.transport.certificates import issue, make_authority
from thence.transport.registry import TransportOptions, make_transport
from thence.transport.tls import TlsFiles
from thence.transport.watch import Limits

LOOPS = ("asyncio", "uvloop")
PATIENCE_S = 20.0
"""A test that waits so long has failed; none waits nearly as long when it passes."""

each_loop = pytest.mark.parametrize("loop", LOOPS)


def run(loop: str, main: Coroutine[Any, Any, None]) -> None:
    """Run to the end; whatever the loop would only have logged is a failure too."""
    factory = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    unseen: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        async with asyncio.timeout(PATIENCE_S):
            await main
        await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(watched())
    assert not unseen


class Recorder:
    """A handler that keeps what it is told, checks the rules of handlers, and can be waited for."""

    def __init__(self, *, trusting: bool = False) -> None:
        self.trusting = trusting
        self.connections: list[Connection] = []
        self.frames: dict[Connection, list[tuple[int, bytes]]] = {}
        self.calls = 0
        """Of ``received``."""
        self.drains: list[Connection] = []
        self.closings: dict[Connection, str] = {}
        self._changed = asyncio.Event()

    def connected(self, connection: Connection) -> None:
        assert connection not in self.frames, "connected twice"
        self.connections.append(connection)
        self.frames[connection] = []
        if self.trusting:
            connection.trust()
        self._changed.set()

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        assert connection in self.frames, "received before connected"
        assert connection not in self.closings, "received after closed"
        assert frames
        self.calls += 1
        self.frames[connection] += frames
        self._changed.set()

    def drained(self, connection: Connection) -> None:
        assert connection not in self.closings, "drained after closed"
        self.drains.append(connection)
        self._changed.set()

    def closed(self, connection: Connection, reason: str) -> None:
        assert connection in self.frames, "closed before connected"
        assert connection not in self.closings, "closed twice"
        assert reason
        self.closings[connection] = reason
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until something that this handler is told makes the condition true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    async def first(self) -> Connection:
        """The first connection."""
        await self.until(lambda: self.connections)
        return self.connections[0]

    async def reason(self, connection: Connection) -> str:
        """Why it is closed, once it is."""
        await self.until(lambda: connection in self.closings)
        return self.closings[connection]


class Reports(list[tuple[str, str]]):
    """A Reporter that remembers."""

    def __call__(self, what: str, detail: str) -> None:
        self.append((what, detail))

    @property
    def kinds(self) -> list[str]:
        return [what for what, _ in self]


@cache
def certificates() -> tuple[Path, Path]:
    """Folders of an authority and of what it issued, made once."""
    folder = Path(tempfile.mkdtemp(prefix="thence-certificates-"))
    atexit.register(shutil.rmtree, folder)
    make_authority(folder / "authority")
    return folder / "authority", folder / "nodes"


@cache
def files_of(name: str) -> TlsFiles:
    """Key and certificate of a node."""
    authority, nodes = certificates()
    return issue(name, authority, nodes, force=True)


class World:
    """Two nodes, ``near`` that dials and ``far`` that listens, over one transport."""

    def __init__(self, scheme: str, limits: Limits | None = None) -> None:
        self.scheme = scheme
        self.near_reports, self.far_reports = Reports(), Reports()
        limits = limits or Limits()
        self.near_transport = self._make("near", limits, self.near_reports)
        self.far_transport = self._make("far", limits, self.far_reports)
        self.near, self.far = Recorder(), Recorder()

    def _make(self, name: str, limits: Limits, report: Reports) -> Transport:
        tls = files_of(name) if self.scheme == "tls" else None
        return make_transport(self.scheme, TransportOptions(limits=limits, report=report, tls=tls))

    async def listen(self) -> Listener:
        self.listener = await self.far_transport.listen(some_url(self.scheme), self.far)
        return self.listener

    async def connect(self) -> tuple[Connection, Connection]:
        """Both ends of a new connection."""
        known = set(self.far.connections)
        if not hasattr(self, "listener"):
            await self.listen()
        dialled = await self.near_transport.dial(self.listener.url, self.near)
        await self.far.until(lambda: set(self.far.connections) - known)
        (accepted,) = set(self.far.connections) - known
        return dialled, accepted

    async def end(self) -> None:
        """Close everything that is open, on both sides, and see it closed."""
        await self.listener.close()
        for side in (self.near, self.far):
            for connection in side.connections:
                connection.close("the test is over")
        for side in (self.near, self.far):
            await side.until(lambda side=side: len(side.closings) == len(side.connections))


def some_url(scheme: str) -> Url:
    """A place to listen."""
    return Url("mem", "far") if scheme == "mem" else Url(scheme, "127.0.0.1", 0)
