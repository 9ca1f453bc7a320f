"""``tagged``, the flagship: exact tags, one watched predecessor, amortised stability.

Which algorithm
    The problem of the thesis' algorithms 10 and 11 (tagged causal broadcast with stability and
    phantoms), solved otherwise; docs/explanation/flagship.md compares them.

Theory of operation
    *Delivery.*  Message (j, n) is ready when (j, n - 1) and every dot of its context are delivered.
    A message that is not ready watches exactly one missing dot.  When that one is delivered the
    message goes on scanning its context where it stopped: the scan never goes back, because what
    is delivered stays delivered.  So each dot of a context is looked at once, however long the wait.

    *Stability.*  ``know`` of a delivered message has bit k when member k is known to have consumed
    it: its sender, this node once the application took it, the sender of any delivered message
    after it, and the announcer of a usable phantom that names it or something after it.  A pass
    walks the delivery log backwards and ORs ``know`` into the predecessors where it changed, then
    forwards and reports what all members know, in delivery order.  A pass costs what is unstable,
    and the next one waits for half as many deliveries: amortised O(|context|) per message.

    *Phantoms.*  (j, n, context): j has consumed the context and its next message will be (j, n).
    Usable when all of j below n is delivered here.  Kept per origin: largest n, newest dots.

Invariants
    delivered[k] is the packed dot of the last delivered message of slot k; log is a linear extension
    of the causal order; know is closed towards ancestors after a pass, so stability comes in causal
    order and once; a pending message watches exactly one undelivered dot.

Differences from the thesis
    No graph, no successor lists, no bit string per pending message: one watched dot.  The full
    context is kept and handed over (erratum 5:27, 9:37, 11:38).  bit(me) is set at consumption, not
    at delivery to the queue, so "stable" includes that *this* application has seen the message.

Bounds
    At most ``pending_per_origin_max`` messages of one origin are held back: one further ahead is
    rejected with ``retry``.  The next message of an origin is always accepted, so a full buffer
    cannot deadlock.

Packed dots are plain integers and contexts plain tuples throughout: this is the hot loop.
Compiled by mypyc together with tag.py and tagger.py; plain Python when not compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.causal.members import Members
from thence.engine.base import PENDING_PER_ORIGIN_MAX, EngineOptions, EngineSpec
from thence.engine.checks import aside_fault, context_fault
from thence.engine.effects import (
    BAD_SEQ,
    BAD_STREAM,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Effects,
    Reject,
    Waiting,
)
from thence.engine.tag import STREAM_BASE, Past, Streams, Tag
from thence.engine.tagger import Tagger
from thence.errors import LimitError, LocalProtocolError
from thence.message import Aside, Message, Phantom, WireMessage

PASS_DELIVERIES_MIN = 16


class Held:
    """The next message of its origin, while a dot of its context is missing."""

    def __init__(self, packed: int, message: Message, named: tuple[int, ...]) -> None:
        self.packed = packed
        self.message = message
        self.named = named
        """Its predecessors on streams, by their local numbers."""
        self.scanned = 0
        """How much of its context was found delivered."""
        self.missing = -1
        """The one dot it watches."""
        self.next: Held | None = None
        """The one that began to watch the same dot before it."""


class Tagged:
    """The middleware process of one node."""

    def __init__(
        self,
        past: Past,
        slot: int,
        stability: bool = True,
        stability_batch: int = 0,
        k: int = 0,
        pending_per_origin_max: int = PENDING_PER_ORIGIN_MAX,
    ) -> None:
        self.past = past
        self.members: Members = past.members
        self.slot = slot
        self.stability = stability
        self.stability_batch = stability_batch
        self.k = k
        self.k_told: set[int] = set()
        self.pending_max = pending_per_origin_max
        self.window = past.window
        self.delivered: list[int] = []
        self.latest: list[Tag] = []
        """The last delivered tag of each slot: what contexts name most, found without hashing."""
        self.bits: list[int] = []
        """The bit of each slot; 0 for slots that are no members any more."""
        self.mask = 0
        self.admit()
        self.pending: dict[int, Message] = {}
        """Held back.  One that waits for the message before it of its origin is found here when
        that is delivered; the first of an origin waits in ``watchers``."""
        self.watchers: dict[int, Held] = {}
        """By missing dot, those who watch it: a chain, newest first, nearly always of one."""
        self.stream_delivered: dict[int, int] = {}
        self.log: list[Tag] = []
        """Delivered and not stable, in order of delivery."""
        self.due = stability_batch or PASS_DELIVERIES_MIN
        """Length of the log at which the next pass is due."""
        self.phantoms: dict[int, tuple[int, dict[int, int]]] = {}
        self.news = False
        """A phantom came since the last pass."""
        self.seen_clock = 0
        self.seen_length = 0

    def admit(self) -> None:
        """Follow ``members``: room for new slots, nothing more from those that ended."""
        self.mask = self.members.mask
        for slot in range(len(self.delivered), len(self.members.names)):
            self.delivered.append(slot << SEQ_BITS)
            self.latest.append(Tag(self.past, -1, (), b"", 0, []))  # stands for none
            self.bits.append(0)
        for slot in range(len(self.delivered)):
            self.bits[slot] = self.mask & 1 << slot

    # ---- from the client -------------------------------------------------------------------------

    def broadcast(self, tag: Tag, out: Effects) -> None:
        """Send a message that ``Tagger.broadcast`` tagged, in the order of the calls."""
        packed = tag.packed
        k = packed >> SEQ_BITS
        if packed != self._last(k) + 1:
            raise LocalProtocolError(f"{tag} is not the next message of its stream")
        streams = tag.streams
        aside = None if streams is None else self._aside(tag, streams)
        out.send.append(Message(self.slot, packed & SEQ_MAX, tag.raw_context, tag.payload, aside))
        if k >= STREAM_BASE:
            self.stream_delivered[k] = packed
            return
        self.delivered[k] = packed
        if self.stability:
            self.latest[k] = tag
            del self.past.unsent[packed]
            self.window[packed] = tag
            self.log.append(tag)
            if len(self.log) >= self.due:
                self._pass(out)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """Send what ``Tagger.phantom`` said."""
        out.send.append(phantom)

    def forget(self, tag: Tag) -> None:
        """Its stable event was consumed.  Client and engine share the tag: all is done already."""
        if tag.gone < 0:
            raise LocalProtocolError(f"{tag} must be taken by Tagger.stabilised first")

    # ---- from peers ------------------------------------------------------------------------------

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """A message or phantom arrived.  Nothing a peer sends raises; see ``Effects.reject``."""
        if not isinstance(message, Message):
            if isinstance(message, Phantom):
                self._receive_phantom(peer, message, out)
            else:
                out.reject.append(Reject(peer, WRONG_KIND, "this engine takes no vectors"))
            return
        j = message.origin
        delivered = self.delivered
        size = len(delivered)
        if not 0 <= j < size or not self.bits[j]:
            out.reject.append(Reject(peer, NOT_A_MEMBER, f"slot {j} is not a member"))
            return
        if message.aside is not None:
            self._receive_aside(peer, message, message.aside, out)
            return
        packed = (j << SEQ_BITS) + message.seq
        pending = self.pending
        if packed == delivered[j] + 1 and j != self.slot and not (pending and packed in pending):
            # The common case in one loop: everything named is delivered, in order of origin, which
            # also proves that the context is well formed.
            context = message.context
            window = self.window
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
                known = window.get(d)
                if known is not None:
                    before.append(known)
                elif delivered[k] < d or not d & SEQ_MAX:
                    break
            else:
                tag = Tag(self.past, packed, context, message.payload, self.bits[j], before)
                delivered[j] = packed
                out.deliver.append(tag)
                if self.stability:
                    latest[j] = tag
                    window[packed] = tag
                    self.log.append(tag)
                if pending:
                    self._wake(packed, out)
                if len(self.log) >= self.due:
                    self._pass(out)
                return
        self._accept(peer, message, packed, (), out)

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """A batch arrived, in this order."""
        for message in messages:
            self.receive(peer, message, out)

    def _accept(
        self, peer: int, message: Message, packed: int, named: tuple[int, ...], out: Effects
    ) -> None:
        """Any message of a member: check it, then deliver it or hold it back."""
        last = self._last(packed >> SEQ_BITS)
        if (
            packed <= last
            or not 0 < message.seq <= SEQ_MAX
            or packed > last + self.pending_max
            or packed in self.pending
            or message.origin == self.slot
        ):
            out.reject.append(self._fault(peer, message, packed, last))
            return
        fault = context_fault(message.context, packed, self.delivered, self.slot)
        if fault is not None:
            out.reject.append(Reject(peer, fault[0], fault[1]))
            return
        if packed > last + 1:
            self.pending[packed] = message
            return
        held = Held(packed, message, named)
        if self._ready(held):
            self._deliver(packed, message, named, out)
            if self.pending:
                self._wake(packed, out)
            if len(self.log) >= self.due:
                self._pass(out)
        else:
            self.pending[packed] = message

    def _fault(self, peer: int, message: Message, packed: int, last: int) -> Reject:
        """Why a message of a member cannot be accepted, apart from its context."""
        j, n = message.origin, message.seq
        if not 0 < n <= SEQ_MAX:
            return Reject(peer, BAD_SEQ, f"sequence number {n} is not in 1..{SEQ_MAX}")
        if j == self.slot and packed > last:
            return Reject(peer, NOT_MY_MESSAGE, f"this node has not sent its message {n}")
        if packed <= last or packed in self.pending:
            return Reject(peer, DUPLICATE, f"message {n} of slot {j} is here already")
        return Reject(
            peer,
            TOO_FAR_AHEAD,
            f"message {n} of slot {j} while {last & SEQ_MAX} is delivered: at most "
            f"{self.pending_max} are held back",
            True,
        )

    def _last(self, k: int) -> int:
        """The last delivered dot of a slot or stream."""
        if k < STREAM_BASE:
            return self.delivered[k]
        return self.stream_delivered.get(k, k << SEQ_BITS)

    def _ready(self, held: Held) -> bool:
        """Go on scanning where the scan stopped; watch the first missing dot, if there is one."""
        context = held.message.context
        for i in range(held.scanned, len(context)):
            d = context[i]
            if self.delivered[d >> SEQ_BITS] < d:
                held.scanned = i
                self._watch(held, d)
                return False
        held.scanned = len(context)
        for d in held.named:
            if self._last(d >> SEQ_BITS) < d:
                self._watch(held, d)
                return False
        return True

    def _watch(self, held: Held, missing: int) -> None:
        held.missing = missing
        held.next = self.watchers.get(missing)
        self.watchers[missing] = held

    def _deliver(
        self, packed: int, message: Message, named: tuple[int, ...], out: Effects
    ) -> None:
        k = packed >> SEQ_BITS
        know = self.bits[k] if k < STREAM_BASE else 0
        tag = Tag(self.past, packed, message.context, message.payload, know, [])
        out.deliver.append(tag)
        edges = message.context
        if message.aside is not None:
            tag.streams = Streams(message.aside.hidden, named)
            edges = edges + message.aside.hidden
        if k >= STREAM_BASE:
            self.stream_delivered[k] = packed
            return
        self.delivered[k] = packed
        if self.stability:
            window = self.window
            tag.before = [window[d] for d in edges if d in window]
            self.latest[k] = tag
            window[packed] = tag
            self.log.append(tag)

    def _wake(self, packed: int, out: Effects) -> None:
        """Deliver everything that waited for this dot, directly or not; a worklist."""
        past, bits, delivered, latest = self.past, self.bits, self.delivered, self.latest
        window, pending, log, deliver = self.window, self.pending, self.log, out.deliver
        ready = [packed]
        for dot in ready:  # grows while it is walked
            if self.watchers:
                self._wake_watchers(dot, ready, out)
            following = dot + 1
            message = pending.get(following)
            if message is None:
                continue
            if message.aside is not None or not self.stability:
                self._wake_next(following, message, ready, out)
                continue
            # The next of the same origin: the common case, as in ``receive``.
            context = message.context
            before: list[Tag] = []
            for d in context:
                newest = latest[d >> SEQ_BITS]
                if newest.packed == d:
                    before.append(newest)
                    continue
                known = window.get(d)
                if known is not None:
                    before.append(known)
                elif delivered[d >> SEQ_BITS] < d:
                    self._wake_next(following, message, ready, out)
                    break
            else:
                k = following >> SEQ_BITS
                del pending[following]
                tag = Tag(past, following, context, message.payload, bits[k], before)
                delivered[k] = following
                deliver.append(tag)
                latest[k] = tag
                window[following] = tag
                log.append(tag)
                ready.append(following)

    def _wake_next(self, packed: int, message: Message, ready: list[int], out: Effects) -> None:
        held = Held(packed, message, self._named(message))
        if self._ready(held):
            del self.pending[packed]
            self._deliver(packed, message, held.named, out)
            ready.append(packed)

    def _wake_watchers(self, dot: int, ready: list[int], out: Effects) -> None:
        chain: list[Held] = []
        held = self.watchers.pop(dot, None)
        while held is not None:
            chain.append(held)
            held = held.next
        for held in reversed(chain):  # in the order in which they began to watch
            if self._ready(held):
                del self.pending[held.packed]
                self._deliver(held.packed, held.message, held.named, out)
                ready.append(held.packed)

    # ---- streams ---------------------------------------------------------------------------------

    def _aside(self, tag: Tag, streams: Streams) -> Aside:
        named = tuple(sorted([self.past.stream_dot(d) for d in streams.context]))
        return Aside(tag.stream, named, streams.hidden)

    def _named(self, message: Message) -> tuple[int, ...]:
        """The local numbers of what a message names on streams."""
        if message.aside is None:
            return ()
        numbers = [
            self.past.stream_id(d.slot, d.stream) << SEQ_BITS | d.seq for d in message.aside.context
        ]
        return tuple(sorted(numbers))

    def _receive_aside(self, peer: int, message: Message, aside: Aside, out: Effects) -> None:
        """A message on a stream of its own, or one that comes after such messages."""
        j = message.origin
        fault = aside_fault(aside, j, len(self.delivered))
        if fault is None:
            packed = (j << SEQ_BITS) + message.seq
            fault = context_fault(aside.hidden, packed, self.delivered, self.slot)
        if fault is not None:
            out.reject.append(Reject(peer, fault[0], fault[1]))
            return
        for d in aside.context:
            number = self.past.stream_ids.get((d.slot, d.stream), -1)
            if d.slot == self.slot and (number < 0 or self._last(number) & SEQ_MAX < d.seq):
                detail = f"this node has not sent message {d.seq} on stream {d.stream!r}"
                out.reject.append(Reject(peer, UNSENT_OWN_DOT, detail))
                return
        try:
            k = self.past.stream_id(j, aside.stream) if aside.stream else j
            named = self._named(message)
        except LimitError as error:
            out.reject.append(Reject(peer, BAD_STREAM, str(error)))
            return
        self._accept(peer, message, (k << SEQ_BITS) + message.seq, named, out)

    # ---- stability -------------------------------------------------------------------------------

    def _receive_phantom(self, peer: int, phantom: Phantom, out: Effects) -> None:
        j, n = phantom.origin, phantom.seq
        if not 0 <= j < len(self.delivered) or not self.bits[j] or j == self.slot:
            out.reject.append(Reject(peer, NOT_A_MEMBER, f"slot {j} is not another member"))
            return
        if n < 1 or n > SEQ_MAX:
            out.reject.append(Reject(peer, BAD_SEQ, f"sequence number {n} is not in 1..{SEQ_MAX}"))
            return
        last = self.delivered[j] & SEQ_MAX
        if n > last + self.pending_max:
            detail = f"phantom of message {n} of slot {j} while {last} is delivered"
            out.reject.append(Reject(peer, TOO_FAR_AHEAD, detail, True))
            return
        fault = context_fault(
            phantom.context, j << SEQ_BITS | n, self.delivered, self.slot
        )
        if fault is not None:
            out.reject.append(Reject(peer, fault[0], fault[1]))
            return
        if n <= last or not self.stability:
            return  # message n itself says more
        known = self.phantoms.get(j)
        newest: dict[int, int] = {} if known is None else known[1]
        for d in phantom.context:
            k = d >> SEQ_BITS
            if newest.get(k, 0) < d:
                newest[k] = d
        self.phantoms[j] = (n if known is None or known[0] < n else known[0], newest)
        self.news = True

    def flush(self, out: Effects) -> None:
        """Find everything that is stable by now."""
        news = self.news or self.seen_length != len(self.log) or self.seen_clock != self.past.clock
        if self.stability and news:
            self._pass(out)

    def _use_phantoms(self) -> None:
        window = self.window
        for j in sorted(self.phantoms):
            n, newest = self.phantoms[j]
            last = self.delivered[j] & SEQ_MAX
            if n <= last:
                del self.phantoms[j]
            elif n == last + 1:
                bit = self.bits[j]
                for k in sorted(newest):
                    d = newest[k]
                    if self.delivered[k] >= d:
                        del newest[k]
                        tag = window.get(d)
                        if tag is not None:
                            tag.know |= bit
                if not newest:
                    del self.phantoms[j]

    def _pass(self, out: Effects) -> None:
        """Spread knowledge towards ancestors, report what everybody knows."""
        if self.phantoms:
            self._use_phantoms()
        log = self.log
        for tag in reversed(log):
            know = tag.know
            if know != tag.pushed:
                tag.pushed = know
                for before in tag.before:
                    before.know |= know
        mask = self.mask
        k = self.k
        unstable: list[Tag] = []
        for tag in log:
            if k and tag.packed not in self.k_told and (tag.know & mask).bit_count() >= k:
                self.k_told.add(tag.packed)
                out.k_stable.append(tag)
            if tag.know & mask == mask:
                out.stable.append(tag)
                if k:
                    self.k_told.discard(tag.packed)
            else:
                unstable.append(tag)
        self.log = unstable
        self.seen_length = len(unstable)
        self.due = len(unstable) + (
            self.stability_batch or max(PASS_DELIVERIES_MIN, len(unstable) >> 1)
        )
        self.news = False
        self.seen_clock = self.past.clock

    # ---- what can be asked -----------------------------------------------------------------------

    def known_by(self, tag: Tag) -> int:
        """How many members are known to have consumed this message, as of the last pass."""
        return (tag.know & self.mask).bit_count()

    def waiting(self) -> list[Waiting]:
        """Messages held back, by dot, each with the missing dot it waits for."""
        watched: dict[int, int] = {}
        for chain in self.watchers.values():
            held: Held | None = chain
            while held is not None:
                watched[held.packed] = held.missing
                held = held.next
        return [Waiting(d, watched.get(d, d - 1)) for d in sorted(self.pending)]

    def words(self) -> int:
        """Metadata in words, counted as the thesis counts (8.3.1): per message held, 2 for the dot,
        2 per predecessor, 1 for the stage, the bits of ``know`` once delivered; 2 per watched dot;
        and the delivered vector."""
        knows = (len(self.delivered) + 63) // 64
        words = len(self.delivered) + 2 * len(self.stream_delivered)
        for tag in self.window.values():
            words += 3 + knows + 2 * (len(tag.predecessors) + len(tag.hidden))
        for message in self.pending.values():
            named = len(message.context) + len(message.stream_context) + len(message.hidden)
            words += 3 + 2 * named
        words += 2 * len(self.watchers)
        for _, newest in self.phantoms.values():
            words += 1 + 2 * len(newest)
        return words


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
)
