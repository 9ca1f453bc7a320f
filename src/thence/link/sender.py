"""The sending half of a link: what is on its way, what is lost, what may go next.

A packet is lost when REORDER_PACKETS that left after it have arrived, or one that did while it is
out for longer than a round trip, or when nothing arrived within the time-out; then all that are on
their way are lost.  The order is that of transmission, not of numbers, so a packet that was sent
again can be found lost again without a time-out.  The arrival of a packet that was sent twice is
evidence only if it is not too early to be that of its last copy.

When nothing arrives for two round trips the oldest packet is sent again, once: a *probe*.  Mostly
it was the last of a burst, which nothing follows that could show its loss.  What the probe brings
back shows the loss of the others too; the time-out and the small window after it are for a path
that is silent.

Invariants
- A packet p with ``first <= p < next`` is in ``_flight``, or its bit in ``_selected`` is set.
- ``in_flight`` counts the packets of ``_flight`` that are FLYING; all of them are in ``_sent``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from thence.link.datagram import ASK, DATA, FIN
from thence.link.fragment import Cutter
from thence.link.options import WINDOW_PACKETS_ASSUMED, LinkOptions
from thence.link.rtt import GRANULARITY_S, Rtt
from thence.link.window import Window

REORDER_PACKETS: Final = 3
REORDER_ROUND_TRIPS: Final = 1.25
PROBE_ROUND_TRIPS: Final = 2.0
PROBE_S_MIN: Final = 0.015
"""More than the usual delay of an acknowledgement."""

FLYING: Final = 0
LOST: Final = 1
ARRIVED: Final = 2


class Packet:
    """One packet until it is acknowledged."""

    __slots__ = ("kind", "number", "order", "payload", "sent_at", "state", "tries")

    def __init__(self, number: int, kind: int, payload: bytes) -> None:
        self.number = number
        self.kind = kind
        """DATA or FIN, with ASK or not."""
        self.payload = payload
        self.state = FLYING
        self.tries = 0
        self.order = 0
        """Of its last transmission among all transmissions, from 1."""
        self.sent_at = 0.0


class Sender:
    """What goes to the peer.  Times in seconds."""

    __slots__ = (
        "_cutter",
        "_fin",
        "_flight",
        "_flight_bytes",
        "_limited",
        "_lost",
        "_newest",
        "_order",
        "_probe_next",
        "_probes",
        "_reduced",
        "_selected",
        "_sent",
        "acked",
        "closing",
        "first",
        "in_flight",
        "next",
        "peer_packets",
        "resend_at",
        "resent",
        "rtt",
        "timeouts",
        "tries",
        "window",
    )

    def __init__(self, options: LinkOptions) -> None:
        self.first = 0
        """The first packet that the peer is not known to have."""
        self.next = 0
        """The number of the next new packet."""
        self.in_flight = 0
        self.peer_packets = WINDOW_PACKETS_ASSUMED
        """How many the peer takes, from ``first`` on."""
        self.resend_at: float | None = None
        """When to probe, or when what is on its way counts as lost; None when nothing is."""
        self.tries = 0
        """Time-outs since anything was acknowledged."""
        self.closing = False
        """A FIN follows what was accepted."""
        self.rtt = Rtt()
        self.window = Window(options.window_packets)
        self.acked = 0
        self.resent = 0
        self.timeouts = 0
        self._cutter = Cutter()
        self._fin: Packet | None = None
        self._flight: dict[int, Packet] = {}
        self._flight_bytes = 0
        self._sent: deque[Packet] = deque()
        """In order of transmission; what arrived is taken out when it reaches the front."""
        self._lost: deque[Packet] = deque()
        self._order = 0
        """Transmissions so far."""
        self._newest = 0
        """The latest transmission that is known to have arrived."""
        self._reduced = 0
        """Losses up to this transmission were answered by a smaller window."""
        self._selected = 0
        """Selectively acknowledged: bit k is packet ``first + 1 + k``."""
        self._probe_next = False
        """``resend_at`` is for a probe."""
        self._probes = 0
        """Since the last sample.  Each makes the next wait twice as long: on a path that became
        slower every packet would be probed, and never give a sample again."""
        self._limited = False
        """The window held something back since the last acknowledgement."""

    @property
    def backlog_bytes(self) -> int:
        """Accepted and not yet acknowledged."""
        return self._cutter.size + self._flight_bytes

    @property
    def finished(self) -> bool:
        """The peer has all, FIN included."""
        return self._fin is not None and not self._flight

    def add(self, message: bytes) -> None:
        """Send this after what waits already."""
        self._cutter.add(message)

    # ---- acknowledgements ----------------------------------------------------------------------

    def acknowledged(self, ack: int, bits: int, now: float) -> bool:
        """The peer has all below ``ack``, and ``ack + 1 + k`` for each bit k; False if that makes
        no sense, and then nothing is changed."""
        if ack + (bits.bit_length() + 1 if bits else 0) > self.next:
            return False
        first = self.first
        if ack < first or (ack == first and not bits):
            return True  # old, or nothing new
        if ack > first and self._selected >> (ack - first - 1) & 1:
            return False  # it takes back what it had acknowledged
        arrived: list[Packet] = []
        if ack > first:
            flight = self._flight
            for number in range(first, ack):
                packet = flight.pop(number, None)
                if packet is not None:  # else selectively acknowledged before
                    arrived.append(packet)
            self._selected >>= ack - first
            self.first = ack
        fresh = bits & ~self._selected
        if fresh:
            self._selected |= fresh
            base = ack + 1
            while fresh:
                low = fresh & -fresh
                fresh ^= low
                arrived.append(self._flight.pop(base + low.bit_length() - 1))
        if arrived:
            self._arrived(arrived, now)
        return True

    def _arrived(self, arrived: list[Packet], now: float) -> None:
        """These are at the peer, as was learnt now."""
        rtt = self.rtt
        smallest = rtt.smallest_s
        newest = self._newest
        sample_order = 0
        sample_s = 0.0
        for packet in arrived:
            self._flight_bytes -= len(packet.payload)
            if packet.state == FLYING:
                self.in_flight -= 1
            packet.state = ARRIVED
            order = packet.order
            if packet.tries == 1:
                if order > sample_order:
                    sample_order = order
                    sample_s = now - packet.sent_at
            elif now - packet.sent_at < smallest:
                continue  # for an earlier copy
            if order > newest:
                newest = order
        count = len(arrived)
        self.acked += count
        self.tries = 0
        if sample_order:
            rtt.sample(sample_s)
            self._probes = 0
        if self._limited:
            self.window.acked(count)
            self._limited = False
        self._newest = newest
        sent = self._sent
        lost_order = newest - REORDER_PACKETS
        lost_at = now - REORDER_ROUND_TRIPS * rtt.smooth_s - GRANULARITY_S
        while sent:
            packet = sent[0]
            if packet.state == FLYING:
                order = packet.order
                if order > lost_order and (order > newest or packet.sent_at > lost_at):
                    break
                self._lose(packet)
            sent.popleft()
        if self._flight:
            self._wait(now)
        else:
            self.resend_at = None

    def _wait(self, now: float) -> None:
        """Set the time of the probe, or of the time-out where that is sooner."""
        rtt = self.rtt
        wait_s = rtt.timeout_s
        probe_s = PROBE_ROUND_TRIPS * rtt.smooth_s
        if probe_s < PROBE_S_MIN:
            probe_s = PROBE_S_MIN
        probe_s *= 1 << self._probes
        self._probe_next = rtt.smooth_s > 0.0 and probe_s < wait_s
        self.resend_at = now + (probe_s if self._probe_next else wait_s)

    def _lose(self, packet: Packet) -> None:
        packet.state = LOST
        self.in_flight -= 1
        self._lost.append(packet)
        if packet.order > self._reduced:
            self._reduced = self._order
            self.window.lost()

    def waited(self, now: float) -> None:
        """``resend_at`` came and nothing arrived: ``ready`` has what follows from that."""
        if self._probe_next:
            self._probe_next = False
            self._probes += 1
            self.resend_at = now + self.rtt.timeout_s
            self._probe()
        else:
            self._time_out()
            self.resend_at = now + self.rtt.timeout_s

    def _probe(self) -> None:
        sent = self._sent
        while sent and sent[0].state != FLYING:
            sent.popleft()
        if sent and not self._lost:
            packet = sent.popleft()
            packet.state = LOST
            self.in_flight -= 1
            self._lost.append(packet)

    def _time_out(self) -> None:
        """All that is on its way is lost."""
        self.tries += 1
        self.timeouts += 1
        for packet in self._sent:
            if packet.state == FLYING:
                packet.state = LOST
                self._lost.append(packet)
        self._sent.clear()
        self.in_flight = 0
        self._reduced = self._order
        self.window.timed_out()
        self.rtt.back_off()

    # ---- what goes next ------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Something may go as soon as the windows allow it."""
        return bool(self._lost or self._cutter.size or (self.closing and self._fin is None))

    def ready(self, now: float) -> list[Packet]:
        """The packets to put on the wire now, lost ones first."""
        limit = self.window.packets
        out: list[Packet] = []
        lost = self._lost
        while lost and self.in_flight < limit:
            packet = lost.popleft()
            if packet.state == LOST:
                packet.state = FLYING
                self.resent += 1
                packet.kind |= ASK
                self._transmit(packet, now)
                out.append(packet)
        end = self.first + self.peer_packets
        half = (limit if limit < self.peer_packets else self.peer_packets) >> 1
        cutter = self._cutter
        while self.in_flight < limit and self.next < end:
            if cutter.size:
                packet = Packet(self.next, DATA, cutter.take())
            elif self.closing and self._fin is None:
                packet = self._fin = Packet(self.next, FIN, b"")
            else:
                break
            self._flight[self.next] = packet
            self._flight_bytes += len(packet.payload)
            self.next += 1
            self._transmit(packet, now)
            if self.in_flight >= limit or self.next >= end or self.in_flight == half:
                packet.kind |= ASK  # else the window would soon hold others back
            out.append(packet)
        if self.in_flight >= limit:
            self._limited = True
        if out and self.resend_at is None:
            self._wait(now)
        return out

    def _transmit(self, packet: Packet, now: float) -> None:
        self._order += 1
        packet.order = self._order
        packet.tries += 1
        packet.sent_at = now
        self.in_flight += 1
        self._sent.append(packet)
