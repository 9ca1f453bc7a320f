"""Telling an application whose state is kept (kept.py) what happened since the last checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from thence.client.kept import Find, Kept
from thence.errors import JournalError, ThenceError


class Retold:
    """One application that is told again.  What it raises becomes a JournalError: that it cannot
    go on from there, and why."""

    def __init__(self, kept: Kept, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self._kept = kept
        self._find = find
        self._rows = rows

    def begin(self) -> None:
        """The tags of the checkpoint are there; nothing else has happened."""
        rows = iter(self._rows)
        self._call(self._kept.begin, self._find, rows)
        for _ in rows:  # what it left over may be damaged too
            pass

    def sent(self, tag: Any) -> None:
        """An own message."""
        self._call(self._kept.sent, tag)

    def delivered(self, tag: Any) -> None:
        """A delivery that was confirmed."""
        if not tag.hollow:
            self._call(self._kept.delivered, tag)

    def stable(self, tag: Any) -> None:
        """A stable event that was confirmed; the tag is not forgotten yet."""
        if not tag.hollow:
            self._call(self._kept.stable, tag)

    def _call(self, function: Callable[..., None], *what: Any) -> None:
        try:
            function(*what)
        except ThenceError:
            raise
        except Exception as error:
            raise JournalError(
                f"the application cannot go on from its journal: {type(error).__name__}: {error}"
            ) from error
