"""Chunks of an application's state, kept until all are there: in memory while they are few, in a
file that has no name when they are many."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Final

MEMORY_BYTES_MAX: Final = 16 << 20
_LENGTH: Final = struct.Struct(">Q")


class Spool:
    """Chunks in the order in which they came."""

    def __init__(self) -> None:
        file = SpooledTemporaryFile(MEMORY_BYTES_MAX)  # noqa: SIM115  ``close`` does it
        self._file: SpooledTemporaryFile[bytes] = file
        self._start = 0  # where the length of the chunk that is not whole belongs
        self._size = -1  # of that chunk so far; -1: none is begun
        self.bytes = 0
        """Of all chunks."""

    def clear(self) -> None:
        """Begin anew."""
        self._file.seek(0)
        self._file.truncate()
        self._start, self._size, self.bytes = 0, -1, 0

    def write(self, data: bytes, ends: bool) -> None:
        """A part of a chunk; ``ends``: its last."""
        file = self._file
        if self._size < 0:
            self._start, self._size = file.tell(), 0
            file.write(_LENGTH.pack(0))
        file.write(data)
        self._size += len(data)
        self.bytes += len(data)
        if ends:
            end = file.tell()
            file.seek(self._start)
            file.write(_LENGTH.pack(self._size))
            file.seek(end)
            self._size = -1

    def chunks(self) -> Iterator[bytes]:
        """The chunks that are whole."""
        file = self._file
        end = file.tell() if self._size < 0 else self._start
        at = 0
        while at < end:
            file.seek(at)
            (size,) = _LENGTH.unpack(file.read(_LENGTH.size))
            yield file.read(size)
            at += _LENGTH.size + size
        file.seek(end)

    def flush(self) -> None:
        """Nothing more comes: see to it that everything is in the file.  OSError if it is not."""
        self._file.flush()

    def close(self) -> None:
        """Let go of the file."""
        with suppress(OSError):  # what could not be written is not wanted any more
            self._file.close()
