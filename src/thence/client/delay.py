"""A slow link on purpose: what is sent to a peer is held back for a while (``--delay-to``).

A transport around another one.  Its connections are those of the other, and give each frame on some
time after it was sent, in order: if times vary (``--vary-to``), a frame also waits for those before
it.  Who is at the other end is known once it has said so; what was sent before that was not held
back.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Mapping

from thence.config.node import FaultConfig
from thence.link.spread import weibull_delays
from thence.transport.base import Connection, Handler, Listener, Transport, Url

WhoIsIt = Callable[[Connection], str]
"""The name of the node at the other end, or nothing while it is not known."""


Delays = Mapping[str, Callable[[], float]]
"""By peer: how long what is sent to it now is held back, in seconds."""


def delays_of(name: str, faults: FaultConfig) -> Delays:
    """The delays that a node was told; each link draws from a generator of its own."""
    found = {peer: _fixed(ms / 1000) for peer, ms in faults.delay_to.items()}
    for peer, ms in faults.vary_to.items():
        chance = random.Random(f"{faults.delay_seed} {name} {peer}")
        found[peer] = weibull_delays(ms / 1000, chance.weibullvariate)
    return found


def _fixed(delay_s: float) -> Callable[[], float]:
    return lambda: delay_s


class DelayedTransport:
    """A transport whose connections hold back what is sent to some peers."""

    def __init__(self, inner: Transport, delays: Delays, who: WhoIsIt) -> None:
        self.scheme = inner.scheme
        self._inner = inner
        self._delays = delays
        self._who = who

    async def listen(self, url: Url, handler: Handler) -> Listener:
        """As the other one."""
        return await self._inner.listen(url, _DelayedHandler(handler, self.delay_s))

    async def dial(self, url: Url, handler: Handler) -> Connection:
        """As the other one."""
        delayed = _DelayedHandler(handler, self.delay_s)
        return delayed.of(await self._inner.dial(url, delayed))

    def delay_s(self, connection: Connection) -> float:
        """How long a frame sent now on this connection is held back."""
        draw = self._delays.get(self._who(connection))
        return 0.0 if draw is None else draw()


class DelayedConnection:
    """One connection whose frames leave later."""

    def __init__(
        self, inner: Connection, handler: Handler, delay_s: Callable[[Connection], float]
    ) -> None:
        self.inner = inner
        self.dialled = inner.dialled
        self.address = inner.address
        self.peer_name = inner.peer_name
        self._handler = handler
        self._delay_s = delay_s
        self._loop = asyncio.get_running_loop()
        self._held: deque[tuple[float, bytes | None, str]] = deque()
        self._held_bytes = 0
        self._last_due = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    @property
    def backlog_bytes(self) -> int:
        """What is held back, and what the system has not taken."""
        return self._held_bytes + self.inner.backlog_bytes

    @backlog_bytes.setter
    def backlog_bytes(self, value: int) -> None:
        raise AttributeError("backlog_bytes is counted, not set")

    @property
    def sent_bytes(self) -> int:
        return int(getattr(self.inner, "sent_bytes", 0))

    @property
    def received_bytes(self) -> int:
        return int(getattr(self.inner, "received_bytes", 0))

    @property
    def stats(self) -> object:
        return getattr(self.inner, "stats", None)

    def send(self, data: bytes) -> None:
        """Send it later."""
        if not self._closing:
            self._put(data, "")

    def trust(self) -> None:
        """As the other one."""
        self.inner.trust()

    def close(self, reason: str) -> None:
        """Close after what was sent before has left."""
        if not self._closing:
            self._closing = True
            self._put(None, reason)

    def gone(self) -> None:
        """It is closed: nothing can leave any more."""
        self._closing = True
        self._held.clear()
        self._held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    def _put(self, data: bytes | None, reason: str) -> None:
        now = self._loop.time()
        # Never before what was sent earlier, also if the delay has just become shorter.
        due = self._last_due = max(self._last_due, now + self._delay_s(self))
        if due <= now and not self._held:
            self._release(data, reason)
            return
        self._held.append((due, data, reason))
        self._held_bytes += len(data or b"")
        if self._timer is None:
            self._timer = self._loop.call_at(due, self._ring)

    def _release(self, data: bytes | None, reason: str) -> None:
        if data is None:
            self.inner.close(reason)
        else:
            self.inner.send(data)

    def _ring(self) -> None:
        self._timer = None
        now = self._loop.time()
        while self._held and self._held[0][0] <= now:
            _, data, reason = self._held.popleft()
            self._held_bytes -= len(data or b"")
            self._release(data, reason)
        if self._held:
            self._timer = self._loop.call_at(self._held[0][0], self._ring)
        if not self._closing:
            self._handler.drained(self)


class _DelayedHandler:
    """Shows the owner delayed connections in place of those below."""

    def __init__(self, handler: Handler, delay_s: Callable[[Connection], float]) -> None:
        self._handler = handler
        self._delay_s = delay_s
        self._connections: dict[Connection, DelayedConnection] = {}

    def of(self, inner: Connection) -> Connection:
        found = self._connections.get(inner)
        return inner if found is None else found

    def connected(self, connection: Connection) -> None:
        delayed = DelayedConnection(connection, self._handler, self._delay_s)
        self._connections[connection] = delayed
        self._handler.connected(delayed)

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        self._handler.received(self._connections[connection], frames)

    def drained(self, connection: Connection) -> None:
        self._handler.drained(self._connections[connection])

    def closed(self, connection: Connection, reason: str) -> None:
        delayed = self._connections.pop(connection)
        delayed.gone()
        self._handler.closed(delayed, reason)
