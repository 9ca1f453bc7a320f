"""Lists of what large sets hold, kept for a while: for cursors, and to pick at random.

A set of Python has no n-th element.  Small collections are listed whenever that is asked; of large
ones the list is kept, a few of them, the ones used last.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterable
from operator import itemgetter
from typing import Any, Final
from weakref import WeakKeyDictionary
from zlib import crc32

from thence.store.commands.arguments import INTEGER_MAX, integer
from thence.store.commands.base import Database
from thence.store.commands.values import as_bytes
from thence.store.errors import OUT_OF_RANGE, SYNTAX, CommandError
from thence.store.session import Session, Shared

SMALL_MAX: Final = 512
"""Collections of so many members are listed anew each time."""
KEPT_MAX: Final = 8
"""Lists that are kept."""
STALE_MS: Final = 1000
"""A list to pick from at random may miss members that are newer than this."""
BUCKET_MEMBERS: Final = 256
"""So many members are about in one bucket of an order by hash."""
HASH_BITS: Final = 32
HASH_END: Final = 1 << HASH_BITS

_HASH: Final = itemgetter(0)

Where = tuple[str, bytes]
"""(kind of collection, key)."""


class Sample:
    """The members of one collection at a time."""

    __slots__ = ("members", "taken_ms")

    def __init__(self, members: list[Any], taken_ms: int) -> None:
        self.members: Final = members
        self.taken_ms: Final = taken_ms


class HashOrder:
    """The members of one collection at a time, in the order of their hashes.  Sorted bucket by
    bucket as a cursor comes by: the first call of a scan must not take the time of all."""

    __slots__ = ("_buckets", "_shift", "_sorted")

    def __init__(self, members: Iterable[bytes], size: int) -> None:
        bits = max(size // BUCKET_MEMBERS, 1).bit_length() - 1
        shift = HASH_BITS - bits
        buckets: list[list[Any]] = [[] for _ in range(1 << bits)]
        for member in members:
            buckets[crc32(as_bytes(member)) >> shift].append(member)
        self._shift: Final = shift
        self._buckets: Final = buckets
        self._sorted: Final = bytearray(len(buckets))

    def take(self, cursor: int, count: int) -> tuple[list[bytes], int]:
        """About so many members from a cursor on, and the next cursor; 0 after the last.  Members
        of one hash come together, so that a cursor, which is a hash, never stands between them."""
        taken: list[bytes] = []
        last = -1
        for number in range(cursor >> self._shift, len(self._buckets)):
            for value, member in self._bucket(number):
                if value < cursor:
                    continue
                if len(taken) >= count and value != last:
                    return taken, value
                taken.append(member)
                last = value
        return taken, 0

    def _bucket(self, number: int) -> list[tuple[int, bytes]]:
        bucket = self._buckets[number]
        if not self._sorted[number]:
            bucket[:] = sorted([(crc32(as_bytes(member)), member) for member in bucket], key=_HASH)
            self._sorted[number] = True
        return bucket


class Kept:
    """The lists of one server."""

    __slots__ = ("_orders", "_samples")

    def __init__(self) -> None:
        self._samples: dict[Where, Sample] = {}
        self._orders: dict[Where, tuple[HashOrder, object]] = {}  # with ``Database.changes``

    def sample(self, where: Where, now_ms: int, make: Callable[[], list[Any]], size: int) -> Sample:
        """A list to pick from; not quite new perhaps."""
        found = self._samples.pop(where, None)
        if (
            found is None
            or now_ms - found.taken_ms > STALE_MS
            or now_ms < found.taken_ms
            or 2 * len(found.members) < size
        ):
            found = Sample(make(), now_ms)
        _keep(self._samples, where, found)
        return found

    def order(
        self,
        db: Database,
        where: Where,
        fresh: bool,
        make: Callable[[], Iterable[bytes]],
        size: int,
    ) -> HashOrder:
        """An order that is no older than the scan.  A scan that begins (``fresh``) makes a new one,
        unless nothing was written since the last one: it also serves the scans that are under way.
        A member that is there during all of a scan is in every list that was made since the scan
        began, at the same place."""
        found = self._orders.get(where)
        if found is None or fresh:
            changes = db.changes
            if found is None or changes is None or changes != found[1]:
                found = (HashOrder(make(), size), changes)
        _keep(self._orders, where, found)
        return found[0]


def _keep(kept: dict[Where, Any], where: Where, value: Any) -> None:
    kept.pop(where, None)
    kept[where] = value
    if len(kept) > KEPT_MAX:
        del kept[next(iter(kept))]


_KEPT: Final[WeakKeyDictionary[Shared, Kept]] = WeakKeyDictionary()


def kept_for(session: Session) -> Kept:
    """Those of the server of this session."""
    found = _KEPT.get(session.shared)
    if found is None:
        found = _KEPT[session.shared] = Kept()
    return found


class Picker:
    """Picks members of one collection at random."""

    __slots__ = ("_live", "_members")

    def __init__(
        self,
        db: Database,
        session: Session,
        where: Where,
        live: Container[Any],
        size: int,
        make: Callable[[], list[Any]],
    ) -> None:
        """``live`` says what is a member now, ``make`` lists the members."""
        if size <= SMALL_MAX:
            self._members = make()
        else:
            sample = kept_for(session).sample(where, db.now_ms(), make, size)
            self._members = sample.members
        self._live: Final = live

    def one(self) -> Any:
        """Any member, each as likely as any other; None if all are gone."""
        members = self._members
        while members:
            at = random.randrange(len(members))
            member = members[at]
            if member in self._live:
                return member
            members[at] = members[-1]
            members.pop()
        return None


PICKED_MAX: Final = 1_000_000
"""Of members that may repeat: nothing else limits what a client may ask for."""
_COUNT_FAULT: Final = (
    f"ERR value is out of range, value must between {-INTEGER_MAX} and {INTEGER_MAX}"
)


def random_count(argument: bytes, doubled: bool = False) -> int:
    """How many to pick; negative: the same one may be picked again.  ``doubled``: each is two in
    the reply."""
    count = integer(argument)
    if abs(count) > INTEGER_MAX:
        raise CommandError(_COUNT_FAULT)
    if doubled and abs(count) > INTEGER_MAX // 2:
        raise CommandError(OUT_OF_RANGE)
    return count


def random_options(args: list[bytes], word: bytes) -> tuple[int, bool]:
    """The count of HRANDFIELD and its like, and whether ``word`` is there."""
    count = random_count(args[1])
    if len(args) > 3 or (len(args) == 3 and args[2].upper() != word):
        raise CommandError(SYNTAX)
    if len(args) == 3:
        random_count(args[1], doubled=True)
    return count, len(args) == 3


def picked(picker: Picker, found: Iterable[Any], count: int) -> list[Any]:
    """So many members at random; with a negative count they may repeat."""
    if count < 0:
        if count < -PICKED_MAX:
            raise CommandError(OUT_OF_RANGE)
        return [picker.one() for _ in range(-count)]
    if count <= SMALL_MAX:
        # Few of perhaps many: pick until there are enough different ones.
        some: dict[Any, None] = {}
        for _ in range(4 * count):
            some[picker.one()] = None
            if len(some) >= count:
                return list(some)
    members = list(found)
    return random.sample(members, min(count, len(members)))
