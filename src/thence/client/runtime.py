"""Sockets, timers and the clock for one node: what the hub and the drivers run on (asyncio).

One turn: whatever arrived or was asked for in one turn of the event loop, then, once, everything is
written down and let out (``Hub.flush``).  So a journal commits and a socket is written to once a
turn, however many messages there were.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable
from typing import Final

from thence.client.delay import DelayedTransport, delays_of
from thence.client.driver import Driver
from thence.client.hub import Hub
from thence.client.links import CONTACT
from thence.config.node import NodeConfig
from thence.errors import LocalProtocolError, UnreachableError, UnusableInputError
from thence.link.faults import Faults
from thence.link.options import LinkOptions
from thence.telemetry.logs import LINK, event
from thence.transport.base import Connection, Listener, Transport, Url
from thence.transport.registry import TransportOptions, make_transport
from thence.transport.stream import Turn
from thence.transport.watch import (
    BAD_CERTIFICATE,
    BAD_FRAME,
    CROWDED,
    NEVER_TRUSTED,
    NO_TLS,
    REFUSED_BY_PEER,
    STALLED_FRAME,
    TLS_FAILED,
    Limits,
)

TIMER_S: Final = 0.001
"""Timers of uvloop are this coarse: one that is set for a moment sooner rings at once, and again
and again until that moment."""
BUSY_S: Final = 0.001
"""A node that let something out less than this ago is busy: then a turn of it may last longer."""
ROUNDS_MAX: Final = 8
"""Of the loop, in one turn of a busy node."""

LOGGER = logging.getLogger("thence.node")
NOTES = {
    "unreachable": (logging.getLogger(LINK), logging.DEBUG),  # again and again, while it is away
    "refused": (LOGGER, logging.WARNING),
    "refused by": (LOGGER, logging.WARNING),
    "journal": (LOGGER, logging.ERROR),
}
LOUD: Final = {
    BAD_CERTIFICATE,
    BAD_FRAME,
    CROWDED,
    NEVER_TRUSTED,
    NO_TLS,
    REFUSED_BY_PEER,
    STALLED_FRAME,
    TLS_FAILED,
}
"""What transports refuse that is worth a warning; the rest (damaged datagrams) is for debugging."""

Watcher = Callable[[], None]
"""Called at the end of each turn."""


class Runtime:
    """One node in one event loop."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.loop = asyncio.get_running_loop()
        # Later starts have larger numbers, whatever the node has forgotten.
        self.hub = Hub(config.name, time.time_ns(), config.timing, random.Random(), self._note)
        self.epoch_us = int((time.time() - self.loop.time()) * 1_000_000)
        self.listeners: list[Listener] = []
        self._transports: dict[str, Transport] = {}
        self._dials: dict[str, asyncio.Task[None]] = {}
        self._away: dict[str, str] = {}  # why a peer could not be reached, as it was said last
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._turning = False
        self._again = False  # something happened since the loop came round last
        self._rounds = 0
        self._flushed = 0.0
        self._stopped = False
        self._watchers: list[Watcher] = []
        self._early: list[Watcher] = []
        self._turns: list[Turn] = []
        self._committed: list[asyncio.Future[None]] = []

    # ---- starting and stopping -------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and begin to dial."""
        for text in self.config.peers.values():  # what can never be dialled is said at once
            self._transport(Url.parse(text).scheme)
        for text in self.config.listen:
            url = Url.parse(text)
            self.listeners.append(await self._transport(url.scheme).listen(url, _Accepting(self)))
        now = self.loop.time()
        for peer, url_text in self.config.peers.items():
            self.hub.know(peer, url_text, now)
        self.turn()

    async def stop(self, sentence: str = "it stops") -> None:
        """Let what can leave leave, say goodbye, and let go of everything; may be called again."""
        if self._stopped:
            return
        self._stopped = True
        for task in self._dials.values():
            task.cancel()
        if self._timer is not None:
            self._timer.cancel()
        now = self.loop.time()
        self.hub.flush(now)
        self.hub.stop(sentence, now)
        for listener in self.listeners:
            await listener.close()
        self._wake_committed()
        await asyncio.sleep(0)

    def _transport(self, scheme: str) -> Transport:
        found = self._transports.get(scheme)
        if found is None:
            found = make_transport(scheme, transport_options(self.config, self._report))
            proved = getattr(found, "name", self.config.name)
            if proved != self.config.name:
                raise UnusableInputError(
                    f"{self.config.tls.cert} names node {proved}, and this is {self.config.name}; "
                    f"give the certificate of {self.config.name}"
                )
            turn = getattr(found, "turn", None)
            if isinstance(turn, Turn):
                self._turns.append(turn)
            if delays := delays_of(self.config.name, self.config.faults):
                found = DelayedTransport(found, delays, self._who)
            self._transports[scheme] = found
        return found

    # ---- turns -----------------------------------------------------------------------------------

    @property
    def now(self) -> float:
        """The time that hub and drivers are told."""
        return self.loop.time()

    def turn(self) -> None:
        """Something happened: end the turn when the loop comes round."""
        self._again = True
        if not self._turning and not self._stopped:
            self._turning = True
            self.loop.call_soon(self._run_turn)

    def watch(self, watcher: Watcher, early: bool = False) -> None:
        """Call this at the end of each turn; ``early``: before it is written down and let out, so
        that what the watcher does leaves with it."""
        (self._early if early else self._watchers).append(watcher)

    def committed(self) -> asyncio.Future[None]:
        """Done when what has happened so far is written down."""
        waiter = self.loop.create_future()
        self._committed.append(waiter)
        self.turn()
        return waiter

    def _run_turn(self) -> None:
        try:
            self._end_turn()
        except Exception as error:  # a bug: better to say so than to be there and do nothing
            self._turning = False
            for driver in self.hub.drivers.values():
                driver.failed = driver.failed or f"unexpected {type(error).__name__}: {error}"
            self.loop.call_exception_handler(
                {"message": "the turn of a node failed, and the node with it", "exception": error}
            )
            self._wake_committed()
            for watcher in self._watchers:
                watcher()

    def _end_turn(self) -> None:
        if self._stopped:
            self._turning = False
            return
        hub, now = self.hub, self.loop.time()
        again, self._again = self._again, False
        hub.tick(now)
        if self._early:
            for watcher in self._early:  # what it does is still of this turn
                watcher()
            for driver in hub.drivers.values():
                driver.tick(now)
        if again and now - self._flushed < BUSY_S and self._rounds < ROUNDS_MAX:
            if not self._committed:
                # Who sends a message in each round of the loop gets a frame of several; when a
                # round brings nothing new, or the node is not busy, nothing waits.
                self._rounds += 1
                self.loop.call_soon(self._run_turn)
                return
        self._rounds = 0
        self._turning = False
        for turn in self._turns:
            turn.hold()
        try:
            if hub.flush(now):
                self._flushed = now
        finally:
            for turn in self._turns:
                turn.release()
        if self._committed:
            self._wake_committed()
        for watcher in self._watchers:
            watcher()
        for peer, url in hub.dials(now):
            self._dials[peer] = self.loop.create_task(self._dial(peer, url))
        due = hub.deadline()
        if due is not None and (self._timer is None or due < self._timer_at):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = due
            self._timer = self.loop.call_at(due + TIMER_S, self._ring)

    def _ring(self) -> None:
        self._timer = None
        due = self.hub.deadline()
        if due is not None and due > self.loop.time() and not self._stopped:
            # A turn has done it meanwhile.
            self._timer_at = due
            self._timer = self.loop.call_at(due + TIMER_S, self._ring)
        else:
            self.turn()

    def _wake_committed(self) -> None:
        waiting, self._committed = self._committed, []
        for waiter in waiting:
            if not waiter.done():
                waiter.set_result(None)

    # ---- connections -----------------------------------------------------------------------------

    async def _dial(self, peer: str, text: str) -> None:
        try:
            url = Url.parse(text)
            await self._transport(url.scheme).dial(url, _Dialling(self, peer))
        except (UnreachableError, UnusableInputError) as error:
            self._tell_away(peer, error)
            self.hub.unreachable(peer, str(error), self.loop.time())
            self.turn()

    def _tell_away(self, peer: str, error: Exception) -> None:
        """Log why, once; a warning if it will not pass by itself."""
        if self._away.get(peer) != str(error):
            self._away[peer] = str(error)
            level = logging.WARNING if isinstance(error, UnusableInputError) else logging.INFO
            event(LOGGER, level, "unreachable", peer=peer.removeprefix(CONTACT), detail=str(error))

    def connected(self, connection: Connection, peer: str) -> None:
        """A connection is there."""
        if self._stopped:
            connection.close("it stops")
            return
        self.hub.connected(connection, peer, self.loop.time())
        self.turn()

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        """Frames arrived."""
        self.hub.received(connection, frames, self.loop.time())
        self.turn()

    def closed(self, connection: Connection, reason: str) -> None:
        """A connection is gone."""
        self.hub.closed(connection, reason, self.loop.time())
        self.turn()

    def unwatch(self, watcher: Watcher) -> None:
        """Call this no more."""
        # New lists: a watcher may say this while they are gone through.
        self._watchers = [each for each in self._watchers if each != watcher]
        self._early = [each for each in self._early if each != watcher]

    def add(self, driver: Driver) -> None:
        """Take part in a group."""
        if driver.group in self.hub.drivers:
            raise LocalProtocolError(f"this node takes part in {driver.group} already")
        self.hub.add(driver)
        self.turn()

    def _who(self, connection: Connection) -> str:
        link = self.hub.links.get(connection)
        return "" if link is None else link.peer or link.expected

    def _note(self, what: str, who: str, detail: str) -> None:
        if what == "connected":
            self._away.pop(who, None)
        logger, level = NOTES.get(what, (LOGGER, logging.INFO))
        event(logger, level, what, peer=who, detail=detail)

    def _report(self, what: str, detail: str) -> None:
        self.hub.refused[what] = self.hub.refused.get(what, 0) + 1
        logger, level = NOTES["refused" if what in LOUD else "unreachable"]
        event(logger, level, "refused", reason=what, detail=detail)


class _Accepting:
    """Takes connections that others made."""

    def __init__(self, runtime: Runtime, peer: str = "") -> None:
        self._runtime = runtime
        self._peer = peer

    def connected(self, connection: Connection) -> None:
        self._runtime.connected(connection, self._peer)

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        self._runtime.received(connection, frames)

    def drained(self, connection: Connection) -> None:
        self._runtime.turn()

    def closed(self, connection: Connection, reason: str) -> None:
        self._runtime.closed(connection, reason)


class _Dialling(_Accepting):
    """Takes the connection that this node made to a peer."""


def transport_options(
    config: NodeConfig, report: Callable[[str, str], None] | None
) -> TransportOptions:
    """What transports are told, from the settings of a node."""
    tls, link, faults = None, config.link, config.faults
    if config.tls.ca and config.tls.cert and config.tls.key:
        from thence.transport.tls import TlsFiles

        tls = TlsFiles(certificate=config.tls.cert, key=config.tls.key, ca=config.tls.ca)
    return TransportOptions(
        limits=Limits(greeting_s=config.timing.greeting_s),
        report=report,
        allow_remote=config.allow_remote,
        tls=tls,
        link=LinkOptions(
            retries=link.retries,
            ack_delay_s=link.ack_delay_ms / 1000,
            keepalive_s=link.keep_alive_s,
            silence_s=link.silence_s,
            window_packets=link.window_packets,
        ),
        faults=Faults(
            drop=faults.drop,
            duplicate=faults.duplicate,
            reorder=faults.reorder,
            alter_seq=faults.alter_seq,
            ack_delay_s=faults.ack_delay_ms / 1000,
        )
        if faults.active
        else None,
    )
