"""From traces to metric tables, by Spark tasks.

``measure`` writes below its folder

OUT/runs, logs, orders    what is said of each run (metrics/base.py has the columns)
OUT/latency, samples      what each log observed, if asked for: as long as the traces
OUT/metrics/<name>        the rows of each metric
OUT/metrics.json          what is there; not complete until all of it is

all but the last Parquet.  Tasks read the files of a run themselves, run the NumPy kernels and count
how often each value occurs (digest.py); one more task a metric puts the counts together
(levels.py).  No event goes through the JVM, and the driver sees one row a run.  Small runs are
measured by one task each; a long run log by log (measure_plan.py; docs/adr/0006 and 0015 say why).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow.fs as pafs

from thence.errors import UnusableInputError
from thence.pipeline.levels import MetricDone, MetricSpec, combine_metric
from thence.pipeline.measure_plan import WHOLE_EVENTS_MAX, ByLogs, Sized, sized
from thence.pipeline.measure_rows import OF_LOG, OF_RUN, Asked
from thence.pipeline.measure_run import Outcome, Unit, measure_unit
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import TABLES, spark_schema
from thence.pipeline.tables import spark_path
from thence.pipeline.tasks import Progress, Runner, spark_runner
from thence.trace.files import (
    absolute,
    filesystem,
    is_url,
    join,
    kind_of,
    make_folder,
    remove_folder,
    write_file,
)
from thence.trace.reader import PathLike, Place, by_run, find_places, no_records
from thence.trace.segments import Quarantine, Quarantined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METRICS_FOLDER: Final = "metrics"
SUMMARY_FILE: Final = "metrics.json"
WORK_FOLDER: Final = "_work"
"""Of what the stages hand to each other; gone when they are done."""
METRIC_FILE: Final = "part-000000.parquet"

# What is asked for and what came of it.


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    complete: bool = False
    """Whether all its metrics are there."""
    out: str
    runs: int
    events: int
    metrics: tuple[str, ...] = ()
    quarantined: tuple[Quarantined, ...]
    quarantined_count: int
    notes: tuple[str, ...]
    """A sentence on each thing that is not wrong but should be known."""


def measure(
    spark: SparkSession,
    paths: Sequence[PathLike],
    out: PathLike,
    names: Sequence[str] = (),
    *,
    rows: bool = False,
    keep_going: bool = False,
    progress: Progress | None = None,
    whole_events_max: int = WHOLE_EVENTS_MAX,
) -> Measured:
    """Measure every run below these paths on Spark; see ``measure_with``."""
    return measure_with(
        spark_runner(spark, progress), paths, out, names,
        rows=rows, keep_going=keep_going, whole_events_max=whole_events_max,
    )  # fmt: skip


def measure_with(
    run: Runner,
    paths: Sequence[PathLike],
    folder: PathLike,
    names: Sequence[str] = (),
    *,
    rows: bool = False,
    keep_going: bool = False,
    whole_events_max: int = WHOLE_EVENTS_MAX,
) -> Measured:
    """Measure every run below these paths and write the tables and metrics to a folder.

    ``names``: which metrics, all when there are none.  ``rows``: also the tables ``OF_LOG``.
    Raises UnusableInputError for what cannot be used, and TraceError when something could not be
    read, unless ``keep_going`` and something else could.  A folder that this function wrote before
    is written anew.  ``whole_events_max``: runs up to about this are measured by one task each,
    longer ones by logs.
    """
    chosen = chosen_metrics(names)
    given, out = [absolute(path) for path in paths], absolute(folder)
    quarantine = Quarantine()
    groups = [sized(group) for group in by_run(usable_places(given, out, quarantine))]
    _make_folders(out, rows)
    # Workers keep what they read by its path, so no path may be used twice.
    work = join(join(out, WORK_FOLDER), uuid.uuid4().hex)
    make_folder(work)
    try:
        asked = Asked(metrics=tuple(chosen), rows=rows)
        outcomes = _measure_runs(run, groups, out, work, asked, whole_events_max)
        runs = _together(outcomes, quarantine)
        if quarantine.count and not (keep_going and runs):
            raise quarantine.error()
        if not runs:
            raise no_records(paths)
        _combine(run, outcomes, out, chosen)
    finally:
        remove_folder(join(out, WORK_FOLDER))
    measured = Measured(
        complete=True,
        out=out,
        runs=len(runs),
        events=sum(events for _, events in runs),
        metrics=tuple(chosen),
        quarantined=tuple(quarantine.listed),
        quarantined_count=quarantine.count,
        notes=tuple(note for outcome in outcomes for note in outcome.notes),
    )
    summary = msgspec.json.format(msgspec.json.encode(measured), indent=2)
    write_file(join(out, SUMMARY_FILE), [summary, b"\n"])
    return measured


def _make_folders(out: str, rows: bool) -> None:
    make_folder(out)
    write_file(join(out, SUMMARY_FILE), [b'{"complete": false}\n'])
    for name in (*TABLES, METRICS_FOLDER, WORK_FOLDER):
        remove_folder(join(out, name))
    for name in (*OF_RUN, *(OF_LOG if rows else ()), METRICS_FOLDER):
        make_folder(join(out, name))


def _measure_runs(
    run: Runner, groups: Sequence[Sized], out: str, work: str, asked: Asked, whole_events_max: int
) -> list[Outcome]:
    small = [group for group in groups if group.events <= whole_events_max]
    units = [
        Unit(stem=f"{number:06d}", places=group.places, folder=out, work=work, asked=asked)
        for number, group in enumerate(small)
    ]
    weights = [group.events for group in small]
    outcomes = run("measuring runs", measure_unit, units, Outcome, weights)
    long = [group for group in groups if group.events > whole_events_max]
    return outcomes + (ByLogs(run, out, work, asked).measure(long) if long else [])


def _combine(run: Runner, outcomes: Sequence[Outcome], out: str, names: Sequence[str]) -> None:
    """Write the rows of these metrics, one file each."""
    digests = tuple(path for outcome in outcomes for path in outcome.digests)
    specs = []
    for name in names:
        folder = join(join(out, METRICS_FOLDER), name)
        make_folder(folder)
        specs.append(MetricSpec(metric=name, digests=digests, path=join(folder, METRIC_FILE)))
    weights = [len(METRICS[name].series) for name in names]
    run("computing metrics", combine_metric, specs, MetricDone, weights)


def chosen_metrics(names: Sequence[str]) -> list[str]:
    """The metrics of these names, in the order of the table; all of them for none."""
    for name in names:
        if name not in METRICS:
            raise UnusableInputError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return [name for name in METRICS if not names or name in names]


def read_table(spark: SparkSession, folder: PathLike, name: str) -> DataFrame:
    """One of the ``TABLES`` that ``measure`` wrote."""
    path = join(os.fspath(folder), name)
    if kind_of(path) != "folder":
        option = " --rows" if name in OF_LOG else ""
        raise UnusableInputError(f"{path} is not there: `thence metrics{option}` makes it")
    return spark.read.schema(spark_schema(name)).parquet(spark_path(path))


def read_metric(spark: SparkSession, folder: PathLike, name: str) -> DataFrame:
    """The rows of one metric that ``measure`` wrote."""
    chosen_metrics([name])
    path = join(join(os.fspath(folder), METRICS_FOLDER), name)
    if kind_of(path) != "folder":
        raise UnusableInputError(f"{path} is not there: `thence metrics --metric {name}` makes it")
    return spark.read.parquet(spark_path(path))


def _together(outcomes: Sequence[Outcome], quarantine: Quarantine) -> list[tuple[str, int]]:
    """The runs (name, events), with what was set aside of them; raises what ``measure`` raises."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise UnusableInputError(outcome.error)
        for item in outcome.quarantined:
            quarantine.add(item.file, item.line, item.reason)
        quarantine.count += outcome.quarantined_count - len(outcome.quarantined)
    runs = sorted(run for outcome in outcomes for run in outcome.runs)
    for (name, _), (other, _) in pairwise(runs):
        if name == other:
            raise UnusableInputError(
                f"two runs are named {name}: give them names of their own, or measure them apart"
            )
    return runs


# Where it goes.


def usable_places(paths: Sequence[str], folder: str, quarantine: Quarantine) -> list[Place]:
    """The runs below these paths; UnusableInputError also when the folder cannot be written to.

    Only what ``measure`` wrote is ever removed from it.
    """
    places = find_places(paths, quarantine)
    kind = kind_of(folder)
    if kind == "file":
        raise UnusableInputError(f"{folder} is a file: name a folder for the metrics")
    for path in paths:
        if _is_inside(folder, path):
            raise UnusableInputError(
                f"{folder} is inside {path} and would be read as a trace the next time: "
                "choose a folder outside"
            )
    if kind == "folder":
        where, inner = filesystem(folder)
        old = [entry.base_name for entry in where.get_file_info(pafs.FileSelector(inner))]
        if old and SUMMARY_FILE not in old:
            raise UnusableInputError(
                f"{folder} is not empty and holds no metrics: choose another folder"
            )
    return places


def _is_inside(folder: str, path: str) -> bool:
    if is_url(folder) or is_url(path):
        return folder.startswith(f"{path.rstrip('/')}/") or folder == path
    inner, outer = os.path.realpath(folder), os.path.realpath(path)
    return os.path.isdir(outer) and os.path.commonpath([inner, outer]) == outer
