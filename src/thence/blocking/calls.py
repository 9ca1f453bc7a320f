"""What the facade does in the background thread, and how a thread asks for events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from thence.blocking.background import Caller
from thence.client import group as asynchronous
from thence.client.events import Event
from thence.errors import Full, LocalProtocolError


async def broadcast(
    group: asynchronous.Group,
    payload: bytes,
    timeout: float | None,
    how: dict[str, Any],
    waits: bool = True,
) -> Any:
    """Only the wait for room is limited: what was accepted is on its way."""
    async with asyncio.timeout(timeout) as limit:
        while True:
            try:
                tag = group.try_broadcast(payload, **how)
                break
            except Full:
                if not waits:
                    raise
                await group.until_room()
        limit.reschedule(None)
    if group.is_journaled:
        await group.synced()
    return tag


async def next_event(group: asynchronous.Group, timeout: float | None) -> Event | None:
    """The next event, or None at the end."""
    async with asyncio.timeout(timeout):
        try:
            return await group.next()
        except LocalProtocolError:  # it is closed
            return None


def each_event(
    caller: Caller, ask: Callable[[], Coroutine[Any, Any, Event | None]]
) -> Iterator[Event]:
    """Events for a thread, one at a time, until there are no more."""
    while caller.is_on:
        try:
            event = caller.wait(ask())
        except LocalProtocolError:
            if caller.is_on:
                raise
            return  # it was closed while this one waited
        if event is None:
            return
        yield event
