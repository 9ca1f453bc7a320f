"""A connection over a stream of bytes that the event loop carries: what tcp and tls share.

What is sent in one turn of the loop leaves in one write at its end: all connections of a transport
that have something to say are flushed by one callback.  What arrives in one read goes to the
handler in one call.

Closing is done in two steps, because a socket that is closed with unread bytes resets the
connection, and the peer may lose what was written last (why it was refused, for instance): write
what was accepted, say that no more follows, discard what still comes, and close when the peer does
too or when its time is over.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any, Final, cast

from thence.errors import UnreachableError, WireError
from thence.transport.base import BACKLOG_BYTES_HIGH, Handler
from thence.transport.watch import (
    BAD_FRAME,
    CUT_FRAME,
    NEVER_TRUSTED,
    STALLED_FRAME,
    Limits,
    Watch,
)
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

BACKLOG_BYTES_LOW: Final = BACKLOG_BYTES_HIGH // 4
"""A congested connection is drained when no more than this is left."""
DEAD_PEER_S: Final = 30
"""A peer whose host answers nothing for so long is gone; the system notices (where it can)."""

# The first bytes of a TLS connection: a handshake record, version 3.x.
TLS_RECORD: Final = b"\x16\x03"

_GONE: Final = {
    errno.ECONNREFUSED: "nobody listens there",
    errno.ECONNRESET: "the peer reset the connection",
    errno.EPIPE: "the peer closed the connection",
    errno.ETIMEDOUT: "the peer's host does not answer any more",
}


class Turn:
    """Writes once for each connection at the end of a turn of the loop."""

    __slots__ = ("_due", "_held")

    def __init__(self) -> None:
        self._due: list[StreamConnection] = []
        self._held = False

    def hold(self) -> None:
        """An owner ends its own turn now and says when (``release``)."""
        self._held = True

    def release(self) -> None:
        """Write now, without going round the loop once more."""
        self._held = False
        if self._due:
            self._flush()

    def add(self, connection: StreamConnection) -> None:
        if not self._due and not self._held:
            asyncio.get_running_loop().call_soon(self._flush)
        self._due.append(connection)

    def _flush(self) -> None:
        due = self._due
        self._due = []
        for connection in due:
            connection.flush()


class StreamConnection(asyncio.Protocol):
    """One connection; ``transport/base.py`` says what its owner may do with it."""

    def __init__(self, handler: Handler, watch: Watch, turn: Turn, *, dialled: bool) -> None:
        self.dialled = dialled
        self.address = ""
        self.peer_name: str | None = None
        self.received_bytes = 0
        """Everything that was read."""
        self.sent_bytes = 0
        """Everything that was given to the system."""
        self.ready: asyncio.Future[None] | None = None
        """Who dials waits for it where more than a connection is needed (tls)."""
        self._handler = handler
        self._watch = watch
        self._turn = turn
        self._reader = FrameReader()
        self._feed = self._reader.feed
        self._transport: Any = None  # asyncio.Transport, or uvloop's, which is none by its type
        self._write: Callable[[bytes], None] = _lose  # gives bytes of frames to the system
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._paused = False  # the loop holds more than BACKLOG_BYTES_HIGH
        self._owed = False  # somebody was told of a backlog: ``drained`` must follow
        self._open = False  # until close or the end
        self._told = False  # the handler knows of it
        self._trusted = False
        self._reason: str | None = None
        self._since = 0.0
        self._progress_bytes = -1

    # ---- what the owner calls

    def _backlog(self) -> int:
        transport = self._transport
        taken = 0 if transport is None else transport.get_write_buffer_size()
        backlog: int = self._unsent_bytes + taken
        if backlog > BACKLOG_BYTES_HIGH:
            self._owed = True
        return backlog

    # Computed when asked for: the system takes bytes without telling.
    backlog_bytes: int = cast(int, property(_backlog))

    def send(self, data: bytes) -> None:
        if not self._open:
            return
        if not self._unsent:
            self._turn.add(self)
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def trust(self) -> None:
        self._reader.limit = FRAME_BYTES_MAX
        self._trusted = True
        self._watch.trusted(self)

    def close(self, reason: str) -> None:
        if not self._open:
            return
        self._owed = False  # nobody waits for ``drained`` any more
        self.flush()
        self.end(reason)
        self.say_end()

    def end(self, reason: str) -> None:
        """Neither send nor receive any more; the first reason stays."""
        self._open = False
        self._feed = _discard
        if self._reason is None:
            self._reason = reason
            self._since = asyncio.get_running_loop().time()

    def refuse(self, what: str, reason: str) -> None:
        """Report it and break off at once; what was accepted is lost."""
        self._watch.report(what, f"{self.address}: {reason}")
        self.abort(reason)

    def abort(self, reason: str) -> None:
        """Break off at once; the first reason stays."""
        self.end(reason)
        self._unsent.clear()
        self._unsent_bytes = 0
        if self._transport is not None:
            self._transport.abort()

    # ---- what tls does otherwise

    def begin(self) -> None:
        """The stream is there."""
        self.announce()

    def announce(self) -> None:
        """The peer can be talked to."""
        self._told = True
        self._open = True
        if self.ready is not None and not self.ready.done():
            self.ready.set_result(None)
        self._handler.connected(self)

    def say_end(self) -> None:
        """No more follows."""
        try:
            self._transport.write_eof()
        except OSError:  # the peer is gone, and the loop has not told yet
            self._transport.abort()

    # ---- what the loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._write = self._transport.write
        self._transport.set_write_buffer_limits(high=BACKLOG_BYTES_HIGH, low=BACKLOG_BYTES_LOW)
        self.address = _spell(transport.get_extra_info("peername"))
        sock = transport.get_extra_info("socket")
        if sock is not None:
            tune(sock)
        self._since = asyncio.get_running_loop().time()
        self._watch.opened(self)
        self.begin()

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        try:
            frames = self._feed(data)
        except WireError as error:
            self._bad_frame(error, data)
            return
        if frames:
            self._handler.received(self, frames)

    def eof_received(self) -> None:
        """Returns None: the loop closes the connection, after what is left to write."""
        reason = "the peer closed the connection"
        if self._reason is None and self._reader.held_bytes:
            reason += " in the middle of a frame"
            self._watch.report(CUT_FRAME, f"{self.address}: {reason}")
        self.end(reason)

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._owed = False
        if self._open:
            self._handler.drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open = False
        self._feed = _discard
        self._unsent.clear()
        self._unsent_bytes = 0
        self._transport = None
        self._write = _lose
        self._watch.gone(self)
        reason = self._reason or _why_lost(exc)
        if self._told:
            self._handler.closed(self, reason)
        elif self.ready is not None and not self.ready.done():
            self.ready.set_exception(UnreachableError(reason))

    # ---- inside

    def flush(self) -> None:
        """Write what was sent in this turn, and tell when that ends a congestion."""
        unsent = self._unsent
        if not unsent or not self._open:
            return
        data = unsent[0] if len(unsent) == 1 else b"".join(unsent)
        unsent.clear()
        self._unsent_bytes = 0
        self.sent_bytes += len(data)
        self._write(data)
        # What the owner saw as a backlog the system may take at once: then the loop neither pauses
        # nor resumes, and the owner would wait for ever.
        if self._owed and not self._paused:
            self._owed = False
            self._handler.drained(self)

    def look(self, now: float, limits: Limits) -> None:
        """Give up when a deadline has passed."""
        if not self._open and self._reason is not None:
            left = self._transport.get_write_buffer_size()
            if left and left != self._progress_bytes:
                self._progress_bytes = left
                self._since = now
            elif now - self._since >= limits.close_s:
                self.abort(self._reason)
        elif not self._trusted:
            if now - self._since >= limits.greeting_s:
                self.refuse(
                    NEVER_TRUSTED,
                    f"did not say who it is within {limits.greeting_s:g} s",
                )
        elif not self._reader.held_bytes or self._progress_bytes != self.received_bytes:
            self._progress_bytes = self.received_bytes
            self._since = now
        elif now - self._since >= limits.stall_s:
            self.refuse(STALLED_FRAME, f"sent nothing of a frame for {limits.stall_s:g} s")

    def _bad_frame(self, error: WireError, data: bytes) -> None:
        reason = f"the peer sent {error}"
        first = self.received_bytes == len(data) and self.peer_name is None
        if first and data.startswith(TLS_RECORD):
            reason = "the peer speaks TLS, and this is plain tcp"
        self._watch.report(BAD_FRAME, f"{self.address}: {reason}")
        self.close(reason)


def _lose(data: bytes) -> None:
    """There is no stream."""


def _discard(data: bytes) -> list[tuple[int, bytes]]:
    return []


def _why_lost(exc: Exception | None) -> str:
    if exc is None:
        return "the connection was closed"
    return why(exc)


def why(error: Exception) -> str:
    """A failure of the system, as a sentence for people."""
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # Not strerror of the error: asyncio writes the address there.
        return _GONE.get(error.errno) or os.strerror(error.errno)
    if isinstance(error, OSError) and error.strerror:  # a name that cannot be resolved
        return error.strerror
    return str(error) or type(error).__name__


def _spell(name: Any) -> str:
    """``host:port`` of a socket's name, which may be missing if the peer is gone already."""
    if isinstance(name, str) and name:
        return name
    if not isinstance(name, tuple):
        return "an unknown address"
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


def tune(sock: Any) -> None:
    """No waiting for more to send; a peer whose host is gone is noticed."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for name, value in (
        ("TCP_KEEPIDLE", DEAD_PEER_S // 3),
        ("TCP_KEEPINTVL", DEAD_PEER_S // 6),
        ("TCP_KEEPCNT", 4),
        ("TCP_USER_TIMEOUT", DEAD_PEER_S * 1000),
    ):
        if hasattr(socket, name):  # not every system has them
            options.append((socket.IPPROTO_TCP, getattr(socket, name), value))
    for option in options:
        try:
            sock.setsockopt(*option)
        except OSError:
            pass  # the peer is gone already: the loop tells soon
