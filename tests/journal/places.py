"""Where a test keeps a journal, and how it crashes there: the same for every kind."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from hashlib import sha256
from pathlib import Path

from thence.journal.base import Identity, Journal
from thence.journal.memory import MemoryDisk, MemoryJournal
from thence.journal.sqlite import SqliteJournal

A = Identity("g", "a")
PARTS = ("", "-wal", "-mark")
"""The files of an open journal in SQLite, by what follows its path."""


class Place(ABC):
    """One journal's place."""

    @abstractmethod
    def open(self, identity: Identity = A) -> Journal:
        """A journal on what is there."""

    @abstractmethod
    def crash(self) -> None:
        """Leave what kill -9 would; a journal that is open must not be used again."""


class InMemory(Place):
    def __init__(self, folder: Path) -> None:
        self.disk = MemoryDisk()

    def open(self, identity: Identity = A) -> Journal:
        return MemoryJournal(self.disk, identity)

    def crash(self) -> None:
        self.disk.crash()


class InSqlite(Place):
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lives = 0
        self.left: list[Journal] = []

    @property
    def path(self) -> Path:
        return self.folder / f"life{self.lives}" / "a.journal"

    def open(self, identity: Identity = A) -> Journal:
        self.path.parent.mkdir(exist_ok=True)
        journal = SqliteJournal(self.path, identity)
        self.left.append(journal)
        return journal

    def crash(self) -> None:
        """The files as they are now, elsewhere: what the system has after the process is gone."""
        before = self.path
        self.lives += 1
        self.path.parent.mkdir()
        copy_journal(before, self.path)


def copy_journal(source: Path, target: Path, parts: tuple[str, ...] = PARTS) -> None:
    """Copy those files of a journal that are there."""
    for part in parts:
        if Path(f"{source}{part}").exists():
            shutil.copy(f"{source}{part}", f"{target}{part}")


def hash_of(key: bytes, value: bytes) -> int:
    """Of a row; the sum of those of all rows does not depend on their order."""
    return int.from_bytes(sha256(key + b":" + value).digest()[:8], "big")


PLACES: tuple[type[InMemory] | type[InSqlite], ...] = (InMemory, InSqlite)
