"""JSON Lines segments, one line at a time, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final

import msgspec
import pyarrow as pa

from thence.pipeline.ingest_intake import Intake, UnreadableError, first_line, text_of
from thence.pipeline.ingest_pieces import table_of_records
from thence.pipeline.ingest_rows import plainly_good
from thence.pipeline.tables import run_fault
from thence.trace.record import Record, fault, record_from_json
from thence.trace.segments import MALFORMED, fault_of_line, lines_of, too_long

HELD_LINES_MAX: Final = 1 << 14
HELD_BYTES_MAX: Final = 1 << 26
TEXT_BYTES_MAX: Final = 1 << 14  # of a line that is set aside; the quarantine keeps less


class _Line(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record without fields that are not of the format: most of them, read in one step."""


_decode_line: Final = msgspec.json.Decoder(_Line).decode


def read_lines(path: str, intake: Intake) -> None:
    """Give the records of one file to the intake, and set its other lines aside."""
    held = _Held(intake)
    for number, line in _lines_of(path):
        if too_long(line):
            held.set_aside(number, line, fault_of_line(line))
        elif line.strip():
            held.add(number, line)
    held.settle()


def _lines_of(path: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file; UnreadableError for what reading it raises, and nothing else."""
    number = 0
    try:
        for number, line in lines_of(path):
            yield number, line
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"cannot be read after line {number}: {first_line(error)}") from error


class _Held:
    """Consecutive lines that are judged together.

    As columns, which takes a third of the time; one by one when not all of them are good.
    """

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._records: list[Record] = []
        self._lines: list[tuple[int, bytes]] = []
        self._aside: list[tuple[int, str, str, str | None]] = []
        self._bytes = 0

    def add(self, number: int, line: bytes) -> None:
        """Hold one line that is not blank."""
        try:
            self._records.append(_record_of(line))
            self._lines.append((number, line))
        except MALFORMED as error:
            self.set_aside(number, line, fault_of_line(line, error), _run_of(line))
        self._bytes += len(line)
        if self._bytes >= HELD_BYTES_MAX or len(self._lines) + len(self._aside) >= HELD_LINES_MAX:
            self.settle()

    def set_aside(self, number: int, line: bytes, reason: str, run: str | None = None) -> None:
        """Hold a line that is no record."""
        self._aside.append((number, reason, text_of(line[:TEXT_BYTES_MAX]), run))

    def settle(self) -> None:
        """Give what is held to the intake, what is set aside in the order of the lines."""
        table = self._good_rows()
        for number, reason, text, run in sorted(self._aside, key=itemgetter(0)):
            self._intake.set_aside(number, reason, text, run)
        self._intake.take_rows(table)
        self._records, self._lines, self._aside, self._bytes = [], [], [], 0

    def _good_rows(self) -> pa.Table:
        try:
            table = table_of_records(self._records)
            if plainly_good(table):
                return table
        except (OverflowError, pa.ArrowException):
            pass  # numbers that no column can hold: one by one
        good = []
        for record, (number, line) in zip(self._records, self._lines, strict=True):
            reason = fault(record) or run_fault(record.run)
            if reason is None:
                good.append(record)
            else:
                self.set_aside(number, line, reason, record.run)
        return table_of_records(good)


def _record_of(line: bytes) -> Record:
    # A field called "extra" is somebody else's, while ours of that name is for those.
    if b'"extra"' not in line:
        try:
            record = _decode_line(line)
            if not record.extra:
                return record
        except MALFORMED:
            pass  # unknown fields, or malformed: the slow way tells
    return record_from_json(line)


def _run_of(line: bytes) -> str | None:
    """The run that a malformed record names, if it is at least an object."""
    try:
        fields: Any = msgspec.json.decode(line)
    except MALFORMED:
        return None
    run = fields.get("run") if isinstance(fields, dict) else None
    return run if isinstance(run, str) else None
