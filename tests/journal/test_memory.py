"""The journal in memory: faults at every operation."""

from __future__ import annotations

from typing import Literal

import pytest

from tests.journal.places import A
from thence.errors import JournalError
from thence.journal.base import Saved
from thence.journal.memory import Crashed, Fault, MemoryDisk, MemoryJournal


def use(journal: MemoryJournal) -> None:
    """Seven operations."""
    journal.append(b"1")
    journal.append(b"2")
    journal.commit()
    journal.commit()  # of nothing: does not count
    journal.append(b"3")
    journal.checkpoint(b"123", rows=[(b"a", b"123")])
    journal.append(b"4")
    journal.commit()


# What is there after each operation, the first entry before any.
AFTER = [
    Saved(None, []),
    Saved(None, []),
    Saved(None, []),
    Saved(None, [b"1", b"2"]),
    Saved(None, [b"1", b"2"]),
    Saved(b"123", []),
    Saved(b"123", []),
    Saved(b"123", [b"4"]),
]


def check(disk: MemoryDisk, there: Saved) -> None:
    """This is what the disk holds, and the row that the checkpoint has brought."""
    journal = MemoryJournal(disk, A)
    assert journal.load() == there
    assert list(journal.rows()) == ([(b"a", b"123")] if there.checkpoint else [])


def test_operations_are_counted():
    disk = MemoryDisk()
    use(MemoryJournal(disk, A))
    assert disk.operations == len(AFTER) - 1


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, len(AFTER)))
def test_a_crash_at_any_operation_leaves_what_was_committed(
    at: int, when: Literal["before", "after"]
):
    disk = MemoryDisk()
    disk.fault = Fault(at, "crash", when)
    journal = MemoryJournal(disk, A)
    with pytest.raises(Crashed):
        use(journal)
    with pytest.raises(JournalError, match="lost in a crash"):
        journal.commit()
    journal.close()  # a dead process closes nothing
    check(disk, AFTER[at - (when == "before")])


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", range(1, len(AFTER)))
def test_what_failed_once_fails_for_ever(at: int, when: Literal["before", "after"]):
    disk = MemoryDisk()
    disk.fault = Fault(at, "fail", when)
    journal = MemoryJournal(disk, A)
    with pytest.raises(JournalError, match="as it was asked"):
        use(journal)
    disk.fault = None
    for again in (journal.commit, lambda: journal.append(b"5"), lambda: journal.checkpoint(b"")):
        with pytest.raises(JournalError):
            again()
    journal.close()
    check(disk, AFTER[at - (when == "before")])


def test_a_journal_of_before_the_crash_cannot_write_into_the_next_life():
    disk = MemoryDisk()
    old = MemoryJournal(disk, A)
    old.append(b"1")
    disk.crash()
    new = MemoryJournal(disk, A)
    with pytest.raises(JournalError):
        old.commit()
    old.close()
    new.append(b"2")
    new.commit()
    assert new.load() == Saved(None, [b"2"])
