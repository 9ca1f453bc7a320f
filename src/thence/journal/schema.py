"""The tables of a journal in SQLite, now and in earlier versions of thence."""

from __future__ import annotations

from typing import Any, Final

from thence.journal import kept_table, shelf_table

APPLICATION_ID: Final = 0x7468656E  # "then"; `file` shows it
FORMAT: Final = 4
FORMAT_WITHOUT_LARGE: Final = 3
FORMAT_WITHOUT_ROWS: Final = 2
FORMAT_WITHOUT_SHELF: Final = 1
SCHEMA: Final = {
    "kept": kept_table.CREATE,
    "kept_large": kept_table.CREATE_LARGE,
    "kept_total": kept_table.CREATE_TOTAL,
    "shelf": shelf_table.CREATE,
    "owner": 'CREATE TABLE owner (id INTEGER PRIMARY KEY, "group" TEXT, node TEXT, '
    "open INTEGER, last INTEGER, crc INTEGER)",
    "checkpoint": "CREATE TABLE checkpoint (part INTEGER PRIMARY KEY, parts INTEGER, "
    "seq INTEGER, crc INTEGER, data BLOB)",
    "log": "CREATE TABLE log (seq INTEGER PRIMARY KEY, crc INTEGER, data BLOB)",
}
LACKING: Final[dict[Any, tuple[str, ...]]] = {
    FORMAT: (),
    FORMAT_WITHOUT_LARGE: ("kept_large",),
    FORMAT_WITHOUT_ROWS: ("kept", "kept_large", "kept_total"),
    FORMAT_WITHOUT_SHELF: ("kept", "kept_large", "kept_total", "shelf"),
}
"""By format, the tables that it does not have.  Such a journal becomes one of the present format
when it is opened."""
