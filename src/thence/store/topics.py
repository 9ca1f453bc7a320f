"""Who subscribed to which channels and patterns.  Nothing is sent here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, TypeVar

from thence.store.errors import CommandError

SUBSCRIPTIONS_MAX: Final = 65_536
"""Channels and patterns of one subscriber."""

S = TypeVar("S")


class Topics(Generic[S]):
    """Subscribers of a server; whatever they are, they are told apart by identity or hash."""

    def __init__(self, matcher: Callable[[bytes], Callable[[bytes], object]]) -> None:
        """``matcher`` gives for a pattern what is true of the channels that match it."""
        self._matcher: Final = matcher
        # Dictionaries for their order: whoever subscribed first is told first.
        self._channels: dict[bytes, dict[S, None]] = {}
        self._patterns: dict[bytes, dict[S, None]] = {}
        self._matchers: dict[bytes, Callable[[bytes], object]] = {}  # of the patterns
        self._of: dict[S, tuple[dict[bytes, None], dict[bytes, None]]] = {}

    def check(self, subscriber: S, topics: Iterable[bytes], pattern: bool) -> None:
        """CommandError if these would be too many for it, with those that it has."""
        own = self._of.get(subscriber, ({}, {}))
        new = [topic for topic in dict.fromkeys(topics) if topic not in own[pattern]]
        if new and len(own[0]) + len(own[1]) + len(new) > SUBSCRIPTIONS_MAX:
            raise CommandError(f"ERR a connection has at most {SUBSCRIPTIONS_MAX} subscriptions")

    def subscribe(self, subscriber: S, topic: bytes, pattern: bool) -> int:
        """How many subscriptions it has then; doing it twice changes nothing.  CommandError, with
        nothing changed, if there is no matcher for the pattern."""
        if pattern and topic not in self._matchers:
            self._matchers[topic] = self._matcher(topic)
        own = self._of.setdefault(subscriber, ({}, {}))
        if topic not in own[pattern]:
            own[pattern][topic] = None
            side = self._patterns if pattern else self._channels
            side.setdefault(topic, {})[subscriber] = None
        return len(own[0]) + len(own[1])

    def unsubscribe(self, subscriber: S, topic: bytes, pattern: bool) -> int:
        """How many subscriptions are left."""
        own = self._of.get(subscriber)
        if own is None:
            return 0
        if topic in own[pattern]:
            del own[pattern][topic]
            self._forget(subscriber, topic, pattern)
        left = len(own[0]) + len(own[1])
        if not left:
            del self._of[subscriber]
        return left

    def topics_of(self, subscriber: S, pattern: bool) -> list[bytes]:
        """Its channels or its patterns, in the order in which it subscribed."""
        own = self._of.get(subscriber)
        return list(own[pattern]) if own is not None else []

    def drop(self, subscriber: S) -> None:
        """It has no subscriptions any more."""
        own = self._of.pop(subscriber, None)
        if own is None:
            return
        for pattern in (False, True):
            for topic in own[pattern]:
                self._forget(subscriber, topic, pattern)

    def hearers(self, channel: bytes) -> Iterator[tuple[S, bytes | None]]:
        """Who gets a message on the channel, with the pattern by which; channels come first."""
        for subscriber in list(self._channels.get(channel, ())):
            yield subscriber, None
        for pattern in [p for p, matches in self._matchers.items() if matches(channel)]:
            for subscriber in list(self._patterns.get(pattern, ())):
                yield subscriber, pattern

    def count(self, channel: bytes) -> int:
        """Subscribers of the channel itself, patterns apart."""
        return len(self._channels.get(channel, ()))

    def channels(self) -> list[bytes]:
        """Channels that somebody subscribed to by name."""
        return list(self._channels)

    @property
    def pattern_count(self) -> int:
        """Different patterns."""
        return len(self._patterns)

    def _forget(self, subscriber: S, topic: bytes, pattern: bool) -> None:
        side = self._patterns if pattern else self._channels
        hearers = side[topic]
        del hearers[subscriber]
        if not hearers:
            del side[topic]
            if pattern:
                del self._matchers[topic]
