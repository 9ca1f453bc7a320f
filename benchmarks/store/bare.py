"""A server that does nothing else: it takes requests of RESP apart and gives everyone one answer.

    python -m benchmarks.store.bare PORT [c]

What no server in Python on uvloop can be faster than by much: no command is looked up, nothing is
read or written, arguments are not even kept.  The parser is the simplest one that is right for
requests that arrive whole, which small ones do; with ``c`` it is that of hiredis, in C.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import hiredis
import uvloop

VALUE = b"$3\r\nxxx\r\n"


class Bare(asyncio.Protocol):
    """One connection."""

    transport: Any

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        answers = 0
        at = 0
        end = len(data)
        while at < end:
            line = data.index(b"\r\n", at)
            count = int(data[at + 1 : line])
            at = line + 2
            words = []
            for _ in range(count):
                line = data.index(b"\r\n", at)
                length = int(data[at + 1 : line])
                at = line + 2
                words.append(data[at : at + length])
                at += length + 2
            answers += 1
        self.transport.write(VALUE * answers)


class BareC(asyncio.Protocol):
    """One connection, with the parser of hiredis: it is for replies, which have the same form."""

    transport: Any

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.reader = hiredis.Reader()

    def data_received(self, data: bytes) -> None:
        answers = 0
        reader = self.reader
        reader.feed(data)
        while reader.gets() is not False:
            answers += 1
        self.transport.write(VALUE * answers)


async def main(port: int, kind: type[asyncio.Protocol]) -> None:
    """Serve until it is killed."""
    server = await asyncio.get_running_loop().create_server(kind, "127.0.0.1", port)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), BareC if sys.argv[2:] == ["c"] else Bare))
