"""The causal order of a run's messages, as DataFrame functions.

Each takes a DataFrame of trace events (docs/reference/trace.md, as ``spark.read.parquet`` of a run
folder gives them; several runs may be in it) and gives a DataFrame of messages:

causal_order     every message with its depth and its place in one order that respects causality
happens_before   how the two messages of each pair stand to each other
causal_past      what a message may have depended on
causal_future    what may have depended on it
concurrent_with  what neither it nor they could know of

Whether one message is before another is one comparison of version vectors; the vectors come from
frames.py, a run at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, MapType, StringType, StructField, StructType

from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.pipeline.frames import (
    EVENT_COLUMNS,
    MESSAGE_FIELDS,
    STREAM_MARK,
    DotLike,
    Kernel,
    Messages,
    carried_columns,
    dot_of,
    message_columns,
    messages_of,
    ordering_events,
    packed,
    per_run,
    per_run_with,
    plain_names,
    quoted,
    require_columns,
    unpacked,
)
from thence.trace.columns import Ints, Mask
from thence.trace.record import SEND

BEFORE: Final = "before"
AFTER: Final = "after"
CONCURRENT: Final = "concurrent"
SAME: Final = "same"
UNKNOWN: Final = "unknown"
CONTRADICTORY: Final = "contradictory"
RELATIONS: Final = (BEFORE, AFTER, CONCURRENT, SAME, UNKNOWN, CONTRADICTORY)
PAIR_COLUMNS: Final = ("a_node", "a_seq", "b_node", "b_seq")
NO_DEPTH: Final = -1
"""The depth of what the logs put before itself, and of what comes after that."""
BLOCK: Final = 1 << 16  # messages whose predecessors are Python lists at one time


def causal_order(df: DataFrame, vectors: bool = False) -> DataFrame:
    """Every message with its depth and its position in a linear extension of happens-before.

    One row per message: ``run``, ``node`` and ``seq`` (its dot), ``pos`` (of its send in the log of
    its node), ``depth`` (messages in the longest causal chain that ends with it, from 1),
    ``position`` (from 0 in each run: by depth, then by dot, so that what happens before has the
    smaller one and the same messages always have the same), with ``vectors`` the column ``vector``
    (origin to the latest seq of it in the past, itself included), then the other columns of its
    send record.

    ``depth`` and ``position`` are null where logs contradict each other: for a message that they
    put before itself and for what comes after such a message.
    """
    added = [StructField("depth", LongType()), StructField("position", LongType())]
    if vectors:
        added.append(StructField("vector", MapType(StringType(), LongType())))
    carried = carried_columns(df, ["seq", *(field.name for field in added)], "causal_order")
    kernel = partial(_order_of_run, carried=len(carried), vectors=vectors)
    return _messages(df, carried, "causal_order", kernel, added)


def _messages(
    df: DataFrame, carried: list[str], caller: str, kernel: Kernel, added: list[StructField]
) -> DataFrame:
    """What the kernel makes of each run, with the carried columns as they were."""
    events = ordering_events(df, carried, caller)
    plain = plain_names(len(carried))
    fields = [*MESSAGE_FIELDS, *added]
    rows = per_run(events, kernel, StructType([*fields, *(events.schema[name] for name in plain)]))
    along = zip(plain, carried, strict=True)
    return rows.select(
        *(field.name for field in fields),
        *(unpacked(name, df.schema[own]) for name, own in along),
    )


def _order_of_run(run: str, table: pa.Table, carried: int, vectors: bool) -> pa.Table:
    messages = messages_of(run, table)
    depth = depths(messages)[messages.id]
    position = positions(depth)
    ordered = position >= 0
    some = np.arange(len(messages.id))
    columns = message_columns(messages, some)
    columns["depth"] = pa.array(depth, pa.int64(), mask=~ordered)
    columns["position"] = pa.array(position, pa.int64(), mask=~ordered)
    if vectors:
        columns["vector"] = _vector_maps(messages)
    return _with_carried(columns, messages, some, table, carried)


def _with_carried(
    columns: dict[str, pa.Array], messages: Messages, some: Ints, table: pa.Table, carried: int
) -> pa.Table:
    names = plain_names(carried)
    sends = table.select(names).take(pa.array(messages.row[some]))
    return pa.table({**columns, **dict(zip(names, sends.columns, strict=True))})


def _vector_maps(messages: Messages) -> pa.Array:
    entries = messages.entries(messages.id)
    which, origin = np.nonzero(entries.T)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(entries, axis=0))])
    keys = pa.array(messages.names, pa.string()).take(pa.array(origin))
    values = pa.array(entries[origin, which], pa.int64())
    return pa.MapArray.from_arrays(pa.array(starts, pa.int32()), keys, values)


def depths(messages: Messages) -> Ints:
    """By id: messages that were sent in the longest chain that ends with it; ``NO_DEPTH``.

    A dot comes after the one before it of its origin, so of its vector only the entries that the
    one before has not are looked at.  Dots go by the size of their past: what is before another
    has a smaller one.  A dot that is met before something of its past is in a contradiction.
    """
    numbering, vectors = messages.numbering, messages.vectors
    base = numbering.base[:-1]
    is_dot = np.zeros(numbering.total, np.bool_)
    for origin in range(len(messages.names)):
        is_dot[numbering.messages(origin)] = True
    ids = np.flatnonzero(is_dot)
    size = np.zeros(len(ids), np.int64)
    for origin in range(len(base)):
        size += vectors[origin, ids] - base[origin]
    ids = ids[np.argsort(size, kind="stable")]
    counts = np.zeros(numbering.total, np.int64)
    counts[messages.id] = 1
    never = numbering.total + 1  # deeper than any chain
    depth = np.where(is_dot, never, 0).tolist()
    for first in range(0, len(ids), BLOCK):
        some = ids[first : first + BLOCK]
        ends, before = _new_predecessors(messages, some)
        at = 0
        for dot, count, end in zip(some.tolist(), counts[some].tolist(), ends, strict=True):
            deepest = depth[dot - 1]
            for other in before[at:end]:
                if depth[other] > deepest:
                    deepest = depth[other]
            depth[dot] = deepest + count
            at = end
    found = np.array(depth, np.int64)
    found[found >= never] = NO_DEPTH
    return found


def _new_predecessors(messages: Messages, ids: Ints) -> tuple[list[int], list[int]]:
    """By dot where its entries end, and the entries of other origins that it has first."""
    vectors = messages.vectors
    mine, earlier = vectors[:, ids], vectors[:, ids - 1]
    new = mine != earlier
    origin = np.searchsorted(messages.numbering.base, ids, side="right") - 1
    new[origin, np.arange(len(ids))] = False
    ends = np.cumsum(np.count_nonzero(new, axis=0))
    return ends.tolist(), mine.T[new.T].tolist()


def positions(depth: Ints) -> Ints:
    """The place of each message, given in the order of dots: by depth, then dot; -1 for none."""
    position = np.full(len(depth), -1, np.int64)
    order = np.argsort(depth, kind="stable")
    order = order[np.count_nonzero(depth == NO_DEPTH) :]
    position[order] = np.arange(len(order))
    return position


def happens_before(df: DataFrame, pairs: DataFrame) -> DataFrame:
    """The pairs with a column ``relation``: how message a stands to message b.

    ``pairs`` has ``a_node``, ``a_seq``, ``b_node``, ``b_seq`` and, if the frame holds several runs,
    ``run``; without it each pair is asked of every run.  Its other columns stay.  The relation is
    ``before``, ``after``, ``concurrent``, ``same``, ``unknown`` (no log of the run sent one of the
    two) or ``contradictory`` (logs that put each before the other).
    """
    require_columns(pairs, PAIR_COLUMNS, "happens_before")
    if "relation" in pairs.columns:
        raise UnusableInputError("happens_before adds the column relation: rename the one of pairs")
    events = ordering_events(df, [], "happens_before")
    pairs = _with_runs(df, pairs)
    known = {"run", *PAIR_COLUMNS}
    fields = [
        (field, field.name if field.name in known else plain)
        for field, plain in zip(pairs.schema.fields, plain_names(len(pairs.columns)), strict=True)
    ]
    asked = pairs.select(*(packed(pairs, field.name).alias(plain) for field, plain in fields))
    schema = StructType([*asked.schema.fields, StructField("relation", StringType())])
    answers = per_run_with(events, asked, _relations_of_run, schema)
    return answers.select(*(unpacked(plain, field) for field, plain in fields), "relation")


def _with_runs(df: DataFrame, pairs: DataFrame) -> DataFrame:
    """The pairs with a column ``run``: every run of the frame when they have none."""
    if "run" in pairs.columns:
        require_columns(pairs, ["run"], "happens_before")
        return pairs
    everywhere = pairs.crossJoin(F.broadcast(df.select("run").distinct()))
    return everywhere.select("run", *(quoted(name) for name in pairs.columns))


def _relations_of_run(run: str, table: pa.Table, pairs: pa.Table) -> pa.Table:
    if len(table) and len(pairs):
        codes = _relations(messages_of(run, table), pairs)
    else:
        codes = np.full(len(pairs), RELATIONS.index(UNKNOWN))
    relations = pa.array(RELATIONS, pa.string()).take(pa.array(codes))
    return pairs.append_column("relation", relations)


def _relations(messages: Messages, pairs: pa.Table) -> Ints:
    """Places in ``RELATIONS``."""
    a, b = (
        messages.find(
            messages.codes(pairs[f"{side}_node"]),
            pairs[f"{side}_seq"].cast(pa.int64()).fill_null(0).to_numpy(),
        )
        for side in ("a", "b")
    )
    base, vectors = messages.numbering.base, messages.vectors
    a_origin = np.searchsorted(base, a, side="right") - 1
    b_origin = np.searchsorted(base, b, side="right") - 1
    before = vectors[a_origin, b] >= a
    after = vectors[b_origin, a] >= b
    cases: list[tuple[str, Mask]] = [
        (UNKNOWN, (a < 0) | (b < 0)),
        (SAME, a == b),
        (CONTRADICTORY, before & after),
        (BEFORE, before),
        (AFTER, after),
    ]
    found: Ints = np.select(
        [mask for _, mask in cases],
        [RELATIONS.index(name) for name, _ in cases],
        RELATIONS.index(CONCURRENT),
    )
    return found


def causal_past(df: DataFrame, dot: DotLike, run: str | None = None) -> DataFrame:
    """The messages that happen before this one: all it may have depended on.

    ``dot`` is a Dot, a pair or text such as ``ann:7``.  One row per message: ``run``, ``node``,
    ``seq``, ``pos``, then the other columns of its send record.  Without ``run``: in every run that
    has such a message.  UnusableInputError when none has (one small job looks).
    """
    return _related(df, dot, run, "causal_past", _is_before)


def causal_future(df: DataFrame, dot: DotLike, run: str | None = None) -> DataFrame:
    """The messages that this one happens before: all that may have depended on it.

    Arguments and columns as for ``causal_past``.
    """
    return _related(df, dot, run, "causal_future", _is_after)


def concurrent_with(df: DataFrame, dot: DotLike, run: str | None = None) -> DataFrame:
    """The messages that are neither before nor after this one, nor itself.

    Arguments and columns as for ``causal_past``.
    """
    return _related(df, dot, run, "concurrent_with", _is_concurrent)


Choice = Callable[[Messages, int], Mask]


def _is_before(messages: Messages, dot: int) -> Mask:
    before: Mask = messages.vectors[messages.origin, dot] >= messages.id
    before[messages.id == dot] = False
    return before


def _is_after(messages: Messages, dot: int) -> Mask:
    after: Mask = messages.vectors[messages.numbering.origin(dot), messages.id] >= dot
    after[messages.id == dot] = False
    return after


def _is_concurrent(messages: Messages, dot: int) -> Mask:
    related = _is_before(messages, dot) | _is_after(messages, dot)
    related[messages.id == dot] = True
    return np.logical_not(related)


def _related(
    df: DataFrame, given: DotLike, run: str | None, caller: str, choose: Choice
) -> DataFrame:
    dot = dot_of(given)
    carried = carried_columns(df, ["seq"], caller)
    require_columns(df, EVENT_COLUMNS, caller)
    events = df if run is None else df.where(F.col("run") == run)
    _require_sent(events, dot, run)
    kernel = partial(_related_of_run, dot=dot, carried=len(carried), choose=choose)
    return _messages(events, carried, caller, kernel, [])


def _require_sent(events: DataFrame, dot: Dot, run: str | None) -> None:
    is_send = (
        (F.col("kind") == SEND)
        & (F.col("dot_node") == dot.node)
        & (F.col("dot_seq") == dot.seq)
        & (F.col("node") == dot.node.partition(STREAM_MARK)[0])
    )
    if events.where(is_send).select("run").isEmpty():
        where = "of these events" if run is None else f"of run {run}"
        raise UnusableInputError(f"no log {where} sent {dot}")


def _related_of_run(run: str, table: pa.Table, dot: Dot, carried: int, choose: Choice) -> pa.Table:
    messages = messages_of(run, table)
    found = messages.find_one(dot)
    some = np.flatnonzero(choose(messages, found)) if found >= 0 else np.zeros(0, np.int64)
    return _with_carried(message_columns(messages, some), messages, some, table, carried)
