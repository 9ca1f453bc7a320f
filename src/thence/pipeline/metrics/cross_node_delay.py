"""Cross-node delays: from the send of a message to its arrival and delivery elsewhere.

The times of two nodes: only for runs whose nodes share a clock, which their run.json must say
(``scenario.clock``: "common"; simulated runs do).
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

_CLOCKS = ("clock IS NULL", "the clocks of the nodes are not known to be common")
SERIES = (
    Series(
        name="receive",
        unit="us",
        lacks=(_CLOCKS, ("receives = 0", "no receive records"), UNTIMED),
        otherwise="of no message that arrived is the send known",
    ),
    Series(
        name="deliver",
        unit="us",
        lacks=(_CLOCKS, ("deliveries = 0", "nothing was delivered"), UNTIMED),
        otherwise="of no message that was delivered is the send known",
    ),
)


def compute(frames: Frames) -> DataFrame:
    """By the node where it arrived, over the messages of others."""
    common = frames.runs.where("clock = 'common'").select("run")
    elsewhere = frames.latency.where("NOT own").join(F.broadcast(common), "run", "left_semi")
    values = {"receive": F.expr("t_receive - t_send"), "deliver": F.expr("t_deliver - t_send")}
    return summarise(frames, SERIES, observed(elsewhere, values), frames.logs)


METRIC = Metric(
    name="cross_node_delay",
    description="receive and deliver minus send at another node, where clocks are common",
    series=SERIES,
    compute=compute,
)
