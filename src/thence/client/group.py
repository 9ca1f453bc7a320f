"""A group, as an application sees it (asyncio).

A message is tagged at the call, after everything that the application has *taken*: what waits in a
queue of the library is not before it.  Events are taken one at a time, by ``async for`` or by
callbacks, and the context moves when they are.

``Group(name, ...)`` is a node with one group; ``Node.group`` gives the groups of a node that has
several.  Both are the same thing to an application.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, Final

from thence.causal.dot import Dot
from thence.client.driver import Driver
from thence.client.elastic import Elastic
from thence.client.events import Event
from thence.client.handing import hand_over
from thence.client.joining import enter
from thence.client.kept import Kept
from thence.client.membership import Hooks, Membership, Restore, Snapshot
from thence.client.runtime import Runtime
from thence.client.station import DEFAULT_GROUP, Station, node_config
from thence.client.status import LagMeter
from thence.client.waiters import fail, wake
from thence.client.waiting import Waiting
from thence.config import NodeConfig
from thence.engine.base import EngineOptions
from thence.engine.bursts import Callbacks
from thence.errors import Full, JournalError, LocalProtocolError

Callback = Callable[[Any], None]
BURST_MESSAGES_MAX: Final = 4096
"""Of a longer burst, so many are tried at a time."""


class Group(Waiting, Membership):
    """One group, in one event loop.

    ``async with Group("a", listen="tcp://127.0.0.1:7001", peers={"b": "tcp://127.0.0.1:7002"}) as
    group: await group.broadcast(b"hello")``
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
        kept: Kept | None = None,
        **settings: Any,
    ) -> None:
        """A node of this name with one group; it starts with ``async with``, or ``start``.

        ``settings`` are fields of ``NodeConfig``: ``listen``, ``peers``, ...; ``data`` and
        ``trace`` name folders.  ``members``: all of the group, by default this node and its peers.

        ``elastic=True``: members may come and go.  ``join`` has addresses of members: this node
        joins their group.  ``snapshot`` gives this application's state to newcomers, ``restore``
        takes it over when this node is one; ``kept`` has it in the journal too (client/kept.py).
        """
        self._station = Station(node_config(name, config, settings))
        self._wanted = (group, members, engine, options, Hooks(snapshot, restore, kept))
        self._owns_station = True
        self._prepare()

    def _prepare(self) -> None:
        self._something = asyncio.Event()
        self._prepare_waiting()
        self._calls = Callbacks()
        self._before_taking: Callable[[], None] = lambda: None
        self._meter: LagMeter | None = None
        self._sample_at: float | None = None

    @classmethod
    def of(cls, driver: Driver, station: Station) -> Group:
        """The group of a node that has several; ``Node.group`` makes it."""
        group = cls.__new__(cls)
        group._station = station
        group._owns_station = False
        group._prepare()
        group._attach(driver)
        return group

    def _attach(self, driver: Driver) -> None:
        station = self._station
        self._driver = driver
        self._runtime = station.runtime
        if station.status is not None and driver.spec.name == "tagged":
            self._meter = station.status.meter(driver.group)
        if station.config.trace.folder is not None and station.config.trace.sample_s:
            self._sample_at = self._runtime.now
        driver.on_room = lambda: wake(self._room)
        if isinstance(driver, Elastic):
            driver.reception.on_failed = self._failed
        driver.on_stable = self._became_stable
        if not driver.is_journaled:
            # What callbacks send then leaves in the same turn.  With a journal they are told what
            # is written down, and so one turn later.
            self._runtime.watch(self._hand_over, early=True)
        self._runtime.watch(self._end_of_turn)

    def __getattr__(self, name: str) -> Any:
        if name in ("_driver", "_runtime"):
            raise LocalProtocolError("the group is not started: use `async with`, or await start()")
        raise AttributeError(f"'Group' has no attribute {name!r}")

    async def start(self) -> Group:
        """Listen, begin to dial, and take part in the group."""
        if not self._owns_station:
            raise LocalProtocolError("its node has started this group")
        await self._station.start()
        try:
            self._attach(await enter(self._station, *self._wanted))
        except BaseException:
            await self._station.stop()
            raise
        return self

    async def __aenter__(self) -> Group:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.aclose(drain_s=None if kind is None else 0.0)

    @property
    def driver(self) -> Driver:
        """What it is made of, for the rest of the library."""
        return self._driver

    @property
    def runtime(self) -> Runtime:
        """What its node runs on, for the rest of the library."""
        return self._runtime

    # ---- sending ---------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Of the group."""
        return self._driver.group

    @property
    def node(self) -> str:
        """The name of this node."""
        return self._driver.name

    @property
    def addresses(self) -> list[str]:
        """Where this node listens, with the ports that were chosen."""
        return [str(listener.url) for listener in self._runtime.listeners]

    @property
    def connected(self) -> tuple[str, ...]:
        """The members that can be reached now."""
        return tuple(self._driver.connected)

    @property
    def sent(self) -> int:
        """Messages that were broadcast here since this start of the node."""
        return self._driver.counts["sent"]

    @property
    def is_journaled(self) -> bool:
        """Whether it survives a crash."""
        return self._driver.is_journaled

    @property
    def has_callbacks(self) -> bool:
        """Whether events are handed to callbacks, so that nobody else gets them."""
        return self._calls.any()

    @property
    def has_room(self) -> bool:
        """Whether a broadcast would be taken now."""
        return self._driver.has_room and not self._closing

    def behind(self) -> list[str]:
        """The members that lack something that was sent here."""
        last = self._driver.exchange.outbox.last
        return [flow.name for flow in self._driver.exchange.peers if flow.acked < last]

    def waiting(self) -> list[tuple[Dot, Dot]]:
        """Messages that are held back, each with one that is missing before it."""
        driver = self._driver
        return [
            (driver.dot(each.dot), driver.dot(each.missing)) for each in driver.engine.waiting()
        ]

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
            self.must_be_open()
            try:
                tag = self._driver.broadcast(payload, self._runtime.now, **how)
                break
            except Full:
                await self.until_room()
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
        if self._closing:
            self.must_be_open()
        runtime = self._runtime
        if after is None and ordered and not stream:
            tag = self._driver.broadcast(payload, runtime.now)
        else:
            how = _how(after, ordered, stream)
            tag = self._driver.broadcast(payload, runtime.now, **how)
        runtime.turn()
        return tag

    async def broadcast_many(self, payloads: Sequence[bytes]) -> list[Any]:
        """``broadcast`` each of these, in this order; their tags.  Cheaper than one by one.

        It takes as many as there is room for, and waits for more.
        """
        tags: list[Any] = []
        while len(tags) < len(payloads):
            self.must_be_open()
            try:
                some = payloads[len(tags) : len(tags) + BURST_MESSAGES_MAX]
                tags += self._driver.broadcast_many(some, self._runtime.now)
                self._runtime.turn()
            except Full:
                await self.until_room()
        if self._driver.is_journaled:
            await self._runtime.committed()
            self._driver.require_working()
        return tags

    def try_broadcast_many(self, payloads: Sequence[bytes], *, overdraw: bool = False) -> list[Any]:
        """The same without waiting: the tags of those for which there was room, from the first on;
        ``Full`` if there was none.  ``overdraw``: all of them, for one who asked ``has_room``
        before he let in what they say."""
        if self._closing:
            self.must_be_open()
        tags = self._driver.broadcast_many(payloads, self._runtime.now, overdraw)
        self._runtime.turn()
        return tags

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
            if self._closed:
                raise self._closed_error()
            event = self.take()
            if event is not None:
                return event
            self._driver.require_member()
            self._something.clear()
            await self._something.wait()

    async def events(self) -> AsyncIterator[Event]:
        """Every event, in order, until the group is closed or this node is out of it.

        Asking for the next event confirms the one before, unless ``auto_confirm`` is off.
        """
        take, runtime = self._driver.take, self._runtime
        while not self._closed:
            event = take(runtime.now)
            runtime.turn()
            if event is not None:
                yield event
            elif self._driver.is_out:
                return
            else:
                self._something.clear()
                await self._something.wait()

    @property
    def auto_confirm(self) -> bool:
        """Whether taking the next event confirms the one before (the default)."""
        return self._driver.auto_confirm

    @auto_confirm.setter
    def auto_confirm(self, on: bool) -> None:
        self._driver.auto_confirm = on

    def on_deliver(self, callback: Callback | None, many: bool = False) -> None:
        """Have this called with each delivered tag, as it comes; then do not take events.

        ``many``: with a list of tags, all that have come; what it sends is after all of them.
        """
        self._calls.deliver, self._calls.deliver_many = callback, many
        self._runtime.turn()

    def on_stable(self, callback: Callback | None, many: bool = False) -> None:
        """The same for stable tags."""
        self._calls.stable, self._calls.stable_many = callback, many
        self._runtime.turn()

    def on_event(self, callback: Callback | None) -> None:
        """The same for every other event: members that come and go, connections."""
        self._calls.other = callback
        self._runtime.turn()

    def on_taking(self, callback: Callable[[], None] | None) -> None:
        """Have this called before events are handed to callbacks: what it sends is before them."""
        self._before_taking = callback or (lambda: None)

    def _pump(self) -> None:
        runtime = self._runtime
        self._before_taking()
        if hand_over(self._driver, runtime.now, self._calls, self._failed):
            runtime.turn()

    def _failed(self, error: Exception) -> None:
        """A callback of the application raised; the node goes on."""
        self._runtime.loop.call_exception_handler(
            {"message": f"a callback of the group {self.name} failed", "exception": error}
        )

    # ---- the end ---------------------------------------------------------------------------------

    async def drain(self, drain_s: float | None = None) -> bool:
        """Take no more broadcasts, and wait until the members have what was sent; whether they do.

        At most ``drain_s`` seconds (default: the setting ``timing.drain_s``).  With a journal only
        for members that are connected: the others get it from the next start of this node.
        """
        self._before_taking()  # the last chance to send
        self._closing = True
        fail(self._room, self._closed_error())
        self._runtime.turn()
        # With a journal it comes back as the same member.
        stays = self._driver.is_journaled or self._driver.is_out
        if self.is_elastic and drain_s != 0 and not stays:
            return await self.leave(drain_s)
        limit = self._station.config.timing.drain_s if drain_s is None else drain_s
        try:
            async with asyncio.timeout(limit):
                while not (self._closed or self._driver.failed or self._driver.is_drained):
                    turn = self._runtime.loop.create_future()
                    self._turns.append(turn)
                    await turn
        except TimeoutError:
            pass
        return self._driver.is_drained

    async def aclose(self, drain_s: float | None = None, ended: bool = False) -> None:
        """Drain, say goodbye, let go.  ``ended``: write into the trace that it is complete.

        In an elastic group this node leaves first, unless ``drain_s`` is 0; with a journal it stays
        a member, and can come back.  Groups of a node are closed by their node.
        """
        if not self._owns_station:
            raise LocalProtocolError(f"the node of {self.name} closes it")
        if "_driver" not in self.__dict__ or self._closed:
            return
        if self._station.status is not None:
            self._station.status.stopping = True
        await self.drain(drain_s)
        await self._station.stop()
        self.close(ended)

    def close(self, ended: bool = False) -> None:
        """Write down what there is and let go; once the network is gone."""
        if self._closed:
            return
        if ended and not self._driver.failed:
            self._driver.flush(self._runtime.now)
            if self._calls.any():
                self._pump()
            if self._sample_at is not None:
                self._driver.sample(self._runtime.now)
        self._closed = self._closing = True
        error = self._closed_error()
        if not self._driver.is_journaled:
            self._runtime.unwatch(self._hand_over)
        self._runtime.unwatch(self._end_of_turn)
        try:
            self._driver.close(self._runtime.now, ended)
        finally:
            self._fail_waiters(error)
            wake(self._turns)
            wake(self._broken)
            self._something.set()

    # ---- inside ----------------------------------------------------------------------------------

    def must_be_open(self) -> None:
        """An error if it is closed, or about to be."""
        if self._closing:
            raise self._closed_error()

    def _hand_over(self) -> None:
        driver = self._driver
        if self._closed or driver.failed or not driver.has_events:
            return
        if self._calls.any():
            self._pump()
        else:
            self._something.set()

    def _end_of_turn(self) -> None:
        if self._closed:
            return
        driver = self._driver
        if driver.failed:
            self._break()
        else:
            self._hand_over()
        if driver.is_out:
            self._fail_out()
        if self._known:
            self._wake_known()
        if self._turns:
            wake(self._turns)
        if self._meter is not None:
            self._meter.turn(driver.client.past.clock, self._runtime.now)
        if self._sample_at is not None and self._sample_at <= self._runtime.now:
            self._sample_at = self._runtime.now + self._station.config.trace.sample_s
            driver.sample(self._runtime.now)

    def _break(self) -> None:
        """This node cannot go on: everybody who waits is told."""
        self._fail_waiters(JournalError(self._driver.failed))
        fail(self._broken, JournalError(self._driver.failed))
        self._something.set()  # taking an event raises it too

    def _became_stable(self, tags: list[Any]) -> None:
        if self._meter is not None:
            self._meter.stable(tags, self._runtime.now)
        self._wake_stable(tags)


def _how(after: Iterable[Any] | None, ordered: bool, stream: str) -> dict[str, Any]:
    how: dict[str, Any] = {}
    if after is not None:
        how["after"] = after
    if not ordered:
        how["ordered"] = False
    if stream:
        how["stream"] = stream
    return how
