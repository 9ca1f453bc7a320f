"""The records themselves: payloads for people to read and search, and lines to export."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, Final

import msgspec
import numpy as np

from thence.causal.dot import Dot
from thence.crdt import batch
from thence.crdt.children import class_of
from thence.crdt.keyspace import CLEAR, KEYS, PUBLISH, REMOVE
from thence.trace.columns import Mask
from thence.trace.payload import bytes_of
from thence.trace.record import Record, record_to_json
from thence.web.execution import KIND_CODES, KIND_NAMES, Execution

HITS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 4000
"""So much of a payload is shown."""
KEYS_OPS: Final = {REMOVE: "remove", CLEAR: "clear", PUBLISH: "publish"}
"""What operations on the keyspace itself are called."""


class Texts:
    """What records say beyond what the checker needs; read when it is first asked for."""

    def __init__(self, execution: Execution, records: Callable[[bool], Iterable[Record]]) -> None:
        """``records``: those of the run; called with True, it may leave out plain ones."""
        self._execution, self._records = execution, records
        self._lock = Lock()
        self._texts: dict[int, tuple[Any, dict[str, Any]]] | None = None

    def _read(self) -> dict[int, tuple[Any, dict[str, Any]]]:
        with self._lock:
            if self._texts is None:
                self._texts = {
                    row: (record.payload, record.extra)
                    for row, record in self._rows(True)
                    if record.payload is not None or record.extra
                }
            return self._texts

    def _rows(self, only_texts: bool = False) -> Iterator[tuple[int, Record]]:
        """The records with their rows; of those with one position, the first."""
        execution = self._execution
        seen: Mask = np.zeros(len(execution.layout), np.bool_)
        lanes, first = execution.lanes, execution.layout.first
        positions = execution.columns.pos
        for record in self._records(only_texts):
            lane = lanes.get(record.node)
            if record.run != execution.columns.run or lane is None:
                continue
            start, end = int(first[lane]), int(first[lane + 1])
            row = start + record.pos  # dense, unless the log is broken
            if row >= end or positions[row] != record.pos:
                row = start + int(np.searchsorted(positions[start:end], record.pos))
            if row < end and positions[row] == record.pos and not seen[row]:
                seen[row] = True
                yield row, record

    def payload_of(self, dot: Dot) -> Any:
        """The payload a dot was sent with; None without one."""
        row = self._execution.dot_row(dot)
        return self._read().get(row, (None, {}))[0] if row >= 0 else None

    def of(self, row: int) -> dict[str, Any]:
        """The payload of a record's message, and the fields of its record that are not ours."""
        texts = self._read()
        payload, extra = texts.get(row, (None, {}))
        dot = self._execution.columns.dot(row)
        if payload is None and dot is not None:
            payload = self.payload_of(dot)
        return {"payload": shown(said(payload)), "extra": {k: shown(v) for k, v in extra.items()}}

    def payloads(self) -> dict[int, Any]:
        """By row: the payloads there are."""
        return {row: text[0] for row, text in self._read().items() if text[0] is not None}

    def search(self, words: str) -> dict[str, Any]:
        """Records by node, dot, kind or payload text."""
        words = words.strip()
        rows = self._by_dot(words)
        if rows is None:
            rows = self._by_name(words)
        if rows is None:
            rows = self._by_text(words.casefold())
        execution = self._execution
        hits = [{**execution.label(row), "text": self._line(row)} for row in rows[:HITS_MAX]]
        return {"count": len(rows), "hits": hits}

    def _by_dot(self, words: str) -> list[int] | None:
        try:
            dot = Dot.parse(words)
        except ValueError:
            return None
        columns = self._execution.columns
        if dot.node not in columns.names:
            return None
        code = columns.names.index(dot.node)
        found = np.flatnonzero((columns.dot_node == code) & (columns.dot_seq == dot.seq))
        return self._in_order(found.tolist())

    def _by_name(self, words: str) -> list[int] | None:
        execution = self._execution
        if words in execution.lanes:
            lane = execution.lanes[words]
            first, end = execution.layout.first[lane : lane + 2].tolist()
            return list(range(first, end))
        if words in KIND_CODES:
            kind = KIND_NAMES.index(words)
            return self._in_order(np.flatnonzero(execution.columns.kind == kind).tolist())
        return None

    def _by_text(self, words: str) -> list[int]:
        if not words:
            return []
        texts = self._read()
        return self._in_order(
            row
            for row, (payload, extra) in texts.items()
            if words in text_of(said(payload)).casefold() or words in text_of(extra).casefold()
        )

    def _in_order(self, rows: Iterable[int]) -> list[int]:
        level = self._execution.layout.level
        return sorted(rows, key=lambda row: (int(level[row]), row))

    def _line(self, row: int) -> str:
        texts = self._texts or {}
        return shown(said(texts[row][0]))[:120] if row in texts else ""

    def lines(self, chosen: Mask) -> Iterator[bytes]:
        """The chosen records as JSON Lines, log by log as they were read."""
        for row, record in self._rows():
            if chosen[row]:
                yield record_to_json(record) + b"\n"


def batch_in(payload: Any) -> batch.Batch | batch.Piece | str | None:
    """What a payload says as a batch of operations on data types; a text when it is none."""
    try:
        return batch.decode(bytes_of(payload))
    except ValueError as error:
        return str(error)


def said(payload: Any) -> Any:
    """A payload as people read and search it: a batch as its operations, anything else as it is."""
    if payload is None or isinstance(payload, str):  # no batch is text
        return payload
    made = batch_in(payload)
    if isinstance(made, batch.Piece):
        return f"piece {made.number + 1} of {made.last + 1} of a batch: {readable(made.data)}"
    if not isinstance(made, batch.Batch):
        return payload
    triples = (made.items[at : at + 3] for at in range(0, len(made.items), 3))
    return "\n".join(_operation(key, code, op) for key, code, op in triples)


def _operation(key: Any, code: int, op: Sequence[Any]) -> str:
    """``cart: set_aw add milk``."""
    kind, names = "keyspace", KEYS_OPS
    if code != KEYS:
        kind, names = class_of(code).NAME, dict(enumerate(class_of(code).OPS))
    words = [kind, names.get(op[0], str(op[0])), *map(readable, op[1:])]
    return f"{readable(key)}: {' '.join(words)}"


def readable(value: Any) -> str:
    """A value of a data type for people: bytes as the text they are, sets in order."""
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(readable(each) for each in value)) + "}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{readable(k)}: {readable(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(readable(each) for each in value) + "]"
    return str(value)


def text_of(value: Any) -> str:
    """A value as text: a text as it is, anything else as JSON."""
    if value is None or value == {}:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shown(value: Any) -> str:
    """So much of a value as text as is shown."""
    text = text_of(value)
    return text if len(text) <= TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX] + " ..."
