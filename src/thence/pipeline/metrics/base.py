"""What a metric is, the tables beside it, and the rows it has.

A metric is a set of *series* (over all messages, over those that had to wait), each with a unit and
one function that says what is observed: of the messages of a log, of its samples, of a log or of a
run as a whole.  Tasks count how often each value was observed (tally.py) and merge the counts level
by level: by node, run, experiment, send interval, size of the group, engine (levels.py).

Where a group has nothing to show, its row is there all the same, with count 0, nulls, and in
``lacks`` the reason in words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from thence.pipeline.observed import Floats

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
        "vector_entries": "bigint",  # that travel with a message; 0 for engines of dots
        "cpu": "string",  # of cpu.arrow: used, none, damaged or unfit
        "cpu_calls": "bigint",
        "cpu_ns": "bigint",
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
        "ready_ns": "bigint",  # CPU time of the call that made it ready
        "t_told": "bigint",  # when the call was that found it stable, and its CPU time
        "told_ns": "bigint",
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


# Metrics.

Lack = tuple[Callable[[Any], bool], str]
"""(condition on what ``Series.of`` names, reason): why there is nothing to show."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One of the things that a metric measures."""

    name: str
    unit: str
    of: Literal["messages", "samples", "log", "run"]
    values: Callable[[Any], Floats]
    """The observations in ``Messages``, ``Samples``, an ``AboutLog`` or a ``WholeRun``, as ``of``
    says (observed.py has them)."""
    lacks: tuple[Lack, ...] = ()
    """Why a log (for ``run``: a run) shows nothing; the first that holds."""
    otherwise: str
    """The reason when none of them does."""

    def reason(self, about: Any) -> str:
        """Why this log, or this run, shows nothing, if it does."""
        return next((text for holds, text in self.lacks if holds(about)), self.otherwise)


class Metric(msgspec.Struct, frozen=True, kw_only=True):
    """One metric."""

    name: str
    """As its module is named."""
    description: str
    series: tuple[Series, ...]

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
ABOVE_RUNS: Final = ("engine", "size", "interval", "experiment")
OF_RUNS: Final = (*ABOVE_RUNS, "run")
PERCENTILES: Final = {
    "p25": 0.25, "p50": 0.5, "p75": 0.75, "p90": 0.9, "p99": 0.99, "p999": 0.999,
}  # fmt: skip
ROWS: Final = pa.schema(
    [
        ("series", pa.string()),
        ("unit", pa.string()),
        ("level", pa.string()),
        ("run", pa.string()),
        ("node", pa.string()),
        ("engine", pa.string()),
        ("variant", pa.string()),
        ("stability", pa.bool_()),
        ("group_size", pa.int64()),
        ("interval_ms", pa.float64()),
        ("experiment", pa.string()),
        ("bucket_us", pa.int64()),
        ("count", pa.int64()),
        *((name, pa.float64()) for name in ("mean", *PERCENTILES, "max")),
        ("lacks", pa.string()),
    ]
)
"""The columns of every metric."""
METRIC_COLUMNS: Final = tuple(ROWS.names)

UNTIMED: Final[Lack] = (lambda about: not about.timed, "records without t_us")
UNSTABLE: Final[Lack] = (lambda log: not log.stability, "the engine computes no stability")
UNSENT: Final[Lack] = (lambda about: not about.sends, "nothing was sent")
UNDELIVERED: Final[Lack] = (lambda log: not log.deliveries, "nothing was delivered")
UNRECEIVED: Final[Lack] = (lambda log: not log.receives, "no receive records")
UNTOLD: Final[Lack] = (lambda log: not log.stables, "nothing was told stable")
NO_CPU: Final[tuple[Lack, ...]] = (
    (lambda log: log.cpu == "none", "the run has no cpu.arrow"),
    (lambda log: log.cpu == "damaged", "cpu.arrow cannot be read"),
    (lambda log: log.cpu == "unfit", "cpu.arrow does not fit the log"),
)
