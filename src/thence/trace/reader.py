"""Find traces and read them.

A PATH is a run folder (``run.json`` and segments), a folder with run folders anywhere below it, or
one segment file.  Folders whose ``run.json`` names the same run are one run as long as no node is
in two of them, so each node may keep its own folder.  A place without ``run.json`` is read with
defaults: the members are the nodes seen and the run is not complete.

What cannot be read is never dropped silently: it goes to the quarantine with file, line and
reason, and unless the caller asked to keep going a TraceError follows once all is read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from thence.errors import UnusableInputError
from thence.trace.columns import Columns, Part, gather_runs, used_codes
from thence.trace.files import (
    folders,
    identity,
    is_below,
    is_segment,
    is_unsealed,
    join,
    kind_of,
    name_of,
    parent,
    read_bytes,
)
from thence.trace.parquet import read_parquet, records_of_parquet
from thence.trace.record import Record, RunInfo, fault, info_from_json, record_from_json
from thence.trace.segments import (
    MALFORMED,
    Quarantine,
    fault_of_line,
    lines_of,
    read_lines,
    too_long,
)
from thence.trace.views import founders_of

INFO_FILE: Final = "run.json"
TABLE_INFO_FILE: Final = "_run.json"
"""The same in a folder that Spark reads as a table: it passes over names like this."""
PathLike = str | os.PathLike[str]


class Place(msgspec.Struct, frozen=True):
    """The files that belong together, and what ``run.json`` says of them."""

    path: str
    files: tuple[str, ...]
    info: RunInfo | None
    unusable: str = ""
    """The name of a ``run.json`` that is there and says nothing."""
    unsealed: tuple[str, ...] = ()
    """Names of logs that are still open: nobody reads them."""


def find_places(paths: Sequence[PathLike], quarantine: Quarantine) -> list[Place]:
    """The runs below these paths, in a fixed order; UnusableInputError when a path has none."""
    places: list[Place] = []
    seen: set[str] = set()
    for given in paths:
        path = os.fspath(given)
        found = {identity(place.path): place for place in _places(path, quarantine)}
        places += [place for same, place in found.items() if same not in seen]
        seen.update(found)
    if not places:
        raise UnusableInputError("no trace given: name a run folder, or a .jsonl or .parquet file")
    return places


def _places(path: str, quarantine: Quarantine) -> list[Place]:
    kind = kind_of(path)
    if kind == "file":
        if not is_segment(name_of(path)):
            raise UnusableInputError(
                f"{path} is not a trace: expected a .jsonl (also .gz, .zst) or .parquet file"
            )
        place = _place(path, (path,), parent(path), quarantine)
        if place.info is None:
            return [place]
        # One file is not the run: what it lacks may be in the others.
        part = msgspec.structs.replace(place.info, complete=False)
        return [msgspec.structs.replace(place, info=part)]
    if kind == "none":
        raise UnusableInputError(f"{path} does not exist: name a run folder or a trace file")
    places: list[Place] = []
    for folder, files in folders(path):
        if places and is_below(folder, places[-1].path):
            continue  # what is below a run folder belongs to it, not to the trace
        segments = tuple(join(folder, name) for name in files if is_segment(name))
        if segments or INFO_FILE in files or TABLE_INFO_FILE in files:
            place = _place(folder, segments, folder, quarantine)
            unsealed = tuple(name for name in files if is_unsealed(name))
            places.append(msgspec.structs.replace(place, unsealed=unsealed))
    if not places:
        raise UnusableInputError(f"{path} holds no trace: no {INFO_FILE}, *.jsonl or *.parquet")
    return places


def _place(path: str, files: tuple[str, ...], folder: str, quarantine: Quarantine) -> Place:
    name, info = read_info(folder)
    if isinstance(info, str):
        quarantine.add(join(folder, name), None, info)
        return Place(path, files, None, name)
    return Place(path, files, info)


def read_info(folder: str) -> tuple[str, RunInfo | str | None]:
    """The name of a folder's ``run.json`` and what it says, or why it says nothing.

    None when there is none.
    """
    for name in (INFO_FILE, TABLE_INFO_FILE):
        path = join(folder, name)
        try:
            return name, info_from_json(read_bytes(path))
        except FileNotFoundError:
            continue
        except MALFORMED as error:
            return name, "nested too deeply" if isinstance(error, RecursionError) else str(error)
        except OSError as error:
            if kind_of(path) == "folder":
                return name, "expected a file, this is a folder"
            return name, error.strerror or str(error)
    return "", None


def iter_runs(
    paths: Sequence[PathLike],
    quarantine: Quarantine,
    notes: list[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[tuple[Columns, RunInfo]]:
    """Each run below these paths as columns, one at a time; what is bad goes to the quarantine.

    ``notes`` gets a sentence on each thing that is not wrong but should be known.
    """
    events = 0
    groups = by_run(find_places(paths, quarantine))
    total = sum(len(place.files) for group in groups for place in group)
    done = count()

    def step() -> None:
        if progress is not None:
            progress("reading segments", next(done), total)

    for group in groups:
        for columns, info in runs_in(group, quarantine, [] if notes is None else notes, step):
            events += columns.events
            yield columns, info
    if not events and not quarantine.count:
        raise no_records(paths)


def runs_in(
    group: Sequence[Place],
    quarantine: Quarantine,
    notes: list[str],
    step: Callable[[], None] = lambda: None,
    measured: bool = False,
) -> Iterator[tuple[Columns, RunInfo]]:
    """The runs of places that belong together; ``step`` is called before each file.

    ``measured``: with clocks and sizes.
    """
    infos = [place.info for place in group if place.info is not None]
    members = [name for info in infos for name in info.members]
    nodes: dict[str, set[str]] = {}
    for columns in gather_runs(_parts(group, quarantine, step, measured), members):
        codes = used_codes(columns.node, len(columns.names))
        nodes[columns.run] = {columns.names[code] for code in codes}
        yield columns, _info_of(columns, infos)
    look_at_group(group, nodes, quarantine, notes)


def no_records(paths: Sequence[PathLike]) -> UnusableInputError:
    """What to raise when there are places and not one record in them."""
    names = ", ".join(os.fspath(path) for path in paths)
    return UnusableInputError(f"{names}: no trace records; was the run stopped at once?")


def look_at_group(
    group: Sequence[Place], nodes: dict[str, set[str]], quarantine: Quarantine, notes: list[str]
) -> None:
    """Set aside the logs that are not there, and note what was assumed.

    ``nodes``: by run found in these places, the nodes that have a log.
    """
    infos = {place.info.run: place.info for place in group if place.info is not None}
    for place in group:
        if place.info is None and place.files:
            lack = f"{place.unusable} cannot be used" if place.unusable else f"no {INFO_FILE}"
            notes.append(
                f"{place.path}: {lack}, so the members are taken to be the nodes seen, and what "
                "never happened is not missed"
            )
        if place.unsealed:
            more = f" and {len(place.unsealed) - 1} more" if len(place.unsealed) > 1 else ""
            notes.append(
                f"{place.path}: {place.unsealed[0]}{more} not read: a node runs, or was killed and "
                "not started again, and what only its log says is missing; the trace reference "
                "says how to seal it (While a node writes)"
            )
    for run, info in infos.items():
        absent = sorted(set(info.members) - nodes.get(run, set()))
        if info.complete and absent:
            quarantine.add(group[0].path, None, f"no log of {', '.join(absent)} in complete {run}")
    for run in sorted(set(nodes) - set(infos)) if infos else ():
        notes.append(f"{group[0].path}: records of run {run}, of which {INFO_FILE} says nothing")


def read_runs(
    paths: Sequence[PathLike], keep_going: bool = False
) -> tuple[list[tuple[Columns, RunInfo]], Quarantine]:
    """Every run below these paths; TraceError for a bad line unless ``keep_going``."""
    quarantine = Quarantine()
    runs = list(iter_runs(paths, quarantine))
    if quarantine.count and not (keep_going and runs):
        raise quarantine.error()
    return runs, quarantine


def read_run(paths: Sequence[PathLike], run: str, node: str) -> tuple[Columns, RunInfo]:
    """The run of this name that has a log of this node, of those below these paths.

    The others are not read if that can be told before.

    What cannot be read is passed over: whoever read it before has told it.
    """
    groups = by_run(find_places(paths, Quarantine()))
    # Most often run.json names it; a log may also hold records of a run that nothing names.
    groups.sort(key=lambda group: all(p.info is None or p.info.run != run for p in group))
    for group in groups:
        infos = [place.info for place in group if place.info is not None]
        members = [name for info in infos for name in info.members]
        for columns in gather_runs(_parts(group, Quarantine(), lambda: None), members):
            if columns.run == run and node in columns.names:
                return columns, _info_of(columns, infos)
    raise UnusableInputError(f"run {run} is no longer where it was checked")


def by_run(places: list[Place]) -> list[list[Place]]:
    """Places of the same named run together, in order of first appearance."""
    groups: dict[str, list[Place]] = {}
    for place in places:
        key = f"path {place.path}" if place.info is None else f"run {place.info.run}"
        groups.setdefault(key, []).append(place)
    return list(groups.values())


def _parts(
    group: Sequence[Place],
    quarantine: Quarantine,
    step: Callable[[], None],
    measured: bool = False,
) -> list[Part]:
    parts: list[Part] = []
    home: dict[str, str] = {}
    for place in group:
        for file in place.files:
            step()
            part = read_segment(file, quarantine, measured)
            if part is None:
                continue
            parts.append(part)
            for code in used_codes(part.node, len(part.names)):
                note_home(home, part.names[code], place.path)
    return parts


def read_segment(path: str, quarantine: Quarantine, measured: bool = False) -> Part | None:
    """The good records of one segment; None when the file as a whole is unusable."""
    if name_of(path).endswith(".parquet"):
        return read_parquet(path, quarantine, measured=measured)
    return read_lines(path, quarantine, measured)


def note_home(home: dict[str, str], node: str, place: str) -> None:
    """Remember which place holds the log of a node; it can be only one."""
    if home.setdefault(node, place) != place:
        raise UnusableInputError(
            f"{home[node]} and {place} both hold a log of {node} in one run: "
            "check them one at a time"
        )


def info_of(run: str, infos: Sequence[RunInfo]) -> RunInfo:
    """What the ``run.json`` files of a run say together, or defaults without members."""
    mine = [info for info in infos if info.run == run]
    if not mine:
        return RunInfo(run=run)
    return msgspec.structs.replace(mine[0], complete=all(info.complete for info in mine))


def _info_of(columns: Columns, infos: Sequence[RunInfo]) -> RunInfo:
    """The same of a run that has been read: without members, those who founded it."""
    info = info_of(columns.run, infos)
    return info if info.members else msgspec.structs.replace(info, members=founders_of(columns))


def read_records(paths: Sequence[PathLike], keep_going: bool = False) -> Iterator[Record]:
    """Every good record, file by file, unknown fields in ``extra``; a Python object per event."""
    quarantine = Quarantine()
    for place in find_places(paths, quarantine):
        for path in place.files:
            if not name_of(path).endswith(".parquet"):
                yield from _records_of_lines(path, quarantine)
            elif read_parquet(path, quarantine) is not None:
                yield from records_of_parquet(path)
    if quarantine.count and not keep_going:
        raise quarantine.error()


def _records_of_lines(path: str, quarantine: Quarantine) -> Iterator[Record]:
    for number, line in lines_of(path):
        if too_long(line):
            quarantine.add(path, number, fault_of_line(line))
            continue
        if not line.strip():
            continue
        try:
            record = record_from_json(line)
            reason = fault(record)
        except MALFORMED as error:
            reason = fault_of_line(line, error)
        if reason is None:
            yield record
        else:
            quarantine.add(path, number, reason)
