"""Delivery delay: from the arrival of a message to its delivery at the same node."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.pipeline.metrics.base import (
    UNTIMED,
    Frames,
    Metric,
    Series,
    observed,
    summarise,
)

SERIES = (
    Series(
        name="delay",
        unit="us",
        lacks=(
            ("deliveries = 0", "nothing was delivered"),
            ("receives = 0", "no receive records"),
            UNTIMED,
        ),
        otherwise="no delivered message has its receive record",
    ),
)


def compute(frames: Frames) -> DataFrame:
    """Over the messages of others that were delivered."""
    values = {"delay": F.expr("t_deliver - t_receive")}
    return summarise(frames, SERIES, observed(frames.latency, values), frames.logs)


METRIC = Metric(
    name="delivery_delay",
    description="deliver minus receive of a message, at the same node",
    series=SERIES,
    compute=compute,
)
