"""Cross-node delays: from the send of a message to its arrival and delivery elsewhere.

The times of two nodes: only for runs whose nodes share a clock, which their run.json must say
(``scenario.clock``: "common"; simulated runs do).
"""

from __future__ import annotations

from thence.pipeline.metrics.base import (
    COMMON,
    UNDELIVERED,
    UNRECEIVED,
    UNTIMED,
    Metric,
    Series,
)
from thence.pipeline.observed import Floats, Messages, elapsed, one
from thence.trace.columns import Ints


def _since_send(messages: Messages, at: Ints) -> Floats:
    """By the node where it arrived, over the messages of others."""
    if messages.log.clock != COMMON:
        return one(None)
    return elapsed(at, messages.t_send, where=~messages.own)


_CLOCKS = (lambda log: log.clock is None, "the clocks of the nodes are not known to be common")

METRIC = Metric(
    name="cross_node_delay",
    description="receive and deliver minus send at another node, where clocks are common",
    series=(
        Series(
            name="receive",
            unit="us",
            of="messages",
            values=lambda messages: _since_send(messages, messages.t_receive),
            lacks=(_CLOCKS, UNRECEIVED, UNTIMED),
            otherwise="of no message that arrived is the send known",
        ),
        Series(
            name="deliver",
            unit="us",
            of="messages",
            values=lambda messages: _since_send(messages, messages.t_deliver),
            lacks=(_CLOCKS, UNDELIVERED, UNTIMED),
            otherwise="of no message that was delivered is the send known",
        ),
    ),
)
