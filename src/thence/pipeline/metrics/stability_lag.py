"""Stability lag: for how long a delivered message is not yet known to be stable, at one node."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.pipeline.metrics.base import (
    UNSTABLE,
    UNTIMED,
    Frames,
    Metric,
    Series,
    observed,
    summarise,
)

SERIES = (
    Series(
        name="lag",
        unit="us",
        lacks=(UNSTABLE, ("stables = 0", "nothing was told stable"), UNTIMED),
        otherwise="no stable message was delivered before in the same life of its node",
    ),
)


def compute(frames: Frames) -> DataFrame:
    """Over stable events; a node's own message is delivered there when it is sent."""
    values = {"lag": F.expr("t_stable - t_deliver")}
    return summarise(frames, SERIES, observed(frames.latency, values), frames.logs)


METRIC = Metric(
    name="stability_lag",
    description="stable minus deliver of a message, at the same node",
    series=SERIES,
    compute=compute,
)
