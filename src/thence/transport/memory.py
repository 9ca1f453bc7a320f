"""``mem://name``: connections within one process and event loop, for tests and for embedding.

The connection is the one of tcp (stream.py) over a pipe in memory, so that frames, limits,
deadlines and closing are the same.  What is sent in a turn of the loop arrives in a later one,
``latency_s`` afterwards: bytes, in order.  A ``MemoryNetwork`` is the world in which names are
known; without one, all transports of an event loop share one.  Tests break connections on purpose
(``MemoryNetwork.break_off``, or ``abort`` of a connection): what was on its way is lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

from thence.errors import UnreachableError, UnusableInputError
from thence.transport.base import Handler, Reporter, Url
from thence.transport.stream import StreamConnection, Turn
from thence.transport.watch import DEFAULT_LIMITS, Limits, Watch

LISTENERS_MAX: Final = 4096
"""Names in one network."""


class MemoryNetwork:
    """Who listens under which name, and the pipes that were made."""

    def __init__(self) -> None:
        self.listeners: dict[str, MemoryListener] = {}
        self.pipes: dict[Pipe, str] = {}
        """One end of every connection, and the name that was dialled."""

    def break_off(self, name: str | None = None) -> int:
        """Break every connection that was dialled to this name (None: all); how many there were."""
        broken = [pipe for pipe, dialled in self.pipes.items() if name in (None, dialled)]
        for pipe in broken:
            pipe.abort()
        return len(broken)


_networks: WeakKeyDictionary[asyncio.AbstractEventLoop, MemoryNetwork] = WeakKeyDictionary()


def network_of_this_loop() -> MemoryNetwork:
    """The one that transports share when none was given."""
    return _networks.setdefault(asyncio.get_running_loop(), MemoryNetwork())


class MemoryListener:
    """Accepts connections to one name."""

    def __init__(self, url: Url, network: MemoryNetwork, handler: Handler, watch: Watch) -> None:
        self.url = url
        self.handler = handler
        self.watch = watch
        self.turn = Turn()
        self._network = network

    async def close(self) -> None:
        """Accept no more.  Connections stay."""
        if self._network.listeners.get(self.url.host) is self:
            del self._network.listeners[self.url.host]


class MemoryTransport:
    """Listens and dials within one event loop."""

    scheme = "mem"

    def __init__(
        self,
        *,
        network: MemoryNetwork | None = None,
        latency_s: float = 0.0,
        limits: Limits = DEFAULT_LIMITS,
        report: Reporter | None = None,
    ) -> None:
        self.latency_s = latency_s
        """Each way, on the connections that this transport dials."""
        self.limits = limits
        self._network = network
        self._report = report
        self._dialled = Watch(limits, report)
        self._turn = Turn()

    def _world(self) -> MemoryNetwork:
        return network_of_this_loop() if self._network is None else self._network

    async def listen(self, url: Url, handler: Handler) -> MemoryListener:
        """Take the name, which must be free."""
        network = self._world()
        if url.host in network.listeners:
            raise UnusableInputError(f"cannot listen on {url}: somebody in this process does")
        if len(network.listeners) >= LISTENERS_MAX:
            raise UnusableInputError(f"cannot listen on {url}: {LISTENERS_MAX} listen already")
        listener = MemoryListener(url, network, handler, Watch(self.limits, self._report))
        network.listeners[url.host] = listener
        return listener

    async def dial(self, url: Url, handler: Handler) -> StreamConnection:
        """Connect to the name."""
        await asyncio.sleep(self.latency_s)
        network = self._world()
        listener = network.listeners.get(url.host)
        if listener is None:
            raise UnreachableError(f"{url}: nobody listens there")
        here = StreamConnection(handler, self._dialled, self._turn, dialled=True)
        there = StreamConnection(listener.handler, listener.watch, listener.turn, dialled=False)
        near = Pipe(here, str(url), self.latency_s, network)
        far = Pipe(there, f"a caller of {url}", self.latency_s, network)
        near.other, far.other = far, near
        network.pipes[near] = url.host
        there.connection_made(far)
        here.connection_made(near)
        return here


class Pipe(asyncio.Transport):
    """One end of a connection in memory, as much of it as a StreamConnection uses."""

    def __init__(
        self,
        connection: StreamConnection,
        address: str,
        latency_s: float,
        network: MemoryNetwork,
    ) -> None:
        super().__init__({"peername": address})
        self.other: Pipe | None = None
        self._connection = connection
        self._latency_s = latency_s
        self._network = network
        # None is the end.  Timers of one moment may fire in any order, so they carry nothing.
        self._on_its_way: deque[bytes | None] = deque()
        self._size = 0
        self._high = self._low = 0
        self._paused = False
        self._ended = False
        self._lost = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high, self._low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return self._size

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._ended or self._lost:
            return
        self._size += len(data)
        self._put(bytes(data))
        if self._size > self._high and not self._paused:
            self._paused = True
            self._connection.pause_writing()

    def write_eof(self) -> None:
        if not self._ended and not self._lost:
            self._ended = True
            self._put(None)

    def close(self) -> None:
        """What was written still arrives."""
        self.write_eof()
        self._lose(None)

    def abort(self) -> None:
        """Both ends are told; what is on its way is lost."""
        self._lose(None)
        self._on_its_way.clear()
        if self.other is not None:
            self.other._on_its_way.clear()
            self.other._lose(ConnectionResetError(104, "the peer reset the connection"))

    def _put(self, data: bytes | None) -> None:
        self._on_its_way.append(data)
        loop = asyncio.get_running_loop()
        if self._latency_s:
            loop.call_later(self._latency_s, self._arrive)
        else:
            loop.call_soon(self._arrive)

    def _arrive(self) -> None:
        other = self.other
        if not self._on_its_way or other is None:
            return
        data = self._on_its_way.popleft()
        self._size -= len(data or b"")
        if not other._lost:
            if data is None:
                other._connection.eof_received()
                other.close()
            else:
                other._connection.data_received(data)
        if self._paused and self._size <= self._low:
            self._paused = False
            self._connection.resume_writing()

    def _lose(self, error: Exception | None) -> None:
        """Once, and in a later turn, as a loop does it."""
        if not self._lost:
            self._lost = True
            self._network.pipes.pop(self, None)
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, error)
