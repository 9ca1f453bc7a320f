"""The client process of the flagship: tags messages with what the application has consumed.

Algorithms 4, 8 and 10 of the thesis, with their errata (docs/explanation/errata.md).  It stands
apart from the middleware (thesis 3.6): a message is tagged at the call with what the application
has taken, not with what the middleware has queued for it.

State: the context, which is the set of maximal dots among everything sent or consumed
(engine/frontier.py).

Streams
-------
A message with explicit predecessors (``after=``) or none (``ordered=False``) does not fit the one
FIFO sequence of a node: it would arrive concurrent with something already stable.  It goes on a
stream of its own, dot ``(node/stream, seq)``.  Messages of one stream are ordered among themselves;
use several streams for what is independent.  Streams neither give nor receive stability.  Once
consumed they are in the context of the next message of the default stream, as everything else.
What they hide from that context travels beside it (``hidden``), or stability could not see through.

Multicasts
----------
A message for some members (``to=``) has its dot and context like any other and reaches every
member, but those it is not for get it *hollow*: their engine orders it, their application never
sees it and it never enters their context.  So a context is always what its sender has sent and
taken, and the order through a hollow message is kept all the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot
from thence.causal.members import Members
from thence.engine.aside import TagAside
from thence.engine.checks import nameable
from thence.engine.frontier import Frontier
from thence.engine.streams import STREAM_BASE, STREAMS_PER_NODE_MAX
from thence.engine.tag import (
    LANE_BITS,
    NOTHING,
    STABLE,
    Past,
    Tag,
    read_tag,
)
from thence.errors import LimitError, LocalProtocolError, UnknownTagError
from thence.message import PAYLOAD_BYTES_MAX, STREAM_CHARS_MAX, Phantom

EXPLICIT_STREAM = "explicit"
UNORDERED_STREAM = "unordered"


class Tagger:
    """One application's view of the order: makes tags, and moves when deliveries are taken."""

    def __init__(self, members: Members, slot: int, keep: bool = True) -> None:
        self.past = Past(members, keep)
        self.slot = slot
        self.bit = 1 << slot if slot < LANE_BITS else 0
        self.keep = keep
        """False without stability: nothing would ever be forgotten, so nothing is remembered."""
        self.sent = slot << SEQ_BITS
        """Packed dot of the last message sent; seq 0 before the first."""
        self.frontier = Frontier()
        """The latest dots of what is sent and consumed: the context of the next message."""
        self.stream_sent: dict[int, int] = {}
        self.telling: list[Tag] = []
        """The tags that a callback is told to be stable now; what it sends is after that."""

    def broadcast(
        self,
        payload: bytes,
        after: Iterable[Tag] | None = None,
        ordered: bool = True,
        stream: str = "",
        to: Iterable[int] | None = None,
    ) -> Tag:
        """Tag a message now, after everything consumed so far.

        ``after`` names the predecessors instead; ``ordered=False`` has none.  Both travel on a
        stream of their own, ``stream`` if given.  ``to`` are the slots of the members it is for.
        The tag goes on to ``Tagged.broadcast``.
        """
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        recipients = () if to is None else self._recipients(to)
        if after is not None or not ordered or stream:
            if to is not None:
                raise LocalProtocolError("to= and a stream of its own (after=, ordered=, stream=)")
            return self._broadcast_on_stream(payload, after, ordered, stream)
        if self.sent & SEQ_MAX == SEQ_MAX:
            raise LimitError("this node has used up its sequence numbers: take a new incarnation")
        packed = self.sent + 1
        self.sent = packed
        past = self.past
        frontier = self.frontier
        before = frontier.context
        tag = Tag(past, packed, tuple(sorted(before)), payload, [])
        if frontier.stream_context or frontier.hidden or recipients:
            hidden = frontier.newest_hidden()
            before = before | hidden
            streams = tuple(sorted(frontier.stream_context))
            tag.aside = TagAside(tuple(sorted(hidden)), streams, recipients)
        past.clock += 1
        tag.index = past.clock
        if self.keep:
            for d in sorted(before):
                known = past.known(d)
                if known is not None:
                    tag.before.append(known)
            past.unsent[packed] = tag
        else:
            tag.gone = tag.index
        frontier.send(packed)
        return tag

    def consume(self, tag: Tag) -> None:
        """The application takes this delivery; called before its code runs, so that what it sends
        then is after it."""
        past = self.past
        if tag.past is not past or tag.index >= 0:
            raise LocalProtocolError(f"{tag} was consumed already, or delivered to another node")
        clock = past.clock + 1
        past.clock = clock
        tag.index = clock
        if past.hollows:
            if tag.hollow:
                return
            if tag.packed >> SEQ_BITS < STREAM_BASE:
                self.frontier.see_through(tag)
        self.frontier.take(tag)
        if tag.packed >> SEQ_BITS >= STREAM_BASE:
            self._keep_stream(tag)
        elif self.keep:
            if self.bit:
                tag.know |= self.bit
            else:
                tag.mark(self.slot)
        else:
            tag.gone = clock

    def stabilised(self, tag: Tag) -> None:
        """The application takes this stable event: the tag's metadata goes."""
        past = self.past
        if tag.past is not past or tag.pushed != STABLE or tag.gone >= 0:
            raise LocalProtocolError(
                f"{tag} cannot be forgotten: not stable here, or forgotten before"
            )
        clock = past.clock + 1
        past.clock = clock
        tag.gone = clock
        tag.body = b""
        tag.before = NOTHING
        tag.previous = None
        del past.rows[tag.packed >> SEQ_BITS][tag.packed]
        past.kept -= 1
        if tag.aside is not None:
            past.forget_streams(tag.aside.context)

    def readmit(self, tag: Tag) -> None:
        """The application consumed or sent this in a former life; for ``restore``, in order.  The
        context does not move: it is restored as a whole."""
        past = self.past
        past.clock += 1
        tag.index = past.clock
        if tag.packed >> SEQ_BITS >= STREAM_BASE:
            self._keep_stream(tag)
        elif not self.keep:
            tag.gone = tag.index
        elif not tag.hollow:
            tag.mark(self.slot)

    def phantom(self) -> Phantom:
        """What was consumed so far, to let others make progress while this node is silent."""
        return self.frontier.phantom(self.slot, self.sent)

    def find(self, name: Tag | Dot | str | bytes) -> Tag:
        """This node's tag for a message named by a tag, a dot, ``"b:7"`` or stored bytes."""
        if isinstance(name, bytes):
            dot = read_tag(name).dot
        elif isinstance(name, str):
            try:
                dot = Dot.parse(name)
            except ValueError as error:
                raise LocalProtocolError(str(error)) from None
        elif isinstance(name, Tag):
            dot = name.dot
        else:
            dot = name
        node, slash, stream = dot.node.partition("/")
        slot = self.past.members.slot(node)
        number = self.past.stream_ids.get((slot, stream), -1) if slash else slot
        in_range = number >= 0 and 0 < dot.seq <= SEQ_MAX
        tag = self.past.known(number << SEQ_BITS | dot.seq) if in_range else None
        if tag is None or tag.index < 0 or tag.hollow:
            raise UnknownTagError(
                f"{dot} is not in this node's memory: it was not consumed here yet, it was not for "
                "this node, or it became stable and was forgotten. Keep the Tag itself for as long "
                "as you need it"
            )
        return tag

    def _broadcast_on_stream(
        self, payload: bytes, after: Iterable[Tag] | None, ordered: bool, stream: str
    ) -> Tag:
        if not ordered and after is not None:
            raise LocalProtocolError(
                "after= names predecessors; ordered=False has none: choose one"
            )
        name = stream or (EXPLICIT_STREAM if ordered else UNORDERED_STREAM)
        if not nameable(name):
            raise LocalProtocolError(
                f"{stream!r}: a stream's name has at most {STREAM_CHARS_MAX} printable characters, "
                "no '/'"
            )
        newest: dict[int, int] = {}
        for tag in after or ():
            own = tag if tag.past is self.past else self.find(tag)
            if own.index < 0:
                raise UnknownTagError(f"after={own}: it was not consumed here yet")
            if own.to:
                raise LocalProtocolError(
                    f"after={own}: it was for some members only, so the others could not tell what "
                    "comes before; name what it came after, or send without after="
                )
            origin = own.packed >> SEQ_BITS
            newest[origin] = max(newest.get(origin, 0), own.packed)
        if not self.past.may_open(self.slot, name):
            raise LimitError(f"a node may use at most {STREAMS_PER_NODE_MAX} streams")
        number = self.past.open_stream(self.slot, name)
        newest.pop(number, None)  # its own stream is ordered anyway
        packed = self.stream_sent.get(number, number << SEQ_BITS) + 1
        self.stream_sent[number] = packed
        named = sorted(newest.values())
        default = tuple([d for d in named if d >> SEQ_BITS < STREAM_BASE])
        tag = Tag(self.past, packed, default, payload, [])
        tag.aside = TagAside((), tuple([d for d in named if d >> SEQ_BITS >= STREAM_BASE]))
        self.past.clock += 1
        tag.index = self.past.clock
        self.frontier.take(tag)
        self._keep_stream(tag)
        return tag

    def _recipients(self, to: Iterable[int]) -> tuple[int, ...]:
        """Sorted; empty when it is for everyone after all."""
        found = sorted(set(to))
        mask = self.past.members.mask
        strangers = [slot for slot in found if slot < 0 or not mask >> slot & 1]
        if not found or strangers or self.slot in found:
            raise LocalProtocolError(
                f"to={found}: expected slots of other members, at least one; this is slot "
                f"{self.slot} of {len(self.past.members.names)}"
            )
        if not self.keep:
            raise LocalProtocolError("to= needs stability: without it nothing is remembered")
        return () if len(found) + 1 == mask.bit_count() else tuple(found)

    def _keep_stream(self, tag: Tag) -> None:
        if self.keep:
            self.past.keep_stream(tag)
        else:
            tag.gone = tag.index
