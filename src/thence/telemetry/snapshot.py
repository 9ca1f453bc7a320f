"""The numbers of a running node, as plain values at one moment.

The runtime counts in plain integers where things happen and makes a ``Snapshot`` only when somebody
asks: metrics, ``/status`` and ``thence status`` are all rendered from it.  Counters only grow while
the process lives, and start at 0 with it.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Final

import msgspec

LAG_BOUNDS_S: Final = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""Upper bounds of the buckets of stability lag; one more bucket holds what is above."""


class Lag(msgspec.Struct, frozen=True):
    """How long deliveries took to become stable."""

    counts: tuple[int, ...] = (0,) * (len(LAG_BOUNDS_S) + 1)
    """By bucket, not cumulative."""
    sum_s: float = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def quantile_s(self, share: float) -> float | None:
        """The bound that at least this share stays within; None without any, inf above the last."""
        rank = share * self.count
        seen = 0
        for bound, count in zip((*LAG_BOUNDS_S, float("inf")), self.counts, strict=True):
            seen += count
            if seen and seen >= rank:
                return bound
        return None


class LagCounter:
    """What the runtime keeps; ``lag()`` is the value of it."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(LAG_BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, lag_s: float) -> None:
        """One message became stable this long after it was delivered here."""
        self._counts[bisect_left(LAG_BOUNDS_S, lag_s)] += 1
        self._sum_s += lag_s

    def lag(self) -> Lag:
        return Lag(tuple(self._counts), self._sum_s)


class PeerNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One peer, seen from here."""

    name: str
    address: str = ""
    """Of the present connection, or where it is looked for."""
    connected: bool = False
    bytes_sent: int = 0
    bytes_received: int = 0
    backlog_bytes: int = 0
    """Given to the connection and not yet taken by the system."""
    retransmissions: int = 0
    reconnects: int = 0
    credit_messages: int = 0
    """That may still be sent to it before it grants more."""
    credit_bytes: int = 0
    rtt_s: float | None = None
    """Smoothed round trip; None before it was measured."""


class MemberNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One member of an elastic group, seen from here."""

    name: str
    """As in ``a``, or ``a#2`` for a later incarnation."""
    state: str
    """``self``; ``up``; ``coming``: not known to have the state yet; ``suspected``: silent for
    unusually long; ``condemned``: to be evicted."""
    silence_s: float | None = None
    """Since its last sign of life; None of this node itself."""
    address: str = ""


class MembershipNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Who is in an elastic group, as its members agreed on it."""

    view: int
    """The number of the present view, the same at all members that have it."""
    members: tuple[MemberNumbers, ...] = ()
    """In order of seniority: the first that is not suspected coordinates."""
    minority: bool = False
    """Too few of them answer to let anybody in or out."""
    leaving: bool = False
    out: bool = False
    """This node is no member any more."""
    changes: int = 0
    """Views that were installed here."""
    handovers: int = 0
    """States that this node handed to newcomers."""
    newcomers: int = 0
    """Nodes that wait to be let in, or for the state, as far as this node knows."""
    kept_bytes: int = 0
    """Of payloads in memory for members that are away or catch up; 0 while nobody is."""
    shelved_bytes: int = 0
    """Of such payloads in the journal."""

    @property
    def suspects(self) -> int:
        """Members that do not answer, or are to be evicted."""
        return sum(each.state in ("suspected", "condemned") for each in self.members)


class Joining(msgspec.Struct, frozen=True):
    """A group that this node is on its way into."""

    group: str
    waiting_for: str
    """Why it is not in yet, for people."""
    received_bytes: int = 0
    """Of the state, so far."""


class GroupNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """One group of this node."""

    name: str
    engine: str = ""
    sent: int = 0
    """Messages that the application broadcast here."""
    delivered: int = 0
    """Messages of others that the application took."""
    stable: int = 0
    pending: int = 0
    """Messages held back until their predecessors are here."""
    blocked_on: dict[str, int] = {}
    """By peer: messages held back that wait for one of its messages."""
    unstable: int = 0
    """Messages delivered here and not known to be stable."""
    outbox_messages: int = 0
    outbox_bytes: int = 0
    events_waiting: int = 0
    journal_bytes: int = 0
    lag: Lag = Lag()
    limits: dict[str, int] = {}
    """Of the queues above by the name of the field: ``{"outbox_bytes": 67108864, ...}``."""
    membership: MembershipNumbers | None = None
    """None: the group is not elastic."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Everything at one moment."""

    node: str
    version: str = ""
    uptime_s: float = 0.0
    groups: tuple[GroupNumbers, ...] = ()
    joining: tuple[Joining, ...] = ()
    peers: tuple[PeerNumbers, ...] = ()
    rejected: dict[str, int] = {}
    """Input that was refused, by reason."""


class Readiness(msgspec.Struct, frozen=True):
    """Whether the node can do its work, as its runtime says."""

    ready: bool
    why: str = ""
    """One sentence when it is not."""


class Status(msgspec.Struct, frozen=True):
    """What ``/status`` answers, as JSON."""

    ready: bool
    why: str
    snapshot: Snapshot


class Evicting(msgspec.Struct, frozen=True):
    """What ``POST /evict`` answers: that it is under way, not that it is done; done it is only
    where members do not change and the engine goes on without those that crashed."""

    accepted: bool
    members: tuple[str, ...]
    """Of the present view, the one to be evicted too; without it where that is done."""
