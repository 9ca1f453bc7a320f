"""Tags: what the application holds, compares and stores, and the past they are compared in.

A ``Tag`` says exactly what happened before a message as the applications saw it: its dot and its
immediate predecessors.  One object per message and node serves the application, the client
process and the middleware, so a question costs no look-up in a second structure.

How ``a < b`` is answered in O(1) after the first question about b
------------------------------------------------------------------
The client numbers what the application consumes with one clock (``index``).  The first question
about b materialises the set of its unforgotten ancestors as the bits of one integer, by OR over its
predecessors; later questions read one bit.  The set is exact for every a that was not forgotten
when it was made: stable events come in causal order, so everything between a and b is younger than
a in that order and was not forgotten either.  For an a that *was* forgotten, b consumed after a's
stable event is after a (that is what stable means); for the rest the answer is lost, and asking is
a ``ForgottenTagError``, never a guess.

Messages on streams of their own (engine/tagger.py) take no part in stability.  They are kept until
a message after them becomes stable, at most STREAM_WINDOW_MAX per stream.

Compiled by mypyc together with tagger.py and tagged.py; plain Python when not compiled.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot
from thence.causal.members import Members
from thence.engine.aside import Answers, TagAside
from thence.engine.streams import STREAM_BASE, StreamNames
from thence.errors import ForgottenTagError, LocalProtocolError, UnknownTagError

LANE_BITS: Final = 60  # of ``know``: three lanes add up to less than 2**62, a native integer
STABLE: Final = -1  # what ``Tag.pushed`` is from the moment it is reported stable
STREAM_WINDOW_MAX: Final = 1024


NOTHING: Final[list[Tag]] = []  # what a forgotten tag has before it; shared, never changed
SHELVED: Final = bytes(bytearray(b"shelved"))
"""Stands for a payload that is not in memory; known by being this very object."""


class Past(StreamNames):
    """What a node's application has consumed and not yet forgotten."""

    def __init__(self, members: Members, forgets: bool = True) -> None:
        super().__init__()
        self.members = members
        self.forgets = forgets
        """False without stability: tags are gone at once, which says nothing of their order."""
        self.rows: list[dict[int, Tag]] = [{} for _ in members.names]
        """Delivered or sent, and not forgotten: by slot, by packed dot.  A dictionary for each
        slot, because packed dots with the same number collide in a common one."""
        self.stream_row: dict[int, Tag] = {}
        """The same for all streams."""
        self.kept = 0
        """How many there are in ``rows``."""
        self.unsent: dict[int, Tag] = {}
        """Tagged by the client, and not yet taken by the middleware."""
        self.clock = 0
        """Ticks when the application consumes a delivery or a stable event."""
        self.base = 0
        """No unforgotten tag has a smaller ``index``: where the bits of ancestors begin."""
        self.base_due = 0
        """The clock at which ``base`` is worth raising again."""
        self.stream_windows: dict[int, deque[Tag]] = {}
        self.lost: dict[int, tuple[int, int]] = {}
        """By stream: the newest dot dropped by its bound, not by stability, and its index."""
        self.hollows = False
        """Something was ordered here that was not for this node; never false again."""
        self.shelf: Any = None
        """Has the payloads of tags that are not in memory (client/shelf.py); None: all are."""

    @property
    def window(self) -> dict[int, Tag]:
        """Delivered or sent, and not forgotten, by packed dot; a copy."""
        found = dict(self.stream_row)
        for row in self.rows:
            found.update(row)
        return found

    def node_of(self, packed: int) -> str:
        """The readable origin: ``b``, ``b#2`` or ``b/stream``."""
        k = packed >> SEQ_BITS
        if k < STREAM_BASE:
            return self.members.names[k]
        slot, stream = self.streams[k - STREAM_BASE]
        return f"{self.members.names[slot]}/{stream}"

    def dot_of(self, packed: int) -> Dot:
        """The readable dot."""
        return Dot(self.node_of(packed), packed & SEQ_MAX)

    def forget_streams(self, named: tuple[int, ...]) -> None:
        """Everybody has consumed these messages of streams, and all before them; a worklist."""
        work = list(named)
        for packed in work:  # grows while it is walked
            kept = self.stream_windows.get(packed >> SEQ_BITS)
            while kept and kept[0].packed <= packed:
                tag = kept.popleft()
                if tag.aside is not None:
                    work.extend(tag.aside.context)
                self._drop_of_stream(tag)

    def keep_stream(self, tag: Tag) -> None:
        """Remember a message of a stream, forgetting the oldest of its stream past the bound."""
        kept = self.stream_windows.setdefault(tag.packed >> SEQ_BITS, deque())
        kept.append(tag)
        self.stream_row[tag.packed] = tag
        while len(kept) > STREAM_WINDOW_MAX:
            old = kept.popleft()
            self.lost[old.packed >> SEQ_BITS] = (old.packed, old.index)
            self.clock += 1
            self._drop_of_stream(old)

    def _drop_of_stream(self, tag: Tag) -> None:
        tag.gone = self.clock
        tag.body = b""
        self.stream_row.pop(tag.packed, None)

    def _raise_base(self) -> None:
        # Looking for the oldest tag costs the window's size: done once per that many ticks.
        if self.clock >= self.base_due:
            oldest = [tag.index for tag in self.window.values() if tag.index >= 0]
            oldest += [tag.index for tag in self.unsent.values()]
            self.base = min(oldest, default=self.clock)
            self.base_due = self.clock + len(oldest)

    def ancestors(self, tag: Tag) -> Answers:
        """Materialise the unforgotten ancestors of a tag; a worklist."""
        self._raise_base()
        base = self.base
        work = [tag]
        while work:
            top = work[-1]
            bits = 0
            lost = self._lost_before(top)
            complete = True
            for before in self.right_before(top):
                known = before.answers
                if known is None:
                    work.append(before)
                    complete = False
                elif complete:  # its base is not above ours: bases only move up
                    bits |= known.bits >> (base - known.base) | 1 << (before.index - base)
                    lost = max(lost, known.lost)
            if complete:
                top.answers = Answers(bits, base, self.clock, lost)
                work.pop()
        answers = tag.answers
        assert answers is not None
        return answers

    def right_before(self, tag: Tag) -> list[Tag]:
        """The unforgotten tags that the order itself puts right before this one, named or not."""
        named = () if tag.aside is None else tag.aside.context
        if tag.packed >> SEQ_BITS >= STREAM_BASE:
            # Messages of one stream are ordered among themselves without naming each other.
            named = (*tag.raw_context, *named, tag.packed - 1)
        found = [before for before in tag.before if before.gone < 0]
        if tag.previous is not None and tag.previous.gone < 0:
            found.append(tag.previous)
        for packed in named:
            known = self.known(packed)
            if known is not None:
                found.append(known)
        return found

    def _lost_before(self, tag: Tag) -> int:
        """The index of the newest message of a stream right before this one that was dropped by
        its bound: what came before that cannot be told any more.  -1 for none."""
        named = () if tag.aside is None else tag.aside.context
        if tag.packed >> SEQ_BITS >= STREAM_BASE:
            named = (*named, tag.packed - 1)
        index = -1
        for packed in named:
            dropped = self.lost.get(packed >> SEQ_BITS)
            if dropped is not None and packed <= dropped[0]:
                index = max(index, dropped[1])
        return index

    def known(self, packed: int) -> Tag | None:
        """The tag of an unforgotten message."""
        k = packed >> SEQ_BITS
        row = self.stream_row if k >= STREAM_BASE else self.rows[k]
        tag = row.get(packed)
        return self.unsent.get(packed) if tag is None else tag

    def precedes(self, a: Tag, b: Tag) -> bool:
        """Did a happen before b?"""
        if a.packed >> SEQ_BITS == b.packed >> SEQ_BITS:
            return a.packed < b.packed
        if a.index < 0 or b.index < 0:
            raise _unknown(a if a.index < 0 else b)
        if a.index > b.index:
            return False
        streamed = max(a.packed, b.packed) >> SEQ_BITS >= STREAM_BASE
        if not streamed and 0 <= a.gone < b.index and self.forgets:
            return True  # a was stable, so everything consumed later is after it
        answers = b.answers
        if answers is None and b.gone < 0:
            answers = self.ancestors(b)
        if answers is not None and not 0 <= a.gone <= answers.asked:
            found = answers.bits >> (a.index - answers.base) & 1 == 1
            if found or a.index > answers.lost:
                return found
        if _names(b, a):
            return True
        raise self._lost(a, b, b if answers is None else a)

    def _lost(self, a: Tag, b: Tag, which: Tag) -> ForgottenTagError:
        question = f"whether {a} happened before {b}"
        if not self.forgets:
            return ForgottenTagError(
                f"{question} is not known: this node runs without stability, so it cannot remember "
                "the past. Turn stability on to compare tags of different nodes"
            )
        if which.gone < 0:
            return ForgottenTagError(
                f"{question} can no longer be told: a message of a stream between was dropped; "
                f"{STREAM_WINDOW_MAX} messages of a stream are remembered until something after "
                "them is stable"
            )
        return ForgottenTagError(
            f"{question} can no longer be told: {which} became stable and was forgotten. Compare "
            "tags before you take the stable event of either; once asked, an answer about a tag "
            "that was not forgotten then stays available"
        )


class Tag:
    """Names a message and what happened before it.

    ``a < b`` and ``a.precedes(b)``: a happened before b.  ``a.concurrent(b)``: neither did.
    This is a partial order: ``not a < b`` does not mean ``b <= a``, so do not sort by it.
    Prints as ``b:7``; equal and hashed by the message it names; ``bytes(tag)`` and pickle store it.
    """

    __slots__ = (
        "answers",
        "aside",
        "before",
        "body",
        "gone",
        "index",
        "know",
        "know1",
        "know2",
        "named",
        "packed",
        "past",
        "previous",
        "pushed",
        "reach",
    )

    def __init__(
        self,
        past: Past,
        packed: int,
        named: tuple[int, ...] | None,
        body: bytes,
        before: list[Tag],
        previous: Tag | None = None,
    ) -> None:
        self.past = past
        self.packed = packed
        self.named = named
        """``raw_context``, or None where that is the one before it of the same origin alone."""
        self.body = body
        """Its payload, or ``SHELVED``."""
        self.know = 0
        """Bit k: the member in slot k is known to have consumed this message."""
        self.know1 = 0
        """The same for slots from LANE_BITS on ..."""
        self.know2 = 0
        """... and from 2 * LANE_BITS on."""
        k = packed >> SEQ_BITS
        if 0 <= k < LANE_BITS:
            self.know = 1 << k
        elif k < STREAM_BASE:
            self.mark(k)
        self.before = before
        """Unforgotten predecessors on the default stream; emptied when it is forgotten itself, so
        that a tag somebody keeps does not keep the whole past."""
        self.previous = previous
        """One more of them, in place of a list of one."""
        self.pushed = 0
        """What of ``know`` the last pass told the predecessors; STABLE once it was reported."""
        self.reach = 0
        """What is before it and not stable, by places in a log (engine/at_once.py); 0: unknown."""
        self.index = -1
        """The client's clock when the application consumed it; -1 before."""
        self.gone = -1
        """The client's clock when it was forgotten; -1 before."""
        self.aside: TagAside | None = None
        self.answers: Answers | None = None

    def mark(self, slot: int) -> None:
        """The member in that slot has consumed this message."""
        if slot < 0:
            return
        if slot < LANE_BITS:
            self.know |= 1 << slot
        elif slot < 2 * LANE_BITS:
            self.know1 |= 1 << (slot - LANE_BITS)
        else:
            self.know2 |= 1 << (slot - 2 * LANE_BITS)

    def knows(self, slot: int) -> bool:
        """Is the member in that slot known to have consumed this message?"""
        if slot < LANE_BITS:
            return self.know >> slot & 1 == 1
        if slot < 2 * LANE_BITS:
            return self.know1 >> (slot - LANE_BITS) & 1 == 1
        return self.know2 >> (slot - 2 * LANE_BITS) & 1 == 1

    @property
    def payload(self) -> bytes:
        """What it says; empty once it is forgotten."""
        body = self.body
        if body is SHELVED:
            found: bytes = self.past.shelf.fetch(self.packed)
            return found
        return body

    @property
    def raw_context(self) -> tuple[int, ...]:
        """Immediate predecessors on the default stream, packed and sorted."""
        named = self.named
        return (self.packed - 1,) if named is None else named

    @property
    def origin(self) -> int:
        """Slot of the sender."""
        k = self.packed >> SEQ_BITS
        return k if k < STREAM_BASE else self.past.streams[k - STREAM_BASE][0]

    @property
    def seq(self) -> int:
        """Number of the message at its origin, from 1."""
        return self.packed & SEQ_MAX

    @property
    def stream(self) -> str:
        """Name of its stream; empty for the default one."""
        k = self.packed >> SEQ_BITS
        return "" if k < STREAM_BASE else self.past.streams[k - STREAM_BASE][1]

    @property
    def dot(self) -> Dot:
        """The message's name."""
        return self.past.dot_of(self.packed)

    @property
    def context(self) -> tuple[Dot, ...]:
        """Its immediate predecessors, sorted by name."""
        return tuple(sorted([self.past.dot_of(d) for d in self.predecessors]))

    @property
    def predecessors(self) -> tuple[int, ...]:
        """The same as packed dots, for simulator and oracle."""
        aside = self.aside
        return self.raw_context if aside is None else self.raw_context + aside.context

    @property
    def stream_context(self) -> tuple[int, ...]:
        """Immediate predecessors on streams, by the local number of the stream."""
        return () if self.aside is None else self.aside.context

    @property
    def hidden(self) -> tuple[int, ...]:
        """Predecessors on the default stream that only a stream's message orders before it."""
        return () if self.aside is None else self.aside.hidden

    @property
    def to(self) -> tuple[int, ...]:
        """The slots of the members it is for, beside its sender; empty: for everyone."""
        return () if self.aside is None else self.aside.to

    @property
    def hollow(self) -> bool:
        """Is it ordered here without being for this node?  The application never sees such a tag:
        the driver hands it to the client in its turn and tells nobody."""
        return self.aside is not None and self.aside.hollow

    @property
    def vector(self) -> tuple[int, ...] | None:
        """This engine tags by dots."""
        return None

    def precedes(self, other: Tag) -> bool:
        """Did this message happen before the other, as the applications saw it?"""
        if self.past is not other.past:
            return _precedes_by_context(self, other)
        return self.past.precedes(self, other)

    def concurrent(self, other: Tag) -> bool:
        """Did neither happen before the other?  A message is not concurrent with itself."""
        return not (self == other or self.precedes(other) or other.precedes(self))

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Tag):
            return NotImplemented
        return self.precedes(other)

    def __gt__(self, other: object) -> bool:
        if not isinstance(other, Tag):
            return NotImplemented
        return other.precedes(self)

    def __le__(self, other: object) -> bool:
        if not isinstance(other, Tag):
            return NotImplemented
        return self == other or self.precedes(other)

    def __ge__(self, other: object) -> bool:
        if not isinstance(other, Tag):
            return NotImplemented
        return self == other or other.precedes(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tag):
            return NotImplemented
        if self.past is other.past:
            return self.packed == other.packed
        return self.dot == other.dot

    def __hash__(self) -> int:
        return hash(self.dot)

    def __str__(self) -> str:
        return str(self.dot)

    def __repr__(self) -> str:
        after = ", ".join([str(d) for d in self.context])
        return f"<Tag {self} after [{after}]>"

    def __bytes__(self) -> bytes:
        return msgspec.msgpack.encode((self.dot, self.context))

    def __reduce__(self) -> tuple[Any, ...]:
        return (read_tag, (bytes(self),))


def read_tag(data: bytes) -> Tag:
    """The tag that ``bytes(tag)`` wrote, detached from any node.

    It is equal to the original and compares by what it carries; ``Tagger.find(tag)`` gives the
    node's own tag for it, which compares with everything.
    """
    try:
        dot, context = msgspec.msgpack.decode(data, type=tuple[Dot, tuple[Dot, ...]])
        past = Past(Members(sorted({d.node.partition("/")[0] for d in (dot, *context)})))
        if not all(1 <= d.seq <= SEQ_MAX for d in (dot, *context)):
            raise ValueError("a sequence number is out of range")
    except (msgspec.MsgspecError, LocalProtocolError, ValueError) as error:
        raise LocalProtocolError(f"these bytes are not a tag: {error}") from None
    packed = sorted([_pack_by_name(past, d) for d in context])
    default = tuple([d for d in packed if d >> SEQ_BITS < STREAM_BASE])
    tag = Tag(past, _pack_by_name(past, dot), default, b"", [])
    tag.aside = TagAside((), tuple([d for d in packed if d >> SEQ_BITS >= STREAM_BASE]))
    return tag


def _pack_by_name(past: Past, dot: Dot) -> int:
    node, slash, stream = dot.node.partition("/")
    slot = past.members.slot(node)
    return (past.stream_number(slot, stream) if slash else slot) << SEQ_BITS | dot.seq


def _precedes_by_context(a: Tag, b: Tag) -> bool:
    """The order of two tags of different nodes or of stored tags, if they themselves tell it."""
    first, second = a.dot, b.dot
    if first.node == second.node:
        return first.seq < second.seq
    if any(d.node == first.node and d.seq >= first.seq for d in b.context):
        return True
    if any(d.node == second.node and d.seq >= second.seq for d in a.context):
        return False
    raise LocalProtocolError(
        f"{a} and {b} belong to different nodes or were read from storage, and their contexts do "
        "not tell their order: compare the node's own tags, which Tagger.find(tag) gives"
    )


def _names(b: Tag, a: Tag) -> bool:
    """Does b's own context name a, or something later of a's origin?"""
    origin = a.packed >> SEQ_BITS
    return any([d >> SEQ_BITS == origin and d >= a.packed for d in b.predecessors])


def _unknown(tag: Tag) -> UnknownTagError:
    return UnknownTagError(
        f"{tag} was not consumed here yet: take its delivery before comparing it"
    )
