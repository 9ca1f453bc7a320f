"""One end of a connection over datagrams that are lost, doubled, reordered and damaged.

Messages come out at the other end once, in order, whole, or the link fails and says why.  This is
the reliable point-to-point layer of seed 002 (numbered packets, acknowledgements, resending with
doubled time-outs, giving up after n tries, keep-alives) with what was learnt since: selective
acknowledgements, a measured round trip, windows of the peer and of the network.

Theory of operation
- Packets are numbered from 0 in each direction (datagram.py); a packet that is sent again is the
  same packet.  Every datagram says what has arrived, so acknowledgements travel with data; alone
  they go after ``ack_delay_s``, or at once when a packet is missing, came twice or asked for it,
  and when ``ack_packets`` wait (receiver.py).
- sender.py says when a packet counts as lost, window.py how many may be on their way.  The peer's
  window bounds how far the sender goes ahead of a missing packet, and so what the peer holds.
- When ``retries`` time-outs in a row brought nothing, or the peer was not heard for ``silence_s``
  in spite of PINGs, the link fails.  A peer that does not know the connection says RESET: it
  started anew, or gave up, and the link fails at once.
- Who dials says HELLO until it has a cookie (cookie.py), then OPEN.  Whatever is lost of that, it
  starts again with HELLO.

After ``close`` what was accepted is still carried.  The last packet, FIN, ends both directions:
what the peer had not sent by then is lost, as on a broken connection.

After ``outgoing(now)`` the ``deadline()`` is later than ``now``, so whoever waits for it does not
spin.  Nothing a peer sends raises.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

from thence.errors import Full, LimitError, WireError
from thence.link.datagram import (
    ACCEPT,
    ACK,
    ASK,
    COOKIE,
    DATA,
    DATAGRAM_BYTES_MAX,
    HEAD,
    HEAD_BYTES,
    HELLO,
    OPEN,
    PACKET_BYTES_MIN,
    PING,
    RESET,
    RESIDUE,
    SELECTIVE_BYTES_MAX,
    VERSION,
    connection_of,
    cookie_of,
    kind_of,
    opening,
    sealed,
    short,
)
from thence.link.fragment import LENGTH_BYTES
from thence.link.options import LinkOptions, LinkStats
from thence.link.receiver import Receiver
from thence.link.sender import Sender

# Where a connection is.
GREETING: Final = 0
OPENING: Final = 1
OPENED: Final = 2
OVER: Final = 3

DEFAULTS: Final = LinkOptions()


class Link:
    """One end.  Call ``outgoing`` after ``send``, ``receive`` and ``close``, and at ``deadline``.

    ``now`` is in seconds, of a clock that never goes back.
    """

    __slots__ = (
        "_accept_due",
        "_cookie",
        "_greet_at",
        "_heard",
        "_last_words",
        "_options",
        "_pinged",
        "_receiver",
        "_sender",
        "_state",
        "_window_packets",
        "by_peer",
        "closed",
        "connection",
        "failed",
        "rejected",
    )

    def __init__(
        self, connection: int, now: float, *, dialled: bool, options: LinkOptions = DEFAULTS
    ) -> None:
        options.check()
        self.connection = connection
        """64 bits; who dials draws it at random, and never twice."""
        self.failed: str | None = None
        """Why it broke, in a sentence; what was not acknowledged by then may be lost."""
        self.closed = False
        """Nothing comes or goes any more: it failed, or one side closed it."""
        self.by_peer = False
        """It was the peer that closed it."""
        self.rejected = 0
        """Datagrams that were ignored, see ``LinkStats``."""
        self._options = options
        self._window_packets = options.window_packets
        self._state = GREETING if dialled else OPENED
        self._greet_at = now
        """While opening: when to begin again."""
        self._cookie = b""
        """To be sent with OPEN."""
        self._accept_due = not dialled
        self._heard = now
        self._pinged = now
        self._last_words: list[bytes] = []
        self._sender = Sender(options)
        self._receiver = Receiver(options)

    @property
    def opened(self) -> bool:
        """Both ends know the connection, and it is not over."""
        return self._state == OPENED

    @property
    def backlog_bytes(self) -> int:
        """Accepted and not yet acknowledged."""
        return self._sender.backlog_bytes

    @property
    def held_bytes(self) -> int:
        """Received and not yet given out: packets or parts of a message are missing."""
        return self._receiver.held_bytes

    @property
    def stats(self) -> LinkStats:
        """What happened so far."""
        sender, receiver = self._sender, self._receiver
        return LinkStats(
            sent=sender.next,
            resent=sender.resent,
            acked=sender.acked,
            received=receiver.received,
            duplicates=receiver.duplicates,
            rejected=self.rejected,
            timeouts=sender.timeouts,
            rtt_ms=sender.rtt.smooth_s * 1e3,
            timeout_ms=sender.rtt.timeout_s * 1e3,
            window=min(sender.window.packets, sender.peer_packets),
            in_flight=sender.in_flight,
            backlog_bytes=sender.backlog_bytes,
        )

    def send(self, message: bytes) -> None:
        """Carry a message.  Nothing happens once ``close`` was called or the link is over.

        LimitError for a message that is too large; ``Full`` when too much waits already.
        """
        if self._state == OVER or self._sender.closing:
            return
        options, sender = self._options, self._sender
        if len(message) > options.message_bytes_max:
            raise LimitError(
                f"a message of {len(message)} bytes; at most {options.message_bytes_max} are sent"
            )
        if sender.backlog_bytes + len(message) + LENGTH_BYTES > options.backlog_bytes_max:
            raise Full(f"{sender.backlog_bytes} bytes wait to be acknowledged by the peer")
        sender.add(message)

    def close(self) -> None:
        """Carry what was accepted, then end the connection; may be called again."""
        if self._state == OPENED:
            self._sender.closing = True
        elif self._state != OVER:
            # The other side may have taken an OPEN: whatever it keeps is of no use now.
            self._last_words = [short(RESET, self.connection)]
            self._end(None)

    def fail(self, reason: str, *, tell: bool = True) -> None:
        """Break off at once; a RESET tells the peer, unless nobody is there to be told."""
        if self._state != OVER:
            if tell and self._state != GREETING:
                self._last_words = [short(RESET, self.connection)]
            self._end(reason)

    def deadline(self) -> float | None:
        """When to call ``outgoing`` next if nothing happens before; None once it is over."""
        if self._state != OPENED:
            return None if self._state == OVER else self._greet_at
        options = self._options
        heard, pinged = self._heard, self._pinged
        soonest = (pinged if pinged > heard else heard) + options.keepalive_s
        silent = heard + options.silence_s
        if silent < soonest:
            soonest = silent
        resend_at, ack_at = self._sender.resend_at, self._receiver.ack_at
        if resend_at is not None and resend_at < soonest:
            soonest = resend_at
        if ack_at is not None and ack_at < soonest:
            soonest = ack_at
        return soonest

    # ---- what arrives --------------------------------------------------------------------------

    def receive(self, datagram: bytes, now: float) -> list[bytes]:
        """Take a datagram in; the messages that are whole and in order now.  Never raises."""
        if self._state == OVER:
            return []
        size = len(datagram)
        if not PACKET_BYTES_MIN <= size <= DATAGRAM_BYTES_MAX:
            self._receive_short(datagram, now)
            return []
        version, kind, connection, number, ack, window, selective = HEAD.unpack_from(datagram)
        plain = kind & ~ASK
        start = HEAD_BYTES + selective
        if (
            crc32(datagram) != RESIDUE
            or version != VERSION
            or connection != self.connection
            or not DATA <= plain <= PING
            or selective > SELECTIVE_BYTES_MAX
            or start > size - 4
        ):
            self.rejected += 1
            return []
        bits = int.from_bytes(datagram[HEAD_BYTES:start], "little") if selective else 0
        sender, receiver = self._sender, self._receiver
        if ack != sender.first or bits:
            if not sender.acknowledged(ack, bits, now):
                self.rejected += 1
                return []
            if sender.finished:
                self._end(None)
                return []
        sender.peer_packets = window or 1  # a closed window is tried with one packet
        self._heard = now
        if self._state != OPENED:
            self._open()  # ACCEPT was lost, or overtaken
        if kind != plain or kind == PING:
            receiver.ack_now = True
        if plain >= ACK:
            return []
        try:
            messages = receiver.take(number, plain, datagram[start:-4], now)
        except WireError as error:
            self.fail(f"the peer sent {error}")
            return []
        if messages is None:
            self.rejected += 1
            return []
        if receiver.ended:
            self._last_words = [self._packet(ACK, sender.next)]
            self.by_peer = True
            self._end(None)
        return messages

    def _receive_short(self, datagram: bytes, now: float) -> None:
        """Everything that is no packet."""
        kind = kind_of(datagram)
        if kind == 0 or connection_of(datagram) != self.connection:
            self.rejected += 1
        elif kind == COOKIE and self._state == GREETING:
            # One OPEN for one cookie: copies of it bring nothing more about.
            self._state = OPENING
            self._cookie = cookie_of(datagram)
            rtt = self._sender.rtt
            if self._sender.tries == 1:
                rtt.sample(now - self._greet_at + rtt.timeout_s)
            self._greet_at = now + rtt.timeout_s
        elif kind == ACCEPT and self._state in (GREETING, OPENING):
            self._open()
            self._heard = now
        elif kind == OPEN and self._state == OPENED:
            self._accept_due = True
        elif kind == RESET:
            if self._sender.closing:
                self._end(None)
            elif self._state == OPENED:
                self._end("the peer does not know this connection any more")

    def _open(self) -> None:
        self._state = OPENED
        self._cookie = b""
        self._sender.tries = 0

    def _end(self, failed: str | None) -> None:
        self._state = OVER
        self.closed = True
        self.failed = failed

    @property
    def urgent(self) -> bool:
        """Whether ``outgoing`` may have something to say before ``deadline``."""
        return (
            self._receiver.ack_now
            or self._sender.waiting
            or self._accept_due
            or self._state != OPENED
        )

    # ---- what leaves ---------------------------------------------------------------------------

    def outgoing(self, now: float) -> list[bytes]:
        """The datagrams to put on the wire now, in this order."""
        if self._state != OPENED:
            return self._outgoing_unopened(now)
        sender, receiver, options = self._sender, self._receiver, self._options
        out: list[bytes] = []
        if now >= self._heard + options.silence_s:
            self._end(f"the peer was silent for {options.silence_s:g} s")
            return out
        if sender.resend_at is not None and now >= sender.resend_at:
            sender.waited(now)
            if sender.tries > options.retries:
                self._end(f"the peer acknowledged nothing after {options.retries} retries")
                return out
        if self._accept_due:
            self._accept_due = False
            out.append(short(ACCEPT, self.connection))
        if sender.waiting:
            for packet in sender.ready(now):
                out.append(self._packet(packet.kind, packet.number, packet.payload))
                receiver.acked()
        keepalive_at = options.keepalive_s + (
            self._pinged if self._pinged > self._heard else self._heard
        )
        if now >= keepalive_at:
            self._pinged = now
            out.append(self._packet(PING, sender.next))
            receiver.acked()
        elif receiver.ack_now or (receiver.ack_at is not None and now >= receiver.ack_at):
            out.append(self._packet(ACK, sender.next))
            receiver.acked()
        return out

    def _packet(self, kind: int, number: int, payload: bytes = b"") -> bytes:
        """A datagram with the head of a packet: what has arrived is said along with it."""
        receiver = self._receiver
        selective = b""
        if receiver.seen:
            bits = receiver.seen
            selective = bits.to_bytes((bits.bit_length() + 7) >> 3, "little")
        head = HEAD.pack(
            VERSION,
            kind,
            self.connection,
            number,
            receiver.expected,
            self._window_packets,
            len(selective),
        )
        return sealed(head + selective + payload)

    def _outgoing_unopened(self, now: float) -> list[bytes]:
        if self._state == OVER:
            words, self._last_words = self._last_words, []
            return words
        if self._cookie:
            cookie, self._cookie = self._cookie, b""
            return [opening(OPEN, self.connection, cookie)]
        if now < self._greet_at:
            return []
        sender, retries = self._sender, self._options.retries
        if sender.tries > retries:
            self._end(f"nobody answers after {retries} retries")
            return []
        if sender.tries:
            sender.rtt.back_off()
        sender.tries += 1
        self._state = GREETING
        self._greet_at = now + sender.rtt.timeout_s
        return [opening(HELLO, self.connection)]
