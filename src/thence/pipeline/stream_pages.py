"""A list that is only ever appended to, kept in a folder: what is written is never half there.

Each append is a page, a small file that appears under its name when it is whole.  Works wherever
pyarrow.fs does, object stores included, which cannot append to a file.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow.fs as pafs

from thence.trace.files import filesystem


class Pages:
    """The pages of one folder, which is made if need be.  One writer at a time."""

    def __init__(self, folder: str) -> None:
        self._where, self._folder = filesystem(folder)
        self._where.create_dir(self._folder, recursive=True)
        self._next = 0

    def read(self) -> list[bytes]:
        """Every page, in the order they were appended."""
        files = self._where.get_file_info(pafs.FileSelector(self._folder))
        names = sorted(
            file.base_name
            for file in files
            if file.base_name.endswith(".json") and not file.base_name.startswith(".")
        )
        pages = []
        for name in names:
            with self._where.open_input_stream(f"{self._folder}/{name}") as stream:
                pages.append(stream.read())
        self._next = len(names)
        return pages

    def append(self, page: Any) -> None:
        """Write one page as JSON; ``read`` must have been called once."""
        name = f"{self._next:012d}.json"
        hidden = f"{self._folder}/.{name}"
        with self._where.open_output_stream(hidden) as stream:
            stream.write(msgspec.json.encode(page))
        self._where.move(hidden, f"{self._folder}/{name}")
        self._next += 1
