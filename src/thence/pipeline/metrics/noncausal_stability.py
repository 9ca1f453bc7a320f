"""Non-causal stability latency: how long after it could be known a message is told stable.

``stable`` minus the ``receive`` of the message, or the record of the phantom, that completed the
condition (thesis 8.3: "the receive that made it possible").  ``told_work`` looks at the engine
alone: up to the call that found it, with that call's CPU time, and without the time that the
application let it wait.
"""

from __future__ import annotations

from thence.pipeline.metrics.base import (
    NO_CPU,
    UNSTABLE,
    UNTIMED,
    UNTOLD,
    Metric,
    Series,
)
from thence.pipeline.observed import Floats, Messages, elapsed

_LACKS = (
    UNSTABLE,
    (
        lambda log: log.guarantee not in ("causal", "causal-total", "synchronous"),
        "stability is not defined for this guarantee",
    ),
    UNTOLD,
    (
        lambda log: not log.receives and not log.phantoms,
        "no receive records and no phantoms",
    ),
    UNTIMED,
)
_OTHERWISE = "the records do not say what completed the condition of any stable message"


def _told_work(messages: Messages) -> Floats:
    told, completing = messages.t_told, messages.completing_receive
    # A call before the record that completed the condition did not wait for it.
    return elapsed(told, completing, ns=messages.told_ns, where=told >= completing)


METRIC = Metric(
    name="noncausal_stability",
    description="stable minus the receive of the message or phantom that completed the condition",
    series=(
        Series(
            name="latency",
            unit="us",
            of="messages",
            values=lambda messages: elapsed(messages.t_stable, messages.completing_receive),
            lacks=_LACKS,
            otherwise=_OTHERWISE,
        ),
        Series(
            name="told_work",
            unit="us",
            of="messages",
            values=_told_work,
            lacks=(*_LACKS, *NO_CPU),
            otherwise=_OTHERWISE,
        ),
    ),
)
