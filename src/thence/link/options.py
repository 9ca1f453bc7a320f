"""What can be set on a link, and what can be read from it."""

from __future__ import annotations

from typing import Final

import msgspec

from thence.errors import UnusableInputError
from thence.link.datagram import WINDOW_PACKETS_MAX

WINDOW_PACKETS_ASSUMED: Final = 16
"""What a peer takes before it has said so; nobody may take less."""
MESSAGE_BYTES_MAX: Final = 1 << 18
BACKLOG_BYTES_MAX: Final = 1 << 26


class LinkOptions(msgspec.Struct, frozen=True):
    """Settings of one end; the two ends need not agree.  Times in seconds."""

    retries: int = 5
    """A packet that got no answer is sent again so often; then the peer counts as gone.  With
    time-outs that double from 0.05 to 4 s this takes about 22 s on a near network."""
    ack_delay_s: float = 0.005
    """An acknowledgement waits so long for data that it can travel with."""
    ack_packets: int = 16
    """So many packets are acknowledged at once."""
    keepalive_s: float = 3.0
    """After hearing nothing for so long a PING asks for a sign of life, and again each time."""
    silence_s: float = 15.0
    """A peer that was not heard for so long is gone."""
    window_packets: int = WINDOW_PACKETS_MAX
    """Packets that are taken ahead of a missing one, and the most that are sent ahead."""
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Of one message, in both directions."""
    backlog_bytes_max: int = BACKLOG_BYTES_MAX
    """Accepted and not yet acknowledged; ``Full`` beyond it."""

    def check(self) -> None:
        """UnusableInputError says what cannot be."""
        if self.retries < 0 or self.ack_packets < 1:
            raise UnusableInputError("a link needs retries >= 0 and ack_packets >= 1")
        if not 0 <= self.ack_delay_s < self.keepalive_s < self.silence_s:
            raise UnusableInputError(
                "a link needs 0 <= ack_delay_s < keepalive_s < silence_s, got "
                f"{self.ack_delay_s:g}, {self.keepalive_s:g}, {self.silence_s:g}"
            )
        if not WINDOW_PACKETS_ASSUMED <= self.window_packets <= WINDOW_PACKETS_MAX:
            raise UnusableInputError(
                f"a window of {self.window_packets} packets: expected {WINDOW_PACKETS_ASSUMED} "
                f"to {WINDOW_PACKETS_MAX}"
            )
        if not 0 < self.message_bytes_max < self.backlog_bytes_max:
            raise UnusableInputError("a link needs 0 < message_bytes_max < backlog_bytes_max")


class LinkStats(msgspec.Struct, frozen=True):
    """Counts since the link was made, and where it stands now."""

    sent: int
    """Packets, each counted once."""
    resent: int
    """Packets that were sent again, each time."""
    acked: int
    """Packets that the peer has."""
    received: int
    """Packets that were new here."""
    duplicates: int
    """Packets that were here already."""
    rejected: int
    """Datagrams that are damaged, of another connection, or make no sense."""
    timeouts: int
    """Times that nothing came back within the time-out."""
    rtt_ms: float
    """Smoothed round trip, the peer's acknowledgement delay included; 0 before the first."""
    timeout_ms: float
    window: int
    """Packets that may be on their way: the smaller of what the network and the peer allow."""
    in_flight: int
    """Packets on their way."""
    backlog_bytes: int
    """Accepted and not yet acknowledged."""
