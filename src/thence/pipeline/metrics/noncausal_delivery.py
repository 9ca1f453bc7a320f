"""Non-causal delivery latency: what the algorithm adds to the waiting that causality asks for.

``ready`` minus the latest ``receive`` among the message and its causal past (thesis 8.3): from
then on nothing but the algorithm stands between the message and the application.
"""

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

_LACKS = (
    ("deliveries = 0", "nothing was delivered"),
    ("receives = 0", "no receive records"),
    ("readies = 0", "no ready records"),
    UNTIMED,
)
SERIES = (
    Series(
        name="waited",
        unit="us",
        lacks=_LACKS,
        otherwise="no message had to wait that has its records and those of its past",
    ),
    Series(
        name="all",
        unit="us",
        lacks=_LACKS,
        otherwise="no message has its records and those of its past",
    ),
    Series(
        name="slow_waited",
        unit="us",
        lacks=(("not slow", "not an end of a slow link"), *_LACKS),
        otherwise="no message had to wait that has its records and those of its past",
    ),
)


def compute(frames: Frames) -> DataFrame:
    """``waited``: over messages of whose past something arrived after them, as in the thesis."""
    latency = F.expr("t_ready - latest_receive")
    waited = F.when(F.col("had_to_wait"), latency)
    values = {"waited": waited, "all": latency, "slow_waited": F.when(F.col("slow"), waited)}
    ends = frames.logs.select("run", "node", "slow")
    rows = frames.latency.join(F.broadcast(ends), ["run", "node"])
    return summarise(frames, SERIES, observed(rows, values), frames.logs)


METRIC = Metric(
    name="noncausal_delivery",
    description="ready minus the latest receive among a message and its causal past",
    series=SERIES,
    compute=compute,
)
