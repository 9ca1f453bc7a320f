"""One node of the store as a process of its own, for benchmarks.

    python -m benchmarks.store.node NAME RESP_PORT JOURNAL_FOLDER [NAME=PORT ...]

The last arguments are all nodes of the group, this one included, with the ports on which they talk
to each other; without them the node is alone.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvloop

from thence.config import JournalConfig
from thence.store.node import Store
from thence.store.settings import Settings


async def main(name: str, port: int, folder: str, group: dict[str, int]) -> None:
    """Serve until SHUTDOWN."""
    urls = {each: f"tcp://127.0.0.1:{at}" for each, at in group.items()}
    own = urls.pop(name, None)
    network: dict[str, Any] = {} if own is None else {"listen": own, "peers": urls}
    store = Store(
        name, journal=JournalConfig(folder=folder), settings=Settings(port=port), **network
    )
    async with store:
        await store.group.until_connected()
        print("ready", store.address, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    members = dict(each.split("=") for each in sys.argv[4:])
    ports = {each: int(at) for each, at in members.items()}
    uvloop.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3], ports))
