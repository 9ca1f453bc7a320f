"""A worker of a lab on many machines: runs nodes for a coordinator and sends it their logs.

It finds the coordinator, again and again if need be, until it is told that there is nothing more to
do.  When the connection breaks, the nodes of the run end and their logs go: the coordinator tries
the run again from its beginning.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import secrets
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from thence.config.values import is_loopback, is_name, split_address
from thence.engine.registry import ENGINES
from thence.errors import ThenceError, UnreachableError, UnusableInputError
from thence.lab.handshake import hello, is_host, is_welcome, is_worker_name
from thence.lab.orders import NODES_MAX
from thence.lab.processes import Crew, free_ports
from thence.lab.watch import Counts
from thence.lab.worker_link import BROKEN, Link
from thence.lab.worker_messages import (
    GREETING_S,
    NONCE_BYTES,
    PIECE_BYTES,
    Challenge,
    Drop,
    Failed,
    Fetch,
    FromCoordinator,
    Go,
    LogFile,
    Piece,
    Prepare,
    Prepared,
    Refused,
    Start,
    Stop,
    Stopped,
    Told,
    Welcome,
    from_coordinator,
    spoken,
)
from thence.trace.writer import file_stem
from thence.transport.base import Url

TELL_S: Final = 0.2
DIAL_S: Final = 5.0
BACK_OFF_S_MIN: Final = 0.2
BACK_OFF_S_MAX: Final = 5.0
ANY_HOST: Final = "0.0.0.0"
URL_CHARS_MAX: Final = 300
"""Of the address of a node; a host has up to 253."""

Say = Callable[[str], None]


class WorkerOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is told."""

    coordinator: str
    """HOST:PORT."""
    name: str
    advertise: str = ""
    """Where other workers reach this one, if that is not the address by which it reaches the
    coordinator."""
    seats: int = NODES_MAX
    """How many nodes it takes at most."""
    secret: bytes = b""
    stop_after_s: float | None = None

    def check(self) -> tuple[str, int]:
        """Where the coordinator is; UnusableInputError says what cannot be."""
        host_port = split_address(self.coordinator)
        if host_port is None:
            raise UnusableInputError(f"--coordinator {self.coordinator!r}: expected HOST:PORT")
        if not is_worker_name(self.name):
            raise UnusableInputError(f"--name {self.name!r}: expected a name")
        if self.advertise and not is_host(self.advertise):
            raise UnusableInputError(
                f"--advertise {self.advertise!r}: expected the name or address of this machine"
            )
        if not 1 <= self.seats <= NODES_MAX:
            raise UnusableInputError(f"--seats {self.seats}: expected 1 to {NODES_MAX}")
        if self.stop_after_s is not None and not self.stop_after_s > 0:  # nan is no time either
            raise UnusableInputError("--stop-after: expected more than 0 s")
        if not self.secret and not is_loopback(host_port[0]):
            raise UnusableInputError(
                f"--coordinator {self.coordinator} is another machine: give the secret of the lab "
                "(--secret-file)"
            )
        return host_port


async def work(options: WorkerOptions, say: Say) -> None:
    """Work until the coordinator says that that was all, or the time is over.

    ThenceError if the coordinator will never have this worker.
    """
    try:
        async with asyncio.timeout(options.stop_after_s):
            await _work(options, say)
    except TimeoutError:
        say(f"worker {options.name} goes: its time is over (--stop-after)")


async def _work(options: WorkerOptions, say: Say) -> None:
    wait_s, said = BACK_OFF_S_MIN, ""
    while True:
        try:
            link = await _dial(options)
            try:
                number = await _enter(link, options)
                say(f"worker {options.name} is number {number} of the lab at {link.address}")
                wait_s, said = BACK_OFF_S_MIN, ""
                reason = await Session(link, options.advertise, options.seats).serve()
                say(f"worker {options.name} goes: {reason}")
                return
            finally:
                await link.close()
        except BROKEN as error:
            if str(error) != said:  # the same again and again is said once
                said = str(error)
                say(f"{options.coordinator}: {said}; worker {options.name} tries again")
        await asyncio.sleep(wait_s * (0.5 + random.random() / 2))
        wait_s = min(2 * wait_s, BACK_OFF_S_MAX)


async def _dial(options: WorkerOptions) -> Link[FromCoordinator]:
    host, port = options.check()
    try:
        async with asyncio.timeout(DIAL_S):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError:
        raise UnreachableError(f"no answer within {DIAL_S:g} s") from None
    except OSError as error:
        raise UnreachableError(error.strerror or str(error)) from None
    return Link(reader, writer, from_coordinator)


async def _enter(link: Link[FromCoordinator], options: WorkerOptions) -> int:
    """Say who this is, and be let in under a number."""
    challenge = await link.receive(GREETING_S)
    if not isinstance(challenge, Challenge):
        raise UnreachableError("what answers there is no coordinator")
    nonce = secrets.token_bytes(NONCE_BYTES)
    host = options.advertise or link.own_host
    said = hello(challenge, options.secret, nonce, options.name, host, options.seats)
    await link.send(said)
    heard = await link.receive(GREETING_S)
    if isinstance(heard, Refused):
        raise _refusal(link, heard)
    if not isinstance(heard, Welcome) or not is_welcome(heard, said, options.secret):
        raise ThenceError(f"what answers at {link.address} does not know the secret of this lab")
    link.trust()
    return heard.number


def _refusal(link: Link[FromCoordinator], heard: Refused) -> ThenceError:
    reason = spoken(heard.reason)
    if heard.is_final:
        return ThenceError(f"the coordinator at {link.address} refuses this worker: {reason}")
    return UnreachableError(f"not now: {reason}")


class Session:
    """From the welcome to the end of the connection."""

    def __init__(self, link: Link[FromCoordinator], advertise: str, seats: int) -> None:
        self._link = link
        self._seats = seats
        self._bind = ANY_HOST if advertise else link.own_host
        self._job: Job | None = None
        self._reason = ""

    async def serve(self) -> str:
        """Why it was told to go; one of ``BROKEN`` if the connection breaks before that."""
        broken: Exception | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                others = [tasks.create_task(self._link.beat()), tasks.create_task(self._tell())]
                await self._listen()
                for task in others:
                    task.cancel()
        except* ThenceError as errors:
            broken = errors.exceptions[0]
        finally:
            self._end_job()
        if broken is not None:
            raise broken
        return self._reason

    async def _listen(self) -> None:
        while True:
            heard = await self._link.receive()
            if isinstance(heard, Go):
                self._reason = spoken(heard.reason)
                return
            if isinstance(heard, Refused):
                raise _refusal(self._link, heard)
            run = getattr(heard, "run", 0)
            try:
                await self._obey(heard)
            except (ThenceError, OSError) as error:
                if isinstance(error, BROKEN):
                    raise
                await self._link.send(Failed(run, str(error)))

    async def _obey(self, heard: FromCoordinator) -> None:
        if isinstance(heard, Prepare):
            await asyncio.to_thread(self._end_job)
            self._job = job = Job(heard, self._bind, self._seats)
            await self._link.send(Prepared(heard.run, job.ports))
        job_now = self._job
        if job_now is None or getattr(heard, "run", 0) != job_now.run:
            return
        if isinstance(heard, Start):
            await asyncio.to_thread(job_now.start, heard.addresses)
        elif isinstance(heard, Stop):
            async with job_now.lock:
                files = await asyncio.to_thread(job_now.stop)
            await self._link.send(Stopped(heard.run, files))
        elif isinstance(heard, Fetch):
            data = await asyncio.to_thread(job_now.piece, heard.file, heard.offset)
            await self._link.send(Piece(heard.run, heard.file, heard.offset, data))
        elif isinstance(heard, Drop):
            await asyncio.to_thread(self._end_job)

    async def _tell(self) -> None:
        """Say how far the nodes are, or that one of them has ended."""
        while True:
            await asyncio.sleep(TELL_S)
            job = self._job
            if job is None:
                continue
            try:
                async with job.lock:
                    counts = await asyncio.to_thread(job.counts)
            except ThenceError as error:
                if self._job is job:  # else it was ended while it was asked, and has a successor
                    await asyncio.to_thread(self._end_job)
                await self._link.send(Failed(job.run, str(error)))
            else:
                if counts:
                    await self._link.send(Told(job.run, counts))

    def _end_job(self) -> None:
        job, self._job = self._job, None
        if job is not None:
            job.end()


class Job:
    """The part of a run that is this worker's."""

    def __init__(self, prepare: Prepare, bind: str, seats: int) -> None:
        """ThenceError if this is nothing that it can run."""
        _check(prepare, seats)
        orders = prepare.orders
        self.run = prepare.run
        self.lock = asyncio.Lock()
        """Held while nodes are asked or stopped: one that was told to stop has not failed."""
        found = free_ports(len(prepare.names), bind)
        self.ports = dict(zip(prepare.names, found, strict=True))
        self._bind = bind
        self._orders = orders
        self._folder = Path(tempfile.mkdtemp(prefix="thence-worker-"))
        self._crew: Crew | None = None
        self._is_running = False
        self._files: dict[str, Path] = {}

    def start(self, addresses: dict[str, str]) -> None:
        """Start the nodes, once; ThenceError if these are not the addresses of the run's nodes."""
        if self._crew is not None:
            raise ThenceError("its nodes were started before")
        if addresses.keys() != set(self._orders.names):
            raise ThenceError("it was given addresses of other nodes than those of the run")
        if not all(map(_is_address, addresses.values())):
            raise ThenceError("it was given addresses that are none")
        self._crew = crew = Crew(self._orders)
        for name, port in self.ports.items():
            crew.start(name, addresses, self._folder, str(Url("tcp", self._bind, port)))
        self._is_running = True

    def counts(self) -> dict[str, Counts]:
        """How far they are, while they run."""
        return self._crew.counts() if self._crew is not None and self._is_running else {}

    def stop(self) -> tuple[LogFile, ...]:
        """Stop them; their logs."""
        self._is_running = False
        if self._crew is not None:
            self._crew.stop()
        folder = self._folder / file_stem(self._orders.group)
        self._files = {path.name: path for path in sorted(folder.glob("*.parquet"))}
        return tuple(_described(path) for path in self._files.values())

    def piece(self, file: str, offset: int) -> bytes:
        """Of a log; nothing else can be asked for."""
        path = self._files.get(file)
        if path is None or not 0 <= offset <= path.stat().st_size:
            raise ThenceError(f"there is no log {file[:80]!r}, or nothing at {offset}")
        with path.open("rb") as log:
            log.seek(offset)
            return log.read(PIECE_BYTES)

    def end(self) -> None:
        """End what still runs, and remove the logs; may be called again."""
        self._is_running = False
        if self._crew is not None:
            self._crew.end()
        shutil.rmtree(self._folder, ignore_errors=True)


def _check(prepare: Prepare, seats: int) -> None:
    """What a coordinator asks for becomes flags of processes and names of files."""
    orders, own = prepare.orders, prepare.names
    if not own or not set(own) <= set(orders.names):
        raise ThenceError("it was given nodes that are not of the run")
    if len(set(own)) < len(own) or len(set(orders.names)) < len(orders.names):
        raise ThenceError("it was given a node twice")
    if len(own) > seats:
        raise ThenceError(f"it was given {len(own)} nodes, and has {seats} seats")
    if orders.engine not in ENGINES:
        raise ThenceError(f"there is no engine {orders.engine[:80]!r}")
    for name in (orders.group, *orders.names):
        if not is_name(name):
            raise ThenceError(f"{name[:80]!r} is no name")
    delayed = {peer for node in orders.nodes for peer in (*node.delay_to, *node.vary_to)}
    if not delayed <= set(orders.names):
        raise ThenceError("it was given delays to nodes that are not of the run")


def _is_address(text: str) -> bool:
    """Whether this is where a node of a run may listen."""
    if len(text) > URL_CHARS_MAX:
        return False
    url = Url.parse(text)
    return url.scheme == "tcp" and is_host(url.host)


def _described(path: Path) -> LogFile:
    with path.open("rb") as log:
        digest = hashlib.file_digest(log, "sha256").digest()
    return LogFile(path.name, path.stat().st_size, digest)
