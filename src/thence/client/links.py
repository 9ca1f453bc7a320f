"""One connection of a node and what is known of its other end; the ways to reach peers.

What ``Hub`` keeps of its connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from thence.client.driver import Driver
from thence.transport.base import Connection
from thence.wire import talk

GROUPS_PER_PEER_MAX: Final = 1024
"""Groups that a peer may open before this node has them."""
EARLY_BYTES_MAX: Final = 1 << 20
"""What it may say of them, together."""
REASONS: Final = {
    talk.BAD_VERSION: "bad-version",
    talk.WRONG_NAME: "wrong-name",
    talk.NOT_A_MEMBER: "not-a-member",
    talk.DIFFERENT_GROUP: "different-group",
    talk.LOST_JOURNAL: "lost-journal",
    talk.NONSENSE: "nonsense",
    talk.REPLACED: "replaced",
    talk.YOUR_JOURNAL: "lost-journal",
}
"""How refusals are counted.  Sentences quote peers, and nobody may make up counters."""
SILENT_HEARTBEATS: Final = 3
"""Heartbeats without an answer after which a connection is given up."""
RTT_WEIGHT: Final = 0.125

GUESTS_MAX: Final = 64
"""Connections of those who are no members: they want to join, or were members once."""
CONTACT: Final = "?"
"""Before the address of somebody whose name is not known."""

Notice = Callable[[str, str, str], None]
"""Called with (what, peer or address, detail) for what an operator may want to know."""


class Address(msgspec.Struct):
    """One peer, and the tries to reach it."""

    url: str
    due: float
    """When it may be dialled; infinite while that is under way or there is a connection."""
    node: str = ""
    """Who is there; empty as long as that is not known."""
    tries: int = 0


class Link:
    """One connection and what is known of its other end."""

    def __init__(self, connection: Connection, peer: str, now: float) -> None:
        self.connection = connection
        self.expected = peer
        """Whom this side dialled; empty when it was dialled itself."""
        self.peer = ""
        """Who it is; empty before its HELLO."""
        self.boot = 0
        self.version = 0
        """Of the wire format, that both speak."""
        self.since = now
        self.heard = now
        """When anything arrived."""
        self.asked = 0.0
        """When the last PING was sent; 0 when it was answered."""
        self.channels: dict[int, Driver] = {}
        """By the peer's number, the groups that it has opened."""
        self.early: dict[str, talk.Open] = {}
        """Groups that it has opened and this node does not have."""
        self.early_bytes = 0
        self.opened: dict[str, int] = {}
        """Groups that this side has opened, with this side's number."""
        self.slots: dict[str, int] = {}
        """The slot of the other end in each of these."""
        self.is_guest = False
        """It is no member of any group here, as far as is known."""
        self.rtt_s = 0.0


class Totals(msgspec.Struct):
    """What went through the connections to one peer that are gone."""

    connections: int = 0
    """The present one included."""
    sent_bytes: int = 0
    received_bytes: int = 0
    resent: int = 0
    """Packets of the reliable link (udp) that were sent again."""

    def add(self, connection: Connection) -> None:
        """Count what a connection has carried; not every kind of connection counts."""
        self.sent_bytes += getattr(connection, "sent_bytes", 0)
        self.received_bytes += getattr(connection, "received_bytes", 0)
        stats = getattr(connection, "stats", None)
        self.resent += 0 if stats is None else stats.resent
