"""One group, for threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from thence.blocking.background import Caller
from thence.blocking.calls import broadcast, each_event, next_event
from thence.blocking.membership import Membership
from thence.blocking.session import Kept, Session
from thence.client import group as asynchronous
from thence.client.events import Delivered, Event
from thence.client.membership import Restore, Snapshot
from thence.client.station import DEFAULT_GROUP
from thence.config import NodeConfig
from thence.engine.base import EngineOptions
from thence.errors import LocalProtocolError, Removed

EVENTS_AHEAD: Final = 1024
"""Events that wait for a session; the slowest holds up the others, and in the end the senders."""


class Group(Membership):
    """One group, for any number of threads, which share one context; see ``session``.

    ``with Group("a", listen="tcp://127.0.0.1:7001", peers={"b": "tcp://127.0.0.1:7002"}) as group:
    group.broadcast(b"hello")``.  Times are in seconds; None waits for ever.
    """

    def __init__(
        self,
        name: str = "",
        *,
        group: str = DEFAULT_GROUP,
        members: Sequence[str] | None = None,
        engine: str | None = None,
        options: EngineOptions | None = None,
        config: NodeConfig | None = None,
        snapshot: Snapshot | None = None,
        restore: Restore | None = None,
        **settings: Any,
    ) -> None:
        """As ``thence.Group``.

        ``snapshot`` and ``restore`` are called in the background thread, while other threads work:
        they take the locks of what they read and write, wait for nothing else, and make no calls of
        this group.  ``restore`` is done before ``start`` returns.
        """
        self._caller = Caller()
        self._owns = True
        self.sessions: list[Session] = []
        self._made = 0
        self._pump: asyncio.Task[None] | None = None
        self._room: asyncio.Event | None = None
        # Made in the background thread: there must be a loop.
        self._make: Callable[[], asynchronous.Group] = lambda: asynchronous.Group(
            name, group=group, members=members, engine=engine, options=options, config=config,
            snapshot=snapshot, restore=restore, **settings,
        )  # fmt: skip
        self._group: asynchronous.Group

    def __getattr__(self, name: str) -> Any:
        if name == "_group":
            raise LocalProtocolError("the group is not started: use `with`, or start()")
        raise AttributeError(f"'Group' has no attribute {name!r}")

    @classmethod
    def of(cls, group: asynchronous.Group, caller: Caller) -> Group:
        """A group of a node that has several; ``Node.group`` makes it."""
        made = cls()
        made._group, made._caller, made._owns = group, caller, False
        return made

    def start(self) -> Group:
        """Listen, begin to dial, and take part in the group."""
        self._caller.begin()
        try:
            group = self._caller.call(self._make)
            self._caller.wait(group.start())
        except BaseException:
            self._caller.end()
            raise
        self._group = group
        return self

    def close(self, drain_s: float | None = None) -> None:
        """Wait until the others have what was sent (``drain_s`` seconds at most), and let go.  May
        be called again; every other call then raises, and iterations end."""
        if not self._owns:
            raise LocalProtocolError(f"the node of {self._group.name} closes it")
        if self._caller.is_on:
            try:
                self._caller.wait(self._group.aclose(drain_s))
                self._caller.wait(self.end_pump())
            finally:
                self._caller.end()

    def __enter__(self) -> Group:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(None if kind is None else 0.0)

    @property
    def group(self) -> asynchronous.Group:
        """The group itself, which lives in the background thread."""
        return self._group

    # ---- what it is -----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the group."""
        return self._group.name

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._group.node

    @property
    def members(self) -> tuple[str, ...]:
        """All members, this node included."""
        return self._caller.call(lambda: self._group.members)

    @property
    def is_elastic(self) -> bool:
        """Whether members may join, leave and be evicted."""
        return self._group.is_elastic

    @property
    def connected(self) -> tuple[str, ...]:
        """The members that can be reached now."""
        return self._caller.call(lambda: self._group.connected)

    @property
    def addresses(self) -> list[str]:
        """Where this node listens, with the ports that were chosen."""
        return self._caller.call(lambda: self._group.addresses)

    # ---- sending and taking ---------------------------------------------------------------------

    def broadcast(self, payload: bytes, *, timeout: float | None = None, **how: Any) -> Any:
        """Send a message to every member; its tag.  Waits while the group is full: TimeoutError
        after ``timeout`` seconds, and nothing was sent.  ``how``: ``after``, ``ordered``,
        ``stream``."""
        self._must_be_shared()
        return self._caller.wait(broadcast(self._group, payload, timeout, how))

    def try_broadcast(self, payload: bytes, **how: Any) -> Any:
        """The same, and ``Full`` instead of waiting."""
        self._must_be_shared()
        return self._caller.wait(broadcast(self._group, payload, None, how, waits=False))

    def broadcast_many(self, payloads: Sequence[bytes]) -> list[Any]:
        """``broadcast`` each of these, in this order; their tags.  Waits while the group is full,
        and costs little more than one."""
        self._must_be_shared()
        return self._caller.wait(self._group.broadcast_many(payloads))

    def send(self, payload: bytes, to: Iterable[str]) -> Any:
        """Send a message to some members; its tag."""
        self._must_be_shared()
        return self._caller.wait(self._group.send(payload, to))

    def next(self, timeout: float | None = None) -> Event:
        """The next event; TimeoutError if there is none for so long.  Each event goes to one of
        the threads that ask."""
        self._must_be_shared()
        event = self._caller.wait(next_event(self._group, timeout))
        if event is None:
            if self._group.is_out:
                raise Removed(f"{self.node} is no member of {self.name} any more: join again")
            raise LocalProtocolError(f"the group {self.name} is closed, or about to be")
        return event

    def events(self) -> Iterator[Event]:
        """Events until the group is closed or this node is out of it; asking for the next confirms
        the one before."""
        self._must_be_shared()
        yield from each_event(self._caller, lambda: next_event(self._group, None))

    # ---- waiting --------------------------------------------------------------------------------

    def until_stable(self, tag: Any, timeout: float | None = None) -> None:
        """Until this message is known to be stable here; somebody must take the events."""
        self._caller.wait(self._group.until_stable(tag), timeout)

    def until(self, tag: Any, k: int, timeout: float | None = None) -> None:
        """Until at least ``k`` members are known to have consumed it."""
        self._caller.wait(self._group.until(tag, k), timeout)

    def until_connected(self, *members: str, timeout: float | None = None) -> None:
        """Until these members (default: all) can be reached at the same time."""
        self._caller.wait(self._group.until_connected(*members), timeout)

    def phantom(self) -> None:
        """Tell the others now what was taken here."""
        self._caller.call(self._group.phantom)

    # ---- sessions -------------------------------------------------------------------------------

    def session(self, name: str = "", *, listens: bool = True) -> Session:
        """A context of its own, for one thread; from now on all events go to sessions.

        ``name``: of its stream; by default session1, session2, ...  ``listens=False``: it only
        sends.  One that listens has to take its events, or be closed.
        """
        return self._caller.call(self._add_session, name, listens)

    def _add_session(self, name: str, listens: bool) -> Session:
        group = self._group
        if group.is_journaled:
            # The broadcast of one would confirm what another has not taken, and a crash lose it.
            raise LocalProtocolError("sessions and a journal do not go together: share one context")
        self._made += 1
        session = Session(self, self._caller, name or f"session{self._made}", listens)
        if any(each.name == session.name for each in self.sessions):
            raise LocalProtocolError(f"there is a session {session.name} already")
        self.sessions.append(session)
        if self._pump is None:
            self._room = asyncio.Event()
            self._pump = asyncio.get_running_loop().create_task(self._hand_out())
        return session

    def remove_session(self, session: Session) -> None:
        """It wants no more; in the background thread."""
        if session in self.sessions:
            self.sessions.remove(session)
            self.make_room()
        if not self.sessions and self._pump is not None:
            self._pump.cancel()  # it waits: whatever it took it has handed out
            self._pump = None

    def _must_be_shared(self) -> None:
        if self.sessions:
            raise LocalProtocolError("sessions have the events of this group: use theirs")

    async def _hand_out(self) -> None:
        """Give every event to every session, no faster than the slowest takes them."""
        async for event in self._group.events():
            kept = Kept(event) if isinstance(event, Delivered) else event
            for session in self.sessions:
                session.offer(kept)
            while self.is_full(None):
                await self.until_room()
        for session in self.sessions:
            session.finish()

    def is_full(self, sender: Session | None) -> bool:
        """Whether a session, other than the sender, is behind; in the background thread."""
        waiting = [len(session.queue) for session in self.sessions if session is not sender]
        return any([count >= EVENTS_AHEAD for count in waiting])

    async def until_room(self) -> None:
        """Until a session took something."""
        assert self._room is not None
        self._room.clear()
        await self._room.wait()

    def make_room(self) -> None:
        """A session took an event; in the background thread."""
        if self._room is not None:
            self._room.set()

    async def end_pump(self) -> None:
        """The group is closed, and its sessions with it."""
        pump, self._pump = self._pump, None
        for session in list(self.sessions):
            session.finish()
        if pump is not None:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)
