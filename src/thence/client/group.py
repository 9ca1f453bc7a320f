"""A group, as an application sees it (asyncio).

A message is tagged at the call, after everything that the application has *taken*: what waits in a
queue of the library is not before it.  Events are taken one at a time, by ``async for`` or by
callbacks, and the context moves when they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from thence.client.driver import Driver
from thence.client.events import Delivered, Event, Stable
from thence.client.runtime import Runtime
from thence.errors import Full, LocalProtocolError, ThenceError

Callback = Callable[[Any], None]


class Group:
    """One group.  Made by ``Node.group``; one event loop."""

    def __init__(self, driver: Driver, runtime: Runtime) -> None:
        self._driver = driver
        self._runtime = runtime
        self._something = asyncio.Event()
        self._room: list[asyncio.Future[None]] = []
        self._stable: dict[Any, list[asyncio.Future[None]]] = {}
        self._known: list[tuple[Any, int, asyncio.Future[None]]] = []
        self._on_deliver: Callback | None = None
        self._on_stable: Callback | None = None
        self._closed = False
        self._reading = False
        driver.on_room = self._wake_room
        driver.on_stable = self._wake_stable
        runtime.watch(self._end_of_turn)

    # ---- sending ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the group."""
        return self._driver.group

    @property
    def members(self) -> tuple[str, ...]:
        """All members, this node included."""
        return tuple(self._driver.members.names)

    @property
    def connected(self) -> tuple[str, ...]:
        """The members that can be reached now."""
        return tuple(self._driver.connected)

    async def broadcast(
        self,
        payload: bytes,
        *,
        after: Iterable[Any] | None = None,
        ordered: bool = True,
        stream: str = "",
    ) -> Any:
        """Send a message to every member; its tag.

        It is tagged when it is accepted, which is at once unless the group holds as much as it may;
        then this waits.  It returns when the message is written down (with a journal): from then on
        it reaches every member, whatever happens to this process.
        """
        return await self._send(payload, _how(after, ordered, stream))

    async def _send(self, payload: bytes, how: dict[str, Any]) -> Any:
        while True:
            try:
                tag = self._driver.broadcast(payload, self._runtime.now, **how)
                break
            except Full:
                waiter = self._runtime.loop.create_future()
                self._room.append(waiter)
                await waiter
        if self._driver.is_journaled:
            await self._runtime.committed()
            self._driver.require_working()
        else:
            self._runtime.turn()
        return tag

    def try_broadcast(
        self,
        payload: bytes,
        *,
        after: Iterable[Any] | None = None,
        ordered: bool = True,
        stream: str = "",
    ) -> Any:
        """The same without waiting: ``Full`` if it would have to.  It is written down at the end of
        this turn of the loop (``synced``)."""
        self._must_be_open()
        how = _how(after, ordered, stream)
        tag = self._driver.broadcast(payload, self._runtime.now, **how)
        self._runtime.turn()
        return tag

    async def send(self, payload: bytes, to: Iterable[str]) -> Any:
        """Send a message to some members, in causal order with everything else; its tag.

        The others order it too, without its payload, and are not told.  It becomes stable once
        something after it was for everyone.
        """
        return await self._send(payload, {"to": list(to)})

    async def synced(self) -> None:
        """Until everything that has happened so far is written down."""
        await self._runtime.committed()
        self._driver.require_working()

    def phantom(self) -> None:
        """Tell the others now what was taken here, though there is nothing to send."""
        self._driver.announce(self._runtime.now)
        self._runtime.turn()

    # ---- events ----------------------------------------------------------------------------------

    def take(self) -> Event | None:
        """The next event, or None when there is none now."""
        event = self._driver.take(self._runtime.now)
        self._runtime.turn()
        return event

    async def next(self) -> Event:
        """The next event."""
        while True:
            event = self.take()
            if event is not None:
                return event
            self._must_be_open()
            self._something.clear()
            await self._something.wait()

    async def events(self) -> AsyncIterator[Event]:
        """Every event, in order, until the group is closed.

        Asking for the next event confirms the one before, unless ``auto_confirm`` is off.
        """
        while not self._closed:
            event = self.take()
            if event is None:
                self._something.clear()
                await self._something.wait()
            else:
                yield event

    @property
    def auto_confirm(self) -> bool:
        """Whether taking the next event confirms the one before (the default)."""
        return self._driver.auto_confirm

    @auto_confirm.setter
    def auto_confirm(self, on: bool) -> None:
        self._driver.auto_confirm = on

    def on_deliver(self, callback: Callback | None) -> None:
        """Have this called with each delivered tag, as it comes; then do not take events."""
        self._on_deliver = callback
        self._runtime.turn()

    def on_stable(self, callback: Callback | None) -> None:
        """The same for stable tags."""
        self._on_stable = callback
        self._runtime.turn()

    def _pump(self) -> None:
        driver, now = self._driver, self._runtime.now
        deliver, stable = self._on_deliver, self._on_stable
        took = False
        while driver.queue or driver.has_events:
            event = driver.take(now)
            took = True
            if type(event) is Delivered:
                if deliver is not None:
                    deliver(event.tag)
            elif type(event) is Stable and stable is not None:
                stable(event.tag)
        if took and driver.auto_confirm:
            driver.take(now)  # nothing is there: it confirms the last
            self._runtime.turn()

    # ---- waiting ---------------------------------------------------------------------------------

    async def until_stable(self, tag: Any) -> None:
        """Until this message is known to be stable here."""
        if tag.gone >= 0 or self._driver.is_stable(tag):
            return
        waiter = self._runtime.loop.create_future()
        self._stable.setdefault(tag, []).append(waiter)
        await waiter

    async def until(self, tag: Any, k: int) -> None:
        """Until at least ``k`` members, this one included, are known to have consumed it."""
        if not 1 <= k <= len(self.members):
            raise LocalProtocolError(f"k is 1 to {len(self.members)}, the members of the group")
        if self._driver.known_by(tag) >= k:
            return
        waiter = self._runtime.loop.create_future()
        self._known.append((tag, k, waiter))
        await waiter

    # ---- inside ----------------------------------------------------------------------------------

    def close(self, ended: bool = False) -> None:
        """Let go; the node does this when it stops."""
        if self._closed:
            return
        self._closed = True
        self._driver.close(self._runtime.now, ended)
        error = ThenceError(f"the group {self.name} is closed")
        waiting = [*self._room, *(w for some in self._stable.values() for w in some)]
        for waiter in [*waiting, *(w for _, _, w in self._known)]:
            if not waiter.done():
                waiter.set_exception(error)
        self._something.set()

    def _must_be_open(self) -> None:
        if self._closed:
            raise LocalProtocolError(f"the group {self.name} is closed")

    def _end_of_turn(self) -> None:
        if self._closed:
            return
        if self._on_deliver is not None or self._on_stable is not None:
            self._pump()
        elif self._driver.has_events:
            self._something.set()
        if self._known:
            self._wake_known()

    def _wake_room(self) -> None:
        waiting, self._room = self._room, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    def _wake_stable(self, tags: list[Any]) -> None:
        if not self._stable:
            return
        for tag in tags:
            for waiter in self._stable.pop(tag, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def _wake_known(self) -> None:
        still = []
        for tag, k, waiter in self._known:
            if waiter.done():
                continue
            if self._driver.known_by(tag) >= k:
                waiter.set_result(None)
            else:
                still.append((tag, k, waiter))
        self._known = still


def _how(after: Iterable[Any] | None, ordered: bool, stream: str) -> dict[str, Any]:
    how: dict[str, Any] = {}
    if after is not None:
        how["after"] = after
    if not ordered:
        how["ordered"] = False
    if stream:
        how["stream"] = stream
    return how
