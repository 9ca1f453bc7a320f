"""The metrics of a node, one table, rendered from a ``Snapshot`` for Prometheus.

Adding a metric is a number in the Snapshot and one line in METRICS_TABLE.  Nothing is counted here:
values are pulled when somebody scrapes.  prometheus-client (extra ``metrics``) writes the text; it
is imported when it is needed, and its absence is a ModuleNotFoundError then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from thence.telemetry.snapshot import (
    LAG_BOUNDS_S,
    GroupNumbers,
    Lag,
    MembershipNumbers,
    PeerNumbers,
    Snapshot,
)

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

REASONS_MAX: Final = 64
"""Reasons of refusals that are told apart; the rest is counted as ``other``."""

Kind = Literal["counter", "gauge", "histogram"]
Sample = tuple[tuple[str, ...], float | Lag]
"""Values of the labels, and the number."""


class Metric(msgspec.Struct, frozen=True):
    """One line of the table."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str
    read: Callable[[Snapshot], Iterable[Sample]]


def _group(
    name: str, kind: Kind, help_: str, read: Callable[[GroupNumbers], float | Lag]
) -> Metric:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for group in snapshot.groups:
            yield (group.name,), read(group)

    return Metric(name, kind, ("group",), help_, samples)


def _elastic(
    name: str, kind: Kind, help_: str, read: Callable[[MembershipNumbers], float]
) -> Metric:
    """Of groups whose members change; others have no such number."""

    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for group in snapshot.groups:
            if group.membership is not None:
                yield (group.name,), read(group.membership)

    return Metric(name, kind, ("group",), help_, samples)


def _peer(name: str, kind: Kind, help_: str, read: Callable[[PeerNumbers], float | None]) -> Metric:
    def samples(snapshot: Snapshot) -> Iterator[Sample]:
        for peer in snapshot.peers:
            value = read(peer)
            if value is not None:
                yield (peer.name,), value

    return Metric(name, kind, ("peer",), help_, samples)


def _blocked_on(snapshot: Snapshot) -> Iterator[Sample]:
    for group in snapshot.groups:
        for peer, count in sorted(group.blocked_on.items()):
            yield (group.name, peer), count


def _limits(snapshot: Snapshot) -> Iterator[Sample]:
    for group in snapshot.groups:
        for queue, limit in sorted(group.limits.items()):
            yield (group.name, queue), limit


def _silences(snapshot: Snapshot) -> Iterator[Sample]:
    for group in snapshot.groups:
        for member in () if group.membership is None else group.membership.members:
            if member.silence_s is not None:
                yield (group.name, member.name), member.silence_s


def _rejected(snapshot: Snapshot) -> Iterator[Sample]:
    counts = sorted(snapshot.rejected.items())
    yield from (((reason,), count) for reason, count in counts[:REASONS_MAX])
    if len(counts) > REASONS_MAX:
        yield ("other",), sum(count for _, count in counts[REASONS_MAX:])


def _info(snapshot: Snapshot) -> Iterator[Sample]:
    yield (snapshot.node, snapshot.version), 1


METRICS_TABLE: Final[tuple[Metric, ...]] = (
    Metric("thence_node_info", "gauge", ("node", "version"), "Always 1: who this is.", _info),
    Metric("thence_uptime_seconds", "gauge", (), "Since the node started.",
           lambda snapshot: [((), snapshot.uptime_s)]),
    _group("thence_messages_sent_total", "counter", "Messages broadcast by this node.",
           lambda group: group.sent),
    _group("thence_delivered_total", "counter", "Messages of others taken by the application.",
           lambda group: group.delivered),
    _group("thence_stable_total", "counter", "Messages that the application knows to be stable.",
           lambda group: group.stable),
    _group("thence_pending_messages", "gauge", "Messages held back: a predecessor is missing.",
           lambda group: group.pending),
    Metric("thence_blocked_on", "gauge", ("group", "peer"),
           "Messages held back that wait for a message of this peer.", _blocked_on),
    _group("thence_unstable_messages", "gauge", "Messages delivered and not known to be stable.",
           lambda group: group.unstable),
    _group("thence_stability_lag_seconds", "histogram", "From delivery here to stable here.",
           lambda group: group.lag),
    _group("thence_outbox_messages", "gauge", "Own messages not acknowledged by all peers.",
           lambda group: group.outbox_messages),
    _group("thence_outbox_bytes", "gauge", "Bytes of own messages not acknowledged by all peers.",
           lambda group: group.outbox_bytes),
    _group("thence_events_waiting", "gauge", "Events that wait for the application.",
           lambda group: group.events_waiting),
    _group("thence_journal_bytes", "gauge", "Size of the journal since its last checkpoint.",
           lambda group: group.journal_bytes),
    Metric("thence_queue_limit", "gauge", ("group", "queue"),
           "How much of a queue may be filled before senders wait.", _limits),
    _elastic("thence_view", "gauge", "Number of the present view of an elastic group.",
             lambda membership: membership.view),
    _elastic("thence_members", "gauge", "Members of the present view.",
             lambda membership: len(membership.members)),
    _elastic("thence_suspects", "gauge", "Members that do not answer, or are to be evicted.",
             lambda membership: membership.suspects),
    Metric("thence_member_silence_seconds", "gauge", ("group", "member"),
           "Since the last sign of life of the member.", _silences),
    _elastic("thence_minority", "gauge", "1 while too few members answer to change the members.",
             lambda membership: int(membership.minority)),
    _elastic("thence_out", "gauge", "1 once this node is no member any more.",
             lambda membership: int(membership.out)),
    _elastic("thence_view_changes_total", "counter", "Views that were installed here.",
             lambda membership: membership.changes),
    _elastic("thence_handovers_total", "counter", "States that this node handed to newcomers.",
             lambda membership: membership.handovers),
    _elastic("thence_newcomers", "gauge", "Nodes that wait to be let in, or for the state.",
             lambda membership: membership.newcomers),
    _elastic("thence_kept_bytes", "gauge", "Bytes of payloads in memory for members that are away.",
             lambda membership: membership.kept_bytes),
    _elastic("thence_shelved_bytes", "gauge",
             "Bytes of payloads in the journal for members that are away.",
             lambda membership: membership.shelved_bytes),
    _peer("thence_connected", "gauge", "1 while there is a connection to the peer.",
          lambda peer: int(peer.connected)),
    _peer("thence_bytes_sent_total", "counter", "Bytes sent to the peer.",
          lambda peer: peer.bytes_sent),
    _peer("thence_bytes_received_total", "counter", "Bytes received from the peer.",
          lambda peer: peer.bytes_received),
    _peer("thence_backlog_bytes", "gauge", "Bytes for the peer not yet taken by the system.",
          lambda peer: peer.backlog_bytes),
    _peer("thence_credit", "gauge", "Messages that the peer still takes before it grants more.",
          lambda peer: peer.credit_messages),
    _peer("thence_credit_bytes", "gauge", "Bytes that the peer still takes before it grants more.",
          lambda peer: peer.credit_bytes),
    _peer("thence_retransmissions_total", "counter", "Messages or datagrams sent again.",
          lambda peer: peer.retransmissions),
    _peer("thence_reconnects_total", "counter", "Connections to the peer after the first.",
          lambda peer: peer.reconnects),
    _peer("thence_rtt_seconds", "gauge", "Smoothed round trip to the peer, once measured.",
          lambda peer: peer.rtt_s),
    Metric("thence_rejected_total", "counter", ("reason",), "Input that was refused.", _rejected),
)  # fmt: skip


def metrics_table() -> str:
    """The table as Markdown, as docs/reference/telemetry.md shows it."""
    rows = ["| metric | kind | labels | about |", "|---|---|---|---|"]
    rows += [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in METRICS_TABLE
    ]
    return "\n".join(rows) + "\n"


class Exposition:
    """Renders what ``collect`` gives, beside the process's own memory, CPU and open files."""

    def __init__(self, collect: Callable[[], Snapshot]) -> None:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector

        self.content_type: str = CONTENT_TYPE_LATEST
        self._collect = collect
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def describe(self) -> Iterable[Family]:
        """Nothing: names are known without asking the node, which may not run yet."""
        return ()

    def collect(self) -> Iterator[Family]:
        """The families of METRICS_TABLE, for the registry."""
        snapshot = self._collect()
        for metric in METRICS_TABLE:
            yield _family(metric, snapshot)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)


def _family(metric: Metric, snapshot: Snapshot) -> Family:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    families: dict[Kind, Any] = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    family: Any = families[metric.kind](metric.name, metric.help, labels=metric.labels)
    for labels, value in metric.read(snapshot):
        if isinstance(value, Lag):
            family.add_metric(labels, _buckets(value), value.sum_s)
        else:
            family.add_metric(labels, value)
    found: Family = family
    return found


def _buckets(lag: Lag) -> list[tuple[str, int]]:
    """(upper bound, how many are at or below it), as Prometheus wants them."""
    seen = 0
    buckets = []
    for bound, count in zip((*map(str, LAG_BOUNDS_S), "+Inf"), lag.counts, strict=True):
        seen += count
        buckets.append((bound, seen))
    return buckets
