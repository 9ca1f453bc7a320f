"""Delivery delay: from the arrival of a message to its delivery at the same node."""

from __future__ import annotations

from thence.pipeline.metrics.base import UNDELIVERED, UNRECEIVED, UNTIMED, Metric, Series
from thence.pipeline.observed import elapsed

METRIC = Metric(
    name="delivery_delay",
    description="deliver minus receive of a message, at the same node",
    series=(
        Series(
            name="delay",
            unit="us",
            of="messages",
            values=lambda messages: elapsed(messages.t_deliver, messages.t_receive),
            lacks=(UNDELIVERED, UNRECEIVED, UNTIMED),
            otherwise="no delivered message has its receive record",
        ),
    ),
)
