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
from typing import Any, Final

from thence.client.exchange import Exchange
from thence.message import Bundle, Chain, Control, Stamped
from thence.wire import codec, talk

KEPT_MIN: Final = 1024
"""So many messages of a peer at least are remembered."""


class StampedCredit:
    """What the application has not taken."""

    def __init__(self, exchange: Exchange, pending_max: int) -> None:
        self._exchange = exchange
        self._kept_max = max(KEPT_MIN, pending_max)
        self._came: list[dict[tuple[int, int], tuple[int, bool]]] = [{} for _ in exchange.flows]
        """By peer, of each message that came from it, by origin and number: what it counts, and
        whether it is ready."""
        self._givers: dict[tuple[int, int], int] = {}
        """The peer that each of them came from."""

    def arrived(
        self, slot: int, items: Sequence[codec.BatchItem], refused: Collection[int]
    ) -> None:
        """The engine took these of a peer, but for those in the places ``refused``, which are given
        back already."""
        flow = self._exchange.flows[slot]
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
            size = talk.message_bytes(item.payload)
            flow.taken(size)
            last = item if isinstance(item, Stamped) else item.messages[-1]
            self._remember(slot, (last.origin, last.seq), size)

    def _remember(self, slot: int, key: tuple[int, int], size: int) -> None:
        """Some the engine drops in silence (told by several after a crash, of an epoch that is
        over), so the oldest are forgotten when there are too many."""
        if key in self._givers:
            return
        came = self._came[slot]
        if len(came) >= self._kept_max:
            oldest = next(iter(came))
            self._forget(oldest)
        came[key] = (size, False)
        self._givers[key] = slot

    def ready(self, tags: Sequence[Any]) -> None:
        """These wait for the application now."""
        for tag in tags:
            key = (tag.origin, tag.seq)
            slot = self._givers.get(key)
            if slot is not None:
                size, _ = self._came[slot][key]
                self._came[slot][key] = (size, True)
                self._exchange.flows[slot].hold(size)

    def taken(self, tag: Any) -> None:
        """The application took a message; its own ones came from nobody."""
        self._forget((tag.origin, tag.seq))

    def _forget(self, key: tuple[int, int]) -> None:
        slot = self._givers.pop(key, None)
        if slot is not None:
            size, is_ready = self._came[slot].pop(key)
            if is_ready:
                self._exchange.flows[slot].taken(size)
