"""JSON Lines segments into columns, with every bad line set aside and named."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from thence.errors import TraceError
from thence.trace.columns import (
    ABSENT,
    CHANGE_CODES,
    KIND_CODE,
    NO_NAME,
    OTHER_KIND,
    Change,
    Ints,
    Part,
)
from thence.trace.files import open_stream
from thence.trace.record import Record, fault

LINE_BYTES_MAX: Final = 1 << 25  # the largest payload in base64 (payload.py), and a context
LISTED_MAX: Final = 1000


class Quarantined(msgspec.Struct, frozen=True):
    """One piece of input that could not be used."""

    file: str
    line: int | None
    """From 1; in Parquet the row, from 1; None when it is the whole file."""
    reason: str


class Quarantine:
    """Everything set aside in one read: all counted, the first ``LISTED_MAX`` listed."""

    def __init__(self) -> None:
        self.count = 0
        self.listed: list[Quarantined] = []

    def add(self, file: str, line: int | None, reason: str) -> None:
        """Set one line, or a whole file, aside."""
        self.count += 1
        if len(self.listed) < LISTED_MAX:
            self.listed.append(Quarantined(file, line, reason))

    def error(self) -> TraceError:
        """What to raise when nothing may be set aside."""
        first = self.listed[0]
        others = f" (and {self.count - 1} more)" if self.count > 1 else ""
        return TraceError(first.file, first.line, first.reason + others)


def told_together(items: Iterable[Quarantined]) -> Iterator[str]:
    """What to print of things set aside: ``file:line: reason``; lines with one reason together."""
    first: Quarantined | None = None
    last: int | None = None
    for item in items:
        if (
            first is not None
            and last is not None
            and (item.file, item.line, item.reason) == (first.file, last + 1, first.reason)
        ):
            last = item.line
            continue
        if first is not None:
            yield _told(first, last)
        first, last = item, item.line
    if first is not None:
        yield _told(first, last)


def _told(first: Quarantined, last: int | None) -> str:
    if first.line is None:
        return f"{first.file}: {first.reason}"
    if first.line == last:
        return f"{first.file}:{first.line}: {first.reason}"
    return f"{first.file}: lines {first.line}-{last}: {first.reason}"


class _Lists:
    """Columns under construction: flat numbers, not an object for each of them."""

    def __init__(self, measured: bool) -> None:
        self.codes: dict[str, int] = {}
        self.run = array("i")
        self.node = array("i")
        self.pos = array("q")
        self.kind = array("b")
        self.dot_node = array("i")
        self.dot_seq = array("q")
        self.start = array("q", [0])
        self.context_node = array("i")
        self.context_seq = array("q")
        self.to: dict[int, tuple[int, ...]] = {}
        self.changes: dict[int, Change] = {}
        self.measured = measured
        self.t_us = array("q")
        self.bytes = array("q")
        self.words = array("q")

    def code(self, name: str) -> int:
        return self.codes.setdefault(name, len(self.codes))

    def add(self, record: Record) -> None:
        if record.to is not None:
            self.to[len(self.node)] = tuple(self.code(name) for name in record.to)
        kind = KIND_CODE.get(record.kind, OTHER_KIND)
        if kind in CHANGE_CODES:
            self.changes[len(self.node)] = self._change(record)
        self.run.append(self.code(record.run))
        self.node.append(self.code(record.node))
        self.pos.append(record.pos)
        self.kind.append(kind)
        dot = record.dot
        self.dot_node.append(NO_NAME if dot is None else self.code(dot.node))
        self.dot_seq.append(0 if dot is None else dot.seq)
        for before in record.context or ():
            self.context_node.append(self.code(before.node))
            self.context_seq.append(before.seq)
        self.start.append(len(self.context_node))
        if self.measured:
            self.t_us.append(record.t_us)
            self.bytes.append(ABSENT if record.bytes is None else record.bytes)
            self.words.append(ABSENT if record.words is None else record.words)

    def _change(self, record: Record) -> Change:
        peer = NO_NAME if record.peer is None else self.code(record.peer)
        stable = record.stable
        dots = None if stable is None else tuple((self.code(dot.node), dot.seq) for dot in stable)
        return Change(peer, record.context is not None, dots)

    def part(self) -> Part:
        measured = [self.t_us, self.bytes, self.words]
        return Part(
            names=tuple(self.codes),
            run=_numbers(self.run),
            node=_numbers(self.node),
            pos=_numbers(self.pos),
            kind=_numbers(self.kind),
            dot_node=_numbers(self.dot_node),
            dot_seq=_numbers(self.dot_seq),
            context_start=_numbers(self.start),
            context_node=_numbers(self.context_node),
            context_seq=_numbers(self.context_seq),
            to=self.to,
            changes=self.changes,
            measured=np.stack([_numbers(each) for each in measured]) if self.measured else None,
        )


_TYPES: Final = {"b": np.int8, "i": np.int32, "q": np.int64}


def _numbers(numbers: array[int]) -> Ints:
    """The same memory for NumPy."""
    return np.frombuffer(numbers, _TYPES[numbers.typecode])


def part_of_records(records: Iterable[Record], measured: bool = False) -> Part:
    """Columns of records made in memory."""
    lists = _Lists(measured)
    for record in records:
        lists.add(record)
    return lists.part()


class _Line(Record, frozen=True, kw_only=True):
    """A record as it is read here: a clock may be absent, and ``extra`` is somebody else's."""

    t_us: int = ABSENT
    extra: Any = None


_decode_line: Final = msgspec.json.Decoder(_Line).decode


MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no such value; the last for brackets without end."""


def lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file and their numbers, from 1; of one that is ``too_long`` the beginning."""
    with open_stream(path) as stream:
        number = 0
        while line := stream.readline(LINE_BYTES_MAX):
            number += 1
            yield number, line
            while too_long(line):
                line = stream.readline(LINE_BYTES_MAX)  # the rest of it


def too_long(line: bytes) -> bool:
    """Whether this is the beginning of a line that is longer than any record."""
    return len(line) == LINE_BYTES_MAX and not line.endswith(b"\n")


def fault_of_line(line: bytes, error: Exception | None = None) -> str:
    """What to say of a line that is too long, or of one that gave this error."""
    if error is None:
        return f"longer than {LINE_BYTES_MAX} bytes"
    reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return reason if line.endswith(b"\n") else f"the file ends inside this line: {reason}"


def read_lines(path: str, quarantine: Quarantine, measured: bool = False) -> Part:
    """The good lines of one JSON Lines file; with clocks and sizes if ``measured``."""
    lists = _Lists(measured)
    try:
        for number, line in lines_of(path):
            record = _record(path, number, line, quarantine)
            if record is not None:
                lists.add(record)
    except (OSError, pa.ArrowException) as error:
        strerror = error.strerror if isinstance(error, OSError) else None
        quarantine.add(path, None, strerror or str(error).splitlines()[0])
    return lists.part()


def _record(path: str, number: int, line: bytes, quarantine: Quarantine) -> Record | None:
    """The record on this line, or None with the line set aside (a blank line is nothing)."""
    if too_long(line):
        quarantine.add(path, number, fault_of_line(line))
        return None
    try:
        record = _decode_line(line)
        reason = fault(record)
    except MALFORMED as error:
        if not line.strip():
            return None
        reason = fault_of_line(line, error)
    if reason is not None:
        quarantine.add(path, number, reason)
        return None
    return record
