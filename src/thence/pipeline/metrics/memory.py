"""Memory: the words of metadata that nodes hold, overall and as the run goes on.

From ``sample`` records.  A word is 8 bytes (thesis 8.3.1).
"""

from __future__ import annotations

from thence.pipeline.metrics.base import Metric, Series
from thence.pipeline.observed import known

METRIC = Metric(
    name="memory",
    description="words of metadata that a node holds, by sample; overall and over time",
    series=(
        Series(
            name="words",
            unit="words",
            of="samples",
            values=lambda samples: known(samples.words),
            otherwise="no sample record has words",
        ),
    ),
)
