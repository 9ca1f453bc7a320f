"""Non-causal delivery latency: what the algorithm adds to the waiting that causality asks for.

``ready`` minus the latest ``receive`` among the message and its causal past (thesis 8.3): from
then on nothing but the algorithm stands between the message and the application.  In virtual time
the algorithm takes none: the series with ``work`` add the CPU time of the call that released it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thence.pipeline.metrics.base import (
    NO_CPU,
    UNDELIVERED,
    UNRECEIVED,
    UNTIMED,
    Metric,
    Series,
)
from thence.pipeline.observed import Floats, Messages, elapsed, one

_LACKS = (
    UNDELIVERED,
    UNRECEIVED,
    (lambda log: not log.readies, "no ready records"),
    UNTIMED,
)
_SLOW = (lambda log: not log.slow, "not an end of a slow link")


def _latency(messages: Messages, **more: Any) -> Floats:
    return elapsed(messages.t_ready, messages.latest_receive, **more)


def _all(messages: Messages) -> Floats:
    return _latency(messages)


def _waited(messages: Messages) -> Floats:
    return _latency(messages, where=messages.had_to_wait)


def _all_work(messages: Messages) -> Floats:
    return _latency(messages, ns=messages.ready_ns)


def _waited_work(messages: Messages) -> Floats:
    return _latency(messages, ns=messages.ready_ns, where=messages.had_to_wait)


def _at_slow_link(values: Callable[[Messages], Floats]) -> Callable[[Messages], Floats]:
    """The same, only at the ends of the slow link."""
    return lambda messages: values(messages) if messages.log.slow else one(None)


_WAITED = "no message had to wait that has its records and those of its past"
_ANY = "no message has its records and those of its past"

METRIC = Metric(
    name="noncausal_delivery",
    description="ready minus the latest receive among a message and its causal past",
    series=(
        Series(
            name="waited", unit="us", of="messages", values=_waited,
            lacks=_LACKS, otherwise=_WAITED,
        ),
        Series(name="all", unit="us", of="messages", values=_all, lacks=_LACKS, otherwise=_ANY),
        Series(
            name="waited_work", unit="us", of="messages", values=_waited_work,
            lacks=(*_LACKS, *NO_CPU), otherwise=_WAITED,
        ),
        Series(
            name="all_work", unit="us", of="messages", values=_all_work,
            lacks=(*_LACKS, *NO_CPU), otherwise=_ANY,
        ),
        Series(
            name="slow_waited", unit="us", of="messages",
            values=_at_slow_link(_waited),
            lacks=(_SLOW, *_LACKS), otherwise=_WAITED,
        ),
        Series(
            name="slow_waited_work", unit="us", of="messages",
            values=_at_slow_link(_waited_work),
            lacks=(_SLOW, *_LACKS, *NO_CPU), otherwise=_WAITED,
        ),
    ),
)  # fmt: skip
