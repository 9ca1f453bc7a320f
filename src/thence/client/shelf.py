"""Payloads of messages that are not stable: how much memory they take; the journal for the rest.

While a member is away, or a newcomer takes over the state, nothing becomes stable.  Whatever is
sent then stays at every member, because the one that is away lacks it, and because its sender may
die.  Here that is counted, and the oldest payloads go to the shelf of the journal before they take
more memory than they may.  Where they are makes no difference to anybody: ``Tag.payload`` fetches
them.  Only what the application has confirmed goes there, because a checkpoint has the rest with
its payload.

What is counted costs nothing while everybody is there: ``look`` is called only while somebody is
not.  It counts each message once; what became stable meanwhile is found by halving, because the
unstable messages of one member follow each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from thence.causal.dot import SEQ_BITS
from thence.engine.tag import SHELVED
from thence.errors import JournalError
from thence.journal.base import Journal

SHELVE_BYTES: Final = 4 << 20
"""That go to the journal in one turn, about: more would be a pause."""


class Store(Protocol):
    """The past of a node (engine/tag.py), as far as it matters here."""

    rows: list[dict[int, Any]]
    shelf: Any


class Shelf:
    """The payloads of one group at one node."""

    def __init__(
        self, past: Store, bytes_max: int, journal: Journal | None, journal_bytes_max: int,
        clock: Callable[[], int],
    ) -> None:  # fmt: skip
        """``bytes_max`` of payloads may be in memory, so many more in the journal; ``clock`` tells
        up to which ``Tag.index`` the application is done with messages."""
        self._clock = clock
        self._rows = past.rows
        self._bytes_max = bytes_max
        self._journal = journal
        self._journal_bytes_max = journal_bytes_max
        self._sizes: dict[int, _Sizes] = {}
        # Of what a former life put there, and this one has not counted yet.
        self._left = {} if journal is None else dict(journal.shelved())
        self.bytes = 0
        """Of payloads in memory, as of the last look."""
        self.shelved_bytes = 0
        """Of payloads in the journal that are needed."""
        self.written_bytes = sum(self._left.values())
        """Of payloads that were written there since the last checkpoint, or were needed then."""
        past.shelf = self
        self.look()

    @property
    def has_room(self) -> bool:
        """Whether there may be more."""
        return self.bytes < self._bytes_max

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to look after."""
        return not self._sizes

    def fetch(self, packed: int) -> bytes:
        """The payload of a message, which is not in memory."""
        if self._journal is None:
            raise JournalError("a payload is in a journal, and there is none")
        return self._journal.fetch(packed)

    def size(self, tag: Any) -> int:
        """Bytes of the payload of an unstable message, wherever it is."""
        if tag.body is not SHELVED:
            return len(tag.body)
        sizes = self._sizes.get(tag.packed >> SEQ_BITS)
        if sizes is not None and sizes.first <= tag.packed <= sizes.last:
            return sizes.between(tag.packed - 1, tag.packed)
        if tag.packed not in self._left:
            raise JournalError(f"the payload of {tag} is neither in memory nor in the journal")
        return self._left[tag.packed]

    def look(self) -> None:
        """Count what came and went, and put some on the shelf if it is too much; JournalError."""
        total = shelved = 0
        for slot, row in enumerate(self._rows):
            if not row:
                self._sizes.pop(slot, None)
                continue
            sizes = self._sizes.get(slot)
            newest = next(reversed(row))
            if sizes is None or (newest > sizes.last and sizes.last + 1 not in row):
                sizes = self._sizes[slot] = _Sizes(next(iter(row)))
            self._count(sizes, row, newest)
            shelved += sizes.between(sizes.front - 1, sizes.shelved)
            total += sizes.in_memory
        self.bytes, self.shelved_bytes = total, shelved
        self._left.clear()
        if self._journal is not None and 2 * total > self._bytes_max:
            self._shelve(self._journal)

    def rest(self) -> None:
        """Everybody is there: unless something is on the shelf, or there is no room, it need not be
        looked at again."""
        if not self.shelved_bytes and self.has_room:
            self._sizes.clear()
            self.bytes = 0

    @property
    def stale_bytes(self) -> int:
        """Of payloads in the journal that are not needed: the next checkpoint takes them away."""
        return self.written_bytes - self.shelved_bytes

    def settled(self) -> None:
        """A checkpoint was made: what is not needed is gone from the journal."""
        self.written_bytes = self.shelved_bytes

    def _count(self, sizes: _Sizes, row: dict[int, Any], newest: int) -> None:
        if newest > sizes.last:
            is_first = sizes.last < sizes.first
            sizes.add([self.size(row[packed]) for packed in range(sizes.last + 1, newest + 1)])
            if is_first:  # perhaps a former life has put some of them on the shelf
                while sizes.shelved < newest and row[sizes.shelved + 1].body is SHELVED:
                    sizes.shelved += 1
        low, high = sizes.front - 1, newest
        while high - low > 1:  # low is forgotten, high is not
            middle = (low + high) // 2
            if middle in row:
                high = middle
            else:
                low = middle
        sizes.forget(high)

    def _shelve(self, journal: Journal) -> None:
        """Write the oldest of whoever has most."""
        clock = self._clock()
        left = min(SHELVE_BYTES, self._journal_bytes_max - self.shelved_bytes)
        values: list[tuple[int, bytes]] = []
        tags: list[Any] = []
        for slot, sizes in sorted(self._sizes.items(), key=lambda item: -item[1].in_memory):
            row = self._rows[slot]
            packed = max(sizes.front - 1, sizes.shelved) + 1
            while left > 0 and packed <= sizes.last and 0 <= row[packed].index <= clock:
                tags.append(row[packed])
                values.append((packed, row[packed].body))
                left -= len(row[packed].body)
                packed += 1
        if not values:
            return
        journal.shelve(values)
        size = 0
        for tag, (packed, body) in zip(tags, values, strict=True):
            tag.body = SHELVED
            size += len(body)
            self._sizes[packed >> SEQ_BITS].shelved = packed
        self.bytes -= size
        self.shelved_bytes += size
        self.written_bytes += size


class _Sizes:
    """Of the unstable messages of one member: how large each is, as sums."""

    __slots__ = ("_sums", "first", "front", "last", "shelved")

    def __init__(self, first: int) -> None:
        self.first = first
        """The packed dot of the first one that is counted."""
        self.front = first
        """Of the first one that is not stable."""
        self.last = first - 1
        self.shelved = first - 1
        """Of the last one on the shelf; they go there in order."""
        self._sums = [0]

    def add(self, sizes: list[int]) -> None:
        """The next ones."""
        total = self._sums[-1]
        for size in sizes:
            total += size
            self._sums.append(total)
        self.last += len(sizes)

    @property
    def in_memory(self) -> int:
        """Bytes of those that are not on the shelf."""
        return self.between(max(self.front - 1, self.shelved), self.last)

    def between(self, after: int, last: int) -> int:
        """Bytes of those after the one, up to the other."""
        if last <= after:
            return 0
        return self._sums[last - self.first + 1] - self._sums[after - self.first + 1]

    def forget(self, front: int) -> None:
        """Those before this one are stable; sums of them are dropped when they are the most."""
        self.front = front
        gone = front - self.first
        if gone > 1024 and 2 * gone > len(self._sums):
            del self._sums[:gone]
            self.first = front
            self.shelved = max(self.shelved, front - 1)
