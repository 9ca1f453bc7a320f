"""Who is there: signs of life, suspicion, and the council's time in a group whose members change.

The part of the driver of an elastic group (elastic.py) that the clock drives.
"""

from __future__ import annotations

from typing import Any, Final

from thence.causal.dot import SEQ_MAX
from thence.client.acceptor import AcceptorState
from thence.client.council import Council
from thence.client.driver import Driver
from thence.client.events import Majority, Minority, Suspected, Trusted
from thence.client.reception import Reception
from thence.client.suspicion import Detector
from thence.config.node import MembershipConfig
from thence.engine.tag import STABLE
from thence.errors import JournalError, LocalProtocolError
from thence.wire import talk
from thence.wire.membership import CouncilMessage, View

ASLEEP_BEATS: Final = 4
"""A node that did nothing for so many beats was itself not there: others are not to blame."""


class Attendance(Driver):
    """The driver of an elastic group, as far as time is concerned."""

    council: Council
    view_told: View
    """The view that the application has reached."""
    is_out: bool
    born_us: int

    def _attend(self, membership: MembershipConfig, secret: bytes | None, now: float) -> None:
        self.membership = membership
        self.detector = Detector(membership.suspect_s, membership.suspect_phi)
        self.reception = Reception(self, membership, secret)
        self.replies: list[tuple[str, CouncilMessage]] = []
        """What is to be said to others by name."""
        self._now = now
        self._beat_at = now
        self._look_at = now
        self._is_stirred = False  # something happened that the council should look at
        self._is_leaving = False
        self._was_minority = False
        self._let_in: set[int] = set()  # while this node runs: they have join_s for the state
        self._lives: dict[int, int] = {}  # when each member's incarnation began, as it says

    def opened(self, slot: int, said: talk.Open, now: float) -> tuple[int, str] | None:
        """The peer opened the group; (code, sentence) when that cannot be."""
        if self._lives.setdefault(slot, said.life) != said.life:
            # It does not know what it has promised.
            return (
                talk.LOST_JOURNAL,
                f"{self.members.names[slot]} was started again without its journal: give it back, "
                "or evict it and let it join as a new incarnation",
            )
        return super().opened(slot, said, now)

    @property
    def is_leaving(self) -> bool:
        """Whether this node wants to leave, or has."""
        return self._is_leaving

    def leave(self, now: float) -> None:
        """Send no more; leave when everybody has what was sent."""
        self._now = now
        self._is_leaving = True
        self._beat_at = now

    def _promise(self) -> None:
        if self._ledger is not None and self.council.dirty:
            self._ledger.promised(self.council.state())
        self.council.dirty = False

    def _promises(self) -> AcceptorState:
        return self.council.state()

    def reached(self, slot: int) -> int:
        """The number of the last message of that member that is delivered here."""
        last: int = self.engine.delivered[slot] & SEQ_MAX
        return last

    @property
    def is_full(self) -> bool:
        """Whether broadcasts wait because too much is not stable."""
        return self.unstable >= self._unstable_max

    def hurry_beat(self) -> None:
        """There is something that the others should know soon."""
        self._beat_at = min(self._beat_at, self._now)

    def deadline(self) -> float | None:
        """When ``tick`` is due."""
        due = super().deadline()
        if self.failed:
            return due
        at = min(self._beat_at, self._look_at)
        return at if due is None else min(at, due)

    def tick(self, now: float) -> None:
        """Do what is due."""
        self._now = now
        super().tick(now)
        if self.failed:  # who is silent is evicted, and the others go on
            return
        if self._is_stirred or self._is_leaving or now >= min(self._look_at, self._beat_at):
            self._is_stirred = False
            try:
                self._sit(now)
            except JournalError as error:  # ``commit`` says it
                self.failed = str(error)

    def _sit(self, now: float) -> None:
        """See to the membership; not in every turn, because most have nothing to do with it."""
        council, beat_s = self.council, self.membership.beat_ms / 1000
        if now > self._look_at + ASLEEP_BEATS * beat_s:
            self.detector.awoke(now, now - self._look_at)
        if not self.is_out:
            self._look(now)
            self._try_to_leave()
            council.tick(now)
        self.reception.tick(now)
        if now >= self._beat_at:
            self._beat_at = now + beat_s
            beat = council.beat()
            for each in council.view.members:
                if each.slot != self.slot:
                    self.replies.append((each.name, beat))
        due = council.deadline()
        self._look_at = now + beat_s if due is None else min(due, now + beat_s)

    def _look(self, now: float) -> None:
        """Who does not answer."""
        config, detector, council = self.membership, self.detector, self.council
        suspects: set[int] = set()
        condemned = {*council.sentenced}
        is_full = config.evict_full and self.is_full
        for slot in council.others:
            silence = detector.silence(slot, now)
            if slot in council.up:
                if detector.is_suspect(slot, now):
                    suspects.add(slot)
                    if config.evict_s and (silence >= config.evict_s or is_full):
                        condemned.add(slot)
            elif silence >= config.join_s:
                suspects.add(slot)
                # Of others than newcomers it is only not known: a founder may be late, and this
                # node may have forgotten it in a restart.
                if slot in self._let_in or (config.evict_s and silence >= config.evict_s):
                    condemned.add(slot)
        suspects |= condemned
        for slot in sorted(suspects ^ council.suspects):
            member = council.view.member(slot)
            if member is not None:
                self._tell_suspicion(member.id, slot in suspects, detector.silence(slot, now))
        council.suspects = frozenset(suspects)
        council.condemned = frozenset(condemned)
        if council.is_minority != self._was_minority:
            self._was_minority = council.is_minority
            self._tell_minority()

    def evict(self, name: str, is_dead: bool, now: float) -> None:
        """An operator wants a member out.  ``is_dead``: vouches that it does not run any more, so
        that it need not be counted."""
        self._now = now
        self.require_member()
        member = self.council.view.named(name)
        if member is None:
            known = ", ".join(each.name for each in self.council.view.members)
            raise LocalProtocolError(f"{name} is no member of {self.group}; members are {known}")
        if member.slot == self.slot:
            raise LocalProtocolError(f"{name} is this node itself: let it leave")
        self.council.sentenced |= {member.slot}
        if is_dead:
            self.council.vouched |= {member.slot}
        self._beat_at = now
        self.tick(now)

    def _tell_suspicion(self, member: str, is_suspect: bool, silence_s: float) -> None:
        key = f"suspect {member}"
        if is_suspect:
            self._notices[key] = lambda number: Suspected(self, number, member, silence_s)
        else:
            self._notices[key] = lambda number: Trusted(self, number, member)

    def _tell_minority(self) -> None:
        members = self.council.view.members
        there = tuple(each.id for each in members if each.slot not in self.council.suspects)
        everybody = tuple(each.id for each in members)
        if self._was_minority:
            self._notices["minority"] = lambda number: Minority(self, number, there, everybody)
        else:
            self._notices["minority"] = lambda number: Majority(self, number)

    def _try_to_leave(self) -> None:
        """Ask to be let go once everybody is known to have what was sent here."""
        if not self._is_leaving or self.slot in self.council.leaves or self.reception.is_busy:
            return
        rows: dict[int, Any] = self.client.past.rows[self.slot]
        if all(tag.pushed == STABLE for tag in rows.values()):
            self.council.leave(self.client.sent & SEQ_MAX)
            self._beat_at = self._now
