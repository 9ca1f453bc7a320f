"""Metadata per message: the dots of its context, and the bytes of dot and context on the wire.

Figures 28a, 30a and 31a of the thesis count predecessors; a vector has as many entries as the
group has members, which is ``group_size`` of the row.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.pipeline.metrics.base import (
    Frames,
    Metric,
    Series,
    observed,
    summarise,
)

SERIES = (
    Series(
        name="dots",
        unit="dots",
        lacks=(("tags = 'none'", "contexts say nothing in this run (tags none)"),),
        otherwise="nothing was sent",
    ),
    Series(
        name="bytes",
        unit="bytes",
        lacks=(("sends = 0", "nothing was sent"),),
        otherwise="no send record has bytes",
    ),
)


def compute(frames: Frames) -> DataFrame:
    """By sender, over the messages it sent."""
    values = {"dots": F.col("context_dots"), "bytes": F.col("bytes")}
    return summarise(frames, SERIES, observed(frames.latency, values), frames.logs)


METRIC = Metric(
    name="metadata",
    description="dots in the context of a message, and bytes of dot and context on the wire",
    series=SERIES,
    compute=compute,
)
