"""Non-causal stability latency: how long after it could be known a message is told stable.

``stable`` minus the ``receive`` of the message, or the record of the phantom, that completed the
condition (thesis 8.3: "the receive that made it possible").
"""

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
        name="latency",
        unit="us",
        lacks=(
            UNSTABLE,
            (
                "guarantee NOT IN ('causal', 'causal-total')",
                "stability is not defined for this guarantee",
            ),
            ("stables = 0", "nothing was told stable"),
            ("receives = 0 AND phantoms = 0", "no receive records and no phantoms"),
            UNTIMED,
        ),
        otherwise="the records do not say what completed the condition of any stable message",
    ),
)


def compute(frames: Frames) -> DataFrame:
    """Over stable events."""
    values = {"latency": F.expr("t_stable - completing_receive")}
    return summarise(frames, SERIES, observed(frames.latency, values), frames.logs)


METRIC = Metric(
    name="noncausal_stability",
    description="stable minus the receive of the message or phantom that completed the condition",
    series=SERIES,
    compute=compute,
)
