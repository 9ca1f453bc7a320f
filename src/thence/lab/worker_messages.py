"""What the coordinator of a lab and its workers say to each other, and the limits of that.

Each message is one frame (wire/frame.py) of kind ``KIND`` whose body is msgpack.  A conversation:

    coordinator                          worker
    Challenge                       ->
                                    <-   Hello        who it is, a proof that it knows the secret
    Welcome | Refused               ->                the coordinator's own proof
    Prepare                         ->                a run, and which of its nodes are here
                                    <-   Prepared     where they will listen
    Start                           ->                where all nodes of the run are
                                    <-   Told ...     how far they are
    Stop                            ->
                                    <-   Stopped      the logs that there are
    Fetch ...                       ->
                                    <-   Piece ...
    Drop                            ->                the logs may go; also ends a run that failed
    Go                              ->                that was all

``Beat`` goes both ways whenever there was nothing else, ``Failed`` ends a run from the worker.
Numbers of runs grow, so what is late of a former run is told apart.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from thence.errors import WireError
from thence.lab.orders import GroupOrders
from thence.lab.watch import Counts
from thence.wire.frame import frame

T = TypeVar("T")

VERSION: Final = 1
KIND: Final = 1
FRAME_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of a frame once both know each other; before, ``GREETING_BYTES_MAX`` of wire/frame.py."""
PIECE_BYTES: Final = 1024 * 1024
"""Of a log, in one message."""
NONCE_BYTES: Final = 32
NAME_CHARS_MAX: Final = 128
SENTENCE_CHARS_MAX: Final = 2000
FILES_MAX: Final = 10_000
"""Logs of one worker in one run."""
RUN_BYTES_MAX: Final = 16 * 1024 * 1024 * 1024
"""Of these logs together."""
WORKERS_MAX: Final = 1024
BEAT_S: Final = 1.0
SILENCE_S: Final = 20.0
"""Who says nothing for so long is gone."""
GREETING_S: Final = 5.0
"""Time to say hello."""


class Message(msgspec.Struct, frozen=True, tag=True):
    """Any of the following."""


class Challenge(Message, frozen=True):
    """The first word of a coordinator."""

    v: int
    nonce: bytes


class Hello(Message, frozen=True):
    """The answer of a worker."""

    v: int
    version: str
    """Of thence: runs are comparable only where it is the same everywhere."""
    name: str
    host: str
    """Where other workers reach its nodes."""
    seats: int
    """How many nodes it takes."""
    nonce: bytes
    proof: bytes


class Welcome(Message, frozen=True):
    """The worker is one of the workers now."""

    number: int
    """Of this worker, unique in the lab."""
    proof: bytes


class Refused(Message, frozen=True):
    """The end of the conversation."""

    reason: str
    is_final: bool = False
    """Whether it is useless to come again."""


class Prepare(Message, frozen=True):
    """A run, and the nodes of it that are to be here."""

    run: int
    orders: GroupOrders
    names: tuple[str, ...]


class Prepared(Message, frozen=True):
    """The port of each of these nodes."""

    run: int
    ports: dict[str, int]


class Start(Message, frozen=True):
    """Start the nodes: here is where everybody is."""

    run: int
    addresses: dict[str, str]


class Told(Message, frozen=True):
    """How far the nodes are."""

    run: int
    counts: dict[str, Counts]


class Stop(Message, frozen=True):
    """Have the nodes stop in order."""

    run: int


class LogFile(msgspec.Struct, frozen=True):
    """A file of a log."""

    name: str
    size_bytes: int
    sha256: bytes


class Stopped(Message, frozen=True):
    """They have stopped; these are their logs."""

    run: int
    files: tuple[LogFile, ...]


class Fetch(Message, frozen=True):
    """Send the piece of a log that begins there."""

    run: int
    file: str
    offset: int


class Piece(Message, frozen=True):
    """Of a log, ``PIECE_BYTES`` or the rest."""

    run: int
    file: str
    offset: int
    data: bytes


class Drop(Message, frozen=True):
    """End what still runs of the run, and remove its files."""

    run: int


class Failed(Message, frozen=True):
    """The worker could not do its part."""

    run: int
    sentence: str


class Beat(Message, frozen=True):
    """A sign of life."""


class Go(Message, frozen=True):
    """There is nothing more to do."""

    reason: str


FromCoordinator = Challenge | Welcome | Refused | Prepare | Start | Stop | Fetch | Drop | Beat | Go
FromWorker = Hello | Prepared | Told | Stopped | Piece | Failed | Beat

_encoder: Final = msgspec.msgpack.Encoder()
_from_coordinator: Final[msgspec.msgpack.Decoder[FromCoordinator]] = msgspec.msgpack.Decoder(
    FromCoordinator
)
_from_worker: Final[msgspec.msgpack.Decoder[FromWorker]] = msgspec.msgpack.Decoder(FromWorker)


def spoken(text: str) -> str:
    """What the other end says in words, fit to be shown: on one line, not long, and with nothing
    in it that a terminal would obey."""
    text = text[:SENTENCE_CHARS_MAX]
    return text if text.isprintable() else ascii(text)


def encode(message: Message) -> bytes:
    """As one frame."""
    return frame(KIND, _encoder.encode(message))


def from_coordinator(kind: int, body: bytes) -> FromCoordinator:
    """What a coordinator said; WireError if that is nothing a coordinator says."""
    return _decode(_from_coordinator, kind, body)


def from_worker(kind: int, body: bytes) -> FromWorker:
    """What a worker said; WireError if that is nothing a worker says."""
    return _decode(_from_worker, kind, body)


def _decode(decoder: msgspec.msgpack.Decoder[T], kind: int, body: bytes) -> T:
    if kind != KIND:
        raise WireError(f"a frame of kind {kind}; expected {KIND}")
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # The error may quote what was sent, and ends up on a terminal.
        raise WireError(spoken(f"not a message: {error}")) from None
