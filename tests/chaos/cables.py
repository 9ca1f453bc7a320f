"""Cables between processes on one machine, which can be cut: a proxy for each direction.

They run in a thread of the test, with an event loop of their own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from functools import partial
from types import TracebackType
from typing import Any

CHUNK_BYTES = 256 << 10


class Cables:
    """Proxies to (host, port) by (from, to)."""

    def __init__(self, targets: dict[tuple[str, str], int]) -> None:
        """``targets``: the port on which a node listens, for each node that dials it."""
        self._targets = targets
        self.ports: dict[tuple[str, str], int] = {}
        """Where the one has to dial to reach the other."""
        self._cut: set[frozenset[str]] = set()
        self._open: dict[frozenset[str], set[asyncio.StreamWriter]] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Cables:
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._call(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def cut(self, one: str, others: Iterable[str]) -> None:
        """Nothing passes between one node and the others."""
        self._call(self._cut_now([frozenset((one, other)) for other in others]))

    def mend(self) -> None:
        """All cables are whole again."""
        self._cut.clear()

    def _call(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    async def _listen(self) -> None:
        for ends in self._targets:
            server = await asyncio.start_server(partial(self._pass_on, ends), "127.0.0.1")
            self._servers.append(server)
            self.ports[ends] = server.sockets[0].getsockname()[1]

    async def _cut_now(self, pairs: list[frozenset[str]]) -> None:
        for pair in pairs:
            self._cut.add(pair)
            for writer in self._open.get(pair, set()):
                writer.transport.abort()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _pass_on(
        self, ends: tuple[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pair = frozenset(ends)
        both = [writer]
        try:
            if pair in self._cut:
                return
            there, other = await asyncio.open_connection("127.0.0.1", self._targets[ends])
            both.append(other)
            if pair in self._cut:
                return
            self._open.setdefault(pair, set()).update(both)
            await asyncio.gather(_copy(reader, other), _copy(there, writer))
        except OSError:
            pass  # nobody listens there now
        finally:
            self._open.get(pair, set()).difference_update(both)
            for each in both:
                each.transport.abort()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Until one of them is gone; then the other goes, too."""
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    raise ConnectionResetError
