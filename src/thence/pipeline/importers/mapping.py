"""Any DataFrame as trace events, column by column.

A part of an event is given as the name of a column or as an expression (``lit("a")`` for a
constant).  What cannot be an event is counted, in one pass over the data, and refused with the
numbers: nothing is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from thence.causal.dot import SEQ_MAX
from thence.errors import UnusableInputError
from thence.pipeline.tables import PLAIN
from thence.trace.record import KINDS_WITH_DOT, PHANTOM, POS_MAX, RECORD_FIELDS, SEND, VERSION

ColumnLike = str | Column
_DOTS: Final = "ARRAY<STRUCT<node: STRING, seq: BIGINT>>"
_OWN_KINDS: Final = (SEND, PHANTOM)  # what they name is the node's own unless it says otherwise


def events_from(
    df: DataFrame,
    *,
    node: ColumnLike,
    kind: ColumnLike,
    run: ColumnLike,
    pos: ColumnLike | None = None,
    order: ColumnLike | Sequence[ColumnLike] | None = None,
    seq: ColumnLike | None = None,
    origin: ColumnLike | None = None,
    context: ColumnLike | None = None,
    time: ColumnLike | None = None,
    payload: ColumnLike | None = None,
    to: ColumnLike | None = None,
    peer: ColumnLike | None = None,
    stable: ColumnLike | None = None,
    bytes: ColumnLike | None = None,
    words: ColumnLike | None = None,
    extra: Sequence[str] = (),
    kinds: Mapping[str, str] | None = None,
) -> DataFrame:
    """The events table of a frame that calls things by other names.

    ``pos`` is the position in the node's log; without it, positions follow from ``order`` within
    each run and node.  ``seq`` and ``origin`` are the dot; ``origin`` may be left out where every
    dot is the node's own.  ``context`` and ``stable`` are arrays of (node, seq) or maps.  ``time``
    is a timestamp, or microseconds.  ``payload`` may have any type.  ``kinds`` translates kinds;
    others stay as they are.  The columns of ``extra`` are kept under their names.

    Looks at the data once; UnusableInputError says which columns are not there or have the wrong
    type, and how many rows lack what an event needs.
    """
    given = {
        "run": run, "node": node, "kind": kind, "pos": pos, "dot_seq": seq, "dot_node": origin,
        "context": context, "t_us": time, "payload": payload, "to": to, "from": peer,
        "stable": stable, "bytes": bytes, "words": words,
    }  # fmt: skip
    parts = {name: column for name, column in given.items() if column is not None}
    orders = _listed(order)
    if pos is None and not orders:
        raise UnusableInputError("positions are needed: give pos, or order to derive them from")
    _check_names(df, [*parts.values(), *orders, *extra])
    if taken := [name for name in extra if name in RECORD_FIELDS]:
        raise UnusableInputError(f"extra: {taken[0]} is a field of a trace; rename the column")
    columns = {name: _column(column) for name, column in parts.items()}
    _check_types(df, columns)
    typed = {name: _typed(name, column, df) for name, column in columns.items()}
    typed["kind"] = _translated(typed["kind"], kinds or {})
    frame = df.select("*", *_aliases(typed))
    _refuse_faults(frame, parts, orders)
    return _with_positions(frame, typed, orders).select(*_event_columns(parts, extra))


def _listed(order: ColumnLike | Sequence[ColumnLike] | None) -> list[ColumnLike]:
    if order is None:
        return []
    return [order] if isinstance(order, str | Column) else list(order)


def _column(column: ColumnLike) -> Column:
    return F.col(f"`{column}`") if isinstance(column, str) else column


def _check_names(df: DataFrame, columns: Sequence[ColumnLike]) -> None:
    expected = [column for column in columns if isinstance(column, str)]
    if absent := [name for name in expected if name not in df.columns]:
        raise UnusableInputError(
            f"expected the columns {', '.join(expected)}; the frame has "
            f"{', '.join(df.columns) or 'none'}: no {', '.join(absent)}"
        )


# Parts are worked on under names of their own, so that those of the frame stay what they are.
_PART: Final = "__thence_{}"


def _part(name: str) -> Column:
    return F.col(_PART.format(name))


def _aliases(columns: Mapping[str, Column]) -> list[Column]:
    return [column.alias(_PART.format(name)) for name, column in columns.items()]


def _is_name(kind: DataType) -> bool:
    return isinstance(kind, StringType | IntegralType)


def _is_time(kind: DataType) -> bool:
    return isinstance(kind, TimestampType | TimestampNTZType | IntegralType)


def _is_dots(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return _is_name(kind.keyType) and isinstance(kind.valueType, IntegralType)
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = [field.dataType for field in kind.elementType.fields]
    return len(fields) == 2 and _is_name(fields[0]) and isinstance(fields[1], IntegralType)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegralType)


def _is_names(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)


_NAME: Final = ("a string or an integer", _is_name)
_INTEGER: Final = ("an integer", _is_integer)
_DOT_LIST: Final = ("an array of structs (node, seq), or a map from node to seq", _is_dots)
_TYPES: Final[dict[str, tuple[str, Callable[[DataType], bool]]]] = {
    "run": _NAME, "node": _NAME, "kind": _NAME, "dot_node": _NAME, "from": _NAME,
    "pos": _INTEGER, "dot_seq": _INTEGER, "bytes": _INTEGER, "words": _INTEGER,
    "context": _DOT_LIST, "stable": _DOT_LIST,
    "t_us": ("a timestamp, or an integer of microseconds", _is_time),
    "to": ("an array of strings", _is_names),
}  # fmt: skip
# Parts of an event as the caller of events_from knows them.
_ASKED: Final = {"dot_seq": "seq", "dot_node": "origin", "t_us": "time", "from": "peer"}


def _check_types(df: DataFrame, columns: Mapping[str, Column]) -> None:
    found = df.select(*_aliases(columns)).schema
    for name, field in zip(columns, found, strict=True):
        if name in _TYPES:
            expected, is_right = _TYPES[name]
            if not is_right(field.dataType):
                raise UnusableInputError(
                    f"{_ASKED.get(name, name)}: expected {expected}, got "
                    f"{field.dataType.simpleString()}"
                )


def _typed(name: str, column: Column, df: DataFrame) -> Column:
    """A part in the type that the events table has for it."""
    kind = df.select(column).schema[0].dataType
    if name in ("context", "stable"):
        entries = F.map_entries(column) if isinstance(kind, MapType) else column
        return entries.cast(_DOTS)
    if name == "t_us":
        return column.cast("long") if _is_integer(kind) else F.unix_micros(column.cast("timestamp"))
    if name == "payload":
        # The JSON text of a value of any type: that of a list of it, without the brackets.
        text = F.to_json(F.array(column))
        return F.when(column.isNotNull(), F.substring(text, F.lit(2), F.length(text) - 2))
    if name == "to":
        return column
    return column.cast("long" if _TYPES[name] is _INTEGER else "string")


def _translated(kind: Column, kinds: Mapping[str, str]) -> Column:
    result = kind
    for theirs, ours in kinds.items():
        result = F.when(kind == F.lit(theirs), F.lit(ours)).otherwise(result)
    return result


def _with_positions(
    frame: DataFrame, typed: Mapping[str, Column], orders: Sequence[ColumnLike]
) -> DataFrame:
    if "pos" in typed:
        return frame
    window = Window.partitionBy(_part("run"), _part("node")).orderBy(*map(_column, orders))
    number = F.row_number().over(window).cast("long") - 1
    return frame.withColumn(_PART.format("pos"), number)


def _refuse_faults(
    frame: DataFrame, parts: Mapping[str, ColumnLike], orders: Sequence[ColumnLike]
) -> None:
    """UnusableInputError when some rows cannot be events, with how many and why."""
    kind = _part("kind")
    needs_dot = kind.isin(*sorted(KINDS_WITH_DOT))
    nothing = F.lit(None)
    seq = _part("dot_seq") if "dot_seq" in parts else nothing.cast("long")
    faults = {f"no {name}": _part(name).isNull() for name in ("run", "node", "kind")}
    if "pos" in parts:
        faults["no pos"] = _part("pos").isNull()
        faults["a pos below 0 or above 2**53-1"] = ~_part("pos").between(0, POS_MAX)
    # An expression may be a direction, desc("t"), of which Spark cannot say whether it is null.
    elif missing := [_column(column).isNull() for column in orders if isinstance(column, str)]:
        faults["nothing to order by"] = reduce(or_, missing)
    faults |= {
        "a node with '/' or without a name": _part("node").rlike("/|^$"),
        "a kind that needs a seq, and no seq": needs_dot & seq.isNull(),
        "a seq below 1 or above 2**40-1": ~seq.between(1, SEQ_MAX),
    }
    if "dot_node" in parts:
        faults["a seq, and no origin"] = seq.isNotNull() & _part("dot_node").isNull()
    else:
        others = needs_dot & ~kind.isin(*_OWN_KINDS)
        faults["a kind that needs an origin, which is not given"] = others
    counts = frame.agg(
        *(F.count_if(fault).alias(f"fault{at}") for at, fault in enumerate(faults.values()))
    ).first()
    assert counts is not None  # an aggregate without groups has one row
    found = [f"{count} with {what}" for what, count in zip(faults, counts, strict=True) if count]
    if found:
        raise UnusableInputError(f"rows that cannot be events: {'; '.join(found)}")


def _event_columns(parts: Mapping[str, ColumnLike], extra: Sequence[str]) -> list[Column]:
    columns = {name: _part(name) for name in [*parts, "pos"]}
    columns["v"] = F.lit(VERSION).cast("int")
    columns["t_us"] = F.coalesce(columns.get("t_us", F.lit(None)), F.lit(0)).cast("long")
    if "dot_seq" in parts:
        origin = _part("dot_node") if "dot_node" in parts else _part("node")
        columns["dot_node"] = F.when(_part("dot_seq").isNotNull(), origin)
    if extra:
        text = F.to_json(F.struct(*(_column(name).alias(name) for name in extra)))
        columns["extra"] = F.when(text != "{}", text)
    absent = {"context": _DOTS, "stable": _DOTS, "to": "ARRAY<STRING>"}
    return [
        columns.get(
            field.name,
            F.lit(None).cast(
                absent.get(field.name, "long" if str(field.type) == "int64" else "string")
            ),
        ).alias(field.name)
        for field in PLAIN
    ]
