"""Parquet segments into columns, with every bad row set aside and named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from thence.causal.dot import SEQ_MAX, Dot
from thence.trace.columns import (
    ABSENT,
    BYTES,
    CHANGE_CODES,
    KIND_CODE,
    NO_NAME,
    OTHER_KIND,
    WORDS,
    Change,
    Ints,
    Mask,
    Part,
    take_rows,
)
from thence.trace.files import random_access
from thence.trace.record import (
    CONTEXT_DOTS_MAX,
    KINDS,
    KINDS_WITH_DOT,
    NAME_CHARS_MAX,
    POS_MAX,
    VERSION,
    Record,
    version_fault,
)
from thence.trace.segments import Quarantine
from thence.trace.tables import (
    CHECKED_COLUMNS,
    CODE_COLUMNS,
    DOT,
    MEASURED_COLUMNS,
    REQUIRED_COLUMNS,
)

CHANGE_COLUMNS: Final = ("from", "stable")
CHANGE_KINDS: Final = frozenset(KINDS[code] for code in CHANGE_CODES)
NO_VERSION: Final = 0
"""Of a row whose ``v`` is null."""
VERSIONS_NAMED_MAX: Final = 8
"""Different versions in one file that are named; there should not be two."""
_INT32: Final = np.iinfo(np.int32)
_CODES_WITH_DOT: Final = [KIND_CODE[kind] for kind in sorted(KINDS_WITH_DOT)]


def read_parquet(
    path: str,
    quarantine: Quarantine,
    groups: Sequence[int] | None = None,
    measured: bool = False,
) -> Part | None:
    """The good rows of one Parquet segment; None when the file as a whole is unusable.

    ``groups``: only these row groups, which follow one another.  ``measured``: with clocks and
    sizes.
    """
    try:
        with pq.ParquetFile(random_access(path)) as file:
            present = set(file.schema_arrow.names)
            sizes = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
        absent = [name for name in REQUIRED_COLUMNS if name not in present]
        if absent:
            reason = f"expected the columns {', '.join(REQUIRED_COLUMNS)}; no {', '.join(absent)}"
            quarantine.add(path, None, reason)
            return None
        wanted = (*CHECKED_COLUMNS, *MEASURED_COLUMNS) if measured else CHECKED_COLUMNS
        columns = [name for name in wanted if name in present]
        table = _read(path, columns, groups)
        table = _with_changes(path, table, present, groups)
        first_row = sum(sizes[: groups[0]]) if groups else 0
        return part_of_table(path, table, first_row, quarantine, measured)
    except (pa.ArrowException, OSError, ValueError, IndexError) as error:
        first_line = str(error).splitlines()[0] if str(error) else type(error).__name__
        quarantine.add(path, None, f"not a readable Parquet segment: {first_line}")
        return None


def _read(path: str, columns: Sequence[str], groups: Sequence[int] | None) -> pa.Table:
    with pq.ParquetFile(
        random_access(path), read_dictionary=CODE_COLUMNS, page_checksum_verification=True
    ) as file:
        if groups is None:
            return file.read(columns=columns, use_threads=False)
        return file.read_row_groups(list(groups), columns=columns, use_threads=False)


def _with_changes(
    path: str, table: pa.Table, present: set[str], groups: Sequence[int] | None
) -> pa.Table:
    """The table with the columns that only records of membership and recovery use, if any."""
    kinds = {
        kind for chunk in table["kind"].chunks for kind in _dictionary(chunk).dictionary.to_pylist()
    }
    more = [name for name in CHANGE_COLUMNS if name in present]
    if more and not kinds.isdisjoint(CHANGE_KINDS):
        for column, values in zip(more, _read(path, more, groups).columns, strict=True):
            table = table.append_column(column, values)
    return table


def part_of_table(
    path: str, table: pa.Table, first_row: int, quarantine: Quarantine, measured: bool = False
) -> Part:
    """The good rows of a table of trace columns; ``path`` and ``first_row`` name the bad ones."""
    names: dict[str, int] = {}
    kind_codes = KIND_CODE.copy()
    kinds = _codes(table["kind"], kind_codes)
    start, context_node, context_seq = _contexts(table, names)
    small_kinds = np.minimum(kinds, OTHER_KIND).astype(np.int8)
    part = Part(
        run=_codes(table["run"], names),
        node=_codes(table["node"], names),
        pos=_numbers(table["pos"], -1),
        kind=small_kinds,
        dot_node=_codes(table["dot_node"], names),
        dot_seq=_numbers(table["dot_seq"], 0),
        context_start=start,
        context_node=context_node,
        context_seq=context_seq,
        to=_recipients(table, names),
        changes=_changes(table, small_kinds, names),
        names=list(names),
        measured=_measured(path, table, quarantine) if measured else None,
    )
    if "" in kind_codes:
        kinds[kinds == kind_codes[""]] = NO_NAME  # no word at all
    version = _numbers(table["v"], NO_VERSION) if "v" in table.column_names else None
    return _without_bad_rows(path, part, kinds, version, first_row, quarantine)


def _codes(column: pa.ChunkedArray, codes: dict[str, int]) -> Ints:
    """Codes of a string column, adding its names to ``codes``; ``NO_NAME`` for null."""
    pieces = []
    for chunk in column.chunks:
        chunk = _dictionary(chunk)
        values = chunk.dictionary.cast(pa.string()).to_pylist()
        table = [
            NO_NAME if value is None else codes.setdefault(value, len(codes)) for value in values
        ]
        index = chunk.indices
        if index.null_count:
            index = pc.fill_null(index, len(table))
        places = index.to_numpy(zero_copy_only=False)
        if len(places) and places.min() < 0:
            raise ValueError("a dictionary index is negative")  # Arrow does not look
        pieces.append(np.array([*table, NO_NAME], np.int32)[places])
    return np.concatenate(pieces) if pieces else np.zeros(0, np.int32)


def _dictionary(chunk: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_dictionary(chunk.type):
        return chunk
    return pc.dictionary_encode(chunk.cast(pa.string()))


def _numbers(column: pa.ChunkedArray, absent: int) -> Ints:
    """A column of integers, in 32 bits when they fit: half the memory to move about."""
    column = column.cast(pa.int64())
    if column.null_count:
        column = pc.fill_null(column, absent)
    numbers: Ints = column.to_numpy()
    if len(numbers) and _INT32.min <= numbers.min() and numbers.max() <= _INT32.max:
        return numbers.astype(np.int32)
    return numbers


def _measured(path: str, table: pa.Table, quarantine: Quarantine) -> Ints:
    """Clocks and sizes; a column of another type is set aside as a whole."""
    measured = np.full((len(MEASURED_COLUMNS), len(table)), ABSENT, np.int64)
    for row, name in zip(measured, MEASURED_COLUMNS, strict=True):
        kind = table.schema.field(name).type if name in table.column_names else pa.null()
        if pa.types.is_integer(kind):
            row[:] = pc.fill_null(table[name].cast(pa.int64()), ABSENT).to_numpy()
        elif not pa.types.is_null(kind):
            quarantine.add(path, None, f"{name}: expected integers, got {kind}")
    return measured


def _contexts(table: pa.Table, names: dict[str, int]) -> tuple[Ints, Ints, Ints]:
    if "context" not in table.column_names:
        return np.zeros(len(table) + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int64)
    column = table["context"].cast(pa.list_(pa.field("element", DOT)))
    # A null list has length 0 here; value_lengths would say null, offsets say the same as empty.
    starts, at = [np.zeros(1, np.int32)], 0
    nodes, seqs = [], []
    for chunk in column.chunks:
        offsets = chunk.offsets.to_numpy()
        starts.append(offsets[1:] - offsets[0] + at)
        at = int(starts[-1][-1]) if len(chunk) else at
        dots = chunk.values[int(offsets[0]) : int(offsets[-1])]
        nodes.append(_codes(pa.chunked_array([dots.field("node")]), names))
        seqs.append(_numbers(pa.chunked_array([dots.field("seq")]), 0))
    empty = np.zeros(0, np.int64)
    return np.concatenate(starts), np.concatenate([empty, *nodes]), np.concatenate([empty, *seqs])


def _recipients(table: pa.Table, names: dict[str, int]) -> dict[int, tuple[int, ...]]:
    """By row the recipients of a multicast; of a row that names none properly, ``NO_NAME``."""
    if "to" not in table.column_names or table["to"].null_count == len(table):
        return {}
    return {
        row: tuple(NO_NAME if name is None else names.setdefault(name, len(names)) for name in to)
        for row, to in enumerate(table["to"].to_pylist())
        if to is not None
    }


def _changes(table: pa.Table, kinds: Ints, names: dict[str, int]) -> dict[int, Change]:
    """The rest of the records of membership and recovery, which are few."""
    rows = np.flatnonzero(np.isin(kinds, CHANGE_CODES)).tolist()
    changes: dict[int, Change] = {}
    for row in rows:
        peer, stable = _value(table, "from", row), _value(table, "stable", row)
        dots = None if stable is None else tuple(_dot_of(dot or {}, names) for dot in stable)
        code = NO_NAME if peer is None else names.setdefault(peer, len(names))
        changes[row] = Change(code, _value(table, "context", row) is not None, dots)
    return changes


def _dot_of(dot: dict[str, Any], names: dict[str, int]) -> tuple[int, int]:
    """(code, seq); ``NO_NAME`` for what cannot be a dot."""
    node, seq = dot.get("node") or "", dot.get("seq") or 0
    usable = _usable(node) and 1 <= seq <= SEQ_MAX
    return (names.setdefault(node, len(names)) if usable else NO_NAME), seq


def _value(table: pa.Table, column: str, row: int) -> Any:
    return table[column][row].as_py() if column in table.column_names else None


def _without_bad_rows(
    path: str, part: Part, kinds: Ints, version: Ints | None, first_row: int,
    quarantine: Quarantine,
) -> Part:  # fmt: skip
    """The part without the rows that break the format, each of them set aside with its reason."""
    if not len(part.node) or _plainly_good(part, kinds, version):
        return part
    usable = np.array([_usable(name) for name in part.names] + [False])
    plain = usable & np.array(["/" not in name for name in part.names] + [False])
    has_dot = part.dot_node >= 0
    dot_ok = usable[part.dot_node] & (part.dot_seq >= 1) & (part.dot_seq <= SEQ_MAX)
    context_bad = ~usable[part.context_node] | (part.context_seq < 1)
    context_bad |= part.context_seq > SEQ_MAX
    checks: list[tuple[str, Mask]] = [] if version is None else _other_versions(version)
    checks += [
        ("node: expected a name without '/'", ~plain[part.node]),
        ("run: expected a name", ~usable[part.run]),
        ("pos: expected 0 to 2**53-1", (part.pos < 0) | (part.pos > POS_MAX)),
        ("kind: expected a word", kinds < 0),
        ("dot: this kind of record needs dot_node and dot_seq",
         np.isin(part.kind, _CODES_WITH_DOT) & ~has_dot),
        ("dot: expected a name and a seq from 1 to 2**40-1", has_dot & ~dot_ok),
        ("context: expected names and seqs from 1 to 2**40-1",
         _rows_with(context_bad, part.context_start)),
        (f"context: expected at most {CONTEXT_DOTS_MAX} dots",
         np.diff(part.context_start) > CONTEXT_DOTS_MAX),
        ("stable: expected names and seqs from 1 to 2**40-1", _untold(part)),
        ("to: expected names", _unnamed(part)),
    ]  # fmt: skip
    checks += _bad_sizes(part)
    # As line by line: the first row first, whatever is wrong with it.
    why = np.full(len(part.node), len(checks), np.int32)
    for number in reversed(range(len(checks))):
        why[checks[number][1]] = number
    bad = np.flatnonzero(why < len(checks))
    for row, number in zip(bad.tolist(), why[bad].tolist(), strict=True):
        quarantine.add(path, first_row + row + 1, checks[number][0])
    return take_rows(part, np.flatnonzero(why == len(checks))) if len(bad) else part


def _other_versions(version: Ints) -> list[tuple[str, Mask]]:
    """(reason, rows) of each version of the format that is not ours."""
    others = np.unique(version[version != VERSION]).tolist()
    return [
        (version_fault(None if value == NO_VERSION else value), version == value)
        for value in others[:VERSIONS_NAMED_MAX]
    ] + [(version_fault(None), version != VERSION)]


def _bad_sizes(part: Part) -> list[tuple[str, Mask]]:
    """(reason, rows) of sizes below zero, when sizes were read."""
    if part.measured is None:
        return []
    found = []
    for name, place in (("bytes", BYTES), ("words", WORDS)):
        sizes = part.measured[place]
        wrong = np.less(sizes, 0) & np.not_equal(sizes, ABSENT)
        found.append((f"{name}: expected a size", wrong))
    return found


def _unnamed(part: Part) -> Mask:
    """Which rows have a null among their recipients."""
    rows = np.zeros(len(part.node), np.bool_)
    rows[[row for row, to in part.to.items() if NO_NAME in to]] = True
    return rows


def _untold(part: Part) -> Mask:
    """Which rows have something among what was told stable that is no dot."""
    rows = np.zeros(len(part.node), np.bool_)
    rows[[row for row, change in part.changes.items() if _is_untold(change)]] = True
    return rows


def _is_untold(change: Change) -> bool:
    return any(code == NO_NAME for code, _ in change.stable or ())


def _usable(name: str) -> bool:
    return 0 < len(name) <= NAME_CHARS_MAX


def _plainly_good(part: Part, kinds: Ints, version: Ints | None) -> bool:
    """Whether smallest and largest values already say that every row is good; no false yes."""
    lacks_dot = np.flatnonzero(part.dot_node < 0)
    return (
        all(_usable(name) and "/" not in name for name in part.names)
        and not any(NO_NAME in to for to in part.to.values())
        and not any(map(_is_untold, part.changes.values()))
        and min(int(part.node.min()), int(part.run.min()), int(part.pos.min()), int(kinds.min()))
        >= 0
        and int(part.pos.max()) <= POS_MAX
        and not bool(np.isin(part.kind[lacks_dot], _CODES_WITH_DOT).any())
        and not bool(part.dot_seq[lacks_dot].any())
        and int(np.count_nonzero(part.dot_seq < 1)) == len(lacks_dot)
        and int(part.dot_seq.max()) <= SEQ_MAX
        and (
            not len(part.context_node)
            or (
                int(part.context_node.min()) >= 0
                and int(part.context_seq.min()) >= 1
                and int(part.context_seq.max()) <= SEQ_MAX
                and int(np.diff(part.context_start).max()) <= CONTEXT_DOTS_MAX
            )
        )
        and (version is None or bool((version == VERSION).all()))
        and not any(bool(rows.any()) for _, rows in _bad_sizes(part))
    )


def _rows_with(entries: Mask, start: Ints) -> Mask:
    """Which rows own a marked entry."""
    rows = np.zeros(len(start) - 1, np.bool_)
    if bool(entries.any()):
        rows[np.searchsorted(start, np.flatnonzero(entries), side="right") - 1] = True
    return rows


def records_of_parquet(path: str) -> Iterable[Record]:
    """The records of one good segment, one by one, for small use."""
    for row in pq.ParquetFile(path).read().to_pylist():
        yield _record_of_row({name: value for name, value in row.items() if value is not None})


def _record_of_row(row: dict[str, Any]) -> Record:
    same = ("v", "run", "node", "pos", "kind", "t_us", "bytes", "stream", "words")
    fields: dict[str, Any] = {name: row[name] for name in same if name in row}
    if "dot_node" in row and "dot_seq" in row:
        fields["dot"] = Dot(row["dot_node"], row["dot_seq"])
    for name in ("context", "stable"):
        if name in row:
            fields[name] = tuple(Dot(dot["node"], dot["seq"]) for dot in row[name])
    if "payload" in row:
        fields["payload"] = msgspec.json.decode(row["payload"])
    if "extra" in row:
        fields["extra"] = msgspec.json.decode(row["extra"])
    to = row.get("to")
    return Record(**fields, peer=row.get("from"), to=None if to is None else tuple(to))
