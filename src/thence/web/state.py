"""What the messages inside a cut amount to: the data types of a run, as they were then.

Payloads that are batches of operations on data types (crdt/batch.py) are carried out in causal
order, as a replica would have that took exactly these messages.  Any other payload that is JSON
with a key and an operation, or without one, is listed by key, the latest one last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from thence.crdt import batch
from thence.crdt.children import class_of
from thence.crdt.keyspace import Keyspace
from thence.trace.columns import Ints
from thence.web.execution import Execution
from thence.web.texts import batch_in, readable, shown

KEYS_MAX: Final = 500
LATEST_MAX: Final = 5


class _Stamp:
    """A message as data types see it."""

    __slots__ = ("_id", "_knows", "clock_ms", "node", "seq")

    def __init__(self, execution: Execution, dot: int, clock_ms: int) -> None:
        found = execution.numbering.dot(dot)
        self.node, self.seq = ("", 0) if found is None else (found.node, found.seq)
        self.clock_ms = clock_ms
        self._id = dot
        numbering, vectors = execution.numbering, execution.order.vectors
        self._knows = (numbering, vectors)

    def sees(self, stored: Any) -> bool:
        """Whether ``stored`` is this stamp or happened before it."""
        numbering, vectors = self._knows
        return stored is self or bool(vectors[numbering.origin(stored._id), self._id] >= stored._id)


def rows_inside(execution: Execution, cut: Ints) -> list[int]:
    """The sends inside a cut, in an order that respects causality."""
    layout = execution.layout
    sends = layout.send_row[layout.send_row >= 0]
    inside = sends[layout.local(sends) <= cut[layout.lane[sends]]]
    order = np.lexsort((inside, layout.level[inside]))
    return [int(row) for row in inside[order]]


def rows_known(execution: Execution, lane: int, local: int) -> list[int]:
    """The sends of what one node knew at a place of its log, in the same order."""
    layout, known = execution.layout, execution.order.knowledge(lane, local)
    ids = np.flatnonzero(layout.send_row >= 0)
    origin = np.searchsorted(execution.numbering.base, ids, side="right") - 1
    rows = layout.send_row[ids[ids <= known[origin]]]
    order = np.lexsort((rows, layout.level[rows]))
    return [int(row) for row in rows[order]]


def state_of(
    execution: Execution, rows: Iterable[int], payloads: Mapping[int, Any]
) -> dict[str, Any]:
    """What some messages amount to; ``payloads`` by row."""
    keyspace, pieces = Keyspace(), dict[str, list[bytes]]()
    operations: dict[Any, int] = {}
    plain: dict[str, list[str]] = {}
    messages = with_payload = ignored = 0
    for row in rows:
        messages += 1
        payload = payloads.get(row)
        if payload is None:
            continue
        with_payload += 1
        dot = int(execution.layout.ids[row])
        found = _batch_of(execution, dot, payload, pieces)
        if isinstance(found, batch.Batch):
            stamp = _Stamp(execution, dot, found.clock_ms)
            for at in range(0, len(found.items), 3):
                key, code, op = found.items[at : at + 3]
                keyspace.apply(key, code, op, stamp)
                operations[key] = operations.get(key, 0) + 1
        elif found is None:
            key, value = _key_and_value(payload)
            plain.setdefault(key, []).append(shown(value))
        else:
            ignored += 1
    return {
        "messages": messages,
        "with_payload": with_payload,
        "ignored": ignored,
        "objects": _objects(keyspace, operations),
        "plain": [
            {"key": key, "count": len(values), "latest": values[-LATEST_MAX:][::-1]}
            for key, values in sorted(plain.items())[:KEYS_MAX]
        ],
    }


def _batch_of(
    execution: Execution, dot: int, payload: Any, pieces: dict[str, list[bytes]]
) -> batch.Batch | str | None:
    """The batch that is whole with this payload; "" for a part of one or nothing to do; None for
    what is no batch at all."""
    made = batch_in(payload)
    if isinstance(made, batch.Piece):
        origin = execution.numbering.names[execution.numbering.origin(dot)]
        return batch.joined(pieces, origin, made)
    if isinstance(made, str):
        return None
    return "" if made is None else made


def _key_and_value(payload: Any) -> tuple[str, Any]:
    """``{"key": ..., "op": ...}`` is an operation on that key, anything else one on the key ""."""
    value = payload
    if isinstance(payload, str):
        try:
            value = msgspec.json.decode(payload)
        except (msgspec.MsgspecError, RecursionError):
            return "", payload
    if isinstance(value, dict) and value.keys() == {"key", "op"}:
        return shown(value["key"]), value["op"]
    return "", value


def _objects(keyspace: Keyspace, operations: Mapping[Any, int]) -> list[dict[str, Any]]:
    found = []
    for key in sorted(keyspace, key=readable)[:KEYS_MAX]:
        for code in keyspace.codes(key):
            child = keyspace.child(key, code)
            if child is not None and not child.is_empty:
                found.append(
                    {
                        "key": readable(key),
                        "type": class_of(code).NAME,
                        "operations": operations.get(key, 0),
                        "value": readable(child.value()),
                    }
                )
    return found
