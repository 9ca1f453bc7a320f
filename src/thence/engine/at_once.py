"""Stability at once: everything that is stable is told by the step that made it so.

``Stability`` looks in passes, which is cheap per message and late.  Here (``stability_batch=1``)
each step spreads only what it changed.  A change is always one member that is known to have
consumed one message: the sender of a delivered message, the announcer of a usable phantom, this
node when its application took something.  A worklist sets that member's bit on the ancestors and
stops wherever it is set already.

Invariants, between steps
    ``know`` is closed towards ancestors: who has the bit of a message has it on all before it.  So
    the worklist may stop, and a message is known by all no earlier than what is before it.  The own
    bit needs no spreading, because an application takes what is before a message first; unless
    there are hollow messages, which nobody takes.

    Whatever all members know was told.  Each bit is set in one place, and looked at there; the own
    one is set by the client, so what the application took is looked at in the next step.

When it is told
    What a delivery, a broadcast or a phantom completes, by that step.  What only this application
    had to take, by the next step of any kind: a driver calls ``flush`` when the application took
    something, which costs what was taken.

Order
    Of what one step finds, as the application took it: a linear extension of the causal order, with
    own messages in their place.

A step that delivers many messages at once may find that spreading one by one costs more than a
pass: once it has walked over as many messages as there are, it makes one.  So a step never costs
more than two passes.  A change of the members is looked at in a pass too.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from collections import deque

from thence.causal.dot import SEQ_BITS
from thence.engine.effects import Effects
from thence.engine.stability import PASS_MESSAGES_MIN, Stability
from thence.engine.tag import LANE_BITS, STABLE, Past, Tag


class StabilityAtOnce(Stability):
    """What is delivered here and not stable; ``log`` has what was delivered since the last step."""

    def __init__(self, past: Past, slot: int, k: int) -> None:
        super().__init__(past, True, 1, k)
        self.slot = slot
        self.untaken: deque[Tag] = deque()
        """Delivered, and not taken by the application when the last step looked; in order."""
        self.announcers: list[int] = []
        """Whose phantoms came since the last step."""
        self.all_changed = False
        """The next step is a pass."""
        self.changed: list[Tag] = []
        """With k: what became known by one more in this step."""

    def dismiss(self, slot: int) -> None:
        """That member need not know any more."""
        super().dismiss(slot)
        self.all_changed = True

    def resume(self) -> None:
        """The log was filled from a former life."""
        super().resume()
        self.all_changed = True

    def heard(self, origin: int, seq: int, context: tuple[int, ...]) -> None:
        """A phantom, checked: origin has consumed the context and will send ``seq`` next."""
        super().heard(origin, seq, context)
        self.announcers.append(origin)

    def flush(self, delivered: list[int], out: Effects) -> None:
        """What the application took since the last step may make something stable."""
        self.look(delivered, out)

    def look(self, delivered: list[int], out: Effects) -> None:
        """Spread what changed since the last step, and tell what all know by that."""
        ripe: list[Tag] = []
        if self.all_changed or not self._spread_changes(delivered, ripe):
            self._look_at_all(delivered, out)
            return
        if self.changed:
            self._tell_changed(out)
        if ripe:
            if len(ripe) > 1:
                ripe.sort(key=_index)
            for tag in ripe:
                if tag.pushed != STABLE:
                    tag.pushed = STABLE
                    out.stable.append(tag)

    def _spread_changes(self, delivered: list[int], ripe: list[Tag]) -> bool:
        """Whether it was worth it; if not, a pass must finish it."""
        untaken, log = self.untaken, self.log
        while untaken and untaken[0].index >= 0:
            self._taken(untaken.popleft(), ripe)
        if self.phantoms:
            self._use_news(delivered, ripe)
        left = self.past.kept
        for tag in log:
            if left < 0:
                return False
            if tag.aside is None or not tag.aside.hollow:
                left -= self._spread(tag.packed >> SEQ_BITS, tag, ripe)
            if tag.index < 0:
                untaken.append(tag)
        log.clear()
        return True

    def _taken(self, tag: Tag, ripe: list[Tag]) -> None:
        """The application took this: the client has set the own bit, if it was not hollow."""
        if tag.pushed == STABLE:
            return
        if self.past.hollows and tag.knows(self.slot):
            self._spread(self.slot, tag, ripe)
            return
        if tag.know & self.mask == self.mask and not (self.wide and self._lacks_wide(tag)):
            ripe.append(tag)
        if self.k:
            self.changed.append(tag)

    def _use_news(self, delivered: list[int], ripe: list[Tag]) -> None:
        """Phantoms that came, or for which something that they waited for did."""
        usable = set(self.announcers)
        self.announcers.clear()
        for tag in self.log:
            k = tag.packed >> SEQ_BITS
            for j, (_, newest) in self.phantoms.items():
                if j == k or k in newest:
                    usable.add(j)
        for j in sorted(usable):
            for tag in self._vouched(j, delivered):
                if tag.pushed != STABLE and not tag.knows(j):
                    tag.mark(j)
                    self._spread(j, tag, ripe)

    def _spread(self, slot: int, tag: Tag, ripe: list[Tag]) -> int:
        """The member in that slot has consumed this message, so all before it too; how many
        messages were walked over."""
        work = [tag]  # grows while it is walked
        if slot < LANE_BITS:
            bit = 1 << slot
            for each in work:
                previous = each.previous
                if previous is not None and not previous.know & bit and previous.pushed != STABLE:
                    previous.know |= bit
                    work.append(previous)
                for before in each.before:
                    if not before.know & bit and before.pushed != STABLE:
                        before.know |= bit
                        work.append(before)
        elif slot < 2 * LANE_BITS:
            bit = 1 << slot - LANE_BITS
            for each in work:
                previous = each.previous
                if previous is not None and not previous.know1 & bit and previous.pushed != STABLE:
                    previous.know1 |= bit
                    work.append(previous)
                for before in each.before:
                    if not before.know1 & bit and before.pushed != STABLE:
                        before.know1 |= bit
                        work.append(before)
        else:
            bit = 1 << slot - 2 * LANE_BITS
            for each in work:
                previous = each.previous
                if previous is not None and not previous.know2 & bit and previous.pushed != STABLE:
                    previous.know2 |= bit
                    work.append(previous)
                for before in each.before:
                    if not before.know2 & bit and before.pushed != STABLE:
                        before.know2 |= bit
                        work.append(before)
        mask, wide = self.mask, self.wide
        for each in work:
            if each.know & mask == mask and not (wide and self._lacks_wide(each)):
                ripe.append(each)
        if self.k:
            self.changed.extend(work)
        return len(work)

    def _tell_changed(self, out: Effects) -> None:
        """In causal order: what the application took, then what waits for it."""
        found = [tag for tag in self.changed if tag.index >= 0]
        found.sort(key=_index)
        waiting = {tag.packed for tag in self.changed if tag.index < 0}
        if waiting:
            found += [tag for tag in self.untaken if tag.packed in waiting]
        self.changed.clear()
        self._tell_k(found, out)
        # Only what is remembered can be told twice.
        if len(self.k_told) > 2 * self.past.kept + PASS_MESSAGES_MIN:
            self.k_told.intersection_update(self.past.window)

    def _look_at_all(self, delivered: list[int], out: Effects) -> None:
        """A pass over everything that is not stable."""
        found: list[Tag] = []
        for row in self.past.rows:
            found += [tag for tag in row.values() if tag.index >= 0 and tag.pushed != STABLE]
        found.sort(key=_index)
        found += [tag for tag in self.untaken if tag.index < 0]
        waiting = {tag.packed for tag in self.untaken}
        found += [tag for tag in self.log if tag.index < 0 and tag.packed not in waiting]
        self.log = found
        super().look(delivered, out)
        self.untaken = deque([tag for tag in self.log if tag.index < 0])
        self.log = []
        self.announcers.clear()
        self.changed.clear()
        self.all_changed = False


def _index(tag: Tag) -> int:
    return tag.index
