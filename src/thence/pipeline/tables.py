"""The tables of an ingested folder: where they live, their columns, and how they are read.

ROOT/events/run=<name>/<node>-<n>.parquet   the events, one node per file, sorted by position
ROOT/events/run=<name>/_run.json            what is known of the run, as in a run folder
ROOT/_quarantine/*.parquet                  what could not be taken, with file, line and reason
ROOT/_segments/*.parquet                    the ledger: which inputs were taken, one file an ingest
ROOT/_infos/*.json                          the run.json of each folder that was taken from
ROOT/_staging/                              an ingest under way, or one that was killed
ROOT/_lock                                  held by the ingest that is writing

Spark passes over names that begin with an underscore, and thence takes ``_run.json`` for
``run.json``: so ROOT/events is a table for Spark and a set of run folders for ``thence check``.

``run`` is a column of the files, which thence reads one by one, and the key of the folders, which
Spark prunes by.  Spark takes the value from the folder's name, and guesses its type: names that
look like a number or a date are escaped so that the guess is a string (``run_folder``).
"""

from __future__ import annotations

import hashlib
import os
import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from thence.errors import UnusableInputError
from thence.trace.files import is_url, join, kind_of
from thence.trace.tables import CODE_COLUMNS, SCHEMA
from thence.trace.writer import file_stem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS: Final = "events"
QUARANTINE: Final = "_quarantine"
SEGMENTS: Final = "_segments"
INFOS: Final = "_infos"
STAGING: Final = "_staging"
LOCK: Final = "_lock"

RUN_FOLDER_BYTES_MAX: Final = 240  # file systems stop at 255 bytes a name
FILE_STEM_CHARS_MAX: Final = 160
FILE_ROWS_MAX: Final = 1 << 22
"""Rows of one file of the events table: a task's worth of work, a few tens of megabytes."""

PLAIN: Final = pa.schema(
    [
        pa.field(field.name, pa.string(), field.nullable) if field.name in CODE_COLUMNS else field
        for field in SCHEMA
    ]
)
"""The columns of the events table with plain strings; in Parquet it is the same as SCHEMA."""

_DOTS: Final = "ARRAY<STRUCT<node: STRING, seq: BIGINT>>"
EVENTS_SCHEMA: Final = (
    "v INT, run STRING, node STRING, pos BIGINT, kind STRING, dot_node STRING, dot_seq BIGINT, "
    f"context {_DOTS}, t_us BIGINT, bytes BIGINT, payload STRING, `to` ARRAY<STRING>, "
    f"stream STRING, words BIGINT, `from` STRING, stable {_DOTS}, extra STRING"
)
"""The columns of the events table for Spark."""

QUARANTINE_ARROW: Final = pa.schema(
    [
        pa.field("run", pa.string()),  # null where the line does not say
        pa.field("file", pa.string(), nullable=False),
        pa.field("line", pa.int64()),  # from 1; in Parquet the row; null: the file as a whole
        pa.field("reason", pa.string(), nullable=False),
        pa.field("text", pa.string()),  # how the line begins; a row of Parquet as JSON
    ]
)
QUARANTINE_SCHEMA: Final = "run STRING, file STRING, line BIGINT, reason STRING, text STRING"

SEGMENTS_ARROW: Final = pa.schema(
    [
        pa.field("segment", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("mtime_ns", pa.int64(), nullable=False),
        pa.field("digest", pa.string(), nullable=False),  # of the bytes of the file
        pa.field("how", pa.string(), nullable=False),  # the importer and its settings
        pa.field("home", pa.string(), nullable=False),  # the folder, or the import, it came with
        pa.field("copy_of", pa.string()),  # a segment with the same bytes that was taken instead
        pa.field("read", pa.int64(), nullable=False),
        pa.field("taken", pa.int64(), nullable=False),
        pa.field("quarantined", pa.int64(), nullable=False),
        pa.field("logs", pa.list_(pa.struct([("run", pa.string()), ("node", pa.string())]))),
    ]
)
SEGMENTS_SCHEMA: Final = (
    "segment STRING, size BIGINT, mtime_ns BIGINT, digest STRING, how STRING, home STRING, "
    "copy_of STRING, `read` BIGINT, taken BIGINT, quarantined BIGINT, "
    "logs ARRAY<STRUCT<run: STRING, node: STRING>>"
)

# What Spark's unescaping understands: one ASCII character each; others stay as they are.
_PLAIN_CHARACTER: Final = re.compile(r"[a-z0-9_.-]|[^\x00-\x7f]")
# Spark guesses the type from the name as it is escaped: "%37" for "7" is no number.
_LOOKS_LIKE_A_VALUE: Final = re.compile(r"[0-9+.NI-]|__HIVE")


def run_folder(run: str) -> str:
    """The folder of a run below ``events``: ``run=`` and its name, escaped as Spark unescapes it.

    Different runs have different folders, also where a file system does not tell ``A`` from ``a``.
    """
    escaped = "".join(c if _PLAIN_CHARACTER.fullmatch(c) else f"%{ord(c):02x}" for c in run)
    if _LOOKS_LIKE_A_VALUE.match(run) and not escaped.startswith("%"):
        escaped = f"%{ord(run[0]):02x}{escaped[1:]}"
    return f"run={escaped}"


def run_fault(run: str) -> str | None:
    """Why a run cannot have a folder, or None."""
    if len(run_folder(run).encode()) > RUN_FOLDER_BYTES_MAX:
        return f"run: too long for the name of a folder: {run[:40]!r}..."
    return None


def log_stem(node: str) -> str:
    """The beginning of the names of a node's files; a digest takes the place of a very long end."""
    stem = file_stem(node)
    if len(stem) <= FILE_STEM_CHARS_MAX:
        return stem
    digest = hashlib.sha256(node.encode()).hexdigest()
    return f"{stem[: FILE_STEM_CHARS_MAX - 33]}-{digest[:32]}"


_TABLES: Final = {
    EVENTS: (EVENTS_SCHEMA, PLAIN),
    QUARANTINE: (QUARANTINE_SCHEMA, QUARANTINE_ARROW),
    SEGMENTS: (SEGMENTS_SCHEMA, SEGMENTS_ARROW),
}


def read_events(spark: SparkSession, root: str | os.PathLike[str]) -> DataFrame:
    """The events table, ``run`` as the string it is; order is not promised, sort by ``pos``.

    A condition on ``run`` reads the folders of those runs alone.
    """
    return _read(spark, root, EVENTS)


def read_quarantine(spark: SparkSession, root: str | os.PathLike[str]) -> DataFrame:
    """What could not be taken: run (or null), file, line (or null), reason, text (or null)."""
    return _read(spark, root, QUARANTINE)


def read_segments(spark: SparkSession, root: str | os.PathLike[str]) -> DataFrame:
    """The ledger: the inputs that were taken."""
    return _read(spark, root, SEGMENTS)


def _read(spark: SparkSession, root: str | os.PathLike[str], table: str) -> DataFrame:
    text = os.fspath(root)
    if kind_of(join(text, SEGMENTS)) != "folder":
        raise UnusableInputError(f"{text} is not a table folder: `thence ingest` makes one")
    schema, columns = _TABLES[table]
    found = spark.read.schema(schema).parquet(spark_path(join(text, table)))
    # Spark puts the key of the folders last.
    return found.select(*(f"`{name}`" for name in columns.names))


def spark_uri(path: str) -> str:
    """A path or pyarrow.fs URL as Spark writes to it."""
    if not is_url(path):
        return f"file://{os.path.abspath(path)}"
    path = path.partition("?")[0]  # settings of pyarrow.fs
    return f"s3a{path[len('s3') :]}" if path.startswith("s3://") else path


def spark_path(path: str) -> str:
    """The same as Spark reads from it: glob characters are meant literally."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", spark_uri(path))
