"""One run on many workers, as the coordinator sees it.  Pure: messages in, effects out.

A worker goes through PREPARING, READY, RUNNING, STOPPING, SENDING, DONE; the run goes on to the
next of these when all workers are there.  What a worker says is checked against what it was asked:
nodes that are its own, files that are the logs of these nodes, pieces that were asked for, sizes
and checksums.  Whoever breaks that fails the run, by name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple

import msgspec

from thence.errors import ThenceError, UnusableInputError
from thence.lab.orders import GroupOrders
from thence.lab.watch import Counts, Watch
from thence.lab.worker_messages import (
    FILES_MAX,
    PIECE_BYTES,
    RUN_BYTES_MAX,
    Drop,
    Failed,
    Fetch,
    FromCoordinator,
    FromWorker,
    LogFile,
    Piece,
    Prepare,
    Prepared,
    Start,
    Stop,
    Stopped,
    Told,
    spoken,
)
from thence.trace.writer import file_stem
from thence.transport.base import Url

ANSWER_S: Final = 90.0
"""For the answer to any order but Start; nodes that are to stop are given some of it."""


class Seat(NamedTuple):
    """A worker that takes part: where its nodes are reached, and how many it takes."""

    host: str
    seats: int


class Write(NamedTuple):
    """Bytes to be added to a file of the run folder."""

    file: str
    data: bytes
    is_last: bool


class Effects(msgspec.Struct):
    """What is to be done, in this order."""

    send: list[tuple[str, FromCoordinator]] = []
    write: list[Write] = []


class Stage(IntEnum):
    """Of a worker in a run."""

    PREPARING = 1
    READY = 2
    RUNNING = 3
    STOPPING = 4
    SENDING = 5
    DONE = 6


def deal(names: list[str], workers: Mapping[str, Seat]) -> dict[str, list[str]]:
    """The nodes of each worker: one to each in turn, while there are seats."""
    seats = sum(seat.seats for seat in workers.values())
    if seats < len(names):
        raise UnusableInputError(
            f"{len(names)} nodes need seats, and the workers have {seats}: add workers "
            "(--workers) or seats (thence lab worker --seats)"
        )
    dealt: dict[str, list[str]] = {worker: [] for worker in workers}
    left = list(names)
    while left:
        for worker, seat in workers.items():
            if left and len(dealt[worker]) < seat.seats:
                dealt[worker].append(left.pop(0))
    return {worker: own for worker, own in dealt.items() if own}


class _Part:
    """What is known of one worker's part."""

    def __init__(self, names: list[str], host: str, now: float) -> None:
        self.names = names
        self.host = host
        self.stage = Stage.PREPARING
        self.asked = now  # when the last order went out
        self.files: list[LogFile] = []  # still to be fetched, the first one now
        self.offset = 0
        self.digest = hashlib.sha256()


class Assignment:
    """A run and its workers.  After ``begin``, call ``receive``, ``lost`` and ``tick``."""

    def __init__(
        self, run: int, orders: GroupOrders, workers: Mapping[str, Seat], now: float
    ) -> None:
        self.orders = orders
        self.failed = ""
        """Why the run has failed, in a sentence; it does nothing more then."""
        self.bad: str = ""
        """A worker that broke the rules: it is not to be trusted with more."""
        self._run = run
        dealt = deal(orders.names, workers)
        self._parts = {
            worker: _Part(names, workers[worker].host, now) for worker, names in dealt.items()
        }
        self._counts: dict[str, Counts] = {}
        self._ports: dict[str, str] = {}
        self._watch: Watch | None = None

    @property
    def is_done(self) -> bool:
        """Whether all logs are here."""
        return all(part.stage is Stage.DONE for part in self._parts.values())

    @property
    def delivered(self) -> int:
        """Deliveries so far, of ``orders.deliveries``."""
        return 0 if self._watch is None else self._watch.delivered

    def begin(self, out: Effects) -> None:
        """Give everybody its nodes."""
        for worker, part in self._parts.items():
            names = tuple(part.names)
            out.send.append((worker, Prepare(self._run, self.orders, names)))

    def drop(self, out: Effects) -> None:
        """Have everybody end what it does for this run."""
        out.send += [(worker, Drop(self._run)) for worker in self._parts]

    def lost(self, worker: str, why: str) -> None:
        """A worker is gone."""
        part = self._parts.get(worker)
        if part is not None and part.stage is not Stage.DONE:
            self._fail(f"worker {worker} is gone in the middle of {self.orders.group}: {why}")

    def tick(self, now: float, out: Effects) -> None:
        """Time has passed."""
        if self.failed or self.is_done:
            return
        if self._watch is not None and self._is_all(Stage.RUNNING):
            try:
                if self._watch.look(self._counts, now):
                    self._order(Stage.STOPPING, now)
                    out.send += [(worker, Stop(self._run)) for worker in self._parts]
            except ThenceError as error:
                self._fail(f"{self.orders.group}: {error}")
            return
        for worker, part in self._parts.items():
            is_asked = part.stage in (Stage.PREPARING, Stage.STOPPING, Stage.SENDING)
            if is_asked and now - part.asked > ANSWER_S:
                self._fail(
                    f"worker {worker} did not answer within {ANSWER_S:g} s in {self.orders.group} "
                    f"({part.stage.name.lower()})"
                )
                return

    def receive(self, worker: str, said: FromWorker, now: float, out: Effects) -> None:
        """A worker said something."""
        part = self._parts.get(worker)
        number = getattr(said, "run", self._run)
        if part is None or self.failed or number < self._run:
            return  # late, or of no interest
        if number > self._run:
            wrong = "it speaks of a run that there is not"
        elif isinstance(said, Failed):
            self._fail(f"worker {worker}: {spoken(said.sentence)}")
            return
        elif isinstance(said, Prepared):
            wrong = self._prepared(part, said, now, out)
        elif isinstance(said, Told):
            wrong = self._told(part, said)
        elif isinstance(said, Stopped):
            wrong = self._stopped(worker, part, said, now, out)
        elif isinstance(said, Piece):
            wrong = self._piece(worker, part, said, now, out)
        else:
            return
        if wrong:
            self.bad = worker
            self._fail(f"worker {worker} broke the rules: {wrong}")

    # Each returns what is wrong with what was said, or nothing.

    def _prepared(self, part: _Part, said: Prepared, now: float, out: Effects) -> str:
        if part.stage is not Stage.PREPARING:
            return "it was not asked to prepare"
        if sorted(said.ports) != sorted(part.names):
            return "it prepared other nodes than its own"
        if not all(1 <= port <= 65535 for port in said.ports.values()):
            return "it named ports that there are not"
        for name, port in said.ports.items():
            self._ports[name] = str(Url("tcp", part.host, port))
        part.stage = Stage.READY
        if self._is_all(Stage.READY):
            addresses = {name: self._ports[name] for name in self.orders.names}
            self._order(Stage.RUNNING, now)
            self._watch = Watch(self.orders, now)
            out.send += [(worker, Start(self._run, addresses)) for worker in self._parts]
        return ""

    def _told(self, part: _Part, said: Told) -> str:
        if part.stage < Stage.RUNNING:
            return "it told of nodes that were not started"
        if not said.counts.keys() <= set(part.names):
            return "it told of nodes that are not its own"
        if any(min(each.sent, each.delivered, each.stable) < 0 for each in said.counts.values()):
            return "it counted less than nothing"
        self._counts |= said.counts
        return ""

    def _stopped(self, worker: str, part: _Part, said: Stopped, now: float, out: Effects) -> str:
        if part.stage is not Stage.STOPPING:
            return "it was not asked to stop"
        if wrong := _wrong_files(said.files, part.names):
            return wrong
        part.stage = Stage.SENDING
        part.files = list(said.files)
        self._fetch(worker, part, now, out)
        return ""

    def _piece(self, worker: str, part: _Part, said: Piece, now: float, out: Effects) -> str:
        if part.stage is not Stage.SENDING:
            return "it sent a piece of a log that nobody asked for"
        file = part.files[0]
        if (said.file, said.offset) != (file.name, part.offset):
            return "it sent another piece of a log than it was asked for"
        if len(said.data) != min(PIECE_BYTES, file.size_bytes - part.offset):
            return f"a piece of {file.name} has the wrong size"
        part.offset += len(said.data)
        part.digest.update(said.data)
        is_last = part.offset == file.size_bytes
        if is_last and part.digest.digest() != file.sha256:
            return f"{file.name} has another checksum than it said"
        out.write.append(Write(file.name, said.data, is_last))
        if is_last:
            part.files.pop(0)
            part.offset, part.digest = 0, hashlib.sha256()
        self._fetch(worker, part, now, out)
        return ""

    def _fetch(self, worker: str, part: _Part, now: float, out: Effects) -> None:
        part.asked = now
        if part.files:
            out.send.append((worker, Fetch(self._run, part.files[0].name, part.offset)))
        else:
            part.stage = Stage.DONE

    def _order(self, stage: Stage, now: float) -> None:
        for part in self._parts.values():
            part.stage, part.asked = stage, now

    def _is_all(self, stage: Stage) -> bool:
        return all(part.stage is stage for part in self._parts.values())

    def _fail(self, sentence: str) -> None:
        self.failed = self.failed or sentence


def _wrong_files(files: tuple[LogFile, ...], names: list[str]) -> str:
    """What is wrong with the list of logs of these nodes, or nothing.

    A file has the name that a node gives to a segment of its log: it cannot lead out of a folder.
    """
    if len(files) > FILES_MAX:
        return f"it has {len(files):,} files; at most {FILES_MAX:,} are taken"
    if sum(max(0, file.size_bytes) for file in files) > RUN_BYTES_MAX:
        return f"its logs are larger than {RUN_BYTES_MAX:,} bytes"
    if any(file.size_bytes < 1 for file in files):
        return "a log of it has no bytes"
    stems = {file_stem(name) for name in names}
    seen: dict[str, str] = {}
    for file in files:
        found = re.fullmatch(r"(.+)-[0-9]{6,9}\.parquet", file.name)
        if found is None or found[1] not in stems:
            return f"{file.name[:80]!r} is no log of a node of its own"
        if file.name in seen:
            return f"{file.name} is there twice"
        seen[file.name] = found[1]
    missing = sorted(stems - set(seen.values()))
    return f"there is no log of {missing[0]}" if missing else ""
