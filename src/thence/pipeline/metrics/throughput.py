"""Throughput: messages sent and delivered per second, by the clock of the run.

The time of a log runs from its first send or delivery to its last.  That of a run does so over all
its logs where clocks are common, and is that of its longest log where they are not.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from thence.pipeline.metrics.base import (
    OF_LOGS,
    UNTIMED,
    Frames,
    Metric,
    Series,
    observed,
    summarise,
)

_OTHERWISE = "no time passed between the first and the last send or delivery"
_LACKS = (("sends + deliveries = 0", "nothing was sent or delivered"), UNTIMED)
SERIES = (
    Series(name="sent", unit="messages/s", lacks=_LACKS, otherwise=_OTHERWISE),
    Series(name="delivered", unit="messages/s", lacks=_LACKS, otherwise=_OTHERWISE),
    Series(name="sent_by_node", unit="messages/s", lacks=_LACKS, otherwise=_OTHERWISE),
    Series(name="delivered_by_node", unit="messages/s", lacks=_LACKS, otherwise=_OTHERWISE),
)


def compute(frames: Frames) -> DataFrame:
    """``sent``, ``delivered``: one observation a run; ``..._by_node``: one a log."""
    logs, totals = frames.logs, _of_runs(frames)
    by_node = {
        "sent_by_node": _per_second("sends", "span_us"),
        "delivered_by_node": _per_second("deliveries", "span_us"),
    }
    by_run = {
        "sent": _per_second("sends", "span_us"),
        "delivered": _per_second("deliveries", "span_us"),
    }
    found = observed(logs, by_node).unionByName(observed(totals, by_run), allowMissingColumns=True)
    rows = summarise(frames, SERIES, found, frames.logs, OF_LOGS)
    # What a whole run does per second is not a figure of its nodes.
    return rows.where("level != 'node' OR series LIKE '%_by_node'")


def _of_runs(frames: Frames) -> DataFrame:
    counts = frames.logs.groupBy("run").agg(
        F.sum("sends").alias("sends"), F.sum("deliveries").alias("deliveries")
    )
    return counts.join(F.broadcast(frames.runs.select("run", "span_us")), "run")


def _per_second(count: str, span_us: str) -> Column:
    return F.expr(f"CASE WHEN {span_us} > 0 THEN {count} * 1e6D / {span_us} END")


METRIC = Metric(
    name="throughput",
    description="messages sent and delivered per second of the run's clock",
    series=SERIES,
    compute=compute,
)
