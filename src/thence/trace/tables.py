"""The columns of a trace segment in Arrow and Parquet.

The fields of a record, with two of them laid out for readers of columns:

- ``dot`` is two flat columns, ``dot_node`` and ``dot_seq``: Parquet can hand a flat string column
  over as dictionary codes, a string inside a struct only as one string per row.
- ``context`` is list<struct<node, seq>>, null where a record has none; its offsets are the row
  pointers of a sparse matrix as they stand.

``payload`` is the JSON text of the payload and ``extra`` the JSON object of fields this version
does not know.  Times are microseconds, sizes bytes.  The Arrow schema is not stored in the file
(it would ask for nested dictionaries when read back), so a file holds Parquet types only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thence.causal.dot import Dot
from thence.trace.record import VERSION

CODES: Final = pa.dictionary(pa.int32(), pa.string())
DOT: Final = pa.struct([pa.field("node", pa.string()), pa.field("seq", pa.int64())])

SCHEMA: Final = pa.schema(
    [
        pa.field("v", pa.int32(), nullable=False),
        pa.field("run", CODES, nullable=False),
        pa.field("node", CODES, nullable=False),
        pa.field("pos", pa.int64(), nullable=False),
        pa.field("kind", CODES, nullable=False),
        pa.field("dot_node", CODES),
        pa.field("dot_seq", pa.int64()),
        pa.field("context", pa.list_(pa.field("element", DOT))),
        pa.field("t_us", pa.int64(), nullable=False),
        pa.field("bytes", pa.int64()),
        pa.field("payload", pa.string()),
        pa.field("to", pa.list_(pa.field("element", pa.string()))),
        pa.field("stream", pa.string()),
        pa.field("words", pa.int64()),
        pa.field("from", pa.string()),
        pa.field("stable", pa.list_(pa.field("element", DOT))),
        pa.field("extra", pa.string()),
    ]
)

CODE_COLUMNS: Final = ["run", "node", "kind", "dot_node"]
# What a checker reads; a file without one of the first is not a trace segment.
REQUIRED_COLUMNS: Final = ("run", "node", "pos", "kind", "dot_node", "dot_seq")
CHECKED_COLUMNS: Final = (*REQUIRED_COLUMNS, "v", "context", "to")
# What metrics read besides, in the order of columns.T_US, BYTES, WORDS.
MEASURED_COLUMNS: Final = ("t_us", "bytes", "words")

PARQUET_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "store_schema": False,
    "write_page_checksum": True,  # a flipped bit must not look like a broken protocol
    "use_dictionary": ["v", *CODE_COLUMNS, "context.list.element.node", "stream", "from"],
    # Counters and clocks grow by small steps: deltas, 2 to 3 bytes an event with all columns.
    "column_encoding": dict.fromkeys(
        ("pos", "dot_seq", "context.list.element.seq", "t_us", "bytes", "words"),
        "DELTA_BINARY_PACKED",
    ),
}


def write_segment(table: pa.Table, path: str) -> None:
    """Write one sealed segment; the same table gives the same bytes with the same pyarrow."""
    pq.write_table(table, path, **PARQUET_OPTIONS)


Given = Sequence[tuple[int, Any]]


def table_of(
    run: str,
    node: str,
    first_pos: int,
    events: Sequence[tuple[str, int, Dot | None]],
    given: dict[str, list[tuple[int, Any]]],
) -> pa.Table:
    """Consecutive records of one node.

    ``events`` are (kind, t_us, dot); ``given`` has the optional fields of a Record by their Python
    names, as (row, value) where they are given.
    """
    count = len(events)
    dots = [dot for _, _, dot in events]
    columns: dict[str, pa.Array] = {
        "v": pa.repeat(pa.scalar(VERSION, pa.int32()), count),
        "run": _codes([run] * count),
        "node": _codes([node] * count),
        "pos": pa.array(np.arange(first_pos, first_pos + count)),
        "kind": _codes([kind for kind, _, _ in events]),
        "dot_node": _codes([None if dot is None else dot.node for dot in dots]),
        "dot_seq": pa.array([None if dot is None else dot.seq for dot in dots], pa.int64()),
        "t_us": pa.array([t_us for _, t_us, _ in events], pa.int64()),
    }
    for name, values in given.items():
        column = "from" if name == "peer" else name
        columns[column] = _OPTIONAL.get(name, _scattered)(values, count, SCHEMA.field(column).type)
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in SCHEMA
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _codes(texts: Sequence[str | None]) -> pa.Array:
    """A dictionary array, its entries in order of first appearance."""
    codes: dict[str | None, int | None] = {None: None}
    words: list[str] = []
    for text in dict.fromkeys(texts):
        if text is not None:
            codes[text] = len(words)
            words.append(text)
    index = pa.array([codes[text] for text in texts], pa.int32())
    return pa.DictionaryArray.from_arrays(index, pa.array(words, pa.string()))


def _scattered(given: Given, count: int, kind: pa.DataType) -> pa.Array:
    values: list[Any] = [None] * count
    for row, value in given:
        values[row] = value
    return pa.array(values, kind)


def _json_texts(given: Given, count: int, kind: pa.DataType) -> pa.Array:
    texts = [(row, msgspec.json.encode(value).decode()) for row, value in given]
    return _scattered(texts, count, kind)


def _contexts(given: Given, count: int, kind: pa.DataType) -> pa.Array:
    """Contexts from flat arrays: no Python object per dot of a list of lists."""
    size = np.zeros(count + 1, np.int32)
    absent = np.ones(count, np.bool_)
    for row, context in given:
        size[row + 1] = len(context)
        absent[row] = False
    flat = [dot for _, context in given for dot in context]
    nodes = pa.array([dot.node for dot in flat], pa.string())
    seqs = pa.array([dot.seq for dot in flat], pa.int64())
    values = pa.StructArray.from_arrays([nodes, seqs], fields=list(DOT))
    offsets = pa.array(np.cumsum(size, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=pa.array(absent))


_OPTIONAL: Final[dict[str, Callable[[Given, int, pa.DataType], pa.Array]]] = {
    "context": _contexts,
    "stable": _contexts,
    "payload": _json_texts,
    "extra": _json_texts,
}
