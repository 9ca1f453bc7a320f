"""The metrics: one module each, and the table of them.

Adding one is a module here with a ``METRIC`` and a line in this table.
"""

from __future__ import annotations

from typing import Final

from thence.pipeline.metrics import (
    concurrency,
    cross_node_delay,
    delivery_delay,
    memory,
    metadata,
    noncausal_delivery,
    noncausal_stability,
    stability_lag,
    throughput,
    work,
)
from thence.pipeline.metrics.base import Metric

METRICS: Final[dict[str, Metric]] = {
    metric.name: metric
    for metric in (
        metadata.METRIC,
        memory.METRIC,
        delivery_delay.METRIC,
        noncausal_delivery.METRIC,
        noncausal_stability.METRIC,
        cross_node_delay.METRIC,
        stability_lag.METRIC,
        concurrency.METRIC,
        throughput.METRIC,
        work.METRIC,
    )
}
"""By name, in the order in which they are listed."""
