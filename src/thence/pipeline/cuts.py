"""Cuts: a position in each log, and whether together they are a state the run could have been in.

A cut holds, of each log, the records up to and including a position; -1 is none of them, and so is
a node that is not named.  It is *consistent* when nothing inside depends on something outside: all
that was sent, delivered or given by a snapshot inside, and everything in its past, was sent inside.
On logs that ``thence check`` finds nothing in, that is the usual "no delivery inside of a send
outside"; on others a gap in the messages of a node, or a log that is not there, shows too.

Consistent cuts are closed under union, so there is a greatest one within any positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from thence.errors import UnusableInputError
from thence.pipeline.frames import (
    EVENT_COLUMNS,
    Messages,
    messages_of,
    ordering_events,
    per_run_with,
    require_columns,
)
from thence.trace.columns import Ints, Mask

MISSING_LISTED_MAX: Final = 1000
"""Missing messages that a verdict lists; all are counted."""
_T_US_MAX: Final = 1 << 63  # t_us is a 64-bit integer
CUT_SCHEMA: Final = StructType(
    [
        StructField("run", StringType()),
        StructField("node", StringType()),
        StructField("pos", LongType()),
    ]
)
MISSING: Final = StructType(
    [
        StructField("node", StringType()),
        StructField("seq", LongType()),
        StructField("pos", LongType()),
        StructField("at_node", StringType()),
        StructField("at_pos", LongType()),
    ]
)
VERDICT_SCHEMA: Final = StructType(
    [
        StructField("run", StringType()),
        StructField("consistent", BooleanType()),
        StructField("missing_count", LongType()),
        StructField("missing", ArrayType(MISSING)),
        StructField("no_log", ArrayType(StringType())),
    ]
)
_MISSING_ARROW: Final = pa.struct(
    [
        ("node", pa.string()),
        ("seq", pa.int64()),
        ("pos", pa.int64()),
        ("at_node", pa.string()),
        ("at_pos", pa.int64()),
    ]
)
_VERDICT_ARROW: Final = pa.schema(
    [
        ("run", pa.string()),
        ("consistent", pa.bool_()),
        ("missing_count", pa.int64()),
        ("missing", pa.list_(_MISSING_ARROW)),
        ("no_log", pa.list_(pa.string())),
    ]
)

Positions = Mapping[str, int] | DataFrame
"""A cut: {node: position} for every run of the frame, or a DataFrame of (run,) node, pos."""


def cut(df: DataFrame, at: Positions) -> DataFrame:
    """Whether the cut ``at`` is consistent, one row per run that it names.

    ``consistent``; ``missing_count`` and ``missing``, by dot, the first ``MISSING_LISTED_MAX``:
    ``node`` and ``seq`` of a message that is not inside, ``pos`` where its node sent it (null: in
    no log), ``at_node`` and ``at_pos`` a record inside that depends on it; ``no_log``: nodes that
    the cut has records of and the frame has not.
    """
    events = ordering_events(df, [], "cut")
    return per_run_with(events, _with_ends(df, at, "cut"), _verdict_of_run, VERDICT_SCHEMA)


def latest_cut(
    df: DataFrame, before_us: int | None = None, within: Positions | None = None
) -> DataFrame:
    """The greatest consistent cut, as run, node, pos with a row for every log.

    ``before_us``: of each log only what is before its first record with a ``t_us`` of that or
    later.  This compares clocks of different nodes, so they must be common, as in a simulation; the
    cut is consistent whatever the clocks were, but then not of one moment.  A record without
    ``t_us`` fails the job.  ``within``: only what is inside these positions, in the runs they name;
    UnusableInputError when they name a node that has no log (one small job looks).  With neither:
    of all there is.
    """
    if before_us is not None:
        before_us = _microseconds(before_us)
    columns = [*EVENT_COLUMNS, "t_us"] if before_us is not None else EVENT_COLUMNS
    require_columns(df, columns, "latest_cut")
    logs = _ends(df, before_us)
    if within is not None:
        given = positions_frame(df, within, "latest_cut")
        _require_logs(df, within, given)
        asked = logs.join(given.select("run").distinct(), "run", "left_semi")
        given = given.select("run", "node", F.col("pos").alias("given"))
        logs = asked.join(given, ["run", "node"], "left")
        logs = logs.withColumn("end", F.least("end", F.coalesce("given", F.lit(-1))))
    bounds = logs.select("run", "node", F.col("end").alias("pos"), "untimed")
    events = ordering_events(df, [], "latest_cut")
    return per_run_with(events, bounds, _greatest_of_run, CUT_SCHEMA)


def positions_of(cuts: DataFrame, run: str | None = None) -> dict[str, int]:
    """A cut as {node: position}, for one run: the only one there is, or the one named.

    Runs a job; the result is as large as the group.
    """
    require_columns(cuts, ["run", "node", "pos"], "positions_of")
    if run is not None:
        cuts = cuts.where(F.col("run") == run)
    rows = cuts.select("run", "node", "pos").orderBy("run", "node").collect()
    runs = sorted({row.run for row in rows})
    if len(runs) != 1:
        named = "no run" if not runs else f"the runs {', '.join(runs[:5])}"
        which = "" if run is None else f" named {run}"
        raise UnusableInputError(f"positions_of expected a cut of one run{which}; it has {named}")
    return {row.node: row.pos for row in rows}


def _microseconds(given: Any) -> int:
    whole = isinstance(given, int | np.integer) and not isinstance(given, bool)
    if not whole or not -_T_US_MAX <= int(given) < _T_US_MAX:
        raise UnusableInputError(
            f"latest_cut expected before_us in whole microseconds, as t_us has them; got {given!r}"
        )
    return int(given)


def _require_logs(df: DataFrame, within: Positions, given: DataFrame) -> None:
    """UnusableInputError if something inside is of a node that has no log."""
    by_run = isinstance(within, DataFrame) and "run" in within.columns
    key = ["run", "node"] if by_run else ["node"]
    there = df.select(*(F.col(name).alias(name) for name in key)).distinct()
    unknown = given.where(F.col("pos") >= 0).join(there, key, "left_anti")
    first = unknown.orderBy(*key).select(*key).first()
    if first is not None:
        where = f"run {first.run}" if by_run else "these events"
        raise UnusableInputError(
            f"latest_cut: within names {first.node}, which has no log in {where}"
        )


def _ends(df: DataFrame, before_us: int | None = None) -> DataFrame:
    """run, node, end, untimed: the last position of each log, or the last one before a time; and
    how many records do not say when they were, if that is asked."""
    last, untimed = F.max("pos"), F.lit(0)
    if before_us is not None:
        late = F.min(F.when(F.col("t_us") >= before_us, F.col("pos")))
        last = F.coalesce(late - 1, last)
        untimed = F.count_if(F.col("t_us").isNull())
    ends = last.cast("long").alias("end"), untimed.cast("long").alias("untimed")
    return df.groupBy("run", "node").agg(*ends)


def positions_frame(df: DataFrame, at: Positions, caller: str) -> DataFrame:
    """The positions as run, node, pos."""
    if isinstance(at, DataFrame):
        if "run" in at.columns:
            require_columns(at, ["run", "node", "pos"], caller)
            return at.select("run", "node", "pos")
        require_columns(at, ["node", "pos"], caller)
    elif not isinstance(at, Mapping):
        raise UnusableInputError(
            f"{caller} expected positions as {{node: position}} or as a DataFrame of run, node, "
            f"pos; got {type(at).__name__}"
        )
    else:
        at = df.sparkSession.createDataFrame(_table_of(at, caller))
    return at.select("node", "pos").crossJoin(F.broadcast(df.select("run").distinct()))


def _table_of(at: Mapping[str, int], caller: str) -> pa.Table:
    if not at:
        raise UnusableInputError(f"{caller} expected a position for at least one node, got none")
    for node, pos in at.items():
        if not isinstance(node, str) or type(pos) is not int or pos < -1:
            raise UnusableInputError(
                f"{caller} expected names of nodes with positions from -1, got {node!r}: {pos!r}"
            )
    columns = [pa.array(at.keys(), pa.string()), pa.array(at.values(), pa.int64())]
    return pa.table(columns, ["node", "pos"])


def _with_ends(df: DataFrame, at: Positions, caller: str) -> DataFrame:
    """run, node, pos, end; end is null for a node without a log."""
    require_columns(df, EVENT_COLUMNS, caller)
    return positions_frame(df, at, caller).join(_ends(df).drop("untimed"), ["run", "node"], "left")


# In one task.


def limits_of(messages: Messages, cut_table: pa.Table) -> Ints:
    """By place in ``messages.names``: the last position inside; -1 where nothing is."""
    nodes, pos = cut_table["node"].to_pylist(), cut_table["pos"].to_pylist()
    if len(set(nodes)) < len(nodes) or None in nodes or None in pos:
        given = ", ".join(f"{node}: {at}" for node, at in zip(nodes, pos, strict=True))
        raise UnusableInputError(
            f"run {messages.run}: a cut has one position for each node, got {given}"
        )
    limits = np.full(len(messages.names), -1, np.int64)
    codes = messages.codes(cut_table["node"])
    limits[codes[codes >= 0]] = np.array(pos, np.int64)[codes >= 0]
    return limits


def sent_inside(messages: Messages, limits: Ints) -> Mask:
    """By message: whether its send is inside."""
    inside: Mask = messages.pos <= limits[messages.node]
    return inside


def missing_from(messages: Messages, limits: Ints) -> Ints:
    """The ids that the cut lacks, ascending; none when it is consistent."""
    taken = messages.taken_id[_taken_inside(messages, limits)]
    there = _there(messages, limits)
    lacks = [np.zeros(0, np.int64)]
    for origin, nothing in enumerate(messages.numbering.base[:-1].tolist()):
        needed = int(messages.vectors[origin, taken].max(initial=nothing))
        lacks.append(np.flatnonzero(~there[nothing : needed + 1]) + nothing)
    return np.concatenate(lacks)


def explain_missing(messages: Messages, limits: Ints, lacks: Ints) -> list[dict[str, Any]]:
    """Each missing dot with its send and the first record, by node and position, that needs it."""
    numbering, names = messages.numbering, messages.names
    inside = np.flatnonzero(_taken_inside(messages, limits))
    sends = np.searchsorted(messages.id, lacks)
    explained: list[dict[str, Any]] = []
    needs: Ints = np.zeros(0, np.int64)
    last = -1
    for dot, send in zip(lacks.tolist(), sends.tolist(), strict=True):
        origin = numbering.origin(dot)
        if origin != last:
            needs = np.maximum.accumulate(messages.vectors[origin, messages.taken_id[inside]])
            last = origin
        first = inside[np.searchsorted(needs, dot)]
        was_sent = send < len(messages.id) and messages.id[send] == dot
        explained.append(
            {
                "node": names[origin],
                "seq": numbering.seq(dot),
                "pos": int(messages.pos[send]) if was_sent else None,
                "at_node": names[messages.taken_node[first]],
                "at_pos": int(messages.taken_pos[first]),
            }
        )
    return explained


def greatest(messages: Messages, limits: Ints) -> Ints:
    """The greatest consistent cut within these positions.

    A log ends before the first record that needs something from outside.  That puts its later
    sends outside too, but whoever took one of those needed the same thing: one step is enough
    unless streams (whose messages do not depend on all that their node took) or restarts are there.
    """
    limits = limits.copy()
    base = messages.numbering.base.tolist()
    while True:
        there = _there(messages, limits)
        needs_more = np.zeros(messages.numbering.total, np.bool_)
        for origin, vector in enumerate(messages.vectors):
            # One past the end is never there, so this finds the first that is not.
            missing = base[origin] + int(np.argmin(there[base[origin] : base[origin + 1]]))
            needs_more |= vector >= missing
        inside = _taken_inside(messages, limits)
        wrong = np.flatnonzero(inside & needs_more[messages.taken_id])
        if not len(wrong):
            return limits
        nodes, first = np.unique(messages.taken_node[wrong], return_index=True)
        limits[nodes] = messages.taken_pos[wrong[first]] - 1


def _taken_inside(messages: Messages, limits: Ints) -> Mask:
    inside: Mask = messages.taken_pos <= limits[messages.taken_node]
    return inside


def _there(messages: Messages, limits: Ints) -> Mask:
    """By id: whether it was sent inside; nothing of an origin always is there."""
    there = np.zeros(messages.numbering.total, np.bool_)
    there[messages.numbering.base[:-1]] = True
    there[messages.id[sent_inside(messages, limits)]] = True
    return there


def _verdict_of_run(run: str, table: pa.Table, cut_table: pa.Table) -> pa.Table:
    verdicts = [_verdict(run, table, cut_table)] if len(cut_table) else []
    return pa.Table.from_pylist(verdicts, _VERDICT_ARROW)


def _verdict(run: str, table: pa.Table, cut_table: pa.Table) -> dict[str, Any]:
    ends = zip(*(cut_table[name].to_pylist() for name in ("node", "pos", "end")), strict=True)
    no_log = sorted(node for node, pos, end in ends if end is None and pos >= 0)
    missing: list[dict[str, Any]] = []
    count = 0
    if len(table):
        messages = messages_of(run, table)
        limits = limits_of(messages, cut_table)
        lacks = missing_from(messages, limits)
        count = len(lacks)
        missing = explain_missing(messages, limits, lacks[:MISSING_LISTED_MAX])
    return {
        "run": run,
        "consistent": not count and not no_log,
        "missing_count": count,
        "missing": missing,
        "no_log": no_log,
    }


def _greatest_of_run(run: str, table: pa.Table, bounds: pa.Table) -> pa.Table:
    if untimed := sum(bounds["untimed"].to_pylist()):
        raise UnusableInputError(
            f"run {run}: {untimed} rows have no t_us, so nothing says whether they are before a "
            "time: give them one, or leave before_us out"
        )
    nodes, pos = bounds["node"], bounds["pos"].to_numpy().copy()
    if len(table) and len(bounds):
        messages = messages_of(run, table)
        limits = greatest(messages, limits_of(messages, bounds))
        codes = messages.codes(nodes)
        pos[codes >= 0] = limits[codes[codes >= 0]]
    return pa.table(
        {
            "run": pa.repeat(pa.scalar(run, pa.string()), len(pos)),
            "node": nodes,
            "pos": pa.array(pos, pa.int64()),
        }
    )
