"""What nodes say to each other on a connection, version 1: the kinds of frames and their bodies.

    kind        body                                          when
    1 HELLO     [magic, min, max, node, boot, software]       first, from both sides
    2 REFUSE    [code, sentence]                              instead of going on; then it is closed
    3 OPEN      [channel, group, engine, members, ...]        a group of this node, see ``Open``
    4 DATA      u16 channel, u64 number, batch of messages    the first has that number
    5 ACK       u16 channel, u64 have, u64 limit, u64 bytes   see ``Ack``
    6 NEWS      u16 channel, phantom                          what the sender has consumed
    7 PING      u64 token                                     are you there?
    8 PONG      u64 token                                     yes: the same token
    9 BYE       [code, sentence]                              nothing more comes; then it is closed
   10 COUNCIL   [group, message]                              about members, see membership.py

Arrays are MessagePack, numbers big endian.  A channel is the sender's number for a group on this
connection.  Messages are numbered by their sender within a group, from 1, in the order in which
it sent them: the *link number*.

How it may change: a field is added at the end of an array and has a default; readers ignore what
comes after the fields they know, and kinds they do not know.  Anything else is another version.
Peers talk in the largest version that both speak (``choose_version``).
"""

from __future__ import annotations

import struct
from typing import Annotated, Final, TypeVar

import msgspec

from thence.errors import WireError
from thence.message import Phantom
from thence.wire.codec import decode, encode
from thence.wire.frame import frame, frame_of

MAGIC: Final = "thence"
VERSION_MIN: Final = 1
VERSION_MAX: Final = 1

HELLO: Final = 1
REFUSE: Final = 2
OPEN: Final = 3
DATA: Final = 4
ACK: Final = 5
NEWS: Final = 6
PING: Final = 7
PONG: Final = 8
BYE: Final = 9
COUNCIL: Final = 10

# Why a connection is refused or ended; new codes are added at the end.
BAD_VERSION: Final = 1
WRONG_NAME: Final = 2
NOT_A_MEMBER: Final = 3
DIFFERENT_GROUP: Final = 4
LOST_JOURNAL: Final = 5
NONSENSE: Final = 6
REPLACED: Final = 7
STOPPING: Final = 8
TOO_MANY: Final = 9
YOUR_JOURNAL: Final = 10

NAME_CHARS_MAX: Final = 200
SENTENCE_CHARS_MAX: Final = 500
MEMBERS_MAX: Final = 4096

_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Channel = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
_Name = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
_Sentence = Annotated[str, msgspec.Meta(max_length=SENTENCE_CHARS_MAX)]


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """Who speaks, and which versions it speaks."""

    magic: _Name
    least: _Number
    most: _Number
    node: _Name
    boot: _Number
    """Another one for each start of the process: tells a restart from a second connection."""
    software: _Name = ""
    """For people."""
    is_newcomer: bool = False
    """It is a member nowhere yet, and takes no place of a member of the same name."""


class Refuse(msgspec.Struct, frozen=True, array_like=True):
    """Why it does not go on."""

    code: _Number
    sentence: _Sentence
    group: _Name = ""
    """With YOUR_JOURNAL: whose."""


class Open(msgspec.Struct, frozen=True, array_like=True):
    """A group that this node takes part in.  Data goes when both sides have opened it."""

    channel: _Channel
    group: _Name
    engine: _Name
    members: Annotated[tuple[_Name, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
    """In the order of their slots."""
    have: _Number
    """The link number up to which this node holds what the peer sent."""
    limit: _Number
    """The link number up to which the peer may send."""
    limit_bytes: _Number
    """Bytes that the peer may send on this connection, counted by ``message_bytes``."""
    stability: bool = True
    member: _Name = ""
    """In a group whose members change: which incarnation this is, as in ``a#2`` ..."""
    peer: _Name = ""
    """... and which it opens the group to."""
    life: _Number = 0
    """When that incarnation began, in microseconds; a journal remembers it.  0: it is not said."""


class Ack(msgspec.Struct, frozen=True):
    """What this node holds, and how much further the peer may go."""

    channel: int
    have: int
    limit: int
    limit_bytes: int


MESSAGE_BYTES_EXTRA: Final = 64


def message_bytes(payload: bytes) -> int:
    """What a message counts towards ``limit_bytes``: the same number at both ends."""
    return len(payload) + MESSAGE_BYTES_EXTRA


S = TypeVar("S", Hello, Refuse, Open)

_DATA: Final = struct.Struct(">HQ")
_ACK: Final = struct.Struct(">HQQQ")
_CHANNEL: Final = struct.Struct(">H")
_TOKEN: Final = struct.Struct(">Q")
DATA_HEAD_BYTES: Final = _DATA.size


def hello(
    node: str, boot: int, software: str, versions: tuple[int, int] = (VERSION_MIN, VERSION_MAX),
    is_newcomer: bool = False,
) -> bytes:  # fmt: skip
    """The frame that opens a connection."""
    said = Hello(MAGIC, *versions, node, boot, software, is_newcomer)
    if is_newcomer:
        return frame(HELLO, msgspec.msgpack.encode(said))
    return frame(HELLO, msgspec.msgpack.encode(msgspec.structs.astuple(said)[:-1]))


def refuse(code: int, sentence: str, group: str = "") -> bytes:
    """The frame that ends a connection which cannot go on."""
    said = (code, sentence[:SENTENCE_CHARS_MAX], group)
    return frame(REFUSE, msgspec.msgpack.encode(said if group else said[:2]))


def bye(code: int, sentence: str) -> bytes:
    """The frame that ends a connection in order."""
    return frame(BYE, msgspec.msgpack.encode((code, sentence[:SENTENCE_CHARS_MAX])))


def open_group(said: Open) -> bytes:
    """The frame that opens a group."""
    if said.member:
        return frame(OPEN, msgspec.msgpack.encode(said))
    return frame(OPEN, msgspec.msgpack.encode(msgspec.structs.astuple(said)[:-3]))


def data(channel: int, number: int, batch: list[bytes]) -> bytes:
    """The frame of a batch (``codec.join_batch``) whose first message has this number."""
    return frame_of(DATA, [_DATA.pack(channel, number), *batch])


def ack(channel: int, have: int, limit: int, limit_bytes: int) -> bytes:
    """The frame of an ``Ack``."""
    return frame(ACK, _ACK.pack(channel, have, limit, limit_bytes))


def news(channel: int, phantom: Phantom) -> bytes:
    """The frame of a phantom."""
    return frame(NEWS, _CHANNEL.pack(channel) + encode(phantom))


def ping(token: int) -> bytes:
    """The frame that asks for a sign of life."""
    return frame(PING, _TOKEN.pack(token))


def pong(token: int) -> bytes:
    """The frame that gives it."""
    return frame(PONG, _TOKEN.pack(token))


def read(body: bytes, form: type[S]) -> S:
    """The array in the body of a HELLO, REFUSE, BYE or OPEN, or WireError."""
    try:
        return msgspec.msgpack.decode(body, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"not a {form.__name__.lower()}: {error}") from None


def read_data(body: bytes) -> tuple[int, int, memoryview]:
    """Channel, number of the first message, and the batch, of a DATA frame."""
    if len(body) <= DATA_HEAD_BYTES:
        raise WireError(f"data of {len(body)} bytes has no messages")
    channel, number = _DATA.unpack_from(body)
    return channel, number, memoryview(body)[DATA_HEAD_BYTES:]


def read_ack(body: bytes) -> Ack:
    """What an ACK frame says."""
    if len(body) < _ACK.size:
        raise WireError(f"an acknowledgement of {len(body)} bytes; it has {_ACK.size}")
    return Ack(*_ACK.unpack_from(body))


def read_news(body: bytes) -> tuple[int, Phantom]:
    """Channel and phantom of a NEWS frame."""
    if len(body) <= _CHANNEL.size:
        raise WireError(f"news of {len(body)} bytes has no phantom")
    phantom = decode(body[_CHANNEL.size :])
    if not isinstance(phantom, Phantom):
        raise WireError("news that is not a phantom")
    return _CHANNEL.unpack_from(body)[0], phantom


def read_token(body: bytes) -> int:
    """The token of a PING or PONG."""
    if len(body) < _TOKEN.size:
        raise WireError(f"a token of {len(body)} bytes; it has {_TOKEN.size}")
    token: int = _TOKEN.unpack_from(body)[0]
    return token


def choose_version(mine: tuple[int, int], theirs: tuple[int, int]) -> int | None:
    """The largest version that both speak, or None."""
    version = min(mine[1], theirs[1])
    return version if version >= max(mine[0], theirs[0]) else None
