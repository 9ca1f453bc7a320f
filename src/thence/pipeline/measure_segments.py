"""Clocks and sizes of a run's records, in the order of the checker's columns.

The columns (thence.trace) hold what the rules need, and no rule needs a clock.  So the same files
are read once more, for these columns alone; which of their rows count the checker's reader has
said, and sorting them as it does brings them into its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.errors import UnusableInputError
from thence.trace.columns import Columns, Ints
from thence.trace.files import name_of, open_stream, random_access
from thence.trace.segments import LINE_BYTES_MAX, Quarantine

ABSENT: Final = np.iinfo(np.int64).min
"""The clock or size of a record that has none."""


class Measurements(msgspec.Struct, frozen=True, kw_only=True):
    """What a run's records measured, by row of its columns; ``ABSENT`` where one does not say."""

    t_us: Ints
    bytes: Ints
    words: Ints


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one file, good and bad.  Names are places in ``names``, -1 for none."""

    file: str
    names: tuple[str, ...]
    line: Ints
    """From 1; in Parquet the row."""
    run: Ints
    node: Ints
    pos: Ints
    t_us: Ints
    bytes: Ints
    words: Ints


_MEASURED: Final = ("t_us", "bytes", "words")
_NAMED: Final = ("run", "node")


class Segments:
    """The files of some runs as they are; which of their rows count, the checker's reader says."""

    def __init__(self, files: Sequence[str], quarantine: Quarantine) -> None:
        self._segments = [_read(file, quarantine) for file in files]

    def __len__(self) -> int:
        return sum(len(segment.line) for segment in self._segments)

    def of_run(self, columns: Columns, bad: Mapping[str, Sequence[int]]) -> Measurements:
        """The measurements of a run; ``bad`` are the lines of each file that were set aside.

        The columns have the good rows by (node, position) and, of equal positions, the first
        read: the same sort of the same rows puts these into the same order.
        """
        code_of = {name: code for code, name in enumerate(columns.names)}
        parts: list[tuple[Ints, ...]] = []
        for segment in self._segments:
            codes = np.array([*(code_of.get(name, -1) for name in segment.names), -1])
            is_run = np.array([*(name == columns.run for name in segment.names), False])
            some = is_run[segment.run]
            if segment.file in bad:
                some &= ~np.isin(segment.line, bad[segment.file])
            fields = (segment.pos, segment.t_us, segment.bytes, segment.words)
            parts.append((codes[segment.node[some]], *(field[some] for field in fields)))
        node, pos, *measured = (np.concatenate(field) for field in zip(*parts, strict=True))
        order = np.lexsort((pos, node))
        again = (np.diff(node[order]) == 0) & (np.diff(pos[order]) == 0)
        order = order[np.concatenate([[True], ~again])]
        if not np.array_equal(node[order], columns.node) or not np.array_equal(
            pos[order], columns.pos
        ):
            raise UnusableInputError(f"run {columns.run}: its files changed while they were read")
        t_us, sizes, words = (field[order] for field in measured)
        return Measurements(t_us=t_us, bytes=sizes, words=words)


def _read(file: str, quarantine: Quarantine) -> Segment:
    if name_of(file).endswith(".parquet"):
        return _read_parquet(file, quarantine)
    return _read_lines(file)


def _read_parquet(file: str, quarantine: Quarantine) -> Segment:
    try:
        with pq.ParquetFile(random_access(file), read_dictionary=list(_NAMED)) as parquet:
            present = set(parquet.schema_arrow.names)
            wanted = [name for name in (*_NAMED, "pos", *_MEASURED) if name in present]
            table = parquet.read(columns=wanted, use_threads=False)
        for name in _MEASURED:
            kind = table.schema.field(name).type if name in present else pa.int64()
            if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
                quarantine.add(file, None, f"{name}: expected integers, got {kind}")
                table = table.drop_columns([name])
        names: dict[str, int] = {}
        run, node = (_codes(table[name], names) for name in _NAMED)
        pos, *measured = (_numbers(table, name) for name in ("pos", *_MEASURED))
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return _segment(file, {}, [], [])  # the checker's reader says what is wrong with it
    t_us, sizes, words = measured
    line = np.arange(1, len(table) + 1)
    return Segment(
        file=file, names=tuple(names), line=line, run=run, node=node, pos=pos,
        t_us=t_us, bytes=sizes, words=words,
    )  # fmt: skip


def _codes(column: pa.ChunkedArray, names: dict[str, int]) -> Ints:
    pieces: list[Ints] = [np.zeros(0, np.int32)]
    for chunk in column.chunks:
        if not pa.types.is_dictionary(chunk.type):
            chunk = pc.dictionary_encode(chunk.cast(pa.string()))
        values = chunk.dictionary.cast(pa.string()).to_pylist()
        table = [-1 if name is None else names.setdefault(name, len(names)) for name in values]
        index = pc.fill_null(chunk.indices, len(table)).to_numpy(zero_copy_only=False)
        pieces.append(np.array([*table, -1], np.int32)[index])
    return np.concatenate(pieces)


def _numbers(table: pa.Table, name: str) -> Ints:
    if name not in table.column_names:
        return np.full(len(table), ABSENT, np.int64)
    numbers: Ints = pc.fill_null(table[name].cast(pa.int64()), int(ABSENT)).to_numpy()
    return numbers


class _Line(msgspec.Struct):
    """What is measured on a line; the rest of it is not looked at."""

    run: str
    node: str
    pos: int
    t_us: int | None = None
    bytes: int | None = None
    words: int | None = None


def _read_lines(file: str) -> Segment:
    decode = msgspec.json.Decoder(_Line).decode
    names: dict[str, int] = {}
    numbers: list[int] = []
    rows: list[_Line] = []
    try:
        with open_stream(file) as stream:
            number = 0
            while line := stream.readline(LINE_BYTES_MAX):
                number += 1
                try:
                    rows.append(decode(line))
                    numbers.append(number)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    pass  # blank, or set aside by the checker's reader
                if len(line) == LINE_BYTES_MAX and not line.endswith(b"\n"):
                    break  # what follows is the same line
    except (OSError, pa.ArrowException):
        pass  # the checker's reader says so, and keeps what came before it
    return _segment(file, names, numbers, rows)


def _segment(
    file: str, names: dict[str, int], numbers: Sequence[int], rows: Sequence[_Line]
) -> Segment:
    def absent_as_number(values: list[int | None]) -> Ints:
        # A number that does not fit is on a line that was set aside.
        fits = [ABSENT if v is None or not -(1 << 63) <= v < 1 << 63 else v for v in values]
        return np.array(fits, np.int64)

    return Segment(
        file=file,
        line=np.array(numbers, np.int64),
        run=np.array([names.setdefault(row.run, len(names)) for row in rows], np.int64),
        node=np.array([names.setdefault(row.node, len(names)) for row in rows], np.int64),
        pos=absent_as_number([row.pos for row in rows]),
        t_us=absent_as_number([row.t_us for row in rows]),
        bytes=absent_as_number([row.bytes for row in rows]),
        words=absent_as_number([row.words for row in rows]),
        names=tuple(names),
    )
