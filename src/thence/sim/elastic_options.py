"""What can be set for a run of whole nodes whose members come, go and crash."""

from __future__ import annotations

import msgspec

from thence.config.node import FlowConfig, MembershipConfig, TimingConfig
from thence.sim.datagrams import Weather

MEMBERSHIP = MembershipConfig(
    elastic=True, beat_ms=80.0, suspect_s=0.4, suspect_phi=0.0, evict_s=0.6, join_s=3.0,
    joins_per_s=50.0, chunk_bytes=1024,
)  # fmt: skip
TIMING = TimingConfig(heartbeat_s=1.0, reconnect_ms_max=300.0, phantom_ms_min=5.0)


class ElasticOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a run of nodes whose members change."""

    nodes: int = 3
    """Founders."""
    seed: int = 1
    messages: int = 12
    """That each life of a node sends, about."""
    payload_bytes: int = 0
    """Of each message at least."""
    busy_s: float = 1.5
    """Within this time applications send and things happen."""
    interval_s: float = 0.03
    """Mean time between two steps of an application."""
    latency_s: float = 0.005
    talkers: int = 1 << 16
    """So many nodes send; the others only listen."""
    slow_link_s: float = 0.0
    """What is sent from some founder to some other node takes so much longer."""
    joins: int = 0
    leaves: int = 0
    crashes: int = 0
    """Nodes that are killed."""
    journal: bool = False
    kept: bool = False
    """Applications have their state in the journal too (sim/diary.py)."""
    restarts: float = 0.7
    """Share of those killed that come back as the same member, with a journal."""
    faults: int = 0
    """Nodes that are killed inside a turn, at an operation of their journal."""
    rejoins: float = 0.5
    """Share of those killed or evicted that come back as another incarnation."""
    partitions: int = 0
    partition_s: float = 2.0
    """How long one lasts at most."""
    breaks: int = 0
    stops: int = 0
    """Nodes that are cut off alone, for long enough to be evicted."""
    aimed: bool = False
    """Faults come when a view is being agreed on."""
    bursts: int = 0
    turn_s: float = 0.0
    slow: bool = False
    """One application takes events rarely."""
    stability_batch: int = 0
    weather: Weather | None = None
    flow: FlowConfig = msgspec.field(default_factory=FlowConfig)
    membership: MembershipConfig = MEMBERSHIP
