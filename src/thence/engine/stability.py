"""Who is known to have consumed what: the flagship's stability, in passes.

``know`` of a delivered message has bit k when member k is known to have consumed it: its sender,
this node once the application took it, the sender of any delivered message after it, and the
announcer of a usable phantom that names it or something after it.  A pass walks the delivery log
backwards and ORs ``know`` into the predecessors where it changed, then forwards and reports what
all members know, in delivery order.  So ``know`` is closed towards ancestors after a pass, and
stability comes in causal order and once.

A phantom (j, n, context) says that j has consumed the context and will send (j, n) next; it is
usable once all of j below n is delivered here.  Once (j, n) itself is delivered it says no more
than that, unless (j, n) is hollow here: a message that is not handed over gives no knowledge.

A pass costs what is unstable, and the next one waits until the application has taken as many
messages again: amortised O(|context|) per message.  It is counted by what the application takes,
not by what is delivered to its queue: what it has not taken cannot be stable, so a burst of
deliveries alone is no reason to look.

The bits are kept in three lanes, because an integer of more than 62 bits is a heap object even in
the compiled form.  Groups of up to LANE_BITS slots use the first lane only; the third takes all
that the first two do not.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.effects import Effects
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import LANE_BITS, STABLE, Past, Tag
from thence.errors import LocalProtocolError

PASS_MESSAGES_MIN: Final = 16
NEVER: Final = 1 << 60


class Stability:
    """What is delivered here and not stable, and what is known about it."""

    def __init__(self, past: Past, enabled: bool, batch: int, k: int) -> None:
        self.past = past
        self.enabled = enabled
        self.batch = batch
        self.k = k
        self.k_told: set[int] = set()
        """Told to be known to k, and not stable."""
        self.wide = False
        """More slots than fit the first lane."""
        self.mask = 0
        self.mask1 = 0
        self.mask2 = 0
        self.log: list[Tag] = []
        """Delivered and not stable, in order of delivery."""
        self.settled = 0
        """Of these, so many were settled while there are no passes."""
        self.due_clock = self._next_pass() if enabled else NEVER
        """The client's clock at which the next pass is due."""
        self.phantoms: dict[int, tuple[int, dict[int, int]]] = {}
        """Per origin: the largest announced number, and the newest dot named per slot."""
        self.news = False
        """A phantom came since the last pass."""
        self.seen_clock = 0
        self.seen_length = 0

    def admit(self, mask: int, slots: int) -> None:
        """Those who must know are the members in ``mask``, out of so many slots."""
        self.wide = slots > LANE_BITS
        lane = (1 << LANE_BITS) - 1
        self.mask = mask & lane
        self.mask1 = mask >> LANE_BITS & lane
        self.mask2 = mask >> 2 * LANE_BITS

    def dismiss(self, slot: int) -> None:
        """That member is no longer one of them: what it announced is of no use, and the next look
        is worth it."""
        self.phantoms.pop(slot, None)
        self.news = True

    def heard(self, origin: int, seq: int, context: tuple[int, ...]) -> None:
        """A phantom, checked: origin has consumed the context and will send ``seq`` next."""
        known = self.phantoms.get(origin)
        newest: dict[int, int] = {} if known is None else known[1]
        for d in context:
            k = d >> SEQ_BITS
            if newest.get(k, 0) < d:
                newest[k] = d
        self.phantoms[origin] = (seq if known is None or known[0] < seq else known[0], newest)
        self.news = True

    def flush(self, delivered: list[int], out: Effects) -> None:
        """A pass, unless nothing has changed since the last one."""
        news = self.news or self.seen_length != len(self.log) or self.seen_clock != self.past.clock
        if self.enabled and news:
            self.look(delivered, out)

    def look(self, delivered: list[int], out: Effects) -> None:
        """A pass: spread knowledge towards ancestors, report what everybody knows."""
        if self.phantoms:
            self._use_phantoms(delivered)
        log = self.log
        if self.wide:
            self._spread_wide(log)
        else:
            for tag in reversed(log):
                know = tag.know
                if know != tag.pushed:
                    tag.pushed = know
                    if tag.previous is not None:
                        tag.previous.know |= know
                    for before in tag.before:
                        before.know |= know
        if self.k:
            self._tell_k(log, out)
        mask, wide, stable = self.mask, self.wide, out.stable
        unstable: list[Tag] = []
        for tag in log:
            if tag.know & mask == mask and not (wide and self._lacks_wide(tag)):
                tag.pushed = STABLE
                stable.append(tag)
            else:
                unstable.append(tag)
        if self.k and len(unstable) < len(log):  # nobody asks again
            self.k_told.difference_update([tag.packed for tag in log if tag.pushed == STABLE])
        self.log = unstable
        self.seen_length = len(unstable)
        self.seen_clock = self.past.clock
        self.due_clock = self._next_pass()
        self.news = False

    def settle(self, tags: Iterable[Tag]) -> None:
        """Take these as stable without a word: all members know them (``Tagged.settle``)."""
        settled: dict[int, Tag] = {}
        for tag in tags:
            known = self.past.known(tag.packed)
            if known is not tag or tag.index < 0 or tag.packed >> SEQ_BITS >= STREAM_BASE:
                raise LocalProtocolError(f"{tag} cannot be stable: not consumed here, or forgotten")
            previous = () if tag.previous is None else (tag.previous,)
            for before in (*tag.before, *previous):
                # Knowledge of a stable message goes no further, so nothing before it may need it.
                if before.pushed != STABLE and before.gone < 0 and before.packed not in settled:
                    raise LocalProtocolError(f"{tag} cannot be stable before {before} is")
            settled[tag.packed] = tag
        for tag in settled.values():
            tag.pushed = STABLE
            tag.know |= self.mask
            tag.know1 |= self.mask1
            tag.know2 |= self.mask2
            self.k_told.discard(tag.packed)
        self.settled += len(settled)
        if self.due_clock != NEVER or 2 * self.settled > len(self.log):
            self._drop_settled()

    def pause(self) -> None:
        """No pass until ``resume``, whatever is due: what happens is of a former life, and so are
        the members of then."""
        self.due_clock = NEVER

    def resume(self) -> None:
        """The log was filled from a former life: the next look is worth it."""
        self._drop_settled()
        self.news = True
        self.due_clock = self._next_pass() if self.enabled else NEVER

    def _drop_settled(self) -> None:
        self.log = [tag for tag in self.log if tag.pushed != STABLE]
        self.settled = 0

    def known_by(self, tag: Tag) -> int:
        """How many members are known to have consumed this message, as of the last pass.  Of a
        multicast only its sender and those it is for count."""
        if tag.aside is not None and tag.aside.to:
            return sum([tag.knows(slot) for slot in (tag.origin, *tag.aside.to)])
        count = (tag.know & self.mask).bit_count()
        if self.wide:
            count += (tag.know1 & self.mask1).bit_count() + (tag.know2 & self.mask2).bit_count()
        return count

    def words(self, slots: int) -> int:
        """Metadata of what is remembered and of kept phantoms (``Tagged.words``)."""
        words = 2 * len(self.k_told)
        for tag in self.past.window.values():
            named = len(tag.predecessors) + len(tag.hidden)
            words += 3 + (slots + 63) // 64 + 2 * named + words_of(tag.reach)
        for _, newest in self.phantoms.values():
            words += 1 + 2 * len(newest)
        return words

    def _next_pass(self) -> int:
        if self.batch == 1:
            return 0  # StabilityAtOnce
        # Two ticks of the clock a message: its delivery and its stable event.
        return self.past.clock + 2 * (self.batch or max(PASS_MESSAGES_MIN, len(self.log)))

    def _spread_wide(self, log: list[Tag]) -> None:
        for tag in reversed(log):
            know, know1, know2 = tag.know, tag.know1, tag.know2
            total = know + know1 + know2  # lanes only grow, so the sum tells whether one did
            if total != tag.pushed:
                tag.pushed = total
                if tag.previous is not None:
                    tag.previous.know |= know
                    tag.previous.know1 |= know1
                    tag.previous.know2 |= know2
                for before in tag.before:
                    before.know |= know
                    before.know1 |= know1
                    before.know2 |= know2

    def _lacks_wide(self, tag: Tag) -> bool:
        return tag.know1 & self.mask1 != self.mask1 or tag.know2 & self.mask2 != self.mask2

    def _tell_k(self, tags: list[Tag], out: Effects) -> None:
        for tag in tags:
            k = self.k
            if tag.aside is not None and tag.aside.to:
                if tag.aside.hollow:
                    continue
                k = min(k, len(tag.aside.to) + 1)  # all there are to have it
            if tag.packed not in self.k_told and self.known_by(tag) >= k:
                self.k_told.add(tag.packed)
                out.k_stable.append(tag)

    def _use_phantoms(self, delivered: list[int]) -> None:
        for j in sorted(self.phantoms):
            for tag in self._vouched(j, delivered):
                tag.mark(j)

    def _vouched(self, j: int, delivered: list[int]) -> list[Tag]:
        """What the phantom of this member names and is here by now, if the phantom is usable; it
        is not named again."""
        known = self.phantoms.get(j)
        found: list[Tag] = []
        if known is None:
            return found
        n, newest = known
        last = delivered[j] & SEQ_MAX
        if n <= last and not self.past.hollows:
            del self.phantoms[j]  # message n itself says more
        elif n <= last + 1:
            for k in sorted(newest):
                d = newest[k]
                if delivered[k] >= d:
                    del newest[k]
                    tag = self.past.rows[k].get(d)
                    if tag is not None:
                        found.append(tag)
            if not newest:
                del self.phantoms[j]
        return found


def words_of(places: int) -> int:
    """Of a set of messages, kept as bits."""
    return (places.bit_length() + 63) // 64
