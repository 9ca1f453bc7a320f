"""Hashes: maps of strings in which an update wins over a remove on another node at the same time.

Fields are what strings are: the last writer wins, and what ``HINCRBY`` and its like count up adds
up.
"""

from __future__ import annotations

from typing import Any

from thence.crdt.children import REGISTER, REMOVE, UPDATE
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import INC, SET
from thence.store.commands.arguments import integer, real
from thence.store.commands.base import Database
from thence.store.commands.rows import GROW_FAST, READ, READ_FAST, WRITE_FAST, Rows
from thence.store.commands.samples import Picker, picked, random_options
from thence.store.commands.values import (
    VALUE_NAN_OR_INFINITY,
    Plain,
    as_bytes,
    as_integer,
    as_real,
    check_finite,
    counted,
    decimal,
    drop_if_empty,
)
from thence.store.errors import (
    HASH_NOT_A_FLOAT,
    HASH_NOT_AN_INTEGER,
    CommandError,
    WrongType,
    wrong_arity,
)
from thence.store.replies import OK, Pairs, Reply
from thence.store.session import Session


def kept_field(found: Any, field: bytes) -> Plain | None:
    """The value of a field, as it is kept; None if it, or the hash, is not there.  WrongType if
    CRDT.MAP put something else than a string there."""
    value = None if found is None else found.get(field)
    if value is None or type(value) is bytes:
        kept: Plain | None = value
        return kept
    return checked(value)


def checked(value: Any) -> Plain:
    """The value of a field that is a string."""
    if isinstance(value, bytes | str | int | float) and not isinstance(value, bool):
        return value
    raise WrongType


def number_field(found: Any, field: bytes) -> Plain | None:
    """The same, for counting it up: another object of CRDT.MAP may show a number, too."""
    value = kept_field(found, field)
    if value is not None and found.child(field, REGISTER) is None:
        raise WrongType
    return value


def field_of(found: Any, field: bytes) -> bytes | None:
    """The value of a field, as bytes."""
    value = kept_field(found, field)
    return value if value is None or type(value) is bytes else as_bytes(value)


def put(db: Database, key: bytes, field: bytes, value: Plain) -> None:
    """Write a field."""
    db.update(key, MapUw, (UPDATE, field, REGISTER, (SET, value)))


def _put_all(db: Database, args: list[bytes], name: str) -> int:
    """Write the fields; how many were not there before."""
    if not len(args) % 2:
        raise CommandError(wrong_arity(name))
    key = args[0]
    found = db.typed(key, MapUw)
    if len(args) == 3:
        new = 1 if found is None or args[1] not in found else 0
        put(db, key, args[1], args[2])
        return new
    pairs = dict(zip(args[1::2], args[2::2], strict=True))
    new = len(pairs) if found is None else sum([field not in found for field in pairs])
    for field, value in pairs.items():
        put(db, key, field, value)
    return new


def hset(db: Database, session: Session, args: list[bytes]) -> Reply:
    return _put_all(db, args, "hset")


def hmset(db: Database, session: Session, args: list[bytes]) -> Reply:
    _put_all(db, args, "hmset")
    return OK


def hsetnx(db: Database, session: Session, args: list[bytes]) -> Reply:
    key, field, value = args
    found = db.typed(key, MapUw)
    if found is not None and field in found:
        return 0
    put(db, key, field, value)
    return 1


def hget(db: Database, session: Session, args: list[bytes]) -> Reply:
    return field_of(db.typed(args[0], MapUw), args[1])


def hmget(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], MapUw)
    return [field_of(found, field) for field in args[1:]]


def contents(found: Any) -> dict[Any, bytes]:
    """Fields and values."""
    if found is None:
        return {}
    return {field: as_bytes(checked(value)) for field, value in found.value().items()}


def hgetall(db: Database, session: Session, args: list[bytes]) -> Reply:
    return contents(db.typed(args[0], MapUw))


def hkeys(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], MapUw)
    return [] if found is None else list(found)


def hvals(db: Database, session: Session, args: list[bytes]) -> Reply:
    return list(contents(db.typed(args[0], MapUw)).values())


def hdel(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    found = db.typed(key, MapUw)
    if found is None:
        return 0
    fields = [field for field in dict.fromkeys(args[1:]) if field in found]
    for field in fields:
        db.update(key, MapUw, (REMOVE, field))
    if fields:
        drop_if_empty(db, key)
    return len(fields)


def hexists(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], MapUw)
    return 1 if found is not None and args[1] in found else 0


def hlen(db: Database, session: Session, args: list[bytes]) -> Reply:
    found = db.typed(args[0], MapUw)
    return 0 if found is None else len(found)


def hstrlen(db: Database, session: Session, args: list[bytes]) -> Reply:
    value = field_of(db.typed(args[0], MapUw), args[1])
    return 0 if value is None else len(value)


def hincrby(db: Database, session: Session, args: list[bytes]) -> Reply:
    key, field = args[0], args[1]
    amount = integer(args[2])
    found = db.typed(key, MapUw)
    value = number_field(found, field)
    total = counted(as_integer(value, HASH_NOT_AN_INTEGER), amount)
    db.update(key, MapUw, (UPDATE, field, REGISTER, (INC, amount)))
    return total


def hincrbyfloat(db: Database, session: Session, args: list[bytes]) -> Reply:
    key, field = args[0], args[1]
    amount = real(args[2])
    if amount - amount != 0.0:
        raise CommandError(VALUE_NAN_OR_INFINITY)
    found = db.typed(key, MapUw)
    value = number_field(found, field)
    check_finite(as_real(value, HASH_NOT_A_FLOAT), amount)
    db.update(key, MapUw, (UPDATE, field, REGISTER, (INC, amount)))
    total = db.typed(key, MapUw).get(field)
    return decimal(float(total)) if isinstance(total, int | float) else as_bytes(total)


def hrandfield(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    if len(args) == 1:
        found = db.typed(key, MapUw)
        return None if found is None else _picker(db, session, key, found).one()
    count, with_values = random_options(args, b"WITHVALUES")
    found = db.typed(key, MapUw)
    if found is None:
        return []
    fields = picked(_picker(db, session, key, found), found, count)
    if not with_values:
        return fields
    return Pairs([(field, field_of(found, field)) for field in fields])


def _picker(db: Database, session: Session, key: bytes, found: Any) -> Picker:
    return Picker(db, session, ("hash", key), found, len(found), lambda: list(found))


_row = Rows("hash")
TABLE = (
    _row("HSET", hset, -4, GROW_FAST, "Write fields."),
    _row("HMSET", hmset, -4, GROW_FAST, "As HSET, with OK as its answer."),
    _row("HSETNX", hsetnx, 4, GROW_FAST, "Write a field if it is not there."),
    _row("HGET", hget, 3, READ_FAST, "The value of a field."),
    _row("HMGET", hmget, -3, READ_FAST, "The values of several fields."),
    _row("HGETALL", hgetall, 2, READ, "All fields and their values."),
    _row("HKEYS", hkeys, 2, READ, "All fields."),
    _row("HVALS", hvals, 2, READ, "All values."),
    _row("HDEL", hdel, -3, WRITE_FAST, "Remove fields."),
    _row("HEXISTS", hexists, 3, READ_FAST, "Whether a field is there."),
    _row("HLEN", hlen, 2, READ_FAST, "How many fields there are."),
    _row("HSTRLEN", hstrlen, 3, READ_FAST, "The length of a field's value, in bytes."),
    _row("HINCRBY", hincrby, 4, GROW_FAST, "Count a field up."),
    _row("HINCRBYFLOAT", hincrbyfloat, 4, GROW_FAST, "Count a field up by a number with a point."),
    _row("HRANDFIELD", hrandfield, -2, READ, "Fields picked at random."),
)
