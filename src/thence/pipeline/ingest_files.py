"""The files of one table folder: every change that an ingest makes goes through here.

Names are paths below the folder, joined by ``/``.  Each change is one step that has happened or
has not: files appear whole under their names, by a rename where the file system has one and by
the end of an upload where it has not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from thence.errors import UnusableInputError
from thence.pipeline.tables import LOCK
from thence.trace.files import filesystem, join


class TableFiles:
    """The files below one folder, which may be a pyarrow.fs URL."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        text = os.fspath(root)
        self._files, inner = filesystem(text)
        self.local = isinstance(self._files, pafs.LocalFileSystem)
        self.root = os.path.abspath(inner) if self.local else text
        self._base = self.root if self.local else inner.rstrip("/")

    def path(self, name: str) -> str:
        """The whole path of a file, as users know it."""
        return join(self.root, name)

    def _inner(self, name: str) -> str:
        return f"{self._base}/{name}" if name else self._base

    def names(self, folder: str = "") -> list[str]:
        """What is in a folder, sorted; nothing when there is no such folder."""
        selector = pafs.FileSelector(self._inner(folder), allow_not_found=True)
        return sorted(entry.base_name for entry in self._files.get_file_info(selector))

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        found = self._files.get_file_info(self._inner(name)).type
        return bool(found == pafs.FileType.File)

    def read(self, name: str) -> bytes:
        """The bytes of a small file."""
        with self._files.open_input_stream(self._inner(name), compression=None) as stream:
            text: bytes = stream.read()
            return text

    def open_input(self, name: str) -> Any:
        """A file for pyarrow's readers."""
        return self._files.open_input_file(self._inner(name))

    def create(self, name: str) -> Any:
        """A new file for pyarrow's writers, in a folder of which only this ingest knows."""
        return self._files.open_output_stream(self._inner(name), compression=None)

    def write(self, name: str, text: bytes) -> None:
        """Make or replace a small file in one step."""
        folder, _, last = name.rpartition("/")
        hidden = f"{folder}/.{last}.partial" if folder else f".{last}.partial"
        with self.create(hidden) as stream:
            stream.write(text)
        self.move(hidden, name)

    def write_parquet(self, name: str, table: pa.Table) -> None:
        """Write a table to a new file, in a folder of which only this ingest knows."""
        with self.create(name) as stream:
            pq.write_table(table, stream, compression="zstd")

    def move(self, name: str, to: str) -> None:
        """Give a file another name; a file that has it is replaced."""
        self._files.move(self._inner(name), self._inner(to))

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._files.delete_file(self._inner(name))

    def make_root(self) -> None:
        """Make the folder itself; UnusableInputError when that cannot be."""
        try:
            self.make_folder()
        except (OSError, pa.ArrowException) as error:
            reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
            raise UnusableInputError(f"{self.root} cannot be a table folder: {reason}") from None

    def make_folder(self, name: str = "") -> None:
        """Make a folder and those above it, unless they are there."""
        self._files.create_dir(self._inner(name), recursive=True)

    def remove_folder(self, name: str) -> None:
        """Remove a folder with everything in it."""
        self._files.delete_dir(self._inner(name))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let nobody else write here meanwhile; the operating system ends it with the process.

        Object stores have no such lock: there, one ingest at a time is up to the caller.
        """
        if not self.local:
            yield
            return
        import fcntl

        with open(self.path(LOCK), "ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnusableInputError(
                    f"{self.root} is being written by another ingest: try again when it is done"
                ) from None
            yield
