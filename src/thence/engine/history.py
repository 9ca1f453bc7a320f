"""``history``: a message carries the names of the messages before it (Dewan's slides 12 and 13).

Theory of operation
    The stamp of a message lists dots that happened before it, each with the members that it is for
    and that may lack it.  Who gets the message holds it back until it has taken those of them that
    are for it.  The slides say that a history can get large and needs compression.  Left out are:

    - a recipient that is known to have taken a message, from that message's entry;
    - a recipient of a later message that comes after it: it waits for that one, which waits for
      this one.  So of each sender only the last message to each recipient is listed, and a dot
      stands for all before it; after a message to everyone nothing else is;
    - an entry without recipients.

    While all messages are for everyone the stamp is the set of immediate predecessors.  In general
    it has at most one entry for each pair of members.

Stamp
    For each dot, sorted: the packed dot; twice the number of slots that follow, plus one if they
    are those it is *not* waited for by; slots.  Neither its origin nor the sender of the stamp are
    among those that may lack it.

Invariants
    ``last[j]`` is the number of the last message of j that was handed over here; all those of j for
    this node up to it were.  A recipient that is not listed for a dot of this node's past has taken
    it, or waits for another listed one that comes after it.  Between steps every held message waits
    for a listed dot that is not here.

Concurrent messages
    With ``concurrent`` other than ``deliver`` messages are for everyone, and entries stay until a
    later message names them, so that the listed dots are exactly the latest ones: a message is
    concurrent with something here if it does not name all those of this node.  Exact.

Differences from the slides
    A history there is everything sent and received; the compaction is ours, in the way of
    Kshemkalyani and Singhal.  The middleware stamps with what it has handed over, which may be a
    little more than the application has taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import pack, seq_of, slot_of
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.branches import BRANCH, CONCURRENT, REFUSED, Branches
from thence.engine.effects import Effects
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import (
    BAD_CONTEXT,
    DUPLICATE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.engine.vector_rules import is_member
from thence.errors import LocalProtocolError
from thence.message import Directed, Phantom, Stamped, WireMessage

Entries = dict[int, int]
"""By packed dot, who may lack it: a bit per slot."""


class _Held:
    """A message that waits, what it comes after, and how far that is here."""

    __slots__ = ("at", "before", "message", "needs")

    def __init__(self, message: Stamped, before: Entries, slot: int) -> None:
        self.message = message
        self.before = before
        self.needs = [dot for dot, lacking in before.items() if lacking >> slot & 1]
        self.at = 0


class HistoryEngine:
    """The middleware."""

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._me = 1 << slot
        self._pending_max = options.pending_per_origin_max
        self._concurrent = options.concurrent
        self._seq = 0
        self._last = [0] * len(members.names)
        self._past: Entries = {}
        self._held: list[dict[int, _Held]] = [{} for _ in members.names]
        """By origin and number."""
        self._watch: dict[int, list[_Held]] = {}
        """By the dot that they wait for."""
        self._branches = Branches()

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Send it with the history so far."""
        if tag.origin != self._slot or tag.seq != self._seq + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        self._seq += 1
        to = self._recipients(self._slot, tag.to)
        stamp = _write(self._past, self._members.mask, self._slot)
        message = Stamped(self._slot, tag.seq, stamp, tag.payload, tag.to)
        out.send.append(Directed(tag.to, message) if tag.to else message)
        dot = pack(self._slot, tag.seq)
        self._past = {each: lacking & ~to for each, lacking in self._past.items() if lacking & ~to}
        self._past[dot] = to
        if self._concurrent == "branch":
            tag.branch = self._branches.send(dot)

    def _recipients(self, origin: int, to: tuple[int, ...]) -> int:
        return sum(1 << slot for slot in to) or self._members.mask & ~(1 << origin)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the history engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand it over if everything it names is here, and what waited for it."""
        if not isinstance(message, Stamped):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with a history"))
            return
        refused = refusal(peer, message, self._members, self._slot, -1)
        refused = refused or self._fault(peer, message)
        if refused is not None:
            out.reject.append(refused)
            return
        before = _read(message.stamp, self._members, message.origin)
        if before is None or any(
            slot_of(dot) == message.origin and seq_of(dot) >= message.seq for dot in before
        ):
            out.reject.append(Reject(peer, BAD_CONTEXT, "not a history"))
            return
        if any(slot_of(dot) == self._slot and seq_of(dot) > self._seq for dot in before):
            detail = f"names a message after {self._seq} of this node"
            out.reject.append(Reject(peer, UNSENT_OWN_DOT, detail))
            return
        held = _Held(message, before, self._slot)
        if self._is_ready(held):
            self._hand_over(held, out)
        elif len(self._held[message.origin]) >= self._pending_max:
            detail = f"{self._pending_max} messages of slot {message.origin} are held back"
            out.reject.append(Reject(peer, TOO_FAR_AHEAD, detail, True))
        else:
            self._held[message.origin][message.seq] = held
            self._watch.setdefault(held.needs[held.at], []).append(held)

    def _fault(self, peer: int, message: Stamped) -> Reject | None:
        origin, seq = message.origin, message.seq
        if seq <= self._last[origin] or seq in self._held[origin]:
            return Reject(peer, DUPLICATE, f"message {seq} of slot {origin} is here")
        if message.to and self._concurrent != "deliver":
            return Reject(peer, BAD_CONTEXT, "this node takes messages for everyone")
        return None

    def _is_ready(self, held: _Held) -> bool:
        """Go on along its history as far as that is here."""
        needs, last = held.needs, self._last
        while held.at < len(needs):
            dot = needs[held.at]
            if last[slot_of(dot)] < seq_of(dot):
                return False
            held.at += 1
        return True

    def _hand_over(self, first: _Held, out: Effects) -> None:
        ready = [first]
        for held in ready:  # it grows
            message = held.message
            dot = pack(message.origin, message.seq)
            self._last[message.origin] = max(self._last[message.origin], message.seq)
            self._held[message.origin].pop(message.seq, None)
            out.deliver.append(self._take(dot, message, held.before))
            for waiter in self._watch.pop(dot, ()):
                if self._is_ready(waiter):
                    ready.append(waiter)
                else:
                    self._watch.setdefault(waiter.needs[waiter.at], []).append(waiter)

    def _take(self, dot: int, message: Stamped, before: Entries) -> PlainTag:
        """It is part of the past from here on; the tag."""
        tag = PlainTag(message.origin, message.seq, message.payload, message.to)
        past = self._past
        if self._concurrent == "refuse" and past.keys() != before.keys():
            tag.flag = REFUSED
            return tag
        if self._concurrent == "flag" and not past.keys() <= before.keys():
            tag.flag = CONCURRENT
        elif self._concurrent == "branch":
            tag.branch, beside = self._branches.take(dot, before)
            tag.flag = BRANCH if beside else ""
        to = self._recipients(message.origin, message.to)
        for each, lacking in before.items():
            # Whoever gets this message waits for it, and it waits for what is before it.
            left = lacking & ~to & past.get(each, -1)
            if left:
                past[each] = left
            else:
                past.pop(each, None)
        left = to & ~self._me
        if left or self._concurrent != "deliver":
            past[dot] = left
        self._past = _latest(past) if self._concurrent == "deliver" else past
        return tag

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    def waiting(self) -> list[Waiting]:
        """What is held back, and a message that is missing."""
        return [
            Waiting(pack(origin, seq), each.needs[each.at])
            for origin, held in enumerate(self._held)
            for seq, each in sorted(held.items())
        ]

    def words(self) -> int:
        """A count per member, two words for each entry of the past and of each held message."""
        entries = len(self._past)
        for held in self._held:
            entries += sum(1 + len(each.before) for each in held.values())
        return len(self._last) + 2 * entries


def _latest(past: Entries) -> Entries:
    """Without those recipients of a message that a later one of its sender is for too."""
    found: Entries = {}
    origin, seen = -1, 0
    for dot in sorted(past, reverse=True):
        if slot_of(dot) != origin:
            origin, seen = slot_of(dot), 0
        left = past[dot] & ~seen
        seen |= past[dot]
        if left:
            found[dot] = left
    return found


def _write(past: Entries, everyone: int, sender: int) -> tuple[int, ...]:
    """The stamp of a history."""
    numbers: list[int] = []
    for dot in sorted(past):
        others = everyone & ~(1 << slot_of(dot) | 1 << sender)
        lacking = past[dot] & others
        listed, is_not = lacking, 0
        if (others & ~lacking).bit_count() < lacking.bit_count():
            listed, is_not = others & ~lacking, 1
        slots = [slot for slot in range(listed.bit_length()) if listed >> slot & 1]
        numbers += [dot, len(slots) << 1 | is_not, *slots]
    return tuple(numbers)


def _read(stamp: tuple[int, ...], members: Members, sender: int) -> Entries | None:
    """The history of a stamp; None if it is none."""
    found: Entries = {}
    at, previous = 0, 0
    while at < len(stamp):
        dot = stamp[at]
        if at + 1 == len(stamp) or dot <= previous or not is_member(slot_of(dot), members):
            return None
        end = at + 2 + (stamp[at + 1] >> 1)
        slots = stamp[at + 2 : end]
        if end > len(stamp) or not seq_of(dot) or not all(is_member(s, members) for s in slots):
            return None
        listed = 0
        for slot in slots:
            listed |= 1 << slot
        others = members.mask & ~(1 << slot_of(dot) | 1 << sender)
        found[dot] = others & ~listed if stamp[at + 1] & 1 else others & listed
        at, previous = end, dot
    return found


def make(members: Members, slot: int, options: EngineOptions) -> tuple[PlainClient, HistoryEngine]:
    """Both processes of one node."""
    some = options.concurrent == "deliver"
    return PlainClient(members, slot, some=some), HistoryEngine(members, slot, options)


SPEC = EngineSpec(
    name="history",
    summary="a message carries the names of the messages before it, compacted",
    guarantee="causal",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
)
