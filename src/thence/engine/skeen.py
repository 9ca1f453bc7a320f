"""``skeen``: recipients propose times, the greatest is final (Garg, 003, 12.3.3).

Theory of operation
    A message goes to those it is for.  Each puts it into its queue with a time of its own logical
    clock, later than all it knows, and proposes that to the sender.  The greatest of the proposals,
    the sender's own included, is the final time, which the sender tells all recipients.  A message
    is delivered when its time is final and the first in the queue, by time, slot and number: a
    final time is never earlier than the proposal that held the place.  3 messages per recipient,
    and nothing to others.

    Everyone keeps the final times of delivered messages until all recipients are known to have
    delivered them, in case the sender crashes before it has told all.  Proposals carry how far
    their sender has delivered messages of the one who gets them; messages carry up to where
    everybody has.  Of what is long ago and not known to be delivered a sender asks
    (``ACK_MESSAGES``).

    Nobody has more messages under way to a peer than that lets wait: final times come behind the
    messages that wait for them.  Proposals say how many these are; who has to wait asks too.

    When a member crashes, survivors tell each other what is in their queues or kept, as far as it
    is for the other.  Messages whose final time nobody knows get one that is later than all clocks.
    Everything is delivered, by time, and the next epoch begins with empty queues.

Invariants
    A node's clock is not behind the time of anything that it has delivered or proposed.
    ``open[j]`` are the messages of j in the queue, in the order of sending.

Guarantee
    Total, and no more: of two messages of one sender the first may get the later time, if it is
    also for somebody whose clock is ahead.  Survivors agree; what only crashed nodes had delivered
    may come in another order, or, if its sender crashed, not at all.

Differences from the source
    Ties are broken by slot and number.  Links need not be FIFO: messages between two members are
    numbered (engine/total.py).  The source does not survive crashes.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import ClassVar

import msgspec

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.plain import PlainTag
from thence.engine.reject import BAD_SEQ, Reject
from thence.engine.total import REPORT, TOLD, Report, TotalClient, TotalEngine
from thence.message import Control, Stamped

MESSAGE = 1
"""Role of a Stamped: its sender's time, and up to where all its messages are delivered."""
PROPOSAL = 1
"""Kind of Control: number of a message, the time proposed, how far its sender's are delivered, and
how many of them may wait here."""
FINAL = 2
"""Kind of Control: number of a message of its sender, and its final time."""
ASK = 3
"""Kind of Control: how far are messages of its sender delivered?"""
HEARD = 4
"""Kind of Control: so far."""


class Entry(msgspec.Struct):
    """A message and its time."""

    tag: PlainTag
    time: int
    is_final: bool = False
    missing: set[int] | None = None
    """Of an own message: whose proposals are missing."""


class SkeenEngine(TotalEngine):
    """The middleware."""

    ROLES: ClassVar[dict[int, int]] = {MESSAGE: 2, TOLD: 1}
    KINDS: ClassVar[dict[int, int]] = {PROPOSAL: 4, FINAL: 2, ASK: 0, HEARD: 1}

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        size = len(members.names)
        self._queue: list[tuple[int, int]] = []
        """A heap of times and packed dots; a message is in it with its proposal and its time."""
        self._entries: dict[int, Entry] = {}
        """By packed dot, what is not delivered."""
        self._open: list[dict[int, None]] = [{} for _ in range(size)]
        self._came = [0] * size
        """By origin, own slot included, the last message that was put into the queue."""
        self._kept: list[dict[int, Entry]] = [{} for _ in range(size)]
        """By origin and number, what is delivered here and perhaps not everywhere."""
        self._unknown: dict[int, set[int]] = {}
        """By own number, who is not known to have delivered it."""
        self._owed: list[deque[int]] = [deque() for _ in range(size)]
        """By peer, the own numbers that it is not known to have delivered."""
        self._gone_by = [0] * size
        """By origin, up to where all is known to be delivered everywhere, and nothing is kept."""
        self._asking: set[int] = set()
        """Whom this node has asked."""
        self._asked: set[int] = set()
        """Who has asked this node, and gets an answer when nothing of it is open."""
        self._first: dict[int, Entry] = {}
        """By packed dot, what began this epoch, until everyone is known to have begun it."""
        self._silent: set[int] = set()
        """Who is not."""

    # In the usual case.

    @property
    def _last_out(self) -> int:
        return self._came[self._slot]

    def _go(self, out: Effects) -> None:
        me = self._slot
        self._deliver_first(out)
        while self._came[me] < self._seq and len(self._unknown) < self._limit:
            tag = self._mine[self._came[me] + 1]
            to = self._recipients(tag)
            full = [peer for peer in to if len(self._owed[peer]) >= self._room(peer)]
            if full:
                self._ask([peer for peer in full if self._rooms[peer]], out)
                break
            self._time += 1
            entry = Entry(tag, self._time, missing=set(to))
            self._enqueue(entry)
            self._unknown[tag.seq] = set(to)
            for peer in to:
                self._owed[peer].append(tag.seq)
            if to:
                self._stamped(to, MESSAGE, tag, (self._time, self._done()), out)
            else:
                self._finish(entry)
                self._deliver_first(out)
        if self._came[me] - self._done() >= self._ack_every:
            self._ask(sorted(next(iter(self._unknown.values()))), out)

    def _ask(self, peers: list[int], out: Effects) -> None:
        """How far have they delivered?  Those who were asked and have not answered, only once."""
        for peer in peers:
            if peer not in self._asking:
                self._asking.add(peer)
                self._control([peer], ASK, (), out)

    def _recipients(self, tag: PlainTag) -> list[int]:
        """Who is there and gets it, beside its sender."""
        return [
            peer for peer in self._others if peer != tag.origin and (not tag.to or peer in tag.to)
        ]

    def _done(self) -> int:
        """Own messages up to here are delivered by all they were for."""
        return next(iter(self._unknown)) - 1 if self._unknown else self._came[self._slot]

    def _enqueue(self, entry: Entry) -> None:
        tag = entry.tag
        dot = pack(tag.origin, tag.seq)
        heappush(self._queue, (entry.time, dot))
        self._entries[dot] = entry
        self._open[tag.origin][tag.seq] = None
        self._came[tag.origin] = tag.seq

    def _finish(self, entry: Entry, time: int = 0) -> None:
        """Its time is known."""
        entry.is_final = True
        entry.time = max(entry.time, time)
        self._time = max(self._time, entry.time)
        heappush(self._queue, (entry.time, pack(entry.tag.origin, entry.tag.seq)))

    def _deliver_first(self, out: Effects) -> None:
        while self._queue:
            time, dot = self._queue[0]
            entry = self._entries.get(dot)
            if entry is not None and entry.time == time:
                if not entry.is_final:
                    break
                del self._entries[dot]
                self._deliver(entry, out)
            heappop(self._queue)  # or it was proposed, or is delivered
        for peer in sorted(self._asked):
            if not self._open[peer]:
                self._asked.discard(peer)
                self._control([peer], HEARD, (self._came[peer],), out)

    def _deliver(self, entry: Entry, out: Effects) -> None:
        tag = entry.tag
        self._open[tag.origin].pop(tag.seq, None)
        if tag.origin == self._slot:
            del self._mine[tag.seq]
            if not self._unknown.get(tag.seq):
                self._unknown.pop(tag.seq, None)
        self._kept[tag.origin][tag.seq] = entry
        out.deliver.append(tag)
        self._forget(self._slot, self._done())

    def _forget(self, origin: int, done: int) -> None:
        """Messages of this origin up to ``done`` are delivered everywhere."""
        kept, last = self._kept[origin], self._gone_by[origin]
        self._gone_by[origin] = max(last, done)
        if done - last <= len(kept):
            for seq in range(last + 1, done + 1):
                kept.pop(seq, None)
        else:
            self._kept[origin] = {seq: entry for seq, entry in kept.items() if seq > done}

    def _know(self, peer: int, upto: int) -> None:
        """A peer has delivered what it got of this node up to there."""
        owed = self._owed[peer]
        while owed and owed[0] <= upto:
            seq = owed.popleft()
            unknown = self._unknown[seq]
            unknown.discard(peer)
            if not unknown and seq not in self._mine:
                del self._unknown[seq]
        self._forget(self._slot, self._done())

    def _upto(self, peer: int) -> int:
        """Messages of this peer up to there that are for this node are delivered here."""
        opened = self._open[peer]
        return next(iter(opened)) - 1 if opened else self._came[peer]

    def _is_full(self, peer: int, message: Stamped | Control) -> bool:
        """It has sent more than it was told that may wait."""
        is_new = isinstance(message, Stamped) and message.stamp[2] == MESSAGE
        return is_new and len(self._open[peer]) >= self._limit

    def _times_in(self, message: Stamped | Control) -> tuple[int, ...]:
        if isinstance(message, Control) and message.kind == REPORT:
            first = 3 + message.stamp[2]
            return message.stamp[first : first + 1] + message.stamp[first + 2 :: 2]
        if isinstance(message, Stamped) or message.kind in (PROPOSAL, FINAL):
            return message.stamp[3:4]
        return ()

    def _take(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        self._silent.discard(peer)
        if not self._silent:
            self._first.clear()
        if isinstance(message, Stamped):
            self._take_message(peer, message, out)
        elif message.kind == PROPOSAL:
            self._take_proposal(peer, message, out)
        elif message.kind == FINAL:
            self._take_final(peer, message, out)
        elif message.kind == ASK:
            self._asked.add(peer)
            self._deliver_first(out)
        else:
            self._asking.discard(peer)
            self._know(peer, message.stamp[2])
            self._go(out)

    def _take_message(self, peer: int, message: Stamped, out: Effects) -> None:
        seq, (time, done) = message.seq, message.stamp[3:]
        if message.origin != peer or seq <= self._came[peer] or done >= seq:
            detail = f"message {seq} of slot {message.origin} is no next one of slot {peer}"
            out.reject.append(Reject(peer, BAD_SEQ, detail))
            return
        self._time = max(self._time, time) + 1
        self._enqueue(Entry(PlainTag(peer, seq, message.payload, message.to), self._time))
        self._forget(peer, done)
        numbers = (seq, self._time, self._upto(peer), self._my_room)
        self._control([peer], PROPOSAL, numbers, out)

    def _take_proposal(self, peer: int, message: Control, out: Effects) -> None:
        seq, time, upto, room = message.stamp[2:]
        entry = self._entries.get(pack(self._slot, seq)) if seq <= self._seq else None
        if entry is None or not entry.missing or peer not in entry.missing:
            out.reject.append(Reject(peer, BAD_SEQ, f"own message {seq} awaits no such proposal"))
            return
        self._know(peer, upto)
        self._hear_room(peer, room)
        entry.missing.discard(peer)
        self._raise(entry, time)
        if not entry.missing:
            self._finish(entry)
            self._control(self._recipients(entry.tag), FINAL, (seq, entry.time), out)
        self._go(out)

    def _raise(self, entry: Entry, time: int) -> None:
        """An own message will not be earlier than this."""
        if time > entry.time:
            entry.time = time
            heappush(self._queue, (time, pack(entry.tag.origin, entry.tag.seq)))

    def _take_final(self, peer: int, message: Control, out: Effects) -> None:
        seq, time = message.stamp[2:]
        entry = self._entries.get(pack(peer, seq)) if seq in self._open[peer] else None
        if entry is None or entry.is_final or time < entry.time:
            out.reject.append(Reject(peer, BAD_SEQ, f"message {seq} of slot {peer} awaits no time"))
            return
        self._finish(entry, time)
        self._go(out)

    # Crashes.

    def _is_report(self, numbers: tuple[int, ...]) -> bool:
        return len(numbers) % 2 == 1  # the clock, and number and time of messages

    def _left(self) -> dict[int, Entry]:
        """What others may lack, by packed dot."""
        kept = {
            pack(origin, seq): entry
            for origin, entries in enumerate(self._kept)
            for seq, entry in entries.items()
        }
        return self._first | kept | self._entries

    def _tell(self, peer: int, out: Effects) -> tuple[int, ...]:
        numbers = [self._time]
        for _, entry in sorted(self._left().items()):
            tag, time = entry.tag, entry.time if entry.is_final else 0
            if tag.origin == peer:
                numbers += [tag.seq, time] if time else []
            elif peer in self._recipients(tag):
                self._stamped([peer], TOLD, tag, (time,), out)
        return tuple(numbers)

    def _begin(self, reports: dict[int, Report], out: Effects) -> None:
        left = {
            dot: Entry(entry.tag, entry.time if entry.is_final else 0)
            for dot, entry in self._left().items()
        }
        open_here, came = set(self._entries), list(self._came)
        for report in reports.values():
            self._learn(report, left)
        self._time = max([self._time, *(report.numbers[0] for report in reports.values())]) + 1
        self._queue.clear()
        self._entries.clear()
        self._unknown.clear()
        for owed in self._owed:
            owed.clear()
        self._asking.clear()
        self._asked.clear()
        for opened in self._open:
            opened.clear()
        for entry in left.values():
            entry.time, entry.is_final = entry.time or self._time, True
            origin = entry.tag.origin
            self._came[origin] = max(self._came[origin], entry.tag.seq)
        for dot, entry in sorted(left.items(), key=lambda item: (item[1].time, item[0])):
            if dot in open_here or entry.tag.seq > came[entry.tag.origin]:
                self._deliver(entry, out)
        for kept in self._kept:
            kept.clear()
        self._first, self._silent = left if self._others else {}, set(self._others)

    def _learn(self, report: Report, left: dict[int, Entry]) -> None:
        for message in report.messages:
            tag = PlainTag(message.origin, message.seq, message.payload, message.to)
            entry = left.setdefault(pack(tag.origin, tag.seq), Entry(tag, 0))
            entry.time = entry.time or message.stamp[3]
        for seq, time in zip(report.numbers[1::2], report.numbers[2::2], strict=True):
            dot = pack(self._slot, seq) if seq <= self._seq else 0
            if dot in left:
                left[dot].time = left[dot].time or time

    def words(self) -> int:
        """Also two numbers per member, what is queued or kept, and who is awaited."""
        kept = len(self._queue) + len(self._first) + sum(map(len, self._kept))
        known = sum(1 + 2 * len(unknown) for unknown in self._unknown.values())
        missing = sum(len(entry.missing or ()) for entry in self._entries.values())
        asked = len(self._asking) + len(self._asked) + len(self._silent)
        return super().words() + 2 * len(self._came) + 3 * kept + known + missing + asked


def make(members: Members, slot: int, options: EngineOptions) -> tuple[TotalClient, SkeenEngine]:
    """Both processes of one node."""
    engine = SkeenEngine(members, slot, options)
    return TotalClient(members, slot, engine, some=True), engine


SPEC = EngineSpec(
    name="skeen",
    summary="recipients propose times, the greatest counts: one order for messages to some members",
    guarantee="total",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
    relays=True,
    own=True,
    survives=True,
)
