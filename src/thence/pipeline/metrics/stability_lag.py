"""Stability lag: for how long a delivered message is not yet known to be stable, at one node."""

from __future__ import annotations

from thence.pipeline.metrics.base import UNSTABLE, UNTIMED, UNTOLD, Metric, Series
from thence.pipeline.observed import elapsed

METRIC = Metric(
    name="stability_lag",
    description="stable minus deliver of a message, at the same node",
    series=(
        Series(
            name="lag",
            unit="us",
            of="messages",
            # A node's own message is delivered there when it is sent.
            values=lambda messages: elapsed(messages.t_stable, messages.t_deliver),
            lacks=(UNSTABLE, UNTOLD, UNTIMED),
            otherwise="no stable message was delivered before in the same life of its node",
        ),
    ),
)
