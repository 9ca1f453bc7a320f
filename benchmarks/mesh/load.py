"""What each process of a mesh does: the same for all contestants.

A node sends in ticks.  It is at most ``window`` messages ahead of what it has received of each
other on average, so that no contestant hides a backlog somewhere, and it waits without polling.
"""

from __future__ import annotations

import asyncio
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

PAYLOAD_BYTES = 64
_STAMP = struct.Struct("<q")
_PADDING = bytes(PAYLOAD_BYTES - _STAMP.size)
NEVER = 1 << 62


class Mesh(Protocol):
    """One node of a contestant.  It calls ``load.deliver`` with each payload of another node."""

    def send(self, payloads: list[bytes]) -> None:
        """One tick: these messages, to every other node."""

    def deliver_with(self, how: str, each: Callable[[bytes], None] | None) -> None:
        """How messages of others reach this process from now on; ``each`` or ``load.deliver``."""

    def owed(self) -> bool:
        """Whether something else than messages is to come (that they are stable, say)."""


class Load:
    """Counts what arrives, and sends."""

    def __init__(self, nodes: int) -> None:
        self.nodes = nodes
        self.got = 0
        self.got_bytes = 0
        self.wake_at = NEVER
        self.wake: Callable[[], None] = _nothing
        self.sent = 0
        self.marks: list[tuple[int, float]] = []

    def deliver(self, payload: bytes) -> None:
        """A message of another node."""
        self.got = got = self.got + 1
        self.got_bytes += len(payload)
        if got >= self.wake_at:
            self.wake_at = NEVER
            self.wake()

    def start(self) -> None:
        """Count from zero."""
        self.got = self.got_bytes = self.sent = 0
        self.wake_at = NEVER
        self.marks = []

    def room_at(self, window: int) -> int:
        """What must have been received before the next tick."""
        return (self.sent - window) * (self.nodes - 1)

    def result(self, start: float) -> dict[str, Any]:
        """What a run came to."""
        return {"got": self.got, "seconds": time.perf_counter() - start}


def _nothing() -> None: ...


def resident_kib() -> int:
    """Memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() // 1024


def stamped() -> bytes:
    """A payload that says when it was sent."""
    return _STAMP.pack(time.monotonic_ns()) + _PADDING


def age_us(payload: bytes) -> float:
    """How long ago a payload was sent, in another process of this machine."""
    sent: int = _STAMP.unpack_from(payload)[0]
    return (time.monotonic_ns() - sent) / 1000


class Ticker:
    """Runs a load on an event loop."""

    def __init__(self, mesh: Mesh, load: Load) -> None:
        self.mesh = mesh
        self.load = load
        self.loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] = self.loop.create_future()
        load.wake = self._woken
        self._scheduled = False
        self._payloads: list[bytes] = []
        self._messages = 0
        self._window = 0
        self._until = float("inf")
        self._slice = NEVER
        self._next_mark = NEVER

    async def run(
        self, messages: int, per_tick: int, window: int, slice_messages: int = 0
    ) -> dict[str, Any]:
        """Send so many messages, and wait for as many of every other node.  Others may have begun:
        ``load.start`` was called when all were still quiet.

        ``slice_messages``: note the time whenever this many were received of each other node.
        """
        load = self.load
        self._payloads = [bytes(PAYLOAD_BYTES)] * per_tick
        self._messages, self._window = messages, window
        self._done = self.loop.create_future()
        start = time.perf_counter()
        self._slice = slice_messages * (load.nodes - 1) or NEVER
        self._next_mark = self._slice
        self._tick()
        await self._done
        result = load.result(start)
        while self.mesh.owed():
            await asyncio.sleep(0.002)
        result["marks"] = load.marks
        return result

    def _target(self) -> int:
        return self._messages * (self.load.nodes - 1)

    def _tick(self) -> None:
        self._scheduled = False
        load = self.load
        if load.sent < self._messages:
            if load.got >= load.room_at(self._window):
                self.mesh.send(self._payloads)
                load.sent += len(self._payloads)
                self._scheduled = True
                self.loop.call_soon(self._tick)
                return
            load.wake_at = min(load.room_at(self._window), self._next_mark)
        else:
            load.wake_at = min(self._target(), self._next_mark)
        if load.got >= load.wake_at:
            load.wake_at = NEVER
            self._woken()

    def _woken(self) -> None:
        load = self.load
        if load.got >= self._next_mark:
            load.marks.append((load.got, time.perf_counter()))
            self._next_mark = load.got - load.got % self._slice + self._slice
        if load.sent >= self._messages and load.got >= self._target():
            if not self._done.done():
                self._done.set_result(None)
        elif not self._scheduled:
            self._scheduled = True
            self.loop.call_soon(self._tick)

    async def pace(self, per_second: float, seconds: float, offset_s: float) -> dict[str, Any]:
        """Send at a steady rate; the ages of what arrives, in microseconds."""
        ages: list[float] = []
        self.mesh.deliver_with("callbacks", lambda payload: ages.append(age_us(payload)))
        begin = self.loop.time() + 0.05 + offset_s
        for number in range(int(per_second * seconds)):
            await asyncio.sleep(begin + number / per_second - self.loop.time())
            self.mesh.send([stamped()])
        await asyncio.sleep(0.3)
        self.mesh.deliver_with("callbacks", None)
        return {"ages": ages[len(ages) // 10 :]}

    async def soak(self, seconds: float, per_tick: int, window: int) -> dict[str, Any]:
        """Send for so long as fast as it goes; resident memory once a second.

        Nodes end at different moments, so the last messages are not waited for.
        """
        load = self.load
        self._payloads = [bytes(PAYLOAD_BYTES)] * per_tick
        self._messages, self._window = NEVER, window
        self._slice = self._next_mark = NEVER
        memory: list[int] = []
        self._tick()
        end = self.loop.time() + seconds
        while self.loop.time() < end:
            await asyncio.sleep(1)
            memory.append(resident_kib())
        self._messages = load.sent
        await asyncio.sleep(0.5)
        return {"got": load.got, "memory": memory}
