"""Rows of the application as tables of SQLite: statements, and how it is found that one is missing.

Each row has a checksum over key and value.  A row that is gone, or is there as it was before, looks
right by itself; so each checkpoint says how many rows there are, and the sum of their checksums,
which does not depend on their order.
"""

from __future__ import annotations

import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

CREATE: Final = 'CREATE TABLE kept ("key" BLOB PRIMARY KEY, crc INTEGER, data BLOB) WITHOUT ROWID'
CREATE_TOTAL: Final = (
    "CREATE TABLE kept_total (id INTEGER PRIMARY KEY, count INTEGER, sum INTEGER, crc INTEGER)"
)
KEYS_AT_A_TIME: Final = 500
GROUP_ROWS: Final = 1 << 14
GROUP_BYTES: Final = 1 << 23
"""Of rows that are sorted and written together: neighbours share pages."""
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
    for at in range(0, len(group), KEYS_AT_A_TIME) if count else ():
        keys = [key for key, _ in group[at : at + KEYS_AT_A_TIME]]
        places = ",".join("?" * len(keys))
        question = f'SELECT count(*), coalesce(sum(crc), 0) FROM kept WHERE "key" IN ({places})'
        gone, less = db.execute(question, keys).fetchone()
        count, check = count - gone, check - less
    if total.count:
        missing = [(key,) for key, data in group if data is None]
        db.executemany('DELETE FROM kept WHERE "key" = ?', missing)
    made = []
    for key, data in group:
        if data is not None:
            if len(key) + len(data) > ROW_BYTES_MAX:
                raise TooLargeError(len(key) + len(data))
            made.append((key, checksum(key, data, seed), data))
    db.executemany("REPLACE INTO kept VALUES (?, ?, ?)", made)
    return Total(count + len(made), (check + sum([crc for _, crc, _ in made])) % _SUMS)


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
    """All rows, by key; at the first that is not what was written, or at the end if the total is
    another one, LookupError says what is wrong."""
    count = check = 0
    for key, crc, data in db.execute('SELECT "key", crc, data FROM kept ORDER BY "key"'):
        is_right = isinstance(key, bytes) and isinstance(data, bytes)
        if not is_right or crc != checksum(key, data, seed):
            raise LookupError(f"row {key!r} of its application is not what was written")
        count, check = count + 1, (check + crc) % _SUMS
        yield key, data
    if Total(count, check) != total:
        raise LookupError(f"of {total.count} rows of its application {count} are as they were")


def checksum(key: bytes, data: bytes, seed: int) -> int:
    """Of a row."""
    return zlib.crc32(data, zlib.crc32(key, zlib.crc32(_LENGTH.pack(len(key)), seed)))
