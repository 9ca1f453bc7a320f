"""A connection between the coordinator of a lab and a worker: frames in, frames out, signs of life.

Both ends use it; which messages come is up to them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from thence.errors import UnreachableError, WireError
from thence.lab.worker_messages import BEAT_S, FRAME_BYTES_MAX, SILENCE_S, Beat, Message, encode
from thence.wire.frame import GREETING_BYTES_MAX, FrameReader

READ_BYTES: Final = 256 * 1024
CLOSE_S: Final = 1.0

T = TypeVar("T", bound=Message)
Decode = Callable[[int, bytes], T]


class Link(Generic[T]):
    """One connection; ``T`` is what the other end says."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decode: Decode[T]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decode = decode
        self._frames = FrameReader(GREETING_BYTES_MAX)
        self._waiting: list[tuple[int, bytes]] = []
        # None if the other end has gone already.
        host, port = (writer.get_extra_info("peername") or ("?", 0))[:2]
        self.address = f"{host}:{port}"
        """Of the other end."""
        self.own_host: str = (writer.get_extra_info("sockname") or ("?",))[0]
        """The address of this end."""

    def trust(self) -> None:
        """The other end is known now: it may send large frames."""
        self._frames.limit = FRAME_BYTES_MAX

    async def receive(self, within_s: float = SILENCE_S) -> T:
        """The next message.

        WireError if it is none, UnreachableError if the other end is gone or silent for so long.
        """
        deadline = asyncio.get_running_loop().time() + within_s
        while not self._waiting:
            try:
                async with asyncio.timeout_at(deadline):
                    data = await self._reader.read(READ_BYTES)
            except TimeoutError:
                raise UnreachableError(f"nothing was heard of it for {within_s:g} s") from None
            except OSError as error:
                raise UnreachableError(_sentence(error)) from None
            if not data:
                raise UnreachableError("it closed the connection")
            self._waiting += self._frames.feed(data)
        return self._decode(*self._waiting.pop(0))

    async def send(self, message: Message) -> None:
        """Send a message; UnreachableError if the other end is gone or takes nothing."""
        if self._writer.is_closing():  # asyncio would drop it, uvloop raises an error of its own
            raise UnreachableError("the connection is closed")
        try:
            self._writer.write(encode(message))
            async with asyncio.timeout(SILENCE_S):
                await self._writer.drain()
        except TimeoutError:
            raise UnreachableError(f"it took nothing for {SILENCE_S:g} s") from None
        except OSError as error:
            raise UnreachableError(_sentence(error)) from None

    async def beat(self) -> None:
        """Give signs of life until the other end is gone."""
        while True:
            await asyncio.sleep(BEAT_S)
            await self.send(Beat())

    async def close(self) -> None:
        """Let what was sent leave, but not wait for it for long; may be called again."""
        self._writer.close()
        try:
            async with asyncio.timeout(CLOSE_S):
                await self._writer.wait_closed()
        except (OSError, TimeoutError):
            self._writer.transport.abort()


def _sentence(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__


BROKEN: Final = (UnreachableError, WireError)
"""What ends a connection."""
