"""What can be set for a run of whole nodes in virtual time."""

from __future__ import annotations

import msgspec

from thence.config.node import FlowConfig, TimingConfig
from thence.sim.datagrams import Weather

TIMING = TimingConfig(heartbeat_s=1.0, reconnect_ms_max=500.0)
EVERY_COMMIT = 0
NEVER = 1 << 62


class NodesOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in a run of whole nodes."""

    nodes: int = 3
    seed: int = 1
    messages: int = 12
    """That each application sends."""
    interval_s: float = 0.02
    """Mean time between two steps of an application."""
    latency_s: float = 0.005
    groups: int = 1
    """The first has all nodes as members, further ones some of them."""
    late: int = 0
    """Nodes that are started when the others have been at it for long."""
    breaks: int = 0
    """Connections that break."""
    partitions: int = 0
    kills: int = 0
    """Nodes that are killed between turns."""
    crashes: int = 0
    """Nodes that are killed inside a turn, at an operation of their journal."""
    crash_at: tuple[str, int, str] | None = None
    """The first group of this node, at this operation of its journal, "before" or "after" it."""
    fails: int = 0
    """Journals that fail from some operation on."""
    journal: bool = True
    checkpoint_bytes: int = 1
    """EVERY_COMMIT and NEVER are the extremes."""
    kept: bool = False
    """Applications have their state in the journal (sim/diary.py)."""
    confirms: bool = False
    """Applications confirm by themselves, late and in lots."""
    slow: bool = False
    """One application takes events rarely."""
    turn_s: float = 0.0
    """What happens within up to so long is one turn; 0: everything is a turn of its own."""
    eager: bool = False
    """Applications take and send in the turn in which something arrives."""
    bursts: int = 0
    """The most messages that an application sends in one step, at once."""
    streams: bool = False
    multicasts: bool = False
    """Some messages are for some members only."""
    stability: bool = True
    stability_batch: int = 0
    k: int = 0
    engine: str = "tagged"
    weather: Weather | None = None
    """Connections are links over datagrams, in this weather."""
    flow: FlowConfig = msgspec.field(default_factory=FlowConfig)
