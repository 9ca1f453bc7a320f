"""Why a journal in SQLite cannot be used: a sentence for what SQLite or the system says."""

from __future__ import annotations

import sqlite3
from typing import Final

from thence.errors import JournalError

# A message of SQLite about a damaged file can hold bytes of it that are no text.
FOREIGN: Final = (sqlite3.Error, OSError, UnicodeDecodeError)
_WHAT_TO_DO: Final = (
    "restore all its files from a copy that is not older than the last use of the journal, or have "
    "the group remove this node and let it join anew; to go on without would reuse its dots"
)


def damaged(path: str, what: str) -> JournalError:
    """The journal is not what was written."""
    return JournalError(f"the journal {path} is damaged: {what}; {_WHAT_TO_DO}")


def reason(path: str, error: Exception) -> JournalError:
    """A sentence for one of ``FOREIGN``."""
    if isinstance(error, OSError):
        said = error.strerror or str(error)
        return JournalError(f"the journal {path} cannot be used: {said}")
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if name.startswith("SQLITE_BUSY"):
        return JournalError(
            f"the journal {path} is in use: a node of this name runs already, here or in "
            "another process"
        )
    if name.startswith("SQLITE_FULL"):
        return JournalError(f"the journal {path} cannot grow: the disk is full")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_IOERR")):
        return JournalError(
            f"the journal {path} cannot be used: {error} ({name}); look at the disk, and "
            "at who may write the file and its folder"
        )
    return damaged(path, f"{error} ({name})")
