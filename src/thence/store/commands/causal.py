"""Causality for clients: tokens to move to another node with, and waiting for other nodes."""

from __future__ import annotations

from typing import Final

from thence.store.commands.arguments import integer
from thence.store.commands.base import Database, command
from thence.store.commands.rows import ONE_KEY, READ_FAST
from thence.store.errors import CommandError, wrong_arity
from thence.store.replies import Later, Reply
from thence.store.session import Session

TIMEOUT_NOT_AN_INTEGER: Final = "ERR timeout is not an integer or out of range"
TIMEOUT_NEGATIVE: Final = "ERR timeout is negative"
TIMEOUT_MS_MAX: Final = 10**12
"""Thirty years: clocks of event loops do not count much further."""


def timeout_ms(argument: bytes) -> int:
    """How long a client wants to wait; 0: for ever."""
    number = integer(argument, TIMEOUT_NOT_AN_INTEGER)
    if number < 0:
        raise CommandError(TIMEOUT_NEGATIVE)
    return min(number, TIMEOUT_MS_MAX)


def token(db: Database, session: Session, args: list[bytes]) -> Reply:
    return db.token()


def wait_token(db: Database, session: Session, args: list[bytes]) -> Reply:
    """1: everything that the token stands for is here; 0: the time was over before."""
    if len(args) > 2:
        raise CommandError(wrong_arity("causal.wait"))
    limit_ms = timeout_ms(args[1]) if len(args) == 2 else 0
    if db.covers(args[0]):
        return 1

    async def wait() -> Reply:
        return int(await db.wait_token(args[0], limit_ms))

    return Later(wait)


def wait(db: Database, session: Session, args: list[bytes]) -> Reply:
    count = integer(args[0])
    limit_ms = timeout_ms(args[1])
    write = session.last_write
    return Later(lambda: db.wait_replicas(count, limit_ms, write))


def stable(db: Database, session: Session, args: list[bytes]) -> Reply:
    return int(db.stable(args[0]))


TABLE = (
    command(
        "CAUSAL.TOKEN",
        token,
        1,
        "fast no_multi",  # what its own transaction writes is sent with EXEC
        summary="What this node has seen, for CAUSAL.WAIT on another node.",
    ),
    command(
        "CAUSAL.WAIT",
        wait_token,
        -2,
        "no_multi",
        summary="Wait until this node has seen what a token stands for: token [timeout-ms].",
    ),
    command(
        "WAIT",
        wait,
        3,
        "no_multi",
        summary="Wait until so many other nodes have what this client wrote last.",
    ),
    command(
        "CRDT.STABLE",
        stable,
        2,
        READ_FAST,
        keys=ONE_KEY,
        summary="Whether every node has everything about a key.",
    ),
)
