"""MULTI and EXEC: what is queued is one broadcast, visible at every node all or nothing.

As in Redis nothing is undone when one command of a transaction fails; the others take effect.
WATCH looks at this node: a key that another node changes counts from when that arrives here.
"""

from __future__ import annotations

from typing import Final

from thence.store.commands.base import Database, Function, command
from thence.store.errors import (
    DISCARD_WITHOUT_MULTI,
    EXEC_ABORT,
    EXEC_WITHOUT_MULTI,
    NESTED_MULTI,
    TRANSACTION_TOO_LARGE,
    WATCH_INSIDE_MULTI,
    CommandError,
)
from thence.store.failures import failed
from thence.store.replies import NULL_ARRAY, OK, Reply
from thence.store.session import Session

SPARE_BYTES: Final = 64 * 1024 * 1024
"""With less room in the batch no command of a transaction writes any more: most write no more than
this, and those that may (copies.py) look first."""


def multi(db: Database, session: Session, args: list[bytes]) -> Reply:
    if session.queue is not None:
        raise CommandError(NESTED_MULTI)
    session.begin_queue()
    return OK


def execute(db: Database, session: Session, args: list[bytes]) -> Reply:
    queue = session.queue
    if queue is None:
        raise CommandError(EXEC_WITHOUT_MULTI)
    dirty = session.dirty
    changed = any([db.version(key) != seen for key, seen in session.watched.items()])
    session.end_queue()
    if dirty:
        raise CommandError(EXEC_ABORT)
    if changed:
        return NULL_ARRAY
    replies: list[Reply] = []
    db.begin()
    try:
        for name, function, arguments, is_write in queue:
            if is_write and db.room_bytes() < SPARE_BYTES:
                replies.append(CommandError(TRANSACTION_TOO_LARGE))
            else:
                replies.append(_reply(name, function, db, session, arguments))
    finally:
        db.end()
    return replies


def _reply(
    name: bytes, function: Function, db: Database, session: Session, args: list[bytes]
) -> Reply:
    try:
        return function(db, session, args)
    except CommandError as error:
        return error
    except Exception as error:  # the others take effect all the same
        return failed(name, error)


def discard(db: Database, session: Session, args: list[bytes]) -> Reply:
    if session.queue is None:
        raise CommandError(DISCARD_WITHOUT_MULTI)
    session.end_queue()
    return OK


def watch(db: Database, session: Session, args: list[bytes]) -> Reply:
    if session.queue is not None:
        raise CommandError(WATCH_INSIDE_MULTI)
    session.watch(args, db.watch)
    return OK


def unwatch(db: Database, session: Session, args: list[bytes]) -> Reply:
    session.unwatch()
    return OK


_GROUP: Final = "transactions"
_FLAGS: Final = "noscript loading stale fast"
TABLE = (
    command("MULTI", multi, 1, _FLAGS, group=_GROUP, summary="Queue what comes until EXEC."),
    command("EXEC", execute, 1, _FLAGS, group=_GROUP, summary="Run what was queued as one batch."),
    command("DISCARD", discard, 1, _FLAGS, group=_GROUP, summary="Forget what was queued."),
    command(
        "WATCH",
        watch,
        -2,
        _FLAGS,
        keys=(1, -1, 1),
        group=_GROUP,
        summary="EXEC does nothing if one of these keys changes before.",
    ),
    command("UNWATCH", unwatch, 1, _FLAGS, group=_GROUP, summary="Forget what WATCH said."),
)
