"""Memory: the words of metadata that nodes hold, overall and as the run goes on.

From ``sample`` records.  A word is 8 bytes (thesis 8.3.1).
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.pipeline.metrics.base import (
    OVER_TIME,
    Frames,
    Metric,
    Series,
    observed,
    summarise,
)

SERIES = (Series(name="words", unit="words", otherwise="no sample record has words"),)


def compute(frames: Frames) -> DataFrame:
    """Over samples; at level ``time`` over those of all nodes in a share of the run."""
    samples = observed(frames.samples, {"words": F.col("words")})
    return summarise(frames, SERIES, samples, frames.logs, OVER_TIME)


METRIC = Metric(
    name="memory",
    description="words of metadata that a node holds, by sample; overall and over time",
    series=SERIES,
    compute=compute,
)
