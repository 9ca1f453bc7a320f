"""``piggyback``: a message brings along the messages before it (thesis 2.4.3.1, first generation).

Theory of operation
    Each node keeps the messages that it has sent or handed over, in that order, until every member
    is known to have them.  A message goes to each of the others in a bundle, after those of the
    kept messages that this one may lack.  Who gets a bundle hands over what is new in it, in its
    order: everything that came before is there, so nothing ever waits.  The price is in the bytes.

    What a member has it says itself: the stamp of a message counts, for each member, the messages
    of it that the sender has.  Who has read much and sent little says the same in a control message
    (kind 1): after 64 messages, when the idle timer finds it has not been said, and when it has to
    refuse something for the moment.

Stamp
    The last message of a bundle has a count for each slot, its own included.  Those that are
    brought along have none.

Invariants
    ``have[j]`` messages of j were handed over, the first so many; i is known to have the first
    ``known[i][j]``.  The kept messages are in an order that extends happens-before, and all those
    are among them that some member is not known to have.

Differences from the thesis
    It says neither how much of its past a message brings nor when that is forgotten; Birman and
    Joseph's protocol of 1987 does the same with acknowledgements of its own.  What would make a
    bundle larger than ``BUNDLE_BYTES_MAX`` goes ahead in bundles of its own: if links then turn
    those round, the later one is refused for the moment, and offered again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    DUPLICATE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.engine.vector_rules import is_member
from thence.errors import LimitError, LocalProtocolError
from thence.message import (
    BUNDLE_MESSAGES_MAX,
    Bundle,
    Control,
    Directed,
    Phantom,
    Stamped,
    WireMessage,
)

BUNDLE_BYTES_MAX: Final = 1 << 20
"""Payload bytes that are brought along in one bundle, unless one message alone has more."""
HAVE: Final = 1
"""The kind of control message that says what its sender has."""
UNSAID_MESSAGES_MAX: Final = 64
OWN_MESSAGES_MAX: Final = 65_536
"""Of this node, not known to be had by everyone.  Of each other a node keeps twice as many and what
one bundle brings on top of that: no sender that keeps to the limit comes near it, so that nobody
who is full waits for others who are."""


class PiggybackClient(PlainClient):
    """The application's side: it stops when too much is kept for those who do not say that they
    have it."""

    __slots__ = ("_engine",)

    def __init__(self, members: Members, slot: int, engine: PiggybackEngine) -> None:
        super().__init__(members, slot)
        self._engine = engine

    def broadcast(self, payload: bytes, to: Iterable[int] = ()) -> PlainTag:
        """Number a message; LimitError if members have to catch up first."""
        if self._seq - self._engine.had_by_all() >= OWN_MESSAGES_MAX:
            raise LimitError(f"{OWN_MESSAGES_MAX} messages are not known to be had by everyone")
        return super().broadcast(payload, to)


class PiggybackEngine:
    """The middleware."""

    def __init__(self, members: Members, slot: int) -> None:
        size = len(members.names)
        self._members = members
        self._slot = slot
        self._have = [0] * size
        self._known = [[0] * size for _ in range(size)]
        self._kept: list[Stamped] = []
        self._counts = [0] * size
        """Of the kept messages by origin."""
        self._clean_at = 16
        """How many messages are kept before those are looked for that everybody has."""
        self._unsaid = 0
        """Messages handed over since this node last said what it has."""

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Send it to each of the others with what that one may lack."""
        me = self._slot
        if tag.origin != me or tag.seq != self._have[me] + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {me}")
        self._have[me] += 1
        message = Stamped(me, tag.seq, tuple(self._have), tag.payload)
        others = [slot for slot in range(len(self._have)) if slot != me]
        groups: dict[tuple[int, ...], list[int]] = {}
        for slot in others:
            known = self._known[slot]
            lacks = tuple(at for at, kept in enumerate(self._kept) if kept.seq > known[kept.origin])
            groups.setdefault(lacks, []).append(slot)
        for places, slots in groups.items():
            for each in _bundles([self._kept[at] for at in places], message):
                out.send.append(each if slots == others else Directed(tuple(slots), each))
        self._keep(message)
        self._unsaid = 0

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the piggyback engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand over what is new."""
        refused: Reject | None = None
        if isinstance(message, Control):
            refused = self._control_fault(peer, message)
            if refused is None:
                self._learn(peer, message.stamp)
        elif isinstance(message, Stamped | Bundle):
            bundle = message.messages if isinstance(message, Bundle) else (message,)
            refused = self._fault(peer, bundle)
            if refused is None:
                if bundle[-1].stamp:  # true also if there is no room for the message
                    self._learn(peer, bundle[-1].stamp)
                refused = self._gap(peer, bundle)
            if refused is None:
                self._take(bundle, out)
        else:
            refused = Reject(peer, WRONG_KIND, "this engine takes bundles")
        if refused is not None:
            out.reject.append(refused)
            if refused.retry and self._unsaid:
                self._say(out)  # others may wait for that, and so may this node for them

    def _control_fault(self, peer: int, message: Control) -> Reject | None:
        if not is_member(peer, self._members) or message.origin != peer or peer == self._slot:
            return Reject(peer, BAD_CONTEXT, "a node says what it has itself")
        if message.kind != HAVE:
            return Reject(peer, WRONG_KIND, f"no control message has kind {message.kind}")
        return self._stamp_fault(peer, message.stamp)

    def _stamp_fault(self, peer: int, stamp: tuple[int, ...]) -> Reject | None:
        size = len(self._have)
        if not isinstance(stamp, tuple) or len(stamp) != size:
            return Reject(peer, BAD_CONTEXT, f"not {size} counts")
        if not all(isinstance(count, int) and count >= 0 for count in stamp):
            return Reject(peer, BAD_CONTEXT, "counts are from 0")
        if stamp[self._slot] > self._have[self._slot]:
            return Reject(peer, UNSENT_OWN_DOT, "counts messages that this node has not sent")
        return None

    def _fault(self, peer: int, bundle: Sequence[Stamped]) -> Reject | None:
        for message in bundle:
            refused = refusal(peer, message, self._members, self._slot, -1)
            if refused is not None:
                return refused
            if message.to:
                return Reject(peer, BAD_RECIPIENTS, "messages are for everyone")
            if message.stamp and message is not bundle[-1]:
                return Reject(peer, BAD_CONTEXT, "only the last of a bundle has a stamp")
        last = bundle[-1]
        if last.seq <= self._have[last.origin]:
            return Reject(peer, DUPLICATE, f"message {last.seq} of slot {last.origin} is here")
        if last.stamp:
            if last.origin != peer or last.stamp[last.origin : last.origin + 1] != (last.seq,):
                return Reject(peer, BAD_CONTEXT, "not the stamp of this message")
            return self._stamp_fault(peer, last.stamp)
        return None

    def _gap(self, peer: int, bundle: Sequence[Stamped]) -> Reject | None:
        """Whether something before it is not here, or there is no room to keep it."""
        have: dict[int, int] = {}
        for message in bundle:
            origin = message.origin
            before = have.get(origin, self._have[origin])
            if message.seq > before + 1:
                detail = f"message {message.seq} of slot {origin} after {before}"
                return Reject(peer, TOO_FAR_AHEAD, detail, True)
            have[origin] = max(before, message.seq)
        for origin, count in enumerate(bundle[-1].stamp):
            if count > have.get(origin, self._have[origin]):
                detail = f"message {count} of slot {origin} is not here"
                return Reject(peer, TOO_FAR_AHEAD, detail, True)
        most = 2 * OWN_MESSAGES_MAX
        full = [origin for origin in have if self._counts[origin] >= most]
        if full:
            self._forget()
            if any(self._counts[origin] >= most for origin in full):
                detail = f"{most} messages of a slot are not known to be had by all"
                return Reject(peer, TOO_FAR_AHEAD, detail, True)
        return None

    def _take(self, bundle: Sequence[Stamped], out: Effects) -> None:
        for message in bundle:
            origin, seq = message.origin, message.seq
            if seq <= self._have[origin]:
                continue
            self._have[origin] = seq
            self._known[origin][origin] = seq
            self._keep(message)
            self._unsaid += 1
            out.deliver.append(PlainTag(origin, seq, message.payload))
        if self._unsaid >= UNSAID_MESSAGES_MAX:
            self._say(out)

    def _keep(self, message: Stamped) -> None:
        self._kept.append(Stamped(message.origin, message.seq, (), message.payload))
        self._counts[message.origin] += 1
        if len(self._kept) >= self._clean_at:
            self._forget()

    def _learn(self, peer: int, stamp: Sequence[int]) -> None:
        self._known[peer] = list(map(max, self._known[peer], stamp))

    def _forget(self) -> None:
        """Keep no longer what every member is known to have."""
        me = self._slot
        rows = [self._known[slot] for slot in range(len(self._have)) if slot != me]
        least = list(map(min, *rows)) if len(rows) > 1 else (rows or [self._have])[0]
        self._kept = [kept for kept in self._kept if kept.seq > least[kept.origin]]
        self._counts = [0] * len(self._have)
        for kept in self._kept:
            self._counts[kept.origin] += 1
        self._clean_at = 2 * len(self._kept) + 16

    def _say(self, out: Effects) -> None:
        self._unsaid = 0
        out.send.append(Control(self._slot, HAVE, tuple(self._have)))

    def had_by_all(self) -> int:
        """So many messages of this node every member is known to have, the first ones."""
        me = self._slot
        rows = [row[me] for slot, row in enumerate(self._known) if slot != me]
        return min(rows, default=self._have[me])

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """Say what is here if that has not been said; forget what everybody has."""
        if self._kept:
            self._forget()
        if self._unsaid:
            self._say(out)

    def waiting(self) -> list[Waiting]:
        """Nothing ever waits."""
        return []

    def words(self) -> int:
        """A matrix of counts, one more row, and the dot of each kept message."""
        size = len(self._have)
        return size * (size + 1) + 2 * len(self._kept)


def _bundles(lacking: list[Stamped], message: Stamped) -> Iterator[Stamped | Bundle]:
    """The message with those before it; several if that is much."""
    part: list[Stamped] = []
    size = 0
    for each in lacking:
        if part and (
            size + len(each.payload) > BUNDLE_BYTES_MAX or len(part) + 1 >= BUNDLE_MESSAGES_MAX
        ):
            yield Bundle(tuple(part))
            part, size = [], 0
        part.append(each)
        size += len(each.payload)
    if part and size + len(message.payload) > BUNDLE_BYTES_MAX:
        yield Bundle(tuple(part))
        part = []
    yield Bundle((*part, message)) if part else message


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[PiggybackClient, PiggybackEngine]:
    """Both processes of one node."""
    engine = PiggybackEngine(members, slot)
    return PiggybackClient(members, slot, engine), engine


SPEC = EngineSpec(
    name="piggyback",
    summary="a message brings along the messages before it: nothing ever waits",
    guarantee="causal",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
    relays=True,
)
