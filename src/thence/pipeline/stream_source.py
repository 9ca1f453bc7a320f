"""The log of found files as a streaming source of Spark: a row is a file, an offset is a count.

Spark asks the driver's copy of the reader for the latest offset, which lists the folders; the rows
of a batch are read from what that wrote down (stream_files.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles
from pyspark.sql.types import StructType

from thence.pipeline.stream_files import Entry, FileLog

FILES_PER_BATCH_MAX: Final = 256
SOURCE: Final = "thence-files"
SCHEMA: Final = "group STRING, entry BINARY"


class _Files(InputPartition):
    """The files of a batch."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__(msgspec.json.encode(entries))


class FilesReader(DataSourceStreamReader):
    """Offsets are ``{"files": number of log entries}``."""

    def __init__(self, roots: Sequence[str], store: str) -> None:
        self._roots = tuple(roots)
        self._store = store
        self._log: FileLog | None = None  # of the driver's copy alone

    def _opened(self) -> FileLog:
        if self._log is None:
            self._log = FileLog(self._roots, self._store)
        return self._log

    def initialOffset(self) -> dict[str, int]:
        """Nothing seen."""
        return {"files": 0}

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """What there is now, or as much of it as one batch takes."""
        there = self._opened().discover()
        if isinstance(limit, ReadMaxFiles):
            there = min(there, start["files"] + limit.max_files)
        return {"files": there}

    def getDefaultReadLimit(self) -> ReadLimit:
        """So that a large folder is taken up in several batches, each committed."""
        return ReadMaxFiles(FILES_PER_BATCH_MAX)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """One: the rows are few, what is large is read where they go."""
        entries = self._opened().entries[start["files"] : end["files"]]
        return [_Files(entries)] if entries else []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """The rows of a batch."""
        for entry in msgspec.json.decode(partition.value, type=list[Entry]):
            yield entry.group, msgspec.json.encode(entry)


class FilesSource(DataSource):
    """Options: ``roots``, a JSON list of folders, and ``store``, the folder of the log."""

    @classmethod
    def name(cls) -> str:
        """What ``readStream.format`` calls it."""
        return SOURCE

    def schema(self) -> str:
        """The group a file belongs to, and the file."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader."""
        roots = msgspec.json.decode(self.options["roots"], type=list[str])
        return FilesReader(roots, self.options["store"])
