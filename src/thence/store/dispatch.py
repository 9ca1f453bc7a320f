"""From requests to replies: the fast way, and the careful way that knows everything.

Nearly all requests are reads and writes of a connection in its usual state (``Session.plain``).
``run_plain`` looks them up, counts their arguments, calls them and encodes what they give, in one
loop; it stops at the first request that needs more than that.  Those go through ``admit``, which
asks in Redis' order: does the command exist, has it its arguments, may this client, is it queued
for EXEC.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

from thence.store.commands.base import Command, Database, Function
from thence.store.errors import (
    AUTH_REQUIRED,
    NOT_IN_MULTI,
    CommandError,
    exec_refused,
    not_while_subscribed,
    shown,
    unknown_command,
    unknown_subcommand,
    wrong_arity,
)
from thence.store.failures import LOGGER, failed
from thence.store.replies import Reply, Simple
from thence.store.resp import Request, encode, encode_error
from thence.store.session import Session
from thence.telemetry.logs import event

Quick = dict[bytes, tuple[Function, int, int, bool]]
"""Function, fewest and most arguments, whether it is a write; by the name as clients write it."""

RUN_BYTES_MAX: Final = 64 * 1024
"""Of replies that are made before any of them is sent."""
_SLOW_GROUPS: Final = frozenset({"connection", "transactions", "pubsub", "server"})
"""Their commands change what the fast way relies on."""
_AT_ONCE: Final = frozenset(
    {"EXEC", "DISCARD", "MULTI", "WATCH", "QUIT", "RESET"},
)
"""Not queued in MULTI."""
_WHILE_SUBSCRIBED: Final = frozenset(
    {
        "PING",
        "PSUBSCRIBE",
        "PUNSUBSCRIBE",
        "QUIT",
        "RESET",
        "SUBSCRIBE",
        "UNSUBSCRIBE",
    }
)
_OF_HTTP: Final = frozenset({b"POST", b"HOST:"})
"""How requests of browsers begin, and go on.  A page of anybody can make a browser send some to a
server on its own machine, with what looks like commands in them."""


class Dispatch:
    """The commands, as requests name them."""

    def __init__(self, commands: Mapping[str, Command], refused: Mapping[str, str]) -> None:
        """Names are in capitals; a subcommand is ``CLIENT|LIST``."""
        self._commands: Final = commands
        self._refused: Final = refused
        self._containers: Final = {
            name.partition("|")[0] for name in (*commands, *refused) if "|" in name
        }
        self.quick: Final[Quick] = {}
        for name, each in commands.items():
            if "|" in name or name in self._containers:
                continue
            if "no_multi" in each.flags:
                continue  # most of them may have to wait
            if each.group not in _SLOW_GROUPS or name in ("PING", "ECHO"):
                row = (each.function, each.arguments_min, each.arguments_max, each.write)
                self.quick[name.encode()] = self.quick[name.lower().encode()] = row

    def find(self, name: bytes, args: list[bytes]) -> Command:
        """The command, with the right number of arguments; CommandError says what is wrong."""
        found = self._named(name, args)
        _check_count(found, args)
        return found

    def _named(self, name: bytes, args: list[bytes]) -> Command:
        full = name.decode("utf-8", "surrogateescape").upper()
        if "|" in full:
            raise CommandError(unknown_command(name, args))  # subcommands have no such names
        found = self._commands.get(full)
        if full in self._containers:
            if args:
                full = f"{full}|{args[0].decode('utf-8', 'surrogateescape').upper()}"
                found = self._commands.get(full)
            elif found is None:
                raise CommandError(wrong_arity(full))
        if found is None:
            for each in (full, full.partition("|")[0]):
                if each in self._refused:
                    said = each.replace("|", " ")
                    raise CommandError(f"ERR {said} is not supported: {self._refused[each]}")
            if "|" in full and full.partition("|")[0] in self._containers:
                raise CommandError(unknown_subcommand(shown(name), args[0]))
            raise CommandError(unknown_command(name, args))
        return found

    def admit(self, session: Session, name: bytes, args: list[bytes]) -> Command | None:
        """The command to run now; None if it was queued for EXEC; CommandError if it is refused,
        and EXEC with it.  Who is no client of Redis is not answered, and has to go."""
        if name.upper() in _OF_HTTP:
            session.closing = True
            event(
                LOGGER,
                logging.WARNING,
                "connection dropped: it speaks HTTP, perhaps on behalf of a page in a browser",
                address=session.address,
            )
            return None
        try:
            return self._admit(session, name, args)
        except CommandError as error:
            raise refused(session, name, error) from None

    def _admit(self, session: Session, name: bytes, args: list[bytes]) -> Command | None:
        session.last_command = b""
        found = self._named(name, args)
        session.last_command = found.name.encode()
        _check_count(found, args)
        flags = found.flags
        if not session.authenticated and "no_auth" not in flags:
            raise CommandError(AUTH_REQUIRED)
        is_queueing = session.queue is not None
        if is_queueing and "no_multi" in flags:
            raise CommandError(NOT_IN_MULTI)
        if session.subscriptions and session.protocol == 2 and found.name not in _WHILE_SUBSCRIBED:
            raise CommandError(not_while_subscribed(found.name))
        if is_queueing and found.name not in _AT_ONCE:
            session.enqueue(name, found.function, args, found.write)
            return None
        return found


def _check_count(command: Command, args: list[bytes]) -> None:
    if not command.arguments_min <= len(args) <= command.arguments_max:
        raise CommandError(wrong_arity(command.name))


def refused(session: Session, name: bytes, error: CommandError) -> CommandError:
    """What the client hears of a command that was not run.  EXEC is not going to run what is queued
    then; an EXEC that is refused itself ends the transaction, or whoever gets the connection next
    would be in it."""
    if name.upper() == b"EXEC":
        session.end_queue()
        return CommandError(exec_refused(str(error)))
    if session.queue is not None:
        session.dirty = True
    return error


def is_writing(session: Session, command: Command) -> bool:
    """Whether it needs room in the group: EXEC does if anything it is going to run does."""
    return command.write or (command.name == "EXEC" and session.queue_writes)


def run_plain(
    quick: Quick, db: Database, session: Session, requests: list[Request], at: int, out: list[bytes]
) -> int:
    """Run requests from the place ``at``; replies go to ``out``.  The place of the first that was
    not run, because it needs a closer look or because there are many bytes of replies."""
    if db.failure:
        return at
    protocol = session.protocol
    wrote = False
    size = 0
    begin = at
    for name, args in requests[at:] if at else requests:
        row = quick.get(name)
        if row is None:
            break
        function, fewest, most, write = row
        if not fewest <= len(args) <= most:
            break
        if write:
            if not db.has_room():
                break
            wrote = True
        elif wrote:
            session.last_write = db.last_write
            wrote = False
        try:
            reply: Any = function(db, session, args)
        except CommandError as error:
            piece = encode_error(str(error))
        except Exception as error:
            piece = encode_error(str(failed(name, error)))
        else:
            kind = type(reply)
            if kind is bytes:
                piece = b"$%d\r\n%b\r\n" % (len(reply), reply)
            elif kind is Simple:
                piece = reply.encoded
            elif kind is int:
                piece = b":%d\r\n" % reply
            else:
                pieces: list[bytes] = []
                encode(reply, protocol, pieces)
                piece = b"".join(pieces)
        out.append(piece)
        at += 1
        size += len(piece)
        if size > RUN_BYTES_MAX:
            break
    if wrote:
        session.last_write = db.last_write
    if at > begin:
        session.last_command = requests[at - 1][0]
    session.shared.commands += at - begin
    return at


def run(db: Database, session: Session, command: Command, name: bytes, args: list[bytes]) -> Reply:
    """The reply of one command, errors included."""
    writing = is_writing(session, command)  # asked now: EXEC forgets its queue
    try:
        reply = command.function(db, session, args)
    except CommandError as error:
        return error
    except Exception as error:
        return failed(name, error)
    if writing:
        session.last_write = db.last_write
    return reply
