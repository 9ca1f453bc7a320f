"""Two open ends of a link, and packets made by hand."""

from __future__ import annotations

import struct

from thence.link.datagram import ACCEPT, ASK, HEAD, HEAD_BYTES, VERSION, kind_of, sealed
from thence.link.options import LinkOptions
from thence.link.reliable import Link

ID = 7


def ends(options: LinkOptions | None = None) -> tuple[Link, Link]:
    """Two open ends at time 0."""
    pair = tuple(Link(ID, 0.0, dialled=False, options=options or LinkOptions()) for _ in "ab")
    for link in pair:
        assert [kind_of(datagram) for datagram in link.outgoing(0.0)] == [ACCEPT]
    return pair[0], pair[1]


def packet(
    kind: int,
    number: int = 0,
    payload: bytes = b"",
    ack: int = 0,
    window: int = 256,
    bits: int = 0,
    connection: int = ID,
) -> bytes:
    selective = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    head = HEAD.pack(VERSION, kind, connection, number, ack, window, len(selective))
    return sealed(head + selective + payload)


def message(text: bytes) -> bytes:
    return struct.pack(">I", len(text)) + text


def head(datagram: bytes) -> tuple[int, int, int, int]:
    """(kind, number, ack, selective bits)."""
    _, kind, _, number, ack, _, size = HEAD.unpack_from(datagram)
    bits = int.from_bytes(datagram[HEAD_BYTES : HEAD_BYTES + size], "little")
    return kind & ~ASK, number, ack, bits


def carry(one: Link, other: Link, now: float) -> list[bytes]:
    """Everything that one end has to say reaches the other."""
    return [got for datagram in one.outgoing(now) for got in other.receive(datagram, now)]
