"""What a journal is: a checkpoint, and records after it, in order.

It knows nothing of what they mean (client/ledger.py does).  Records are staged by ``append`` and
are there after a crash once ``commit`` has returned: all that were staged, or none.
``checkpoint`` replaces everything before it in one step.  So after a crash ``load`` gives the last
checkpoint and every record committed since, in order, or raises ``JournalError``: never less
without saying so.

Beside them there is a *shelf*: values by number that would take too much memory, and too much of
every checkpoint.  They are there as long as checkpoints say that they are needed.

And there are *rows* of the application, by key: a checkpoint replaces those that have changed, in
the same step.  So they are always what they were at the last checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import msgspec


class Identity(msgspec.Struct, frozen=True):
    """Whose journal it is.  Another node, or the same in another group, may not use it."""

    group: str
    node: str
    """The name with its incarnation: ``a`` or ``a#2``."""


class Saved(msgspec.Struct, frozen=True):
    """What a journal holds."""

    checkpoint: bytes | None
    """None before the first one."""
    records: list[bytes]
    """Committed since, in order."""


class Journal(Protocol):
    """One node's memory in one group."""

    durability: str
    """What is committed survives: the end of the ``process``, or of ``power`` too."""
    log_bytes: int
    """Of the records since the last checkpoint, staged ones included."""

    def load(self) -> Saved:
        """Everything that is there."""

    def append(self, record: bytes) -> None:
        """Stage a record."""

    def commit(self) -> None:
        """Make what is staged durable; JournalError if that cannot be done, and then for ever:
        what is on disk is what it was after the last commit that returned."""

    def checkpoint(
        self,
        state: bytes,
        shelved: Iterable[tuple[int, int]] = (),
        rows: Iterable[tuple[bytes, bytes | None]] = (),
    ) -> None:
        """Replace the checkpoint and all records, staged ones too, by this state, durably; of the
        shelf only these ranges of numbers are left; these rows are replaced, or deleted (None), and
        the others stay."""

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows, by key, as of the last checkpoint; JournalError, at the end at the latest, if
        they are not what was written."""

    def shelve(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Put values on the shelf, by number from 0 to 2**63 - 1, all or none; one that is there is
        replaced.  JournalError like ``commit``."""

    def fetch(self, number: int) -> bytes:
        """A value from the shelf; JournalError if it is not there as it was put there."""

    def shelved(self) -> list[tuple[int, int]]:
        """The numbers on the shelf and how many bytes each has, sorted."""

    def close(self) -> None:
        """Commit and let go; may be called again."""
