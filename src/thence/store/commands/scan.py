"""Scans: everything there is, in portions.

A cursor is a place in the order of hashes, so that what is there during all of a scan is seen, no
matter what comes and goes; see samples.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from typing import Any, Final

from thence.crdt.map_uw import MapUw
from thence.crdt.set_aw import SetAw
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.arguments import integer
from thence.store.commands.base import Database
from thence.store.commands.glob import matcher
from thence.store.commands.hashes import field_of
from thence.store.commands.kinds import kind_of
from thence.store.commands.rows import NO_KEYS, READ, Rows
from thence.store.commands.samples import SMALL_MAX, Where, kept_for
from thence.store.commands.sorted_sets import score_of
from thence.store.commands.values import as_bytes
from thence.store.errors import INVALID_CURSOR, SYNTAX, CommandError
from thence.store.replies import Reply, format_double
from thence.store.session import Session

COUNT: Final = 10
"""About so many in one portion, if the client does not say."""
CURSOR_END: Final = 1 << 64
_CURSOR: Final = re.compile(rb"(?:[+-]?[0-9]{1,20})?").fullmatch


def cursor_of(argument: bytes) -> int:
    """0 begins a scan, and ends it in a reply."""
    if _CURSOR(argument):
        cursor = int(argument or b"0")
        if -CURSOR_END < cursor < CURSOR_END:
            return cursor % CURSOR_END
    raise CommandError(INVALID_CURSOR)


class Options:
    """MATCH, COUNT and, for SCAN, TYPE."""

    __slots__ = ("count", "matches", "type")

    def __init__(self, options: list[bytes], typed: bool) -> None:
        self.count: int = COUNT
        self.matches: Callable[[bytes], object] | None = None
        self.type: str | None = None
        for at in range(0, len(options), 2):
            word = options[at].upper()
            if at + 1 == len(options):
                raise CommandError(SYNTAX)
            value = options[at + 1]
            if word == b"COUNT":
                self.count = integer(value)
                if self.count < 1:
                    raise CommandError(SYNTAX)
            elif word == b"MATCH":
                self.matches = None if value == b"*" else matcher(value)
            elif word == b"TYPE" and typed:
                self.type = value.decode("utf-8", "surrogateescape").lower()
            else:
                raise CommandError(SYNTAX)


def portion(
    db: Database,
    session: Session,
    where: Where,
    members: Callable[[], Iterable[bytes]],
    size: int,
    cursor: int,
    options: Options,
    live: Container[bytes] | None,
) -> tuple[bytes, list[bytes]]:
    """The next cursor, and the members of this portion that match and are still there.  What is
    small is one portion, as in Redis."""
    if size <= SMALL_MAX if live is not None else not cursor and size <= options.count:
        found, after = list(members()), 0
    else:
        order = kept_for(session).order(db, where, not cursor, members, size)
        found, after = order.take(cursor, options.count)
        if live is not None:
            found = [member for member in found if member in live]
    if options.matches is not None:
        found = [member for member in found if options.matches(as_bytes(member))]
    return b"%d" % after, found


def scan(db: Database, session: Session, args: list[bytes]) -> Reply:
    cursor = cursor_of(args[0])
    options = Options(args[1:], typed=True)
    where = ("keys", b"")
    after, keys = portion(db, session, where, db.keys, db.size(), cursor, options, None)
    found = [(key, db.get(key)) for key in keys]
    return [
        after,
        [
            key
            for key, value in found
            if value is not None and (options.type is None or kind_of(value) == options.type)
        ],
    ]


def _scanning(
    db: Database, session: Session, args: list[bytes], kind: str, found: Any
) -> tuple[bytes, list[bytes]]:
    cursor = cursor_of(args[1])
    if found is None:
        return b"0", []
    options = Options(args[2:], typed=False)
    where = (kind, args[0])
    return portion(db, session, where, lambda: found, len(found), cursor, options, found)


def sscan(db: Database, session: Session, args: list[bytes]) -> Reply:
    cursor_of(args[1])
    return list(_scanning(db, session, args, "set", db.typed(args[0], SetAw)))


def hscan(db: Database, session: Session, args: list[bytes]) -> Reply:
    cursor_of(args[1])
    found = db.typed(args[0], MapUw)
    after, fields = _scanning(db, session, args, "hash", found)
    return [after, [item for field in fields for item in (field, field_of(found, field))]]


def zscan(db: Database, session: Session, args: list[bytes]) -> Reply:
    cursor_of(args[1])
    found = db.typed(args[0], SortedSet)
    after, members = _scanning(db, session, args, "zset", found)
    scored: list[bytes] = []
    for member in members:
        scored += (member, format_double(score_of(found, member) or 0.0))
    return [after, scored]


_row = Rows("generic")
TABLE = (
    _row("SCAN", scan, -2, READ, "The keys, in portions.", NO_KEYS),
    Rows("set")("SSCAN", sscan, -3, READ, "The members of a set, in portions."),
    Rows("hash")("HSCAN", hscan, -3, READ, "The fields of a hash, in portions."),
    Rows("sorted-set")("ZSCAN", zscan, -3, READ, "The members of a sorted set, in portions."),
)
