"""One connection of a client: bytes in, requests run in order, bytes out.

What arrives is run at once, in ``data_received``, and answered with one write.  Three things make a
connection wait, itself and no other:

- *commit*: replies are kept back while something is not written down (``Database.uncommitted``),
  those of reads as well, for they may tell of it.  Requests go on being run meanwhile.
- *choked*: too many bytes of replies wait for the client to read them, or for a commit.
- *blocked*: a command waits (``Later``), or a write waits until the group has room.

While it is choked or blocked nothing more is run; what arrives is kept as it is, and when that is
much, nothing more is read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

from thence.store.commands.base import Command
from thence.store.dispatch import RUN_BYTES_MAX, is_writing, refused, run, run_plain
from thence.store.errors import CommandError
from thence.store.failures import failed
from thence.store.host import Host
from thence.store.replies import QUEUED, Later, Reply, Several
from thence.store.resp import Parser, Request, encode, encode_error

UNREAD_BYTES_MAX: Final = 64 * 1024
"""Of what arrives while a connection waits; with more, nothing is read from it."""
PIECES_MAX: Final = 512
"""Replies that are put together into one write."""
CLOSE_S: Final = 10.0
"""A client that does not read has so long to take its last replies, and one that has sent its last
may have gone: for so long a write of it waits for room."""
QUIET_S: Final = 0.5
"""A client whose bytes are no request, and that has been silent for so long, has sent them all."""


class Connection:
    """The protocol of asyncio for one client.  It does not inherit from ``asyncio.Protocol``, which
    has nothing that event loops need and could not be compiled."""

    def __init__(self, host: Host) -> None:
        self._host: Final = host
        self._db: Final = host.database
        self._holding: Final = host.holding
        self._quick: Final = host.dispatch.quick
        self._loop: Final = host.loop
        self._now: Final = host.loop.time
        self._pause_bytes: Final = host.shared.settings.output_bytes_pause
        self._transport: Any = None
        self._out: list[bytes] = []  # replies that are made and not sent
        self._answers = 0  # how many requests they answer
        self._held = 0  # pieces of what is sent that wait for a commit
        self._held_bytes = 0
        self._is_harmless = False  # what is in ``_out`` tells nothing about data
        self._pending: list[Request] = []  # requests that could not be run yet
        self._unread: list[bytes] = []  # what arrived while the connection waits
        self._unread_bytes = 0
        self._is_paused = False  # the client does not read
        self._is_choked = False
        self._blocked: asyncio.Task[None] | None = None
        self._is_short_of_room = False  # that is why it is blocked
        self._giving_up: asyncio.TimerHandle | None = None
        self._has_ended = False  # nothing more comes from the client
        self._is_lingering = False
        self._is_gone = False
        self._pushed_bytes = 0  # in ``_out``, with a flush to come

    # ---- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """A client is there."""
        self._transport = transport
        shared = self._host.shared
        address = _text(transport.get_extra_info("peername"))
        self.session = session = shared.open(address, _text(transport.get_extra_info("sockname")))
        session.push = self._push
        session.kill = self._drop
        settings = shared.settings
        self._parser = Parser(
            settings.value_bytes_max, settings.request_bytes_max, session.authenticated
        )
        transport.set_write_buffer_limits(high=self._pause_bytes)
        refusal = self._host.admit(self)
        if refusal:
            transport.write(encode_error(refusal))
            self.close()

    def data_received(self, data: bytes) -> None:
        """Bytes of requests."""
        session = self.session
        session.last_active = self._now()
        if len(data) >= UNREAD_BYTES_MAX:
            # There is more, and loops take a lot of it before they look at anybody else.
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)
        if self._is_choked or self._blocked is not None or self._pending or session.closing:
            self._keep(data)
            return
        parser = self._parser
        requests = parser.feed(data)
        if session.plain:
            done = run_plain(self._quick, self._db, session, requests, 0, self._out)
            self._answers += done
            if done == len(requests) and not parser.more and not parser.fault:
                self._flush()
                return
            requests = requests[done:]
        self._run(requests)
        self._go_on()

    def _read_on(self) -> None:
        """Others had their turn."""
        if self._unread_bytes <= UNREAD_BYTES_MAX and not self._is_gone:
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """The client sends no more; it gets the replies to what it sent."""
        self._has_ended = True
        if self._blocked is not None:
            if not self._is_short_of_room:
                self._drop()  # nobody waits any more
                return False
            self._give_up_later()
        if self._transport.get_extra_info("sslcontext") is not None:
            return False  # the end of TLS is that of both sides
        self._go_on()
        return not self._is_gone

    def pause_writing(self) -> None:
        """The client does not read."""
        self._is_paused = self._is_choked = True

    def resume_writing(self) -> None:
        """It has read."""
        self._is_paused = False
        self._unchoke()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone, or was let go."""
        self._is_gone = True
        self.session.closing = True
        self._out.clear()
        self._pending.clear()
        self._unread.clear()
        if self._blocked is not None:
            self._blocked.cancel()
        if self._giving_up is not None:
            self._giving_up.cancel()
        self._host.forget(self)

    # ---- requests --------------------------------------------------------------------------------

    def _keep(self, data: bytes) -> None:
        """For when the connection waits no more."""
        if self.session.closing:
            return
        self._unread.append(data)
        self._unread_bytes += len(data)
        if self._unread_bytes > UNREAD_BYTES_MAX:
            self._transport.pause_reading()

    def _run(self, requests: list[Request]) -> None:
        """Run these, or keep those that have to wait."""
        session = self.session
        out = self._out
        at, count = 0, len(requests)
        pieces = size = 0  # of what is in ``out``, as far as it was looked at
        while at < count:
            if session.plain:
                done = run_plain(self._quick, self._db, session, requests, at, out)
                self._answers += done - at
                at = done
            if at < count:
                size += sum(map(len, out[pieces:]))
                pieces = len(out)
                if pieces > PIECES_MAX or size > RUN_BYTES_MAX:
                    self._flush()
                    pieces = size = 0
                if self._is_choked or not self._run_careful(*requests[at]):
                    self._pending = requests[at:]
                    return
                at += 1
                if session.closing:
                    return
                if self._blocked is not None:
                    self._pending = requests[at:]
                    return

    def _run_careful(self, name: bytes, args: list[bytes]) -> bool:
        """One request, with all checks; False: it has to wait."""
        session, db = self.session, self._db
        reply: Reply = QUEUED
        if db.failure and not self._out:
            self._is_harmless = True
        try:
            command = self._host.dispatch.admit(session, name, args)
            if session.closing:  # no client of Redis: it gets nothing
                self._out.clear()
                self._answers = 0
                return True
            if command is not None and db.failure and is_about_data(command):
                raise refused(session, name, CommandError(failure_text(db.failure)))
            if command is not None and is_writing(session, command) and not db.has_room():
                self._is_short_of_room = True
                self._block(self._wait_for_room())
                if self._has_ended:
                    self._give_up_later()
                return False
        except CommandError as error:
            command = None
            reply = error
        if command is not None:
            reply = run(db, session, command, name, args)
            self._parser.trusted = session.authenticated
        session.shared.commands += 1
        if isinstance(reply, Later):
            self._block(self._wait_for(reply, name))
        else:
            self._answer(reply)
        return True

    def _answer(self, reply: Reply) -> None:
        session = self.session
        if session.replies_off or session.skip_reply:
            if session.skip_reply:
                session.skip_reply -= 1
                session.look_again()
            if not isinstance(reply, Several):  # those of SUBSCRIBE come all the same
                return
        encode(reply, session.protocol, self._out)
        self._answers += 1

    def _go_on(self) -> None:
        """Run what is left, if nothing keeps the connection from it, and send what came of it."""
        parser, session = self._parser, self.session
        while not (self._is_choked or self._blocked is not None or session.closing):
            if self._pending:
                requests, self._pending = self._pending, []
            elif parser.more:
                requests = parser.feed(b"")
            elif self._unread:
                data = b"".join(self._unread)
                self._unread.clear()
                self._unread_bytes = 0
                self._transport.resume_reading()
                requests = parser.feed(data)
            else:
                if parser.fault:
                    self._answer(CommandError(parser.fault))
                    session.shared.dropped += 1
                    session.closing = True
                elif self._has_ended:
                    session.closing = True
                break
            self._run(requests)
            if not self._pending:
                self._flush()
        self._flush()
        if session.closing:
            self.close()

    # ---- waiting ---------------------------------------------------------------------------------

    def _block(self, wait: Coroutine[Any, Any, None]) -> None:
        self._blocked = self._loop.create_task(wait)

    async def _wait_for_room(self) -> None:
        await self._db.until_room()
        self._is_short_of_room = False
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        self._unblock()

    def _give_up_later(self) -> None:
        """That a client sends no more looks the same whether it waits or has gone.  Those that have
        gone must not take the places of others for as long as the group has no room."""
        self._giving_up = self._loop.call_later(CLOSE_S, self._drop)

    async def _wait_for(self, later: Later, name: bytes) -> None:
        reply: Reply
        try:
            reply = await later.start()
        except CommandError as error:
            reply = error
        except Exception as error:
            reply = failed(name, error)
        self._answer(reply)
        self._unblock()

    def _unblock(self) -> None:
        self._blocked = None
        self._go_on()

    # ---- replies ---------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Send what there is, or keep it until all of it is written down."""
        out = self._out
        if not out:
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        if self._held or (self._db.uncommitted and not self._is_harmless):
            self._held += 1
            self._held_bytes += len(data)
            if self._held_bytes > self._pause_bytes:
                self._is_choked = True
            self._holding.hold(self, data, self._answers)
        else:
            self._transport.write(data)
        self._answers = 0
        self._pushed_bytes = 0
        self._is_harmless = False

    def release(self, data: bytes, answers: int, failure: str) -> None:
        """The oldest bytes that were held may go; or errors instead of them."""
        if self._is_gone:
            return
        self._held -= 1
        self._held_bytes -= len(data)
        if failure:
            data = encode_error(failure_text(failure)) * answers
        self._transport.write(data)
        if self._is_choked:
            self._unchoke()
        elif self.session.closing and not self._held:
            self.close()

    def _unchoke(self) -> None:
        if not self._is_paused and self._held_bytes <= self._pause_bytes:
            self._is_choked = False
            # Not at once: the caller is in the middle of something.
            self._loop.call_soon(self._go_on)

    def _push(self, data: bytes) -> None:
        """Bytes that answer nothing, in order with the replies."""
        if self._is_gone or self._transport.is_closing():
            return
        if not self._pushed_bytes:
            self._loop.call_soon(self._flush)
        self._out.append(data)
        self._pushed_bytes += len(data)
        waiting = self._pushed_bytes + self._held_bytes + self._transport.get_write_buffer_size()
        if waiting > self._host.shared.settings.subscriber_bytes_max:
            self.session.shared.dropped += 1
            self._drop()

    # ---- the end ---------------------------------------------------------------------------------

    @property
    def is_blocked(self) -> bool:
        """A command of it waits, or a write until there is room."""
        return self._blocked is not None

    @property
    def is_waiting(self) -> bool:
        """It is not the client's fault that nothing happens."""
        return self._blocked is not None or self._held > 0

    def close(self) -> None:
        """No request is run any more; the connection ends once the replies are sent."""
        self.session.closing = True
        if self._blocked is not None:
            self._blocked.cancel()
            self._blocked = None
        self._flush()
        if self._held or self._is_gone or self._transport.is_closing():
            return
        if self._parser.fault and not self._has_ended and not self._is_lingering:
            self._linger()
            return
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(CLOSE_S, self._drop)

    def _linger(self) -> None:
        """Take what still comes, and forget it: closing would reset the connection, and a client in
        the middle of a large request would never read what is wrong with it."""
        self._is_lingering = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._loop.call_later(QUIET_S, self._end_if_quiet)
        self._loop.call_later(CLOSE_S, self._drop)

    def _end_if_quiet(self) -> None:
        if self._now() - self.session.last_active >= QUIET_S:
            self.close()
        else:
            self._loop.call_later(QUIET_S, self._end_if_quiet)

    def _drop(self) -> None:
        """End it at once."""
        self.session.closing = True
        if not self._is_gone:
            self._transport.abort()


def failure_text(failure: str) -> str:
    """The error that every write gets once nothing can be written down."""
    return f"MISCONF nothing can be written any more: {failure}"


def is_about_data(command: Command) -> bool:
    """Whether its reply may tell of what was never written down."""
    return bool(command.flags & {"readonly", "write"}) or command.name == "EXEC"


def _text(address: object) -> str:
    """``host:port``; IPv6 addresses in brackets, as Redis writes them."""
    if not isinstance(address, tuple):
        return ""
    host, port = str(address[0]), address[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
