"""A mesh of bare connections on uvloop: frames with a length, no order but each link's own."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from benchmarks.mesh.load import Load

_LENGTH = struct.Struct(">I")


class Link(asyncio.Protocol):
    """One connection: cuts what arrives and calls a function with each message."""

    def __init__(self, mesh: RawMesh) -> None:
        self._mesh = mesh
        self._held = b""
        self.deliver = mesh.deliver

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._mesh.links.append(self)
        self.write = transport.write  # type: ignore[attr-defined]
        self._mesh.linked()

    def data_received(self, data: bytes) -> None:
        if self._held:
            data = self._held + data
        deliver, unpack = self.deliver, _LENGTH.unpack_from
        at, end = 0, len(data)
        while end - at >= 4:
            after = at + 4 + unpack(data, at)[0]
            if after > end:
                break
            deliver(data[at + 4 : after])
            at = after
        self._held = data[at:]


class RawMesh:
    """One node: the messages of a tick are joined, one write for each peer."""

    def __init__(self, index: int, load: Load) -> None:
        self._index = index
        self._load = load
        self.deliver: Callable[[bytes], None] = load.deliver
        self.links: list[Link] = []
        self._ready = asyncio.Event()

    async def listen(self) -> int:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Link(self), "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def connect(self, ports: list[int]) -> None:
        """Those before this one are dialled; the others dial."""
        loop = asyncio.get_running_loop()
        for port in ports[: self._index]:
            await loop.create_connection(lambda: Link(self), "127.0.0.1", port)
        await self._ready.wait()

    def linked(self) -> None:
        if len(self.links) == self._load.nodes - 1:
            self._ready.set()

    def send(self, payloads: list[bytes]) -> None:
        pack = _LENGTH.pack
        parts = []
        for payload in payloads:
            parts.append(pack(len(payload)))
            parts.append(payload)
        data = b"".join(parts)
        for link in self.links:
            link.write(data)

    def deliver_with(self, how: str, each: Callable[[bytes], None] | None) -> None:
        self.deliver = each or self._load.deliver
        for link in self.links:
            link.deliver = self.deliver

    def owed(self) -> bool:
        return False

    async def close(self) -> None:
        self._server.close()
