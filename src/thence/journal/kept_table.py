"""Rows of the application as tables of SQLite: statements, and how it is found that one is missing.

Each row has a checksum over key and value.  A row that is gone, or is there as it was before, looks
right by itself; so each checkpoint says how many rows there are, and the sum of their checksums,
which does not depend on their order.

What is looked through to find a key has to be small: SQLite reads all of a row that it passes if
that does not fit into a page.  So a large row is in a table of its own (``kept_large``), under a
number that ``kept`` has instead of the data.  A long key is there, too; its name in ``kept`` is
how it begins, and a digest.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

CREATE: Final = 'CREATE TABLE kept ("key" BLOB PRIMARY KEY, crc INTEGER, data BLOB) WITHOUT ROWID'
CREATE_LARGE: Final = "CREATE TABLE kept_large (id INTEGER PRIMARY KEY, data BLOB)"
CREATE_TOTAL: Final = (
    "CREATE TABLE kept_total (id INTEGER PRIMARY KEY, count INTEGER, sum INTEGER, crc INTEGER)"
)
KEYS_AT_A_TIME: Final = 500
GROUP_ROWS: Final = 1 << 14
GROUP_BYTES: Final = 1 << 23
"""Of rows that are sorted and written together: neighbours share pages."""
NAME_BYTES_MAX: Final = 256
INLINE_BYTES_MAX: Final = 900
"""Of a row within ``kept``, its key included: a page of 4 KiB takes 1,002 bytes of one row."""
_DIGEST_BYTES: Final = 32
CACHE_KIB: Final = 16 << 10
CACHE_KIB_USUAL: Final = 2000
"""What SQLite may remember of the file, while rows are written and otherwise."""
ROW_BYTES_MAX: Final = 10**9 - 2**20  # key and value; a row of SQLite ends at 10**9
_SUMS: Final = 1 << 63  # an integer of SQLite is below
_LENGTH: Final = struct.Struct("<Q")

Row = tuple[bytes, bytes | None]


class Total(msgspec.Struct, frozen=True):
    """Of all rows."""

    count: int = 0
    sum: int = 0


class TooLargeError(Exception):
    """A row of so many bytes cannot be kept."""


def put(db: sqlite3.Connection, rows: Iterable[Row], seed: int, total: Total) -> Total:
    """Replace these rows and delete those without a value, inside of a transaction; the total
    then.  The last of several with one key counts."""
    is_first = True
    for group in _groups(rows):
        if is_first:
            db.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
            is_first = False
        total = _put_group(db, group, seed, total)
    if not is_first:
        db.execute(f"PRAGMA cache_size=-{CACHE_KIB_USUAL}")
    return total


def _groups(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows with different keys, sorted by them."""
    some: dict[bytes, bytes | None] = {}
    size = 0
    for key, data in rows:
        some[key] = data
        size += len(key) + (0 if data is None else len(data))
        if size >= GROUP_BYTES or len(some) >= GROUP_ROWS:
            yield sorted(some.items())
            some, size = {}, 0
    if some:
        yield sorted(some.items())


def _put_group(db: sqlite3.Connection, group: list[Row], seed: int, total: Total) -> Total:
    count, check = total.count, total.sum
    named = [(_name(key), key, data) for key, data in group]
    for at in range(0, len(group), KEYS_AT_A_TIME) if count else ():
        names = [name for name, _, _ in named[at : at + KEYS_AT_A_TIME]]
        there = f'FROM kept WHERE "key" IN ({",".join("?" * len(names))})'
        question = "SELECT count(*), coalesce(sum(crc), 0), total(typeof(data) = 'integer') "
        gone, less, large = db.execute(question + there, names).fetchone()
        count, check = count - gone, check - less
        if large:
            db.execute(f"DELETE FROM kept_large WHERE id IN (SELECT data {there})", names)
    if total.count:
        missing = [(name,) for name, _, data in named if data is None]
        db.executemany('DELETE FROM kept WHERE "key" = ?', missing)
    made = []
    for name, key, data in named:
        if data is not None:
            made.append((name, checksum(key, data, seed), _place(db, key, data)))
    db.executemany("REPLACE INTO kept VALUES (?, ?, ?)", made)
    return Total(count + len(made), (check + sum([crc for _, crc, _ in made])) % _SUMS)


def _name(key: bytes) -> bytes:
    """The key as ``kept`` has it: another one for each key."""
    if len(key) <= NAME_BYTES_MAX:
        return key
    return key[:NAME_BYTES_MAX] + hashlib.blake2b(key, digest_size=_DIGEST_BYTES).digest()


def _place(db: sqlite3.Connection, key: bytes, data: bytes) -> bytes | int:
    """What ``kept`` has of the data: all of it, or where it is."""
    size = len(key) + len(data)
    if size > ROW_BYTES_MAX:
        raise TooLargeError(size)
    if size <= INLINE_BYTES_MAX and len(key) <= NAME_BYTES_MAX:
        return data
    row = (b"".join((_LENGTH.pack(len(key)), key, data)),)
    return db.execute("INSERT INTO kept_large (data) VALUES (?)", row).lastrowid or 0


def move_large(db: sqlite3.Connection) -> None:
    """Of a journal that had no table for large rows: put them there, inside of a transaction."""
    large = f'length("key") > {NAME_BYTES_MAX} OR length("key") + length(data) > {INLINE_BYTES_MAX}'
    for (key,) in db.execute(f'SELECT "key" FROM kept WHERE {large}').fetchall():
        one = 'FROM kept WHERE "key" = ?'
        crc, data = db.execute(f"SELECT crc, data {one}", (key,)).fetchone()
        if isinstance(key, bytes) and isinstance(data, bytes):  # else it is damaged: found later
            db.execute(f"DELETE {one}", (key,))
            row = (_name(key), crc, _place(db, key, data))
            db.execute("INSERT INTO kept VALUES (?, ?, ?)", row)


def _from_place(db: sqlite3.Connection, name: bytes, place: int) -> tuple[bytes, bytes] | None:
    """The key and the data of a large row; None if they are not there."""
    found = db.execute("SELECT data FROM kept_large WHERE id = ?", (place,)).fetchone()
    if found is None or not isinstance(found[0], bytes) or len(found[0]) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(found[0])
    end = _LENGTH.size + length
    key = found[0][_LENGTH.size : end]
    return (key, found[0][end:]) if len(key) == length and _name(key) == name else None


def write_total(db: sqlite3.Connection, total: Total, crc: int) -> None:
    """Say how many rows there are, inside of a transaction."""
    row = (1, total.count, total.sum, crc)
    db.execute("REPLACE INTO kept_total VALUES (?, ?, ?, ?)", row)


def read_total(db: sqlite3.Connection, crc: Callable[[Total], int]) -> Total | None:
    """What was said last; None if nothing is, or not what was written.  ``crc``: the checksum of
    a total."""
    rows = db.execute("SELECT count, sum, crc FROM kept_total").fetchall()
    if len(rows) != 1:
        return None
    total = Total(rows[0][0], rows[0][1])
    try:
        return total if rows[0][2] == crc(total) else None
    except struct.error:
        return None  # not numbers, or not such as are written


def read(db: sqlite3.Connection, seed: int, total: Total) -> Iterator[tuple[bytes, bytes]]:
    """All rows, by the name of their key; at the first that is not what was written, or at the end
    if the total is another one, LookupError says what is wrong."""
    count = check = 0
    for name, crc, data in db.execute('SELECT "key", crc, data FROM kept ORDER BY "key"'):
        found = _from_place(db, name, data) if isinstance(data, int) else (name, data)
        is_there = found is not None and isinstance(found[0], bytes) and isinstance(found[1], bytes)
        key, data = found if found is not None and is_there else (b"", b"")
        if not is_there or crc != checksum(key, data, seed):
            raise LookupError(f"row {name!r} of its application is not what was written")
        count, check = count + 1, (check + crc) % _SUMS
        yield key, data
    if Total(count, check) != total:
        raise LookupError(f"of {total.count} rows of its application {count} are as they were")


def checksum(key: bytes, data: bytes, seed: int) -> int:
    """Of a row."""
    return zlib.crc32(data, zlib.crc32(key, zlib.crc32(_LENGTH.pack(len(key)), seed)))
