"""The state that the messages inside a cut amount to, as a table.

The messages inside a consistent cut (cuts.py) are folded in causal order, key by key.  How is the
business of a ``Fold``: where a state begins, what one operation makes of it, how it reads.  A fold
sees with each operation whether it follows another one, which is all that pure operation-based data
types ask for: an operation, its tag, and the order of tags.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from thence.causal.dot import Dot
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

STATE_SCHEMA: Final = StructType(
    [
        StructField("run", StringType()),
        StructField("key", StringType()),
        StructField("operations", LongType()),
        StructField("state", StringType()),
    ]
)
BLOCK: Final = 1 << 12  # operations whose pasts are laid out at one time
CRDT_REGISTRY: Final = "thence.crdt.registry"


class Operation(msgspec.Struct, frozen=True):
    """One operation as a fold sees it."""

    dot: Dot
    value: Any
    """What ``decode`` made of the payload."""
    past: tuple[int, ...]
    """By place in ``origins``: the latest seq of the origin in its past, itself included."""
    origins: dict[str, int]

    def follows(self, other: Dot) -> bool:
        """Whether the message ``other`` happens before this operation."""
        place = self.origins.get(other.node)
        return place is not None and self.past[place] >= other.seq and other != self.dot


@runtime_checkable
class Fold(Protocol):
    """How operations become a state.

    ``apply`` is given the operations on one key in an order that respects causality and is the same
    every time.  It may change the state in place and must return it.  ``value`` is what the state
    reads as: anything JSON can say, and sets.
    """

    def initial(self) -> Any:
        """The state before any operation."""

    def apply(self, state: Any, operation: Operation) -> Any:
        """The state after one more operation."""

    def value(self, state: Any) -> Any:
        """What users read."""


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


FOLDS: Final[dict[str, Fold]] = {"count": Count(), "last": Last(), "log": Log()}

Decode = Callable[[str | None], tuple[str, Any] | None]
"""From the payload of a message, as the frame has it, to (key, operation); None: no operation."""


def decode_json(payload: str | None) -> tuple[str, Any] | None:
    """``{"key": ..., "op": ...}`` is an operation on that key, all other JSON one on the key ""."""
    if payload is None:
        return "", None
    value = msgspec.json.decode(payload)
    if isinstance(value, dict) and value.keys() == {"key", "op"}:
        key = value["key"]
        text = key if isinstance(key, str) else msgspec.json.encode(key, order="sorted").decode()
        return text, value["op"]
    return "", value


def materialise(
    df: DataFrame,
    at: Positions | None = None,
    fold: str | Fold = "log",
    decode: Decode = decode_json,
    check: bool = True,
) -> DataFrame:
    """The state of every key at a cut: run, key, operations (how many), state (JSON).

    ``at``: the cut as {node: position} or a DataFrame of run, node, pos; None is the latest
    consistent one.  Exactly the messages inside are folded.  ``fold``: one of ``FOLDS``, a data
    type of ``thence.crdt`` by name, or a ``Fold`` of your own.  ``decode``: from a message's
    payload to (key, operation).

    UnusableInputError when the cut is not consistent: it says which message is missing.  A job
    looks for that first; with ``check=False`` (for what ``latest_cut`` gave) it does not, and such
    a cut fails the job itself.
    """
    require_columns(df, [*EVENT_COLUMNS, "payload"], "materialise")
    chosen = fold_named(fold) if isinstance(fold, str) else _usable_fold(fold)
    if not callable(decode):
        raise UnusableInputError(
            f"materialise expected a function as decode, got {type(decode).__name__}"
        )
    if at is None:
        where = latest_cut(df)
    else:
        where = positions_frame(df, at, "materialise")
        if check:
            _require_consistent(df, where)
    events = ordering_events(df, ["payload"], "materialise")
    kernel = partial(_states_of_run, fold=chosen, decode=decode)
    return per_run_with(events, where, kernel, STATE_SCHEMA)


def fold_named(name: str) -> Fold:
    """A built-in fold, or a data type of ``thence.crdt``; UnusableInputError for anything else."""
    if name in FOLDS:
        return FOLDS[name]
    known = ", ".join(FOLDS)
    try:
        registry = importlib.import_module(CRDT_REGISTRY)
    except ModuleNotFoundError:
        raise UnusableInputError(
            f"no fold is named {name}: there are {known}, and this version of thence has no "
            "data types (thence.crdt); give a Fold of your own"
        ) from None
    if name not in registry.CRDTS:
        raise UnusableInputError(
            f"no fold is named {name}: there are {known} and the data types "
            f"{', '.join(registry.CRDTS)}"
        )
    found: Fold = registry.CRDTS[name]
    return found


def _usable_fold(given: Fold) -> Fold:
    """UnusableInputError for what can be seen not to be a fold before any task runs."""
    if isinstance(given, type):
        raise UnusableInputError(
            f"materialise expected a fold, got the class {given.__name__}: give {given.__name__}()"
        )
    methods = ("initial", "apply", "value")
    absent = [name for name in methods if not callable(getattr(given, name, None))]
    if absent:
        raise UnusableInputError(
            f"{type(given).__name__} is no fold: it has no {', '.join(absent)} "
            f"(a fold has {', '.join(methods)})"
        )
    return given


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


def _states_of_run(
    run: str, table: pa.Table, cut_table: pa.Table, fold: Fold, decode: Decode
) -> pa.Table:
    states: dict[str, Any] = {}
    counts: dict[str, int] = {}
    if len(table) and len(cut_table):
        messages = messages_of(run, table)
        for dot_key, operation in _operations(
            messages, cut_table, table[plain_names(1)[0]], decode
        ):
            try:
                before = states[dot_key] if dot_key in states else fold.initial()
                states[dot_key] = fold.apply(before, operation)
            except Exception as error:
                where = f"at {operation.dot}, key {dot_key!r}"
                raise _failed(run, f"the fold {type(fold).__name__}", where, error) from error
            counts[dot_key] = counts.get(dot_key, 0) + 1
    keys = sorted(states)
    texts = [_text_of(run, key, states[key], fold) for key in keys]
    return pa.table(
        {
            "run": pa.repeat(pa.scalar(run, pa.string()), len(keys)),
            "key": pa.array(keys, pa.string()),
            "operations": pa.array([counts[key] for key in keys], pa.int64()),
            "state": pa.array(texts, pa.string()),
        }
    )


def _text_of(run: str, key: str, state: Any, fold: Fold) -> str:
    try:
        return msgspec.json.encode(fold.value(state), order="deterministic").decode()
    except Exception as error:
        what = f"the value of the fold {type(fold).__name__}"
        raise _failed(run, what, f"for key {key!r}", error) from error


def _failed(run: str, what: str, where: str, error: Exception) -> UnusableInputError:
    """The exception of a user's function, with the place in the data where it was raised."""
    return UnusableInputError(f"run {run}: {what} failed {where}: {type(error).__name__}: {error}")


def _operations(
    messages: Messages, cut_table: pa.Table, payloads: pa.ChunkedArray, decode: Decode
) -> Iterator[tuple[str, Operation]]:
    """(key, operation) of every message inside the cut, in causal order."""
    inside = _in_order(messages, limits_of(messages, cut_table))
    origins = {name: place for place, name in enumerate(messages.names)}
    seqs = messages.seqs()
    for first in range(0, len(inside), BLOCK):
        some = inside[first : first + BLOCK]
        pasts = messages.entries(messages.id[some]).T.tolist()
        texts = payloads.take(pa.array(messages.row[some])).to_pylist()
        nodes, numbers = messages.origin[some].tolist(), seqs[some].tolist()
        for node, seq, text, past in zip(nodes, numbers, texts, pasts, strict=True):
            dot = Dot(messages.names[node], seq)
            found = _decoded(messages.run, dot, text, decode)
            if found is not None:
                yield found[0], Operation(dot, found[1], tuple(past), origins)


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


def _decoded(run: str, dot: Dot, payload: str | None, decode: Decode) -> tuple[str, Any] | None:
    try:
        found = decode(payload)
    except Exception as error:
        if decode is decode_json and isinstance(error, msgspec.DecodeError):
            raise UnusableInputError(
                f"run {run}: the payload of {dot} is not JSON ({error}): give materialise a decode"
            ) from None
        raise _failed(run, "decode", f"at {dot}", error) from error
    match found:
        # A class pattern: a text of two letters is no pair.
        case None | tuple((str(), _)):
            return found
    raise UnusableInputError(
        f"run {run}: decode gave {found!r} for {dot}: expected (key, operation) with a text as "
        "key, or None"
    )
