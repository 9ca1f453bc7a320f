"""Write a run folder while the run goes on.

A log is cut into segments.  Parquet cannot be read before its footer is written and a reader must
never meet half a file, so each segment is written under a hidden temporary name and renamed when
it is whole: ``a-000000.parquet``, ``a-000001.parquet``, ...  A crash loses at most the records
buffered since; ``run.json`` then still says ``"complete": false``.  Nodes that have to go on after
a crash, each in a process of its own, log with ``ResumableLog`` (resumable.py) into one folder,
whose ``run.json`` is up to whoever started them (``write_info``, ``mark_closed``).

Bytes are a function of the calls alone: no clock, no host name, no set order.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal

import msgspec

from thence.causal.dot import Dot
from thence.errors import LocalProtocolError
from thence.trace.record import END, KINDS_WITH_DOT, Record, RunInfo, info_to_json, record_to_json

Form = Literal["parquet", "jsonl"]
FORMS: Final[tuple[Form, ...]] = ("parquet", "jsonl")
CLOSED_FILE: Final = "run.closed"
SEGMENT_RECORDS: Final = 1 << 18  # 20 MB of buffered Python objects at most, 0.6 MB on disk
_SAFE: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_#.")


def file_stem(node: str) -> str:
    """The node's name as the beginning of a file name; different names give different stems.

    Upper case is escaped too: some file systems do not tell ``A`` from ``a``.  So is ``.`` or ``_``
    at the beginning: Spark takes such files for hidden ones.
    """
    if all(c in _SAFE for c in node) and not node.startswith((".", "_")):
        return node
    return "".join(
        c
        if c in _SAFE and (c not in "._" or at)
        else "".join(f"%{byte:02x}" for byte in c.encode())
        for at, c in enumerate(node)
    )


class NodeLog:
    """The log of one node.  Made by ``RunWriter.log``; closed with the writer."""

    def __init__(self, run: str, node: str, folder: Path, form: Form, segment_records: int) -> None:
        self.node = node
        self._run = run
        self._folder = folder
        self._form = form
        self._limit = segment_records
        self._stem = file_stem(node)
        self._segment = 0
        self._first_pos = 0  # of the buffered records
        # One plain tuple per event, made in the hot path of every node.
        self._events: list[tuple[str, int, Dot | None]] = []
        # Optional fields by name: (row, value) where given, which is seldom.
        self._given: dict[str, list[tuple[int, Any]]] = {}
        self.ended = False

    def __len__(self) -> int:
        """Records so far, which is the next position."""
        return self._first_pos + len(self._events)

    def append(
        self,
        kind: str,
        t_us: int,
        dot: Dot | None = None,
        context: Sequence[Dot] | None = None,
        bytes: int | None = None,
        stream: str | None = None,
        words: int | None = None,
        peer: str | None = None,
        payload: Any = None,
        to: Sequence[str] | None = None,
        stable: Sequence[Dot] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> int:
        """Log one event and return its position."""
        if self.ended:
            raise LocalProtocolError(f"the log of {self.node} has its end: nothing can follow it")
        if dot is None and kind in KINDS_WITH_DOT:
            raise LocalProtocolError(f"a {kind} record needs a dot")
        row = len(self._events)
        self._events.append((kind, t_us, dot))
        if context is not None:
            self._give("context", row, tuple(context))
        if bytes is not None:
            self._give("bytes", row, bytes)
        if stream is not None:
            self._give("stream", row, stream)
        if words is not None:
            self._give("words", row, words)
        if peer is not None:
            self._give("peer", row, peer)
        if payload is not None:
            self._give("payload", row, payload)
        if to is not None:
            self._give("to", row, tuple(to))
        if stable is not None:
            self._give("stable", row, tuple(stable))
        if extra:
            self._give("extra", row, extra)
        if kind == END:
            self.ended = True
        pos = self._first_pos + row
        if row + 1 >= self._limit:
            self.seal()
        return pos

    def _give(self, name: str, row: int, value: Any) -> None:
        column = self._given.get(name)
        if column is None:
            column = self._given[name] = []
        column.append((row, value))

    def seal(self) -> None:
        """Write what is buffered as one segment, so that readers can see it."""
        if not self._events:
            return
        name = f"{self._stem}-{self._segment:06d}.{self._form}"
        write = self._write_parquet if self._form == "parquet" else self._write_lines
        replace_file(self._folder / name, write)
        self._segment += 1
        self._first_pos += len(self._events)
        self._events, self._given = [], {}

    def _write_lines(self, path: Path) -> None:
        optional: dict[int, dict[str, Any]] = {}
        for name, column in self._given.items():
            for row, value in column:
                optional.setdefault(row, {})[name] = value
        with path.open("wb") as file:
            for row, (kind, t_us, dot) in enumerate(self._events):
                pos, more = self._first_pos + row, optional.get(row, {})
                record = Record(
                    run=self._run, node=self.node, pos=pos, kind=kind, t_us=t_us, dot=dot, **more
                )  # fmt: skip
                file.write(record_to_json(record) + b"\n")

    def _write_parquet(self, path: Path) -> None:
        from thence.trace.tables import table_of, write_segment

        table = table_of(self._run, self.node, self._first_pos, self._events, self._given)
        write_segment(table, str(path))


def replace_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` make the file under a hidden name, then put it in place in one step."""
    hidden = path.with_name(f".{path.name}.partial")
    try:
        write(hidden)
        os.replace(hidden, path)
    except BaseException:
        hidden.unlink(missing_ok=True)
        raise


class RunWriter:
    """A run folder being written: ``log(node)`` for each node, then ``close()``.

    As a context manager it closes with ``complete=True`` only when no exception passed through.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        info: RunInfo,
        form: Form = "parquet",
        segment_records: int = SEGMENT_RECORDS,
    ) -> None:
        if segment_records < 1:
            raise LocalProtocolError("segment_records must be at least 1")
        self.folder = Path(folder)
        self.info = info
        self._form = form
        self._segment_records = segment_records
        self._logs: dict[str, NodeLog] = {}
        self._closed = False
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.glob("*.parquet")) or any(self.folder.glob("*.jsonl")):
            raise LocalProtocolError(f"{self.folder} already holds a trace; choose another folder")
        self._write_info(complete=False)

    def log(self, node: str) -> NodeLog:
        """The log of ``node``, made at the first call."""
        if self._closed:
            raise LocalProtocolError("the run is closed")
        if not node or "/" in node:
            raise LocalProtocolError(f"{node!r} cannot name a node: empty, or it has a '/'")
        log = self._logs.get(node)
        if log is None:
            log = NodeLog(self.info.run, node, self.folder, self._form, self._segment_records)
            self._logs[node] = log
        return log

    def close(self, complete: bool = True, end_t_us: int | None = None) -> None:
        """Seal every log, say in ``run.json`` whether the run is complete, then mark it closed.

        Whoever follows the folder waits for that mark, also of a run that is not complete.
        ``end_t_us``: also append an ``end`` record with this time to each log that has none.
        """
        if self._closed:
            return
        for log in self._logs.values():
            if end_t_us is not None and not log.ended:
                log.append(END, end_t_us)
            log.seal()
        self._closed = True
        self._write_info(complete)
        mark_closed(self.folder)

    def _write_info(self, complete: bool) -> None:
        write_info(self.folder, msgspec.structs.replace(self.info, complete=complete))

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close(complete=kind is None)


def mark_closed(folder: str | os.PathLike[str]) -> None:
    """Say that nothing more will be written to a run folder, after its last ``run.json``."""
    replace_file(Path(folder) / CLOSED_FILE, Path.touch)


def write_info(folder: str | os.PathLike[str], info: RunInfo) -> None:
    """Write or replace ``run.json`` in one step."""
    text = info_to_json(info)

    def write(path: Path) -> None:
        path.write_bytes(text)

    replace_file(Path(folder) / "run.json", write)
