"""CONFIG GET and CONFIG SET: the settings of the server under the names that Redis has for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from thence.store.commands.base import Database
from thence.store.commands.glob import matcher
from thence.store.errors import CommandError, shown, wrong_arity
from thence.store.replies import OK, Reply
from thence.store.session import Session
from thence.store.settings import Settings

_COUNT_MAX: Final = 2**32 - 1


def _journaled(db: Database) -> str:
    kept = db.info().get("Persistence", {}).get("aof_enabled")
    return "yes" if kept else "no"


def _synced(db: Database) -> str:
    """Whether a write is on the disk before its reply leaves, or when the system wants."""
    survives = db.info().get("Persistence", {}).get("journal_durability")
    return "always" if survives == "power" else "no"


Read = Callable[[Database, Session], object]
PARAMETERS: Final[dict[str, Read]] = {
    "appendfsync": lambda db, session: _synced(db),
    "appendonly": lambda db, session: _journaled(db),
    "bind": lambda db, session: session.shared.settings.host,
    "databases": lambda db, session: 1,
    "maxclients": lambda db, session: session.shared.settings.clients_max,
    "maxmemory": lambda db, session: 0,
    "maxmemory-policy": lambda db, session: "noeviction",
    "port": lambda db, session: session.shared.port,
    "proto-max-bulk-len": lambda db, session: session.shared.settings.value_bytes_max,
    "protected-mode": lambda db, session: "yes" if session.shared.settings.protected else "no",
    "save": lambda db, session: "",
    "timeout": lambda db, session: int(session.shared.settings.idle_timeout_s),
}
"""Of the password nothing is said."""


def config_get(db: Database, session: Session, args: list[bytes]) -> Reply:
    tests = [matcher(arg.lower()) for arg in args[1:]]
    return {
        name: str(read(db, session))
        for name, read in PARAMETERS.items()
        if any([test(name.encode()) for test in tests])
    }


def _set_clients_max(settings: Settings, number: int) -> Settings:
    return msgspec.structs.replace(settings, clients_max=number)


def _set_timeout(settings: Settings, number: int) -> Settings:
    return msgspec.structs.replace(settings, idle_timeout_s=float(number))


_SETTABLE: Final[dict[str, tuple[int, int, Callable[[Settings, int], Settings]]]] = {
    "maxclients": (1, _COUNT_MAX, _set_clients_max),
    "timeout": (0, 2**31 - 1, _set_timeout),
}
"""Smallest and largest value, and how it is put in."""


def config_set(db: Database, session: Session, args: list[bytes]) -> Reply:
    """All of them or none."""
    if len(args) % 2 == 0:
        raise CommandError(wrong_arity("config|set"))
    settings = session.shared.settings
    seen = set()
    for option, value in zip(args[1::2], args[2::2], strict=True):
        name = shown(option).lower()
        if name not in PARAMETERS:
            raise CommandError(
                f"ERR Unknown option or number of arguments for CONFIG SET - '{shown(option)}'"
            )
        if name in seen:
            raise _refusal(option, "duplicate parameter")
        seen.add(name)
        if name not in _SETTABLE:
            raise _refusal(option, "can't set immutable config")
        low, high, put = _SETTABLE[name]
        if not value.removeprefix(b"-").isdigit() or len(value) > 19:
            raise _refusal(option, "argument couldn't be parsed into an integer")
        if not low <= int(value) <= high:
            raise _refusal(option, f"argument must be between {low} and {high} inclusive")
        settings = put(settings, int(value))
    session.shared.settings = settings
    return OK


def _refusal(option: bytes, reason: str) -> CommandError:
    return CommandError(
        f"ERR CONFIG SET failed (possibly related to argument '{shown(option)}') - {reason}"
    )
