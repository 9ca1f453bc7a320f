"""A group whose members come, go and crash: the driver of ``tagged`` with a council beside it.

What members send each other goes on as in any group.  Beside it

    beats     tell every member that this one is there, in which view, and who wants to come or go
    council   agrees on the next view (council.py)
    views     are installed in the middleware at once, and reach the application in their turn
              among the deliveries: ``Joined``, ``Left``, ``Evicted``

A message belongs to the view in which its application sent it.  It is sent only to peers that have
that view installed (``Exchange.enter``), so what a member in view v knows of another's consumption
is from before that one's application reached v + 1.  Hence what is stable in v is part of every
state that is handed over in v + 1 or later, and a newcomer never needs what others have forgotten.

Only the default stream, and messages for everyone: then a link number is a sequence number, and
what a member lacks is always among its sender's unstable messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from thence.causal.dot import SEQ_MAX
from thence.causal.members import MemberId
from thence.client.application import FLOW, TIMING
from thence.client.away import Away
from thence.client.beginning import Handed, begun, founded, resumed
from thence.client.changes import Change, each_change, view_name
from thence.client.council import Council
from thence.client.entries import DELIVERY, VIEW_EVENT, Checkpoint, Recovered, Viewed
from thence.client.events import Event, Evicted, Joined, Left
from thence.client.exchange import Exchange
from thence.client.hearsay import STRANGERS_MAX, check, is_believed, sign
from thence.client.kept import Kept
from thence.client.ledger import CHECKPOINT_BYTES, Ledger
from thence.client.tracing import Tracing
from thence.config.node import FlowConfig, MembershipConfig, TimingConfig
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.tag import STABLE
from thence.errors import JournalError, LocalProtocolError, Removed
from thence.journal.base import Journal
from thence.wire import membership as said
from thence.wire import talk
from thence.wire.frame import frame
from thence.wire.membership import CouncilMessage, View


class Elastic(Away):
    """One group of one node, with members that change."""

    is_elastic = True

    def __init__(
        self,
        group: str,
        spec: EngineSpec,
        view: View,
        slot: int,
        now: float,
        membership: MembershipConfig,
        options: EngineOptions = EngineOptions(),
        newcomer: Handed | None = None,
        secret: bytes | None = None,
        checkpoint: Checkpoint | None = None,
        shelf_bytes_max: int = 0,
        flow: FlowConfig = FLOW,
        timing: TimingConfig = TIMING,
        journal: Journal | None = None,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        trace: Callable[[int], Tracing] | None = None,
        epoch_us: int = 0,
        kept: Kept | None = None,
    ) -> None:
        """``newcomer``: the state that was handed over; ``checkpoint``: what the journal has; with
        neither, the node is a founder."""
        if spec.name != "tagged":
            raise LocalProtocolError(f"engine {spec.name} has no members that change: use tagged")
        if not options.stability:
            # What is delivered is then forgotten: nobody could give a newcomer, or another survivor
            # of an eviction, what it lacks, nor know when it may leave.
            raise LocalProtocolError("stability=False: members cannot change without stability")
        self._attend(membership, secret, now)
        self.born_us = epoch_us + int(now * 1_000_000)
        """When this process began with it ..."""
        self.life = self.born_us if checkpoint is None else checkpoint.life
        """... and this incarnation of the node."""
        self.council = Council(slot, view, self)
        self.node = MemberId.parse(view_name(view, slot)).name
        """The name of this node, whatever incarnation of it this is."""
        self.view_told = view
        self.is_out = False
        self.rejected: tuple[Any, ...] = ()
        """Own messages that were not accepted, if this node was evicted."""
        self._partial: list[Change] = []  # confirmed before a crash, of a view that was not whole
        self._frozen_before = set()
        self._pulls = {}
        self._resets: set[int] = set()
        self._is_changed = True
        self._met: set[str] = set()
        self._asked: set[str] = set()  # strangers whom the operator named
        self._secret = secret
        self._views: dict[str, int] = {}
        """By name, the view that somebody said to be in."""
        if checkpoint is not None:
            begin = resumed(checkpoint, spec, options)
        elif newcomer is not None:
            begin = begun(newcomer, options, journal)
        else:
            begin = founded(view, slot, spec, options)
        names = begin.members.names
        super().__init__(
            group, names, names[slot], spec, now, options, flow, timing, journal, checkpoint_bytes,
            trace, epoch_us, begin, kept,
        )  # fmt: skip
        self.speaks = True
        self._keep_for_absent(journal, shelf_bytes_max)
        if self._trace is not None:
            self._trace.follow(names)
            if newcomer is not None:
                head = newcomer[0]
                self._trace.began(self._us(now), head.provider, head.taken, head.stable,
                                  [each.id for each in view.members])  # fmt: skip
        self.exchange.retain({each.slot for each in self.council.view.members})
        self.exchange.resume(self.view_told.num)
        for each in self.council.others:
            self.detector.expect(each, now)
        if newcomer is not None:
            self._quiet(now)
            self.announce(now)
        if self._ledger is not None:
            self._ledger.life = self.life
        if self._ledger is not None and checkpoint is None:
            self._ledger.view = view
            if not self._is_settled:
                raise LocalProtocolError("kept= has to be settled when it has begun")
            self._checkpoint(self._ledger, 0 if self._trace is None else self._trace.log.flush())

    def _recover(self, ledger: Ledger) -> Recovered:
        recovered = ledger.recover(self._follow_view)
        if recovered.view is not None:
            self.view_told = recovered.view
        self._partial = recovered.partial
        if recovered.promised is not None and recovered.promised.view.num == self.council.view.num:
            self.council.resume(recovered.promised)
            self._frozen_before = set(self.council.frozen)
            self._is_leaving = self.slot in self.council.leaves
        return recovered

    def _follow_view(self, view: View) -> list[Any]:
        """A view that was installed in a former life."""
        old = self.council.view
        self.council.view = view
        changes = self._changes(old, view, None)
        return [(VIEW_EVENT, change) for change in changes]

    def _members_confirmed(self) -> list[str] | None:
        found = {each.id: None for each in self.view_told.members}
        for change in self._partial:
            if change.kind == "join":
                found[change.member] = None
            else:
                found.pop(change.member, None)
        return list(found)

    # ---- what the council asks for ---------------------------------------------------------------

    def install(self, old: View, new: View) -> None:
        """This is the view now."""
        if self.is_out:
            return
        kept = {each.slot for each in new.members}
        self._resets |= self._frozen_before & kept
        self._frozen_before = set()
        self._is_changed = True
        self._beat_at = self._now
        if self._ledger is not None:
            self._ledger.viewed(new)
        changes = self._changes(old, new, self.exchange)
        for change in changes:
            self.queue.append((VIEW_EVENT, change))
            if change.kind == "leave" and not change.is_self:
                # It waits for most to know it, and the connection ends here.
                name = MemberId.parse(change.member).name
                self.replies.append((name, said.Installed(new)))
        if self.is_out:
            for flow in self.exchange.peers:
                flow.closed()
            return
        self.exchange.outbox.is_sent = bool(self.exchange.peers)
        self._release()
        self._quiet(self._now)
        for slot in self.council.others:
            self._note_view(slot)
        members = {each.name for each in new.members}
        self._views = {name: num for name, num in self._views.items() if name in members}

    def _changes(self, old: View, new: View, exchange: Exchange | None) -> list[Change]:
        """Follow a view in members and engine, and in the exchange if there is one yet; what the
        application is to be told."""
        kept = {each.slot for each in new.members}
        if self.slot not in kept:
            return [self._go_out(new)]
        gone = {each.slot: each for each in new.gone}
        changes: list[tuple[str, str, int]] = []
        for each in old.members:
            if each.slot in kept or each.slot == self.slot:
                continue
            known = gone.get(each.slot)
            kind = "leave" if known is not None and not known.is_evicted else "evict"
            changes.append((kind, each.id, self.reached(each.slot)))
            self.members.remove(each.slot)
            self.engine.dismiss(each.slot)
            if exchange is not None:
                exchange.remove(each.slot)
            self.detector.forget(each.slot)
            self._lives.pop(each.slot, None)
            self._let_in.discard(each.slot)
        for each in sorted(new.members, key=lambda member: member.slot):
            if each.slot >= len(self.members.names):
                self._admit(new, each.slot, exchange)
                changes.append(("join", each.id, 0))
        return each_change(changes, new) or [Change("", "", 0, new, True)]

    def _admit(self, view: View, slot: int, exchange: Exchange | None) -> None:
        """Room for everybody up to this slot; who came and went in views that were skipped here
        has sent nothing that matters."""
        names = {each.slot: each.id for each in view.gone}
        names.update((each.slot, each.id) for each in view.members)
        members = {each.slot for each in view.members}
        while len(self.members.names) <= slot:
            at = self.members.add(names.get(len(self.members.names), f"?{len(self.members.names)}"))
            if exchange is not None:
                exchange.add(self.members.names[at])
            if at not in members:
                self.members.remove(at)
                if exchange is not None:
                    exchange.remove(at)
            else:
                self.detector.expect(at, self._now)
                if exchange is not None:
                    self._let_in.add(at)
        self.engine.admit()

    def _go_out(self, view: View) -> Change:
        """This node is no member any more."""
        self.is_out = True
        found = next((each for each in view.gone if each.slot == self.slot), None)
        is_evicted = found is None or found.is_evicted
        rows: dict[int, Any] = self.client.past.rows[self.slot]
        if found is None:  # long ago: what everybody had is all that is certain
            unsure = [packed & SEQ_MAX for packed, tag in rows.items() if tag.pushed != STABLE]
            cut: int = min(unsure, default=(self.client.sent & SEQ_MAX) + 1) - 1
        else:
            cut = found.cut
        self.rejected = tuple(rows[packed] for packed in sorted(rows) if packed & SEQ_MAX > cut)
        return Change("evict" if is_evicted else "leave", self.name, cut, view, True, True)

    # ---- the application -------------------------------------------------------------------------

    def require_member(self) -> None:
        """``Removed`` if this node is no member any more."""
        if self.is_out:
            raise Removed(
                f"{self.name} is no member of {self.group} any more: join again, as a new "
                "incarnation"
            )

    def _make_room(self, payloads: Sequence[bytes], overdraw: bool = False) -> int:
        self.require_member()
        if self._is_leaving:
            raise Removed(f"{self.name} is leaving {self.group}")
        return super()._make_room(payloads, overdraw)

    def broadcast(self, payload: bytes, now: float, **how: Any) -> Any:
        """Tag a message now, for every member (``Driver.broadcast``)."""
        if how:
            raise LocalProtocolError(
                f"{', '.join(how)}: in a group whose members change, every message is for everyone "
                "and after everything"
            )
        return super().broadcast(payload, now)

    def take(self, now: float) -> Event | None:
        """The next event, or None."""
        self._now = now
        if self.auto_confirm and self._open_events:
            self._confirm_up_to(self._numbers)
        self.reception.idle(now)
        event = super().take(now)
        while event is None and self.queue:  # a view without a change that is to be told
            event = super().take(now)
        self.reception.is_idle = event is None
        return event

    def _entered(self, number: int, change: Change, now: float) -> Event | None:
        """The application reaches a change of the membership."""
        self._open_events.append((number, VIEW_EVENT, change))
        if change.is_last and not change.is_self:
            self.view_told = change.view
            if self._ledger is None:  # otherwise what is confirmed counts
                self.exchange.enter(change.view.num)
            self.announce(now)
        view = change.view.num
        if change.kind and self._trace is not None:
            self._trace.changed(self._us(now), change.kind, change.member, change.cut, view)
        if change.is_last and not change.is_self:
            self.reception.entered(now)
        if change.kind == "join":
            return Joined(self, number, change.member, view)
        if change.kind == "leave":
            return Left(self, number, change.member, view)
        if change.kind == "evict":
            rejected = self.rejected if change.is_self else ()
            return Evicted(self, number, change.member, view, change.is_self, rejected)
        return None

    def _reached(self, change: Change) -> None:
        """The application is done with a change of the membership."""
        if self._ledger is not None:
            is_last = change.is_last and not change.is_self
            self._ledger.reached(change.view if is_last else None)
            if is_last:
                self.exchange.enter(change.view.num)

    def _unconfirmed(self) -> list[Any]:
        entries = [(kind, tag) for _, kind, tag in self._open_events]
        entries += [
            entry if type(entry) is tuple else (DELIVERY if self.is_delivery(entry) else -1, entry)
            for entry in self.queue
        ]
        found: list[Any] = []
        for kind, each in entries:
            if kind == DELIVERY:
                found.append(each)
            elif kind == VIEW_EVENT and each.is_last:
                found.append(Viewed(each.view))
        return found

    @property
    def is_drained(self) -> bool:
        """Whether every member that can be reached has what was sent here, or it is all the same:
        this node is out."""
        last = self.exchange.outbox.last
        return self.is_out or all(
            [flow.acked >= last for flow in self.exchange.peers if flow.is_open]
        )

    @property
    def has_left(self) -> bool:
        """Whether this node is out, and enough of the others know it."""
        if not self.is_out:
            return False
        view = self.council.view
        knows = [each.slot for each in view.members if self._views.get(each.name, -1) >= view.num]
        return not view.members or view.is_enough(knows)

    # ---- connections -----------------------------------------------------------------------------

    def opened(self, slot: int, said: talk.Open, now: float) -> tuple[int, str] | None:
        """The peer opened the group; (code, sentence) when that cannot be."""
        fault = super().opened(slot, said, now)
        if fault is None:
            peer = self.members.ids[slot].name
            self.replies.append((peer, self.council.beat()))  # so it knows the view at once
            if self.council.view.num == 0:
                self.met(peer)  # founders may have been told other members
        return fault

    def slot_of(self, peer: str) -> int | None:
        """The slot of the member of that name."""
        found = None if peer == self.node else self.council.view.named(peer)
        return None if found is None or self.is_out else found.slot

    def is_stranger(self, peer: str, said: talk.Open) -> bool:
        """Whether it is not, or not in this life, a member here."""
        slot = self.slot_of(peer)
        return slot is None or (said.member, said.peer) != (self.members.names[slot], self.name)

    def met(self, peer: str) -> None:
        """A stranger is there: it may have been a member, or will be.  It is told the view, once
        in a turn, however much it says."""
        if peer not in self._met:
            self._met.add(peer)
            self.replies.append((peer, said.Installed(self.council.view)))

    def ask(self, peer: str) -> None:
        """A stranger whom the operator named.  Told this view, it answers with a later one."""
        self._asked.add(peer)
        self.met(peer)

    def complaints(self) -> list[tuple[str, str]]:
        """(peer, sentence) of those who may not come in, since the last call."""
        found, self.reception.complaints = self.reception.complaints, []
        return found

    def addresses(self) -> dict[str, str]:
        """Where the other members can be reached."""
        members = self.council.view.members
        return {each.name: each.address for each in members if each.slot != self.slot}

    def changed(self) -> tuple[set[int], bool]:
        """The peers whose connections must begin anew, and whether there is another view, since
        the last call."""
        found = self._resets, self._is_changed
        self._resets, self._is_changed = set(), False
        return found

    def told(self) -> list[tuple[str, bytes]]:
        """Frames about members to be sent, by peer; after ``commit``.  A node that cannot write
        down what it promises says nothing, not even that it is there."""
        if self.failed:
            self.council.out.clear()
            self.replies.clear()
        elif self._pulls:
            self._relay()
        if not self.council.out and not self.replies:
            return []
        names = {each.slot: each.name for each in self.council.view.members}
        ids = self.members.ids  # more than there are members, after a while
        out = [(names.get(slot) or ids[slot].name, message) for slot, message in self.council.out]
        self.council.out.clear()
        out += self.replies
        self.replies = []
        self._met.clear()
        made: dict[int, bytes] = {}
        for _, message in out:
            if id(message) not in made:
                signed = sign(message, self.group, self._secret)
                made[id(message)] = frame(talk.COUNCIL, said.encode(self.group, signed))
        return [(peer, made[id(message)]) for peer, message in out]

    def _differs(self, theirs: talk.Open) -> str:
        mine = (self.spec.name, self.options.stability)
        if mine != (theirs.engine, theirs.stability):
            return f"{theirs.engine}, stability {theirs.stability} there; {mine} here"
        return ""

    # ---- what peers say --------------------------------------------------------------------------

    def hear(self, peer: str, message: CouncilMessage, now: float, is_proved: bool) -> None:
        """A peer says something about members.  WireError for nonsense."""
        if self.failed:
            return
        self._now = now
        self._is_stirred = True
        check(message, self.council.view)
        try:
            self._hear(peer, message, now, is_proved)
        except JournalError as error:  # no fault of the peer; ``commit`` says it
            self.failed = str(error)

    def _hear(self, peer: str, message: CouncilMessage, now: float, is_proved: bool) -> None:
        if isinstance(message, said.Knock | said.PieceAck | said.Withdraw):
            self.reception.hear(peer, message, now, is_proved)
            return
        view = self.council.view
        number = getattr(message, "view", None)
        if number is None:
            return  # for newcomers
        member = view.named(peer)
        if member is not None or len(self._views) < len(view.members) + STRANGERS_MAX:
            self._views[peer] = max(number, self._views.get(peer, 0))
        if member is None or member.slot == self.slot:
            if isinstance(message, said.Installed) and message.value.num > view.num:
                is_lost = self.is_out or self.council.is_minority or peer in self._asked
                if is_believed(peer, message, self.group, self._secret, is_proved, is_lost):
                    self.council.install(message.value)
            elif number < view.num or not isinstance(message, said.Installed):
                self.met(peer)
            return
        slot = member.slot
        if isinstance(message, said.Beat):
            self.detector.heard(slot, now)
        self._note_view(slot)
        if isinstance(message, said.Pull):
            self._pulled(slot, message)
        elif isinstance(message, said.Relay):
            self._relayed(slot, message, now)
        else:
            self.council.receive(slot, message, now)

    def _note_view(self, slot: int) -> None:
        """What a member may be sent depends on the view it is in."""
        member = self.council.view.member(slot)
        if member is not None and slot < len(self.exchange.flows):
            number = self._views.get(member.name, 0)
            if number > self.exchange.flows[slot].view:
                self.exchange.installed(slot, number)
