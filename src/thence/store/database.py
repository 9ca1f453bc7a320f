"""The store of one node: what commands use, over a replicated keyspace.

Times at which keys go
----------------------
A key whose time is over reads as absent at every node at once, by each node's clock.  Then somebody
has to remove it: the first member that is there does so right away, the next one a second later if
it is still there, and so on.  That two do it does no harm: removing undoes what was seen.
"""

from __future__ import annotations

import asyncio
import heapq
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from thence.client.events import Evicted, Joined, Left
from thence.client.group import Group
from thence.client.replica import BATCH_BYTES_MAX, Committed, Hear, Replica
from thence.crdt.base import Crdt, Element, Op
from thence.crdt.children import MAPS, REGISTER
from thence.crdt.expiry import AT, NEVER, Expiry
from thence.crdt.keyspace import KEYS
from thence.crdt.register_counter import SET, RegisterCounter
from thence.crdt.zset_uw import SortedSet
from thence.errors import LocalProtocolError, ThenceError
from thence.store import tokens
from thence.store.commands.values import as_bytes
from thence.store.errors import CommandError, WrongType
from thence.store.sections import sections

EXPIRY: Final = Expiry.CODE
EXPIRED_PER_TURN_MAX: Final = 1000
RANK_S: Final = 1.0
"""How much later than the member before it a member removes what has expired."""
TIMES_SPARE: Final = 1000
"""Old times among those that are looked at in order; with more, and more than there are keys that
go, they are sorted out."""
RETRY_S: Final = 0.05
"""Who waits for room asks again this soon if there is nothing to wait for."""
AGAIN_MS: Final = 3_600_000
"""When to look again at a key that is over and cannot be removed."""
LACKING_MAX: Final = 1024
"""Members whose messages one client waits for."""
INDEXED_BY_FIELD: Final = frozenset([*MAPS, SortedSet.CODE])
"""Types whose operations name the field that they are about, second."""
INDEXES_MAX: Final = 10_000
"""Keys that something is kept beside; the oldest goes first."""

Made = TypeVar("Made")


class Database:
    """The store of one node."""

    def __init__(self, replica: Replica) -> None:
        """``replica`` is attached to its group by ``open``."""
        self.replica: Final = replica
        self._keyspace = replica.keyspace
        self._plain_get = replica.keyspace.get
        self._times: list[tuple[int, bytes]] = []  # a heap; the times may be old ones
        self._timer: asyncio.TimerHandle | None = None
        self._indexes: dict[Element, Any] = {}
        self._versions: dict[Element, int] = {}  # of keys that are watched
        self._watchers: dict[bytes, int] = {}  # how many sessions watch them
        self._version = 0
        self._is_watching = False
        self._waiting: dict[asyncio.Future[bool], list[tuple[str, int]]] = {}  # for what
        self._is_open = False
        self._is_whole = False
        self._absence = ""
        """Why there is no group to write to."""
        self.on_event: Callable[[Any], None] | None = None
        """Told members that come and go, and whatever else the group tells."""

    # ---- its life --------------------------------------------------------------------------------

    def open(self, group: Group) -> None:
        """Begin, with a group that was started with the hooks of the replica."""
        replica = self.replica
        replica.attach(group)
        self._group = group
        self._runtime = group.runtime
        if not self._is_open:
            replica.splits = False  # a command is a batch, or is within one
            replica.keyspace.on_expiry = self._expires
            replica.each_turn(self._end_of_turn)
            replica.on_event = self._event
            self._is_open = True
        self._absence = ""
        self._begin_again()

    def _begin_again(self) -> None:
        """Everything may be another."""
        self._indexes.clear()
        self._versions.clear()
        self._version += 1
        self._sort_times()

    def close(self) -> None:
        """Nothing happens by itself any more, and nothing can be written."""
        self._absence = self.replica.failure or "this node has no group now"
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(False)
        self.replica.detach()

    @property
    def node(self) -> str:
        """The name of this node, as stamps have it."""
        return self.replica.name

    # ---- values ----------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """The wall clock."""
        return time.time_ns() // 1_000_000

    def get(self, key: bytes) -> Any:
        """What the key shows: bytes, int or float for a string, else its Crdt; None: nothing."""
        if self._times and self._is_over(key):
            return None
        return self._plain_get(key)

    def _is_over(self, key: bytes) -> bool:
        at_ms = self._keyspace.expiry_ms(key)
        return at_ms is not None and at_ms <= time.time_ns() // 1_000_000

    def typed(self, key: bytes, kind: type[Crdt]) -> Any:
        """Its object of this type, or None; WrongType if the key shows another type."""
        found = self.get(key)
        if found is None or type(found) is kind:
            return found
        if kind is RegisterCounter and not isinstance(found, Crdt):
            return self._keyspace.child(key, REGISTER)
        raise WrongType

    def string(self, key: bytes) -> bytes | None:
        """A string as bytes; WrongType if the key shows another type."""
        found = self._plain_get(key)
        if type(found) is bytes:
            return None if self._times and self._is_over(key) else found
        if found is None or (self._times and self._is_over(key)):
            return None
        if isinstance(found, Crdt):
            raise WrongType
        return as_bytes(found)

    def update(self, key: bytes, kind: type[Crdt], op: Op) -> None:
        """Carry out an operation here and now, and queue it for the other nodes."""
        if self._keyspace.expiry_count:
            at_ms = self._keyspace.expiry_ms(key)
            # What is over is removed first, or it would come back with the new value; so is a time
            # that is left of a key that is not there.
            if at_ms is not None and (
                self._plain_get(key) is None or at_ms <= time.time_ns() // 1_000_000
            ):
                self.delete(key)
        self.replica.update(key, kind.CODE, op)

    def write(self, key: bytes, value: bytes) -> None:
        """Whatever the key was, it is this string now, and stays."""
        if not self._keyspace.is_register(key):
            if self.expiry(key) is not None or isinstance(self.get(key), Crdt):
                self.delete(key)
        self.replica.update(key, REGISTER, (SET, value))

    def delete(self, key: bytes) -> None:
        """Reset every type of the key, and its time, as observed here."""
        try:
            self.replica.remove(key)
        except LocalProtocolError as error:
            raise CommandError(f"ERR {error}") from None

    def expire(self, key: bytes, at_ms: int | None) -> None:
        """When the key goes; None: never."""
        self.replica.update(key, EXPIRY, (NEVER,) if at_ms is None else (AT, at_ms))

    def expiry(self, key: bytes) -> int | None:
        """None: never."""
        return self._keyspace.expiry_ms(key)

    def codes(self, key: bytes) -> list[int]:
        """The numbers of the types of which the key holds something."""
        return self._keyspace.codes(key)

    def keys(self) -> Iterable[bytes]:
        """The keys that show something; nothing may change meanwhile."""
        over: set[Element] = set()
        if self._times:
            now_ms = self.now_ms()
            over = {key for key, at_ms in self._keyspace.expiring() if at_ms <= now_ms}
        # Peers that are no stores may have made keys that no command can name.
        return [key for key in self._keyspace if type(key) is bytes and key not in over]

    def size(self) -> int:
        """How many keys there are; those count that are over and not removed yet."""
        return len(self._keyspace)

    @property
    def changes(self) -> object:
        """The same as before only if nothing was written meanwhile, here or elsewhere; None: that
        is not known."""
        replica = self.replica
        replica.flush()  # then the next write begins a batch, and is another ``latest``
        if not replica.is_settled:
            return None
        return replica.latest, replica.counts["applied"], self._version

    def flush_all(self) -> None:
        """Remove every key."""
        self.replica.clear()

    # ---- publish and subscribe -------------------------------------------------------------------

    def publish(self, channel: bytes, message: bytes) -> None:
        """To the subscribers of all nodes, in causal order."""
        self.replica.publish(channel, message)

    def subscribe(self, callback: Hear) -> None:
        """Call it with channel and message of everything published, this node's own included."""
        self.replica.hear(callback)

    # ---- writing down, and room ------------------------------------------------------------------

    @property
    def uncommitted(self) -> bool:
        """A write is not written down yet: no reply may leave."""
        return not self.replica.is_written

    def on_commit(self, callback: Committed) -> None:
        """Call it once when everything written so far is written down; with a text if it cannot
        be."""
        self.replica.on_commit(callback)

    @property
    def failure(self) -> str:
        """Why no write can be taken any more; empty: they can."""
        return self.replica.failure or self._absence

    def has_room(self) -> bool:
        """Whether the group takes another write; what joins a batch that is begun is taken.
        Asked before every command that writes: so no command is in two batches."""
        replica = self.replica
        replica.send_large()
        found: bool = not replica.is_settled or self._group.has_room
        return found

    async def until_room(self) -> None:
        """Done when it is worth asking ``has_room``, or ``failure``, again."""
        try:
            await self._group.until_room()
        except ThenceError:  # this node cannot go on, and is about to say so
            await asyncio.sleep(RETRY_S)

    # ---- transactions ----------------------------------------------------------------------------

    def begin(self) -> None:
        """What is written until ``end`` is visible at the other nodes all or nothing."""
        self.replica.begin_whole()
        self._is_whole = True

    def end(self) -> None:
        """The end of that."""
        self._is_whole = False
        self.replica.end_whole()

    def room_bytes(self) -> int:
        """That may still be written without breaking what has to stay whole."""
        return BATCH_BYTES_MAX - 1 - self.replica.size if self._is_whole else sys.maxsize

    def watch(self, key: bytes) -> int:
        """Its ``version`` from now on; to be taken back with ``unwatch``, as often."""
        self._watch()
        self._watchers[key] = self._watchers.get(key, 0) + 1
        return self._versions.setdefault(key, self._version)

    def unwatch(self, keys: Iterable[bytes]) -> None:
        """Who watched each of these once watches them no more."""
        for key in keys:
            count = self._watchers.pop(key, 0)
            if count > 1:
                self._watchers[key] = count - 1
            else:
                self._versions.pop(key, None)

    def version(self, key: bytes) -> int:
        """A number that is another one whenever the key, which is watched, may have changed."""
        return self._versions.get(key, self._version)

    def index(self, key: bytes, make: Callable[[], Made]) -> Made:
        """An object that is told what changes at a key; made when there is none."""
        found: Made | None = self._indexes.get(key)
        if found is None:
            self._watch()
            if len(self._indexes) >= INDEXES_MAX:
                del self._indexes[next(iter(self._indexes))]
            found = self._indexes[key] = make()
        return found

    def _watch(self) -> None:
        if not self._is_watching:
            self._is_watching = True
            self.replica.watchers.add(self._changes)

    def _changes(self, key: Element, code: int, op: Op | None) -> None:
        """Something is about to change."""
        if op is None:
            return
        if key in self._versions:
            self._version += 1
            self._versions[key] = self._version
        index = self._indexes.get(key)
        if index is None:
            return
        if code == KEYS:
            del self._indexes[key]
        elif code in INDEXED_BY_FIELD and len(op) > 1:
            index.touched(op[1])
        else:
            index.touched_all()

    # ---- keys that go ----------------------------------------------------------------------------

    def _expires(self, key: Element, at_ms: int) -> None:
        if type(key) is not bytes:
            return  # no command shows it
        if len(self._times) > 2 * self._keyspace.expiry_count + TIMES_SPARE:
            self._sort_times()
            return
        heapq.heappush(self._times, (at_ms, key))
        if self._times[0] == (at_ms, key):
            self._plan()

    def _sort_times(self) -> None:
        """As they are now."""
        expiring = self._keyspace.expiring()
        self._times = [(at_ms, key) for key, at_ms in expiring if type(key) is bytes]
        heapq.heapify(self._times)
        self._plan()

    def _plan(self, after_s: float = 0.0) -> None:
        """Look at what is over at the right time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._times:
            wait_s = max((self._times[0][0] - self.now_ms()) / 1000 + self._rank_s, after_s, 0.0)
            self._timer = self._runtime.loop.call_later(min(wait_s, 3600.0), self._expire)

    @property
    def _rank_s(self) -> float:
        """How long this node leaves it to those before it."""
        there = {*self._group.connected, self.replica.name}
        return RANK_S * sorted(there).index(self.replica.name)

    def _expire(self) -> None:
        self._timer = None
        upto_ms = self.now_ms() - int(self._rank_s * 1000)
        keyspace = self._keyspace
        for _ in range(EXPIRED_PER_TURN_MAX):
            if not self._times or self._times[0][0] > upto_ms:
                break
            if not self._group.has_room or self.replica.failure:
                self._plan(RANK_S)
                return
            _, key = heapq.heappop(self._times)
            at_ms = keyspace.expiry_ms(key)
            if at_ms is None:
                continue
            if at_ms > upto_ms:
                heapq.heappush(self._times, (at_ms, key))
                continue
            try:
                self.replica.remove(key)
            except LocalProtocolError:
                # Of a type that cannot be removed: it reads as absent as long as a time is here.
                heapq.heappush(self._times, (upto_ms + AGAIN_MS, key))
        self._plan()

    # ---- causality -------------------------------------------------------------------------------

    def token(self) -> bytes:
        """What this node has seen, for a client that moves to another node."""
        return tokens.encode(self.replica.seen())

    def covers(self, token: bytes) -> bool:
        """Whether this node has seen all of it.  CommandError if it is no token."""
        return self.replica.has_seen(tokens.decode(token))

    async def wait_token(self, token: bytes, timeout_ms: int) -> bool:
        """Until ``covers``; 0 waits for ever; False: the time is over."""
        named = tokens.decode(token).items()
        wanted = [each for each in named if not self.replica.has_seen(dict([each]))]
        if not wanted:
            return True
        if len(wanted) > LACKING_MAX:
            raise CommandError(f"ERR this node waits for at most {LACKING_MAX} members at a time")
        future: asyncio.Future[bool] = self._runtime.loop.create_future()
        self._waiting[future] = wanted
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000 if timeout_ms else None)
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(future, None)

    def _end_of_turn(self) -> None:
        for future, wanted in self._waiting.items():
            # What is seen stays so: only the first that is not has to be looked at each time.
            while wanted and self.replica.has_seen(dict(wanted[-1:])):
                wanted.pop()
            if not wanted and not future.done():
                future.set_result(True)

    @property
    def last_write(self) -> Any:
        """Stands for everything written here so far."""
        return self.replica.latest

    async def wait_replicas(self, count: int, timeout_ms: int, write: Any) -> int:
        """Until so many other nodes have it; how many have when that is so or the time is over."""
        others = len(self._group.members) - 1
        if write is None:
            return others
        self.replica.flush()
        known = self._known_by(write)
        if known >= count:
            return known
        self.replica.ask()
        try:
            async with asyncio.timeout(timeout_ms / 1000 if timeout_ms else None):
                while known < count and not self.replica.failure:
                    await self._group.turned()
                    known = self._known_by(write)
        except (TimeoutError, ThenceError):  # the time is over, or this node is out
            pass
        return self._known_by(write)

    def _known_by(self, write: Any) -> int:
        """How many others have consumed it."""
        tag = write.tag
        driver = self._group.driver
        if tag is None:
            return 0
        if tag.past is not driver.client.past:
            # Of a former life of this node, which was evicted: it is in what the others gave, and
            # then all have it, or nobody has accepted it.
            is_there = self.replica.has_seen({write.node: write.seq})
            return len(self._group.members) - 1 if is_there else 0
        if driver.is_stable(tag):
            return len(self._group.members) - 1
        return int(driver.known_by(tag)) - 1

    def stable(self, key: bytes) -> bool:
        """Whether everything about the key is stable: every node has it."""
        self.replica.flush()
        return self._keyspace.is_stable(key)

    def _event(self, event: Any) -> None:
        if isinstance(event, Joined | Left | Evicted):
            self._plan()
        if self.on_event is not None:
            self.on_event(event)

    def info(self) -> dict[str, dict[str, object]]:
        """Sections of INFO with their fields."""
        return sections(self.replica, self._group)
