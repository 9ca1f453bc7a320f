"""A real group with filters between it and its application (filters.py).

What the application broadcasts goes through the send filters, what the group delivers through the
receive filters.  Everything else (events about connections, members and stability, and the group's
own messages) bypasses them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from thence.client.events import Delivered
from thence.client.filters import Chain, Factories, Filter, Passing
from thence.client.group import Group


class FilteredGroup:
    """One group of one node, seen through filters.  Chains may be changed at any time."""

    def __init__(self, group: Group, factories: Factories | None = None) -> None:
        """``factories`` makes the filters that it begins with; by default there are none."""
        self.group = group
        pipes = (factories or Factories()).make(group.name, group.node, group.members)
        self._send = Chain(pipes.send)
        self._receive = Chain(pipes.receive)
        self._out: deque[Passing] = deque()
        self._in: deque[Passing] = deque()
        self._sending = asyncio.Lock()

    @property
    def send_filters(self) -> list[str]:
        """Their names, in the order in which messages pass them."""
        return self._send.names

    @property
    def receive_filters(self) -> list[str]:
        """Their names, in the order in which messages pass them."""
        return self._receive.names

    # ---- messages --------------------------------------------------------------------------------

    async def broadcast(self, payload: bytes) -> None:
        """Send a message to every member, as far as the filters let it through now."""
        self._out += self._send.feed(Passing(payload, self.group.node), self._now)
        await self._post()

    async def next(self) -> Passing:
        """The next message that comes through the receive filters.  WireError from a filter that
        cannot read one: the message is gone, and the next call goes on behind it."""
        while not self._in:
            await self._tick()
            try:
                async with asyncio.timeout(self._wait_s()):
                    event = await self.group.next()
            except TimeoutError:
                continue
            if isinstance(event, Delivered):
                origin = self.group.driver.members.names[event.tag.origin]
                message = Passing(event.payload, origin)
                self._in += self._receive.feed(message, self._now)
        return self._in.popleft()

    async def messages(self) -> AsyncIterator[Passing]:
        """Every message, until the group is closed."""
        while True:
            yield await self.next()

    async def drain(self) -> None:
        """Wait until the send filters have let go of what they held for a while."""
        while (due := self._send.due()) is not None:
            await asyncio.sleep(max(0.0, due - self._now))
            await self._tick()

    # ---- changing the filters --------------------------------------------------------------------

    def insert(self, send: Filter | None, receive: Filter | None, before: str = "") -> None:
        """Put filters in: before those of that name, or at the end of what is sent and received.

        What was sent before and is under way does not have the mark of a new send filter: agree
        with the other members on when to change those that must match.
        """
        if send is not None:
            self._send.insert(send, before)
        if receive is not None:
            self._receive.insert(receive, before)

    async def remove(self, name: str) -> None:
        """Take the filters of that name out; what they held passes those behind them."""
        for chain, out in ((self._send, self._out), (self._receive, self._in)):
            if name in chain.names:
                out += chain.remove(name, self._now)
        await self._post()

    async def replace(self, name: str, send: Filter | None, receive: Filter | None) -> None:
        """Put others in the place of the filters of that name."""
        if send is not None:
            self._out += self._send.replace(name, send, self._now)
        if receive is not None:
            self._in += self._receive.replace(name, receive, self._now)
        await self._post()

    # ---- inside ----------------------------------------------------------------------------------

    @property
    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _wait_s(self) -> float | None:
        times = [at for chain in (self._send, self._receive) if (at := chain.due()) is not None]
        return max(0.0, min(times) - self._now) if times else None

    async def _tick(self) -> None:
        self._in += self._receive.tick(self._now)
        self._out += self._send.tick(self._now)
        await self._post()

    async def _post(self) -> None:
        """Hand on what is through, in order also when several wait for room."""
        async with self._sending:
            while self._out:
                message = self._out.popleft()
                if message.to:
                    await self.group.send(message.payload, message.to)
                else:
                    await self.group.broadcast(message.payload)
