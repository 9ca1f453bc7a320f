"""What there is to take: files below the paths given, and what is known of their runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import pyarrow as pa
import pyarrow.fs as pafs

from thence.errors import UnusableInputError
from thence.pipeline.ingest_commit import Entry
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_intake import Line, first_line
from thence.pipeline.ingest_read import TRACE, How, Source, Unit
from thence.trace.files import (
    COMPRESSION,
    absolute,
    filesystem,
    folders,
    is_below,
    is_url,
    join,
    kind_of,
    name_of,
    parent,
)
from thence.trace.reader import Place, by_run, find_places, look_at_group
from thence.trace.record import RunInfo
from thence.trace.segments import Quarantine


class Found(msgspec.Struct, frozen=True):
    """The inputs below some paths."""

    units: tuple[Unit, ...]
    infos: dict[str, RunInfo]
    """Folder to its ``run.json``, of folders that have one."""
    faults: tuple[Line, ...]
    """``run.json`` files that cannot be read."""
    groups: tuple[tuple[Place, ...], ...] = ()
    """The places of each run; none for what is imported."""


def find_inputs(paths: Sequence[str | os.PathLike[str]], files: TableFiles, how: How) -> Found:
    """What is below these paths, in a fixed order, without what is in the table itself."""
    given = [absolute(path) for path in paths]
    for path in given:
        if _is_within(path, files.root):
            raise UnusableInputError(f"{path} is part of the table {files.root}: name its input")
    if how.importer == TRACE:
        return _find_traces(given, files.root)
    return _find_texts(given, files.root, how.run)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or is_below(path, folder)


def _find_traces(paths: list[str], root: str) -> Found:
    quarantine = Quarantine()
    places = [place for place in find_places(paths, quarantine) if not _is_within(place.path, root)]
    homes: dict[str, str] = {}
    infos: dict[str, RunInfo] = {}
    for place in places:
        home = home_of(place)
        for path in place.files:
            homes.setdefault(path, home)
        if place.info is not None:
            known = infos.get(home)
            # One file is not the run; a folder named as well has the last word.
            if known is None or not known.complete:
                infos[home] = place.info
    if not homes:
        names = ", ".join(paths)
        raise UnusableInputError(f"{names}: no segments to ingest; was the run stopped at once?")
    units = [
        Unit(number, "", homes[source.path], (source,))
        for number, source in enumerate(stat_files(list(homes)))
    ]
    faults = tuple(Line(item.file, item.line, item.reason) for item in quarantine.listed)
    return Found(tuple(units), infos, faults, tuple(map(tuple, by_run(places))))


def home_of(place: Place) -> str:
    """The folder that the logs of a place belong to, also when only one of its files is named."""
    return place.path if place.files != (place.path,) else parent(place.path)


def notes_on(found: Found, entries: Iterable[Entry]) -> list[str]:
    """What the check will object to, or take for granted, in the runs of these inputs.

    ``entries``: the whole ledger, because the log that one folder lacks may have come from another.
    """
    nodes: dict[str, set[str]] = {}
    runs_of: dict[str, set[str]] = {}
    for entry in entries:
        for run, node in entry.logs:
            nodes.setdefault(run, set()).add(node)
            runs_of.setdefault(entry.home, set()).add(run)
    notes: list[str] = []
    for group in found.groups:
        runs = {place.info.run for place in group if place.info is not None}
        for place in group:
            runs |= runs_of.get(home_of(place), set())
        here = {run: nodes[run] for run in sorted(runs) if run in nodes}
        missing = Quarantine()
        look_at_group(group, here, missing, notes)
        notes += [f"{item.file}: {item.reason}" for item in missing.listed]
    return notes


def _find_texts(paths: list[str], root: str, run: str | None) -> Found:
    """Every file named, or in a folder named; one run for each, or one for all with its name."""
    found = dict.fromkeys(text for path in paths for text in _texts(path, root))
    sources = stat_files(list(found))
    if run is not None:
        home = f"the import of {', '.join(found)}"
        return Found((Unit(0, run, home, tuple(sources)),), {}, ())
    units = [
        Unit(number, run_name(source.path), source.path, (source,))
        for number, source in enumerate(sources)
    ]
    names: dict[str, str] = {}
    for unit in units:
        if (other := names.setdefault(unit.name, unit.home)) != unit.home:
            raise UnusableInputError(
                f"{other} and {unit.home} would both be the run {unit.name}: ingest them one at a "
                "time with --run NAME"
            )
    return Found(tuple(units), {}, ())


def _texts(path: str, root: str) -> Iterator[str]:
    kind = kind_of(path)
    if kind == "none":
        raise UnusableInputError(f"{path} does not exist: name a log file or a folder of them")
    if kind == "file":
        yield path
        return
    count = 0
    for folder, names in folders(path):
        for name in names:
            if not name.startswith((".", "_")) and not _is_within(folder, root):
                count += 1
                yield join(folder, name)
    if not count:
        raise UnusableInputError(f"{path} holds no files")


def run_name(path: str) -> str:
    """What a run is called after its file: the name without its endings."""
    name = name_of(path)
    for ending in COMPRESSION:
        name = name.removesuffix(ending)
    return os.path.splitext(name)[0] or name


def stat_files(paths: Sequence[str]) -> list[Source]:
    """Size and time of each file, asked of each file system at once."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(_host_of(path), []).append(path)
    sources: dict[str, Source] = {}
    for group in groups.values():
        try:
            where = filesystem(group[0])[0]
            entries = where.get_file_info([filesystem(path)[1] for path in group])
        except (OSError, pa.ArrowException) as error:
            raise UnusableInputError(f"{group[0]}: {first_line(error)}") from None
        for path, entry in zip(group, entries, strict=True):
            if entry.type != pafs.FileType.File:
                raise UnusableInputError(f"{path} is not a file any more: try again")
            sources[path] = Source(path, entry.size, entry.mtime_ns or 0)
    return [sources[path] for path in paths]


def _host_of(path: str) -> str:
    return "/".join(path.split("/", 3)[:3]) if is_url(path) else ""


def sort_out(found: Found, ledger: dict[str, Entry], how: How) -> tuple[list[Unit], list[Unit]]:
    """(units to read, units that are already there).

    A file that the ledger has under another size or time is to be read again, for its digest.
    """
    todo, there = [], []
    for unit in found.units:
        entries = [ledger.get(source.path) for source in unit.sources]
        known = [entry for entry in entries if entry is not None]
        for entry in known:
            if entry.how != how.text():
                raise UnusableInputError(
                    f"{entry.segment} was ingested as {entry.how}: ingest it into a new folder "
                    "to read it in another way"
                )
        if known and len(known) < len(entries):
            absent = next(s.path for s, e in zip(unit.sources, entries, strict=True) if e is None)
            raise UnusableInputError(
                f"{absent} comes after other files of the run {unit.name} were imported: import "
                "all files of a run at once, into a new folder"
            )
        pairs = list(zip(unit.sources, known, strict=True)) if known else []
        if pairs and all((s.size, s.mtime_ns) == (e.size, e.mtime_ns) for s, e in pairs):
            there.append(unit)
        else:
            sources = tuple(
                msgspec.structs.replace(source, known=entry.digest) for source, entry in pairs
            )
            todo.append(msgspec.structs.replace(unit, sources=sources or unit.sources))
    return todo, there
