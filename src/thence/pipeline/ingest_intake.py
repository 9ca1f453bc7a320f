"""Where a reading task puts what it reads: records into pieces, the rest aside, all counted."""

from __future__ import annotations

import hashlib
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_pieces import PieceWriter
from thence.pipeline.tables import QUARANTINE_ARROW

TEXT_CHARS_MAX: Final = 2000
"""So much of a line is kept in the quarantine."""
LISTED_MAX: Final = 20
"""So many lines of each input are named in the report; the table has them all."""
HELD_LINES_MAX: Final = 10_000


class UnreadableError(Exception):
    """A file that cannot be read to its end: it is set aside as a whole and tried again later."""


class Line(msgspec.Struct, frozen=True):
    """Something in an input that a person should know of."""

    file: str
    line: int | None
    """From 1; in Parquet the row; None: the file as a whole."""
    reason: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.reason}"


def text_of(line: bytes) -> str:
    """A line as text, bytes that are no UTF-8 as ``\\xNN``."""
    return line.decode(errors="backslashreplace").rstrip("\r\n")


def first_line(error: Exception) -> str:
    """What an error says, without what pyarrow adds to it."""
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0] if text else type(error).__name__


def aside_name(path: str) -> str:
    """The file of the quarantine table for what one input could not give."""
    return f"{hashlib.sha256(path.encode()).hexdigest()[:32]}.parquet"


class Aside:
    """What is set aside of one input; a file in the staging folder once there is something."""

    def __init__(self, files: TableFiles, name: str, path: str) -> None:
        self._files = files
        self.name = name
        self.path = path
        self.count = 0
        self.listed: list[Line] = []
        self._held: list[tuple[str | None, str, int | None, str, str | None]] = []
        self._writer: Any = None
        self._sink: Any = None

    def add(self, line: int | None, reason: str, text: str | None, run: str | None = None) -> None:
        """Set one line aside."""
        self.count += 1
        if len(self.listed) < LISTED_MAX:
            self.listed.append(Line(self.path, line, reason))
        if text is not None and len(text) > TEXT_CHARS_MAX:
            text = text[:TEXT_CHARS_MAX]
        self._held.append((run, self.path, line, reason, text))
        if len(self._held) >= HELD_LINES_MAX:
            self._write()

    def _write(self) -> None:
        if self._writer is None:
            self._sink = self._files.create(self.name)
            self._writer = pq.ParquetWriter(self._sink, QUARANTINE_ARROW, compression="zstd")
        columns = zip(*self._held, strict=True)
        fields = zip(columns, QUARANTINE_ARROW, strict=True)
        arrays = [pa.array(values, field.type) for values, field in fields]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=QUARANTINE_ARROW))
        self._held = []

    def close(self) -> str | None:
        """The name of the file in the staging folder, or None when nothing was set aside."""
        if self._held:
            self._write()
        if self._writer is None:
            return None
        self._writer.close()
        self._sink.close()
        return self.name


class Intake:
    """Takes what is read of one input."""

    def __init__(self, pieces: PieceWriter, aside: Aside) -> None:
        self._pieces = pieces
        self._aside = aside
        self.read = 0
        self.taken = 0

    def take_rows(self, table: pa.Table) -> None:
        """Rows without a fault."""
        self.read += len(table)
        self.taken += len(table)
        self._pieces.add_table(table)

    def set_aside(self, line: int, reason: str, text: str, run: str | None = None) -> None:
        """One line, or row, that is no record."""
        self.read += 1
        self._aside.add(line, reason, text, run)
