"""Frames: how bytes on a connection are cut into pieces.

    u32 length (big endian, of what follows) | u8 kind | body

A frame is the unit in which nodes talk (docs/reference/wire.md).  The reader takes
bytes in any portions and gives whole frames; it never holds more than one frame's limit, and it
refuses a length that is too large when it sees it, not after collecting it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from thence.errors import WireError

FRAME_BYTES_MAX: Final = 20 * 1024 * 1024
"""Of one frame, its kind included: a payload of the largest size and its context fit."""
GREETING_BYTES_MAX: Final = 16 * 1024
"""The same before the peer has said who it is."""
HEAD_BYTES: Final = 4

_HEAD: Final = struct.Struct(">IB")
_LENGTH: Final = struct.Struct(">I")


def frame(kind: int, body: bytes = b"") -> bytes:
    """One frame, ready to be sent."""
    return _HEAD.pack(len(body) + 1, kind) + body


def frame_of(kind: int, parts: Sequence[bytes]) -> bytes:
    """One frame of a body that is still in parts, which are joined once."""
    return b"".join([_HEAD.pack(sum(map(len, parts)) + 1, kind), *parts])


class FrameReader:
    """Cuts what arrives into frames.  After an error the connection is of no use."""

    __slots__ = ("_held", "_wanted", "limit")

    def __init__(self, limit: int = GREETING_BYTES_MAX) -> None:
        self.limit = limit
        """Bytes of the largest frame that is accepted; raised once the peer is known."""
        self._held = bytearray()
        self._wanted = 0  # bytes until the next look at what is held

    @property
    def held_bytes(self) -> int:
        """Of a frame that is not whole yet."""
        return len(self._held)

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """The frames that are whole now, as (kind, body)."""
        held = self._held
        if held:
            # A large frame comes in many portions: adding each must not copy all before it.
            if len(held) + len(data) < self._wanted:
                held += data
                return []
            data = b"".join((held, data))
            held.clear()
        frames: list[tuple[int, bytes]] = []
        at = 0
        end = len(data)
        self._wanted = HEAD_BYTES
        while end - at >= HEAD_BYTES:
            (length,) = _LENGTH.unpack_from(data, at)
            if not 1 <= length <= self.limit:
                raise WireError(f"a frame of {length} bytes; at most {self.limit} are taken")
            after = at + HEAD_BYTES + length
            if after > end:
                self._wanted = after - at
                break
            frames.append((data[at + HEAD_BYTES], data[at + HEAD_BYTES + 1 : after]))
            at = after
        if at < end:
            held += data[at:]
        return frames
