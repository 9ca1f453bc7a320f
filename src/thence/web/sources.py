"""What a PATH holds: run folders, segments, or a log that users of ShiViz have.

A source is one run that can be read, again and again while it grows.  With ``live``, what nodes
have written since their last segment is read too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import pyarrow.parquet as pq

from thence.errors import UnusableInputError
from thence.pipeline.importers import text_importer
from thence.trace.columns import Columns, Part, gather_runs, used_codes
from thence.trace.files import (
    SEGMENT_ENDINGS,
    is_segment,
    is_url,
    join,
    kind_of,
    name_of,
    random_access,
)
from thence.trace.parquet import records_of_parquet
from thence.trace.reader import (
    Place,
    by_run,
    find_places,
    info_of,
    look_at_group,
    note_home,
    read_segment,
)
from thence.trace.record import (
    Record,
    RunInfo,
    fault,
    info_to_json,
    record_from_json,
    record_to_json,
)
from thence.trace.segments import MALFORMED, Quarantine, lines_of, part_of_records
from thence.trace.views import founders_of

PARSERS: Final = (
    r"^(?<event>.*)\n(?<host>\S*) (?<clock>{[^{}\n]*})[ \t]*$",
    r"(?<!\S)(?<host>\S*) (?<clock>{[^{}\n]*})\n(?<event>.*)",
    r"(?<!\S)(?<host>\S*) (?<clock>{[^{}\n]*}) (?<event>.*)",
    r"\[\w+\] \[(?<date>([^ ]+ [^ ]+))\] [^ ]+ \[[^\]]*/(?<host>\w+)\] "
    r"(?<clock>{[^{}\n]*}) (?<event>.*)",
)
"""Tried on a text in this order; the one that leaves the fewest lines over is taken.  Any text may
come: where one begins and how far it looks is such that a long line costs its length, no more."""
TEXT_BYTES_MAX: Final = 1 << 26
OPEN_ENDING: Final = ".jsonl.open"
TRIES: Final = 10
"""So often is a folder read again in which a log was sealed meanwhile."""


class Read(NamedTuple):
    """What a source had when it was read."""

    columns: Columns | None
    """None without a single record."""
    info: RunInfo
    notes: tuple[str, ...]


class Source:
    """One run of one place, or of several places that say they are one run."""

    def __init__(self, title: str, path: str, run: str | None, live: bool = False) -> None:
        self.title, self.path, self.run, self.live = title, path, run, live
        self._parts: dict[str, tuple[object, Part | None, Quarantine]] = {}

    def _places(self, quarantine: Quarantine) -> list[Place]:
        try:
            groups = by_run(find_places([self.path], quarantine))
        except UnusableInputError:
            if self.live:
                return []
            raise
        for group in groups:
            infos = [place.info for place in group if place.info is not None]
            if self.run is None or any(info.run == self.run for info in infos):
                return group
        # A run that nothing names is in the places that have no run.json.
        return [p for group in groups for p in group if p.info is None or p.info.run == self.run]

    def read(self) -> Read:
        """The run as it is now; what cannot be read becomes notes."""
        for _ in range(TRIES):
            quarantine, notes = Quarantine(), list[str]()
            group, parts, is_whole = self._read_parts(quarantine)
            if is_whole:
                break
        infos = [place.info for place in group if place.info is not None]
        members = [name for info in infos for name in info.members]
        runs = gather_runs(parts, members)
        if self.run is None and runs:
            self.run = runs[0].run
        columns = next((run for run in runs if run.run == self.run), None)
        if self.live:
            group = [msgspec.structs.replace(place, unsealed=()) for place in group]
        found = {run.run: {run.names[c] for c in used_codes(run.node, len(run.names))}
                 for run in runs}  # fmt: skip
        look_at_group(group, found, quarantine, notes)
        info = info_of(self.run or "", infos)
        if columns is not None and not info.members:
            info = msgspec.structs.replace(info, members=founders_of(columns))
        return Read(columns, info, (*notes, *told(quarantine)))

    def _read_parts(self, quarantine: Quarantine) -> tuple[list[Place], list[Part], bool]:
        """The places, what their files have, and whether all files are still there: one that was
        sealed meanwhile and is gone may have been read neither here nor there."""
        group = self._places(quarantine)
        parts, home, kept = [], dict[str, str](), set[str]()
        for place in group:
            for file in self._files(place):
                kept.add(file)
                part = self._part(file, quarantine)
                if part is not None:
                    parts.append(part)
                    for code in used_codes(part.node, len(part.names)):
                        note_home(home, part.names[code], place.path)
        self._parts = {file: known for file, known in self._parts.items() if file in kept}
        return group, parts, not self.live or all(os.path.exists(file) for file in kept)

    def _files(self, place: Place) -> list[str]:
        """The files to read of a place.  An open log whose segment is there has been sealed, and
        is about to go, or its node was killed before that."""
        files = list(place.files)
        if self.live:
            sealed = {_stem(name_of(file)) for file in files}
            files += [join(place.path, name) for name in place.unsealed
                      if name[1:].removesuffix(OPEN_ENDING) not in sealed]  # fmt: skip
        return files

    def _part(self, path: str, quarantine: Quarantine) -> Part | None:
        """The records of a file; of one that did not change, those of the last time."""
        mark = _mark(path)
        kept = self._parts.get(path)
        if kept is None or mark is None or kept[0] != mark:
            own = Quarantine()
            open_still = self.live and not path.endswith((".parquet", ".gz", ".zst"))
            if open_still:
                part: Part | None = part_of_records(_whole_lines(path, own), measured=True)
            else:
                part = read_segment(path, own, measured=True)
            kept = self._parts[path] = (mark, part, own)
        quarantine.count += kept[2].count
        quarantine.listed += kept[2].listed
        return kept[1]

    def records(self, only_texts: bool = False) -> Iterator[Record]:
        """Every record of the run that can be read; ``only_texts``: files without a payload and
        without a field that is not ours may be left out."""
        for place in self._places(Quarantine()):
            for path in self._files(place):
                if path.endswith(".parquet"):
                    if only_texts and not _has_texts(path):
                        continue
                    records = iter(records_of_parquet(path))
                else:
                    records = _whole_lines(path, Quarantine())
                yield from (record for record in records if record.run == self.run)

    def mark(self) -> object:
        """Changes when there is something new."""
        try:
            group = self._places(Quarantine())
        except UnusableInputError:
            return None
        infos = [place.info for place in group]
        return infos, [(path, _mark(path)) for place in group for path in self._files(place)]


def _has_texts(path: str) -> bool:
    """Whether a Parquet segment has a payload, or a field that is not ours."""
    metadata = pq.ParquetFile(random_access(path)).metadata
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        for place in range(group.num_columns):
            column = group.column(place)
            if column.path_in_schema in ("payload", "extra"):
                found = column.statistics
                if found is None or found.null_count is None or found.null_count < group.num_rows:
                    return True
    return False


def _stem(name: str) -> str:
    """The name of a segment without what says its form."""
    ending = max((e for e in SEGMENT_ENDINGS if name.endswith(e)), key=len, default="")
    return name.removesuffix(ending)


def _mark(path: str) -> object:
    """What changes with a local file; None for one that is elsewhere or gone."""
    if is_url(path):
        return path
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns, found.st_ino


def _whole_lines(path: str, quarantine: Quarantine) -> Iterator[Record]:
    """The records of a file that may end in the middle of a line, which is not read yet."""
    try:
        for number, line in lines_of(path):
            if not line.endswith(b"\n") or not line.strip():
                continue
            try:
                record = record_from_json(line)
                reason = fault(record)
            except MALFORMED as error:
                reason = str(error)
            if reason is None:
                yield record
            else:
                quarantine.add(path, number, reason)
    except OSError as error:  # sealed and gone since it was listed
        quarantine.add(path, None, error.strerror or str(error))


def told(quarantine: Quarantine) -> list[str]:
    """What could not be read, in a few sentences."""
    lines = []
    for item in quarantine.listed[:5]:
        where = item.file if item.line is None else f"{item.file}:{item.line}"
        lines.append(f"{where}: {item.reason}")
    if quarantine.count > len(lines):
        lines.append(f"... and {quarantine.count - len(lines)} more that could not be read")
    return lines


def find_sources(
    path: str, work: Path, live: bool = False, settings: Mapping[str, str] | None = None
) -> list[Source]:
    """The runs below a path; UnusableInputError when there is none.

    ``work``: a folder for what has to be translated first.  ``settings``: of the importer of
    ShiViz logs.
    """
    if live and kind_of(path) != "folder":
        raise UnusableInputError(f"--live follows a folder, and {path} is none")
    if kind_of(path) == "file" and not is_segment(name_of(path)):
        return _foreign(path, work, settings)
    if settings:
        raise UnusableInputError(f"{path} is a trace: --parser is for logs of others")
    try:
        places = find_places([path], Quarantine())
    except UnusableInputError:
        if live:
            return [Source(name_of(path), path, None, live)]
        raise
    sources = []
    for group in by_run(places):
        info = next((place.info for place in group if place.info is not None), None)
        if info is not None:
            sources.append(Source(info.run, path, info.run, live))
        else:
            sources += _unnamed(group, live)
    if not sources and live:
        return [Source(name_of(path), path, None, live)]
    if not sources:
        raise UnusableInputError(f"{path}: no trace records; was the run stopped at once?")
    return sources


def runs_mark(path: str) -> object:
    """Changes when there may be another run below a live folder; None while there is nothing."""
    try:
        places = find_places([path], Quarantine())
    except UnusableInputError:
        return None
    return [(place.path, place.info.run) if place.info is not None else (place.path, place.files)
            for place in places]  # fmt: skip


def _unnamed(group: Sequence[Place], live: bool) -> list[Source]:
    """The runs of a place without ``run.json``: their names are in the records."""
    place = group[0]
    parts = [read_segment(file, Quarantine()) for file in place.files]
    runs = gather_runs([part for part in parts if part is not None])
    return [Source(run.run, place.path, run.run, live) for run in runs]


class _Output:
    """Puts what an importer finds into run folders."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.aside: list[tuple[int, str]] = []
        self.folders: list[Path] = []
        self._lines: list[bytes] = []

    def run(self, info: RunInfo) -> None:
        self.flush()
        folder = self._folder / f"{len(self.folders)}"
        folder.mkdir(parents=True)
        (folder / "run.json").write_bytes(info_to_json(info))
        self.folders.append(folder)

    def record(self, record: Record) -> None:
        self._lines.append(record_to_json(record))

    def found(self, line: int) -> None:
        """What is found is also recorded, or set aside."""

    def took(self, line: int) -> None:
        """What was taken was recorded."""

    def set_aside(self, line: int, reason: str, text: str, run: str | None = None) -> None:
        self.aside.append((line, reason))

    def remark(self, line: int, reason: str) -> None:
        """The check says what is odd."""

    def flush(self) -> None:
        if self._lines:
            path = self.folders[-1] / "log-000000.jsonl"
            path.write_bytes(b"\n".join(self._lines) + b"\n")
            self._lines = []


def _foreign(path: str, work: Path, settings: Mapping[str, str] | None) -> list[Source]:
    """The runs of a text with vector clocks."""
    if is_url(path):
        raise UnusableInputError(
            f"{path} is not a trace; logs of others are read from this machine"
        )
    file = Path(path)
    if file.stat().st_size > TEXT_BYTES_MAX:
        raise UnusableInputError(f"{path} is larger than {TEXT_BYTES_MAX >> 20} MiB of text")
    text = file.read_bytes().decode(errors="backslashreplace").replace("\r\n", "\n")
    importer = text_importer("shiviz")
    tries = [dict(settings)] if settings else [{"expression": parser} for parser in PARSERS]
    best: _Output | None = None
    for number, given in enumerate(tries):
        importer.check(given)
        out = _Output(work / f"{file.name}-{len(os.listdir(work))}-{number}")
        try:
            importer.translate(text, file.stem, given, out)
        except UnusableInputError:
            if settings:
                raise
            continue
        out.flush()
        if out.folders and (best is None or len(out.aside) < len(best.aside)):
            best = out
    if best is None:
        raise UnusableInputError(
            f"{path} is not a trace: expected a run folder, a .jsonl or .parquet file, or a log "
            "with vector clocks as ShiViz reads it (--parser says how)"
        )
    sources = [source for folder in best.folders for source in find_sources(str(folder), work)]
    for source in sources:
        source.title = f"{file.name}: {source.title}"
    return sources
