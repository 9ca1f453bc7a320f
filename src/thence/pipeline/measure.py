"""From traces to metric tables: one Spark task per run measures it, Spark SQL sums it up.

``measure`` writes below its folder

OUT/runs, logs, latency, samples, orders    what each run measured (metrics/base.py has the columns)
OUT/metrics/<name>                          the rows of each metric
OUT/metrics.json                            what is there; not complete until all of it is

all but the last Parquet.  A task reads the files of its run itself and runs the NumPy kernels: no
event goes through the JVM, and the driver sees one row a run.  The longest runs go first, so that
the last task to end is a short one.  A run must fit one task; docs/reference/metrics.md says how
large that is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow.fs as pafs

from thence.errors import UnusableInputError
from thence.pipeline.measure_run import Outcome, Unit, measure_unit
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import TABLES, Frames, spark_schema
from thence.pipeline.tables import spark_path
from thence.pipeline.tasks import Progress, Runner, spark_runner
from thence.trace.files import (
    filesystem,
    is_url,
    join,
    kind_of,
    make_folder,
    remove_folder,
    write_file,
)
from thence.trace.reader import PathLike, Place, by_run, find_places
from thence.trace.segments import Quarantine, Quarantined

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

METRICS_FOLDER: Final = "metrics"
SUMMARY_FILE: Final = "metrics.json"
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
) -> Measured:
    """Measure every run below these paths and write the tables and metrics to a folder.

    ``names``: which metrics, all when there are none.  Raises UnusableInputError for what cannot
    be used, and TraceError when something could not be read, unless ``keep_going`` and something
    else could.  A folder that this function wrote before is written anew.
    """
    chosen = chosen_metrics(names)
    measured = measure_tables(
        spark_runner(spark, progress), paths, os.fspath(out), keep_going=keep_going
    )
    _compute(read_frames(spark, measured.out), chosen, measured.out, progress)
    measured = msgspec.structs.replace(measured, complete=True, metrics=tuple(chosen))
    summary = msgspec.json.format(msgspec.json.encode(measured), indent=2)
    write_file(join(measured.out, SUMMARY_FILE), [summary, b"\n"])
    return measured


def measure_tables(
    run: Runner, paths: Sequence[PathLike], out: str, *, keep_going: bool = False
) -> Measured:
    """The first half of ``measure``: the tables, and no metrics yet."""
    given = [os.fspath(path) for path in paths]
    groups = by_run(usable_places(given, out))
    make_folder(out)
    write_file(join(out, SUMMARY_FILE), [b'{"complete": false}\n'])
    for name in (*TABLES, METRICS_FOLDER):
        remove_folder(join(out, name))
        make_folder(join(out, name))
    units = [
        Unit(number=number, paths=tuple(place.path for place in group), folder=out)
        for number, group in enumerate(groups)
    ]
    sizes = [sum(_file_size(file) for place in group for file in place.files) for group in groups]
    outcomes = run("measuring runs", measure_unit, units, Outcome, sizes)
    runs, quarantine = _together(outcomes, given, keep_going)
    return Measured(
        out=out,
        runs=len(runs),
        events=sum(events for _, events in runs),
        quarantined=tuple(quarantine.listed),
        quarantined_count=quarantine.count,
        notes=tuple(note for outcome in outcomes for note in outcome.notes),
    )


def _compute(frames: Frames, names: Sequence[str], out: str, progress: Progress | None) -> None:
    """Write the rows of these metrics, a few of them at a time: each is many short stages."""

    def one(name: str) -> None:
        rows = METRICS[name].compute(frames)
        rows.write.parquet(_uri(join(join(out, METRICS_FOLDER), name)))

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


def _together(
    outcomes: Sequence[Outcome], paths: Sequence[str], keep_going: bool
) -> tuple[list[tuple[str, int]], Quarantine]:
    """The runs (name, events) and what was set aside; raises what ``measure`` raises."""
    for outcome in outcomes:
        if outcome.error is not None:
            raise UnusableInputError(outcome.error)
    runs = sorted(run for outcome in outcomes for run in outcome.runs)
    quarantine = Quarantine()
    for outcome in outcomes:
        for item in outcome.quarantined:
            quarantine.add(item.file, item.line, item.reason)
        quarantine.count += outcome.quarantined_count - len(outcome.quarantined)
    if quarantine.count and not (keep_going and runs):
        raise quarantine.error()
    if not runs:
        names = ", ".join(paths)
        raise UnusableInputError(f"{names}: no trace records; was the run stopped at once?")
    for (name, _), (other, _) in pairwise(runs):
        if name == other:
            raise UnusableInputError(
                f"two runs are named {name}: give them names of their own, or measure them apart"
            )
    return runs, quarantine


# Where it goes.


def usable_places(paths: Sequence[str], folder: str) -> list[Place]:
    """The runs below these paths; UnusableInputError also when the folder cannot be written to.

    Only what ``measure`` wrote is ever removed from it.
    """
    places = find_places(paths, Quarantine())
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


def _uri(path: str) -> str:
    """A path as Spark writes to it: ``spark_path`` without its escapes, which are for reading."""
    return re.sub(r"\\([*?\[\]{}\\])", r"\1", spark_path(path))


def _file_size(path: str) -> int:
    where, inner = filesystem(path)
    return where.get_file_info(inner).size or 0
