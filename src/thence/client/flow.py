"""What one node knows of the exchange with one peer in one group: both directions, and credit.

Sending: the peer said how far it may be sent (``granted``, ``limit_bytes``) and what it has
(``acked``).  In a group whose members change it gets nothing beyond its view (``ceiling``) either.
Receiving: what is held here for the application counts against what the peer may
send; as the application takes it the limit moves, and the peer is told together with what this
node has.  A limit is an absolute number, so telling it twice or late does no harm.

The peer's next message is always within the limit while nothing of it is held, so that causal
waiting cannot close a circle: among the messages missing here there is one that waits for nothing.
"""

from __future__ import annotations

from typing import Final

from thence.config.node import FlowConfig
from thence.message import PAYLOAD_BYTES_MAX
from thence.wire.talk import MESSAGE_BYTES_EXTRA, Open

NO_CEILING: Final = 1 << 62
"""The ceiling of a peer that may be sent everything."""


class Flow:
    """One peer, as seen by one group."""

    def __init__(self, slot: int, name: str, config: FlowConfig, have: int = 0) -> None:
        self.slot = slot
        self.name = name
        self._messages_max = config.credit_messages
        # The largest message must fit when nothing is held, or it could never be sent.
        self._bytes_max = max(config.credit_bytes, PAYLOAD_BYTES_MAX + MESSAGE_BYTES_EXTRA)
        # What goes there.
        self.is_open = False
        """Both sides have opened the group on the connection that is there."""
        self.acked = 0
        """The number up to which the peer has what this node sent."""
        self._heard = 0  # the same as the peer said it; up to ``acked`` nothing more is for it
        self.sent = 0
        """The number up to which it was sent on this connection."""
        self.resent = 0
        """Messages that were sent again after a connection broke."""
        self.granted = 0
        """The number up to which the peer said it may be sent."""
        self.ceiling = NO_CEILING
        """The number of the last message that was sent in a view that the peer has."""
        self.limit = 0
        """The number up to which it is sent: the smaller of the two."""
        self.room = 0
        """Bytes it may still be sent on this connection."""
        self._granted_bytes = 0  # limit_bytes the last time
        self.view = 0
        """The view that the peer said it has installed."""
        self.is_settled = True
        """Not so for a member that has yet to catch up: it does not hold up this node."""
        # What comes from there.
        self.have = have
        """The number up to which this node has what the peer sent."""
        self.durable = have
        """The same, as the journal has it: what may be acknowledged."""
        self.told = 0
        """What of it the peer was told."""
        self.told_limit = 0
        self.was_open = False
        """In this life of the node the peer has said what it has, and that could be."""
        self.owes_news = False
        """Whether the last phantom is still to be sent there."""
        self.awaits_view = False
        """Whether that phantom waits until the peer is in the view that it was said in."""
        self.ack_at: float | None = None
        """When the peer is to be told at the latest."""
        self.held = 0
        """Messages of the peer that the application has not taken."""
        self.held_bytes = 0
        self._arrived_bytes = 0  # on this connection
        self._told_bytes = 0

    # The connection.

    def opening(self) -> tuple[int, int, int]:
        """Have, limit and limit_bytes, for the frame that opens the group."""
        self._arrived_bytes = self._told_bytes = self.told_limit = 0
        return self.ack()

    def opened(self, said: Open) -> None:
        """The peer opened the group too: go on after what it has."""
        self.is_open = self.was_open = True
        self.acked = self.reached(said.have)
        self.resent += max(0, self.sent - self.acked)
        self.sent = self._heard = said.have
        self.granted = said.limit
        self.limit = min(said.limit, self.ceiling)
        self.room = self._granted_bytes = said.limit_bytes

    def reached(self, have: int) -> int:
        """The number up to which a peer with so much lacks nothing that is for it."""
        return max(have, self.acked) if have >= self._heard else have

    def closed(self) -> None:
        """The connection is gone."""
        self.is_open = False
        self.owes_news = self.awaits_view = False
        self.ack_at = None

    def set_ceiling(self, number: int) -> None:
        """The peer gets nothing after this number for now."""
        self.ceiling = number
        self.limit = min(self.granted, number)

    # Acknowledgements.

    def acknowledged(self, have: int, limit: int, limit_bytes: int) -> None:
        """The peer told what it has and how far it may be sent."""
        self._heard = max(self._heard, have)
        self.acked = max(self.acked, have)
        if limit > self.granted:
            self.granted = limit
            self.limit = limit if limit < self.ceiling else self.ceiling
        if limit_bytes > self._granted_bytes:
            self.room += limit_bytes - self._granted_bytes
            self._granted_bytes = limit_bytes

    def owes_ack(self) -> bool:
        """Whether there is something the peer should be told at once: it may be waiting for it."""
        # Asked of every peer in every turn: _limit and _limit_bytes without the calls.
        most, held = self._messages_max, self.held
        limit = self.have + most - held if held < most else self.have
        if 2 * (limit - self.told_limit) > most:
            return True
        most, held = self._bytes_max, self.held_bytes
        limit = self._arrived_bytes + most - held if held < most else self._arrived_bytes
        return 2 * (limit - self._told_bytes) > most

    def ack(self) -> tuple[int, int, int]:
        """Have, limit and limit_bytes; the peer is told now."""
        self.ack_at = None
        self.told = self.durable
        # What waited in an engine and is ready now is held later than it came: a limit stays.
        self.told_limit = max(self.told_limit, self._limit())
        self._told_bytes = max(self._told_bytes, self._limit_bytes())
        return self.told, self.told_limit, self._told_bytes

    # What the peer sent.

    def repeated(self, size: int) -> None:
        """Messages of so many bytes arrived that were here already."""
        self._arrived_bytes += size

    def arrived(self, count: int, size: int) -> None:
        """So many messages of so many bytes are held now."""
        self.have += count
        self.held += count
        self.held_bytes += size
        self._arrived_bytes += size

    def relayed(self, count: int, size: int) -> None:
        """The same for messages that came through another member, at no cost to the connection."""
        self.have += count
        self.held += count
        self.held_bytes += size

    def fall_back(self, have: int, discarded: int, discarded_bytes: int) -> None:
        """What came after ``have`` is gone, and so many messages of so many bytes that were held
        are among it: the peer is told at the next opening, and sends it again."""
        assert have <= self.have, "nothing can be had by forgetting"
        self.have = self.durable = have
        self.held -= discarded
        self.held_bytes -= discarded_bytes

    def exceeds(self, size: int) -> bool:
        """Whether so many bytes are more than the peer was told that it may send."""
        return self._arrived_bytes + size > self._told_bytes

    def hold(self, size: int) -> None:
        """A message that is here waits for the application."""
        self.held += 1
        self.held_bytes += size

    def taken(self, size: int) -> None:
        """The application took one."""
        self.held -= 1
        self.held_bytes -= size

    def _limit(self) -> int:
        return self.have + max(0, self._messages_max - self.held)

    def _limit_bytes(self) -> int:
        return self._arrived_bytes + max(0, self._bytes_max - self.held_bytes)
