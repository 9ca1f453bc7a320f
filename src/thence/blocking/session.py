"""A context of its own for one thread."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any, Final, Protocol

from thence.blocking.background import Caller
from thence.blocking.calls import broadcast, each_event
from thence.client import group as asynchronous
from thence.client.events import Delivered, Event
from thence.errors import Full, LocalProtocolError


class Owner(Protocol):
    """The group that sessions belong to; called in the background thread."""

    sessions: list[Session]

    @property
    def group(self) -> asynchronous.Group:
        """What it sends with."""

    def is_full(self, sender: Session | None) -> bool:
        """Whether a session, other than the sender, is behind."""

    async def until_room(self) -> None:
        """Until a session took something."""

    def make_room(self) -> None:
        """A session took an event."""

    def remove_session(self, session: Session) -> None:
        """It wants no more."""


class Kept(Delivered):
    """A delivery whose payload stays though the message is stable and forgotten: another session
    may be that far behind."""

    __slots__ = ("_payload",)

    def __init__(self, event: Delivered) -> None:
        super().__init__(event._driver, event.number, event.tag)
        self._payload = event.payload

    @property
    def payload(self) -> bytes:
        return self._payload


class Said(Kept):
    """What another session of this node said; there is nothing to confirm."""

    def __init__(self, tag: Any) -> None:
        Delivered.__init__(self, _NOBODY, 0, tag)
        self._payload = tag.payload


class _Nobody:
    def confirm(self, event: Event) -> None:
        pass


_NOBODY: Final = _Nobody()


class Session:
    """One thread's own context in a group; ``Group.session`` makes it.

    Its state is touched in the background thread only.
    """

    def __init__(self, owner: Owner, caller: Caller, name: str, listens: bool) -> None:
        self.name = name
        self.listens = listens
        """Whether it is told anything."""
        self._owner = owner
        self._caller = caller
        self.queue: deque[Event] = deque()
        """What it was not asked for yet."""
        self._something = asyncio.Event()
        self._finished = False
        self._frontier: dict[str, Any] = {}
        """By node and stream, the latest of what it took and said that nothing else it took is
        after: the context of its next message."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def broadcast(self, payload: bytes, *, timeout: float | None = None) -> Any:
        """Send a message after what this session took and said, and nothing else; its tag."""
        return self._caller.wait(self._broadcast(payload, timeout, True))

    def try_broadcast(self, payload: bytes) -> Any:
        """The same, and ``Full`` instead of waiting."""
        return self._caller.wait(self._broadcast(payload, None, False))

    def next(self, timeout: float | None = None) -> Event:
        """The next event; TimeoutError if there is none for so long."""
        event = self._caller.wait(self._next(timeout))
        if event is None:
            raise LocalProtocolError(f"the session {self.name} is closed")
        return event

    def events(self) -> Iterator[Event]:
        """Events until the session or the group is closed."""
        yield from each_event(self._caller, lambda: self._next(None))

    def close(self) -> None:
        """Have no more events; others get theirs."""
        if self._caller.is_on:
            self._caller.call(self._end)

    async def _broadcast(self, payload: bytes, timeout: float | None, waits: bool) -> Any:
        if self._finished:
            raise LocalProtocolError(f"the session {self.name} is closed")
        async with asyncio.timeout(timeout):
            while self._owner.is_full(self):
                if not waits:
                    raise Full("another session has not taken what it was told")
                await self._owner.until_room()
        how = {"after": list(self._frontier.values()), "stream": self.name}
        tag = await broadcast(self._owner.group, payload, timeout, how, waits)
        self._frontier = {tag.dot.node: tag}
        for session in self._owner.sessions:
            if session is not self:
                session.offer(Said(tag))
        return tag

    async def _next(self, timeout: float | None) -> Event | None:
        async with asyncio.timeout(timeout):
            while not self.queue:
                if self._finished:
                    return None
                self._something.clear()
                await self._something.wait()
        event = self.queue.popleft()
        self._owner.make_room()
        if isinstance(event, Delivered):
            self._take(event.tag)
        return event

    def _take(self, tag: Any) -> None:
        frontier = self._frontier
        for dot in tag.context:
            named = frontier.get(dot.node)
            if named is not None and named.seq <= dot.seq:
                del frontier[dot.node]
        frontier[tag.dot.node] = tag

    def offer(self, event: Event) -> None:
        """One more event."""
        if self.listens:
            self.queue.append(event)
            self._something.set()

    def finish(self) -> None:
        """There are no more events."""
        self._finished = True
        self._something.set()

    def _end(self) -> None:
        self.finish()
        self._owner.remove_session(self)
