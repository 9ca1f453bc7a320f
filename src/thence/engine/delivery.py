"""What is delivered at a node, and what is held back and why: the flagship's delivery.

Message (j, n) is ready when (j, n - 1) and every dot of its context are delivered.  A message that
is not ready watches exactly one missing dot.  When that one is delivered the message goes on
scanning its context where it stopped: the scan never goes back, because what is delivered stays
delivered.  So each dot of a context is looked at once.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from heapq import heappop, heappush

from thence.causal.dot import SEQ_BITS
from thence.causal.members import Members
from thence.engine.aside import TagAside
from thence.engine.at_once import StabilityAtOnce
from thence.engine.base import PENDING_PER_ORIGIN_MAX
from thence.engine.chains import chain_tags
from thence.engine.effects import Effects
from thence.engine.held import Held, HeldChains, missing_dots, stop_watching
from thence.engine.reject import Waiting
from thence.engine.stability import Stability
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import Past, Tag
from thence.message import Chain, Message


class Delivery:
    """The messages of one node's middleware, up to their delivery."""

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
        self.knowledge: Stability
        if stability and stability_batch == 1:
            self.knowledge = StabilityAtOnce(past, slot, k)
        else:
            self.knowledge = Stability(past, stability, stability_batch, k)
        self.pending_max = max(1, pending_per_origin_max)
        self.rows = past.rows
        self.delivered: list[int] = []
        self.latest: list[Tag] = []
        """The last delivered tag of each slot: what contexts name most, without hashing."""
        self.is_member: list[bool] = []
        self.ahead: list[int] = []
        """By slot, no dot above this one is held back."""
        self.admit()
        self.arrivals = 0
        self.pending: dict[int, tuple[int, Message]] = {}
        """Held back, with the order of arrival.  The first of an origin watches a dot; the others
        are found when the one before is delivered."""
        self.chains = HeldChains()
        """The same, those that came in chains."""
        self.watchers: dict[int, Held] = {}
        """By missing dot, those who watch it: a chain, newest first, nearly always of one."""
        self.stream_delivered: dict[int, int] = {}
        self.held_aside: dict[int, int] = {}
        """By slot, how many wait for the one before them on all its streams together."""

    def admit(self) -> None:
        """Follow ``members``: room for new slots, nothing more from those that ended."""
        mask = self.members.mask
        for slot in range(len(self.delivered), len(self.members.names)):
            self.delivered.append(slot << SEQ_BITS)
            self.ahead.append(slot << SEQ_BITS)
            if slot >= len(self.rows):
                self.rows.append({})
            self.latest.append(Tag(self.past, -1, (), b"", []))  # stands for none
            self.is_member.append(False)
        for slot in range(len(self.delivered)):
            self.is_member[slot] = mask >> slot & 1 == 1
        self.knowledge.admit(mask, len(self.delivered))

    def discard(self, slot: int) -> tuple[int, int]:
        """Throw away what is held back of this origin, as if it had never arrived: how many
        messages, and how many bytes of payload.

        Survivors of an eviction must agree on what they have of a member, and only what is
        delivered counts.  The same messages may be received again.  What others sent after them
        stays, and waits for them.
        """
        count, size = 0, 0
        for packed in [d for d, entry in self.pending.items() if entry[1].origin == slot]:
            count += 1
            size += len(self.pending.pop(packed)[1].payload)
        for chain in self.chains.drop(slot):
            payloads: list[bytes] = chain.payloads
            count += len(payloads)
            for payload in payloads:
                size += len(payload)
        if count:
            stop_watching(self.watchers, slot)
        self.held_aside.pop(slot, None)
        self.ahead[slot] = self.delivered[slot]
        return count, size

    def dismiss(self, slot: int) -> tuple[int, int]:
        """Follow ``members.remove(slot)``: nothing more is taken from that node, nor waited for
        on its account.  What was held back of it is discarded, as ``discard`` says.

        The next ``flush`` finds what only that node was not known to have consumed."""
        self.admit()
        self.knowledge.dismiss(slot)
        return self.discard(slot)

    def held(self) -> list[Message]:
        """The messages that are held back, in the order in which they came."""
        found: list[Message] = []
        for item in self.held_items():
            if isinstance(item, Chain):
                found.extend(item.messages())
            else:
                found.append(item)
        return found

    def held_items(self) -> list[Message | Chain]:
        """The same as they came, with chains whole."""
        found: list[tuple[int, Message | Chain]] = []
        for arrival, message in self.pending.values():
            found.append((arrival, message))
        for arrival, chain in self.chains.by_first.values():
            found.append((arrival, chain))
        return [item for _, item in sorted(found, key=_arrival)]

    def is_held(self, packed: int) -> bool:
        """Whether a message is held back."""
        return packed in self.pending or self.chains.has(packed)

    def waiting(self) -> list[Waiting]:
        """Messages held back, by dot, each with the missing dot it waits for."""
        watched = missing_dots(self.watchers)
        dots = sorted([*self.pending, *self.chains.dots()])
        return [Waiting(d, watched.get(d, d - 1)) for d in dots]

    def words(self) -> int:
        """Metadata in words (docs/reference/engines.md): per message held back its dot, what it
        names and its stage; per watched dot 2; per stream 2; and stability."""
        words = 2 * len(self.stream_delivered) + 2 * len(self.watchers)
        for message in self.held():
            named = len(message.context) + len(message.stream_context) + len(message.hidden)
            words += 3 + 2 * named
        return words + self.knowledge.words(len(self.delivered))

    def _hold(self, packed: int, message: Message) -> None:
        self.pending[packed] = (self.arrivals, message)
        k = packed >> SEQ_BITS
        if k < STREAM_BASE and self.ahead[k] < packed:
            self.ahead[k] = packed

    def _last(self, k: int) -> int:
        """The last delivered dot of a slot or stream."""
        if k < STREAM_BASE:
            return self.delivered[k]
        return self.stream_delivered.get(k, k << SEQ_BITS)

    def _ready(self, held: Held) -> bool:
        """Go on scanning where the scan stopped; watch the first missing dot, if there is one."""
        context = held.message.context
        missing = -1
        for i in range(held.scanned, len(context)):
            d = context[i]
            if self.delivered[d >> SEQ_BITS] < d:
                held.scanned = i
                missing = d
                break
        else:
            held.scanned = len(context)
            for d in held.named:
                if self._last(d >> SEQ_BITS) < d:
                    missing = d
                    break
        if missing < 0:
            return True
        held.missing = missing
        held.next = self.watchers.get(missing)
        self.watchers[missing] = held
        return False

    def _deliver(self, packed: int, message: Message, named: tuple[int, ...], out: Effects) -> None:
        k = packed >> SEQ_BITS
        tag = Tag(self.past, packed, message.context, message.payload, [])
        out.deliver.append(tag)
        edges = message.context
        aside = message.aside
        if aside is not None:
            tag.aside = TagAside(aside.hidden, named, aside.to)
            edges = edges + aside.hidden
            if aside.to and self.slot not in aside.to and k != self.slot:
                self._make_hollow(tag, tag.aside)
        if k >= STREAM_BASE:
            self.stream_delivered[k] = packed
            return
        self.delivered[k] = packed
        if self.stability:
            rows = self.rows
            tag.before = [rows[d >> SEQ_BITS][d] for d in edges if d in rows[d >> SEQ_BITS]]
            self.latest[k] = tag
            rows[k][packed] = tag
            self.past.kept += 1
            self.knowledge.log.append(tag)

    def _deliver_chain(self, last: int, payloads: list[bytes], out: Effects) -> None:
        j = last >> SEQ_BITS
        tags = chain_tags(self.past, last, self.latest[j], payloads, self.knowledge.log)
        self.delivered[j] = last + len(tags)
        self.latest[j] = tags[-1]
        out.deliver.extend(tags)

    def _make_hollow(self, tag: Tag, aside: TagAside) -> None:
        """It is not for this node.  It tells nothing of its sender: only what the application is
        handed does, or a phantom."""
        aside.hollow = True
        tag.body = b""
        tag.know = tag.know1 = tag.know2 = 0
        self.past.hollows = True

    def _wake(self, packed: int, out: Effects) -> None:
        """Deliver everything that waited for this dot, directly or not; a worklist.

        What came first is tried first: it seldom has to wait for something that came later.
        """
        past, delivered, latest = self.past, self.delivered, self.latest
        rows, pending, watchers = self.rows, self.pending, self.watchers
        chains = self.chains.by_first
        log, deliver, stability = self.knowledge.log, out.deliver, self.stability
        ready = [packed]
        oldest: list[tuple[int, int]] = []  # a heap of (arrival, dot)
        while True:
            while ready:
                dot = ready.pop()
                if dot in watchers:
                    self._wake_watchers(watchers.pop(dot), ready, out)
                entry = pending.get(dot + 1)
                if entry is not None:
                    heappush(oldest, (entry[0], dot + 1))
                elif dot + 1 in chains:
                    heappush(oldest, (chains[dot + 1][0], dot + 1))
            if not oldest:
                return
            arrival, following = heappop(oldest)
            if following not in pending:
                self._wake_chain(following, ready, out)
                continue
            message = pending.pop(following)[1]
            if message.aside is not None or not stability:
                self._wake_next(following, message, arrival, ready, out)
                continue
            # The next of the same origin: the common case, as in ``receive``.
            context = message.context
            before: list[Tag] = []
            for d in context:
                newest = latest[d >> SEQ_BITS]
                if newest.packed == d:
                    before.append(newest)
                    continue
                known = rows[d >> SEQ_BITS].get(d)
                if known is not None:
                    before.append(known)
                elif delivered[d >> SEQ_BITS] < d:
                    pending[following] = (arrival, message)
                    held = Held(following, message, ())
                    held.scanned = context.index(d)
                    held.missing = d
                    held.next = watchers.get(d)
                    watchers[d] = held
                    break
            else:
                k = following >> SEQ_BITS
                tag = Tag(past, following, context, message.payload, before)
                delivered[k] = following
                deliver.append(tag)
                latest[k] = tag
                rows[k][following] = tag
                past.kept += 1
                log.append(tag)
                ready.append(following)

    def _wake_next(
        self, packed: int, message: Message, arrival: int, ready: list[int], out: Effects
    ) -> None:
        if message.aside is not None:
            self.held_aside[message.origin] -= 1
        held = Held(packed, message, self.past.named_by(message))
        if self._ready(held):
            self._deliver(packed, message, held.named, out)
            ready.append(packed)
        else:
            self.pending[packed] = (arrival, message)

    def _wake_watchers(self, held: Held, ready: list[int], out: Effects) -> None:
        chain = [held]
        while held.next is not None:
            held = held.next
            chain.append(held)
        for each in reversed(chain):  # in the order in which they began to watch
            if self._ready(each):
                del self.pending[each.packed]
                self._deliver(each.packed, each.message, each.named, out)
                ready.append(each.packed)

    def _wake_chain(self, first: int, ready: list[int], out: Effects) -> None:
        payloads: list[bytes] = self.chains.pop(first)[1].payloads
        self._deliver_chain(first - 1, payloads, out)
        end = first + len(payloads)
        ready.append(end - 1)
        if self.watchers:
            ready.extend(range(first, end - 1))


def _arrival(entry: tuple[int, Message | Chain]) -> int:
    return entry[0]
