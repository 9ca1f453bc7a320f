"""From a DataFrame of trace events to the messages of one run in NumPy.

Everything that needs the causal order goes the same way: the columns are looked at, rows and
fields that say nothing of the order stay behind, the events of a run come together in one task
(``per_run``, ``per_run_with``), and there ``messages_of`` makes of them the messages with the past
of each as a version vector.  A run must fit one task; docs/howto/analytics.md says how large that
is.

The past is that of docs/reference/trace.md, with guarantee causal whatever the run was: what a
sender had taken before it sent, it may have answered to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.trace.check import vectors_of
from thence.trace.columns import KIND_CODE, Columns, Ints, Mask, Part, gather_runs, take_rows
from thence.trace.index import index_log
from thence.trace.numbering import KIND_DELIVER, KIND_SEND, Numbering
from thence.trace.parquet import part_of_table
from thence.trace.record import DELIVER, RESTART, SEND, SNAPSHOT, RunInfo
from thence.trace.run import open_run
from thence.trace.segments import Quarantine

EVENT_COLUMNS: Final = ("run", "node", "pos", "kind", "dot_node", "dot_seq")
OPTIONAL_COLUMNS: Final = ("context",)
# What a send says elsewhere, or never: not carried along with a message.
SPENT_COLUMNS: Final = frozenset((*EVENT_COLUMNS, *OPTIONAL_COLUMNS, "v", "from", "stable"))
ORDERING_KINDS: Final = (SEND, DELIVER, SNAPSHOT, RESTART)
CODED_COLUMNS: Final = ("run", "node", "kind", "dot_node")
STREAM_MARK: Final = "/"
MESSAGE_FIELDS: Final = (
    StructField("run", StringType()),
    StructField("node", StringType()),
    StructField("seq", LongType()),
    StructField("pos", LongType()),
)
_KIND_SNAPSHOT: Final = KIND_CODE[SNAPSHOT]

DotLike = Dot | tuple[str, int] | str


# Columns.


def require_frame(given: object, caller: str) -> None:
    """UnusableInputError unless it is a DataFrame of Spark's; other frames have columns too."""
    if not isinstance(given, DataFrame):
        kind = type(given)
        raise UnusableInputError(
            f"{caller} expected a DataFrame of Spark, got {kind.__module__}.{kind.__qualname__}; "
            "spark.createDataFrame makes one"
        )


def require_columns(df: DataFrame, columns: Sequence[str], caller: str) -> None:
    """UnusableInputError unless the frame has these columns, each of the type it must have."""
    require_frame(df, caller)
    present = {field.name: field.dataType for field in df.schema.fields}
    absent = [name for name in columns if name not in present]
    if absent:
        raise UnusableInputError(
            f"{caller} expected the columns {', '.join(columns)}; "
            f"the frame has {', '.join(present) or 'none'}: no {', '.join(absent)}"
        )
    for name in columns:
        expected, is_right = _TYPES[name]
        if not is_right(present[name]):
            raise UnusableInputError(
                f"{caller} expected the column {name} to be {expected}; "
                f"it is {present[name].simpleString()}"
            )


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, ByteType | ShortType | IntegerType | LongType)


def _is_context(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    return set(fields) == {"node", "seq"} and _is_text(fields["node"]) and _is_whole(fields["seq"])


_TEXT: Final = ("a string", _is_text)
_WHOLE: Final = ("an integer", _is_whole)
_TYPES: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    **dict.fromkeys(("run", "node", "kind", "dot_node", "a_node", "b_node", "payload"), _TEXT),
    **dict.fromkeys(("pos", "dot_seq", "t_us", "a_seq", "b_seq"), _WHOLE),
    "context": ("array<struct<node:string,seq:bigint>>", _is_context),
}


def carried_columns(df: DataFrame, added: Iterable[str], caller: str) -> list[str]:
    """The columns of a send that go along with its message: all that are not spent.

    UnusableInputError when one has the name of a column that ``caller`` adds.
    """
    require_frame(df, caller)
    names = [name for name in df.columns if name not in SPENT_COLUMNS]
    twice = sorted(set(names) & set(added))
    if twice:
        raise UnusableInputError(
            f"{caller} adds the columns {', '.join(twice)}, which the frame has already: "
            "rename or drop them first"
        )
    return names


def plain_names(count: int) -> list[str]:
    """Names for carried columns on their way: Spark cannot hand every name to a kernel."""
    return [f"carried_{at}" for at in range(count)]


def ordering_events(df: DataFrame, carried: Sequence[str], caller: str) -> DataFrame:
    """The rows and fields that the order depends on, and what is carried, packed, by plain names.

    Contexts of messages of the default stream stay behind: what their sender had taken says more.
    """
    require_columns(df, EVENT_COLUMNS, caller)
    present = [name for name in OPTIONAL_COLUMNS if name in df.columns]
    require_columns(df, present, caller)
    kind = F.col("kind")
    needed = kind.isin(SNAPSHOT, RESTART) | F.contains(F.col("dot_node"), F.lit(STREAM_MARK))
    along = zip(carried, plain_names(len(carried)), strict=True)
    return df.where(kind.isin(*ORDERING_KINDS) | kind.isNull()).select(
        *EVENT_COLUMNS,
        *(F.when(needed, packed(df, name)).alias(name) for name in present),
        *(F.when(kind == SEND, packed(df, name)).alias(plain) for name, plain in along),
    )


def packed(df: DataFrame, name: str) -> Column:
    """A column as kernels are given it: lists, maps and structs as JSON text.

    Before it writes a row to Arrow, Spark 4.3 walks through all list entries of the batch so far:
    with a nested column, time goes by the square of the rows of a batch.
    """
    if isinstance(df.schema[name].dataType, ArrayType | MapType | StructType):
        return F.to_json(quoted(name))
    return quoted(name)


def unpacked(plain: str, field: StructField) -> Column:
    """The column as it was before ``packed``, under its own name."""
    if isinstance(field.dataType, ArrayType | MapType | StructType):
        return F.from_json(F.col(plain), field.dataType).alias(field.name)
    return F.col(plain).alias(field.name)


def quoted(name: str) -> Column:
    """The column of exactly this name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")


def dot_of(given: DotLike) -> Dot:
    """The dot a user named: a Dot, a pair, or text such as ``ann:7``."""
    if isinstance(given, Dot):
        return given
    if isinstance(given, str):
        try:
            return Dot.parse(given)
        except ValueError as error:
            raise UnusableInputError(str(error)) from None
    match given:
        case (str() as node, int() as seq) if node and seq > 0:
            return Dot(node, seq)
    raise UnusableInputError(f"{given!r} is not a dot: expected a node and a seq from 1")


# One run in one task.

Kernel = Callable[[str, pa.Table], pa.Table]
PairKernel = Callable[[str, pa.Table, pa.Table], pa.Table]


def per_run(events: DataFrame, kernel: Kernel, schema: StructType) -> DataFrame:
    """The kernel's rows for each run of the frame; it is given the run's name and events."""

    def of_batches(
        key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]
    ) -> Iterator[pa.RecordBatch]:
        # Batch by batch into codes, so that the names are never all there as strings.
        table = pa.Table.from_batches([_coded(batch) for batch in batches])
        yield from kernel(key[0].as_py(), table).to_batches()

    return events.groupBy("run").applyInArrow(of_batches, schema)


def per_run_with(
    events: DataFrame, others: DataFrame, kernel: PairKernel, schema: StructType
) -> DataFrame:
    """The kernel's rows for each run of either frame; one of its two tables may be empty."""

    def of_tables(key: tuple[pa.Scalar, ...], left: pa.Table, right: pa.Table) -> pa.Table:
        return kernel(key[0].as_py(), left, right)

    # Columns of their own: the two may come from one frame.
    others = others.select(*(F.col(name).alias(name) for name in others.columns))
    return events.groupBy("run").cogroup(others.groupBy("run")).applyInArrow(of_tables, schema)


def _coded(batch: pa.RecordBatch) -> pa.RecordBatch:
    for name in CODED_COLUMNS:
        at = batch.schema.get_field_index(name)
        column = batch.column(at).dictionary_encode()
        batch = batch.set_column(at, pa.field(name, column.type), column)
    return batch


# The messages.


class Messages(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of one run, in the order of their dots, and what each log had taken when.

    Dots are ids (trace/numbering.py): those of one origin compare as its messages do, and ids of
    dots that were only delivered, or skipped, are there too.  Nodes and origins are places in
    ``names``.
    """

    run: str
    names: tuple[str, ...]
    """Every node and origin, sorted."""
    numbering: Numbering
    id: Ints
    """By message, ascending."""
    origin: Ints
    node: Ints
    """By message: whose log sent it."""
    pos: Ints
    """By message: where in that log."""
    row: Ints
    """By message: the row of the table with its send."""
    vectors: Ints
    """[origin, id]: the latest dot of the origin in the past of the dot, itself included; the id
    for nothing of this origin is ``numbering.base[origin]``."""
    taken_node: Ints
    """What logs sent, delivered or were given by a snapshot, by (node, position)."""
    taken_pos: Ints
    taken_id: Ints

    def seqs(self) -> Ints:
        """The sequence number of each message."""
        ranks = self.id - self.numbering.base[self.origin]
        return self._numbers(self.origin, ranks)

    def entries(self, ids: Ints) -> Ints:
        """[origin, dot]: the vectors of these dots as sequence numbers, 0 for nothing."""
        base = self.numbering.base
        ranks = self.vectors[:, ids] - base[:-1, None]
        origins = np.broadcast_to(np.arange(len(self.names))[:, None], ranks.shape)
        return self._numbers(origins, ranks)

    def _numbers(self, origins: Ints, ranks: Ints) -> Ints:
        seqs: Ints = ranks.astype(np.int64)
        for origin, known in self.numbering.ranked.items():
            some = (origins == origin) & (ranks > 0)
            seqs[some] = known[ranks[some] - 1]
        return seqs

    def codes(self, names: pa.ChunkedArray) -> Ints:
        """Places of these names in ``names``; -1 for one that is not there, or null."""
        code_of = {name: code for code, name in enumerate(self.names)}
        coded = names.combine_chunks().dictionary_encode()
        table = [code_of.get(name, -1) for name in coded.dictionary.to_pylist()]
        places = coded.indices.fill_null(len(table)).to_numpy()
        codes: Ints = np.array([*table, -1], np.int64)[places]
        return codes

    def find(self, origins: Ints, seqs: Ints) -> Ints:
        """The ids of these dots; -1 for one that no log sent."""
        numbering = self.numbering
        ranks = np.where((origins >= 0) & (seqs > 0), seqs, 0)
        for origin, known in numbering.ranked.items():
            mine = origins == origin
            place = np.searchsorted(known, seqs[mine])
            hit = known[np.minimum(place, len(known) - 1)] == seqs[mine]
            ranks[mine] = np.where(hit, place + 1, 0)
        ranks[ranks > numbering.count[origins]] = 0
        ids = numbering.base[origins] + ranks
        found: Ints = np.where((ranks > 0) & np.isin(ids, self.id), ids, -1)
        return found

    def find_one(self, dot: Dot) -> int:
        """The id of one dot; -1 when no log sent it."""
        names = pa.chunked_array([[dot.node]], pa.string())
        return int(self.find(self.codes(names), np.array([dot.seq]))[0])


def messages_of(run: str, table: pa.Table) -> Messages:
    """The messages of one run from its events, in whatever order they come.

    The table is as ``ordering_events`` makes it: contexts, where there are any, are JSON text.
    UnusableInputError for a row that is not a trace record.  Of records with one position in one
    log the smallest counts (by kind, then dot, then the rest as text): which was read first, as
    the checker has it, no longer shows in a frame.
    """
    columns, rows = _columns_of(run, table)
    numbering, ids, context_ids, vectors = _causality(columns)
    node, kind = columns.node, columns.kind
    own = numbering.owner[columns.dot_node] == node
    sends = np.flatnonzero((kind == KIND_SEND) & own)
    sent, first = np.unique(ids[sends], return_index=True)  # of one sent twice the first counts
    sends = sends[first]
    taken = np.flatnonzero((kind == KIND_DELIVER) & ~own)
    given, given_ids = _snapshots(columns, context_ids)
    taken_row = np.concatenate([sends, taken, given])
    order = np.argsort(taken_row, kind="stable")
    taken_row = taken_row[order]
    return Messages(
        run=run,
        names=columns.names,
        numbering=numbering,
        id=sent,
        origin=columns.dot_node[sends],
        node=node[sends],
        pos=columns.pos[sends],
        row=rows[sends],
        vectors=vectors,
        taken_node=node[taken_row],
        taken_pos=columns.pos[taken_row],
        taken_id=np.concatenate([sent, ids[taken], given_ids])[order],
    )


def _causality(columns: Columns) -> tuple[Numbering, Ints, Ints, Ints]:
    """Numbering, the ids of rows and of contexts, and the past of every dot."""
    # Positions without gaps, so that nothing looks for what was left behind on purpose.
    places = np.arange(len(columns)) - np.searchsorted(columns.node, columns.node)
    opened = open_run(msgspec.structs.replace(columns, pos=places), RunInfo(run=columns.run))
    logs = [index_log(opened, node) for node in opened.nodes]
    vectors, _ = vectors_of(opened.run, logs)
    return opened.run.numbering, opened.ids, opened.context_ids, vectors


def _snapshots(columns: Columns, context_ids: Ints) -> tuple[Ints, Ints]:
    """(row, id) of the latest dots that snapshots contain."""
    rows = np.flatnonzero(columns.kind == _KIND_SNAPSHOT)
    begin, end = columns.context_start[rows], columns.context_start[rows + 1]
    entries = [np.arange(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    where = np.concatenate([np.zeros(0, np.int64), *entries])
    return np.repeat(rows, end - begin), context_ids[where]


def _columns_of(run: str, table: pa.Table) -> tuple[Columns, Ints]:
    """The table as columns by (node, position), and the table's row for each of theirs."""
    events = table.select(EVENT_COLUMNS)
    if "context" in table.column_names and table["context"].null_count < len(table):
        events = events.append_column("context", _contexts(table["context"]))
    quarantine = Quarantine()
    part = part_of_table(run, events, 0, quarantine)
    if quarantine.count:
        first = quarantine.listed[0].reason
        raise UnusableInputError(
            f"run {run}: {quarantine.count} rows are not trace records, the first one: {first}"
        )
    rows = _log_order(part, table)
    return gather_runs([take_rows(part, rows)])[0], rows


class _ContextDot(msgspec.Struct):
    node: str | None = None
    seq: int | None = None


_decode_context: Final = msgspec.json.Decoder(list[_ContextDot]).decode


def _contexts(texts: pa.ChunkedArray) -> pa.Array:
    """Contexts from the JSON that ``packed`` made of them; most are null."""
    column = texts.combine_chunks()
    given = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    lists = [_decode_context(text) for text in column.take(pa.array(given)).to_pylist()]
    size = np.zeros(len(column) + 1, np.int32)
    size[given + 1] = [len(dots) for dots in lists]
    flat = [dot for dots in lists for dot in dots]
    nodes = pa.array([dot.node for dot in flat], pa.string())
    seqs = pa.array([dot.seq for dot in flat], pa.int64())
    return pa.ListArray.from_arrays(
        pa.array(np.cumsum(size, dtype=np.int32)),
        pa.StructArray.from_arrays([nodes, seqs], ["node", "seq"]),
        mask=column.is_null(),
    )


def _log_order(part: Part, table: pa.Table) -> Ints:
    """The rows by name of node, then position, one for each position."""
    rank = np.empty(len(part.names), np.int32)
    rank[np.argsort(np.array(part.names, object))] = np.arange(len(part.names))
    node = rank[part.node]
    rows = np.lexsort((part.pos, node))
    again: Mask = (np.diff(node[rows]) == 0) & (np.diff(part.pos[rows]) == 0)
    if not bool(again.any()):
        return rows
    starts = np.flatnonzero(np.concatenate([[True], ~again]))
    ends = np.append(starts[1:], len(rows))
    chosen = rows[starts]
    for at in np.flatnonzero(ends - starts > 1).tolist():
        same = rows[starts[at] : ends[at]]
        chosen[at] = min(same.tolist(), key=lambda row: _as_text(table, row))
    return chosen


def _as_text(table: pa.Table, row: int) -> list[str]:
    first = ("kind", "dot_node", "dot_seq")
    rest = sorted(name for name in table.column_names if name not in first)
    values: list[Any] = [table[name][row].as_py() for name in (*first, *rest)]
    return [repr(value) for value in values]


def names_of(messages: Messages, codes: Ints) -> pa.Array:
    """Names as an Arrow column."""
    return pa.array(messages.names, pa.string()).take(pa.array(codes))


def message_columns(messages: Messages, some: Ints) -> dict[str, pa.Array]:
    """The columns of ``MESSAGE_FIELDS`` for some of the messages, given by place."""
    return {
        "run": pa.repeat(pa.scalar(messages.run, pa.string()), len(some)),
        "node": names_of(messages, messages.origin[some]),
        "seq": pa.array(messages.seqs()[some], pa.int64()),
        "pos": pa.array(messages.pos[some], pa.int64()),
    }
