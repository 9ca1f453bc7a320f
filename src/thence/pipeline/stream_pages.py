"""A list that is only ever appended to, kept in a folder: what is written is never half there.

Each append is a page, a small file that appears under its name when it is whole.  Works wherever
pyarrow.fs does, object stores included, which cannot append to a file.  When there are many, all
that they say is written as one page (``replace``), which stands for those before it.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow.fs as pafs

from thence.trace.files import filesystem

PAGES_MAX: Final = 256
"""From here on it is worth while to write them as one."""
_PAGE: Final = ".json"
_WHOLE: Final = ".whole.json"


class Pages:
    """The pages of one folder, which is made if need be.  One writer at a time."""

    def __init__(self, folder: str) -> None:
        self._where, self._folder = filesystem(folder)
        self._where.create_dir(self._folder, recursive=True)
        self._next = 0
        self._names: list[str] = []

    @property
    def is_long(self) -> bool:
        """Whether there are so many that they should be replaced by one."""
        return len(self._names) > PAGES_MAX

    def read(self) -> list[bytes]:
        """Every page that counts, in the order they were appended."""
        files = self._where.get_file_info(pafs.FileSelector(self._folder))
        names = sorted(
            file.base_name
            for file in files
            if file.base_name.endswith(_PAGE) and not file.base_name.startswith(".")
        )
        self._next = 1 + int(names[-1].partition(".")[0]) if names else 0
        whole = [at for at, name in enumerate(names) if name.endswith(_WHOLE)]
        self._names = names[whole[-1] :] if whole else names
        pages = []
        for name in self._names:
            with self._where.open_input_stream(f"{self._folder}/{name}") as stream:
                pages.append(stream.read())
        return pages

    def append(self, page: Any) -> None:
        """Write one page as JSON; ``read`` must have been called once."""
        self._write(f"{self._next:012d}{_PAGE}", page)

    def replace(self, page: Any) -> None:
        """Write one page that says all that those before it said, and drop them."""
        before = self._names
        self._names = []
        self._write(f"{self._next:012d}{_WHOLE}", page)
        for name in before:
            self._where.delete_file(f"{self._folder}/{name}")

    def _write(self, name: str, page: Any) -> None:
        hidden = f"{self._folder}/.{name}"
        with self._where.open_output_stream(hidden) as stream:
            stream.write(msgspec.json.encode(page))
        self._where.move(hidden, f"{self._folder}/{name}")
        self._names.append(name)
        self._next += 1
