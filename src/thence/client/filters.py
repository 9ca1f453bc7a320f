"""Filters between an application and its group: chains that can be changed while messages flow.

The idea is that of Dewan's slides (001, 26 to 51): an application that knows nothing of causality,
a communication system that knows nothing of it, and between them filters through which what is sent
and what is received has to pass.  A filter may change messages, hold them back, put them into
another order, take them away or add some.  The default is none: messages pass as they are.

Filters are pure: they get a message and the time, and return what goes on from there.  Whoever
drives a chain (filtered.py for real groups, a test in virtual time) asks ``due``, calls ``tick``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from thence.errors import LocalProtocolError


class Passing(msgspec.Struct, frozen=True):
    """A message of the application on its way through a chain."""

    payload: bytes
    origin: str
    """The name of the member that sent it."""
    to: tuple[str, ...] = ()
    """The members it is for; empty: everyone."""
    flag: str = ""
    """What a filter noticed about it."""


class Filter:
    """Passes everything on as it is; to be derived from."""

    name = "forward"
    """By which it is found in a chain."""

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        """A message comes; what goes on now."""
        return (message,)

    def due(self) -> float | None:
        """When ``tick`` wants to be called."""
        return None

    def tick(self, now: float) -> Sequence[Passing]:
        """Time passes; what goes on now."""
        return ()

    def drain(self) -> Sequence[Passing]:
        """It is taken out of its chain: what it still holds, in order.  Nothing may be lost."""
        return ()


class Chain:
    """Filters one after the other."""

    def __init__(self, filters: Sequence[Filter] = ()) -> None:
        self._filters: list[Filter] = []
        for each in filters:
            self.insert(each)

    def __iter__(self) -> Iterator[Filter]:
        return iter(list(self._filters))

    @property
    def names(self) -> list[str]:
        """Of the filters, in the order in which messages pass them."""
        return [each.name for each in self._filters]

    # While messages flow.

    def feed(self, message: Passing, now: float) -> list[Passing]:
        """A message comes in; what comes out at the end now."""
        return self._from(0, [message], now)

    def due(self) -> float | None:
        """When ``tick`` is due."""
        return min([at for each in self._filters if (at := each.due()) is not None], default=None)

    def tick(self, now: float) -> list[Passing]:
        """Time passes; what comes out."""
        found: list[Passing] = []
        for place in reversed(range(len(self._filters))):  # the oldest messages are at the end
            found += self._from(place + 1, self._filters[place].tick(now), now)
        return found

    def _from(self, place: int, messages: Sequence[Passing], now: float) -> list[Passing]:
        for each in self._filters[place:]:
            messages = [out for message in messages for out in each.feed(message, now)]
        return list(messages)

    # Changing it.

    def insert(self, new: Filter, before: str = "") -> None:
        """Put a filter in, before the one of that name or at the end."""
        if new.name in self.names:
            raise LocalProtocolError(f"there is a filter {new.name} in this chain already")
        place = self._place(before) if before else len(self._filters)
        self._filters.insert(place, new)

    def remove(self, name: str, now: float) -> list[Passing]:
        """Take a filter out; what it held, as it comes out at the end."""
        place = self._place(name)
        held = self._filters.pop(place).drain()
        return self._from(place, held, now)

    def replace(self, name: str, new: Filter, now: float) -> list[Passing]:
        """Put a filter in the place of another; what that held passes the filters behind it."""
        place = self._place(name)
        if new.name != name and new.name in self.names:
            raise LocalProtocolError(f"there is a filter {new.name} in this chain already")
        held = self._filters[place].drain()
        self._filters[place] = new
        return self._from(place + 1, held, now)

    def _place(self, name: str) -> int:
        if name not in self.names:
            there = ", ".join(self.names) or "none"
            raise LocalProtocolError(f"no filter {name!r} in this chain; there are: {there}")
        return self.names.index(name)


class Pipes(msgspec.Struct, frozen=True):
    """The filters of one group of one node."""

    send: Sequence[Filter] = ()
    """From the application to the group."""
    receive: Sequence[Filter] = ()
    """From the group to the application."""


Factory = Callable[[str, Sequence[str]], Pipes]
"""Makes the filters of a group from the name of this member and those of all."""


class Factories:
    """Which filters the groups of a node have: a factory for each, or one for all others."""

    def __init__(self, default: Factory | None = None) -> None:
        self._default: Factory = default or _no_filters
        self._by_group: dict[str, Factory] = {}

    def register(self, group: str, factory: Factory) -> None:
        """From now on the filters of this group are made by that."""
        self._by_group[group] = factory

    def make(self, group: str, member: str, members: Sequence[str]) -> Pipes:
        """The filters for a member of a group."""
        return self._by_group.get(group, self._default)(member, members)


def _no_filters(member: str, members: Sequence[str]) -> Pipes:
    return Pipes()
