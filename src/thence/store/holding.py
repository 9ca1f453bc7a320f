"""Replies of all connections that wait until what they may tell of is written down."""

from __future__ import annotations

from typing import Final, Protocol

from thence.store.commands.base import Database


class Holder(Protocol):
    """A connection that has bytes here."""

    def release(self, data: bytes, answers: int, failure: str) -> None:
        """These bytes, the oldest of this connection, may go; or they may never."""


class Holding:
    """In the order in which they were made.

    The database is asked once for many: a commit that was asked for before some bytes came releases
    them, too, if nothing is unwritten when it is done.  Otherwise they wait for the next.
    """

    __slots__ = ("_asked", "_database", "_entries")

    def __init__(self, database: Database) -> None:
        self._database: Final = database
        self._entries: list[tuple[Holder, bytes, int]] = []
        self._asked = 0  # so many entries were there when the database was asked; 0: it was not

    def hold(self, holder: Holder, data: bytes, answers: int) -> None:
        """Keep bytes that answer so many requests."""
        self._entries.append((holder, data, answers))
        if not self._asked:
            self._ask()

    def _ask(self) -> None:
        self._asked = len(self._entries)
        self._database.on_commit(self._committed)

    def _committed(self, failure: str | None) -> None:
        entries = self._entries
        count = len(entries)
        if failure is None and self._database.uncommitted:
            count = self._asked
        self._entries = entries[count:]
        self._asked = 0
        if self._entries:
            self._ask()
        for at in range(count):
            holder, data, answers = entries[at]
            holder.release(data, answers, failure or "")
