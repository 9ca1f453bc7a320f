"""From traces to metric tables: Spark tasks measure the runs, Spark SQL sums them up.

``measure`` writes below its folder

OUT/runs, logs, latency, samples, orders    what each run measured (metrics/base.py has the columns)
OUT/metrics/<name>                          the rows of each metric
OUT/metrics.json                            what is there; not complete until all of it is

all but the last Parquet.  Tasks read the files of a run themselves and run the NumPy kernels: no
event goes through the JVM, and the driver sees one row a run.  Small runs are measured by one task
each, the longest first, so that the last task to end is a short one; a long run is measured log by
log (measure_plan.py; docs/adr/0006 says why).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow.fs as pafs

from thence.errors import UnusableInputError
from thence.pipeline.measure_plan import WHOLE_EVENTS_MAX, ByLogs, Sized, sized
from thence.pipeline.measure_run import Outcome, Unit, measure_unit
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import TABLES, Frames, spark_schema
from thence.pipeline.tables import spark_path, spark_uri
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
"""Of what the stages of long runs hand to each other; gone when they are done."""
AT_A_TIME: Final = 4

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
    keep_going: bool = False,
    progress: Progress | None = None,
    whole_events_max: int = WHOLE_EVENTS_MAX,
) -> Measured:
    """Measure every run below these paths and write the tables and metrics to a folder.

    ``names``: which metrics, all when there are none.  Raises UnusableInputError for what cannot
    be used, and TraceError when something could not be read, unless ``keep_going`` and something
    else could.  A folder that this function wrote before is written anew.
    ``whole_events_max``: runs up to about this are measured by one task each, longer ones by logs.
    """
    chosen = chosen_metrics(names)
    runner = spark_runner(spark, progress)
    measured = measure_tables(
        runner, paths, out, keep_going=keep_going, whole_events_max=whole_events_max
    )
    _compute(read_frames(spark, measured.out), chosen, measured.out, progress)
    measured = msgspec.structs.replace(measured, complete=True, metrics=tuple(chosen))
    summary = msgspec.json.format(msgspec.json.encode(measured), indent=2)
    write_file(join(measured.out, SUMMARY_FILE), [summary, b"\n"])
    return measured


def measure_tables(
    run: Runner,
    paths: Sequence[PathLike],
    folder: PathLike,
    *,
    keep_going: bool = False,
    whole_events_max: int = WHOLE_EVENTS_MAX,
) -> Measured:
    """The first half of ``measure``: the tables, and no metrics yet."""
    given, out = [absolute(path) for path in paths], absolute(folder)
    quarantine = Quarantine()
    groups = [sized(group) for group in by_run(usable_places(given, out, quarantine))]
    make_folder(out)
    write_file(join(out, SUMMARY_FILE), [b'{"complete": false}\n'])
    for name in (*TABLES, METRICS_FOLDER, WORK_FOLDER):
        remove_folder(join(out, name))
    for name in (*TABLES, METRICS_FOLDER):
        make_folder(join(out, name))
    small = [group for group in groups if group.events <= whole_events_max]
    units = [
        Unit(stem=f"{number:06d}", places=group.places, folder=out)
        for number, group in enumerate(small)
    ]
    weights = [group.events for group in small]
    outcomes = run("measuring runs", measure_unit, units, Outcome, weights)
    long = [group for group in groups if group.events > whole_events_max]
    if long:
        outcomes += _by_logs(run, out, long)
    runs = _together(outcomes, quarantine)
    if quarantine.count and not (keep_going and runs):
        raise quarantine.error()
    if not runs:
        raise no_records(paths)
    return Measured(
        out=out,
        runs=len(runs),
        events=sum(events for _, events in runs),
        quarantined=tuple(quarantine.listed),
        quarantined_count=quarantine.count,
        notes=tuple(note for outcome in outcomes for note in outcome.notes),
    )


def _by_logs(run: Runner, out: str, groups: Sequence[Sized]) -> list[Outcome]:
    # Workers keep what they read by its path, so no path may be used twice.
    work = join(join(out, WORK_FOLDER), uuid.uuid4().hex)
    make_folder(work)
    try:
        return ByLogs(run, out, work).measure(groups)
    finally:
        remove_folder(join(out, WORK_FOLDER))


def _compute(frames: Frames, names: Sequence[str], out: str, progress: Progress | None) -> None:
    """Write the rows of these metrics, a few of them at a time: each is many short stages."""

    def one(name: str) -> None:
        rows = METRICS[name].compute(frames)
        rows.write.parquet(spark_uri(join(join(out, METRICS_FOLDER), name)))

    _tell(progress, 0, len(names))
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for done, future in enumerate(as_completed([pool.submit(one, name) for name in names])):
            future.result()
            _tell(progress, done + 1, len(names))


def chosen_metrics(names: Sequence[str]) -> list[str]:
    """The metrics of these names, in the order of the table; all of them for none."""
    for name in names:
        if name not in METRICS:
            raise UnusableInputError(f"no metric {name!r}; there are {', '.join(METRICS)}")
    return [name for name in METRICS if not names or name in names]


def read_frames(spark: SparkSession, folder: PathLike) -> Frames:
    """The tables that ``measure`` wrote, as its metrics take them."""
    text = os.fspath(folder)
    return Frames(**{name: _read_table(spark, join(text, name), name) for name in TABLES})


def _read_table(spark: SparkSession, path: str, name: str) -> DataFrame:
    if kind_of(path) != "folder":
        raise UnusableInputError(f"{path} is not there: `thence metrics` makes it")
    return spark.read.schema(spark_schema(name)).parquet(spark_path(path))


def read_metric(spark: SparkSession, folder: PathLike, name: str) -> DataFrame:
    """The rows of one metric that ``measure`` wrote."""
    chosen_metrics([name])
    path = join(join(os.fspath(folder), METRICS_FOLDER), name)
    if kind_of(path) != "folder":
        raise UnusableInputError(f"{path} is not there: `thence metrics --metric {name}` makes it")
    return spark.read.parquet(spark_path(path))


def _tell(progress: Progress | None, done: int, total: int) -> None:
    if progress is not None:
        progress("computing metrics", done, total)


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
