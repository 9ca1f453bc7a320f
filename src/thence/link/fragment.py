"""Messages as payloads of packets: small ones share a packet, large ones take several.

The payloads of a connection, in order, are one stream of

    u32 length (big endian) | message

cut wherever a packet is full.  A message may be empty.
"""

from __future__ import annotations

import struct
from typing import Final

from thence.errors import WireError
from thence.link.datagram import PAYLOAD_BYTES_MAX

LENGTH_BYTES: Final = 4

_LENGTH: Final = struct.Struct(">I")


class Cutter:
    """Messages in, payloads out.  Every byte is copied twice, whatever the sizes."""

    __slots__ = ("_at", "_buffer", "_queue", "size")

    def __init__(self) -> None:
        self.size = 0
        """Bytes not yet taken, lengths included."""
        self._queue: list[bytes] = []
        self._buffer = b""
        self._at = 0

    def add(self, message: bytes) -> None:
        """Put a message behind those that wait."""
        length = len(message)
        self._queue += (_LENGTH.pack(length), message)
        self.size += length + LENGTH_BYTES

    def take(self) -> bytes:
        """The next payload: full, or all there is."""
        at = self._at
        end = at + PAYLOAD_BYTES_MAX
        if end > len(self._buffer) and self._queue:
            # What is left of the buffer is shorter than a payload, so joining stays linear.
            self._buffer = b"".join([self._buffer[at:], *self._queue])
            self._queue.clear()
            at, end = 0, PAYLOAD_BYTES_MAX
        payload = self._buffer[at:end]
        self.size -= len(payload)
        if end >= len(self._buffer):
            self._buffer, self._at = b"", 0
        else:
            self._at = end
        return payload


class Joiner:
    """Payloads in, messages out.  Holds less than one message of the largest size."""

    __slots__ = ("_held", "_largest", "_need", "held_bytes")

    def __init__(self, largest: int) -> None:
        self.held_bytes = 0
        self._largest = largest
        self._held: list[bytes] = []
        self._need = 0
        """Bytes of the message that is not whole yet, length included; 0: not known."""

    def feed(self, payload: bytes) -> list[bytes]:
        """The messages that are whole now; WireError for one above the limit."""
        if self._held:
            self._held.append(payload)
            self.held_bytes += len(payload)
            if self.held_bytes < self._need:
                return []
            payload = b"".join(self._held)
        messages: list[bytes] = []
        at, end, need = 0, len(payload), 0
        while end - at >= LENGTH_BYTES:
            (length,) = _LENGTH.unpack_from(payload, at)
            if length > self._largest:
                raise WireError(f"a message of {length} bytes; at most {self._largest} are taken")
            need = LENGTH_BYTES + length
            if end - at < need:
                break
            messages.append(payload[at + LENGTH_BYTES : at + need])
            at += need
            need = 0
        self.held_bytes = end - at
        self._held = [payload[at:]] if at < end else []
        self._need = need
        return messages
