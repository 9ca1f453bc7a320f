"""Parquet segments, a batch of rows at a time.

A batch is judged as a whole by what its columns hold, smallest and largest values and the names
that occur, and that is nearly always the end of it.  Where the whole is in doubt each row becomes
a record and is judged as a line of JSON would be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.causal.dot import SEQ_MAX, Dot
from thence.pipeline.ingest_intake import Intake, UnreadableError, first_line
from thence.pipeline.tables import PLAIN, run_fault
from thence.trace.files import random_access
from thence.trace.record import (
    CONTEXT_DOTS_MAX,
    KINDS_WITH_DOT,
    NAME_CHARS_MAX,
    POS_MAX,
    VERSION,
    Record,
    fault,
)
from thence.trace.segments import MALFORMED
from thence.trace.tables import REQUIRED_COLUMNS

BATCH_ROWS: Final = 1 << 16
_WITH_DOT: Final = pa.array(sorted(KINDS_WITH_DOT))
_TEXT_BYTES_MAX: Final = 10_000  # of one row that is set aside; the quarantine keeps less


def read_rows(path: str, intake: Intake) -> None:
    """Give the rows of one file to the intake, and set aside those that are no records."""
    number = 1
    for table in _tables_of(path):
        _take_batch(number, table, intake)
        number += len(table)


def _tables_of(path: str) -> Iterator[pa.Table]:
    """The rows of a file as the events table has them, not yet judged."""
    try:
        with pq.ParquetFile(random_access(path), page_checksum_verification=True) as file:
            names = file.schema_arrow.names
            if absent := [name for name in REQUIRED_COLUMNS if name not in names]:
                raise UnreadableError(
                    f"expected the columns {', '.join(REQUIRED_COLUMNS)}; no {', '.join(absent)}"
                )
            for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
                yield conform(pa.Table.from_batches([batch]))
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        reason = f"not a readable Parquet segment: {first_line(error)}"
        raise UnreadableError(reason) from error


def _take_batch(number: int, table: pa.Table, intake: Intake) -> None:
    if plainly_good(table):
        intake.take_rows(table)
        return
    good = np.ones(len(table), np.bool_)
    for at, row in enumerate(table.to_pylist()):
        reason = fault_of_row(row)
        if reason is not None:
            good[at] = False
            text = msgspec.json.encode(row, enc_hook=str)[:_TEXT_BYTES_MAX].decode(errors="replace")
            intake.set_aside(number + at, reason, text, row["run"])
    intake.take_rows(table.filter(pa.array(good)))


def conform(table: pa.Table) -> pa.Table:
    """The columns of the events table; others go into ``extra``, absent ones are null.

    ``v`` and ``t_us`` have the defaults of a record.  ArrowInvalid when a type cannot be had.
    """
    count = len(table)
    columns = {}
    for field in PLAIN:
        if field.name in table.column_names:
            columns[field.name] = _cast(table[field.name], field)
        elif field.name == "v":
            columns["v"] = pa.chunked_array([pa.repeat(pa.scalar(VERSION, pa.int32()), count)])
        else:
            columns[field.name] = pa.chunked_array([pa.nulls(count, field.type)])
    columns["t_us"] = pc.fill_null(columns["t_us"], 0)
    if others := [name for name in table.column_names if name not in columns]:
        columns["extra"] = _with_others(columns["extra"], table.select(others))
    # Nulls where the schema allows none are found when the rows are judged.
    loose = pa.schema([field.with_nullable(True) for field in PLAIN])
    return pa.Table.from_arrays([columns[name] for name in PLAIN.names], schema=loose)


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    try:
        return column.cast(field.type)
    except pa.ArrowException as error:
        raise UnreadableError(
            f"column {field.name}: expected {field.type}, got {column.type} ({first_line(error)})"
        ) from error


def _with_others(extra: pa.ChunkedArray, others: pa.Table) -> pa.ChunkedArray:
    """Columns that the format does not have, as fields of the JSON object ``extra``."""
    texts: list[str | None] = []
    for text, row in zip(extra.to_pylist(), others.to_pylist(), strict=True):
        fields = {name: value for name, value in row.items() if value is not None}
        if text is not None and fields:
            try:
                fields |= msgspec.json.decode(text, type=dict[str, Any])
            except MALFORMED:
                fields = {}  # the row is set aside for its extra as it is
        encoded = msgspec.json.encode(fields, enc_hook=str).decode() if fields else text
        texts.append(encoded)
    return pa.chunked_array([pa.array(texts, pa.string())])


def plainly_good(table: pa.Table) -> bool:
    """Whether the columns as a whole already say that every row is good; no false yes."""
    if any(table[name].null_count for name in ("v", "run", "node", "pos", "kind")):
        return False
    has_dot = pc.is_valid(table["dot_node"])
    lacks_dot = pc.and_(pc.is_in(table["kind"], _WITH_DOT), pc.invert(has_dot))
    return (
        _within(table["v"], VERSION, VERSION)
        and _within(table["pos"], 0, POS_MAX)
        and all(_is_name(name) and run_fault(name) is None for name in _names(table["run"]))
        and all(_is_name(name) and "/" not in name for name in _names(table["node"]))
        and all(_names(table["kind"]))
        and not pc.any(lacks_dot).as_py()
        and _good_dots(table["dot_node"].filter(has_dot), table["dot_seq"].filter(has_dot))
        and all(_good_lists(table[name]) for name in ("context", "stable"))
        and all(_within(table[name], 0, (1 << 63) - 1) for name in ("bytes", "words"))
        and not pc.list_flatten(table["to"]).null_count
        and all(_is_json(name, table[name]) for name in ("payload", "extra"))
    )


def _names(column: pa.ChunkedArray) -> list[str]:
    return [name for name in pc.unique(column).to_pylist() if name is not None]


def _is_name(name: str) -> bool:
    return 0 < len(name) <= NAME_CHARS_MAX


def _within(column: pa.ChunkedArray, low: int, high: int) -> bool:
    """Whether all values that are not null are in this range."""
    found = pc.min_max(column).as_py()
    return found["min"] is None or (low <= found["min"] and found["max"] <= high)


def _good_dots(nodes: pa.ChunkedArray, seqs: pa.ChunkedArray) -> bool:
    return (
        not nodes.null_count
        and not seqs.null_count
        and _within(seqs, 1, SEQ_MAX)
        and all(_is_name(name) for name in _names(nodes))
    )


def _good_lists(column: pa.ChunkedArray) -> bool:
    if column.null_count == len(column):
        return True
    dots = pc.list_flatten(column)
    nodes, seqs = pc.struct_field(dots, "node"), pc.struct_field(dots, "seq")
    return _within(pc.list_value_length(column), 0, CONTEXT_DOTS_MAX) and _good_dots(nodes, seqs)


def _is_json(name: str, column: pa.ChunkedArray) -> bool:
    if column.null_count == len(column):
        return True
    return all(_json_fault(name, text) is None for text in column.to_pylist() if text is not None)


def _json_fault(name: str, text: str) -> str | None:
    try:
        value = msgspec.json.decode(text)
    except MALFORMED:
        return f"{name}: expected JSON text, got {text[:40]!r}"
    if name == "extra" and not isinstance(value, dict):
        return f"extra: expected a JSON object, got {text[:40]!r}"
    return None


def fault_of_row(row: dict[str, Any]) -> str | None:
    """What is wrong with one row, or None."""
    for name in ("v", "run", "node", "pos", "kind"):
        if row[name] is None:
            return f"{name}: expected a value, got null"
    for name in ("payload", "extra"):
        if row[name] is not None and (reason := _json_fault(name, row[name])) is not None:
            return reason
    dot = None
    if row["dot_node"] is not None:
        dot = Dot(row["dot_node"], row["dot_seq"] or 0)
    lists: dict[str, tuple[Dot, ...] | None] = {}
    for name in ("context", "stable"):
        found = row[name]
        if any(entry is None or None in entry.values() for entry in found or ()):
            return f"{name}: expected names and seqs, got null"
        lists[name] = None if found is None else tuple(Dot(e["node"], e["seq"]) for e in found)
    if row["to"] is not None and None in row["to"]:
        return "to: expected names, got null"
    record = Record(
        v=row["v"], run=row["run"], node=row["node"], pos=row["pos"], kind=row["kind"],
        t_us=row["t_us"], dot=dot, bytes=row["bytes"], words=row["words"],
        context=lists["context"], stable=lists["stable"],
    )  # fmt: skip
    return fault(record) or run_fault(record.run)
