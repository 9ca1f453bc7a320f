"""Strangers and a member that breaks rules: everything that can be thrown at the ports of a node.

``Stranger`` speaks frames over any transport.  STRANGERS are attacks of somebody who is not a
member; BREACHES are what a member must not say, each a list of frames.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from thence.causal.dot import SEQ_BITS
from thence.message import Aside, Chain, Message, Phantom, VectorMessage
from thence.transport.base import Connection, Url
from thence.transport.registry import TransportOptions, make_transport
from thence.transport.tls import TlsFiles
from thence.wire import talk
from thence.wire.codec import encode, join_batch
from thence.wire.frame import FRAME_BYTES_MAX, frame

CHANNEL = 7
BOOT = 1 << 62


class Stranger:
    """One connection to a node, made by somebody who has read the source."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.reason = ""
        self.connection: Connection
        self._heard = asyncio.Event()

    def connected(self, connection: Connection) -> None:
        self.connection = connection
        connection.trust()

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        self.frames += frames
        self._heard.set()

    def drained(self, connection: Connection) -> None:
        pass

    def closed(self, connection: Connection, reason: str) -> None:
        self.reason = reason or "closed"
        self._heard.set()

    @staticmethod
    async def dial(url: str, tls: TlsFiles | None = None) -> Stranger:
        made = Stranger()
        transport = make_transport(Url.parse(url).scheme, TransportOptions(tls=tls))
        await transport.dial(Url.parse(url), made)
        return made

    def send(self, *frames: bytes) -> None:
        for each in frames:
            self.connection.send(each)

    async def wait(self, done: Callable[[], bool], limit_s: float = 10.0) -> None:
        async with asyncio.timeout(limit_s):
            while not done() and not self.reason:
                self._heard.clear()
                await self._heard.wait()

    async def until_closed(self, limit_s: float = 10.0) -> None:
        await self.wait(lambda: False, limit_s)

    def said(self, kind: int) -> list[bytes]:
        return [body for each, body in self.frames if each == kind]

    def refusals(self) -> list[talk.Refuse]:
        return [talk.read(body, talk.Refuse) for body in self.said(talk.REFUSE)]

    def leave(self) -> None:
        self.connection.close("enough")


class Seat:
    """A member's place in a group, taken by somebody who is there to break rules."""

    def __init__(self, name: str, group: str, members: tuple[str, ...]) -> None:
        self.name = name
        self.group = group
        self.members = members
        self.slot = members.index(name)

    def hello(self, boot: int = BOOT) -> bytes:
        return talk.hello(self.name, boot, "hostile")

    def open(self, **other: Any) -> bytes:
        said = {
            "channel": CHANNEL, "group": self.group, "engine": "tagged", "members": self.members,
            "have": 0, "limit": 1 << 30, "limit_bytes": 1 << 40,
        }  # fmt: skip
        return talk.open_group(talk.Open(**(said | other)))

    async def sit(self, url: str, tls: TlsFiles | None = None) -> tuple[Stranger, talk.Open]:
        """A connection on which the group is live, and how the node opened it."""
        stranger = await Stranger.dial(url, tls)
        stranger.send(self.hello(), self.open())
        opened: list[talk.Open] = []

        def is_open() -> bool:
            found = [talk.read(body, talk.Open) for body in stranger.said(talk.OPEN)]
            opened[:] = [each for each in found if each.group == self.group]
            return bool(opened)

        await stranger.wait(is_open)
        assert opened, f"{url}: {stranger.reason} {stranger.refusals()}"
        return stranger, opened[0]

    def message(
        self, seq: int, context: tuple[int, ...] | None = None, payload: bytes = b"m"
    ) -> bytes:
        """One message; unless told otherwise it comes after the one before."""
        if context is None:
            context = (at(self.slot, seq - 1),) if seq > 1 else ()
        return encode(Message(self.slot, seq, context, payload))

    def data(self, number: int, *messages: bytes, channel: int = CHANNEL) -> bytes:
        return talk.data(channel, number, join_batch(messages))


Breach = Callable[[Seat, talk.Open, int, random.Random], list[bytes]]
"""(the seat, how the node opened the group, the node's slot, chance) -> frames."""


def at(slot: int, seq: int) -> int:
    return slot << SEQ_BITS | seq


def _one(seat: Seat, has: talk.Open, context: tuple[int, ...], payload: bytes = b"m") -> bytes:
    """The next message, with this context."""
    return seat.data(has.have + 1, seat.message(has.have + 1, context, payload))


def _raw(number: int, message: Any) -> bytes:
    return talk.data(CHANNEL, number, join_batch([encode(message)]))


def _news(seat: Seat, *fields: Any) -> bytes:
    return talk.news(CHANNEL, Phantom(*fields))


def _too_many(seat: Seat, has: talk.Open, victim: int, chance: random.Random) -> list[bytes]:
    """All messages wait for one that will never be, so the node must hold each of them."""
    missing = (at(1 - min(victim, 1), 1 << 39),)
    each = [seat.message(has.have + 1 + i, missing) for i in range(has.limit - has.have + 1)]
    return [seat.data(has.have + 1 + i, *each[i : i + 999]) for i in range(0, len(each), 999)]


def _too_much(seat: Seat, has: talk.Open, victim: int, chance: random.Random) -> list[bytes]:
    """The same, within the limit of messages and beyond that of bytes."""
    missing, mib = (at(1 - min(victim, 1), 1 << 39),), b"x" * (1 << 20)
    count = has.limit_bytes // len(mib) + 2
    return [
        seat.data(number, seat.message(number, missing, mib))
        for number in range(has.have + 1, has.have + 1 + count)
    ]


def _streams(seat: Seat, has: talk.Open, victim: int, chance: random.Random) -> list[bytes]:
    aside = Aside("a/b", (), (), ())
    return [_raw(has.have + 1, Message(seat.slot, 1, (), b"", aside))]


def _vector(seat: Seat, has: talk.Open, victim: int, chance: random.Random) -> list[bytes]:
    return [_raw(has.have + 1, VectorMessage(seat.slot, (0,) * chance.randrange(9), b""))]


def _groups(seat: Seat, has: talk.Open, victim: int, chance: random.Random) -> list[bytes]:
    return [seat.open(channel=i % 60_000 + 8, group=f"g{i}") for i in range(100_000)]


def _big_groups(seat: Seat, has: talk.Open, victim: int, chance: random.Random) -> list[bytes]:
    many = tuple(f"{i:0200}" for i in range(4096))
    return [seat.open(channel=i + 8, group=f"g{i}", members=many) for i in range(20)]


_PACKED_CHAIN_OF_ONE = msgspec.msgpack.encode([[4, 0, 1, [b"m"]]])

BREACHES: dict[str, Breach] = {
    "gap": lambda s, o, v, r: [s.data(o.have + 2, s.message(o.have + 2))],
    "far gap": lambda s, o, v, r: [s.data(1 << 62, s.message(1))],
    "foreign origin": lambda s, o, v, r: [_raw(o.have + 1, Message(v, 1 << 20, (), b""))],
    "third origin": lambda s, o, v, r: [_raw(o.have + 1, Message(1 - min(v, 1), 9, (), b""))],
    "unknown origin": lambda s, o, v, r: [_raw(o.have + 1, Message(99, 1, (), b""))],
    "acks of what was not sent": lambda s, o, v, r: [talk.ack(CHANNEL, 1 << 40, 1, 1)],
    "short ack": lambda s, o, v, r: [frame(talk.ACK, b"\0\7")],
    "ack of no channel": lambda s, o, v, r: [talk.ack(CHANNEL + 1, 0, 0, 0)],
    "unsorted context": lambda s, o, v, r: [_one(s, o, (at(2, 1), at(1, 1)))],
    "origin twice": lambda s, o, v, r: [_one(s, o, (at(1, 1), at(1, 2)))],
    "unknown slot": lambda s, o, v, r: [_one(s, o, (at(9, 1),))],
    "itself in its context": lambda s, o, v, r: [_one(s, o, (at(s.slot, o.have + 1),))],
    "what the node has not sent": lambda s, o, v, r: [_one(s, o, (at(v, 1 << 39),))],
    "huge context": lambda s, o, v, r: [_one(s, o, tuple(at(i, 1) for i in range(5000)))],
    "context of all slots": lambda s, o, v, r: [_one(s, o, tuple(at(i, 1) for i in range(4000)))],
    "good then bad": lambda s, o, v, r: [
        s.data(o.have + 1, s.message(o.have + 1), s.message(o.have + 2, (at(9, 1),)))
    ],
    "bad then good": lambda s, o, v, r: [
        s.data(o.have + 1, s.message(o.have + 1, (at(9, 1),)), s.message(o.have + 2))
    ],
    "chain of another": lambda s, o, v, r: [_raw(o.have + 1, Chain(v, 2, [b"m"] * 3))],
    "chain far ahead": lambda s, o, v, r: [_raw(o.have + 1, Chain(s.slot, 1 << 39, [b"m"] * 3))],
    "chain of its first message": lambda s, o, v, r: [
        frame(talk.DATA, b"\0\7" + (o.have + 1).to_bytes(8, "big") + _PACKED_CHAIN_OF_ONE)
    ],
    "chain beyond the credit": lambda s, o, v, r: [
        _raw(o.have + 1, Chain(s.slot, o.have + 2, [b""] * 65_535))
    ],
    "another engine's message": _vector,
    "bad stream": _streams,
    "recipients nobody has": lambda s, o, v, r: [
        _raw(o.have + 1, Message(s.slot, o.have + 1, (), b"", Aside("", (), (), (77,))))
    ],
    "phantom of another": lambda s, o, v, r: [_news(s, v, 1, ())],
    "phantom far ahead": lambda s, o, v, r: [_news(s, s.slot, 1 << 39, ())],
    "phantom of nonsense": lambda s, o, v, r: [_news(s, s.slot, o.have + 1, (at(9, 1),))],
    "news that is a message": lambda s, o, v, r: [
        frame(talk.NEWS, b"\0\7" + s.message(o.have + 1))
    ],
    "the same open": lambda s, o, v, r: [s.open()],
    "another open": lambda s, o, v, r: [s.open(channel=CHANNEL + 1)],
    "open of other members": lambda s, o, v, r: [s.open(channel=9, members=("m", "n"))],
    "open of a foreign group": lambda s, o, v, r: [
        s.open(channel=9, group="main", members=("a", "b", "c"))
    ],
    "100,000 groups": _groups,
    "groups with huge lists": _big_groups,
    "hello again": lambda s, o, v, r: [s.hello()],
    "hello as another": lambda s, o, v, r: [talk.hello(s.members[1 - min(v, 1)], BOOT, "x")],
    "credit of messages": _too_many,
    "credit of bytes": _too_much,
    "empty data": lambda s, o, v, r: [frame(talk.DATA, b"\0\7")],
    "data of no messages": lambda s, o, v, r: [frame(talk.DATA, b"\0\7" + bytes(8) + b"x")],
    "ping of nothing": lambda s, o, v, r: [frame(talk.PING)],
    "a frame too large": lambda s, o, v, r: [(FRAME_BYTES_MAX + 1).to_bytes(4, "big")],
    "no length": lambda s, o, v, r: [bytes(4)],
    "deep nesting": lambda s, o, v, r: [frame(talk.OPEN, b"\x91" * 100_000)],
    "random bodies": lambda s, o, v, r: [
        frame(r.randrange(2, 9), r.randbytes(r.randrange(40))) for _ in range(200)
    ],
}

# ---- strangers -----------------------------------------------------------------------------------


class Door:
    """What a stranger can reach of one node."""

    def __init__(self, url: str, status: str, recorded: list[bytes]) -> None:
        self.url = url
        self.host, self.port = Url.parse(url).host, Url.parse(url).port
        self.is_udp = url.startswith("udp")
        self.status_port = int(status.rpartition(":")[2])
        self.recorded = recorded
        """Bytes that somebody sent to a node in earnest; datagrams each apart."""


async def throw(door: Door, pieces: list[bytes], port: int = 0, linger_s: float = 0.2) -> None:
    """Send bytes to a port, in pieces, and read what comes until it closes or time is over."""
    if door.is_udp and not port:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(
            asyncio.DatagramProtocol, remote_addr=(door.host, door.port)
        )
        for piece in pieces:
            transport.sendto(piece[:60_000])
            await asyncio.sleep(0)
        transport.close()
        return
    writer = None
    try:
        async with asyncio.timeout(linger_s):
            reader, writer = await asyncio.open_connection(door.host, port or door.port)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            while await reader.read(65_536):
                pass
    except (OSError, TimeoutError):
        pass
    finally:
        if writer is not None:
            writer.transport.abort()


async def several(count: int, make: Callable[[], Awaitable[None]]) -> None:
    await asyncio.gather(*(make() for _ in range(count)))


async def random_bytes(door: Door, chance: random.Random) -> None:
    await several(20, lambda: throw(door, [chance.randbytes(chance.randrange(1, 5000))]))


async def random_frames(door: Door, chance: random.Random) -> None:
    def some() -> bytes:
        return frame(chance.randrange(256), chance.randbytes(chance.randrange(100)))

    await several(20, lambda: throw(door, [some() for _ in range(5)]))


async def truncated_frames(door: Door, chance: random.Random) -> None:
    whole = talk.hello("a", BOOT, "cut")
    await several(20, lambda: throw(door, [whole[: chance.randrange(1, len(whole))]], 0, 0.05))


async def huge_lengths(door: Door, chance: random.Random) -> None:
    lengths = (0, 1 << 14, FRAME_BYTES_MAX, (1 << 32) - 1)
    heads = [length.to_bytes(4, "big") + b"\1" for length in lengths]
    await asyncio.gather(*(throw(door, [head, bytes(100_000)]) for head in heads))


async def wrong_hello(door: Door, chance: random.Random) -> None:
    def hello(*fields: Any) -> bytes:
        return frame(talk.HELLO, msgspec.msgpack.encode(fields))

    greetings = (
        ("other", 1, 1, "b", BOOT, ""),
        ("thence", 2, 9, f"v{chance.random()}", BOOT, "newer"),
        ("thence", 0, 0, f"v{chance.random()}", BOOT, "older"),
        ("thence", 1, 1, f"z{chance.random()}", BOOT, "a non-member"),
        ("thence", 1, 1, "a" * 300, BOOT, ""),
        ("thence", 1, 1, "b", -1, ""),
        ("thence", 1, 1, "b", (1 << 64) - 1, ""),
        ("thence",),
    )
    await asyncio.gather(*(throw(door, [hello(*said)]) for said in greetings))


async def slow_loris(door: Door, chance: random.Random) -> None:
    """Many that begin and go on slowly; those that came first are dropped for those that follow."""

    async def drip() -> None:
        if door.is_udp:  # a datagram is whole or nothing
            await throw(door, [talk.hello("b", BOOT, "slow")[:5]])
            return
        writer = None
        try:
            _, writer = await asyncio.open_connection(door.host, door.port)
            for byte in talk.hello("b", BOOT, "slow")[:6]:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.1)
        except OSError:
            pass
        finally:
            if writer is not None:
                writer.transport.abort()

    await several(150, drip)


async def flood(door: Door, chance: random.Random) -> None:
    await several(200, lambda: throw(door, [], 0, 0.01))


async def replay(door: Door, chance: random.Random) -> None:
    await throw(door, door.recorded)


async def bit_flips(door: Door, chance: random.Random) -> None:
    for _ in range(10):
        whole = bytearray(b"".join(door.recorded))
        for _ in range(chance.randrange(1, 4)):
            whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        pieces, start = [], 0
        for each in door.recorded:
            pieces.append(bytes(whole[start : start + len(each)]))
            start += len(each)
        await throw(door, pieces, 0, 0.1)


async def status_port(door: Door, chance: random.Random) -> None:
    requests = (
        chance.randbytes(300),
        b"GET /status HTTP/1.1\r\n",
        b"GET /status HTTP/9.9\r\n\r\n",
        b"POST /status HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n",
        b"A" * 100_000,
        b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 10_000,
        talk.hello("b", BOOT, "lost"),
    )
    await asyncio.gather(*(throw(door, [sent], door.status_port) for sent in requests))
    await several(60, lambda: throw(door, [b"G"], door.status_port, 0.2))


STRANGERS: dict[str, Callable[[Door, random.Random], Awaitable[None]]] = {
    each.__name__: each
    for each in (
        random_bytes, random_frames, truncated_frames, huge_lengths, wrong_hello, slow_loris,
        flood, replay, bit_flips, status_port,
    )
}  # fmt: skip
