"""What a journal is: a checkpoint, and records after it, in order.

It knows nothing of what they mean (client/ledger.py does).  Records are staged by ``append`` and
are there after a crash once ``commit`` has returned: all that were staged, or none.
``checkpoint`` replaces everything before it in one step.  So after a crash ``load`` gives the last
checkpoint and every record committed since, in order, or raises ``JournalError``: never less
without saying so.
"""

from __future__ import annotations

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

    log_bytes: int
    """Of the records since the last checkpoint, staged ones included."""

    def load(self) -> Saved:
        """Everything that is there."""

    def append(self, record: bytes) -> None:
        """Stage a record."""

    def commit(self) -> None:
        """Make what is staged durable; JournalError if that cannot be done, and then for ever:
        what is on disk is what it was after the last commit that returned."""

    def checkpoint(self, state: bytes) -> None:
        """Replace the checkpoint and all records, staged ones too, by this state, durably."""

    def close(self) -> None:
        """Commit and let go; may be called again."""
