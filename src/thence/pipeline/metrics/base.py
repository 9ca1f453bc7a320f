"""What a metric is, the tables it is computed from, and how observations become its rows.

A metric is a set of *series* (over all messages, over those that had to wait), each with a unit.
Its ``compute`` makes one row per observation, and ``summarise`` turns those into exact percentiles
at every level: by run, by node, by engine, by size of the group, by send interval, by experiment.

Where a group has nothing to show, its row is there all the same, with count 0, nulls, and in
``lacks`` the reason in words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

COMMON: Final = "common"
"""``scenario.clock`` of a run whose nodes share a clock."""

# The tables that measuring writes, one file per task: columns and their types for Spark.

TABLES: Final[dict[str, dict[str, str]]] = {
    "runs": {
        "run": "string",
        "engine": "string",
        "variant": "string",  # the engine with its options; the engine's name without any
        "role": "string",  # what it is compared as
        "form": "string",  # interpreted, compiled, ...
        "vectors": "bigint",  # that travel with a message
        "slow_nodes": "array<string>",  # ends of the slow link
        "guarantee": "string",
        "tags": "string",
        "stability": "boolean",  # whether the engine computes it
        "complete": "boolean",
        "group_size": "bigint",  # members at the beginning
        "interval_ms": "double",  # mean time between two sends of a node
        "experiment": "string",
        "clock": "string",  # "common", or null
        "scenario": "string",  # JSON, as in run.json
        "events": "bigint",
        "span_us": "bigint",  # from the first send or delivery to the last: see throughput.py
    },
    "logs": {
        "run": "string",
        "node": "string",
        "events": "bigint",
        "timed": "boolean",  # whether every record has its t_us
        "sends": "bigint",
        "receives": "bigint",
        "readies": "bigint",
        "deliveries": "bigint",
        "stables": "bigint",
        "phantoms": "bigint",
        "samples": "bigint",  # with words
        "span_us": "bigint",
        "slow": "boolean",  # an end of the slow link
        "guarantee": "string",  # these four are those of the run
        "tags": "string",
        "stability": "boolean",
        "clock": "string",
    },
    "latency": {
        "run": "string",
        "node": "string",
        "life": "int",  # 0, one more after each restart
        "dot_node": "string",
        "dot_seq": "bigint",
        "own": "boolean",  # a message of this node
        "t_send": "bigint",  # on the clock of its sender; all others on that of the node
        "t_receive": "bigint",
        "t_ready": "bigint",
        "t_deliver": "bigint",
        "t_stable": "bigint",
        "latest_receive": "bigint",
        "completing_receive": "bigint",
        "had_to_wait": "boolean",
        "context_dots": "bigint",  # on the rows of sends
        "bytes": "bigint",
    },
    "samples": {
        "run": "string",
        "node": "string",
        "t_us": "bigint",
        "bucket_us": "bigint",  # where its share of the run begins, since the run began
        "words": "bigint",
    },
    "orders": {
        "run": "string",
        "messages": "bigint",
        "pairs": "bigint",
        "concurrent_pairs": "bigint",
        "width": "bigint",
        "contradictory": "boolean",
        "too_large": "boolean",
    },
}

_ARROW_TYPES: Final = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "array<string>": pa.list_(pa.string()),
}
ARROW: Final = {
    name: pa.schema([(column, _ARROW_TYPES[kind]) for column, kind in columns.items()])
    for name, columns in TABLES.items()
}
"""The same for Arrow."""


def spark_schema(table: str) -> str:
    """The columns of a table for ``spark.read.schema``."""
    return ", ".join(f"{column} {kind}" for column, kind in TABLES[table].items())


class Frames(msgspec.Struct, frozen=True, kw_only=True):
    """The tables as DataFrames; ``runs`` has one row a run and ``logs`` one a log."""

    runs: DataFrame
    logs: DataFrame
    latency: DataFrame
    samples: DataFrame
    orders: DataFrame


# Metrics.


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One of the things that a metric measures."""

    name: str
    unit: str
    lacks: tuple[tuple[str, str], ...] = ()
    """(condition in SQL, reason): why a log, or a run, shows nothing; the first that holds."""
    otherwise: str
    """The reason when none of them does."""


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    """As its module is named."""
    description: str
    series: tuple[Series, ...]
    compute: Callable[[Frames], DataFrame]
    """Its rows, with ``METRIC_COLUMNS``."""

    @property
    def unit(self) -> str:
        """The units of its series."""
        return ", ".join(dict.fromkeys(series.unit for series in self.series))


ABOUT_RUN: Final = ("engine", "variant", "stability", "group_size", "interval_ms", "experiment")
"""What is known of a run that its rows carry."""
LEVELS: Final[dict[str, tuple[str, ...]]] = {
    # Variant and whether stability was computed always count: those are other algorithms.
    "engine": ABOUT_RUN[:3],
    "size": ABOUT_RUN[:4],
    "interval": ABOUT_RUN[:5],
    "experiment": ABOUT_RUN,
    "run": (*ABOUT_RUN, "run"),
    "node": (*ABOUT_RUN, "run", "node"),
    "time": (*ABOUT_RUN, "run", "bucket_us"),
}
"""By level: the columns that its rows are grouped by; the others are null in them."""
OF_RUNS: Final = ("engine", "size", "interval", "experiment", "run")
OF_LOGS: Final = (*OF_RUNS, "node")
OVER_TIME: Final = (*OF_LOGS, "time")
PERCENTILES: Final = {
    "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p999": 0.999,
}  # fmt: skip
_KEYS: Final = ("series", *ABOUT_RUN, "run", "node", "bucket_us")
_OPTIONAL: Final = (("node", "string"), ("bucket_us", "bigint"))
_DIVIDES: Final = {"node": "node", "time": "bucket_us", "experiment": "experiment"}
"""By level, what it divides by."""
METRIC_COLUMNS: Final = (
    "series", "unit", "level", "run", "node", *ABOUT_RUN, "bucket_us",
    "count", "mean", *PERCENTILES, "max", "lacks",
)  # fmt: skip

UNTIMED: Final = ("not timed", "records without t_us")
UNSTABLE: Final = ("not stability", "the engine computes no stability")


def observed(frame: DataFrame, values: Mapping[str, Column]) -> DataFrame:
    """One row per observation, (run, node, bucket_us, series, value), of these by series.

    A null is no observation.  ``node`` and ``bucket_us`` are there when ``frame`` has them.
    """
    kept = [name for name in ("run", "node", "bucket_us") if name in frame.columns]
    pairs = [
        F.struct(F.lit(name).alias("series"), value.cast("double").alias("value"))
        for name, value in values.items()
    ]
    if len(pairs) == 1:  # no rows to multiply
        long = frame.select(*kept, pairs[0].alias("pair"))
    else:
        long = frame.select(*kept, F.explode(F.array(*pairs)).alias("pair"))
    return long.select(*kept, "pair.*").where("value IS NOT NULL")


def summarise(
    frames: Frames,
    series: Sequence[Series],
    observations: DataFrame,
    population: DataFrame,
    levels: Sequence[str] = OF_LOGS,
) -> DataFrame:
    """Exact percentiles of observations (see ``observed``) at these levels.

    ``population`` has the logs, or the runs, that could have some, with the columns that the
    conditions of ``Series.lacks`` speak of: each has its rows, observed or not.
    """
    about = frames.runs.select("run", *ABOUT_RUN)
    # How often each value occurs at a node: what goes to every level is much less then.
    tallied = observations.groupBy(*observations.columns).agg(F.count(F.lit(1)).alias("tally"))
    rows = tallied.unionByName(_reasons(series, population), allowMissingColumns=True)
    absent = {name: F.lit(None).cast(kind) for name, kind in _OPTIONAL if name not in rows.columns}
    rows = rows.join(F.broadcast(about), "run").withColumns(absent)
    sets = [["series", *LEVELS[level]] for level in levels]
    found = rows.groupingSets(sets, *_KEYS).agg(
        F.grouping_id().alias("grouping"),
        F.sum("tally").alias("count"),
        (F.sum(F.col("value") * F.col("tally")) / F.sum("tally")).alias("mean"),
        F.percentile("value", list(PERCENTILES.values()), F.col("tally")).alias("percentiles"),
        F.max("value").alias("max"),
        F.min("lacks").alias("lacks"),
    )
    units = F.create_map(*(F.lit(text) for one in series for text in (one.name, one.unit)))
    at = {name: F.col("percentiles")[place] for place, name in enumerate(PERCENTILES)}
    columns = {
        "level": _level(levels),
        "unit": units[F.col("series")],
        "count": F.coalesce("count", F.lit(0)),
        "lacks": F.when(F.col("count").isNull(), F.col("lacks")),
        **at,
    }
    return found.where(_is_group(levels)).withColumns(columns).select(*METRIC_COLUMNS)


def _reasons(series: Sequence[Series], population: DataFrame) -> DataFrame:
    """A row without a value for each series of each of the population: why it may have none."""
    pairs = []
    for one in series:
        reason = F.lit(one.otherwise)
        for condition, text in reversed(one.lacks):
            reason = F.when(F.expr(condition), F.lit(text)).otherwise(reason)
        pairs.append(F.struct(F.lit(one.name).alias("series"), reason.alias("lacks")))
    kept = [name for name in ("run", "node") if name in population.columns]
    long = population.select(*kept, F.explode(F.array(*pairs)).alias("pair"))
    return long.select(*kept, "pair.*")


def _is_group(levels: Sequence[str]) -> Column:
    """False for what lacks the thing that its level divides by."""
    is_group = F.lit(True)
    for level in levels:
        if level in _DIVIDES:
            other = F.col("grouping") != _grouping(level)
            is_group &= other | F.col(_DIVIDES[level]).isNotNull()
    return is_group


def _level(levels: Sequence[str]) -> Column:
    pairs = (F.lit(text) for level in levels for text in (_grouping(level), level))
    return F.create_map(*pairs)[F.col("grouping")]


def _grouping(level: str) -> int:
    """What ``grouping_id`` says of a level: a bit for each key that it is not grouped by."""
    return int("".join("01"[key not in ("series", *LEVELS[level])] for key in _KEYS), 2)
