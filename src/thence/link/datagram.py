"""What is in a datagram.  Version 1.

Numbers are big endian, the checksum excepted.  No datagram is longer than DATAGRAM_BYTES_MAX.

| at   | bytes | field         | meaning                                                       |
|------|-------|---------------|---------------------------------------------------------------|
| 0    | 1     | version       | 1                                                             |
| 1    | 1     | kind          | of the table below; ASK (128) may be added to DATA and FIN    |
| 2    | 8     | connection    | chosen at random by who dials; the same in both directions    |
| 10   |       | (by kind)     |                                                               |
| last | 4     | checksum      | CRC-32 of all before, little endian                           |

| kind | name   | from   | after the connection                                          |
|------|--------|--------|---------------------------------------------------------------|
| 1    | HELLO  | dialler| 16 zero bytes, so that the answer is no longer than this      |
| 2    | COOKIE | other  | 16 bytes: cookie, see cookie.py                               |
| 3    | OPEN   | dialler| 16 bytes: the cookie again; only now the other keeps anything |
| 4    | ACCEPT | other  | nothing                                                       |
| 5    | RESET  | both   | nothing: this connection is not known here                    |
| 8    | DATA   | both   | head of a packet, payload                                     |
| 9    | FIN    | both   | head of a packet: after this packet comes nothing             |
| 10   | ACK    | both   | head of a packet; its number is the next one, not yet used    |
| 11   | PING   | both   | as ACK, and is answered with ACK at once                      |

| at   | bytes | head of a packet                                                              |
|------|-------|-------------------------------------------------------------------------------|
| 10   | 8     | number of the packet: 0, 1, ... of DATA and FIN in this direction             |
| 18   | 8     | ack: every packet below this number has arrived                               |
| 26   | 2     | window: packets from ack on that are taken                                    |
| 28   | 1     | n: bytes of selective acknowledgement, 0 to SELECTIVE_BYTES_MAX               |
| 29   | n     | bit k of the little endian number: packet ack + 1 + k has arrived             |

ASK wants an acknowledgement at once: the sender's window is nearly used up.  UDP's own checksum has
16 bits and may be absent, hence the CRC.  It stands last and little endian so that the CRC of a
whole datagram, checksum included, is one constant: checking is one call and no copy.  The payloads
of packets, in order, are one stream of messages, see fragment.py.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

VERSION: Final = 1

HELLO: Final = 1
COOKIE: Final = 2
OPEN: Final = 3
ACCEPT: Final = 4
RESET: Final = 5
DATA: Final = 8
FIN: Final = 9
ACK: Final = 10
PING: Final = 11
ASK: Final = 128

DATAGRAM_BYTES_MAX: Final = 1400
"""Of UDP payload: with all headers it fits the MTU of every usual network, tunnels included."""
COOKIE_BYTES: Final = 16
CHECKSUM_BYTES: Final = 4
PREFIX_BYTES: Final = 10
"""Version, kind and connection."""
HEAD_BYTES: Final = 29
"""The same and the head of a packet."""
SELECTIVE_BYTES_MAX: Final = 32
WINDOW_PACKETS_MAX: Final = 8 * SELECTIVE_BYTES_MAX
"""All packets of a window can be acknowledged selectively."""
PAYLOAD_BYTES_MAX: Final = DATAGRAM_BYTES_MAX - HEAD_BYTES - SELECTIVE_BYTES_MAX - CHECKSUM_BYTES
"""A packet is sent again as it was, whatever is acknowledged along with it: room for all of it."""
PACKET_BYTES_MIN: Final = HEAD_BYTES + CHECKSUM_BYTES
SHORT_BYTES_MIN: Final = PREFIX_BYTES + CHECKSUM_BYTES
OPENING_BYTES: Final = PREFIX_BYTES + COOKIE_BYTES + CHECKSUM_BYTES
RESIDUE: Final = 0x2144DF1C
"""CRC-32 of anything that is followed by its own CRC-32, little endian."""

HEAD: Final = struct.Struct(">BBQQQHB")
_PREFIX: Final = struct.Struct(">BBQ")
NUMBER_MAX: Final = (1 << 64) - 1
_BYTES_OF_KIND: Final = {
    HELLO: OPENING_BYTES,
    COOKIE: OPENING_BYTES,
    OPEN: OPENING_BYTES,
    ACCEPT: SHORT_BYTES_MIN,
    RESET: SHORT_BYTES_MIN,
}


def sealed(body: bytes) -> bytes:
    """The datagram: what is in it and its checksum."""
    return body + crc32(body).to_bytes(4, "little")


def opening(kind: int, connection: int, cookie: bytes = bytes(COOKIE_BYTES)) -> bytes:
    """A HELLO, COOKIE or OPEN."""
    return sealed(_PREFIX.pack(VERSION, kind, connection) + cookie)


def short(kind: int, connection: int) -> bytes:
    """An ACCEPT or RESET."""
    return sealed(_PREFIX.pack(VERSION, kind, connection))


def kind_of(datagram: bytes) -> int:
    """Its kind, without ASK, when it is whole and of this version; 0 for anything else."""
    size = len(datagram)
    if not SHORT_BYTES_MIN <= size <= DATAGRAM_BYTES_MAX or crc32(datagram) != RESIDUE:
        return 0
    if datagram[0] != VERSION:
        return 0
    kind = datagram[1]
    if kind in _BYTES_OF_KIND:
        return kind if size == _BYTES_OF_KIND[kind] else 0
    kind &= ~ASK
    return kind if DATA <= kind <= PING and size >= PACKET_BYTES_MIN else 0


def connection_of(datagram: bytes) -> int:
    """The connection that a datagram of at least SHORT_BYTES_MIN names, true or not."""
    return int.from_bytes(datagram[2:PREFIX_BYTES])


def cookie_of(datagram: bytes) -> bytes:
    """What a COOKIE or OPEN carries."""
    return datagram[PREFIX_BYTES : PREFIX_BYTES + COOKIE_BYTES]
