"""The receiving half of a link: packets in any order, messages in order; what to acknowledge when.

Invariant: held packets lie in ``(expected, expected + window)``, and bit k of ``seen`` is set
exactly when packet ``expected + 1 + k`` is held.
"""

from __future__ import annotations

from thence.link.datagram import DATA
from thence.link.fragment import Joiner
from thence.link.options import LinkOptions


class Receiver:
    """What came from the peer.  Times in seconds."""

    __slots__ = (
        "_ack_delay_s",
        "_ack_packets",
        "_held",
        "_joiner",
        "_unacked",
        "_window",
        "ack_at",
        "ack_now",
        "duplicates",
        "ended",
        "expected",
        "received",
        "seen",
    )

    def __init__(self, options: LinkOptions) -> None:
        self.expected = 0
        """The first packet that is missing."""
        self.seen = 0
        """Selective acknowledgement: bit k is packet ``expected + 1 + k``."""
        self.ack_now = False
        """An acknowledgement is due at once."""
        self.ack_at: float | None = None
        """When one is due."""
        self.ended = False
        """The peer's last packet was reached."""
        self.received = 0
        self.duplicates = 0
        self._ack_delay_s = options.ack_delay_s
        self._ack_packets = options.ack_packets
        self._window = options.window_packets
        self._joiner = Joiner(options.message_bytes_max)
        self._held: dict[int, tuple[int, bytes]] = {}
        self._unacked = 0

    @property
    def held_bytes(self) -> int:
        """Of packets that wait for a missing one, and of a message that is not whole."""
        return self._joiner.held_bytes + sum(len(payload) for _, payload in self._held.values())

    def take(self, number: int, kind: int, payload: bytes, now: float) -> list[bytes] | None:
        """A packet; the messages that are whole now, None for a packet beyond the window.

        WireError for a message above the limit.
        """
        ahead = number - self.expected
        if ahead < 0 or (ahead and number in self._held):
            self.duplicates += 1
            self.ack_now = True
            return []
        if ahead >= self._window:
            return None
        self.received += 1
        self._unacked += 1
        if self._unacked >= self._ack_packets:
            self.ack_now = True
        elif self.ack_at is None:
            self.ack_at = now + self._ack_delay_s
        if ahead:
            self._held[number] = (kind, payload)
            self.seen |= 1 << (ahead - 1)
            self.ack_now = True
            return []
        self.expected += 1
        messages: list[bytes] = []
        if kind == DATA:
            messages = self._joiner.feed(payload)
        else:
            self.ended = True
        if self.seen:
            self.ack_now = True
            self._take_held(messages)
        return messages

    def _take_held(self, messages: list[bytes]) -> None:
        """The first of the held packets is next now, perhaps."""
        while self.seen & 1:
            kind, payload = self._held.pop(self.expected)
            self.seen >>= 1
            self.expected += 1
            if self.ended:
                continue  # only a peer that breaks the rules sends more
            if kind == DATA:
                messages += self._joiner.feed(payload)
            else:
                self.ended = True
        self.seen >>= 1

    def acked(self) -> None:
        """What has arrived was said to the peer."""
        self.ack_now = False
        self.ack_at = None
        self._unacked = 0
