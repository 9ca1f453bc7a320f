"""Sets: an add wins over a remove on another node at the same time.

``SPOP`` picks here and removes what it picked: two nodes may pop the same member at the same time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from thence.crdt.set_aw import ADD, REMOVE, SetAw
from thence.store.commands.arguments import INTEGER_MAX, bounded
from thence.store.commands.base import Database, Function
from thence.store.commands.copies import added, replace
from thence.store.commands.rows import (
    ALL_KEYS,
    GROW,
    GROW_FAST,
    NO_KEYS,
    READ,
    READ_FAST,
    TWO_KEYS,
    WRITE_FAST,
    Rows,
    counted_keys,
)
from thence.store.commands.samples import Picker, picked, random_count
from thence.store.commands.values import drop_if_empty
from thence.store.errors import MUST_BE_POSITIVE, SYNTAX, CommandError
from thence.store.replies import Members, Reply
from thence.store.session import Session


def sadd(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    found = db.typed(key, SetAw)
    if len(args) == 2:
        member = args[1]
        new = 1 if found is None or member not in found else 0
        db.update(key, SetAw, (ADD, member))
        return new
    members = dict.fromkeys(args[1:])
    new = len(members) if found is None else sum([member not in found for member in members])
    db.update(key, SetAw, (ADD, *members))
    return new


def srem(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    found = db.typed(key, SetAw)
    if found is None:
        return 0
    members = [member for member in dict.fromkeys(args[1:]) if member in found]
    if members:
        db.update(key, SetAw, (REMOVE, *members))
        drop_if_empty(db, key)
    return len(members)


def smove(db: Database, session: Session, args: list[bytes]) -> Reply:
    source, target, member = args
    found = db.typed(source, SetAw)
    if found is None:
        return 0
    db.typed(target, SetAw)
    if member not in found:
        return 0
    if source != target:
        db.update(source, SetAw, (REMOVE, member))
        drop_if_empty(db, source)
        db.update(target, SetAw, (ADD, member))
    return 1


def smembers(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SetAw)
    return Members([] if found is None else list(found))


def sismember(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SetAw)
    return 1 if found is not None and args[1] in found else 0


def smismember(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SetAw)
    if found is None:
        return [0] * (len(args) - 1)
    return [1 if member in found else 0 for member in args[1:]]


def scard(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], SetAw)
    return 0 if found is None else len(found)


def _picker(db: Database, session: Session, key: bytes, found: Any) -> Picker:
    return Picker(db, session, ("set", key), found, len(found), lambda: list(found))


def spop(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 1:
        found = db.typed(key, SetAw)
        if found is None:
            return None
        member = _picker(db, session, key, found).one()
        db.update(key, SetAw, (REMOVE, member))
        drop_if_empty(db, key)
        reply: Reply = member
        return reply
    count = bounded(args[1], 0, INTEGER_MAX, MUST_BE_POSITIVE)
    found = db.typed(key, SetAw)
    if found is None or not count:
        return Members([])
    members = list(found)
    if count < len(members):
        members = random.sample(members, count)
    db.update(key, SetAw, (REMOVE, *members))
    drop_if_empty(db, key)
    return Members(members)


def srandmember(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    if len(args) > 2:
        raise CommandError(SYNTAX)
    if len(args) == 1:
        found = db.typed(key, SetAw)
        return None if found is None else _picker(db, session, key, found).one()
    count = random_count(args[1])
    found = db.typed(key, SetAw)
    if found is None:
        return []
    return picked(_picker(db, session, key, found), found, count)


def _sets(db: Database, keys: list[bytes]) -> list[Any]:
    return [db.typed(key, SetAw) for key in keys]


def _inter(sets: list[Any], limit: int = 0) -> list[bytes]:
    if any(found is None for found in sets):
        return []
    first, *others = sorted(sets, key=len)
    if not limit:
        return [member for member in first if all([member in other for other in others])]
    common: list[bytes] = []
    for member in first:
        if all([member in other for other in others]):
            common.append(member)
            if len(common) == limit:
                break
    return common


def _union(sets: list[Any]) -> list[bytes]:
    every: dict[bytes, None] = {}
    for found in sets:
        if found is not None:
            every.update(dict.fromkeys(found))
    return list(every)


def _diff(sets: list[Any]) -> list[bytes]:
    first, *others = sets
    if first is None:
        return []
    rest = [other for other in others if other is not None]
    return [member for member in first if not any([member in other for other in rest])]


Combine = Callable[[list[Any]], list[bytes]]


def _combining(combine: Combine) -> Function:
    def combined(db: Database, session: Session, args: list[bytes]) -> Reply:
        return Members(combine(_sets(db, args)))

    return combined


def _storing(combine: Combine) -> Function:
    def stored(db: Database, session: Session, args: list[bytes]) -> Reply:
        members = combine(_sets(db, args[1:]))
        replace(db, args[0], [(SetAw, operation) for operation in added(members)])
        return len(members)

    return stored


sinter: Final = _combining(_inter)
sunion: Final = _combining(_union)
sdiff: Final = _combining(_diff)
sinterstore: Final = _storing(_inter)
sunionstore: Final = _storing(_union)
sdiffstore: Final = _storing(_diff)


def key_count(argument: bytes, left: int) -> int:
    """A number of keys, of which so many arguments are left."""
    number = bounded(argument, 1, INTEGER_MAX, "ERR numkeys should be greater than 0")
    if number > left:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    return number


def sintercard(db: Database, session: Session, args: list[bytes]) -> Reply:
    number = key_count(args[0], len(args) - 1)
    limit = limit_option(args[number + 1 :])
    return len(_inter(_sets(db, args[1 : number + 1]), limit))


def limit_option(options: list[bytes]) -> int:
    """LIMIT and a number, if there; 0: no limit."""
    limit = 0
    for at in range(0, len(options), 2):
        if options[at].upper() != b"LIMIT" or at + 1 == len(options):
            raise CommandError(SYNTAX)
        limit = bounded(options[at + 1], 0, INTEGER_MAX, "ERR LIMIT can't be negative")
    return limit


_row = Rows("set")
TABLE = (
    _row("SADD", sadd, -3, GROW_FAST, "Add members."),
    _row("SREM", srem, -3, WRITE_FAST, "Remove members."),
    _row("SMOVE", smove, 4, WRITE_FAST, "Move a member to another set.", TWO_KEYS),
    _row("SMEMBERS", smembers, 2, READ, "All members."),
    _row("SISMEMBER", sismember, 3, READ_FAST, "Whether something is a member."),
    _row("SMISMEMBER", smismember, -3, READ_FAST, "Which of several are members."),
    _row("SCARD", scard, 2, READ_FAST, "How many members there are."),
    _row("SPOP", spop, -2, WRITE_FAST, "Remove members picked at random."),
    _row("SRANDMEMBER", srandmember, -2, READ, "Members picked at random."),
    _row("SINTER", sinter, -2, READ, "The members that all sets have.", ALL_KEYS),
    _row("SUNION", sunion, -2, READ, "The members that any set has.", ALL_KEYS),
    _row("SDIFF", sdiff, -2, READ, "The members that only the first set has.", ALL_KEYS),
    _row("SINTERSTORE", sinterstore, -3, GROW, "Store what SINTER gives.", ALL_KEYS),
    _row("SUNIONSTORE", sunionstore, -3, GROW, "Store what SUNION gives.", ALL_KEYS),
    _row("SDIFFSTORE", sdiffstore, -3, GROW, "Store what SDIFF gives.", ALL_KEYS),
    _row(
        "SINTERCARD",
        sintercard,
        -3,
        "readonly movablekeys",
        "How many members all sets have.",
        NO_KEYS,
        counted_keys(0),
    ),
)
