"""Keys, whatever their values are.

``DEL`` removes what this node has seen: what another node writes at the same time stays.
``RENAME`` and ``COPY`` write the value anew under the other name, as it is here; what another node
does to the old name at the same time stays there.
"""

from __future__ import annotations

from typing import Final

from thence.crdt.base import Crdt
from thence.store.commands.arguments import bounded, integer
from thence.store.commands.base import Database, Function
from thence.store.commands.copies import recreated, replace
from thence.store.commands.glob import matcher
from thence.store.commands.kinds import LIST, TEXT, kind_of
from thence.store.commands.rows import (
    ALL_KEYS,
    GROW,
    NO_KEYS,
    READ,
    READ_FAST,
    TWO_KEYS,
    WRITE,
    WRITE_FAST,
    Rows,
)
from thence.store.commands.samples import Picker
from thence.store.commands.values import as_bytes, check_removable
from thence.store.errors import (
    DB_OUT_OF_RANGE,
    NO_SUCH_KEY,
    SAME_OBJECT,
    SYNTAX,
    CommandError,
)
from thence.store.replies import OK, Reply, Simple
from thence.store.session import Session


def delete(db: Database, session: Session, args: list[bytes]) -> Reply:
    if len(args) > 1:
        check_removable(db, args)
    count = 0
    for key in args:
        if db.get(key) is not None:
            db.delete(key)
            count += 1
    return count


def exists(db: Database, session: Session, args: list[bytes]) -> Reply:
    return sum([db.get(key) is not None for key in args])


def type_(db: Database, session: Session, args: list[bytes]) -> Reply:
    value = db.get(args[0])
    return Simple(b"none" if value is None else kind_of(value).encode())


def keys(db: Database, session: Session, args: list[bytes]) -> Reply:
    every = db.keys()
    if args[0] == b"*":
        return list(every)
    matches = matcher(args[0])
    return [key for key in every if matches(key)]


class Live:
    """The keys that are there, for ``in``."""

    __slots__ = ("_db",)

    def __init__(self, db: Database) -> None:
        self._db: Final = db

    def __contains__(self, key: object) -> bool:
        return self._db.get(key) is not None  # type: ignore[arg-type]


def randomkey(db: Database, session: Session, args: list[bytes]) -> Reply:
    where = ("keys", b"")
    picker = Picker(db, session, where, Live(db), db.size(), lambda: list(db.keys()))
    key: Reply = picker.one()
    return key


def _put_copy(db: Database, source: bytes, target: bytes) -> None:
    """Make another key what this one is.  CommandError before anything is changed."""
    at_ms = db.expiry(source)
    replace(db, target, recreated(db.get(source)))
    if at_ms is not None:
        db.expire(target, at_ms)


def rename(db: Database, session: Session, args: list[bytes]) -> Reply:
    source, target = args
    if db.get(source) is None:
        raise CommandError(NO_SUCH_KEY)
    if source != target:
        check_removable(db, [source])
        _put_copy(db, source, target)
        db.delete(source)
    return OK


def renamenx(db: Database, session: Session, args: list[bytes]) -> Reply:
    if db.get(args[0]) is None:
        raise CommandError(NO_SUCH_KEY)
    if db.get(args[1]) is not None:
        return 0
    rename(db, session, args)
    return 1


def copy(db: Database, session: Session, args: list[bytes]) -> Reply:
    source, target = args[0], args[1]
    replace = False
    at = 2
    while at < len(args):
        option = args[at].upper()
        if option == b"REPLACE":
            replace = True
        elif option == b"DB" and at + 1 < len(args):
            at += 1
            if bounded(args[at], -(2**31), 2**31 - 1):
                raise CommandError(DB_OUT_OF_RANGE)
        else:
            raise CommandError(SYNTAX)
        at += 1
    if source == target:
        raise CommandError(SAME_OBJECT)
    if db.get(source) is None or (not replace and db.get(target) is not None):
        return 0
    _put_copy(db, source, target)
    return 1


# OBJECT.

SECOND: Final = (2, 2, 1)
SHORT_BYTES_MAX: Final = 44
"""Of strings that Redis keeps in one piece with their headers."""
NO_FREQUENCY: Final = (
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that "
    "when switching between policies at runtime LRU and LFU data will take some time to adjust."
)
NO_IDLE_TIME: Final = "ERR idle times are not tracked"
ENCODINGS: Final = {
    LIST: b"quicklist",
    TEXT: b"quicklist",
    "set": b"hashtable",
    "hash": b"hashtable",
    "zset": b"skiplist",
}
"""The general ones of Redis: nothing is kept in another way while it is small."""
HELP: Final = (
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return what Redis calls the representation of the value at <key>.",
    "REFCOUNT <key>",
    "    Return 1.",
    "FREQ <key>",
    "IDLETIME <key>",
    "    Neither is tracked.",
    "HELP",
    "    Print this help.",
)


def encoding_of(value: object) -> bytes:
    """What OBJECT ENCODING says of it."""
    if isinstance(value, Crdt):
        return ENCODINGS.get(kind_of(value), value.NAME.encode())
    text = as_bytes(value)  # type: ignore[arg-type]  # what is no Crdt is a string
    try:
        integer(text)
    except CommandError:
        return b"embstr" if len(text) <= SHORT_BYTES_MAX else b"raw"
    return b"int"


def object_encoding(db: Database, session: Session, args: list[bytes]) -> Reply:
    value = db.get(args[1])
    return None if value is None else encoding_of(value)


def object_refcount(db: Database, session: Session, args: list[bytes]) -> Reply:
    return None if db.get(args[1]) is None else 1


def _untracked(fault: str) -> Function:
    def untracked(db: Database, session: Session, args: list[bytes]) -> Reply:
        if db.get(args[1]) is None:
            return None
        raise CommandError(fault)

    return untracked


def object_help(db: Database, session: Session, args: list[bytes]) -> Reply:
    return [Simple(line.encode()) for line in HELP]


_row = Rows("generic")
TABLE = (
    _row("DEL", delete, -2, WRITE, "Remove keys.", ALL_KEYS),
    _row("UNLINK", delete, -2, WRITE_FAST, "As DEL.", ALL_KEYS),
    _row("EXISTS", exists, -2, READ_FAST, "How many of these keys are there.", ALL_KEYS),
    _row("TOUCH", exists, -2, READ_FAST, "As EXISTS: access is not tracked.", ALL_KEYS),
    _row("TYPE", type_, 2, READ_FAST, "What a key holds."),
    _row("KEYS", keys, 2, READ, "The keys that match a pattern.", NO_KEYS),
    _row("RANDOMKEY", randomkey, 1, READ, "A key picked at random.", NO_KEYS),
    _row("RENAME", rename, 3, WRITE, "Give a key another name.", TWO_KEYS),
    _row("RENAMENX", renamenx, 3, WRITE_FAST, "The same if no key has that name.", TWO_KEYS),
    _row("COPY", copy, -3, GROW, "Write a value under another name, too.", TWO_KEYS),
    _row("OBJECT|ENCODING", object_encoding, 3, READ, "How Redis would keep a value.", SECOND),
    _row("OBJECT|REFCOUNT", object_refcount, 3, READ, "1 if the key is there.", SECOND),
    _row("OBJECT|FREQ", _untracked(NO_FREQUENCY), 3, READ, "Not tracked.", SECOND),
    _row("OBJECT|IDLETIME", _untracked(NO_IDLE_TIME), 3, READ, "Not tracked.", SECOND),
    _row("OBJECT|HELP", object_help, 2, "", "What OBJECT can be asked.", NO_KEYS),
)
