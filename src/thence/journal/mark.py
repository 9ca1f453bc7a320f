"""How far a journal got, in a file of 16 bytes beside it.

SQLite takes what it cannot read at the end of a write-ahead log for a commit that a crash cut off,
and drops it without a word; a log that is gone is one that was never there.  So a number outside
of it is needed: the mark is written after each commit and says what must be found at least.  It is
overwritten in place and never synced: it is a lower bound, and an older one asks for less.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import Final

MARK_BYTES: Final = 16
_NUMBER: Final = struct.Struct("<Q")
_CHECK: Final = struct.Struct("<4sI")
_MAGIC: Final = b"mark"


def read_mark(path: str) -> int | None:
    """The number in the file, None if there is no file; ValueError when it is not a mark."""
    try:
        with open(path, "rb") as file:
            text = file.read(MARK_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(text) != MARK_BYTES or text != _encoded(_NUMBER.unpack_from(text)[0]):
        raise ValueError(f"{path} is not what was written there")
    number: int = _NUMBER.unpack_from(text)[0]
    return number


def _encoded(number: int) -> bytes:
    first = _NUMBER.pack(number)
    return first + _CHECK.pack(_MAGIC, zlib.crc32(first))


class Mark:
    """The file being written.  OSError where the disk says no."""

    def __init__(self, path: str, number: int) -> None:
        """Go on in the file, which holds a mark, or make it: it is there whole or not at all."""
        self.path = path
        if not os.path.exists(path):
            self._create(number)
        self._file = open(path, "r+b", buffering=0)  # noqa: SIM115 (open as long as the journal)

    def _create(self, number: int) -> None:
        fresh = f"{self.path}.new"
        with open(fresh, "wb") as file:
            file.write(_encoded(number))
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, self.path)
        sync_folder(self.path)

    def write(self, number: int) -> None:
        """Overwrite the number."""
        self._file.seek(0)
        if self._file.write(_encoded(number)) != MARK_BYTES:
            raise OSError(f"{self.path}: written in part")

    def close(self) -> None:
        """Leave the file where it is."""
        self._file.close()

    def remove(self) -> None:
        """Close it and remove the file: the journal says by itself how far it got."""
        self._file.close()
        os.remove(self.path)


def sync_folder(path: str) -> None:
    """Make the names in the folder of ``path`` durable, where the system has a way to."""
    if os.name != "posix":
        return
    folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
