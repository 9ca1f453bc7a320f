"""Handing the state of a group to a newcomer: pieces, a few at a time, again where it broke off.

The state is that of one moment of the provider's application: what its engine remembers is copied
at that moment, what the application gives is asked for at that moment and drawn piece by piece as
the newcomer acknowledges.  So only a window of it is in memory, however large it is.  Payloads on
the shelf (shelf.py) are drawn in the same way: they cannot become stable, and go, before the
newcomer has them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from thence.errors import WireError
from thence.wire.membership import (
    CHUNK,
    END,
    ENGINE,
    HEAD,
    PART,
    PAYLOAD,
    PAYLOAD_PART,
    Head,
    Piece,
)

WINDOW_PIECES: Final = 16
"""Pieces on their way that are not acknowledged."""


class Handover:
    """The state for one newcomer, as it is given to it."""

    def __init__(
        self, number: int, head: Head, engine: bytes,
        chunks: Iterable[bytes], piece_bytes: int, payloads: Iterable[bytes] = (),
    ) -> None:  # fmt: skip
        self.number = number
        self._pieces = _pieces(head, engine, payloads, chunks, piece_bytes)
        self._kept: deque[Piece] = deque()
        """Drawn, not acknowledged."""
        self._drawn = 0
        self._sent = 0  # the number of the next piece to be sent
        self._is_drawn = False
        self.is_done = False

    def due(self) -> list[Piece]:
        """The pieces that may be sent now.  What the application's chunks raise comes out here."""
        while len(self._kept) < WINDOW_PIECES and not self._is_drawn:
            kind, data = next(self._pieces)
            self._kept.append(Piece(self.number, self._drawn, kind, data))
            self._drawn += 1
            self._is_drawn = kind == END
        found = [piece for piece in self._kept if piece.number >= self._sent]
        self._sent = self._drawn
        return found

    @property
    def is_begun(self) -> bool:
        """Whether the newcomer has acknowledged something."""
        return self._drawn > len(self._kept)

    def acknowledged(self, number: int) -> None:
        """The newcomer has all pieces before this one.  WireError if that cannot be: it would draw
        the whole state at once."""
        if number > self._drawn:
            raise WireError(f"acknowledged {number} of {self._drawn} pieces")
        while self._kept and self._kept[0].number < number:
            self._kept.popleft()
        self.is_done = self._is_drawn and not self._kept

    def resume(self, number: int) -> bool:
        """The newcomer has all before this piece, and may have lost what was sent since: whether
        it can go on from there."""
        if number > self._drawn:
            return False
        self.acknowledged(number)
        first = self._drawn - len(self._kept)
        self._sent = first
        return first == number


def _pieces(
    head: Head, engine: bytes, payloads: Iterable[bytes], chunks: Iterable[bytes], piece_bytes: int
) -> Iterator[tuple[int, bytes]]:
    digest = sha256()
    yield HEAD, msgspec.msgpack.encode(head)
    for at in range(0, len(engine), piece_bytes):
        data = engine[at : at + piece_bytes]
        digest.update(data)
        yield ENGINE, data
    for part, whole, values in ((PAYLOAD_PART, PAYLOAD, payloads), (PART, CHUNK, chunks)):
        for value in values:
            if not isinstance(value, bytes | bytearray | memoryview):
                raise TypeError(f"snapshot() gave a chunk of {type(value).__name__}, not bytes")
            # It may change meanwhile, or have another shape, unless it is bytes.
            view = memoryview(value if isinstance(value, bytes) else bytes(value))
            last = max(0, len(view) - 1) // piece_bytes * piece_bytes
            for at in range(0, len(view) or 1, piece_bytes):
                data = bytes(view[at : at + piece_bytes])
                digest.update(data)
                yield part if at < last else whole, data
    yield END, digest.digest()
