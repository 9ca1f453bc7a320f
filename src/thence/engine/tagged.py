"""``tagged``, the flagship: exact tags, one watched predecessor, amortised stability.

Which algorithm
    The problem of algorithms 10 and 11, solved otherwise (docs/explanation/flagship.md).

Theory of operation
    *Delivery.*  A message that is not ready watches exactly one missing dot
    (engine/delivery.py).

    *Stability.*  A message is stable when every member is known to have consumed it; found in
    passes over what is delivered and not stable (engine/stability.py).

Invariants
    delivered[k] is the packed dot of the last delivered message of slot k; the delivery log is a
    linear extension of the causal order; a pending message waits for exactly one undelivered dot.

Differences from the thesis
    No graph, no successor lists, no bit string per pending message: one watched dot.  The full
    context is handed over (erratum 5:27, 9:37, 11:38).  bit(me) is set at consumption, not at
    delivery to the queue, so "stable" includes that *this* application has seen the message.

Bounds
    ``pending_per_origin_max`` messages of an origin are held back at most: one further ahead is
    rejected with ``retry``.  The next one is always accepted, so a full buffer cannot deadlock.

Packed dots are plain integers throughout: this is the hot loop, compiled by mypyc if possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.checks import (
    aside_fault,
    context_fault,
    has_its_types,
    message_fault,
    phantom_fault,
    unsent_fault,
)  # fmt: skip
from thence.engine.delivery import Delivery
from thence.engine.effects import Effects
from thence.engine.held import Held
from thence.engine.outgoing import message_of
from thence.engine.reject import (
    BAD_STREAM,
    NOT_A_MEMBER,
    TOO_FAR_AHEAD,
    WRONG_KIND,
    Reject,
)
from thence.engine.streams import STREAM_BASE, STREAMS_PER_NODE_MAX
from thence.engine.tag import Tag
from thence.engine.tagger import Tagger
from thence.errors import LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Aside, Chain, Message, Phantom, WireMessage


class Tagged(Delivery):
    """The middleware process of one node."""

    def broadcast(self, tag: Tag, out: Effects) -> None:
        """Send a message that ``Tagger.broadcast`` tagged, in the order of the calls."""
        packed = tag.packed
        k = packed >> SEQ_BITS
        if tag.past is not self.past or tag.origin != self.slot or packed != self._last(k) + 1:
            raise LocalProtocolError(f"{tag} is not the next message that this node tagged")
        out.send.append(message_of(tag))
        if k >= STREAM_BASE:
            self.stream_delivered[k] = packed
            return
        self.delivered[k] = packed
        if self.stability:
            self.latest[k] = tag
            del self.past.unsent[packed]
            self.rows[k][packed] = tag
            self.past.kept += 1
            self.knowledge.log.append(tag)
            if self.past.clock >= self.knowledge.due_clock:
                self.knowledge.look(self.delivered, out)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """Send what ``Tagger.phantom`` said."""
        out.send.append(phantom)

    def forget(self, tag: Tag) -> None:
        """Its stable event was consumed.  Client and engine share the tag: all is done."""
        if tag.gone < 0:
            raise LocalProtocolError(f"{tag} must be taken by Tagger.stabilised first")

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """A message or phantom arrived.  Nothing a peer sends raises; see ``Effects.reject``."""
        try:
            self._take(peer, message, out)
        except TypeError as error:  # met before anything changes; the codec lets none through
            if has_its_types(message):
                raise  # no fault of the peer
            out.reject.append(Reject(peer, WRONG_KIND, f"a field of the wrong type: {error}"))

    def _take(self, peer: int, message: WireMessage, out: Effects) -> None:
        if not isinstance(message, Message):
            if isinstance(message, Phantom):
                self._receive_phantom(peer, message, out)
            else:
                out.reject.append(Reject(peer, WRONG_KIND, "this engine takes no vectors"))
            return
        j = message.origin
        delivered = self.delivered
        size = len(delivered)
        if not 0 <= j < size or not self.is_member[j]:
            out.reject.append(Reject(peer, NOT_A_MEMBER, f"slot {j} is not a member"))
            return
        if peer != j and not (0 <= peer < size and self.is_member[peer]):
            out.reject.append(Reject(peer, NOT_A_MEMBER, f"it came from slot {peer}, no member"))
            return
        if message.aside is not None:
            self._receive_aside(peer, message, message.aside, out)
            return
        packed = (j << SEQ_BITS) + message.seq
        pending = self.pending
        last = delivered[j]
        if packed == last + 1 and j != self.slot and not (pending and packed in pending):
            # The common case in one loop: everything named is delivered, in order of origin, which
            # also proves that the context is well formed.
            context = message.context
            rows = self.rows
            latest = self.latest
            before: list[Tag] = []
            previous = -1
            for d in context:
                k = d >> SEQ_BITS
                if k <= previous or k >= size:
                    break
                previous = k
                newest = latest[k]
                if newest.packed == d:
                    before.append(newest)
                    continue
                known = rows[k].get(d)
                if known is not None:
                    before.append(known)
                elif delivered[k] < d or not d & SEQ_MAX:
                    break
            else:
                payload = message.payload
                if len(payload) > PAYLOAD_BYTES_MAX:
                    self._refuse(peer, message, packed, last, out)
                    return
                tag = Tag(self.past, packed, context, payload, before)
                delivered[j] = packed
                out.deliver.append(tag)
                knowledge = self.knowledge
                if self.stability:
                    latest[j] = tag
                    rows[j][packed] = tag
                    self.past.kept += 1
                    knowledge.log.append(tag)
                if pending or self.chains.count:
                    self._wake(packed, out)
                if self.past.clock >= knowledge.due_clock:
                    knowledge.look(delivered, out)
                return
        self._accept(peer, message, packed, last, out)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """The same for a batch."""
        for message in messages:
            self.receive(peer, message, out)

    def receive_chain(self, chain: Chain, j: int, out: Effects) -> bool:
        """A chain of a member: whether it was delivered or held back as a whole.  If not, each
        of its messages is for ``receive``."""
        last = self.delivered[j]
        first: int = (j << SEQ_BITS) + chain.seq
        payloads: list[bytes] = chain.payloads
        end = first + len(payloads)
        if first <= last or first <= self.ahead[j] or end - 1 > last + self.pending_max:
            return False
        if first > last + 1:
            self.arrivals += 1
            self.chains.add(self.arrivals, first, chain)
            self.ahead[j] = end - 1
            return True
        self._deliver_chain(last, payloads, out)
        if self.pending or self.chains.count:
            for dot in range(first, end - 1) if self.watchers else ():
                if dot in self.watchers:
                    self._wake(dot, out)
            self._wake(end - 1, out)
        if self.past.clock >= self.knowledge.due_clock:
            self.knowledge.look(self.delivered, out)
        return True

    def _accept(self, peer: int, message: Message, packed: int, last: int, out: Effects) -> None:
        """Any message of a member: check it, then deliver it or hold it back."""
        if (
            packed <= last
            or not 0 < message.seq <= SEQ_MAX
            or packed > last + self.pending_max
            or self.is_held(packed)
            or message.origin == self.slot
            or len(message.payload) > PAYLOAD_BYTES_MAX
        ):
            self._refuse(peer, message, packed, last, out)
            return
        fault = context_fault(message.context, packed, self.delivered, self.slot)
        if fault is not None:
            out.reject.append(Reject(peer, fault[0], fault[1]))
            return
        aside = message.aside
        if aside is not None:
            held_back = self.held_aside.get(message.origin, 0)
            if packed > last + 1:
                if held_back >= self.pending_max:
                    detail = f"slot {message.origin} has {held_back} held back on streams"
                    out.reject.append(Reject(peer, TOO_FAR_AHEAD, detail, True))
                    return
                self.held_aside[message.origin] = held_back + 1
            if aside.stream:
                self.past.open_stream(message.origin, aside.stream)
        self.arrivals += 1
        if packed > last + 1:
            self._hold(packed, message)
            return
        held = Held(packed, message, self.past.named_by(message))
        if self._ready(held):
            self._deliver(packed, message, held.named, out)
            if self.pending or self.chains.count:
                self._wake(packed, out)
            if self.past.clock >= self.knowledge.due_clock:
                self.knowledge.look(self.delivered, out)
        else:
            self._hold(packed, message)

    def _refuse(self, peer: int, message: Message, packed: int, last: int, out: Effects) -> None:
        fault = message_fault(
            message, packed, last, self.slot, self.is_held(packed), self.pending_max
        )
        out.reject.append(Reject(peer, fault[0], fault[1], fault[0] == TOO_FAR_AHEAD))

    # ---- streams ---------------------------------------------------------------------------------

    def _receive_aside(self, peer: int, message: Message, aside: Aside, out: Effects) -> None:
        """A message on a stream of its own, or one that comes after such messages."""
        j = message.origin
        fault = aside_fault(aside, j, len(self.delivered), self.slot)
        if fault is None:
            packed = (j << SEQ_BITS) + message.seq
            fault = context_fault(aside.hidden, packed, self.delivered, self.slot)
        if fault is None and aside.context:
            sent = self.stream_delivered
            fault = unsent_fault(aside.context, self.slot, self.past.stream_ids, sent)
        if fault is None and aside.to and not self.stability:
            fault = WRONG_KIND, "without stability this node cannot see through a multicast"
        if fault is not None:
            out.reject.append(Reject(peer, fault[0], fault[1]))
            return
        k = j
        if aside.stream:
            if not self.past.may_open(j, aside.stream):
                detail = f"slot {j} uses {STREAMS_PER_NODE_MAX} streams already"
                out.reject.append(Reject(peer, BAD_STREAM, detail))
                return
            # The number it will have: nothing is noted of a message before it is accepted.
            new = STREAM_BASE + len(self.past.streams)
            k = self.past.stream_ids.get((j, aside.stream), new)
        self._accept(peer, message, (k << SEQ_BITS) + message.seq, self._last(k), out)

    def _receive_phantom(self, peer: int, phantom: Phantom, out: Effects) -> None:
        fault = phantom_fault(
            phantom, peer, self.is_member, self.delivered, self.slot, self.pending_max
        )
        if fault is not None:
            out.reject.append(Reject(peer, fault[0], fault[1], fault[0] == TOO_FAR_AHEAD))
        elif self.stability:
            last = self.delivered[phantom.origin] & SEQ_MAX
            if phantom.seq > last or self.past.hollows:  # otherwise the message itself says more
                self.knowledge.heard(phantom.origin, phantom.seq, phantom.context)
                if self.knowledge.batch == 1:
                    self.knowledge.look(self.delivered, out)

    def flush(self, out: Effects) -> None:
        """Find everything that is stable by now."""
        self.knowledge.flush(self.delivered, out)

    def settle(self, tags: Iterable[Tag]) -> None:
        """These were found stable in a former life of this node: nothing is told, and
        ``Tagger.stabilised`` may be called.  In causal order, all before them settled too."""
        self.knowledge.settle(tags)

    def readmit(self, message: Message) -> Tag:
        """A message of a former life of this node, own ones included: its tag, as if delivered.
        Only for ``restore``, which checks that it comes next."""
        k = message.origin
        if message.stream:
            k = self.past.open_stream(k, message.stream)
        out = Effects()
        self._deliver(k << SEQ_BITS | message.seq, message, self.past.named_by(message), out)
        tag: Tag = out.deliver[0]
        return tag

    def known_by(self, tag: Tag) -> int:
        """How many members are known to have consumed this message, as of the last pass."""
        return self.knowledge.known_by(tag)


def make(members: Members, slot: int, options: EngineOptions) -> tuple[Tagger, Tagged]:
    """The two processes of the node in that slot."""
    tagger = Tagger(members, slot, options.stability)
    engine = Tagged(
        tagger.past,
        slot,
        options.stability,
        options.stability_batch,
        options.k,
        options.pending_per_origin_max,
    )
    return tagger, engine


SPEC = EngineSpec(
    name="tagged",
    summary="exact tags, one watched predecessor, amortised stability; the default",
    guarantee="causal",
    tags="exact",
    stability=True,
    phantoms=True,
    make=make,
    k_stability=True,
    streams=True,
    reach=("broadcast", "multicast", "unicast"),
)
