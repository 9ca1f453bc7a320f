"""What a connection says about itself: who it is, which protocol it speaks, that it ends."""

from __future__ import annotations

import hmac
from typing import Final

from thence.store.commands.arguments import integer
from thence.store.commands.base import Database, command
from thence.store.commands.clients import check_name
from thence.store.commands.version import COMPATIBLE
from thence.store.errors import (
    DB_OUT_OF_RANGE,
    HELLO_UNAUTHENTICATED,
    NO_PASSWORD_SET,
    NO_PROTOCOL,
    PROTOCOL_NOT_AN_INTEGER,
    SYNTAX,
    WRONG_PASSWORD,
    CommandError,
    shown,
    wrong_arity,
)
from thence.store.replies import OK, PONG, Reply, Simple
from thence.store.session import Session

USER: Final = b"default"
"""The only one there is."""
_RESET: Final = Simple(b"RESET")


def ping(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 1:
        raise CommandError(wrong_arity("ping"))
    if session.subscriptions and session.protocol == 2:
        return [b"pong", args[0] if args else b""]
    return args[0] if args else PONG


def echo(db: Database, session: Session, args: list[bytes]) -> Reply:
    return args[0]


def _log_in(session: Session, user: bytes, password: bytes) -> None:
    """The client is who it says, or CommandError."""
    expected = session.shared.settings.password.encode("utf-8", "surrogateescape")
    # Both are compared in any case: the time that it takes says nothing.
    is_right = hmac.compare_digest(password, expected) or not expected
    if user != USER or not is_right:
        raise CommandError(WRONG_PASSWORD)
    session.authenticated = True
    session.look_again()


def auth(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 1 and not session.shared.settings.password:
        raise CommandError(NO_PASSWORD_SET)
    _log_in(session, args[0] if len(args) == 2 else USER, args[-1])
    return OK


def hello(db: Database, session: Session, args: list[bytes]) -> Reply:
    """All options are looked at before any takes effect."""
    protocol = session.protocol
    if args:
        protocol = integer(args[0], PROTOCOL_NOT_AN_INTEGER)
        if protocol not in (2, 3):
            raise CommandError(NO_PROTOCOL)
    login: tuple[bytes, bytes] | None = None
    name: bytes | None = None
    at = 1
    while at < len(args):
        option = args[at].upper()
        if option == b"AUTH" and at + 2 < len(args):
            login = args[at + 1], args[at + 2]
            at += 3
        elif option == b"SETNAME" and at + 1 < len(args):
            name = args[at + 1]
            check_name(name)
            at += 2
        else:
            raise CommandError(f"ERR Syntax error in HELLO option '{shown(args[at])}'")
    if login is not None:
        _log_in(session, *login)
    if not session.authenticated:
        raise CommandError(HELLO_UNAUTHENTICATED)
    if name is not None:
        session.name = name
    session.protocol = protocol
    session.look_again()
    return {
        b"server": b"redis",
        b"version": COMPATIBLE.encode(),
        b"proto": protocol,
        b"id": session.id,
        b"mode": b"standalone",
        b"role": b"master",
        b"modules": [],
    }


def select(db: Database, session: Session, args: list[bytes]) -> Reply:
    if integer(args[0]) != 0:
        raise CommandError(DB_OUT_OF_RANGE)
    return OK


def quit_(db: Database, session: Session, args: list[bytes]) -> Reply:
    session.closing = True
    return OK


def reset(db: Database, session: Session, args: list[bytes]) -> Reply:
    session.reset()
    return _RESET


_GROUP: Final = "connection"
_ANY: Final = "noscript loading stale fast no_auth"
TABLE = (
    command("PING", ping, -1, "fast", group=_GROUP, summary="Whether somebody is there."),
    command("ECHO", echo, 2, "loading stale fast", group=_GROUP, summary="Say it back."),
    command("AUTH", auth, -2, _ANY, group=_GROUP, summary="Say the password."),
    command("HELLO", hello, -1, _ANY, group=_GROUP, summary="Choose the protocol, 2 or 3."),
    command("SELECT", select, 2, "loading stale fast", group=_GROUP, summary="Database 0."),
    command("QUIT", quit_, -1, _ANY, group=_GROUP, summary="End the connection."),
    command("RESET", reset, 1, _ANY, group=_GROUP, summary="As if the connection were new."),
)
