"""What an application may wait for in a group."""

from __future__ import annotations

import asyncio
from typing import Any

from thence.client.driver import Driver
from thence.client.runtime import Runtime
from thence.client.waiters import Waiters, fail, wake
from thence.errors import JournalError, LocalProtocolError, Removed, ThenceError


class Waiting:
    """The part of ``Group`` that lets others wait."""

    _driver: Driver
    _runtime: Runtime

    def _prepare_waiting(self) -> None:
        self._room: Waiters = []
        self._stable: dict[Any, Waiters] = {}
        self._known: list[tuple[Any, int, asyncio.Future[None]]] = []
        self._turns: Waiters = []
        """Done at the end of the turn."""
        self._broken: Waiters = []
        self._closing = False
        self._closed = False

    async def until_room(self) -> None:
        """Until it is worth a try, or another one after ``Full``."""
        self._driver.require_member()
        if self._closing:
            raise self._closed_error()
        if self._driver.has_room:
            return
        self._driver.await_room()
        self._runtime.turn()
        waiter = self._runtime.loop.create_future()
        self._room.append(waiter)
        await waiter

    async def until_stable(self, tag: Any) -> None:
        """Until this message is known to be stable here."""
        self._must_have("tagged")
        if self._driver.is_stable(tag):
            return
        self._driver.require_member()
        waiter = self._runtime.loop.create_future()
        self._stable.setdefault(tag, []).append(waiter)
        await waiter

    async def until(self, tag: Any, k: int) -> None:
        """Until at least ``k`` members, this one included, are known to have consumed it."""
        self._must_have("tagged")
        if not 1 <= k <= len(self._driver.members):
            raise LocalProtocolError(
                f"k is 1 to {len(self._driver.members)}, the members of the group"
            )
        if self._driver.known_by(tag) >= k:
            return
        self._driver.require_member()
        waiter = self._runtime.loop.create_future()
        self._known.append((tag, k, waiter))
        await waiter

    async def until_connected(self, *members: str) -> None:
        """Until these members (default: all) can be reached at the same time."""
        names = self._driver
        while not ({*members} or {*names.member_names} - {names.name}) <= {*self._driver.connected}:
            if self._closed:
                raise self._closed_error()
            self._driver.require_member()
            turn = self._runtime.loop.create_future()
            self._turns.append(turn)
            await turn

    async def turned(self) -> None:
        """Until the end of a turn in which something happened; JournalError or Removed if this
        node cannot go on."""
        self._driver.require_working()
        self._driver.require_member()
        if self._closed:
            raise self._closed_error()
        turn = self._runtime.loop.create_future()
        self._turns.append(turn)
        await turn

    async def until_broken(self) -> None:
        """Until this node cannot go on: JournalError then.  Returns when the group is closed."""
        if self._driver.failed:
            raise JournalError(self._driver.failed)
        if not self._closed:
            waiter = self._runtime.loop.create_future()
            self._broken.append(waiter)
            await waiter

    # ---- inside ----------------------------------------------------------------------------------

    def _closed_error(self) -> ThenceError:
        if "_driver" in self.__dict__ and self._driver.failed:
            return JournalError(self._driver.failed)
        return LocalProtocolError(f"the group {self._driver.group} is closed, or about to be")

    def _must_have(self, engine: str) -> None:
        if self._driver.spec.name != engine:
            raise LocalProtocolError(f"only the engine {engine} can say that of a message")

    def _wake_stable(self, tags: list[Any]) -> None:
        if self._stable:
            for tag in tags:
                wake(self._stable.pop(tag, []))

    def _wake_known(self) -> None:
        still = []
        for tag, k, waiter in self._known:
            if waiter.done():
                continue
            # Of a stable message no more will be known, though some may have gone.
            if self._driver.known_by(tag) >= k or self._driver.is_stable(tag):
                waiter.set_result(None)
            else:
                still.append((tag, k, waiter))
        self._known = still

    def _fail_out(self) -> None:
        """This node is no member any more: it will have no room, and learn of nothing."""
        try:
            self._driver.require_member()
        except Removed as error:
            self._fail_waiters(error)

    def _fail_waiters(self, error: ThenceError) -> None:
        """What they wait for will not be."""
        fail(self._room, error)
        fail([w for some in self._stable.values() for w in some], error)
        self._stable = {}
        fail([w for _, _, w in self._known], error)
        self._known = []
