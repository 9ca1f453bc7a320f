"""Who is told what is done to a replica: before it is done, to any key; or with its stamps, to a
single object."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Protocol

from thence.crdt.base import Element, Op, Stamp
from thence.crdt.children import UNREMOVABLE, class_of
from thence.crdt.keyspace import CLEAR, KEYS, REMOVE, Keyspace, Watch


class Watchers:
    """Those of one keyspace: called with key, code and operation before anything changes."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace: Final = keyspace
        self._watchers: list[Watch] = []

    def __contains__(self, watcher: Watch) -> bool:
        return watcher in self._watchers

    def add(self, watcher: Watch) -> None:
        """From now on."""
        self._watchers.append(watcher)
        self._choose()

    def remove(self, watcher: Watch) -> None:
        """Call it no more.  It may be said again: a keyspace that is in the middle of a change may
        call it still."""
        if watcher in self._watchers:
            self._watchers.remove(watcher)
            self._choose()

    def _choose(self) -> None:
        watchers = self._watchers
        self._keyspace.watch = self._tell if len(watchers) > 1 else next(iter(watchers), None)

    def _tell(self, key: Element, code: int, op: Op | None) -> None:
        for watcher in self._watchers[:]:
            watcher(key, code, op)


class Follower(Protocol):
    """Told what is done to one object (retaining.py)."""

    def effect(self, op: Op, stamp: Stamp) -> None: ...

    def reset(self, stamp: Stamp) -> None: ...

    def stabilise(self, stamps: Collection[Stamp]) -> None: ...


class Followers:
    """Those of one replica: one for each object."""

    def __init__(self) -> None:
        self._of: dict[tuple[Element, int], Follower] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def add(self, key: Element, code: int, follower: Follower) -> None:
        """From now on."""
        self._of[key, code] = follower

    def forget(self) -> None:
        """Tell nobody any more."""
        self._of.clear()

    def tell(self, key: Element, code: int, op: Op, stamp: Stamp) -> None:
        """An operation was carried out."""
        if code != KEYS:
            found = self._of.get((key, code))
            if found is not None:
                found.effect(op, stamp)
            return
        for (at, of), follower in self._of.items():
            if op[0] == CLEAR or (op[0] == REMOVE and at == key):
                if class_of(of).NAME not in UNREMOVABLE:
                    follower.reset(stamp)

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """These stamps are stable."""
        for follower in self._of.values():
            follower.stabilise(stamps)
