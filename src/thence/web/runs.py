"""The runs that a page shows: loaded when looked at, checked in the background, kept up to date."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, Final

from thence.errors import ThenceError, UnusableInputError
from thence.trace.files import is_below
from thence.web.axes import AXES
from thence.web.execution import Execution
from thence.web.sources import Source, find_sources, runs_mark
from thence.web.texts import Texts
from thence.web.windows import Ask, Windows

LOADED_MAX: Final = 4
"""Runs kept in memory; one that is looked at again later is read again."""
LOOK_S: Final = 0.3
"""How often a live folder is looked at."""
REST: Final = 2.0
"""After reading a run that grows, so many times as long as that took passes before the next."""
STOP_S: Final = 1.0
"""So long is what goes on in the background waited for at the end."""


class Loaded:
    """A run in memory."""

    def __init__(self, source: Source, version: int, work: Path) -> None:
        self.source, self.version = source, version
        self.mark = source.mark() if source.live else None
        read = source.read()
        self.notes = read.notes
        self.error = ""
        self.execution: Execution | None = None
        if read.columns is not None:
            self.execution = Execution(read.columns, read.info, read.notes)
            folder = tempfile.mkdtemp(dir=work)
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self.windows = Windows(self.execution, Path(folder))
            self.texts = Texts(self.execution, source.records)
            self.windows.window(Ask(axis=AXES[0], low=0.0, high=1.0))  # the first one it shows

    @property
    def checked(self) -> bool:
        """Whether there is nothing left to check."""
        found = self.execution
        return found is None or found.verdict is not None or bool(self.error)

    def check(self) -> None:
        """Check it; a run that cannot be checked says why."""
        if self.execution is not None:
            try:
                self.execution.check()
            except ThenceError as error:
                self.error = str(error)


class _Path:
    """What was asked for, and the runs that were found there."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.sources: list[Source] = []
        self.mark: object = None


class Viewer:
    """All runs of a page.  Methods may be called from several threads."""

    def __init__(
        self, paths: Sequence[str], live: bool = False, settings: Mapping[str, str] | None = None
    ) -> None:
        self.live = live
        self._work = tempfile.TemporaryDirectory(prefix="thence-view-", ignore_cleanup_errors=True)
        work = Path(self._work.name)
        self.start = secrets.token_hex(4)
        """Says which process answers: another one at the same port may have other runs."""
        self.sources: list[Source] = []
        self.firsts: list[int] = []
        """By path: the number of its first run."""
        self._paths = [_Path(path) for path in paths]
        try:
            for each in self._paths:
                self.firsts.append(len(self.sources))
                each.sources = find_sources(each.path, work, live, settings)
                self.sources += each.sources
        except BaseException:
            self._work.cleanup()
            raise
        self._loaded: OrderedDict[int, Loaded] = OrderedDict()
        self._locks = [Lock() for _ in self.sources]
        self._lock = Lock()
        self._version = 0
        self.listed = 0
        """Changes when the runs do that there are to choose from."""
        self.closing = Event()
        self._threads: list[Thread] = []
        self._checking: set[int] = set()

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what goes on in the background, and remove the files.  A check that takes long
        ends with the process: it writes nothing."""
        self.closing.set()
        end = time.monotonic() + STOP_S
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._work.cleanup()

    # ---- runs ------------------------------------------------------------------------------------

    def loaded(self, number: int) -> Loaded:
        """A run, read if it is not in memory."""
        if not 0 <= number < len(self.sources):
            raise UnusableInputError(f"there is no run number {number}")
        with self._locks[number]:
            with self._lock:
                found = self._loaded.get(number)
                if found is not None:
                    self._loaded.move_to_end(number)
                    return found
            return self._load(number)

    def _load(self, number: int) -> Loaded:
        with self._lock:
            self._version += 1
            version = self._version
        found = Loaded(self.sources[number], version, Path(self._work.name))
        with self._lock:
            self._loaded[number] = found
            self._loaded.move_to_end(number)
            while len(self._loaded) > LOADED_MAX:
                self._loaded.popitem(last=False)
            if number in self._checking:
                return found  # the check that goes on looks for a later reading when it is done
            self._checking.add(number)
            thread = Thread(target=self._check, args=(number,), name=f"check-{number}", daemon=True)
            self._threads = [each for each in self._threads if each.is_alive()] + [thread]
        thread.start()
        return found

    def _check(self, number: int) -> None:
        """Check the latest reading of a run until that is done: readings that a growing run has
        passed meanwhile are left out."""
        while True:
            with self._lock:
                found = self._loaded.get(number)
                if found is None or found.checked or self.closing.is_set():
                    self._checking.discard(number)
                    return
            found.check()

    def execution(self, number: int) -> tuple[Loaded, Execution]:
        """A run that has records; UnusableInputError for one that has none yet."""
        found = self.loaded(number)
        if found.execution is None:
            raise UnusableInputError(f"{found.source.title}: no trace records yet")
        return found, found.execution

    def listing(self) -> list[dict[str, Any]]:
        """The runs by number."""
        return [
            {"number": number, "title": source.title, "path": source.path}
            for number, source in enumerate(list(self.sources))
        ]

    def states(self) -> dict[int, tuple[int, bool]]:
        """By number, of the runs in memory: which reading it is, and whether it was checked."""
        with self._lock:
            return {
                number: (found.version, found.checked)
                for number, found in sorted(self._loaded.items())
            }

    # ---- live ------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Begin to look for what is new."""
        thread = Thread(target=self._follow, name="follow", daemon=True)
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _follow(self) -> None:
        while not self.closing.wait(LOOK_S):
            for each in self._paths:
                began = time.monotonic()
                try:
                    self._look(each)
                except (ThenceError, OSError):
                    continue
                if self.closing.wait(REST * (time.monotonic() - began)):
                    return
            with self._lock:
                loaded = list(self._loaded.items())
            for number, found in loaded:
                began = time.monotonic()
                try:
                    if found.source.mark() == found.mark:
                        continue
                    with self._locks[number]:
                        self._load(number)
                except (ThenceError, OSError):
                    continue  # half of something, or gone; it is looked at again
                if self.closing.wait(REST * (time.monotonic() - began)):
                    return

    def _look(self, each: _Path) -> None:
        """Take in the runs of a folder that were not there before."""
        mark = runs_mark(each.path)
        if mark == each.mark:
            return
        for source in find_sources(each.path, Path(self._work.name), live=True):
            known = any(
                source.run == other.run
                and (source.path == other.path or is_below(source.path, other.path))
                for other in each.sources
            )
            if source.run is not None and not known:
                self._take(each, source)
        each.mark = mark

    def _take(self, each: _Path, source: Source) -> None:
        """One more run; the first one of a folder that had none is what its page waits for."""
        empty = next((known for known in each.sources if known.run is None), None)
        if empty is not None:
            with self._locks[self.sources.index(empty)]:
                empty.title, empty.path, empty.run = source.title, source.path, source.run
        else:
            each.sources.append(source)
            with self._lock:
                self._locks.append(Lock())
                self.sources.append(source)
        self.listed += 1
