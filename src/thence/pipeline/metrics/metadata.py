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

_UNTAGGED = ("tags = 'none'", "contexts say nothing in this run (tags none)")
SERIES = (
    Series(
        name="dots",
        unit="dots",
        lacks=(_UNTAGGED,),
        otherwise="nothing was sent",
    ),
    Series(
        name="entries",
        unit="entries",
        lacks=(_UNTAGGED,),
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
    vectors = frames.runs.select("run", F.expr("vectors * group_size").alias("vector_entries"))
    sent = frames.latency.join(F.broadcast(vectors), "run")
    entries = F.when(F.col("vector_entries") > 0, F.col("vector_entries"))
    values = {
        "dots": F.col("context_dots"),
        "entries": F.when(
            F.col("context_dots").isNotNull(), F.coalesce(entries, F.col("context_dots"))
        ),
        "bytes": F.col("bytes"),
    }
    return summarise(frames, SERIES, observed(sent, values), frames.logs)


METRIC = Metric(
    name="metadata",
    description="dots in the context of a message; entries and bytes that travel with it",
    series=SERIES,
    compute=compute,
)
