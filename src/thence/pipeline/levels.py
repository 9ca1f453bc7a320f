"""The rows of a metric above the level of runs, from the digests of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.pipeline.digest import RunDigest, load_run, row_of
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import ABOVE_RUNS, LEVELS, ROWS, Metric
from thence.trace.files import write_file


class MetricSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One metric to be put together."""

    metric: str
    digests: tuple[str, ...]
    path: str
    """Of the file of its rows."""


class MetricDone(msgspec.Struct, frozen=True):
    """How many rows there are."""

    rows: int


def combine_metric(spec: MetricSpec) -> MetricDone:
    """Write all rows of a metric."""
    metric = METRICS[spec.metric]
    runs = [load_run(path, metric) for path in spec.digests]
    above = pa.Table.from_pylist(list(_rows_above(metric, runs)), ROWS)
    table = pa.concat_tables([*(run.rows[metric.name] for run in runs), above])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    write_file(spec.path, [sink.getvalue()])
    return MetricDone(len(table))


def _rows_above(metric: Metric, runs: Sequence[RunDigest]) -> Iterator[dict[str, Any]]:
    for level in ABOVE_RUNS:
        groups: dict[tuple[Any, ...], list[RunDigest]] = {}
        for run in runs:
            if level != "experiment" or run.about.experiment is not None:
                group = tuple(getattr(run.about, name) for name in LEVELS[level])
                groups.setdefault(group, []).append(run)
        for group, members in groups.items():
            about = dict(zip(LEVELS[level], group, strict=True))
            for series in metric.series:
                parts = [run.series[metric.name, series.name] for run in members]
                yield row_of(series, level, about, parts)
