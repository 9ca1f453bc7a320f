"""Throughput: messages sent and delivered per second, by the clock of the run.

The time of a log runs from its first send or delivery to its last.  That of a run does so over all
its logs where clocks are common, and is that of its longest log where they are not.
"""

from __future__ import annotations

from thence.pipeline.metrics.base import UNTIMED, Metric, Series
from thence.pipeline.observed import Floats, one

_LACKS = (
    (lambda about: not about.sends + about.deliveries, "nothing was sent or delivered"),
    UNTIMED,
)
_OTHERWISE = "no time passed between the first and the last send or delivery"


def _per_second(count: int, span_us: int | None) -> Floats:
    return one(count * 1e6 / span_us if span_us else None)


METRIC = Metric(
    name="throughput",
    description="messages sent and delivered per second of the run's clock",
    series=(
        Series(
            name="sent", unit="messages/s", of="run",
            values=lambda run: _per_second(run.sends, run.about.span_us),
            lacks=_LACKS, otherwise=_OTHERWISE,
        ),
        Series(
            name="delivered", unit="messages/s", of="run",
            values=lambda run: _per_second(run.deliveries, run.about.span_us),
            lacks=_LACKS, otherwise=_OTHERWISE,
        ),
        Series(
            name="sent_by_node", unit="messages/s", of="log",
            values=lambda log: _per_second(log.sends, log.span_us),
            lacks=_LACKS, otherwise=_OTHERWISE,
        ),
        Series(
            name="delivered_by_node", unit="messages/s", of="log",
            values=lambda log: _per_second(log.deliveries, log.span_us),
            lacks=_LACKS, otherwise=_OTHERWISE,
        ),
    ),
)  # fmt: skip
