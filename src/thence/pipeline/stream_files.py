"""Which files a stream has seen: found by listing, written down before they are read.

Spark's own file source passes over empty files, and ``run.closed`` is one; it also forgets files
that look a week older than the newest.  So the folders are listed here, with the notion of run
folders and segments that every command has (trace/reader.py), and what is new is numbered and
appended to a log in the checkpoint.  A batch is a range of numbers, and comes out the same when it
is repeated after a crash.

Files of a folder are held back until it is known to which run they belong: until its ``run.json``
is there or, without one, until ``run.closed`` says that there will be none.  The end of a folder
comes after all its segments: when ``run.closed`` is seen the folder is listed once more, because
everything else was written before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

import msgspec

from thence.errors import UnusableInputError
from thence.pipeline.stream_pages import Pages
from thence.trace.files import folders, is_below, is_segment, kind_of
from thence.trace.reader import INFO_FILE, TABLE_INFO_FILE, read_info
from thence.trace.record import RunInfo
from thence.trace.writer import CLOSED_FILE

LOG_VERSION: Final = 1

Kind = Literal["folder", "segment", "closed", "bad", "nameless"]
"""A run folder; one of its segments; its end; a run.json that cannot be used; none at all."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was found, once."""

    kind: Kind
    folder: str
    name: str = ""
    """Of the file, in the folder."""
    group: str = ""
    """What belongs together: ``run NAME``, or ``path FOLDER`` for a folder without run.json."""
    reason: str = ""


class _Page(msgspec.Struct, frozen=True):
    """One file of the log."""

    v: int
    roots: tuple[str, ...]
    entries: tuple[Entry, ...]


class FileLog:
    """What was found below some folders so far, and the log of it."""

    def __init__(self, roots: Sequence[str], store: str) -> None:
        """``store``: the folder of the log, which need not exist."""
        self._roots = tuple(roots)
        self._store = store
        self._pages = Pages(store)
        self.entries: list[Entry] = []
        self._groups: dict[str, str] = {}
        self._seen: set[tuple[str, str]] = set()
        self._load()

    def __len__(self) -> int:
        return len(self.entries)

    def _load(self) -> None:
        for text in self._pages.read():
            page = msgspec.json.decode(text, type=_Page)
            if page.v != LOG_VERSION:
                raise UnusableInputError(f"{self._store}: written by another version of thence")
            if page.roots != self._roots:
                before = ", ".join(page.roots)
                raise UnusableInputError(
                    f"the checkpoint {self._store} belongs to {before}: choose another one"
                )
            self._note(page.entries)
        if self._pages.is_long:
            self._pages.replace(_Page(LOG_VERSION, self._roots, tuple(self.entries)))

    def _note(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.entries.append(entry)
            self._seen.add((entry.folder, _key(entry)))
            if entry.group:
                self._groups[entry.folder] = entry.group

    def discover(self) -> int:
        """List the folders, append what is new; how many entries there are."""
        new: list[Entry] = []
        visited: set[str] = set()
        for root in self._roots:
            last = ""
            for folder, names in folders(root):
                if folder in visited or (last and is_below(folder, last)):
                    continue  # what is below a run folder belongs to it, not to the trace
                visited.add(folder)
                if any(map(_is_ours, names)) or not _MARKS.isdisjoint(names):
                    last = folder
                    new += self._new_in(folder, names)
        if new:
            self._pages.append(_Page(LOG_VERSION, self._roots, tuple(new)))
            self._note(new)
        return len(self.entries)

    def _new_in(self, folder: str, names: Sequence[str]) -> list[Entry]:
        """What is new in one folder, in the order in which it has to be taken."""
        closed = CLOSED_FILE in names
        new: list[Entry] = []
        if folder not in self._groups:
            first = self._first(folder, closed)
            new += [entry for entry in first if (folder, _key(entry)) not in self._seen]
            if not first[-1].group:
                return new
        group = self._groups.get(folder) or new[-1].group
        if closed and (folder, CLOSED_FILE) not in self._seen:
            names = next(iter(folders(folder)), (folder, []))[1]
        new += [
            Entry("segment", folder, name, group)
            for name in names
            if _is_ours(name) and (folder, name) not in self._seen
        ]
        if closed and (folder, CLOSED_FILE) not in self._seen:
            new.append(Entry("closed", folder, CLOSED_FILE, group))
        return new

    def _first(self, folder: str, closed: bool) -> list[Entry]:
        """To which run a folder belongs, or why that is not known yet."""
        entries = []
        name, info = read_info(folder)
        if isinstance(info, RunInfo):
            return [Entry("folder", folder, name, f"run {info.run}")]
        if info is not None:
            entries.append(Entry("bad", folder, name, reason=info))
        if closed:
            return [*entries, Entry("folder", folder, group=f"path {folder}")]
        return entries or [Entry("nameless", folder)]


_MARKS: Final = frozenset({INFO_FILE, TABLE_INFO_FILE, CLOSED_FILE})


def _is_ours(name: str) -> bool:
    return is_segment(name) and not name.startswith("_")


def _key(entry: Entry) -> str:
    """What an entry is found again by, within its folder."""
    return entry.name if entry.kind in ("segment", "closed") else f"/{entry.kind} {entry.reason}"


def require_folders(roots: Sequence[str]) -> None:
    """UnusableInputError unless all of them are folders."""
    for root in roots:
        if kind_of(root) != "folder":
            raise UnusableInputError(f"{root} is not a folder: --follow watches folders")
