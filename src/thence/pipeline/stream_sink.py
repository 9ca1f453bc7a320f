"""The table of findings as its files, without Spark: for who prints them while the job runs.

The file sink writes files first and then names those of a batch in ``_spark_metadata``.  A job that
is killed leaves files that no entry names; only named ones count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from thence.pipeline.stream_run import Finding
from thence.trace.files import filesystem

METADATA: Final = "_spark_metadata"
COMPACT: Final = ".compact"
ORDER: Final = ("opened", "note", "violation", "quarantine", "closed")
"""In which findings of one batch are told."""
BATCH_ROWS: Final = 4096


class Sink:
    """The findings of committed batches."""

    def __init__(self, out: str) -> None:
        self._where, self._folder = filesystem(out)
        self._known: dict[str, None] = {}
        self._batch = -1  # the last one that was looked at

    def fresh(self) -> list[str]:
        """The files committed since the last call, batch by batch, each in order of ``ORDER``."""
        fresh: list[str] = []
        for batch, path in self._batches():
            names = []
            with self._where.open_input_stream(path) as stream:
                lines = stream.read().splitlines()[1:]  # the first is the version
            for line in lines:
                entry: dict[str, Any] = msgspec.json.decode(line)
                name = "/".join(entry["path"].split("/")[-2:])  # what=KIND/part-...
                if entry.get("action") == "add" and name not in self._known:
                    self._known[name] = None
                    names.append(name)
            fresh += sorted(names, key=lambda one: (ORDER.index(_what(one)), one))
            self._batch = batch
        return fresh

    def _batches(self) -> list[tuple[int, str]]:
        """(number, file) of what says which files are committed, as far as new."""
        selector = pafs.FileSelector(f"{self._folder}/{METADATA}", allow_not_found=True)
        files: dict[int, str] = {}
        for file in self._where.get_file_info(selector):
            number, _, ending = file.base_name.partition(".")
            if number.isdigit() and f".{ending}" in (".", COMPACT):
                # A compact file has the entries of all batches up to its own.
                if int(number) not in files or ending:
                    files[int(number)] = file.path
        whole = [number for number, path in files.items() if path.endswith(COMPACT)]
        first = max(whole, default=-1)
        return [
            (number, path)
            for number, path in sorted(files.items())
            if number > self._batch and number >= first
        ]

    def rows(self, name: str) -> Iterator[Finding]:
        """The findings of one file."""
        path = f"{self._folder}/{name}"
        with self._where.open_input_file(path) as source, pq.ParquetFile(source) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    yield Finding(what=_what(name), **row)


def _what(name: str) -> str:
    """Of ``what=KIND/part-...``, the kind."""
    return name.partition("/")[0].partition("=")[2]
