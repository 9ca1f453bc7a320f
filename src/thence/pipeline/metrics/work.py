"""Work: the CPU time that an engine takes for each message it delivers.

From ``cpu.arrow`` of simulated runs, where all calls of a node's engine are measured.
"""

from __future__ import annotations

from thence.pipeline.metrics.base import NO_CPU, UNDELIVERED, Metric, Series
from thence.pipeline.observed import AboutLog, Floats, one


def _per_delivery(log: AboutLog) -> Floats:
    if log.cpu_ns is None or not log.deliveries:
        return one(None)
    return one(log.cpu_ns / log.deliveries / 1000)


METRIC = Metric(
    name="work",
    description="CPU time of all calls of a node's engine, for each message delivered there",
    series=(
        Series(
            name="per_delivery",
            unit="us",
            of="log",
            values=_per_delivery,
            lacks=(*NO_CPU, UNDELIVERED),
            otherwise="the engine was not called",
        ),
    ),
)
