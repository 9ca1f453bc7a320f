"""Strings: registers that the last writer wins, and counters whose increments add up.

``INCR`` and its like are increments for the other nodes, too, and none is lost.  ``APPEND`` and
``SETRANGE`` write the whole string: of two at the same time on different nodes one stays.
"""

from __future__ import annotations

from thence.crdt.base import Crdt
from thence.crdt.register_counter import INC, SET, RegisterCounter
from thence.store.commands.arguments import INTEGER_MIN, integer, real
from thence.store.commands.base import Database
from thence.store.commands.expiry import (
    MS_FROM_NOW,
    SECONDS_FROM_NOW,
    ExpireOptions,
    Unit,
    expire_at,
    moment,
)
from thence.store.commands.rows import (
    ALL_KEYS,
    GROW,
    GROW_FAST,
    READ,
    READ_FAST,
    WRITE_FAST,
    Rows,
)
from thence.store.commands.values import (
    as_bytes,
    as_integer,
    as_real,
    check_finite,
    check_removable,
    counted,
    decimal,
    plain,
)
from thence.store.errors import (
    OFFSET_OUT_OF_RANGE,
    STRING_TOO_LONG,
    SYNTAX,
    CommandError,
    wrong_arity,
)
from thence.store.replies import OK, Reply
from thence.store.session import Session


def get(db: Database, session: Session, args: list[bytes]) -> Reply:
    return db.string(args[0])


def set_(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) == 2:
        db.write(args[0], args[1])
        return OK
    return _set_with_options(db, args)


def _set_with_options(db: Database, args: list[bytes]) -> Reply:
    key, value = args[0], args[1]
    times = ExpireOptions()
    if_absent = if_present = want_old = False
    at = 2
    while at < len(args):
        after = times.take(args, at, "set")
        if after == at:
            option = args[at].upper()
            if option == b"NX" and not if_present:
                if_absent = True
            elif option == b"XX" and not if_absent:
                if_present = True
            elif option == b"GET":
                want_old = True
            else:
                raise CommandError(SYNTAX)
            after = at + 1
        at = after
    at_ms = times.time_ms(db, args, "set")
    old = db.string(key) if want_old else None
    exists = db.get(key) is not None
    if (if_absent and exists) or (if_present and not exists):
        return old
    if times.keep and exists:
        if isinstance(db.get(key), Crdt):
            kept = db.expiry(key)
            db.delete(key)
            db.update(key, RegisterCounter, (SET, value))
            if kept is not None:
                db.expire(key, kept)
        else:
            db.update(key, RegisterCounter, (SET, value))
    else:
        db.write(key, value)
    if at_ms is not None:
        expire_at(db, key, at_ms)
    return old if want_old else OK


def setnx(db: Database, session: Session, args: list[bytes]) -> Reply:
    if db.get(args[0]) is not None:
        return 0
    db.update(args[0], RegisterCounter, (SET, args[1]))
    return 1


def _set_for(db: Database, args: list[bytes], unit: Unit, name: str) -> Reply:
    at_ms = moment(db, args[1], unit, name, past=False)
    db.write(args[0], args[2])
    expire_at(db, args[0], at_ms)
    return OK


def setex(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _set_for(db, args, SECONDS_FROM_NOW, "setex")


def psetex(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _set_for(db, args, MS_FROM_NOW, "psetex")


def getset(db: Database, session: Session, args: list[bytes]) -> Reply:
    old = db.string(args[0])
    db.write(args[0], args[1])
    return old


def getdel(db: Database, session: Session, args: list[bytes]) -> Reply:
    old = db.string(args[0])
    if old is not None:
        db.delete(args[0])
    return old


def getex(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    times = ExpireOptions()
    at = 1
    while at < len(args):
        after = times.take(args, at, "getex")
        if after == at:
            raise CommandError(SYNTAX)
        at = after
    value = db.string(key)
    if value is None:
        return None
    at_ms = times.time_ms(db, args, "getex")
    if at_ms is not None:
        expire_at(db, key, at_ms)
    elif times.persist and db.expiry(key) is not None:
        db.expire(key, None)
    return value


def mget(db: Database, session: Session, args: list[bytes]) -> Reply:
    values = []
    for key in args:
        value = db.get(key)
        values.append(None if value is None or isinstance(value, Crdt) else as_bytes(value))
    return values


def mset(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) % 2:
        raise CommandError(wrong_arity("mset"))
    check_removable(db, [key for key in args[::2] if isinstance(db.get(key), Crdt)])
    for at in range(0, len(args), 2):
        db.write(args[at], args[at + 1])
    return OK


def strlen(db: Database, session: Session, args: list[bytes]) -> Reply:
    value = db.string(args[0])
    return 0 if value is None else len(value)


def getrange(db: Database, session: Session, args: list[bytes]) -> Reply:
    first, last = integer(args[1]), integer(args[2])
    value = db.string(args[0])
    if not value or (first < 0 and last < 0 and first > last):
        return b""
    size = len(value)
    first = max(first + size, 0) if first < 0 else first
    last = max(last + size, 0) if last < 0 else last
    return value[first : last + 1]


def _check_length(session: Session, length: int) -> None:
    if length > session.shared.settings.value_bytes_max:
        raise CommandError(STRING_TOO_LONG)


def setrange(db: Database, session: Session, args: list[bytes]) -> Reply:
    key, piece = args[0], args[2]
    offset = integer(args[1])
    if offset < 0:
        raise CommandError(OFFSET_OUT_OF_RANGE)
    value = db.string(key) or b""
    if not piece:
        return len(value)
    _check_length(session, offset + len(piece))
    value = value[:offset].ljust(offset, b"\0") + piece + value[offset + len(piece) :]
    db.update(key, RegisterCounter, (SET, value))
    return len(value)


def append(db: Database, session: Session, args: list[bytes]) -> Reply:
    value = (db.string(args[0]) or b"") + args[1]
    _check_length(session, len(value))
    db.update(args[0], RegisterCounter, (SET, value))
    return len(value)


def _count(db: Database, key: bytes, amount: int) -> int:
    value = plain(db, key)
    total = counted(value if type(value) is int else as_integer(value), amount)
    db.update(key, RegisterCounter, (INC, amount))
    return total


def incr(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _count(db, args[0], 1)


def decr(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _count(db, args[0], -1)


def incrby(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _count(db, args[0], integer(args[1]))


def decrby(db: Database, session: Session, args: list[bytes]) -> Reply:
    amount = integer(args[1])
    if amount == INTEGER_MIN:
        raise CommandError("ERR decrement would overflow")
    return _count(db, args[0], -amount)


def incrbyfloat(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    value = as_real(plain(db, key))
    amount = real(args[1])
    check_finite(value, amount)
    db.update(key, RegisterCounter, (INC, amount))
    total = db.get(key)
    return decimal(float(total)) if isinstance(total, int | float) else as_bytes(total)


_row = Rows("string")
TABLE = (
    _row("GET", get, 2, READ_FAST, "The value of a string."),
    _row("SET", set_, -3, GROW, "Write a string."),
    _row("SETNX", setnx, 3, GROW_FAST, "Write a string if the key is not there."),
    _row("SETEX", setex, 4, GROW, "Write a string that goes after so many seconds."),
    _row("PSETEX", psetex, 4, GROW, "Write a string that goes after so many milliseconds."),
    _row("GETSET", getset, 3, GROW_FAST, "Write a string; its value before."),
    _row("GETDEL", getdel, 2, WRITE_FAST, "The value of a string, which is deleted."),
    _row("GETEX", getex, -2, WRITE_FAST, "The value of a string, whose expiry is changed."),
    _row("MGET", mget, -2, READ_FAST, "The values of several strings.", ALL_KEYS),
    _row("MSET", mset, -3, GROW, "Write several strings.", (1, -1, 2)),
    _row("STRLEN", strlen, 2, READ_FAST, "The length of a string, in bytes."),
    _row("GETRANGE", getrange, 4, READ, "A piece of a string."),
    _row("SUBSTR", getrange, 4, READ, "As GETRANGE."),
    _row("SETRANGE", setrange, 4, GROW, "Overwrite a piece of a string."),
    _row("APPEND", append, 3, GROW_FAST, "Write at the end of a string."),
    _row("INCR", incr, 2, GROW_FAST, "Count up by 1."),
    _row("DECR", decr, 2, GROW_FAST, "Count down by 1."),
    _row("INCRBY", incrby, 3, GROW_FAST, "Count up."),
    _row("DECRBY", decrby, 3, GROW_FAST, "Count down."),
    _row("INCRBYFLOAT", incrbyfloat, 3, GROW_FAST, "Count up by a number with a point."),
)
