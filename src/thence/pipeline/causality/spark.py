"""The check on Spark, as people call it."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from thence.causal.dot import Dot
from thence.pipeline.causality.check import WHOLE_EVENTS_MAX, Checked, CheckOptions, check_with
from thence.pipeline.tables import spark_path, spark_uri
from thence.pipeline.tasks import Progress, spark_runner
from thence.trace.explain import explain_all
from thence.trace.files import absolute, join, make_folder, parent, remove_folder
from thence.trace.reader import PathLike
from thence.trace.verdict import LISTED_MAX, Report, Violation

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VIOLATIONS_DDL: Final = (
    "run string, node string, pos long, rule string, dot_node string, dot_seq long, "
    "missing_node string, missing_seq long, why string"
)
VERDICTS_DDL: Final = (
    "run string, engine string, ok boolean, events long, violations long, counts map<string, long>"
)
TABLE_LISTED_MAX: Final = 10_000
"""Violations of one log in the table of violations."""


def check_on_spark(
    spark: SparkSession,
    paths: Sequence[PathLike],
    keep_going: bool = False,
    out: str | None = None,
    work: str | None = None,
    progress: Progress | None = None,
    whole_events_max: int = WHOLE_EVENTS_MAX,
) -> Report:
    """Check every run below these paths on Spark; the same report as the local checker's.

    ``out``: a folder for the tables ``verdicts`` and ``violations`` (Parquet), which are replaced.
    ``work``: a folder that driver and executors share, for what stages hand to each other; by
    default a temporary one when Spark runs on this machine, else a hidden one beside the traces.
    ``whole_events_max``: runs up to this are checked by one task each, longer ones by logs.
    Raises as ``thence.trace.check.check_paths`` does.
    """
    own = absolute(work or _work_folder(spark, paths))
    inside = join(own, f".thence-{uuid.uuid4().hex}")
    options = CheckOptions(
        work=inside,
        keep_going=keep_going,
        listed=LISTED_MAX if out is None else TABLE_LISTED_MAX,
        whole_events_max=whole_events_max,
    )

    def first(folders: Sequence[str], count: int) -> list[Violation]:
        return _first_violations(spark, folders, count)

    try:
        checked = check_with(spark_runner(spark, progress), paths, options, first)
        if out is not None:
            _write_tables(spark, out, checked)
        return checked.report
    finally:
        remove_folder(inside)
        if work is None and _is_local(spark):
            remove_folder(own)


class ExplainSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Some violations below some paths."""

    paths: tuple[str, ...]
    violations: tuple[Violation, ...]


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """What there is to say about them."""

    texts: list[str]


def explain_on_spark(
    spark: SparkSession, report: Report, violations: Sequence[Violation]
) -> list[str]:
    """Several lines of text on each: a task reads the runs again, not the driver."""
    spec = ExplainSpec(paths=tuple(map(absolute, report.paths)), violations=tuple(violations))
    (explained,) = spark_runner(spark)("explaining", explain_these, [spec], Explained)
    return explained.texts


def explain_these(spec: ExplainSpec) -> Explained:
    """The task."""
    return Explained(texts=explain_all(spec.paths, spec.violations))


def _is_local(spark: SparkSession) -> bool:
    return str(spark.sparkContext.master).startswith("local")


def _work_folder(spark: SparkSession, paths: Sequence[PathLike]) -> str:
    if _is_local(spark):
        return tempfile.mkdtemp(prefix="thence-check-")
    return parent(absolute(paths[0]).rstrip("/"))


def _violations(spark: SparkSession, folders: Sequence[str]) -> DataFrame:
    reader = spark.read.schema(VIOLATIONS_DDL)
    if not folders:
        return spark.createDataFrame([], VIOLATIONS_DDL)
    return reader.parquet(*map(spark_path, folders))


def _first_violations(spark: SparkSession, folders: Sequence[str], count: int) -> list[Violation]:
    """The first violations in the order of reports: text compares as bytes, null comes first."""
    order = ["run", "node", "pos", "rule", "dot_node", "dot_seq"]
    rows = _violations(spark, folders).orderBy(*order).limit(count).collect()
    return [
        Violation(
            row["run"],
            row["node"],
            row["pos"],
            row["rule"],
            _dot(row["dot_node"], row["dot_seq"]),
            _dot(row["missing_node"], row["missing_seq"]),
            row["why"],
        )
        for row in rows
    ]


def _dot(node: str | None, seq: int | None) -> Dot | None:
    return None if node is None or seq is None else Dot(node, seq)


def _write_tables(spark: SparkSession, out: str, checked: Checked) -> None:
    make_folder(out)
    rows = [
        (
            verdict.run,
            verdict.engine,
            not verdict.counts,
            verdict.events,
            sum(verdict.counts.values()),
            verdict.counts,
        )
        for verdict in checked.verdicts
    ]
    frame = spark.createDataFrame(rows, VERDICTS_DDL)
    frame.coalesce(1).write.mode("overwrite").parquet(spark_uri(join(out, "verdicts")))
    found = _violations(spark, checked.tables)
    found.write.mode("overwrite").parquet(spark_uri(join(out, "violations")))
