"""The state that the messages inside a cut amount to, as a table.

The messages inside a consistent cut (cuts.py) are folded in causal order.  How is the business of
a fold (folding.py): those here, the data types of ``thence.crdt`` (folds_crdt.py), the whole of a
store (folds_store.py), or a user's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from thence.causal.dot import Dot
from thence.crdt.registry import CRDTS
from thence.errors import UnusableInputError
from thence.pipeline.cuts import (
    Positions,
    cut,
    explain_missing,
    latest_cut,
    limits_of,
    missing_from,
    positions_frame,
    sent_inside,
)
from thence.pipeline.folding import (
    ByKey,
    Decode,
    Fold,
    Operation,
    Stabilise,
    TableFold,
    decode_json,
    failed,
    name_of,
)
from thence.pipeline.folds_crdt import TypeFold
from thence.pipeline.folds_store import StoreFold
from thence.pipeline.frames import (
    EVENT_COLUMNS,
    Messages,
    messages_of,
    ordering_events,
    per_run_with,
    plain_names,
    require_columns,
)
from thence.pipeline.order import NO_DEPTH, depths, positions
from thence.trace.columns import Ints

BLOCK: Final = 1 << 12  # operations whose pasts are laid out at one time


class Count:
    """How many operations there were."""

    def initial(self) -> int:
        return 0

    def apply(self, state: int, operation: Operation) -> int:
        return state + 1

    def value(self, state: int) -> int:
        return state


class Last:
    """The last operation: of concurrent ones the deeper, then the one with the greater dot."""

    def initial(self) -> Any:
        return None

    def apply(self, state: Any, operation: Operation) -> Any:
        return operation.value

    def value(self, state: Any) -> Any:
        return state


class Log:
    """All operations, in causal order, each with its dot."""

    def initial(self) -> list[dict[str, Any]]:
        return []

    def apply(self, state: list[dict[str, Any]], operation: Operation) -> list[dict[str, Any]]:
        state.append({"dot": str(operation.dot), "value": operation.value})
        return state

    def value(self, state: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return state


FOLDS: Final[dict[str, Fold | TableFold]] = {
    "count": Count(),
    "last": Last(),
    "log": Log(),
    "store": StoreFold(),
}


def materialise(
    df: DataFrame,
    at: Positions | None = None,
    fold: str | Fold | TableFold = "log",
    decode: Decode = decode_json,
    check: bool = True,
) -> DataFrame:
    """The state of every key at a cut: run, key, operations (how many), state (JSON); or what else
    the fold has as columns.

    ``at``: the cut as {node: position} or a DataFrame of run, node, pos; None is the latest
    consistent one.  Exactly the messages inside are folded.  ``fold``: one of ``FOLDS``, a data
    type of ``thence.crdt`` by name, or a ``Fold`` or ``TableFold`` of your own.  ``decode``: from a
    message's payload to (key, operation), for a ``Fold``.

    UnusableInputError when the cut is not consistent: it says which message is missing.  A job
    looks for that first; with ``check=False`` (for what ``latest_cut`` gave) it does not, and such
    a cut fails the job itself.
    """
    require_columns(df, [*EVENT_COLUMNS, "payload"], "materialise")
    chosen = _table_fold(fold_named(fold) if isinstance(fold, str) else fold, decode)
    if at is None:
        where = latest_cut(df)
    else:
        where = positions_frame(df, at, "materialise")
        if check:
            _require_consistent(df, where)
    carried = ["payload", "to"] if "to" in df.columns else ["payload"]
    events = ordering_events(df, carried, "materialise")
    schema = StructType([StructField("run", StringType()), *chosen.columns.fields])
    return per_run_with(events, where, partial(_rows_of_run, fold=chosen), schema)


def fold_named(name: str) -> Fold | TableFold:
    """A built-in fold, or a data type of ``thence.crdt``; UnusableInputError for anything else."""
    if name in FOLDS:
        return FOLDS[name]
    if name in CRDTS:
        return TypeFold(CRDTS[name])
    raise UnusableInputError(
        f"no fold is named {name}: there are {', '.join(FOLDS)} and the data types "
        f"{', '.join(CRDTS)}"
    )


def _table_fold(given: Fold | TableFold, decode: Decode) -> TableFold:
    """UnusableInputError for what can be seen to be no fold, or no decode, before any task runs."""
    if isinstance(given, type):
        raise UnusableInputError(
            f"materialise expected a fold, got the class {given.__name__}: give {given.__name__}()"
        )
    if not callable(decode):
        raise UnusableInputError(
            f"materialise expected a function as decode, got {type(decode).__name__}"
        )
    is_table = hasattr(given, "rows")
    methods = ("initial", "apply", "rows" if is_table else "value")
    absent = [name for name in methods if not callable(getattr(given, name, None))]
    if is_table and not isinstance(getattr(given, "columns", None), StructType):
        absent.append("columns")
    if absent:
        raise UnusableInputError(
            f"{type(given).__name__} is no fold: it has no {', '.join(absent)} "
            f"(a fold has {', '.join(methods)}{', columns' if is_table else ''})"
        )
    if not is_table:
        return ByKey(cast(Fold, given), decode)
    if decode is not decode_json:
        raise UnusableInputError(
            f"the fold {name_of(given)} reads payloads itself: it takes no decode"
        )
    return cast(TableFold, given)


def _require_consistent(df: DataFrame, at: DataFrame) -> None:
    wrong = cut(df, at).where(~F.col("consistent")).orderBy("run").first()
    if wrong is None:
        return
    if wrong.no_log:
        raise UnusableInputError(
            f"run {wrong.run}: the cut has records of {', '.join(wrong.no_log)}, "
            "but there is no such log"
        )
    first = wrong.missing[0].asDict()
    raise UnusableInputError(_not_consistent(wrong.run, wrong.missing_count, first))


def _not_consistent(run: str, count: int, first: dict[str, Any]) -> str:
    sent = "no log sent it" if first["pos"] is None else f"it was sent at position {first['pos']}"
    others = f" (and {count - 1} more)" if count > 1 else ""
    return (
        f"run {run}: not a consistent cut: {first['node']}:{first['seq']} is not inside{others}, "
        f"and {first['at_node']} at position {first['at_pos']} depends on it; {sent}"
    )


# In one task.


def _rows_of_run(run: str, table: pa.Table, cut_table: pa.Table, fold: TableFold) -> pa.Table:
    schema = to_arrow_schema(fold.columns)
    columns = {field.name: pa.array([], field.type) for field in schema}
    if len(table) and len(cut_table):
        messages = messages_of(run, table)
        inside = _in_order(messages, limits_of(messages, cut_table))
        try:
            state = _folded(messages, inside, table, fold)
            columns |= _columns(fold, state, schema)
        except UnusableInputError as error:
            raise UnusableInputError(f"run {run}: {error}") from error
    count = max(map(len, columns.values()), default=0)
    return pa.table({"run": pa.repeat(pa.scalar(run, pa.string()), count), **columns})


def _columns(fold: TableFold, state: Any, schema: pa.Schema) -> dict[str, pa.Array]:
    try:
        rows = list(fold.rows(state))
        columns = list(zip(*rows, strict=True)) or [()] * len(schema)
        pairs = zip(schema, columns, strict=True)
        return {field.name: pa.array(column, field.type) for field, column in pairs}
    except UnusableInputError:
        raise
    except Exception as error:
        raise failed(f"the fold {name_of(fold)}", "to give rows", error) from error


def _folded(messages: Messages, inside: Ints, table: pa.Table, fold: TableFold) -> Any:
    """The state after these messages."""
    blocks = [inside[at : at + BLOCK] for at in range(0, len(inside), BLOCK)]
    stabilise: Stabilise | None = getattr(fold, "stabilise", None)
    behind = [] if stabilise is None else _behind(messages, blocks)
    seqs = messages.seqs()
    state = fold.initial()
    for number, block in enumerate(blocks):
        for operation in _operations(messages, seqs, block, table):
            try:
                state = fold.apply(state, operation)
            except UnusableInputError:
                raise
            except Exception as error:
                raise failed(f"the fold {name_of(fold)}", f"at {operation.dot}", error) from error
        if stabilise is not None and number < len(behind):
            stabilise(state, behind[number])
    return state


def _behind(messages: Messages, blocks: list[Ints]) -> list[Mapping[str, int]]:
    """By block but the last: what all messages after it follow, as the number of each origin."""
    found: list[Mapping[str, int]] = []
    least: Ints | None = None
    for block in reversed(blocks[1:]):
        entries = messages.entries(messages.id[block]).min(axis=1)
        least = entries if least is None else np.minimum(least, entries)
        found.append(dict(zip(messages.names, least.tolist(), strict=True)))
    return found[::-1]


def _operations(
    messages: Messages, seqs: Ints, block: Ints, table: pa.Table
) -> Iterator[Operation]:
    """These messages, with their payloads as they are."""
    payload, to = plain_names(2)
    payloads = table[payload]
    recipients = table[to] if to in table.column_names else None
    origins = {name: place for place, name in enumerate(messages.names)}
    pasts = messages.entries(messages.id[block]).T.tolist()
    nodes, numbers = messages.origin[block].tolist(), seqs[block].tolist()
    rows = messages.row[block].tolist()
    for node, seq, row, past in zip(nodes, numbers, rows, pasts, strict=True):
        text = payloads[row].as_py()  # one at a time: some are large
        is_for_all = recipients is None or recipients[row].as_py() in (None, "[]")
        yield Operation(Dot(messages.names[node], seq), text, tuple(past), origins, is_for_all)


def _in_order(messages: Messages, limits: Ints) -> Ints:
    """The messages inside the cut, as places, in causal order."""
    lacks = missing_from(messages, limits)
    if len(lacks):
        first = explain_missing(messages, limits, lacks[:1])[0]
        raise UnusableInputError(_not_consistent(messages.run, len(lacks), first))
    depth = depths(messages)[messages.id]
    inside = np.flatnonzero(sent_inside(messages, limits))
    knots = inside[depth[inside] == NO_DEPTH]
    if len(knots):
        dot = messages.numbering.dot(int(messages.id[knots[0]]))
        raise UnusableInputError(
            f"run {messages.run}: the logs put {dot}, or something before it, before itself; "
            "thence check shows where"
        )
    in_order: Ints = inside[np.argsort(positions(depth)[inside])]
    return in_order
