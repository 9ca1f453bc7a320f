"""How members agree on the next view: one decree per view, and a flush for those who are evicted.

View v + 1 is chosen by single-decree Paxos among the members of view v.  Joins and leaves need
nothing more.  To evict somebody, phase 1 also *freezes* it: every other member throws away what it
holds back of it, takes nothing more of it, and says how far it has delivered it.  When all others
have the same (they fetch from each other what they lack), that is the *cut*, and a view without the
frozen can be proposed.  So an installed cut is final: everybody had it before it was proposed, and
it survives the crash of whoever holds it.

Pure: time is an argument.  What is to be sent is put into ``out``; of the messages of the group it
knows only how far each member's are delivered (``Plane``).

What is here must be written down before it is said (``state``), if this node may come back after a
crash as the same member.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from thence.client.acceptor import AcceptorState
from thence.wire.membership import (
    NO_BALLOT,
    Accept,
    Accepted,
    Ballot,
    Beat,
    CouncilMessage,
    Installed,
    Prepare,
    Promise,
    Pull,
    Refused,
    Request,
    View,
    is_name,
)

RESEND_S: Final = 0.2
"""What was not answered is asked again after so long."""
REQUEST_S: Final = 5.0
"""A request to join that nobody repeats is forgotten after so long."""
REQUESTS_MAX: Final = 1024


class Plane(Protocol):
    """The messages of the group, as far as the council has to do with them."""

    def reached(self, slot: int) -> int:
        """The number of the last message of that member that is delivered here."""

    def freeze(self, slots: Iterable[int]) -> None:
        """Throw away what is held back of these, and take nothing of them but relays."""

    def install(self, old: View, new: View) -> None:
        """This is the view now; nobody is frozen."""


class Proposal:
    """What a coordinator has under way."""

    def __init__(self, ballot: Ballot, suspects: frozenset[int]) -> None:
        self.ballot = ballot
        self.suspects = suspects
        self.promises: dict[int, Promise] = {}
        self.target: dict[int, int] | None = None
        self.holders: dict[int, int] = {}
        self.value: View | None = None
        self.accepted_by: set[int] = set()
        self.is_refused = False
        self.sent_at = 0.0


class Council:
    """One member's part in agreeing on views."""

    def __init__(self, slot: int, view: View, plane: Plane, is_up: bool = True) -> None:
        self.slot = slot
        self.view = view
        self._plane = plane
        self.out: list[tuple[int, CouncilMessage]] = []
        """What is to be sent, and to which slot."""
        self.joins: dict[str, tuple[Request, float]] = {}
        """By name, who wants to join, and until when that is remembered."""
        self._asked: dict[str, float] = {}  # the same of those who asked this node
        self.leaves: dict[int, int] = {}
        self.suspects: frozenset[int] = frozenset()
        """Members that do not answer: they do not coordinate."""
        self.condemned: frozenset[int] = frozenset()
        """Those of them that are to be evicted."""
        self.sentenced: frozenset[int] = frozenset()
        """Members that an operator wants out, wherever that was said: whoever coordinates must know
        of it."""
        self.vouched: frozenset[int] = frozenset()
        """Members that an operator says are dead: they are not counted."""
        self.up: set[int] = {slot} if is_up else set()
        """Members known to have the state."""
        self.dirty = False
        """``state`` has changed since it was written down."""
        self._stuck: dict[int, bool] = {}
        self.changes = 0
        """Views that were installed here."""
        self._reset()

    def _reset(self) -> None:
        self.promised: Ballot = NO_BALLOT
        self.accepted_in: Ballot = NO_BALLOT
        self.accepted: View | None = None
        self.frozen: set[int] = set()
        self.limit: dict[int, int] = {}
        self._told_limit = False
        self.proposal: Proposal | None = None
        self._round = 0
        self._stuck.clear()

    # ---- what is remembered ----------------------------------------------------------------------

    def state(self) -> AcceptorState:
        """What was promised so far."""
        return AcceptorState(
            self.view, self.promised, self.accepted_in, self.accepted,
            tuple(sorted(self.frozen)), tuple(sorted(self.limit.items())),
            self.leaves.get(self.slot, -1),
        )  # fmt: skip

    def resume(self, state: AcceptorState) -> None:
        """Go on with what was promised in a former life."""
        self.view = state.view
        self.promised = state.promised
        self.accepted_in, self.accepted = state.accepted_in, state.accepted
        self.frozen, self.limit = set(state.frozen), dict(state.limit)
        if state.leaving >= 0:
            self.leaves[self.slot] = state.leaving

    # ---- who is there ----------------------------------------------------------------------------

    @property
    def others(self) -> list[int]:
        """The slots of the other members."""
        return [each.slot for each in self.view.members if each.slot != self.slot]

    @property
    def is_member(self) -> bool:
        """Whether this node belongs to the view."""
        return self.view.member(self.slot) is not None

    @property
    def is_minority(self) -> bool:
        """Whether those that answer are too few to change anything."""
        dead = self.suspects | self.vouched
        there = [each.slot for each in self.view.members if each.slot not in dead]
        return not self.view.is_enough(there, self.vouched)

    @property
    def coordinator(self) -> int:
        """The first member that is not suspected."""
        dead = self.suspects | self.vouched
        slots = [each.slot for each in self.view.members]
        return next((slot for slot in slots if slot not in dead), self.slot)

    def want(self, request: Request, now: float, is_here: bool = True) -> None:
        """Somebody wants to join; ``is_here``: it asks this node.  Only then is it said to others,
        or members would remind each other for ever of one who has long gone away."""
        if self._is_known(request) or self.view.is_full or not is_name(request.name):
            return
        held = self.joins.get(request.name)
        if held is not None and held[0].ticket != request.ticket and held[1] > now:
            return  # the first one of that name
        if held is not None or len(self.joins) < REQUESTS_MAX:
            self.joins[request.name] = (request, now + REQUEST_S)
            if is_here:
                self._asked[request.name] = now + REQUEST_S

    def leave(self, seq: int) -> None:
        """This node wants to leave after its message of that number."""
        self.leaves[self.slot] = seq
        self.dirty = True

    def beat(self) -> Beat:
        """The sign of life of this node."""
        return Beat(
            self.view.num,
            self.slot in self.up,
            tuple(sorted(held[0] for name, held in self.joins.items() if name in self._asked)),
            tuple(sorted(self.leaves.items())),
            bool(self.frozen),
            tuple(sorted(self.sentenced)),
            tuple(sorted(self.vouched)),
        )

    # ---- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Coordinate, if it is this node's turn and there is something to do."""
        if self.joins or self._asked:
            self.joins = {name: held for name, held in self.joins.items() if held[1] > now}
            self._asked = {name: until for name, until in self._asked.items() if until > now}
        if not self.is_member or self.coordinator != self.slot or self.is_minority:
            self.proposal = None
            return
        suspects = self._to_evict()
        if not (suspects or self._wanted() or self._may_leave() or self._is_stuck()):
            if self.proposal is None or self.proposal.value is None:
                self.proposal = None
                return
        proposal = self.proposal
        if (
            proposal is None
            or proposal.is_refused
            or (proposal.value is None and proposal.suspects != suspects)
        ):
            self._round = max(self._round, self.promised[0]) + 1
            self.proposal = Proposal((self._round, self.slot), suspects)
            self._ask(now)
        elif now >= proposal.sent_at + RESEND_S:
            self._ask(now)

    def deadline(self) -> float | None:
        """When ``tick`` is due for what is under way."""
        return None if self.proposal is None else self.proposal.sent_at + RESEND_S

    def _to_evict(self) -> frozenset[int]:
        members = {each.slot for each in self.view.members}
        return frozenset((self.condemned | self.vouched) & members - {self.slot})

    def _wanted(self) -> list[Request]:
        """Those who want to join, and can, whoever came first."""
        wanted = [each for each, _ in self.joins.values() if self.view.named(each.name) is None]
        return wanted[: self._room(())] if wanted and not self.view.is_full else []

    def _room(self, removed: Iterable[int]) -> int:
        """How many may join in the next view: those that have the state and answer must be a quorum
        of it, or newcomers that never come for their state would stop the group for good."""
        kept = [each.slot for each in self.view.members if each.slot not in {*removed}]
        there = (self.up - self.suspects - self.vouched).intersection(kept)
        if not there:
            return 0
        return max(0, 2 * len(there) - len(kept) - (kept[0] not in there))

    def _is_known(self, request: Request) -> bool:
        """Whether it was let in before."""
        known = self.view.named(request.name), self.view.former(request.name)
        return any([each is not None and each.ticket == request.ticket for each in known])

    def _may_leave(self) -> bool:
        """Whether those who want to leave can: somebody with the state stays, or nobody at all."""
        left = {each.slot for each in self.view.members} - self.leaves.keys()
        return bool(self.leaves) and (not left or bool(left & self.up))

    def _is_stuck(self) -> bool:
        return bool(self.frozen) or any(self._stuck.values())

    def _ask(self, now: float) -> None:
        """Send what the proposal waits for to be answered, to those that have not answered."""
        proposal = self.proposal
        assert proposal is not None
        proposal.sent_at = now
        if proposal.value is not None:
            accept = Accept(self.view.num, proposal.ballot, proposal.value)
            self._spread(accept, proposal.accepted_by, now)
            return
        target = proposal.target or {}
        prepare = Prepare(
            self.view.num, proposal.ballot, tuple(sorted(proposal.suspects)),
            tuple(sorted(target.items())), tuple(sorted(proposal.holders.items())),
        )  # fmt: skip
        done = {
            slot
            for slot, promise in proposal.promises.items()
            if proposal.target is None or dict(promise.reached) == proposal.target
        }
        self._spread(prepare, done | proposal.suspects, now)

    def _spread(self, message: CouncilMessage, without: Iterable[int], now: float) -> None:
        """To every member but some; to this node at once and last, because it may end the round."""
        skipped = {*without}
        for slot in self.others:
            if slot not in skipped:
                self.out.append((slot, message))
        if self.slot not in skipped:
            self.receive(self.slot, message, now)

    # ---- what others say -------------------------------------------------------------------------

    def receive(self, slot: int, message: CouncilMessage, now: float) -> None:
        """A member, or somebody who was one or will be, says this."""
        if isinstance(message, Installed):
            if message.value.num > self.view.num:
                self.install(message.value)
            elif message.value.num < self.view.num:
                self.out.append((slot, Installed(self.view)))
            return
        number: int = message.view  # type: ignore[union-attr]
        if number != self.view.num or self.view.member(slot) is None:
            if slot != self.slot:
                self.out.append((slot, Installed(self.view)))
            return
        if not self.is_member:
            return  # who is out agrees on nothing any more, whoever asks
        if isinstance(message, Beat):
            self._heard(slot, message, now)
        elif isinstance(message, Prepare):
            self._prepare(slot, message)
        elif isinstance(message, Accept):
            self._accept(slot, message)
        elif self.proposal is not None and isinstance(message, Promise | Accepted | Refused):
            self._answered(self.proposal, slot, message, now)

    def _heard(self, slot: int, beat: Beat, now: float) -> None:
        if beat.is_up:
            self.up.add(slot)
        for request in beat.joins:
            self.want(request, now, is_here=False)
        for leaver, seq in beat.leaves:
            if self.view.member(leaver) is not None:
                self.leaves[leaver] = seq
        self._stuck[slot] = beat.is_stuck
        if beat.sentenced or beat.vouched:
            others = {*self.others}
            self.sentenced |= others.intersection(beat.sentenced)
            self.vouched |= others.intersection(beat.vouched)

    def _prepare(self, slot: int, message: Prepare) -> None:
        if message.ballot < self.promised:
            self._refuse(slot)
            return
        if message.ballot > self.promised:
            self.promised = message.ballot
            self.limit = {}
        self.frozen.update(each for each in message.suspects if each != self.slot)
        if not self.limit:
            self._plane.freeze(sorted(self.frozen))
            self.limit = dict(message.target)
            self._told_limit = False
        self.dirty = True
        self._promise()
        if self.limit and not self._told_limit:
            self._pull(dict(message.holders))

    def _refuse(self, slot: int) -> None:
        refused = Refused(self.view.num, self.promised)
        if slot != self.slot:
            self.out.append((slot, refused))
        elif self.proposal is not None:
            # It has promised a rival since: nobody else may be left to tell it so.
            self._answered(self.proposal, slot, refused, self.proposal.sent_at)

    def _pull(self, holders: Mapping[int, int]) -> None:
        """Ask for what is missing of the frozen."""
        for slot, limit in sorted(self.limit.items()):
            here = self._plane.reached(slot)
            if here < limit and holders.get(slot, self.slot) != self.slot:
                self.out.append((holders[slot], Pull(self.view.num, slot, here + 1, limit)))

    def advanced(self) -> None:
        """Messages of a frozen member were delivered: perhaps the promise can be kept now."""
        if self.limit and not self._told_limit and self._has_limit():
            self._promise()

    def _has_limit(self) -> bool:
        return all(self._plane.reached(slot) >= limit for slot, limit in self.limit.items())

    def _promise(self) -> None:
        reached = tuple((slot, self._plane.reached(slot)) for slot in sorted(self.frozen))
        promise = Promise(
            self.view.num, self.promised, reached, tuple(sorted(self.frozen)),
            self.accepted_in, self.accepted,
        )  # fmt: skip
        self._told_limit = bool(self.limit) and self._has_limit()
        if self.promised[1] != self.slot:
            self.out.append((self.promised[1], promise))
        elif self.proposal is not None:
            self._answered(self.proposal, self.slot, promise, self.proposal.sent_at)

    def _accept(self, slot: int, message: Accept) -> None:
        if message.ballot < self.promised:
            self._refuse(slot)
            return
        if message.value.num != self.view.num + 1:
            return
        if message.ballot > self.promised:
            self.promised = message.ballot
            self.limit = {}
        self.accepted_in, self.accepted = message.ballot, message.value
        self.dirty = True
        answer = Accepted(self.view.num, message.ballot)
        if slot != self.slot:
            self.out.append((slot, answer))
        elif self.proposal is not None:
            self._answered(self.proposal, slot, answer, self.proposal.sent_at)

    # ---- the coordinator -------------------------------------------------------------------------

    def _answered(
        self, proposal: Proposal, slot: int, message: Promise | Accepted | Refused, now: float
    ) -> None:
        if isinstance(message, Refused):
            if message.ballot > proposal.ballot:
                proposal.is_refused = True
                self._round = max(self._round, message.ballot[0])
        elif message.ballot != proposal.ballot:
            return
        elif isinstance(message, Promise):
            if proposal.value is None:
                proposal.promises[slot] = message
                self._choose(proposal, now)
        else:
            proposal.accepted_by.add(slot)
            value = proposal.value
            if value is not None and self.view.is_enough(proposal.accepted_by, self.vouched):
                self.install(value)

    def _choose(self, proposal: Proposal, now: float) -> None:
        """Fix the value, once enough have promised."""
        promises = proposal.promises
        if not self.view.is_enough(promises, self.vouched):
            return
        accepted = [
            (each.accepted_in, each.accepted)
            for each in promises.values()
            if each.accepted is not None
        ]
        rest = {each.slot for each in self.view.members} - proposal.suspects
        if accepted:
            proposal.value = max(accepted, key=_ballot)[1]
        elif proposal.suspects and all(
            [proposal.suspects.issuperset(promises[s].frozen) for s in rest & promises.keys()]
        ):
            if not rest <= promises.keys():
                return  # a cut that somebody lacks would be no cut
            there = {slot: dict(promises[slot].reached) for slot in sorted(rest)}
            target: dict[int, int] = {}
            holders: dict[int, int] = {}
            for suspect in sorted(proposal.suspects):
                holder = max(there, key=lambda slot: (there[slot].get(suspect, 0), -slot))
                holders[suspect] = holder
                target[suspect] = there[holder].get(suspect, 0)
            if any([each != target for each in there.values()]):
                if proposal.target != target:
                    proposal.target, proposal.holders = target, holders
                    self._ask(now)
                return
            proposal.value = self._next_view(target)
        else:
            proposal.value = self._next_view({})
        self._ask(now)

    def _next_view(self, cuts: Mapping[int, int]) -> View:
        removed = {slot: (cut, True) for slot, cut in cuts.items()}
        leaving = {
            slot: (seq, False) for slot, seq in sorted(self.leaves.items()) if slot not in removed
        }
        stay = {each.slot for each in self.view.members} - removed.keys()
        left = stay - leaving.keys()
        wanted = self._wanted()
        gone = {**removed, **leaving}
        if left & self.up:
            return self.view.next(gone, wanted[: self._room(gone)])
        if not left and not wanted:
            return self.view.next(gone)  # everybody goes
        # Nobody with the state would be left to hand it to the newcomers.
        return self.view.next(removed, wanted[: self._room(removed)] if stay & self.up else ())

    def install(self, value: View) -> None:
        """This view was agreed on."""
        old = self.view
        if value.num <= old.num:
            return
        told = {*old.members, *value.members}
        self.view = value
        self.changes += 1
        self.dirty = True
        is_mine = self.proposal is not None and self.proposal.value == value
        self._reset()
        slots = {each.slot for each in value.members}
        self.leaves = {slot: seq for slot, seq in self.leaves.items() if slot in slots}
        self.up &= slots
        self.joins = {
            name: held for name, held in self.joins.items() if not self._is_known(held[0])
        }
        self.suspects &= slots
        self.condemned &= slots
        self.sentenced &= slots
        self.vouched &= slots
        if is_mine:
            for slot in sorted({each.slot for each in told} - {self.slot}):
                self.out.append((slot, Installed(value)))
        self._plane.install(old, value)


def _ballot(entry: tuple[Ballot, View]) -> Ballot:
    return entry[0]
