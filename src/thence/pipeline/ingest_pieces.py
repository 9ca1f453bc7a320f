"""From the records of a segment to sorted pieces, and from the pieces of a log to its files.

An external merge sort, because a log may be longer than memory.  A task that reads a segment holds
a bounded amount of it; then it sorts that by log and position and writes it as one file of pieces
(Arrow IPC, a range of record batches for each log).  The task that writes a log merges its pieces:
of each piece that overlaps with others one batch is in memory, and logs whose pieces follow each
other, as sealed segments do, are copied through.

Records with the same position stay in the order of their segments, then of their lines: the first
one read is the one that counts (docs/reference/trace.md).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.tables import FILE_ROWS_MAX, PLAIN
from thence.trace.record import Record
from thence.trace.tables import PARQUET_OPTIONS, table_of

HELD_BYTES_MAX: Final = 1 << 27
"""What a reading task holds before it sorts and writes it."""
BATCH_ROWS: Final = 1 << 14
"""What a writing task holds of each piece that overlaps with others."""
GROUP_ROWS_MAX: Final = 1 << 19
GROUP_BYTES_MAX: Final = 1 << 27
"""A row group of the events table: up to so many rows, and bytes in memory."""
RECORDS_HELD_MAX: Final = 1 << 14
"""Records held as Python objects before they become columns; about 1 kB each."""

Ints = npt.NDArray[np.int64]
_OPTIONAL: Final = (
    "context", "bytes", "payload", "to", "stream", "words", "peer", "stable", "extra"
)  # fmt: skip
_NOTHING: Final[tuple[Any, ...]] = (*[None] * 8, {})
_optional: Final = attrgetter(*_OPTIONAL)


class Piece(msgspec.Struct, frozen=True):
    """Some records of one log, sorted by position, in a file of pieces."""

    run: str
    node: str
    file: str
    first_batch: int
    batches: int
    rows: int
    first_pos: int
    last_pos: int
    order: tuple[int, int]
    """The number of the segment, then of the piece in it: which of two equal positions is first."""


class PieceWriter:
    """Takes the records of one segment, in the order of its lines, and leaves pieces."""

    def __init__(self, files: TableFiles, folder: str, segment: int) -> None:
        self._files = files
        # A task may be tried twice at once: each try has files of its own.
        self._stem = f"{folder}/{segment}-{uuid.uuid4().hex[:12]}"
        self._segment = segment
        self._records: list[Record] = []
        self._tables: list[pa.Table] = []
        self._held_bytes = 0
        self._written = 0
        self.pieces: list[Piece] = []
        self.rows = 0

    def add(self, record: Record) -> None:
        """Take one record that has no fault."""
        self._records.append(record)
        if len(self._records) >= RECORDS_HELD_MAX:
            self._settle()

    def add_table(self, table: pa.Table) -> None:
        """Take rows of the events table that have no fault."""
        self._settle()
        self._hold(table.cast(PLAIN))

    def _settle(self) -> None:
        if self._records:
            table = table_of_records(self._records)
            self._records = []
            self._hold(table)

    def _hold(self, table: pa.Table) -> None:
        self._tables.append(table)
        self._held_bytes += table.nbytes
        self.rows += len(table)
        if self._held_bytes >= HELD_BYTES_MAX:
            self._write()

    def close(self) -> None:
        """Write what is still held."""
        self._settle()
        self._write()

    def _write(self) -> None:
        tables, self._tables, self._held_bytes = self._tables, [], 0
        if not any(len(table) for table in tables):
            return
        table, bounds = _by_log(pa.concat_tables(tables).combine_chunks())
        name = f"{self._stem}-{self._written}.arrow"
        self._written += 1
        batches = 0
        options = ipc.IpcWriteOptions(compression="zstd")
        with (
            self._files.create(name) as sink,
            ipc.new_file(sink, PLAIN, options=options) as writer,
        ):
            for start, end in pairwise(bounds):
                log = table.slice(start, end - start)
                count = 0
                for batch in log.to_batches(max_chunksize=BATCH_ROWS):
                    writer.write_batch(batch)
                    count += 1
                self.pieces.append(self._piece(log, name, batches, count))
                batches += count

    def _piece(self, log: pa.Table, name: str, first_batch: int, batches: int) -> Piece:
        last = len(log) - 1
        return Piece(
            run=log["run"][0].as_py(),
            node=log["node"][0].as_py(),
            file=name,
            first_batch=first_batch,
            batches=batches,
            rows=len(log),
            first_pos=log["pos"][0].as_py(),
            last_pos=log["pos"][last].as_py(),
            order=(self._segment, len(self.pieces)),
        )


def table_of_records(records: Sequence[Record]) -> pa.Table:
    """Records of any logs as rows of the events table."""
    given: dict[str, list[tuple[int, Any]]] = {}
    for row, values in enumerate(map(_optional, records)):
        if values == _NOTHING:
            continue  # the most frequent case by far: one comparison
        for name, value in zip(_OPTIONAL, values, strict=True):
            if value is not None and (name != "extra" or value):
                given.setdefault(name, []).append((row, value))
    events = [(record.kind, record.t_us, record.dot) for record in records]
    table = table_of("", "", 0, events, given).cast(PLAIN)
    columns = {
        "v": pa.array([record.v for record in records], pa.int32()),
        "run": pa.array([record.run for record in records], pa.string()),
        "node": pa.array([record.node for record in records], pa.string()),
        "pos": pa.array([record.pos for record in records], pa.int64()),
    }
    arrays = [columns.get(name, table[name]) for name in PLAIN.names]
    return pa.Table.from_arrays(arrays, schema=PLAIN)


def _by_log(table: pa.Table) -> tuple[pa.Table, list[int]]:
    """The rows sorted by log, then position, and where each log begins, the end included."""
    run = pc.dictionary_encode(table["run"].combine_chunks()).indices.to_numpy()
    node = pc.dictionary_encode(table["node"].combine_chunks()).indices.to_numpy()
    log = run.astype(np.int64) * (int(node.max()) + 1) + node
    pos: Ints = table["pos"].to_numpy()
    same = log[1:] == log[:-1]
    if not bool(np.all((log[1:] > log[:-1]) | (same & (pos[1:] >= pos[:-1])))):
        rows = np.lexsort((pos, log))  # stable
        table = table.take(pa.array(rows))
        log = log[rows]
    starts = np.flatnonzero(log[1:] != log[:-1]) + 1
    return table, [0, *starts.tolist(), len(table)]


class _Cursor:
    """One piece being read, a batch at a time."""

    def __init__(self, files: TableFiles, piece: Piece) -> None:
        self.piece = piece
        self._files = files
        self._next = piece.first_batch
        self.advance()

    def advance(self) -> bool:
        """Load the next batch; False when there is none."""
        if self._next == self.piece.first_batch + self.piece.batches:
            return False
        with self._files.open_input(self.piece.file) as source:
            batch = ipc.open_file(source).get_batch(self._next)
        self._next += 1
        self.rows = pa.Table.from_batches([batch])
        self.pos: Ints = self.rows["pos"].to_numpy()
        return True

    def cut(self, bound: int) -> pa.Table:
        """Take the loaded rows up to this position away."""
        count = int(np.searchsorted(self.pos, bound, side="right"))
        taken = self.rows.slice(0, count)
        self.rows, self.pos = self.rows.slice(count), self.pos[count:]
        return taken


def merge(files: TableFiles, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    """The rows of all pieces of one log by position, in tables of any length."""
    waiting = sorted(pieces, key=lambda piece: (piece.first_pos, piece.order), reverse=True)
    open_: list[_Cursor] = []
    while waiting or open_:
        if not open_:
            open_.append(_Cursor(files, waiting.pop()))
        bound = min(int(cursor.pos[-1]) for cursor in open_)
        while waiting and waiting[-1].first_pos <= bound:
            open_.append(_Cursor(files, waiting.pop()))
            bound = min(bound, int(open_[-1].pos[-1]))
        open_.sort(key=lambda cursor: cursor.piece.order)
        parts = [part for cursor in open_ if len(part := cursor.cut(bound))]
        if len(parts) == 1:
            yield parts[0]
        else:
            table = pa.concat_tables(parts).combine_chunks()
            yield table.take(pa.array(np.argsort(table["pos"].to_numpy(), kind="stable")))
        open_ = [cursor for cursor in open_ if len(cursor.pos) or cursor.advance()]


def write_log(files: TableFiles, stem: str, pieces: Sequence[Piece]) -> list[tuple[str, int]]:
    """Merge one log into files of the events table: (name, rows), in the order of positions."""
    written: list[tuple[str, int]] = []
    writer = sink = None
    rows = 0
    for group in _row_groups(merge(files, pieces)):
        if writer is None:
            sink = files.create(f"{stem}-{len(written)}.parquet")
            writer = pq.ParquetWriter(sink, PLAIN, **PARQUET_OPTIONS)
        writer.write_table(group, row_group_size=GROUP_ROWS_MAX)
        rows += len(group)
        if rows + GROUP_ROWS_MAX > FILE_ROWS_MAX:
            _finish(writer, sink)
            written.append((f"{stem}-{len(written)}.parquet", rows))
            writer, rows = None, 0
    if writer is not None:
        _finish(writer, sink)
        written.append((f"{stem}-{len(written)}.parquet", rows))
    return written


def _finish(writer: Any, sink: Any) -> None:
    writer.close()
    sink.close()


def _row_groups(tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of at most GROUP_ROWS_MAX rows and about GROUP_BYTES_MAX bytes."""
    held: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        while len(table):
            part = table.slice(0, GROUP_ROWS_MAX - rows)
            table = table.slice(len(part))
            held.append(part)
            rows += len(part)
            size += part.nbytes
            if rows >= GROUP_ROWS_MAX or size >= GROUP_BYTES_MAX:
                yield pa.concat_tables(held).combine_chunks()
                held, rows, size = [], 0, 0
    if held:
        yield pa.concat_tables(held).combine_chunks()
