"""The log of one node that may be killed and started again.

Theory of operation.  The records since the last sealed segment are in one hidden file of JSON
Lines, ``.a-000003.jsonl.open``, which only grows; ``flush`` hands it to the system in one write.
``seal`` makes the segment of it: as JSON Lines by renaming it; as Parquet from its lines, under
another hidden name, which is then renamed, and only then is the open file removed.  After a crash:

| found | means |
|---|---|
| open file, no segment of that number | go on in it; what follows its last whole line is dropped |
| both | the crash came before the open file was removed: it is removed |
| neither | the crash came after, or nothing was logged: begin the next |

The node's journal says how many records count.  What is logged is flushed *before* the journal
commits, so there are never fewer than it says, and those beyond it did not happen: resuming cuts
them off.  It never has to cut into a sealed segment, because ``seal`` asks how many records the
journal has committed and refuses while there are others.

Each turn of a driver: ``append`` ..., ``n = flush()``, journal commit with n, ``if due(now):
seal(n)``.  One process writes a log; the lock of its journal sees to that.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from thence.causal.dot import Dot
from thence.errors import LocalProtocolError, TraceError
from thence.trace.record import END, KINDS_WITH_DOT, Record, record_from_json, record_to_json
from thence.trace.writer import FORMS, Form, file_stem, replace_file

OPEN_RECORDS: Final = 1 << 16  # sealing them is one pause of the node
OPEN_BYTES: Final = 1 << 26
OPEN_AGE_S: Final = 60.0
_OPTIONAL: Final = (
    "context", "bytes", "stream", "words", "peer", "payload", "to", "stable", "extra",
)  # fmt: skip


class _Plain(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record without fields of others: one pass of the decoder, where ``extra`` takes two."""

    extra: msgspec.UnsetType = msgspec.UNSET  # type: ignore[assignment]


_decode_plain: Final = msgspec.json.Decoder(_Plain).decode


class ResumableLog:
    """The log of ``node`` in a folder, from its record ``at`` on.

    ``at``: how many records the node's journal says there are, 0 for a new one; TraceError when
    there are fewer, or more in sealed segments.  None, when no journal knows: all that are whole.

    ``sync``: ``flush`` and ``seal`` return when the disk has the bytes, not just the system.

    TraceError when the disk fails.  Then a ``flush`` has written nothing and may be tried again; a
    ``seal`` is not due again before as many records as for the first.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        run: str,
        node: str,
        at: int | None = 0,
        form: Form = "parquet",
        segment_records: int = OPEN_RECORDS,
        segment_age_s: float = OPEN_AGE_S,
        sync: bool = False,
    ) -> None:
        if not node or "/" in node:
            raise LocalProtocolError(f"{node!r} cannot name a node: empty, or it has a '/'")
        if segment_records < 1:
            raise LocalProtocolError("segment_records must be at least 1")
        if form == "parquet":
            import thence.trace.tables  # noqa: F401 (not at the first seal: it takes a moment)
        self.node = node
        self.ended = False
        self._run = run
        self._folder = Path(folder)
        self._form = form
        self._limit = segment_records
        self._age_s = segment_age_s
        self._sync = sync
        self._stem = file_stem(node)
        self._segment = 0  # the number of the open one
        self._first_pos = 0  # of the open one
        self._length = 0  # records, buffered ones included
        self._encode_into = msgspec.json.Encoder().encode_into
        self._buffer = bytearray()
        self._descriptor = -1
        self._size = 0  # of the open file, bytes
        self._torn = False  # the open file may be longer than that
        self._due_length, self._due_size = segment_records, OPEN_BYTES
        self._since: float | None = None  # when due() first saw records in the open segment
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._resume(at)
        except OSError as error:
            raise self._error(error) from error
        self._due_length = self._first_pos + self._limit

    def __len__(self) -> int:
        """Records so far, which is the next position."""
        return self._length

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
        """Log one event and return its position; it is in memory until ``flush``."""
        if self.ended:
            raise LocalProtocolError(f"the log of {self.node} has its end: nothing can follow it")
        if dot is None and kind in KINDS_WITH_DOT:
            raise LocalProtocolError(f"a {kind} record needs a dot")
        pos = self._length
        record = Record(
            run=self._run, node=self.node, pos=pos, kind=kind, t_us=t_us, dot=dot, bytes=bytes,
            context=None if context is None else tuple(context), stream=stream, words=words,
            peer=peer, payload=payload, to=None if to is None else tuple(to),
            stable=None if stable is None else tuple(stable), extra=extra or {},
        )  # fmt: skip
        if extra:
            self._buffer += record_to_json(record)
        else:
            self._encode_into(record, self._buffer, -1)
        self._buffer += b"\n"
        self._length = pos + 1
        if kind == END:
            self.ended = True
        return pos

    def flush(self) -> int:
        """Hand what is buffered to the system; how many records there are, for the journal."""
        if not self._buffer:
            return self._length
        try:
            if self._descriptor < 0:
                self._descriptor = self._open_file()
            if self._torn:
                os.ftruncate(self._descriptor, self._size)
            self._torn = True
            with memoryview(self._buffer) as view:
                done = 0
                while done < len(view):
                    done += os.write(self._descriptor, view[done:])
            if self._sync:
                os.fsync(self._descriptor)
        except OSError as error:
            raise self._error(error) from error
        self._torn = False
        self._size += len(self._buffer)
        self._buffer.clear()
        return self._length

    def due(self, now: float) -> bool:
        """Whether the open segment is to be sealed: full, or old.  ``now`` is in seconds."""
        if self._length == self._first_pos:
            return False
        if self._since is None:
            self._since = now
        return (
            self._length >= self._due_length
            or now - self._since >= self._age_s
            or self._size >= self._due_size
        )

    def seal(self, committed: int) -> None:
        """Make a segment of all there is, so that readers can see it.

        ``committed``: how many records the journal has committed; LocalProtocolError unless they
        are all, and flushed, for what is sealed cannot be taken back.
        """
        if committed != self._length or self._buffer:
            raise LocalProtocolError(
                f"{committed} records of {self.node} are committed and {self._length} are logged: "
                "flush and commit them, then seal"
            )
        if self._length == self._first_pos:
            return
        # If it fails, the next is not due at once.
        self._due_length, self._due_size = self._length + self._limit, self._size + OPEN_BYTES
        self._since = None
        try:
            self._make_segment()
        except OSError as error:
            raise self._error(error) from error
        self._segment += 1
        self._first_pos = self._length
        self._due_length, self._due_size = self._first_pos + self._limit, OPEN_BYTES
        self._size = 0

    def close(self) -> None:
        """Let go of the open file, which stays as it is; what is not flushed is forgotten."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    # ---- sealing ---------------------------------------------------------------------------------

    def _make_segment(self) -> None:
        self.close()
        open_path = self._open_path(self._segment)
        sealed = self._folder / f"{self._stem}-{self._segment:06d}.{self._form}"
        if self._form == "jsonl":
            os.replace(open_path, sealed)
            self._sync_folder()
            return
        replace_file(sealed, self._write_parquet)
        self._sync_folder()
        try:
            os.unlink(open_path)
        except OSError:
            pass  # the segment is there; the next resume finds both

    def _write_parquet(self, path: Path) -> None:
        import pyarrow as pa

        from thence.trace.tables import table_of, write_segment

        events: list[tuple[str, int, Dot | None]] = []
        given: dict[str, list[tuple[int, Any]]] = {}
        for row, (record, _) in enumerate(self._lines()):
            events.append((record.kind, record.t_us, record.dot))
            for name in _OPTIONAL:
                value = getattr(record, name)
                if value is not None and value is not msgspec.UNSET and value != {}:
                    given.setdefault(name, []).append((row, value))
        if len(events) != self._length - self._first_pos:
            reason = f"{len(events)} records where {self._length - self._first_pos} were written"
            raise self._fault(self._open_path(self._segment), reason)
        table = table_of(self._run, self.node, self._first_pos, events, given)
        try:
            write_segment(table, os.fspath(path))
        except pa.ArrowException as error:
            raise OSError(str(error)) from error
        if self._sync:
            with path.open("r+b") as file:
                os.fsync(file.fileno())

    def _sync_folder(self) -> None:
        if self._sync and os.name == "posix":
            folder = os.open(self._folder, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    # ---- resuming --------------------------------------------------------------------------------

    def _resume(self, at: int | None) -> None:
        last, opened, leftover = self._found()
        if last is not None:
            number, path = last
            self._first_pos, self.ended = self._end_of(path)
            self._segment = number + 1
        ahead = [number for number in opened if number > self._segment]
        if ahead:
            raise self._fault(self._open_path(ahead[0]), f"no segment {ahead[0] - 1} before it")
        if at is not None and at < self._first_pos:
            raise self._fault(
                self._folder,
                f"already holds a log of {self.node} with {self._first_pos} sealed records, and "
                f"its journal says {at}: give this node another folder, or the journal of that log",
            )
        self._length = self._first_pos
        for record, end in self._lines(at) if self._segment in opened else ():
            self._length, self._size = self._length + 1, end
            self.ended = record.kind == END
        if at is not None and self._length < at:
            raise self._fault(
                self._folder,
                f"the log of {self.node} has {self._length} records and its journal says {at}: put "
                "the missing segments and the hidden .open file back",
            )
        # Nothing was changed so far, and from here on nothing that counts is.
        for name in leftover:
            os.unlink(self._folder / name)
        for number in opened:
            if number < self._segment:
                os.unlink(self._open_path(number))
            else:
                os.truncate(self._open_path(number), self._size)

    def _found(self) -> tuple[tuple[int, Path] | None, list[int], list[str]]:
        """The last segment with its number, numbers of open files, names of half segments."""
        stem = re.escape(self._stem)
        sealed = re.compile(rf"{stem}-(\d{{6,}})\.(?:parquet|jsonl|jsonl\.gz|jsonl\.zst)")
        opened = re.compile(rf"\.{stem}-(\d{{6,}})\.jsonl\.open")
        half = re.compile(rf"\.{stem}-\d{{6,}}\.(?:{'|'.join(FORMS)})\.partial")
        names = sorted(os.listdir(self._folder))
        segments = [(int(m[1]), self._folder / m[0]) for m in map(sealed.fullmatch, names) if m]
        return (
            max(segments, default=None),
            [int(m[1]) for m in map(opened.fullmatch, names) if m],
            [name for name in names if half.fullmatch(name)],
        )

    def _end_of(self, path: Path) -> tuple[int, bool]:
        """The position after the last record of a segment, and whether that is the end."""
        if path.suffix == ".parquet":
            record = self._last_of_parquet(path)
        else:
            with self._stream(path) as file:
                ((number, line),) = deque(enumerate(file, 1), maxlen=1) or [(1, b"")]
            record = self._decode(path, number, line)
        self._must_be_ours(path, None, record)
        return record.pos + 1, record.kind == END

    @staticmethod
    def _stream(path: Path) -> BinaryIO:
        if path.suffix == ".jsonl":
            return path.open("rb")
        from thence.trace.files import open_stream

        return open_stream(os.fspath(path))

    @staticmethod
    def _last_of_parquet(path: Path) -> Record:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                table = file.read(columns=["run", "node", "pos", "kind"], use_threads=False)
            (row,) = table.slice(max(0, len(table) - 1)).to_pylist()
            return msgspec.convert(row, Record)
        except (pa.ArrowException, ValueError) as error:
            raise TraceError(os.fspath(path), None, f"not a segment: {error}") from None

    def _lines(self, at: int | None = None) -> Iterator[tuple[Record, int]]:
        """The records of the open file up to position ``at``, each with the offset after it.

        What follows the last whole line is not there.
        """
        path = self._open_path(self._segment)
        end = 0
        pos = self._first_pos
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if pos == at or not line.endswith(b"\n"):
                    return
                record: Record
                try:
                    record = _decode_plain(line)
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    record = self._decode(path, number, line)
                self._must_be_ours(path, number, record)
                if record.pos != pos:
                    reason = f"pos: expected {pos}, got {record.pos}"
                    raise TraceError(os.fspath(path), number, reason)
                pos += 1
                end += len(line)
                yield record, end

    @staticmethod
    def _decode(path: Path, number: int, line: bytes) -> Record:
        try:
            return record_from_json(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise TraceError(os.fspath(path), number, str(error)) from None

    def _must_be_ours(self, path: Path, number: int | None, record: Record) -> None:
        if (record.run, record.node) != (self._run, self.node):
            reason = (
                f"a record of {record.node} in run {record.run}, in the log of {self.node} in "
                f"{self._run}: give this run another folder"
            )
            raise TraceError(os.fspath(path), number, reason)

    # ---- files -----------------------------------------------------------------------------------

    def _open_path(self, number: int) -> Path:
        return self._folder / f".{self._stem}-{number:06d}.jsonl.open"

    def _open_file(self) -> int:
        path = self._open_path(self._segment)
        is_new = not self._size
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        if is_new:
            self._sync_folder()
        return descriptor

    def _fault(self, path: Path, reason: str) -> TraceError:
        return TraceError(os.fspath(path), None, reason)

    def _error(self, error: OSError) -> TraceError:
        file = os.fspath(error.filename) if error.filename else os.fspath(self._folder)
        return TraceError(str(file), None, f"cannot be written: {error.strerror or error}")
