"""``lamport``: the order of Lamport's clocks (Garg, 003, 12.3.2).

Theory of operation
    A message goes to everyone with the time of its sender's logical clock, and into everyone's
    queue, sorted by time and slot; everyone acknowledges it to its sender.  Once all have, and it
    is the first in its sender's queue, the sender delivers it and releases it to all.  The others
    deliver what is released *and* first in their queues.  3(N - 1) messages per broadcast.

    Nobody has more messages under way than the one with the smallest limit lets wait: releases come
    behind the messages that wait for them.  Acknowledgements say what that limit is.

    When a member crashes, survivors tell each other their queues.  Everything in any of them is
    delivered by everyone, by time, and the next epoch begins with empty queues and clocks that are
    past all of it.

Invariants
    Who releases a message had delivered all earlier ones, and everyone had acknowledged these: so
    everyone has them, and nothing earlier comes.  Hence what one node has delivered, the others
    have at least in their queues, and ``delivered`` of an epoch need not be kept for recovery; only
    what began the epoch is, until something is delivered in it, which all have acknowledged.
    A time is greater than those of everything that happened before, hence the order is causal.

    The order is uniform: also what crashed nodes delivered is part of it, because a message's place
    is given when it is sent.

Differences from the source
    The source delivers on the notification alone, which breaks total order: a release may overtake
    that of an earlier message by another sender.  Acknowledgements carry no time: each is of one
    message.  Links need not be FIFO: messages between two members are numbered (engine/total.py).
    The source does not survive crashes.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import ClassVar

from thence.causal.dot import pack, slot_of
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.plain import PlainTag
from thence.engine.reject import BAD_SEQ, Reject
from thence.engine.total import TOLD, Report, TotalClient, TotalEngine
from thence.message import Control, Stamped

MESSAGE = 1
"""Role of a Stamped: its time."""
ACK = 1
"""Kind of Control: the number of a message of the one who gets it, and how many may wait here."""
RELEASE = 2
"""Kind of Control: the number of a message of its sender."""


class LamportEngine(TotalEngine):
    """The middleware."""

    ROLES: ClassVar[dict[int, int]] = {MESSAGE: 1, TOLD: 1}
    KINDS: ClassVar[dict[int, int]] = {ACK: 2, RELEASE: 1}

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        size = len(members.names)
        self._queue: list[tuple[int, int]] = []
        """A heap of times and packed dots."""
        self._tags: dict[int, PlainTag] = {}
        """By packed dot, what is in the queue."""
        self._missing: dict[int, set[int]] = {}
        """By own number, who has not acknowledged."""
        self._released = [0] * size
        """By origin, the last message that was released; releases come in the order of sending."""
        self._came = [0] * size
        """By origin, own slot included, the last message that was put into the queue."""
        self._times = [0] * size
        """By origin, the time of that."""
        self._placed = [0] * size
        """By origin, the last message that was delivered."""
        self._first: list[tuple[int, PlainTag]] = []
        """Times and messages that began this epoch, until everyone is known to have begun it."""

    @property
    def _last_out(self) -> int:
        return self._came[self._slot]

    def _go(self, out: Effects) -> None:
        me = self._slot
        self._deliver_first(out)
        window = min([self._limit, *map(self._room, self._others)])
        while self._came[me] < self._seq and len(self._missing) < window:
            self._time += 1
            tag = self._mine[self._came[me] + 1]
            self._enqueue(self._time, tag)
            self._missing[tag.seq] = set(self._others)
            if self._others:
                self._stamped(self._others, MESSAGE, tag, (self._time,), out)
            else:
                self._deliver_first(out)

    def _enqueue(self, time: int, tag: PlainTag) -> None:
        dot = pack(tag.origin, tag.seq)
        heappush(self._queue, (time, dot))
        self._tags[dot] = tag
        self._came[tag.origin], self._times[tag.origin] = tag.seq, time

    def _is_full(self, peer: int, message: Stamped | Control) -> bool:
        """Its messages wait for the release of an earlier one of somebody else.  They cannot be in
        the way of that: whose release is missing has released nothing that waits here.  Or it has
        sent more than it was told that may wait."""
        if not isinstance(message, Stamped) or message.stamp[2] != MESSAGE:
            return False
        released = self._released[peer]
        return released - self._placed[peer] >= self._limit or message.seq > released + self._limit

    def _times_in(self, message: Stamped | Control) -> tuple[int, ...]:
        return message.stamp[3:] if isinstance(message, Stamped) else ()

    def _deliver_first(self, out: Effects) -> None:
        """Release and deliver from the head of the queue as far as possible."""
        while self._queue:
            dot = self._queue[0][1]
            tag = self._tags[dot]
            if tag.origin == self._slot and not self._missing[tag.seq]:
                del self._missing[tag.seq]
                if self._others:
                    self._control(self._others, RELEASE, (tag.seq,), out)
            elif tag.seq > self._released[tag.origin]:
                return
            heappop(self._queue)
            del self._tags[dot]
            self._first.clear()  # everyone has acknowledged a message of this epoch
            self._deliver(tag, out)

    def _deliver(self, tag: PlainTag, out: Effects) -> None:
        self._placed[tag.origin] = tag.seq
        if tag.origin == self._slot:
            del self._mine[tag.seq]
        out.deliver.append(tag)

    def _take(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        if isinstance(message, Stamped):
            self._take_message(peer, message, out)
            return
        seq = message.stamp[2]
        if message.kind == ACK:
            if seq not in self._missing or peer not in self._missing[seq]:
                out.reject.append(Reject(peer, BAD_SEQ, f"own message {seq} awaits no such answer"))
                return
            self._missing[seq].discard(peer)
            self._hear_room(peer, message.stamp[3])
            self._go(out)
            return
        if not self._released[peer] < seq <= self._came[peer]:
            out.reject.append(Reject(peer, BAD_SEQ, f"message {seq} of slot {peer} is not queued"))
            return
        self._released[peer] = seq
        self._go(out)

    def _take_message(self, peer: int, message: Stamped, out: Effects) -> None:
        seq, time = message.seq, message.stamp[3]
        if message.origin != peer or seq != self._came[peer] + 1 or time <= self._times[peer]:
            detail = f"message {seq} of slot {message.origin} is not the next of slot {peer}"
            out.reject.append(Reject(peer, BAD_SEQ, detail))
            return
        self._time = max(self._time, time)
        self._enqueue(time, PlainTag(peer, seq, message.payload))
        self._control([peer], ACK, (seq, self._my_room), out)

    # Crashes.

    def _tell(self, peer: int, out: Effects) -> tuple[int, ...]:
        for time, tag in self._left():
            if tag.origin != peer:
                self._stamped([peer], TOLD, tag, (time,), out)
        return ()

    def _left(self) -> list[tuple[int, PlainTag]]:
        """What others may lack, own messages included."""
        return self._first + [(time, self._tags[dot]) for time, dot in sorted(self._queue)]

    def _begin(self, reports: dict[int, Report], out: Effects) -> None:
        left = {(time, pack(tag.origin, tag.seq)): tag for time, tag in self._left()}
        for report in reports.values():
            for message in report.messages:
                key = message.stamp[3], pack(message.origin, message.seq)
                left.setdefault(key, PlainTag(message.origin, message.seq, message.payload))
        self._queue.clear()
        self._tags.clear()
        self._missing.clear()
        self._first = []
        for (time, dot), tag in sorted(left.items(), key=lambda item: item[0]):
            origin = slot_of(dot)
            if tag.seq == self._placed[origin] + 1:
                self._deliver(tag, out)
            self._came[origin] = self._released[origin] = self._placed[origin]
            self._time = max(self._time, time)
            self._times[origin] = max(self._times[origin], time)
            self._first.append((time, tag))

    def words(self) -> int:
        """Also four numbers per member, and time and dot of what is queued or kept."""
        kept = 3 * (len(self._queue) + len(self._first))
        answers = sum(1 + len(missing) for missing in self._missing.values())
        return super().words() + 4 * len(self._came) + kept + answers


def make(members: Members, slot: int, options: EngineOptions) -> tuple[TotalClient, LamportEngine]:
    """Both processes of one node."""
    engine = LamportEngine(members, slot, options)
    return TotalClient(members, slot, engine, some=False), engine


SPEC = EngineSpec(
    name="lamport",
    summary="logical clocks, everyone acknowledges to the sender: one causal order, no coordinator",
    guarantee="causal-total",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
    relays=True,
    own=True,
    survives=True,
)
