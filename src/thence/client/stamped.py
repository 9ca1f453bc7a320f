"""Whom a group gives credit back for messages of engines that order by stamps.

With those a message may come through another member than its sender, along with others, or for
the middleware alone.  A peer's credit is what came over its own connection, so that is kept by
message until the application takes it; what is for the middleware is given back at once.

What waits in the engine may wait for something that comes behind it on the same connection, such
as the release of a message, so it does not count against the peer (the engine has limits of its
own); it counts from when it is ready until the application takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from thence.client.exchange import Exchange
from thence.message import Bundle, Chain, Control, Stamped
from thence.wire import codec


class StampedCredit:
    """What the application has not taken."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._came: dict[tuple[int, int], tuple[int, bytes]] = {}
        """By origin and number, the peer it came from and the payload that it counts for."""

    def arrived(
        self, slot: int, items: Sequence[codec.BatchItem], refused: Collection[int]
    ) -> None:
        """The engine took these of a peer, but for those in the places ``refused``, which are given
        back already."""
        following = 0
        for item in items:
            place = following
            if isinstance(item, Chain):  # it has a place for each payload, and is refused
                following += len(item)
                continue
            following += 1
            if place in refused:
                continue
            assert isinstance(item, Stamped | Bundle | Control), "the engine refuses others"
            if isinstance(item, Control):
                self._exchange.taken(slot, b"")
                continue
            last = item if isinstance(item, Stamped) else item.messages[-1]
            self._exchange.taken(slot, item.payload)
            self._came.setdefault((last.origin, last.seq), (slot, item.payload))

    def ready(self, tags: Sequence[Any]) -> None:
        """These wait for the application now."""
        for tag in tags:
            came = self._came.get((tag.origin, tag.seq))
            if came is not None:
                self._exchange.hold(*came)

    def taken(self, tag: Any) -> None:
        """The application took a message; its own ones came from nobody."""
        came = self._came.pop((tag.origin, tag.seq), None)
        if came is not None:
            self._exchange.taken(*came)
