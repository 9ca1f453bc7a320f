"""Where the bytes of a trace are: local files, or any place pyarrow.fs has a URL for.

A path with ``://`` is a URL (``hdfs://``, ``s3://``, ``gs://``, ``file://``); everything else is a
local path and never touches pyarrow.fs.  Parts of a path are joined by ``/`` in both.  Names of
files are plain text; in a URL, pyarrow.fs takes ``%20`` for a blank, so they are quoted there.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Collection, Iterable, Iterator
from typing import Any, BinaryIO, Final
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.fs as pafs

from thence.errors import UnusableInputError

COMPRESSION: Final = {".gz": "gzip", ".zst": "zstd"}
SEGMENT_ENDINGS: Final = (".jsonl", ".parquet", *(f".jsonl{ending}" for ending in COMPRESSION))
METRICS_FILE: Final = "metrics.json"
METRIC_FOLDERS: Final = frozenset({"runs", "logs", "metrics"})
"""By these a folder of tables is known that were measured of traces."""
BUFFER_BYTES: Final = 1 << 20
OBJECT_STORES: Final = frozenset({"s3", "gcs", "abfs"})
FIRST_LOOK_S: Final = 10
GOOGLE_PATIENCE: Final = "retry_limit_seconds"  # of a gs:// URL, as pyarrow.fs has it
_PLAIN_IN_URL: Final = "/!$&'()*+,;=:@"


def is_segment(name: str) -> bool:
    """Whether a file of this name is a sealed segment: hidden files are still being written."""
    return name.endswith(SEGMENT_ENDINGS) and not name.startswith(".")


def is_unsealed(name: str) -> bool:
    """Whether a file of this name is a log of a node that still writes it, or was killed."""
    return name.startswith(".") and name.endswith(".jsonl.open")


def is_url(path: str) -> bool:
    """Whether the path is for pyarrow.fs."""
    return "://" in path


def absolute(path: str | os.PathLike[str]) -> str:
    """A path that means the same in another process, whatever its working folder."""
    text = os.fspath(path)
    return text if is_url(text) else os.path.abspath(text)


def as_paths(given: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """One path, or several, as texts: a text alone is not a list of its letters."""
    if isinstance(given, str | os.PathLike):
        return [os.fspath(given)]
    return [os.fspath(path) for path in given]


def identity(path: str) -> str:
    """The same text for all ways to write one local path; a URL is taken as it is."""
    return path.rstrip("/") if is_url(path) else os.path.realpath(path)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is in a folder, at any depth; the queries of URLs do not count."""
    inner, outer = path.partition("?")[0], folder.partition("?")[0]
    if not is_url(path):
        inner, outer = path, folder
    return inner.startswith(f"{outer.rstrip('/')}/") and inner.rstrip("/") != outer.rstrip("/")


def filesystem(path: str, soon: bool = False) -> tuple[Any, str]:
    """The file system of a path, and the path in it; ``soon``: one that does not try for long."""
    if not is_url(path):
        return pafs.LocalFileSystem(), path
    try:
        found, inner = pafs.FileSystem.from_uri(_impatient(path) if soon else path)
    except (pa.ArrowException, OSError) as error:
        raise UnusableInputError(f"{path}: {_reason(error)}") from None
    if found.type_name in OBJECT_STORES and not inner.strip("/"):
        raise UnusableInputError(
            f"{path} names no bucket: expected {path.partition(':')[0]}://BUCKET/PATH"
        )
    return found, inner


def _reason(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    # Google's library puts its last message between what it did about it.
    text = text.partition(" error_info=")[0].rpartition("with a last message of ")[2]
    if text.startswith(("Unable to load libjvm", "Unable to load libhdfs")):
        text += "; set JAVA_HOME, HADOOP_HOME and CLASSPATH, see docs/howto/spark.md"
    return text


def _impatient(path: str) -> str:
    """The URL with a limit for a look at what nobody answers for: Google's library has minutes."""
    head, _, query = path.partition("?")
    if not head.startswith(("gs://", "gcs://")) or GOOGLE_PATIENCE in query:
        return path
    more = f"{GOOGLE_PATIENCE}={FIRST_LOOK_S}"
    return f"{head}?{query}&{more}" if query else f"{head}?{more}"


def kind_of(path: str) -> str:
    """``file``, ``folder`` or ``none``."""
    if not is_url(path):
        return "file" if os.path.isfile(path) else "folder" if os.path.isdir(path) else "none"
    where, inner = filesystem(path, soon=True)
    try:
        found = where.get_file_info(inner).type
    except (pa.ArrowException, OSError) as error:
        raise UnusableInputError(f"{path}: {_reason(error)}") from None
    if found == pafs.FileType.File:
        return "file"
    return "folder" if found == pafs.FileType.Directory else "none"


def _is_measured(files: Collection[str], below: Iterable[str]) -> bool:
    """Whether measuring wrote a folder with these; a lone metrics.json means nothing."""
    return METRICS_FILE in files and METRIC_FOLDERS.issubset(below)


def folders(path: str) -> Iterator[tuple[str, list[str]]]:
    """(folder, names of its files) below a folder, itself included, in a fixed order.

    Folders whose names begin with ``.`` or ``_`` are not looked into: tools keep their own there.
    Nor is a folder of tables that `thence metrics` made: Parquet too, but no trace.
    """
    if not is_url(path):
        for folder, below, files in os.walk(path):
            if _is_measured(files, below):
                below.clear()
            below[:] = sorted(name for name in below if not name.startswith((".", "_")))
            yield folder, sorted(files)
        return
    where, inner = filesystem(path)
    found: dict[str, list[str]] = {}
    for entry in where.get_file_info(pafs.FileSelector(inner, recursive=True)):
        if entry.type == pafs.FileType.File:
            relative = entry.path[len(inner) :].lstrip("/")
            folder, _, name = relative.rpartition("/")
            if not any(part.startswith((".", "_")) for part in folder.split("/")):
                found.setdefault(folder, []).append(name)
    for outer in [folder for folder, names in found.items() if METRICS_FILE in names]:
        start = f"{outer}/" if outer else ""
        below = [folder for folder in found if folder.startswith(start) and folder != outer]
        if _is_measured(
            found.get(outer, ()), {folder[len(start) :].split("/")[0] for folder in below}
        ):
            for folder in below:
                del found[folder]
    head, question, query = path.partition("?")
    # By parts, as a walk goes: "a/b" comes before "a-b", so that what is below follows its folder.
    for folder in sorted(found, key=lambda one: one.split("/") if one else []):
        whole = f"{head.rstrip('/')}/{_quoted(folder)}" if folder else head
        yield whole + question + query, sorted(found[folder])


def _quoted(name: str) -> str:
    return quote(name, safe=_PLAIN_IN_URL)


def join(folder: str, name: str) -> str:
    """The path of a file in a folder; the query of a URL stays at its end."""
    if not is_url(folder):
        return os.path.join(folder, name)
    head, question, query = folder.partition("?")
    return f"{head.rstrip('/')}/{_quoted(name)}{question}{query}"


def parent(path: str) -> str:
    """The folder a file is in."""
    if not is_url(path):
        return os.path.dirname(path)
    head, question, query = path.partition("?")
    above = head.rstrip("/").rpartition("/")[0]
    # Nothing is above a bucket or a host: it is its own parent.
    return (head if above.endswith(("/", ":")) else above) + question + query


def name_of(path: str) -> str:
    """The last part of a path."""
    if not is_url(path):
        return path.rstrip("/").rpartition("/")[2]
    return unquote(path.partition("?")[0].rstrip("/").rpartition("/")[2])


def open_stream(path: str) -> BinaryIO:
    """The bytes of a file from the beginning, decompressed when its name says so."""
    compression = next(
        (kind for ending, kind in COMPRESSION.items() if name_of(path).endswith(ending)), None
    )
    if not is_url(path) and compression is None:
        return open(path, "rb")
    where, inner = filesystem(path)
    if not is_url(path):
        open(path, "rb").close()  # the plain errors of the operating system
    stream = where.open_input_stream(inner, compression=compression)
    buffered: BinaryIO = io.BufferedReader(stream, BUFFER_BYTES)
    return buffered


def random_access(path: str) -> Any:
    """What pyarrow.parquet takes: a path, or an open file for a URL."""
    if not is_url(path):
        return path
    where, inner = filesystem(path)
    return where.open_input_file(inner)


def read_bytes(path: str) -> bytes:
    """A small file; FileNotFoundError when there is none."""
    with open_stream(path) as stream:
        return stream.read()


def map_file(path: str) -> Any:
    """The whole file as a pyarrow buffer: mapped when it is local, read when it is not."""
    if not is_url(path):
        with pa.memory_map(path) as file:
            return file.read_buffer()
    where, inner = filesystem(path)
    with where.open_input_file(inner) as file:
        return file.read_buffer()


def write_file(path: str, pieces: Iterable[Any]) -> None:
    """Write a file in one step: it is there whole or not at all.

    By a hidden name that no other process uses, and a rename; an object store, which cannot rename,
    shows a file only when it is whole.  So a task may be run twice, also at the same time.
    """
    where, final = filesystem(path)
    folder, slash, name = final.rpartition("/")
    inner = final
    if where.type_name not in OBJECT_STORES:
        inner = f"{folder}{slash}.{name}.{uuid.uuid4().hex}.partial"
    try:
        with where.open_output_stream(inner, compression=None) as file:
            for piece in pieces:
                file.write(piece)
        if inner != final:
            _put_in_place(where, inner, final)
    except BaseException:
        if inner != final and where.get_file_info(inner).type == pafs.FileType.File:
            where.delete_file(inner)
        raise


def _put_in_place(where: Any, inner: str, final: str) -> None:
    try:
        where.move(inner, final)
    except OSError:
        # Where a rename does not replace (HDFS), the one who came first has written the same.
        if where.get_file_info(final).type != pafs.FileType.File:
            raise
        where.delete_file(inner)


def make_folder(path: str) -> None:
    """Make a folder and those above it."""
    where, inner = filesystem(path)
    where.create_dir(inner, recursive=True)


def remove_folder(path: str) -> None:
    """Remove a folder and everything in it, if it is there."""
    where, inner = filesystem(path)
    if kind_of(path) == "folder":
        where.delete_dir(inner)
