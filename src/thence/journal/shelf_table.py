"""The shelf of a journal as a table of SQLite: statements, without what a journal makes of errors.

A row has no number of a commit: one that is missing is found when it is asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final

CREATE: Final = "CREATE TABLE shelf (number INTEGER PRIMARY KEY, crc INTEGER, data BLOB)"
NUMBER_MAX: Final = (1 << 63) - 1
"""Of a value on the shelf."""


def put(db: sqlite3.Connection, rows: Iterable[tuple[int, int, bytes]]) -> None:
    """Write rows of number, checksum and value, all or none."""
    db.execute("BEGIN IMMEDIATE")
    db.executemany("REPLACE INTO shelf VALUES (?, ?, ?)", rows)
    db.execute("COMMIT")


def get(db: sqlite3.Connection, number: int) -> tuple[object, object] | None:
    """Checksum and value, as they are found; None: nothing is."""
    found: tuple[object, object] | None = db.execute(
        "SELECT crc, data FROM shelf WHERE number = ?", (number,)
    ).fetchone()
    return found


def keep(db: sqlite3.Connection, ranges: Iterable[tuple[int, int]]) -> None:
    """Delete what is in none of these ranges, inside of a transaction."""
    after = -1
    for first, last in [*sorted(ranges), (NUMBER_MAX + 1, NUMBER_MAX + 1)]:
        gap = (after, first - 1)  # the last gap ends where numbers do
        db.execute("DELETE FROM shelf WHERE number > ? AND number <= ?", gap)
        after = last


def sizes(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """The numbers that are there, and how many bytes each has."""
    return list(db.execute("SELECT number, length(data) FROM shelf ORDER BY number"))
