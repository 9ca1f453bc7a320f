"""A keyspace of data types, replicated over a group.

What is done here takes effect here at once.  All of it up to the end of the turn of the event loop
is one *batch*: one broadcast, which takes effect at the other members in one go.  Deliveries are
taken between batches only, so a batch is after exactly what was here when it began, and reading
without awaiting sees one causal cut.

The tag of a batch is the stamp of its operations.  When it becomes stable the keyspace forgets it.

With a journal the keyspace comes back after a crash: checkpoints have the keys that changed, as
rows, and batches since then are carried out again (``Kept``).  A newcomer is given all keys as they
were at one moment, while they go on changing (replica_snapshot.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from thence.causal.dot import SEQ_BITS
from thence.client.events import Evicted, Left
from thence.client.following import Followers, Watchers
from thence.client.group import Group
from thence.client.kept import Find
from thence.client.replica_snapshot import META_KEY, Meta, Rows, meta_of, rows_of
from thence.client.replica_stamps import Placeholders, TagStamp
from thence.crdt import batch
from thence.crdt.base import Element, Op, Stamp
from thence.crdt.children import REGISTER, UNREMOVABLE, class_of
from thence.crdt.keyspace import CLEAR, KEYS, PUBLISH, REMOVE, Keyspace
from thence.crdt.register_counter import SET
from thence.engine.streams import STREAM_BASE
from thence.errors import LimitError, LocalProtocolError, ThenceError
from thence.message import PAYLOAD_BYTES_MAX

BATCH_BYTES_SOON: Final = 1 << 20
"""A batch of about this size is sent before the turn ends, unless it has to stay whole."""
BATCH_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of one operation, and of a batch that has to stay whole: what exceeds it begins another one."""
_REMOVE_OP: Final = (REMOVE,)
_CLEAR_OP: Final = (CLEAR,)

Hear = Callable[[bytes, bytes], object]
Committed = Callable[["str | None"], object]


class Replica:
    """One member's copy.  Its methods are hooks of the group; ``attach`` it once that is started:

    ``Group(name, snapshot=r.snapshot, restore=r.restore, kept=r)``
    """

    def __init__(self) -> None:
        self.keyspace: Final = Keyspace()
        self.group: Group
        """There once it is attached."""
        self.failure = ""
        """Why nothing can be written here any more."""
        self.counts = dict.fromkeys(("sent", "applied", "ignored"), 0)
        """Batches: of this node, of others, of others that made no sense."""
        self.latest: TagStamp | None = None
        """The stamp of the last thing done here in this life of the node."""
        self.on_event: Callable[[Any], None] | None = None
        """Told members that come and go, and whatever else is no batch."""
        self._rows: Final = Rows(self.keyspace)
        self.is_attached = False
        self._is_begun = False
        self._restored: Placeholders | None = None
        self._stamps: dict[int, TagStamp] = {}  # of what is not stable, by packed dot
        self._pieces: dict[str, list[bytes]] = {}
        self._seen: dict[str, int] = {}
        self._prepare_batch()
        self._whole = 0
        self._is_torn = False
        self._is_solo = False
        self._is_written = True
        self.splits = True
        """Large batches are sent before the turn ends; False: that is for ``send_large``."""
        self._hearers: list[Hear] = []
        self.watchers: Final = Watchers(self.keyspace)  # told what is about to change
        self.followers: Final = Followers()  # told all that is done to single objects
        self._committed: list[Committed] = []
        self._each_turn: list[Callable[[], None]] = []

    def _prepare_batch(self) -> None:
        self._open: TagStamp | None = None
        self._items: list[Any] = []
        self._last: dict[tuple[Element, int], int] = {}  # where the last operation of each is
        self.size = 0
        """Of the batch that is open."""

    # ---- the group -------------------------------------------------------------------------------

    def attach(self, group: Group) -> None:
        """Take all events of a started group from now on."""
        driver = group.driver
        if self.is_attached:
            raise LocalProtocolError("this replica has a group already")
        if group.has_callbacks and group is not getattr(self, "group", None):
            raise LocalProtocolError(f"somebody has the events of group {group.name}: bind it once")
        if driver.spec.name != "tagged" or not driver.options.stability:
            raise LocalProtocolError(
                f"data types need tags and stability: group {group.name} runs engine "
                f"{driver.spec.name}, stability {driver.options.stability}"
            )
        if not self._is_begun:
            if group.is_journaled or driver.is_elastic:
                what = "a journal" if group.is_journaled else "members that come and go"
                raise LocalProtocolError(
                    f"group {group.name} has {what}: give it the hooks of Objects(), or "
                    "kept=replica, when it is made, so that the data comes with them"
                )
            self.begin(_nothing, ())
        if not group.is_journaled:
            self.keyspace.dirty = None
        self.group = group
        self._driver = driver
        self._runtime = group.runtime
        self.is_attached = True
        group.on_taking(self._end_batch)
        group.on_deliver(self._deliver, many=True)
        group.on_stable(self._stable, many=True)
        group.on_event(self._event)
        self._runtime.watch(self.flush, early=True)
        self._runtime.watch(self._end_of_turn)

    def detach(self) -> None:
        """Its group is closed, or about to be left for another one (``attach``)."""
        if self.is_attached:
            self.is_attached = self._is_begun = False
            self._runtime.unwatch(self.flush)
            self._runtime.unwatch(self._end_of_turn)
            self._tell_committed(self.failure or "this node is closing")

    @property
    def name(self) -> str:
        """Of this member, as stamps have it."""
        return self._driver.name

    @property
    def is_alone(self) -> bool:
        """Whether this node is the only member: then what it does is stable at once."""
        if self._driver.is_elastic:
            return len(self.group.view.members) == 1
        return not self._driver.exchange.peers

    # ---- doing something -------------------------------------------------------------------------

    def update(self, key: Element, code: int, op: Op) -> None:
        """Carry out an operation whose shape is right; the others get it at the end of the turn.
        LimitError if it is too large to be sent."""
        size = batch.size_of(key, op)
        if size > BATCH_BYTES_MAX:
            raise LimitError(f"an operation has at most {BATCH_BYTES_MAX} bytes")
        stamp = self._open or self._begin_batch()
        if self._is_solo and code == REGISTER and op[0] == SET:
            self.keyspace.write(key, op[1])
        else:
            self.keyspace.apply(key, code, op, stamp)
        if self.followers:
            self.followers.tell(key, code, op, stamp)
        items, last = self._items, self._last
        place = (key, code)
        at = last.get(place)
        if at is not None:
            merged = class_of(code).merge(items[at], op)
            if merged is not None:
                # In the place of the other, or one with it: the key is there already.
                size -= batch.size_of(key, items[at] if merged is op else ())
                items[at] = merged
                self._grow(size)
                return
        items += (key, code, op)
        last[place] = len(items) - 1
        self._grow(size)

    def remove(self, key: Element) -> None:
        """Undo what is there under a key."""
        for code in self.keyspace.codes(key):
            if class_of(code).NAME in UNREMOVABLE:
                raise LocalProtocolError(f"a {class_of(code).NAME} cannot be removed")
        self._update_keys(key, _REMOVE_OP)

    def clear(self) -> None:
        """Undo what is there under all keys, except for objects that cannot be removed."""
        self._update_keys(b"", _CLEAR_OP)

    def _update_keys(self, key: Element, op: Op) -> None:
        stamp = self._open or self._begin_batch()
        self.keyspace.apply(key, KEYS, op, stamp)
        if self.followers:
            self.followers.tell(key, KEYS, op, stamp)
        self._items += (key, KEYS, op)
        self._last.clear()  # nothing is merged with what was before
        self._grow(batch.size_of(key, op))

    def publish(self, channel: bytes, message: bytes) -> None:
        """Tell the hearers of all members, this one included, in causal order."""
        if self._open is None:
            self._begin_batch()
        self._items += (channel, KEYS, (PUBLISH, message))
        self._grow(batch.size_of(channel, (PUBLISH, message)))
        self._hear(channel, message)

    def hear(self, hearer: Hear) -> None:
        """Call this with channel and message of everything that is published."""
        self._hearers.append(hearer)

    def _hear(self, channel: bytes, message: bytes) -> None:
        for hearer in self._hearers:
            hearer(channel, message)

    def begin_whole(self) -> None:
        """What is done until ``end_whole`` stays in one batch, up to 128 MiB; it nests."""
        self._whole += 1

    def end_whole(self) -> bool:
        """The end of that.  Whether it did stay whole: not if deliveries were taken meanwhile."""
        self._whole -= 1
        self._grow(0)
        if self._open is not None:
            self._runtime.turn()
        torn, self._is_torn = self._is_torn, self._is_torn and self._whole > 0
        return not torn

    def _begin_batch(self) -> TagStamp:
        if not self.is_attached:
            raise LocalProtocolError("this replica has no group: attach it to one that is started")
        stamp = TagStamp(self._driver.name, 0, time.time_ns() // 1_000_000, is_own=True)
        self._open = self.latest = stamp
        self._is_solo = self.is_alone
        self._is_written = not self._driver.is_journaled
        self._runtime.turn()
        return stamp

    def _grow(self, size: int) -> None:
        self.size += size
        if self.size >= BATCH_BYTES_MAX or self.splits:
            self.send_large()

    def send_large(self) -> None:
        """Send a batch that is large by now, unless it has to stay whole and is not too large."""
        if self.size >= BATCH_BYTES_SOON and (not self._whole or self.size >= BATCH_BYTES_MAX):
            self._send_batch()

    def flush(self) -> None:
        """Send what was done since the last time, if anything was and it need not stay whole."""
        if self._open is not None and not self._whole:
            self._send_batch()

    def _end_batch(self) -> None:
        # Before what comes, whole or not: the tag of a batch says what it has seen.
        if self._open is not None:
            self._is_torn = self._whole > 0
            self._send_batch()

    def _send_batch(self) -> None:
        stamp = self._open
        if stamp is None:
            return
        if not batch.asks_clock(self._items):
            stamp.clock_ms = 0
        payloads = batch.encode(stamp.clock_ms, self._items, PAYLOAD_BYTES_MAX)
        self._prepare_batch()
        tag = self._send(payloads)
        if tag is not None:
            stamp.tag = tag
            stamp.seq = tag.seq
            self._stamps[tag.packed] = stamp
            self.counts["sent"] += 1
            try:
                self._driver.commit_large(self._runtime.now)
            except ThenceError as error:
                self.failure = self.failure or str(error)

    def _send(self, payloads: Sequence[bytes]) -> Any:
        """The tag of the last of these messages; None if they cannot be sent."""
        try:
            tags = self._driver.broadcast_many(payloads, self._runtime.now, overdraw=True)
        except ThenceError as error:  # the journal broke, or the others have evicted this node
            self.failure = self.failure or str(error)
            return None
        self._seen[self._driver.name] = tags[-1].seq
        self._runtime.turn()
        return tags[-1]

    # ---- what others did -------------------------------------------------------------------------

    def _deliver(self, tags: Sequence[Any]) -> None:
        if self.failure:
            return  # something here may never be sent, and has no place among what comes
        try:
            for tag in tags:
                self.delivered(tag)
        except Exception as error:
            self._fail(error)
            raise

    def _fail(self, error: Exception) -> None:
        # A bug: better to take no more writes than to go on with a copy that differs.
        self.failure = self.failure or f"unexpected {type(error).__name__}: {error}"

    def delivered(self, tag: Any) -> None:
        """A message of another member was taken (``Kept``, too)."""
        made = self._take(tag)
        if isinstance(made, batch.Batch):
            self._carry_out(made, tag)
        elif made is None:
            if self.is_attached:
                self.group.phantom()
        elif made:
            self.counts["ignored"] += 1

    def _take(self, tag: Any) -> batch.Batch | str | None:
        """What a message makes complete; None asks for an answer, a text says why it is ignored."""
        if tag.packed >> SEQ_BITS >= STREAM_BASE or (tag.aside is not None and tag.aside.to):
            return "never stable, or not for everyone: no batch for anyone"
        node = tag.past.node_of(tag.packed)
        self._seen[node] = tag.seq
        made = batch.decode(tag.payload)
        return batch.joined(self._pieces, node, made) if isinstance(made, batch.Piece) else made

    def _carry_out(self, made: batch.Batch, tag: Any, is_own: bool = False) -> None:
        node = tag.past.node_of(tag.packed)
        stamp = TagStamp(node, tag.seq, made.clock_ms, tag, is_own=is_own)
        self._stamps[tag.packed] = stamp
        items = made.items
        apply = self.keyspace.apply
        heard = []
        for at in range(0, len(items), 3):
            key, code, op = items[at], items[at + 1], items[at + 2]
            if code == KEYS and op[0] == PUBLISH:
                heard.append((key, op[1]))
            else:
                apply(key, code, op, stamp)
                if self.followers:
                    self.followers.tell(key, code, op, stamp)
        if not self.is_attached:
            return  # told again after a crash: this was published before
        self.counts["applied"] += 1
        for channel, message in heard:
            if type(channel) is bytes:
                self._hear(channel, message)

    def _stable(self, tags: Iterable[Any]) -> None:
        stamps = [self._stamps.pop(tag.packed, None) for tag in tags]
        found: set[Stamp] = {stamp for stamp in stamps if stamp is not None}
        try:
            if found:
                self.keyspace.stabilise(found)
                self.followers.stabilise(found)
        except Exception as error:
            self._fail(error)
            raise

    def _event(self, event: Any) -> None:
        if isinstance(event, Evicted) and event.is_self:
            self.failure = f"{event.member} was evicted from the group: it has to join again"
        if isinstance(event, Evicted | Left):
            self._pieces.pop(event.member, None)  # the last one never comes
        if self.on_event is not None:
            self.on_event(event)
            self.flush()  # what was done about it is before what comes next

    # ---- the end of a turn -----------------------------------------------------------------------

    @property
    def is_written(self) -> bool:
        """Whether everything that was done here is written down; always so without a journal."""
        return self._is_written

    def on_commit(self, callback: Committed) -> None:
        """Call this once when it is; with a text if it never will be."""
        if not self._committed and self._driver.is_journaled:
            self._runtime.committed()  # a busy node may put off the end of a turn
        self._committed.append(callback)
        self._runtime.turn()

    def each_turn(self, hook: Callable[[], None]) -> None:
        """Call this at the end of every turn, after deliveries were taken."""
        self._each_turn.append(hook)

    def _end_of_turn(self) -> None:
        self.failure = self.failure or self._driver.failed
        if self._open is None or self.failure:
            self._is_written = not self.failure
            if self._committed:
                self._tell_committed(self.failure or None)
        for hook in self._each_turn:
            hook()

    def _tell_committed(self, failure: str | None) -> None:
        callbacks, self._committed = self._committed, []
        for callback in callbacks:
            callback(failure)

    # ---- what was seen ---------------------------------------------------------------------------

    def seen(self) -> dict[str, int]:
        """By member, the number of its last message that took effect here, with everything that was
        done here."""
        self.flush()
        return dict(self._seen)

    def has_seen(self, other: dict[str, int]) -> bool:
        """Whether all of that took effect here."""
        seen = self._seen
        return all(seen.get(node, 0) >= number for node, number in other.items())

    @property
    def unstable(self) -> int:
        """Batches that are not stable yet."""
        return len(self._stamps)

    def ask(self) -> None:
        """Have the others say at once what they have; without room they are not asked."""
        self.flush()
        if self.group.has_room:
            self._send([batch.ASKING])

    # ---- state, for newcomers and for the journal (``Kept``) -------------------------------------

    def snapshot(self) -> Iterator[bytes]:
        """The state of this moment, in chunks; it may go on changing while they are drawn."""
        self._end_batch()
        made = self._rows.export(self._meta())
        if self._before not in self.watchers:
            self.watchers.add(self._before)
        return made

    def _before(self, key: Element, code: int, op: Op | None) -> None:
        if self._rows.is_exporting:
            self._rows.before(key, code, op)
        else:
            self.watchers.remove(self._before)

    def _meta(self) -> Meta:
        return Meta(seen=self._seen, pieces=self._pieces)

    def restore(self, chunks: Iterator[bytes]) -> None:
        """Take over the state of another; ``begin`` comes after it, and ``attach``."""
        self.detach()  # the group that it had is over
        self.keyspace.forget_everything()
        self._rows.forget()
        self._stamps.clear()
        self._pieces.clear()
        self._seen.clear()
        self._prepare_batch()
        self.latest = None
        self.failure = ""
        self.keyspace.dirty = None
        self._restored = Placeholders()
        self._load((row for chunk in chunks for row in rows_of(chunk)), self._restored)

    def _load(self, rows: Iterable[tuple[bytes, bytes]], placeholders: Placeholders) -> None:
        for key, value in rows:
            if key == META_KEY:
                meta = meta_of(value)
                self._seen.update(meta.seen)
                self._pieces.update(meta.pieces)
            else:
                self._rows.load(key, value, placeholders.stamp_of)
        self._rows.loaded()

    def begin(self, find: Find, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """What was there before: rows of the journal, or what was restored."""
        placeholders, self._restored = self._restored, None
        is_handed = placeholders is not None
        if placeholders is None:
            placeholders = Placeholders()
            self._load(rows, placeholders)
        stable = placeholders.resolve(find, self._stamps)
        self.keyspace.dirty = dict.fromkeys(self.keyspace.kept()) if is_handed else {}
        self.keyspace.stabilise(stable)
        self._is_begun = True

    def sent(self, tag: Any) -> None:
        """Told again after a crash: this was done here, after everything told so far."""
        made = self._take(tag)
        if isinstance(made, batch.Batch):
            self._carry_out(made, tag, is_own=True)

    def stable(self, tag: Any) -> None:
        """Told again after a crash: this is stable."""
        self._stable([tag])

    @property
    def is_settled(self) -> bool:
        """Whether nothing was done here that is not sent."""
        return self._open is None and not self.failure

    def rows(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys that changed since the last time."""
        yield META_KEY, self._meta().encode()
        yield from self._rows.changed()


def _nothing(node: str, seq: int) -> None:
    """There are no tags yet."""
