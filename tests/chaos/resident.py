"""An application of an elastic group: it is told when to come and when to go, and may be killed.

    python resident.py SETTINGS.json

It broadcasts at a steady rate.  Its state is, of every member that ever was, how many messages it
has taken of it and a checksum over them in order, beside a ballast that makes the state large.  A
newcomer gets all of it by ``snapshot`` and ``restore``.

Orders come on stdin, a line each: ``enter [URL]`` (found the group, or join it there), ``doom``
(kill yourself in the middle of the next state that you hand over), ``quiet`` (broadcast no more),
``leave`` (leave the group and end), ``end`` (end, as a member to the last).

What it has to say goes into two files of its folder, so that it survives a kill:

    NAME.told    at what time (monotonic, shared by all processes of a machine), what, about whom
    NAME.sent    in microseconds.  ``b``, of each broadcast: when it was due, how late its call
                 began, how long it took, how much CPU time, how often it waited for room.
                 ``a``, of some deliveries: when it was due to be sent, its age when it was taken
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from thence.client.events import Delivered, Evicted, Joined, Left, Suspected, Trusted
from thence.client.group import Group
from thence.config import NodeConfig
from thence.telemetry.logs import start_logs

CHUNK_BYTES = 256 << 10
DOOM_CHUNKS = 24
"""Drawn before a doomed one dies: more than may be on their way, so the newcomer has some."""
AGES_OF = 8
"""One of so many deliveries is timed."""
WRITE_S = 0.25
END_S = 30.0


def now_us() -> int:
    return time.monotonic_ns() // 1000


class State:
    """What the applications of a group agree on."""

    def __init__(self, ballast: int = 0) -> None:
        self.members: dict[str, tuple[int, int]] = {}
        self.ballast = ballast
        """Chunks of it."""

    def take(self, origin: str, payload: bytes) -> None:
        count, check = self.members.get(origin, (0, 0))
        self.members[origin] = count + 1, crc32(payload, check)

    def digest(self) -> str:
        total = sum(count for count, _ in self.members.values())
        return f"{crc32(json.dumps(sorted(self.members.items())).encode()):08x}/{total}"

    def chunks(self, is_doomed: bool) -> Iterable[bytes]:
        """The state of this moment; the ballast is made as it is drawn."""
        head = json.dumps(self.members).encode()
        return self._draw(head, self.ballast, is_doomed)

    @staticmethod
    def _draw(head: bytes, ballast: int, is_doomed: bool) -> Iterator[bytes]:
        yield head
        for number in range(ballast):
            if is_doomed and number == DOOM_CHUNKS:
                os.kill(os.getpid(), signal.SIGKILL)
            yield number.to_bytes(4, "big") * (CHUNK_BYTES // 4)

    def restore(self, chunks: Iterator[bytes]) -> None:
        found = json.loads(next(chunks))
        self.members = {name: (count, check) for name, (count, check) in found.items()}
        self.ballast = 0
        for number, chunk in enumerate(chunks):
            if chunk != number.to_bytes(4, "big") * (CHUNK_BYTES // 4):
                raise ValueError(f"chunk {number} is another one")
            self.ballast += 1


class Resident:
    """One application."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._name: str = settings["node"]["name"]
        self._interval_us = int(settings["interval_s"] * 1e6)
        folder = Path(settings["folder"])
        # Closed by the end of the process, whatever kind of end that is.
        self._told = (folder / f"{self._name}.told").open("a", encoding="utf-8")
        self._sent = (folder / f"{self._name}.sent").open("a", encoding="utf-8")
        self._lines: list[str] = []
        self.state = State(settings["ballast"])
        self._group: Group | None = None
        self._is_quiet = self._is_doomed = self._is_ending = False
        self._waited = 0
        self._orders: asyncio.Queue[str] = asyncio.Queue()

    def tell(self, what: str, about: str = "") -> None:
        self._told.write(f"{now_us()} {what} {about}".rstrip() + "\n")
        self._told.flush()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._read)
        self.tell("ready")
        while True:
            order, *rest = (await self._orders.get()).split()
            if order == "enter":
                await self._enter(rest)
            elif order == "doom":
                self._is_doomed = True
            elif order == "quiet":
                self._is_quiet = True
            elif order in ("leave", "end"):
                await self._finish(order == "leave")
                return

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 4096)
        if not data:  # whoever gave the orders is gone
            os._exit(3)
        for line in data.decode().splitlines():
            self._orders.put_nowait(line)

    async def _enter(self, contacts: list[str]) -> None:
        node = dict(self._settings["node"])
        if contacts:
            node["membership"] = {**node["membership"], "join": contacts}
            node["peers"] = {}
        group = Group(
            config=msgspec.convert(node, NodeConfig),
            snapshot=lambda: self.state.chunks(self._is_doomed),
            restore=self.state.restore,
        )
        await group.start()
        self._group = group
        self.tell("up", group.addresses[0])
        until_room = group.until_room

        async def counted() -> None:
            self._waited += 1
            await until_room()

        group.until_room = counted  # type: ignore[method-assign]
        self._taking = asyncio.create_task(self._guard(self._take(group)))
        self._sending = asyncio.create_task(self._guard(self._send(group)))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        """What fails must be seen, and not be a member that takes no part."""
        try:
            await work
        except Exception as error:
            self.tell("failed", repr(error))
            traceback.print_exc()
            os._exit(1)

    async def _finish(self, leaves: bool) -> None:
        group = self._group
        if group is not None:
            self._is_quiet = self._is_ending = True
            await self._sending
            if leaves:
                self.tell("left" if await group.leave(END_S) else "stays")
            await group.aclose(drain_s=0, ended=True)
            await self._taking
        self._write()
        self.tell("ended")

    async def _send(self, group: Group) -> None:
        due = now_us()
        write_at = due
        number = 0
        while not self._is_quiet:
            due += self._interval_us
            await asyncio.sleep(max(0, due - now_us()) / 1e6)
            number += 1
            payload = f"{due} {number} ".encode().ljust(64, b".")
            waited, cpu, start = self._waited, time.thread_time_ns(), now_us()
            await group.broadcast(payload)
            end, cpu = now_us(), (time.thread_time_ns() - cpu) // 1000
            self.state.take(group.node, payload)
            waits = self._waited - waited
            self._lines.append(f"b {due} {start - due} {end - start} {cpu} {waits}")
            if end > write_at + WRITE_S * 1e6:
                write_at = end
                self._write()
        self._write()
        while not self._is_ending:
            self.tell("state", f"{self.state.digest()} {group._driver.unstable}")
            await asyncio.sleep(WRITE_S)

    async def _take(self, group: Group) -> None:
        async for event in group.events():
            if isinstance(event, Delivered):
                tag = event.tag
                self.state.take(tag.dot.node, event.payload)
                if tag.seq % AGES_OF == 0:
                    due = int(event.payload.split(b" ")[0])
                    self._lines.append(f"a {due} {now_us() - due}")
            elif isinstance(event, Joined | Left | Evicted | Suspected | Trusted):
                self.tell(type(event).__name__.lower(), event.member)

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        self._sent.write("".join(f"{line}\n" for line in lines))
        self._sent.flush()


if __name__ == "__main__":
    start_logs("warning")
    given = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        import uvloop

        factory = uvloop.new_event_loop
    except ModuleNotFoundError:
        factory = None
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(Resident(given).run())
