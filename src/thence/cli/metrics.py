"""``thence metrics``: what runs cost, from their traces; without a path, what can be measured."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from cyclopts import Parameter

from thence.cli.plural import counted
from thence.cli.progress import progress_bar
from thence.errors import UnusableInputError
from thence.pipeline.measure import (
    Measured,
    chosen_metrics,
    measure,
    read_metric,
    usable_places,
)
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import OF_RUNS
from thence.trace.segments import Quarantine, told_together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_MAX = 20
"""Settings of a series that are shown to people."""
LISTED_MAX = 1000
"""Rows of a metric that --json lists; the tables have them all."""
SHOWN_LEVEL = "interval"
Flag = Parameter(negative=())
Row = dict[str, Any]


def command(
    *paths: str,
    out: str | None = None,
    master: str | None = None,
    metric: Annotated[tuple[str, ...], Flag] = (),
    rows: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    keep_going: Annotated[bool, Flag] = False,
) -> int:
    """Measure traces on Spark; without a path, list the metrics, one line each.

    Parameters
    ----------
    paths
        Run folders, folders with run folders below, or single segments. URLs too (hdfs://, s3://).
    out
        Folder for the tables: a new one, or one that an earlier call wrote, which is replaced.
    master
        Spark's master, such as local[4] or spark://host:7077; the default is this machine.
    metric
        Compute only this metric. May be repeated.
    rows
        Also write the tables latency and samples: a row for each message at each node.
    as_json
        Print one JSON value instead of text.
    keep_going
        Measure what can be read even if something cannot.
    """
    names = chosen_metrics(metric)
    if not paths:
        if out is not None or master is not None:
            raise UnusableInputError("no trace given: name a run folder, or a trace file")
        print(described(names) if as_json else table(names), end="")
        return 0
    if out is None:
        raise UnusableInputError("no folder for the tables given: --out DIR")
    usable_places(paths, out, Quarantine())  # a mistake shows before Spark starts
    with progress_bar() as progress:
        if progress is not None:
            progress("starting Spark", 0, 1)
        from thence.pipeline.session import spark_session

        spark = spark_session(master)
        measured = measure(
            spark, paths, out, metric, rows=rows, keep_going=keep_going, progress=progress
        )
        found = {name: rows_of(spark, measured, name, as_json) for name in names}
    tell(measured)
    print(to_json(measured, found) if as_json else text(measured, found), end="")
    return 0


def described(names: Sequence[str]) -> str:
    """The metrics as JSON."""
    facts = [
        {
            "name": name,
            "unit": METRICS[name].unit,
            "series": {series.name: series.unit for series in METRICS[name].series},
            "description": METRICS[name].description,
        }
        for name in names
    ]
    return msgspec.json.format(msgspec.json.encode(facts), indent=2).decode() + "\n"


def table(names: Sequence[str]) -> str:
    """The metrics, one line each."""
    rows = [(name, METRICS[name].unit, METRICS[name].description) for name in names]
    return _aligned([("name", "unit", "description"), *rows])


def rows_of(spark: SparkSession, measured: Measured, name: str, as_json: bool) -> list[Row]:
    """The rows that are shown: some settings for people, the first of each level as JSON."""
    levels = OF_RUNS if as_json else (SHOWN_LEVEL,)
    order = ["level", "series", "engine", "stability", "group_size", "interval_ms", "run"]
    frame = read_metric(spark, measured.out, name)
    frame = frame.where(frame.level.isin(*levels)).orderBy(*order).limit(LISTED_MAX)
    return [row.asDict() for row in frame.collect()]


def tell(measured: Measured) -> None:
    """What could not be read, as ``file:line: reason``, and what should be known."""
    for line in told_together(measured.quarantined):
        print(line, file=sys.stderr)
    more = measured.quarantined_count - len(measured.quarantined)
    if more > 0:
        print(f"... and {more} more", file=sys.stderr)
    for note in measured.notes:
        print(f"thence: {note}", file=sys.stderr)


def to_json(measured: Measured, found: dict[str, list[Row]]) -> str:
    """Everything as one JSON object."""
    whole = {
        "out": measured.out,
        "runs": measured.runs,
        "events": measured.events,
        "quarantined": measured.quarantined_count,
        "metrics": found,
    }
    return msgspec.json.encode(whole).decode() + "\n"


def text(measured: Measured, found: dict[str, list[Row]]) -> str:
    """The metrics for people, by engine, group size and send interval."""
    lines = [f"{counted(measured.runs, 'run')}, {counted(measured.events, 'event')}"]
    for name, rows in found.items():
        lines += ["", f"{name}: {METRICS[name].description}"]
        head = ("series", "engine", "stability", "nodes", "interval", "count", "p50", "p99", "max")
        cells = [head, *(_cells(row) for row in rows[:SHOWN_MAX])]
        lines += [f"  {line}" for line in _aligned(cells).splitlines()]
        if len(rows) > SHOWN_MAX:
            lines.append(f"  ... and more; {measured.out} has them all")
    lines += ["", f"tables in {measured.out}"]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    interval = "-" if row["interval_ms"] is None else f"{row['interval_ms']:g} ms"
    setting = (
        row["series"],
        row["engine"] or "-",
        "yes" if row["stability"] else "no",
        str(row["group_size"]),
        interval,
    )
    if not row["count"]:
        return (*setting, "0", row["lacks"])
    values = (f"{row[name]:,.6g} {row['unit']}" for name in ("p50", "p99", "max"))
    return (*setting, f"{row['count']:,}", *values)


def _aligned(rows: Sequence[tuple[str, ...]]) -> str:
    """Columns as wide as their widest cell; a row's last cell may be as long as it likes."""
    places = range(max(map(len, rows)))
    widths = [max((len(row[at]) for row in rows if len(row) > at + 1), default=0) for at in places]
    return "".join(
        "  ".join(cell.ljust(widths[at]) for at, cell in enumerate(row)).rstrip() + "\n"
        for row in rows
    )
