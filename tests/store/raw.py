"""A server of one node, and clients that send it bytes as they like."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import hiredis

from tests.transport.peers import run as run_in
from thence.store.node import Store
from thence.store.server import Server
from thence.store.settings import Settings

QUIET_S = 0.1
"""When nothing comes for so long, nothing is going to."""


def run(main: Coroutine[Any, Any, None], loop: str = "asyncio") -> None:
    """Run to the end; whatever the loop would only have logged is a failure too."""
    run_in(loop, main)


class Gate:
    """A database whose commits, room and failure the test decides; the rest is a real one's."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self.uncommitted = False
        self.failure = ""
        self.room = asyncio.Event()
        self.room.set()
        self.waiting: list[Callable[[str | None], object]] = []

    def on_commit(self, callback: Callable[[str | None], object]) -> None:
        self.waiting.append(callback)

    def commit(self, failure: str | None = None, all_of_it: bool = True) -> None:
        """What was written before somebody asked is written down now, or never will be."""
        self.failure = failure or ""
        self.uncommitted = bool(failure) or not all_of_it
        waiting, self.waiting = self.waiting, []
        for callback in waiting:
            callback(failure)

    def has_room(self) -> bool:
        return self.room.is_set()

    async def until_room(self) -> None:
        await self.room.wait()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._replies = hiredis.Reader()

    def send(self, *words: bytes | str) -> None:
        self.write(request(*words))

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def reply(self) -> Any:
        """The next reply; errors as ``hiredis.ReplyError`` objects.  EOFError: the end."""
        while True:
            found = self._replies.gets()
            if found is not False:
                return found
            data = await self.reader.read(1 << 16)
            if not data:
                raise EOFError
            self._replies.feed(data)

    async def do(self, *words: bytes | str) -> Any:
        self.send(*words)
        return await self.reply()

    async def is_silent(self) -> bool:
        """Whether no reply comes."""
        try:
            async with asyncio.timeout(QUIET_S):
                data = await self.reader.read(1 << 16)
        except TimeoutError:
            return True
        self._replies.feed(data)
        return False

    async def rest(self) -> bytes:
        """All bytes until the server closes."""
        return await self.reader.read()

    async def is_closed(self) -> bool:
        """The server ends the connection, whatever it sends before."""
        try:
            await self.rest()
        except ConnectionError:
            pass
        return True

    def close(self) -> None:
        self.writer.close()


def request(*words: bytes | str) -> bytes:
    """A request as an array of bulk strings."""
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(p), p) for p in parts])


class Site:
    """A server, and who connects to it."""

    def __init__(self, server: Server, gate: Gate, stack: AsyncExitStack) -> None:
        self.server = server
        self.gate = gate
        self._stack = stack

    async def client(self, **options: Any) -> Client:
        """A new connection; it is closed at the end."""
        if "sock" not in options:
            options.update(host="127.0.0.1", port=self.server.port)
        made = Client(*await asyncio.open_connection(**options))
        self._stack.callback(made.close)
        return made


@asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[Site]:
    """A server of one node, whose database is behind a gate; arguments are its settings."""
    async with Store("a", settings=Settings(port=0)) as store, AsyncExitStack() as stack:
        gate = Gate(store.database)
        server = Server(gate, Settings(port=0, **settings))
        await stack.enter_async_context(server)
        yield Site(server, gate, stack)


async def until(condition: Callable[[], bool]) -> None:
    """Poll; the test's own time limit ends it."""
    while not condition():
        await asyncio.sleep(0.005)
