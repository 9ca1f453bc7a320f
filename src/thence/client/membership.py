"""What an application does with the members of its group, where these change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from thence.client.driver import Driver
from thence.client.elastic import Elastic
from thence.client.kept import Kept
from thence.client.runtime import Runtime
from thence.client.station import Station
from thence.client.waiters import Waiters
from thence.errors import LocalProtocolError
from thence.wire.membership import View

Snapshot = Callable[[], "bytes | Iterable[bytes]"]
"""Gives the application's state of the moment in which it is called, whole or in chunks."""
Restore = Callable[[Iterator[bytes]], None]
"""Takes over the state of another, in the same chunks."""


class Hooks(msgspec.Struct, frozen=True):
    """How the application's own state gets to newcomers, and over crashes."""

    snapshot: Snapshot | None = None
    restore: Restore | None = None
    kept: Kept | None = None


class Membership:
    """The part of ``Group`` that has to do with members that come and go."""

    _driver: Driver
    _runtime: Runtime
    _station: Station
    _turns: Waiters
    _before_taking: Callable[[], None]

    @property
    def members(self) -> tuple[str, ...]:
        """All members, this node included, as in ``a`` or ``a#2``."""
        return tuple(self._driver.member_names)

    @property
    def is_elastic(self) -> bool:
        """Whether members may join, leave and be evicted."""
        return self._driver.is_elastic

    @property
    def view(self) -> View:
        """The members as the events that were taken tell, in order of seniority, with the number
        of the view."""
        return self._elastic.view_told

    @property
    def is_minority(self) -> bool:
        """Whether this side of the group is too small to let anybody in or out."""
        return self._elastic.council.is_minority

    @property
    def is_out(self) -> bool:
        """Whether this node is no member any more: it left, or was evicted."""
        return self._driver.is_out

    @property
    def rejected(self) -> tuple[Any, ...]:
        """Tags of own messages that the group did not accept, once this node is evicted: none of
        the others will deliver them."""
        return self._elastic.rejected

    @property
    def suspects(self) -> tuple[str, ...]:
        """Members that do not answer."""
        driver = self._elastic
        return tuple(sorted(driver.members.names[slot] for slot in driver.council.suspects))

    @property
    def _elastic(self) -> Elastic:
        driver = self._driver
        if not isinstance(driver, Elastic):
            raise LocalProtocolError(
                f"the members of {driver.group} do not change: set membership.elastic, or join"
            )
        return driver

    def evict(self, name: str, is_dead: bool = False) -> None:
        """Have a member removed, though it may answer still.

        It needs the agreement of most members.  ``is_dead``: you vouch that the process does not
        run any more, so that it need not be counted; if that is not true the group may fall apart.

        Where members do not change but the engine goes on when one crashes (``thence engines``),
        nobody is asked: vouch for it (``is_dead``) at every member that is left.
        """
        driver, now = self._driver, self._runtime.now
        if driver.is_elastic or not driver.spec.survives:
            self._elastic.evict(name, is_dead, now)
        elif is_dead:
            driver.crashed(name, now)
        else:
            raise LocalProtocolError(
                f"{driver.group} goes on without {name} only if it has crashed: vouch for that "
                "(is_dead) at every member that is left"
            )
        self._runtime.turn()

    async def leave(self, leave_s: float | None = None) -> bool:
        """Send no more, and leave the group in order; whether that is done.

        It waits until every member has what was sent here and most of them know that this node
        is gone, at most ``leave_s`` seconds (default: ``timing.drain_s``).  Then close it.
        """
        driver = self._elastic
        self._before_taking()  # the last chance to send
        driver.leave(self._runtime.now)
        self._runtime.turn()
        limit = self._station.config.timing.drain_s if leave_s is None else leave_s
        try:
            async with asyncio.timeout(limit):
                while not (driver.has_left or driver.failed):
                    turn = self._runtime.loop.create_future()
                    self._turns.append(turn)
                    await turn
        except TimeoutError:
            pass
        return driver.has_left
