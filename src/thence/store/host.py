"""What a connection needs of its server."""

from __future__ import annotations

import asyncio
from typing import Protocol

from thence.store.commands.base import Database
from thence.store.dispatch import Dispatch
from thence.store.holding import Holding
from thence.store.session import Session, Shared


class Client(Protocol):
    """A connection, as its server sees it."""

    session: Session

    def close(self) -> None:
        """Let it end in good order."""

    @property
    def is_blocked(self) -> bool:
        """A command of it waits, or a write until there is room."""

    @property
    def is_waiting(self) -> bool:
        """It is not the client's fault that nothing happens."""


class Host(Protocol):
    """What a connection needs of its server."""

    @property
    def database(self) -> Database: ...

    @property
    def dispatch(self) -> Dispatch: ...

    @property
    def shared(self) -> Shared: ...

    @property
    def holding(self) -> Holding: ...

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...

    def admit(self, connection: Client) -> str:
        """A connection was made; a text says why it is refused."""

    def forget(self, connection: Client) -> None:
        """It is gone."""
