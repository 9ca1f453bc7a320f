"""A server that does nothing else: it takes requests of RESP apart and gives everyone one answer.

    python -m benchmarks.store.bare PORT

What no server in Python on uvloop can be faster than by much: no command is looked up, nothing is
read or written, arguments are not even kept.  The parser is the simplest one that is right for
requests that arrive whole, which small ones do.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

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


async def main(port: int) -> None:
    """Serve until it is killed."""
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", port)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
