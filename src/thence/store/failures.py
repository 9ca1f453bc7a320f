"""What a client hears of a command that failed as no command should; the log hears it all."""

from __future__ import annotations

import logging
import traceback
from typing import Final

from thence.errors import LimitError
from thence.store.errors import CommandError, shown
from thence.telemetry.logs import event

INTERNAL_ERROR: Final = "ERR internal error; the log of the server has the details"
LOGGER: Final = logging.getLogger("thence.store")


def failed(name: bytes, error: Exception) -> CommandError:
    """The error reply to a command of this name."""
    if isinstance(error, LimitError):
        return CommandError(f"ERR {error}")
    where = traceback.extract_tb(error.__traceback__)[-1]
    event(
        LOGGER,
        logging.ERROR,
        "command failed",
        command=shown(name),
        error=repr(error),
        where=f"{where.filename}:{where.lineno}",
    )
    return CommandError(INTERNAL_ERROR)
