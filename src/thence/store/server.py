"""The server that clients of Redis connect to.

    async with Server(database, Settings(port=0)) as server:
        print(server.port)
        await server.until_stopped()

It runs in the event loop of the database's group, uvloop's or asyncio's own.  Connections do the
work (connection.py); here are the listening socket, the limit on clients, idle clients, what is
published for subscribers, and the end: nothing is accepted any more, requests under way are
finished, replies that wait for a commit are sent, then connections are closed.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from thence.errors import UnusableInputError
from thence.store.commands.base import Database
from thence.store.commands.glob import matcher
from thence.store.commands.refused import REFUSED
from thence.store.commands.registry import COMMANDS
from thence.store.connection import Connection
from thence.store.dispatch import Dispatch
from thence.store.errors import MAX_CLIENTS
from thence.store.holding import Holding
from thence.store.host import Client
from thence.store.listening import tls_context
from thence.store.replies import Push
from thence.store.resp import encode
from thence.store.session import Session, Shared
from thence.store.settings import Settings
from thence.store.topics import Topics

STOP_S: Final = 5.0
"""Clients have so long to take their last replies when the server stops."""
SWEEP_S: Final = 1.0
"""Idle clients are looked for so often."""
BACKLOG: Final = 511
"""Connections that the system accepts before the server does; as in Redis."""
HANDSHAKE_S: Final = 10.0


class Server:
    """Listens between ``start`` and ``stop``."""

    def __init__(self, database: Database, settings: Settings | None = None) -> None:
        """``database`` is open, and stays so when the server stops."""
        settings = settings or Settings()
        settings.check()
        self._tls = tls_context(settings)
        self.database: Final = database
        self.dispatch: Final = Dispatch(COMMANDS, REFUSED)
        self.holding: Final = Holding(database)
        topics: Topics[Session] = Topics(matcher)
        self.shared: Final = Shared(settings, topics)
        self.shared.stop = self._stop_soon
        self.shared.blocked = self._blocked
        self.shared.unwatched = database.unwatch
        self._connections: dict[Client, None] = {}
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._is_stopping = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def __aenter__(self) -> Server:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The one that it was started in."""
        return self._loop

    @property
    def port(self) -> int:
        """Where it listens, also when the system chose."""
        return self.shared.port

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._connections)

    async def start(self) -> None:
        """Listen."""
        settings = self.shared.settings
        self._loop = asyncio.get_running_loop()
        try:
            self._listener = await self._loop.create_server(
                self._connection,
                settings.host or None,
                settings.port,
                backlog=BACKLOG,
                ssl=self._tls,
                ssl_handshake_timeout=HANDSHAKE_S if self._tls else None,
            )
        except OSError as error:
            where = f"{settings.host or '*'}:{settings.port}"
            raise UnusableInputError(f"cannot listen on {where}: {error.strerror}") from error
        self.shared.port = self._listener.sockets[0].getsockname()[1]
        self.database.subscribe(self._published)
        self._sweep()

    async def until_stopped(self) -> None:
        """A client said SHUTDOWN."""
        await self._is_stopping.wait()

    async def stop(self, grace_s: float = STOP_S) -> None:
        """Let clients go in good order; those that do not take their replies in time are dropped,
        also when this is cancelled.  May be called again."""
        self._is_stopping.set()
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        listener.close()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._connections):
            connection.close()
        try:
            async with asyncio.timeout(grace_s):
                await self._is_empty.wait()
        except TimeoutError:
            pass
        finally:
            for connection in list(self._connections):
                connection.session.kill()
        await self._is_empty.wait()
        await listener.wait_closed()

    def _connection(self) -> Any:
        return Connection(self)

    # ---- what connections call -------------------------------------------------------------------

    def admit(self, connection: Client) -> str:
        """A connection was made; a text says why it is refused."""
        self._connections[connection] = None
        self._is_empty.clear()
        if self._is_stopping.is_set():
            return "ERR the server is stopping"
        if len(self._connections) > self.shared.settings.clients_max:
            self.shared.rejected += 1
            return MAX_CLIENTS
        return ""

    def forget(self, connection: Client) -> None:
        """It is gone."""
        self.shared.close(connection.session)
        self._connections.pop(connection, None)
        if not self._connections:
            self._is_empty.set()

    # ---- inside ----------------------------------------------------------------------------------

    def _stop_soon(self) -> None:
        self._is_stopping.set()

    def _blocked(self) -> int:
        return sum([connection.is_blocked for connection in self._connections])

    def _published(self, channel: bytes, message: bytes) -> None:
        """To the subscribers of this server; encoded once for each way of encoding."""
        encoded: dict[tuple[int, bytes | None], bytes] = {}
        for session, pattern in self.shared.topics.hearers(channel):
            place = (session.protocol, pattern)
            data = encoded.get(place)
            if data is None:
                data = encoded[place] = _message(session.protocol, pattern, channel, message)
            session.push(data)

    def _sweep(self) -> None:
        """Drop clients that have been silent for too long; subscribers may be."""
        self._sweeper = self._loop.call_later(SWEEP_S, self._sweep)
        limit_s = self.shared.settings.idle_timeout_s
        if not limit_s:
            return
        oldest = self._loop.time() - limit_s
        for connection in list(self._connections):
            session = connection.session
            if session.last_active < oldest and not session.subscriptions:
                if not connection.is_waiting:
                    connection.close()


def _message(protocol: int, pattern: bytes | None, channel: bytes, message: bytes) -> bytes:
    if pattern is None:
        items = [b"message", channel, message]
    else:
        items = [b"pmessage", pattern, channel, message]
    out: list[bytes] = []
    encode(Push(items), protocol, out)
    return b"".join(out)
