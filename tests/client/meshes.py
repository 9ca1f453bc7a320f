"""Groups of nodes in one event loop, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.transport.peers import run as run_in
from thence import Delivered, Group, Node, Stable
from thence.config import TimingConfig

SCHEMES = ("mem", "tcp", "udp")
QUICK = TimingConfig(drain_s=5.0, reconnect_ms_min=5.0, reconnect_ms_max=50.0)

each_scheme = pytest.mark.parametrize("scheme", SCHEMES)


def run(main: Coroutine[Any, Any, None], loop: str = "asyncio") -> None:
    """Run to the end; whatever the loop would only have logged is a failure too."""
    run_in(loop, main)


def listen(scheme: str, name: str) -> str:
    return f"mem://{name}" if scheme == "mem" else f"{scheme}://127.0.0.1:0"


@asynccontextmanager
async def started(names: Sequence[str], scheme: str = "mem", **settings: Any) -> AsyncIterator[Any]:
    """Nodes that know each other, by name; no groups yet."""
    settings = {"timing": QUICK, **settings}
    nodes = {name: Node(name, listen=listen(scheme, name), **settings) for name in names}
    try:
        for node in nodes.values():
            await node.start()
        for name, node in nodes.items():
            for peer, other in nodes.items():
                if peer != name:
                    node.know(peer, other.addresses[0])
        yield nodes
    finally:
        await asyncio.gather(*(node.aclose() for node in nodes.values()))


@asynccontextmanager
async def mesh(
    names: Sequence[str], scheme: str = "mem", engine: str | None = None, **settings: Any
) -> AsyncIterator[list[Group]]:
    """The groups of nodes that are all connected, in the order of the names."""
    async with started(names, scheme, **settings) as nodes:
        groups = [await node.group(members=names, engine=engine) for node in nodes.values()]
        for group in groups:
            await group.until_connected()
        yield groups


async def deliveries(group: Group, count: int) -> list[bytes]:
    """The payloads of the next messages."""
    found: list[bytes] = []
    while len(found) < count:
        event = await group.next()
        if isinstance(event, Delivered):
            found.append(event.payload)
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Poll; the test's own time limit ends it."""
    while not condition():
        await asyncio.sleep(0.005)


async def take_all(group: Group, seen: list[Any]) -> None:
    """An application that takes everything until the group is closed."""
    async for event in group.events():
        if isinstance(event, Delivered | Stable):
            seen.append(event)
