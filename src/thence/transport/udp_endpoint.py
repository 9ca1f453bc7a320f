"""One UDP socket, the connections on it, and how both are driven by the event loop.

The socket is drained when it is readable, READS_PER_TURN datagrams at most; then every handler
hears once.  What is to be sent leaves in one go at the end of the turn, acknowledgements of what
came in it included.  When the system takes no more, links are not asked for more either.

Links are given ``time.monotonic``, not the loop's time: uvloop's counts milliseconds, more than a
round trip on a near network.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

import msgspec

from thence.errors import Full, UnreachableError, WireError
from thence.link.cookie import Gate
from thence.link.datagram import (
    DATA,
    DATAGRAM_BYTES_MAX,
    RESET,
    connection_of,
    kind_of,
    short,
)
from thence.link.faults import FaultFilter
from thence.link.options import LinkOptions, LinkStats
from thence.link.reliable import Link
from thence.link.sender import PROBE_S_MIN
from thence.transport.base import BACKLOG_BYTES_HIGH, Handler
from thence.transport.watch import (
    BAD_FRAME,
    CROWDED,
    CUT_FRAME,
    NEVER_TRUSTED,
    STALLED_FRAME,
    Limits,
    Watch,
)
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

READS_PER_TURN: Final = 128
"""Datagrams that are read before others in the loop have their turn."""
TIMER_S_MIN: Final = 0.001
"""Timers of event loops are no finer."""
BACKLOG_BYTES_LOW: Final = BACKLOG_BYTES_HIGH // 2
"""A congested connection is congested no more."""
GONE_MAX: Final = 1024
"""Connections that ended lately, whose datagrams may still come: that is no fault."""

# What is reported beside what all transports report (watch.py).
BAD_DATAGRAM: Final = "bad-datagram"
NOT_SENT: Final = "not-sent"
NOT_RECEIVED: Final = "not-received"


def _spell(sockaddr: Any) -> str:
    host = f"[{sockaddr[0]}]" if ":" in sockaddr[0] else sockaddr[0]
    return f"{host}:{sockaddr[1]}"


class Settings(msgspec.Struct, frozen=True):
    """What the sockets of one transport share."""

    options: LinkOptions
    connections_max: int
    """Of one listener."""
    faults: FaultFilter | None


class UdpConnection:
    """One connection; see transport/base.py."""

    def __init__(
        self, endpoint: Endpoint, link: Link, sockaddr: Any, dialled: bool, handler: Handler
    ) -> None:
        self.dialled = dialled
        self.address = _spell(sockaddr)
        self.peer_name: str | None = None
        self.backlog_bytes = 0
        self.sent_bytes = 0
        """Of frames, each counted once."""
        self.received_bytes = 0
        self.link = link
        self.target = sockaddr
        """Where its datagrams go and come from."""
        self.opening: asyncio.Future[None] | None = None
        """While it is dialled."""
        self.dirty = False
        """It will be pumped at the end of the turn."""
        self._endpoint = endpoint
        self._handler = handler
        self._reader = FrameReader()
        self._outbox: list[bytes] = []
        self._congested = False
        self._refused = False
        self._closing: str | None = None
        self._trusted = False
        self._since = endpoint.loop.time()
        """Loop's time when it opened; later, of its last progress; then, when it was closed."""
        self._received = -1
        self._rejected = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    @property
    def stats(self) -> LinkStats:
        """Of its link: packets, round trip, window."""
        return self.link.stats

    def send(self, data: bytes) -> None:
        """Carry the bytes of whole frames; they leave at the end of the turn."""
        if self._closing is not None or self.link.closed:
            return
        self._outbox.append(data)
        self.backlog_bytes += len(data)
        if self.backlog_bytes > BACKLOG_BYTES_HIGH:
            self._congested = True
        if not self.dirty:
            self._endpoint.wake(self)

    def trust(self) -> None:
        """Take large frames."""
        self._reader.limit = FRAME_BYTES_MAX
        self._trusted = True
        self._endpoint.watch.trusted(self)

    def close(self, reason: str) -> None:
        """Carry what was accepted, then close.  What arrives from now on is not given out."""
        if self._closing is None:
            self._closing = reason
            self._since = self._endpoint.loop.time()
            self._endpoint.wake(self)

    # ---- called by the watch -------------------------------------------------------------------

    def look(self, now: float, limits: Limits) -> None:
        """Give up when a deadline has passed."""
        if self._closing is not None:
            if now - self._since >= limits.close_s:
                self._break(self._closing)
        elif not self._trusted:
            if now - self._since >= limits.greeting_s:
                self.refuse(NEVER_TRUSTED, f"did not say who it is within {limits.greeting_s:g} s")
        elif not self._reader.held_bytes or self._received != self.link.stats.received:
            self._received = self.link.stats.received
            self._since = now
        elif now - self._since >= limits.stall_s:
            self.refuse(STALLED_FRAME, f"sent nothing of a frame for {limits.stall_s:g} s")

    def refuse(self, what: str, reason: str) -> None:
        """Report, and break off at once."""
        self._refused = True
        self._endpoint.watch.report(what, f"{self.address}: {reason}")
        self._break(reason)

    def _break(self, reason: str) -> None:
        self.link.fail(reason)
        self._endpoint.wake(self)

    # ---- called by the endpoint ----------------------------------------------------------------

    def accepted(self) -> None:
        """It is new, and this side did not make it."""
        self._call(self._handler.connected, self)

    def receive(self, messages: list[bytes]) -> None:
        """Messages of the link, in order."""
        rejected = self.link.rejected
        for _ in range(rejected - self._rejected):
            self._endpoint.watch.report(BAD_DATAGRAM, f"{self.address}: damaged, or out of place")
        self._rejected = rejected
        if self.opening is not None:
            self._announce()
        if messages and self._closing is None:
            data = messages[0] if len(messages) == 1 else b"".join(messages)
            self.received_bytes += len(data)
            try:
                frames = self._reader.feed(data)
            except WireError as error:
                self._endpoint.watch.report(BAD_FRAME, f"{self.address}: {error}")
                self.close(f"the peer sent {error}")
            else:
                if frames:
                    self._call(self._handler.received, self, frames)

    def pump(self, now: float) -> None:
        """Put on the wire what there is, and see how things stand."""
        link = self.link
        if self._outbox:
            self._fill()
        if self._closing is not None:
            link.close()
        datagrams = link.outgoing(now)
        if datagrams:
            self._endpoint.put(datagrams, self.target)
        self.settle(now)

    def settle(self, now: float) -> None:
        """Tell the handler what changed; set the timer."""
        link = self.link
        if self.opening is not None:
            self._announce()
        self.backlog_bytes = backlog = link.backlog_bytes + sum(map(len, self._outbox))
        if link.closed:
            self._closed()
        else:
            # No new deadline is sooner than this: while a timer fires before, it will do.
            if self._timer is None or self._timer_at > now + self._endpoint.soon_s:
                self._set_timer(now)
            if backlog > BACKLOG_BYTES_HIGH:
                self._congested = True  # the link's lengths count too: the owner may see it now
            elif self._congested and backlog <= BACKLOG_BYTES_LOW:
                self._congested = False
                self._call(self._handler.drained, self)

    def _fill(self) -> None:
        """Give the link what was sent in this turn."""
        outbox, self._outbox = self._outbox, []
        data = outbox[0] if len(outbox) == 1 else b"".join(outbox)
        self.sent_bytes += len(data)
        limit = self._endpoint.options.message_bytes_max
        try:
            if len(data) <= limit:
                self.link.send(data)
            else:
                for at in range(0, len(data), limit):
                    self.link.send(data[at : at + limit])
        except Full as error:
            self.link.fail(f"more was sent than the peer takes: {error}")

    def _call(self, method: Callable[..., None], *arguments: object) -> None:
        """Call the handler.  What it does wrong must not cost other connections anything."""
        try:
            method(*arguments)
        except Exception as error:
            self.link.fail(f"its handler failed: {error!r}")
            self._endpoint.loop.call_exception_handler(
                {"message": "a handler of a connection failed", "exception": error}
            )

    def _announce(self) -> None:
        if self.opening is not None and self.link.opened:
            opening, self.opening = self.opening, None
            self._since = self._endpoint.loop.time()
            self._call(self._handler.connected, self)
            if not opening.done():
                opening.set_result(None)

    def _closed(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._endpoint.forget(self):
            return
        link = self.link
        if self._reader.held_bytes and self._closing is None and not self._refused:
            self._endpoint.watch.report(CUT_FRAME, f"{self.address}: in the middle of a frame")
        reason = link.failed or "the peer closed the connection"
        if self._closing is not None and (link.failed is None or link.backlog_bytes == 0):
            reason = self._closing  # the peer has everything, and whether it said so matters little
        if self.opening is None:
            self._call(self._handler.closed, self, reason)
        elif not self.opening.done():
            self.opening.set_exception(UnreachableError(reason))

    def _set_timer(self, now: float) -> None:
        """A timer that is early is left alone and set again when it fires: deadlines move with
        every packet, and most of them later."""
        deadline = self.link.deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = max(deadline, now + TIMER_S_MIN)
        self._timer = self._endpoint.loop.call_later(self._timer_at - now, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now = monotonic()
        deadline = self.link.deadline()
        if deadline is not None and deadline > now:
            self._set_timer(now)
            return
        # After a pause of this process, what the peer said meanwhile waits in the socket: it must
        # be heard before the peer is taken for silent.
        self._endpoint.readable()
        self._endpoint.wake(self)


class Endpoint:
    """One socket and its connections."""

    def __init__(
        self,
        settings: Settings,
        sock: socket.socket,
        handler: Handler,
        gate: Gate | None,
        watch: Watch,
    ) -> None:
        self.options = settings.options
        self.loop = asyncio.get_running_loop()
        self.watch = watch
        self.soon_s = min(settings.options.ack_delay_s, PROBE_S_MIN)
        self.accepting = gate is not None
        self._settings = settings
        self._sock = sock
        self._handler = handler
        self._gate = gate
        self._peers: dict[int, UdpConnection] = {}
        self._gone: dict[int, None] = {}
        self._dirty: list[UdpConnection] = []
        self._flush_due = False
        self._unsent: deque[tuple[bytes, Any]] = deque()
        """The system takes no more for now."""
        self._open = True
        self.loop.add_reader(sock.fileno(), self.readable)

    def add(self, connection: int, sockaddr: Any, dialled: bool) -> UdpConnection:
        """A new connection."""
        link = Link(connection, monotonic(), dialled=dialled, options=self.options)
        peer = UdpConnection(self, link, sockaddr, dialled, self._handler)
        self._peers[connection] = peer
        self.watch.opened(peer)
        return peer

    def forget(self, peer: UdpConnection) -> bool:
        """It is over; False if that was known."""
        if self._peers.pop(peer.link.connection, None) is None:
            return False
        self._gone[peer.link.connection] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]
        self.watch.gone(peer)
        self.close_if_unused()
        return True

    def close_if_unused(self) -> None:
        """Give the socket back once nobody needs it and the last words have left."""
        if self._open and not (self.accepting or self._peers or self._unsent):
            self._open = False
            self.loop.remove_reader(self._sock.fileno())
            self._sock.close()

    # ---- in ------------------------------------------------------------------------------------

    def readable(self) -> None:
        """Drain the socket, then tell the handlers."""
        peers, now = self._peers, monotonic()
        touched: dict[UdpConnection, list[bytes]] = {}
        recvfrom = self._sock.recvfrom
        for _ in range(READS_PER_TURN):
            if not self._open:
                break
            try:
                datagram, sockaddr = recvfrom(DATAGRAM_BYTES_MAX + 1)
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionRefusedError:
                self._refused()
                break
            except OSError as error:
                self.watch.report(NOT_RECEIVED, str(error))
                break
            peer = peers.get(connection_of(datagram))
            if peer is None or peer.target != sockaddr:
                self._stranger(datagram, sockaddr, now)
                continue
            messages = peer.link.receive(datagram, now)
            if peer in touched:
                touched[peer] += messages
            else:
                touched[peer] = messages
        for peer, messages in touched.items():
            peer.receive(messages)
            if peer.link.urgent:
                self.wake(peer)
            elif not peer.dirty:
                peer.settle(now)

    def _stranger(self, datagram: bytes, sockaddr: Any, now: float) -> None:
        """A datagram of no connection here.  No answer is longer than it."""
        gate = self._gate
        where = _spell(sockaddr)
        if gate is not None and self.accepting:
            answer = gate.greet(datagram, where, now)
            if answer is not None:
                self.put([answer], sockaddr)
                return
            if len(self._peers) >= self._settings.connections_max:
                self.watch.report(CROWDED, f"{where}: {len(self._peers)} connections are open")
                return
            connection = gate.admit(datagram, where, now)
            if connection is not None and connection not in self._peers:
                peer = self.add(connection, sockaddr, dialled=False)
                peer.accepted()
                self.wake(peer)
                return
        connection = connection_of(datagram)
        if connection not in self._gone:
            self.watch.report(BAD_DATAGRAM, f"{where}: {len(datagram)} bytes of no connection")
        if kind_of(datagram) >= DATA and connection not in self._peers:
            self.put([short(RESET, connection)], sockaddr)

    def _refused(self) -> None:
        """The system says that nobody listens where this socket is connected to."""
        for peer in list(self._peers.values()):
            peer.link.fail("nobody listens there", tell=False)
            self.wake(peer)

    # ---- out -----------------------------------------------------------------------------------

    def wake(self, peer: UdpConnection) -> None:
        """Pump it at the end of this turn."""
        if not peer.dirty:
            peer.dirty = True
            self._dirty.append(peer)
            if not self._flush_due:
                self._flush_due = True
                self.loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        if self._unsent:
            return  # ``_writable`` flushes
        dirty, self._dirty = self._dirty, []
        now = monotonic()
        for peer in dirty:
            peer.dirty = False
            peer.pump(now)

    def put(self, datagrams: list[bytes], target: Any) -> None:
        """On the wire, through the faults that were asked for."""
        faults = self._settings.faults
        if faults is None:
            self._put(datagrams, target)
            return
        for datagram in datagrams:
            for delay_s, copy in faults.passes(datagram):
                if delay_s > 0.0:
                    self.loop.call_later(delay_s, self._put, [copy], target)
                else:
                    self._put([copy], target)

    def _put(self, datagrams: list[bytes], target: Any) -> None:
        if self._unsent or not self._open:
            if self._open:
                self._unsent += [(datagram, target) for datagram in datagrams]
            return
        sock = self._sock
        connected = self._gate is None
        for at, datagram in enumerate(datagrams):
            try:
                if connected:
                    sock.send(datagram)
                else:
                    sock.sendto(datagram, target)
            except (BlockingIOError, InterruptedError):
                self._unsent += [(rest, target) for rest in datagrams[at:]]
                self.loop.add_writer(sock.fileno(), self._writable)
                return
            except ConnectionRefusedError:
                self._refused()
                return
            except OSError as error:
                # As good as lost: the link sends it again.
                self.watch.report(NOT_SENT, f"{_spell(target)}: {error}")

    def _writable(self) -> None:
        unsent, self._unsent = self._unsent, deque()
        self.loop.remove_writer(self._sock.fileno())
        while unsent:
            datagram, target = unsent.popleft()
            self._put([datagram], target)
            if self._unsent:
                self._unsent += unsent
                return
        self._flush()
        self.close_if_unused()
