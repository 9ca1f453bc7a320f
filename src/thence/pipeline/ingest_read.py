"""The reading task: one unit of input into pieces, a quarantine file and counts.

A unit is one segment of a trace, or the files that are imported together as one text.
"""

from __future__ import annotations

import hashlib
import uuid
from bisect import bisect_right
from typing import Final

import msgspec
import pyarrow as pa

from thence.errors import UnusableInputError
from thence.pipeline.importers import text_importer
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_intake import (
    LISTED_MAX,
    Aside,
    Intake,
    Line,
    UnreadableError,
    first_line,
)
from thence.pipeline.ingest_lines import read_lines
from thence.pipeline.ingest_pieces import Piece, PieceWriter
from thence.pipeline.ingest_rows import read_rows
from thence.pipeline.tables import run_fault
from thence.trace.files import filesystem, name_of, open_stream
from thence.trace.record import Record, RunInfo, fault

HASH_BYTES: Final = 1 << 20
TRACE: Final = "trace"


class How(msgspec.Struct, frozen=True):
    """How inputs are read: as segments of a trace, or by an importer with its settings."""

    importer: str = TRACE
    settings: dict[str, str] = {}
    run: str | None = None
    """The name of the run, when it is not in the input."""

    def text(self) -> str:
        """The same for the same importer, settings and name."""
        given = dict(sorted(self.settings.items())) | (
            {} if self.run is None else {"run": self.run}
        )
        return f"{self.importer} {msgspec.json.encode(given).decode()}" if given else self.importer


class Source(msgspec.Struct, frozen=True):
    """One file of input."""

    path: str
    size: int
    mtime_ns: int
    known: str | None = None
    """The digest the ledger has for it, when size or time say that it may have changed."""


class Unit(msgspec.Struct, frozen=True):
    """Files that are read together."""

    number: int
    name: str
    """For imported text: of the run."""
    home: str
    """Where it belongs: the log of a node in a run has one home."""
    sources: tuple[Source, ...]


class ReadTask(msgspec.Struct, frozen=True):
    """One unit to be read into a staging folder."""

    root: str
    folder: str
    how: How
    unit: Unit


class SourceResult(msgspec.Struct, frozen=True):
    """What came of one file."""

    source: Source
    digest: str = ""
    unreadable: bool = False
    read: int = 0
    taken: int = 0
    quarantined: int = 0
    aside: str | None = None
    """The staged quarantine file, if there is one."""
    listed: tuple[Line, ...] = ()


class UnitResult(msgspec.Struct, frozen=True):
    """What came of one unit."""

    unit: Unit
    changed: str | None = None
    """The path of a file that is not what the ledger says; then nothing was read."""
    same: bool = False
    """The ledger has these files, with these bytes; nothing was read."""
    sources: tuple[SourceResult, ...] = ()
    pieces: tuple[Piece, ...] = ()
    infos: tuple[RunInfo, ...] = ()
    remarks: tuple[Line, ...] = ()
    remarks_count: int = 0


def read_unit(task: ReadTask) -> UnitResult:
    """Read one unit; what cannot be read to its end is set aside as a whole."""
    unit = task.unit
    try:
        digests = [digest_of(source.path) for source in unit.sources]
    except (OSError, pa.ArrowException) as error:
        return _unreadable(task, first_line(error))
    known = [source.known for source in unit.sources]
    if any(before is not None for before in known):
        for source, digest in zip(unit.sources, digests, strict=True):
            if source.known != digest:
                return UnitResult(unit, changed=source.path)
        return UnitResult(unit, same=True)
    try:
        if task.how.importer == TRACE:
            return _read_segment(task, digests[0])
        return _read_text(task, digests)
    except UnreadableError as error:
        return _unreadable(task, str(error))


def digest_of(path: str) -> str:
    """What tells the bytes of a file from those of any other."""
    files, inner = filesystem(path)
    digest = hashlib.blake2b(digest_size=20)
    with files.open_input_stream(inner, compression=None) as stream:
        while text := stream.read(HASH_BYTES):
            digest.update(text)
    return digest.hexdigest()


def _aside(task: ReadTask, source: Source) -> Aside:
    """A staged quarantine of a source; each try of a task has one of its own."""
    name = f"{task.folder}/aside/{uuid.uuid4().hex}.parquet"
    return Aside(TableFiles(task.root), name, source.path)


def _unreadable(task: ReadTask, reason: str) -> UnitResult:
    """The unit as a whole set aside: one entry for each of its files."""
    results = []
    for source in task.unit.sources:
        aside = _aside(task, source)
        aside.add(None, reason, None)
        results.append(
            SourceResult(
                source, unreadable=True, quarantined=1, aside=aside.close(),
                listed=tuple(aside.listed),
            )
        )  # fmt: skip
    return UnitResult(task.unit, sources=tuple(results))


def _read_segment(task: ReadTask, digest: str) -> UnitResult:
    source = task.unit.sources[0]
    pieces = PieceWriter(TableFiles(task.root), f"{task.folder}/pieces", task.unit.number)
    aside = _aside(task, source)
    intake = Intake(pieces, aside)
    read = read_rows if name_of(source.path).endswith(".parquet") else read_lines
    read(source.path, intake)
    pieces.close()
    name = aside.close()
    result = SourceResult(
        source, digest=digest, read=intake.read, taken=intake.taken, quarantined=aside.count,
        aside=name, listed=tuple(aside.listed),
    )  # fmt: skip
    return UnitResult(task.unit, sources=(result,), pieces=tuple(pieces.pieces))


class _TextOutput:
    """Takes what an importer makes of the files of one unit, read as one text."""

    def __init__(self, pieces: PieceWriter, asides: list[Aside], starts: list[int]) -> None:
        self._pieces = pieces
        self._asides = asides
        self._starts = starts  # the line before the first one of each file
        self.read = [0] * len(asides)
        self.taken = [0] * len(asides)
        self.infos: list[RunInfo] = []
        self.remarks: list[Line] = []
        self.remarks_count = 0

    def _place(self, line: int) -> tuple[int, int]:
        at = bisect_right(self._starts, line - 1) - 1
        return at, line - self._starts[at]

    def run(self, info: RunInfo) -> None:
        if (reason := run_fault(info.run)) is not None:
            raise UnreadableError(reason)
        self.infos.append(info)

    def record(self, record: Record) -> None:
        if (reason := fault(record)) is not None:
            raise UnreadableError(f"cannot become a trace: {reason}")
        self._pieces.add(record)

    def found(self, line: int) -> None:
        self.read[self._place(line)[0]] += 1

    def took(self, line: int) -> None:
        self.taken[self._place(line)[0]] += 1

    def set_aside(self, line: int, reason: str, text: str, run: str | None = None) -> None:
        at, inside = self._place(line)
        self._asides[at].add(inside, reason, text, run)

    def remark(self, line: int, reason: str) -> None:
        at, inside = self._place(line)
        self.remarks_count += 1
        if len(self.remarks) < LISTED_MAX:
            self.remarks.append(Line(self._asides[at].path, inside, reason))


def _read_text(task: ReadTask, digests: list[str]) -> UnitResult:
    sources = task.unit.sources
    texts, starts, lines = [], [], 0
    for source in sources:
        text = _text_of(source.path)
        text = text if text.endswith("\n") else f"{text}\n"
        starts.append(lines)
        lines += text.count("\n")
        texts.append(text)
    pieces = PieceWriter(TableFiles(task.root), f"{task.folder}/pieces", task.unit.number)
    asides = [_aside(task, source) for source in sources]
    out = _TextOutput(pieces, asides, starts)
    importer = text_importer(task.how.importer)
    try:
        importer.translate("".join(texts), task.unit.name, task.how.settings, out)
    except UnusableInputError as error:
        raise UnreadableError(str(error)) from error
    pieces.close()
    results = [
        SourceResult(
            source, digest=digests[at], read=out.read[at], taken=out.taken[at],
            quarantined=asides[at].count, aside=asides[at].close(), listed=tuple(asides[at].listed),
        )
        for at, source in enumerate(sources)
    ]  # fmt: skip
    return UnitResult(
        task.unit, sources=tuple(results), pieces=tuple(pieces.pieces), infos=tuple(out.infos),
        remarks=tuple(out.remarks), remarks_count=out.remarks_count,
    )  # fmt: skip


def _text_of(path: str) -> str:
    """A whole file, decompressed, without byte order mark, every line end a newline."""
    try:
        with open_stream(path) as stream:
            text = stream.read().decode(errors="backslashreplace")
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"cannot be read: {first_line(error)}") from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
