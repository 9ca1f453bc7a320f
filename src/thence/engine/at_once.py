"""Stability at once: everything that is stable is told by the step that made it so.

``Stability`` looks in passes, which is cheap per message and late.  Here (``stability_batch=1``)
sets of messages are kept instead, as the bits of integers: bit p stands for ``log[p]``.  What each
member is known to have consumed is one such set, what is stable is in all of them, and a delivery
costs a few operations on whole sets.

Who has consumed what
    The *reach* of a message is itself and what is before it: what its sender had consumed, and the
    reaches of what it names.  The sender has consumed the reach; so has the announcer of a usable
    phantom that of each message it names, and this node that of each message its application took.

    Reaches are remembered for the newest few messages of each origin, because those are what
    others name; any other is found by walking back to where all is known.  So the sets take at most
    N * (1 + NEWEST) bits for each message: memory is linear in what is not stable.

Who is awaited
    A few members such that each message that is not stable lacks one of them.  Until one of these
    sends or announces something nothing can become stable, not even what comes meanwhile: that
    lacks all of them.  So the deliveries of all others only go into the log, and get their places
    in the next ``flush``, when the application has its message.  This is the watched dot of a held
    message once more (engine/delivery.py), and what Min is to the matrix of algorithm 7.

When it is told
    What a delivery, a broadcast or a phantom completes, by that step.  What only this application
    had to take, by the next step of any kind: a driver calls ``flush`` when the application took
    something.  In the order of delivery.

Invariants
    ``log[:seen]`` have places: ``Tag.pushed`` is its own, or STABLE.  Members' sets are closed
    towards what is before.  Between steps nothing that is in all of them is not told.

What was told leaves the log in a ``flush``, once it is more than a quarter of it: the others get
new places then.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from typing import Final

from thence.causal.dot import SEQ_BITS
from thence.engine.effects import Effects
from thence.engine.stability import Stability, words_of
from thence.engine.tag import STABLE, Past, Tag

NEWEST: Final = 4
"""Messages of an origin whose reach is remembered ..."""
SHORT: Final = 8
"""... except, from the second on, those that name so few that walking back costs little ..."""
SHORT_LOG: Final = 64
"""... unless all sets are as small as this anyway."""
AWAIT_MEMBERS_MIN: Final = 9
"""In smaller groups each step looks: to know who is awaited would cost more."""
TOLD_MIN: Final = 8
TOLD_SHARE: Final = 4
"""Up to a quarter of the log was told, and in a short one up to TOLD_MIN messages."""

Run = tuple[int, int, int]
"""Places that stay next to each other: the first, what it becomes, how many."""


class StabilityAtOnce(Stability):
    """What is delivered here and not stable, and some that was told, in order of delivery."""

    def __init__(self, past: Past, slot: int, k: int) -> None:
        super().__init__(past, True, 1, k)
        self.slot = slot
        self.members: list[int] = []
        """Those who must know: their slots."""
        self.consumed: list[int] = []
        """By slot: what that member is known to have consumed."""
        self.fresh = 0
        """What somebody is known to have consumed since the last flush, and was not before."""
        self.told = 0
        """What is stable and still in the log."""
        self.seen = 0
        """So many of the log have places; the others came since the last flush."""
        self.noticed = 0
        """None from ``seen`` up to here is of an awaited member."""
        self.taken = 0
        """The application took everything before this place."""
        self.awaited: list[int] = []
        """See above; empty: not known."""
        self.announcers: list[int] = []
        """Whose phantoms came since the last flush."""

    def admit(self, mask: int, slots: int) -> None:
        """Those who must know are the members in ``mask``, out of so many slots."""
        super().admit(mask, slots)
        self.members = [slot for slot in range(slots) if mask >> slot & 1]
        self.awaited = []
        while len(self.consumed) < slots:
            self.consumed.append(0)

    def dismiss(self, slot: int) -> None:
        """That member need not know any more: everything is worth a look."""
        super().dismiss(slot)
        self.fresh = (1 << self.seen) - 1

    def heard(self, origin: int, seq: int, context: tuple[int, ...]) -> None:
        """A phantom, checked: origin has consumed the context and will send ``seq`` next."""
        super().heard(origin, seq, context)
        self.announcers.append(origin)

    def look(self, delivered: list[int], out: Effects) -> None:
        """After a step: tell what it made stable, if it can have made anything so."""
        awaited = self.awaited
        if awaited and not (self.phantoms or self.k):
            log = self.log
            end = len(log)
            for place in range(self.noticed, end):
                if log[place].packed >> SEQ_BITS in awaited:
                    break
            else:
                self.noticed = end
                taken = self.taken
                if self.slot not in awaited or taken == end or log[taken].index < 0:
                    return
        self._find(delivered, out)

    def flush(self, delivered: list[int], out: Effects) -> None:
        """Find everything that is stable by now, and tidy up while the application is busy."""
        self._find(delivered, out)
        told = self.told.bit_count()
        if told == self.seen or (told > TOLD_MIN and TOLD_SHARE * told > self.seen):
            self._drop_settled()

    def _find(self, delivered: list[int], out: Effects) -> None:
        """Tell what all know by what happened since the last time."""
        log = self.log
        start = self.seen
        end = len(log)
        if start < end:
            self._place(start)
            self.seen = self.noticed = end
        if self.phantoms:
            self._use_news(start, delivered)
        if self.taken < end and log[self.taken].index >= 0:
            self._look_at_taken()
        fresh = self.fresh
        if not fresh:
            return
        self.fresh = 0
        if self.k:
            self._tell_k([log[place] for place in _places(fresh & ~self.told)], out)
        consumed = self.consumed
        for slot in self.awaited:
            fresh &= consumed[slot]
            if not fresh:
                return
        for slot in self.members:
            fresh &= consumed[slot]
        fresh &= ~self.told
        if fresh:
            self._tell(fresh, out)
        if len(self.members) >= AWAIT_MEMBERS_MIN:
            self._await()

    def known_by(self, tag: Tag) -> int:
        """How many members are known to have consumed this message, as of the last flush."""
        place = tag.pushed
        is_placed = 0 <= place < self.seen and self.log[place] is tag
        if place == STABLE or (is_placed and not self.k):
            for slot in self.members:
                if place == STABLE or self.consumed[slot] >> place & 1:
                    tag.mark(slot)
        return super().known_by(tag)

    def words(self, slots: int) -> int:
        """The same, the sets, and what was told and is still in the log."""
        sets = [*self.consumed, self.fresh, self.told]
        words = self.told.bit_count() + sum([words_of(places) for places in sets])
        return super().words(slots) + words

    def _place(self, start: int) -> None:
        """Those of the log from there on were delivered or sent."""
        consumed, rows = self.consumed, self.past.rows
        place = start
        for tag in self.log[start:]:
            packed = tag.packed
            slot = packed >> SEQ_BITS
            tag.pushed = place
            reach = 1 << place
            if slot != self.slot:  # what this node took since it sent is not before what it sent
                reach |= consumed[slot]
            for before in tag.before:
                if before.reach:
                    reach |= before.reach
                elif before.pushed != STABLE:
                    reach = self._walk_back(reach, before)
            if tag.previous is not None:
                reach = self._walk_back(reach, tag.previous)
            tag.reach = reach
            row = rows[slot]
            older = row.get(packed - 1)
            if older is not None and (place < SHORT_LOG or len(older.before) > SHORT):
                older = row.get(packed - NEWEST)
            if older is not None:
                older.reach = 0
            if tag.aside is None or not tag.aside.hollow:
                self._learn(slot, reach)
            place += 1

    def _walk_back(self, reach: int, tag: Tag) -> int:
        """A set that is closed towards what is before, joined with the reach of a message."""
        work = [tag]
        for each in work:  # grows while it is walked
            if each.reach:
                reach |= each.reach
            elif each.pushed != STABLE and not reach >> each.pushed & 1:
                reach |= 1 << each.pushed
                work.extend(each.before)
                if each.previous is not None:
                    work.append(each.previous)
        return reach

    def _learn(self, slot: int, reach: int) -> None:
        """The member in that slot has consumed all of this."""
        consumed = self.consumed[slot]
        fresh = reach & ~consumed
        self.consumed[slot] = consumed | reach
        self.fresh |= fresh
        if self.k:  # all that is fresh will be asked for; without k ``known_by`` marks
            for place in _places(fresh):
                self.log[place].mark(slot)

    def _look_at_taken(self) -> None:
        log = self.log
        start = place = self.taken
        while place < self.seen and log[place].index >= 0:
            place += 1
        self.taken = place
        if not self.past.hollows:
            self._learn(self.slot, (1 << place) - (1 << start))
            return
        for tag in log[start:place]:  # nobody takes a hollow one, but something after it
            if tag.pushed != STABLE and not tag.hollow:
                self._learn(self.slot, self._walk_back(0, tag))

    def _use_news(self, start: int, delivered: list[int]) -> None:
        """Phantoms that came, or for which something that they waited for did."""
        usable = set(self.announcers)
        self.announcers.clear()
        for tag in self.log[start:]:
            k = tag.packed >> SEQ_BITS
            for j, (_, newest) in self.phantoms.items():
                if j == k or k in newest:
                    usable.add(j)
        for j in sorted(usable):
            for tag in self._vouched(j, delivered):
                if tag.pushed != STABLE:
                    self._learn(j, self._walk_back(0, tag))

    def _tell(self, ripe: int, out: Effects) -> None:
        """All members have consumed these."""
        log, stable = self.log, out.stable
        for place in _places(ripe):
            tag = log[place]
            tag.pushed = STABLE
            tag.reach = 0
            stable.append(tag)
            if self.k:
                self.k_told.discard(tag.packed)
        self.told |= ripe

    def _await(self) -> None:
        """Choose few: those that served last time are asked first."""
        consumed = self.consumed
        left = (1 << self.seen) - 1 & ~self.told
        awaited: list[int] = []
        for slot in self.awaited + self.members:
            if not left:
                break
            others = left & consumed[slot]
            if others != left:
                left = others
                awaited.append(slot)
        self.awaited = awaited

    def _drop_settled(self) -> None:
        """Let go of what is stable.  The others get new places, and everything that counts by
        places follows."""
        kept: list[Tag] = []
        runs: list[Run] = []
        taken = 0
        for place in range(self.seen):
            tag = self.log[place]
            if tag.pushed == STABLE:
                tag.reach = 0
                continue
            if runs and runs[-1][0] + runs[-1][2] == place:
                first, to, count = runs[-1]
                runs[-1] = (first, to, count + 1)
            else:
                runs.append((place, len(kept), 1))
            if place < self.taken:
                taken += 1
            tag.pushed = len(kept)
            kept.append(tag)
        for tag in kept:
            if tag.reach:
                tag.reach = _moved(tag.reach, runs)
        self.consumed = [_moved(places, runs) for places in self.consumed]
        self.fresh = _moved(self.fresh, runs)
        self.told = self.settled = 0
        self.taken = taken
        came = [tag for tag in self.log[self.seen :] if tag.pushed != STABLE]
        self.seen = self.noticed = len(kept)
        self.log = kept + came


def _places(places: int) -> list[int]:
    """Those in a set, in order."""
    digits = bin(places)[:1:-1]
    found: list[int] = []
    place = digits.find("1")
    while place >= 0:
        found.append(place)
        place = digits.find("1", place + 1)
    return found


def _moved(places: int, runs: list[Run]) -> int:
    """The same set after places became others."""
    moved = 0
    for first, to, count in runs:
        moved |= (places >> first & (1 << count) - 1) << to
    return moved
