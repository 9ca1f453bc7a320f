"""What is found at the path of a journal before it is opened."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from thence.errors import JournalError
from thence.journal.reasons import damaged


def is_there(path: str, beside: Iterable[str]) -> bool:
    """Whether there is a file to open; JournalError when there is something else, or only files
    that are beside one."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        for left in beside:
            if os.path.lexists(left):
                raise damaged(path, f"it is gone, and {left} says it was there") from None
        if os.path.islink(path):
            raise JournalError(f"{path} is a link to nothing") from None
        return False
    except OSError as error:
        raise JournalError(f"{path}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise JournalError(f"{path} is not a file: give the journal a path of its own")
    if not found.st_size:
        raise damaged(path, "it is empty")
    return True
