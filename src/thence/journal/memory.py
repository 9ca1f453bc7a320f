"""A journal in memory, for tests and the simulator: what a crash leaves, and faults on request.

A ``MemoryDisk`` is the file, a ``MemoryJournal`` the open one.  ``disk.crash()`` is kill -9: staged
records are gone, the open journal is dead, and the next one finds what was committed.  A ``Fault``
fails or crashes one operation, before it does anything or after it did all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from thence.errors import JournalError, LocalProtocolError
from thence.journal.base import Identity, Saved


class Crashed(BaseException):
    """The process would be gone here.

    No node may catch it, so it is no Exception: a simulator does, and starts the node again.
    """


class Fault(msgspec.Struct, frozen=True):
    """What happens to one operation on a disk."""

    at: int
    """Which one, counted from 1: appends, commits that have something to write, checkpoints, values
    put on the shelf."""
    kind: Literal["fail", "crash"]
    """JournalError now and ever after, or Crashed."""
    when: Literal["before", "after"] = "before"
    """Whether the operation is then undone or done.  A disk can fail to confirm what it wrote."""


class MemoryDisk:
    """What is there after a crash, and the next fault."""

    def __init__(self) -> None:
        self.identity: Identity | None = None
        self.checkpoint: bytes | None = None
        self.records: list[bytes] = []
        """Committed since the checkpoint."""
        self.shelf: dict[int, bytes] = {}
        self.rows: dict[bytes, bytes] = {}
        """Of the application, as of the checkpoint."""
        self.operations = 0
        """Done or tried so far: run once without a fault to learn how many there are."""
        self.fault: Fault | None = None
        self._holder: MemoryJournal | None = None

    def crash(self) -> None:
        """End the open journal, if any, as kill -9 does; ``fault`` stays as it is."""
        self._holder = None

    def open(self, journal: MemoryJournal) -> None:
        """Lock the disk for this journal; JournalError when another has it, or it is another's."""
        owner = self.identity or journal.identity
        if self._holder is not None:
            raise JournalError("the journal in memory is in use: a node of this name runs already")
        if owner != journal.identity:
            raise JournalError(
                f"the journal in memory is that of {owner.node} in {owner.group}, not of "
                f"{journal.identity.node} in {journal.identity.group}"
            )
        self.identity = owner
        self._holder = journal

    def is_held_by(self, journal: MemoryJournal) -> bool:
        """Whether this journal is the open one."""
        return self._holder is journal

    def close(self) -> None:
        """Unlock the disk."""
        self._holder = None

    def operate(self, when: Literal["before", "after"]) -> None:
        """Count an operation, and raise what the fault asks for."""
        self.operations += when == "before"
        fault = self.fault
        if fault is None or (fault.at, fault.when) != (self.operations, when):
            return
        if fault.kind == "crash":
            self.crash()
            raise Crashed
        raise JournalError("the journal in memory fails, as it was asked to")


class MemoryJournal:
    """One node's memory in one group, on a disk in memory (see ``thence.journal.base``)."""

    def __init__(self, disk: MemoryDisk, identity: Identity) -> None:
        self.disk = disk
        self.identity = identity
        self.durability = "process"
        self._staged: list[bytes] = []
        self._failed: JournalError | None = None
        self._closed = False
        disk.open(self)
        self.log_bytes = sum(map(len, disk.records))

    def load(self) -> Saved:
        """Everything that was committed."""
        self._must_be_usable()
        return Saved(self.disk.checkpoint, list(self.disk.records))

    def append(self, record: bytes) -> None:
        """Stage a record."""
        self._operate("before")
        self._staged.append(record)
        self.log_bytes += len(record)
        self._operate("after")

    def commit(self) -> None:
        """Make what is staged durable; nothing is written when nothing is staged."""
        self._must_be_usable()
        if not self._staged:
            return
        self._operate("before")
        self.disk.records += self._staged
        self._staged = []
        self._operate("after")

    def checkpoint(
        self,
        state: bytes,
        shelved: Iterable[tuple[int, int]] = (),
        rows: Iterable[tuple[bytes, bytes | None]] = (),
    ) -> None:
        """Replace everything by ``state``, the shelf by these ranges of it, and these rows."""
        self._operate("before")
        ranges, changed = list(shelved), dict(rows)
        self.disk.rows.update((key, value) for key, value in changed.items() if value is not None)
        for key in [key for key, value in changed.items() if value is None]:
            self.disk.rows.pop(key, None)
        self.disk.shelf = {
            number: value
            for number, value in self.disk.shelf.items()
            if any([first <= number <= last for first, last in ranges])
        }
        self.disk.checkpoint = state
        self.disk.records = []
        self._staged = []
        self.log_bytes = 0
        self._operate("after")

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """All rows, by key."""
        self._must_be_usable()
        return iter(sorted(self.disk.rows.items()))

    def shelve(self, values: Iterable[tuple[int, bytes]]) -> None:
        """Put values on the shelf."""
        self._operate("before")
        self.disk.shelf.update(values)
        self._operate("after")

    def fetch(self, number: int) -> bytes:
        """A value from the shelf."""
        self._must_be_usable()
        if number not in self.disk.shelf:
            raise JournalError(f"the journal in memory has nothing under {number} on its shelf")
        return self.disk.shelf[number]

    def shelved(self) -> list[tuple[int, int]]:
        """The numbers on the shelf and how many bytes each has."""
        self._must_be_usable()
        return [(number, len(value)) for number, value in sorted(self.disk.shelf.items())]

    def close(self) -> None:
        """Commit and unlock the disk; after a commit that failed only unlock it."""
        if self._closed:
            return
        if not self.disk.is_held_by(self):
            self._closed = True  # it crashed: there is nothing to let go of
            return
        try:
            if self._failed is None:
                self.commit()
        finally:
            self._closed = True
            self.disk.close()

    def _must_be_usable(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise LocalProtocolError("the journal in memory is closed")
        if not self.disk.is_held_by(self):
            raise JournalError("the journal in memory was lost in a crash: its process is gone")

    def _operate(self, when: Literal["before", "after"]) -> None:
        self._must_be_usable()
        try:
            self.disk.operate(when)
        except JournalError as error:
            self._failed = error
            raise
