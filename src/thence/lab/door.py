"""Where the workers of a lab come in: connections, who is let in, and what workers say."""

from __future__ import annotations

import asyncio
import secrets
from typing import Final

import msgspec

from thence.config.values import is_loopback, split_address
from thence.errors import UnreachableError, UnusableInputError, WireError
from thence.lab.assignment import Seat
from thence.lab.handshake import judge, welcome
from thence.lab.worker_link import BROKEN, Link
from thence.lab.worker_messages import (
    GREETING_S,
    NONCE_BYTES,
    VERSION,
    WORKERS_MAX,
    Beat,
    Challenge,
    FromWorker,
    Go,
    Hello,
    Message,
    Refused,
    Welcome,
    from_worker,
)

STRANGERS_MAX: Final = 64
"""Connections that have not said who they are; more are closed at once."""
INBOX_MESSAGES_MAX: Final = 32
"""Each may be as large as a frame; who says more waits until it is heard."""
WAIT_S_MAX: Final = 86_400.0
GOODBYE_S: Final = 5.0
"""A worker that was told to go is given so long."""


class WorkersOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the coordinator is told."""

    listen: str
    """HOST:PORT for workers; port 0 chooses one."""
    workers: int
    """It waits for so many."""
    wait_s: float = 300.0
    """For so long."""
    secret: bytes = b""

    def check(self) -> tuple[str, int]:
        """Where to listen; UnusableInputError says what cannot be."""
        host_port = split_address(self.listen)
        if host_port is None:
            raise UnusableInputError(f"--listen {self.listen!r}: expected HOST:PORT")
        if not 1 <= self.workers <= WORKERS_MAX:
            raise UnusableInputError(f"--workers {self.workers}: expected 1 to {WORKERS_MAX:,}")
        if not 0 < self.wait_s <= WAIT_S_MAX:
            raise UnusableInputError(
                f"--wait-s {self.wait_s:g}: expected more than 0, at most {WAIT_S_MAX:,.0f} s"
            )
        if not self.secret and not is_loopback(host_port[0]):
            raise UnusableInputError(
                f"--listen {self.listen} can be reached from other machines: give a secret that "
                "workers must know (--secret-file)"
            )
        return host_port


class Worker(msgspec.Struct, eq=False):
    """A worker that was let in, for as long as its connection lasts."""

    name: str
    seat: Seat
    link: Link[FromWorker]
    why: str = ""
    """Why it is gone."""


class Door:
    """Lets workers in; made and used in one event loop."""

    def __init__(self, options: WorkersOptions) -> None:
        self.workers: dict[str, Worker] = {}
        """Those that are here, by name."""
        self.refused = ""
        """Who was not let in last, and why."""
        self.address = ""
        """HOST:PORT where it listens."""
        self.inbox: asyncio.Queue[tuple[Worker, FromWorker]] = asyncio.Queue(INBOX_MESSAGES_MAX)
        """What they say; signs of life are left out."""
        self._options = options
        self._numbers = 0
        self._strangers = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen; UnusableInputError if that cannot be."""
        host, port = self._options.check()
        try:
            self._server = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            raise UnusableInputError(
                f"--listen {self._options.listen}: {error.strerror or error}"
            ) from None
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def close(self, reason: str) -> None:
        """End all connections; may be called again.  With a reason the workers are told to go."""
        if self._server is not None:
            self._server.close()
        if reason:
            for worker in list(self.workers.values()):
                await self.send(worker, Go(reason))
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=GOODBYE_S if self.workers else 0)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def send(self, worker: Worker, message: Message) -> None:
        """Say something to a worker; one that cannot be reached is gone."""
        try:
            await worker.link.send(message)
        except UnreachableError as error:
            worker.why = worker.why or str(error)
            await self._part_with(worker)

    async def expel(self, worker: Worker, reason: str) -> None:
        """Send away who breaks the rules."""
        worker.why = reason
        await self.send(worker, Refused(reason, is_final=True))
        await self._part_with(worker)

    async def _part_with(self, worker: Worker) -> None:
        """It is no worker from now on, even if its connection takes time to end."""
        self._forget(worker)
        await worker.link.close()

    def _forget(self, worker: Worker) -> None:
        if self.workers.get(worker.name) is worker:  # another may have its name by now
            del self.workers[worker.name]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        link = Link(reader, writer, from_worker)
        try:
            if self._strangers < STRANGERS_MAX:
                await self._greet(link)
        except asyncio.CancelledError:
            pass  # the door closes
        finally:
            self._tasks.discard(task)
            await link.close()

    async def _greet(self, link: Link[FromWorker]) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        self._strangers += 1
        try:
            await link.send(Challenge(VERSION, nonce))
            said = await link.receive(GREETING_S)
            if not isinstance(said, Hello):
                raise WireError("it did not say who it is")
            no = judge(said, self._options.secret, nonce) or self._no_room(said.name)
            if no is not None:
                self.refused = f"{said.name[:80]!r} at {link.address}: {no.reason}"
                await link.send(no)
                return
        except BROKEN as error:
            self.refused = f"{link.address}: {error}"
            return
        finally:
            self._strangers -= 1
        link.trust()
        self._numbers += 1
        worker = Worker(said.name, Seat(said.host, said.seats), link)
        await self._attend(worker, welcome(said, self._options.secret, self._numbers))

    def _no_room(self, name: str) -> Refused | None:
        if name in self.workers:
            return Refused(f"a worker {name} is here already")
        if len(self.workers) >= self._options.workers:
            return Refused(f"all {self._options.workers} workers are here")
        return None

    async def _attend(self, worker: Worker, first: Welcome) -> None:
        """Until it is gone."""
        self.workers[worker.name] = worker
        try:
            await worker.link.send(first)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(worker.link.beat())
                tasks.create_task(self._listen(worker))
        except* BROKEN as errors:
            worker.why = worker.why or str(errors.exceptions[0])
        finally:
            self._forget(worker)

    async def _listen(self, worker: Worker) -> None:
        while True:
            said = await worker.link.receive()
            if not isinstance(said, Beat):
                await self.inbox.put((worker, said))
