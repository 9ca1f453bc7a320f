"""One group of one node: the engine, its application, its peers, its journal and its trace.

Pure: no sockets, no clock, no tasks.  Time is an argument, in seconds.  Whoever drives it
(runtime.py for real networks, sim/nodes.py in virtual time) calls, in one turn of its loop,

    broadcast, take, confirm        what the application does
    open, opened, closed            connections of peers come and go
    data, acknowledged, news        what peers say
    tick                            when ``deadline()`` has come

and then, once, ``commit`` and after it ``frames`` for each peer.  Nothing that happened in a turn
leaves the node before the journal has it; that is all there is to surviving a crash.

What the application does is in application.py; here is what peers do, time, and the end of a turn.
"""

from __future__ import annotations

from typing import Any

from thence.client.acceptor import AcceptorState
from thence.client.application import Application
from thence.client.entries import DELIVERY
from thence.client.events import Connected, Disconnected
from thence.client.ledger import Ledger
from thence.engine.bursts import receive_chain
from thence.engine.reject import DUPLICATE, Reject
from thence.errors import JournalError, LocalProtocolError, TraceError, WireError
from thence.message import Chain, Phantom
from thence.wire import codec, talk
from thence.wire.membership import CouncilMessage


class Driver(Application):
    """One group of one node."""

    # ---- connections -----------------------------------------------------------------------------

    # What groups have whose members change (elastic.py).
    is_elastic = False
    is_out = False
    life = 0

    def slot_of(self, peer: str) -> int | None:
        """The slot of a member by the name of its node; None for one that has crashed."""
        slot = self.members.slot(peer) if self.members.has(peer) else None
        return None if slot in self._crashed else slot

    def crashed(self, peer: str, now: float) -> None:
        """A member is gone for good: nothing of it is heard any more, and nobody waits for it."""
        slot = self.slot_of(peer)
        if not self.spec.survives:
            raise LocalProtocolError(f"engine {self.spec.name} cannot go on without a member")
        if peer == self.name or (slot is None and not self.members.has(peer)):
            raise LocalProtocolError(f"{peer} is not one of the other members of {self.group}")
        if slot is None:
            return
        self._crashed.add(slot)
        self._is_smaller = True
        self.exchange.remove(slot)
        self.engine.crashed(slot, self._out)
        self._carry_out(now)

    @property
    def member_names(self) -> list[str]:
        """The members now."""
        names = super().member_names
        gone = [self.members.names[slot] for slot in self._crashed]
        return [name for name in names if name not in gone] if gone else names

    def is_stranger(self, peer: str, said: talk.Open) -> bool:
        """Whether one who opens the group is no member of it."""
        return self.slot_of(peer) is None

    def met(self, peer: str) -> None:
        """A stranger opened the group."""

    def ask(self, peer: str) -> None:
        """A stranger is there whom the operator of this node named: it may know more."""

    def require_member(self) -> None:
        """``Removed`` if this node is no member any more."""

    def addresses(self) -> dict[str, str]:
        """Where members can be reached, as far as the group itself knows."""
        return {}

    def changed(self) -> tuple[set[int], bool]:
        """The peers whose connections must begin anew; whether there are other members."""
        is_smaller, self._is_smaller = self._is_smaller, False
        return set(), is_smaller

    def told(self) -> list[tuple[str, bytes]]:
        """Frames about members to be sent, by peer."""
        return []

    def complaints(self) -> list[tuple[str, str]]:
        """(peer, sentence) of those who may not come in, since the last call."""
        return []

    def hear(self, peer: str, message: CouncilMessage, now: float, is_proved: bool) -> None:
        """A peer says something about members."""

    def open(self, slot: int, channel: int) -> bytes:
        """The frame that opens this group on a new connection to a peer."""
        have, limit, limit_bytes = self.exchange.flows[slot].opening()
        said = talk.Open(
            channel=channel, group=self.group, engine=self.spec.name,
            members=() if self.is_elastic else tuple(self.members.names),
            have=have, limit=limit, limit_bytes=limit_bytes, stability=self.options.stability,
            member=self.name if self.is_elastic else "",
            peer=self.members.names[slot] if self.is_elastic else "",
            life=self.life,
        )  # fmt: skip
        return talk.open_group(said)

    def opened(self, slot: int, said: talk.Open, now: float) -> tuple[int, str] | None:
        """The peer opened the group; (code, sentence) when that cannot be."""
        fault = self._differs(said)
        if fault:
            return talk.DIFFERENT_GROUP, f"group {self.group} differs: {fault}"
        peer = self.members.names[slot]
        outbox = self.exchange.outbox
        if said.have > outbox.last:
            if self.exchange.flows[slot].was_open:  # then nothing was lost here
                sentence = f"{peer} says it has {said.have} messages of {outbox.last}"
                return talk.NONSENSE, sentence
            self.failed = (
                f"{peer} has {said.have} messages of {self.name}, which remembers "
                f"{outbox.last}: the journal of {self.name} was lost or is too old. Give it "
                "back, or let the node join as a new incarnation"
            )
            self._notices["failed"] = lambda number: Disconnected(self, number, peer, self.failed)
            return talk.LOST_JOURNAL, self.failed
        have = self.exchange.flows[slot].reached(said.have)
        if have < outbox.first - 1 and not self._refill(slot, have):
            # Who lost it in an elastic group is known by its life, and comes in again.
            return (
                talk.LOST_JOURNAL if self.is_elastic else talk.YOUR_JOURNAL,
                f"{peer} has {said.have} messages of {self.name} and had acknowledged "
                f"{outbox.first - 1}: the journal of {peer} was lost or is too old",
            )
        self.exchange.opened(slot, said)
        self._release()
        self._notices[f"peer {peer}"] = lambda number: Connected(self, number, peer)
        if self._ledger is None or self._ledger.confirmed.reached:
            self.announce(now)  # a node that came back has forgotten what others told it
        return None

    def lost(self, peer: str) -> None:
        """A peer says that this node lacks what it had acknowledged: it cannot go on, for what it
        does would never reach anybody."""
        if not self.failed:
            self.failed = (
                f"{peer} knows of messages that {self.name} had taken and does not have: the "
                f"journal of {self.name} was lost or is too old. Give it back, or let the node "
                "join as a new incarnation"
            )
            self._notices["failed"] = lambda number: Disconnected(self, number, peer, self.failed)

    def _differs(self, said: talk.Open) -> str:
        """How the group is another one there; empty: it is not."""
        mine = (self.spec.name, tuple(self.members.names), self.options.stability)
        theirs = (said.engine, said.members, said.stability)
        what = ("engine", "members", "stability")
        differ = [
            f"{name} {there} there and {here} here"
            for name, here, there in zip(what, mine, theirs, strict=True)
            if here != there
        ]
        return "; ".join(differ)

    def _refill(self, slot: int, have: int) -> bool:
        """Keep again what a peer lacks that all had; whether that is there."""
        return False

    def closed(self, slot: int, reason: str) -> None:
        """The connection to a peer is gone."""
        flow = self.exchange.flows[slot]
        if flow.is_open:
            peer = flow.name
            self._notices[f"peer {peer}"] = lambda number: Disconnected(self, number, peer, reason)
        flow.closed()
        if not flow.is_settled:
            self._release()  # nothing is kept for it while it is away

    @property
    def connected(self) -> list[str]:
        """The members that can be reached now."""
        return [flow.name for flow in self.exchange.peers if flow.is_open]

    # ---- what peers say --------------------------------------------------------------------------

    def data(self, slot: int, number: int, batch: memoryview, now: float) -> None:
        """Messages of a peer; the first has this link number.  WireError for nonsense."""
        flow = self.exchange.flows[slot]
        if not flow.is_open or self.failed:
            return
        had = flow.have
        items, whole = self.exchange.arrived(slot, number, batch, now)
        if not items:
            return
        count = flow.have - had
        refused = self._receive(slot, items)
        if refused or self._trace is not None:
            messages = codec.messages_of(items)
            if refused:
                messages = self._take_back(slot, messages, refused)
            if self._trace is not None:
                self._trace.arrived(self._us(now), messages)
        if self._stamped is not None:
            self._stamped.arrived(slot, items, refused)
            self._plan_due(now)
        if self._ledger is not None:
            try:
                self._ledger.received(slot, flow.have - count + 1, bytes(whole))
            except JournalError as error:  # no fault of the peer; ``commit`` says it
                self.failed = str(error)
                return
        _complain(self._carry_out(now))

    def _receive(self, slot: int, items: list[codec.BatchItem]) -> list[int]:
        """The places of the messages that the engine refused, one for each ``reject``."""
        engine, out = self.engine, self._out
        reject = out.reject
        refused: list[int] = []
        at = 0
        for item in items:
            if type(item) is Chain and self._is_tagged:
                places = receive_chain(engine, slot, item, out)
                if places:
                    refused += [at + place for place in places]
                at += len(item.payloads)
                continue
            for message in item.messages() if type(item) is Chain else (item,):
                engine.receive(slot, message, out)
                if len(reject) > len(refused):
                    refused.append(at)
                at += 1
        return refused

    def _take_back(self, slot: int, messages: list[Any], refused: list[int]) -> list[Any]:
        """The engine refused those in these places: from the first bad one on they must come
        again; those before it.

        What it took of those behind the bad one are duplicates then.  All are written down, with
        the number that makes a recovery (ledger.py) end where this ends.  So nothing is tried a
        second time here: a recovery would not.
        """
        good = len(messages)
        for at, reject in zip(refused, self._out.reject, strict=True):
            if reject.reason != DUPLICATE:
                good = at
                break
        gone = [messages[at].payload for at in refused]
        self.exchange.take_back(slot, len(messages) - good, gone)
        return messages[:good]

    def acknowledged(self, slot: int, said: talk.Ack) -> None:
        """A peer told what it has.  WireError for nonsense."""
        self.exchange.acknowledged(slot, said)
        if self._blocked:
            self._unblock()

    def news(self, slot: int, phantom: Phantom, now: float) -> None:
        """A peer told what it has consumed."""
        if phantom.origin != slot:
            raise WireError(f"a phantom of slot {phantom.origin} from slot {slot}")
        if self.failed:
            return
        self.counts["phantoms"] += 1
        self.engine.receive(slot, phantom, self._out)
        if self._trace is not None and not self._out.reject:
            self._trace.heard(self._us(now), phantom, self.members.names[slot])
        _complain(self._carry_out(now))
        self._quiet(now)

    def _release(self) -> None:
        self.exchange.release()
        if self._blocked:
            self._unblock()

    # ---- time ------------------------------------------------------------------------------------

    def deadline(self) -> float | None:
        """When ``tick`` is due."""
        times = self.exchange.due()
        times += [at for at in (self._flush_at, self._phantom_at) if at is not None]
        return min(times) if times else None

    def tick(self, now: float) -> None:
        """Do what is due; in every turn, because a turn may make something due."""
        if self.unsaid and self._phantom_at is None:
            low, high = self._timing.phantom_ms_min / 1000, self._timing.phantom_ms_max / 1000
            self._phantom_at = now + min(high, max(low, self.rtt_s))
        if self._flush_at is not None and self._flush_at <= now:
            self.flush(now)
        if self._phantom_at is not None and self._phantom_at <= now:
            self._phantom_at = None
            if self.unsaid:
                self.unsaid = False
                self._say(now)

    def flush(self, now: float) -> None:
        """Look for everything that is stable, now."""
        self._flush_at = None
        self.engine.flush(self._out)
        self._carry_out(now)
        self._plan_due(now)

    def _plan_due(self, now: float) -> None:
        """An engine that reads a clock says when it has to be flushed."""
        clock = self.options.clock
        if clock is None or not self.spec.timed:
            return
        due_us = self.engine.due()
        if due_us is not None:
            at = now + max(0, due_us - clock(self.slot)) / 1_000_000
            self._flush_at = at if self._flush_at is None else min(at, self._flush_at)

    def hurry(self, now: float) -> None:
        """This node is about to go: let acknowledgements and a phantom that is due leave now."""
        self.exchange.hurry(now)
        if self.unsaid and not self.failed:
            self.unsaid = False
            self._phantom_at = None
            self._say(now)

    def sample(self, now: float) -> None:
        """Write into the trace how much metadata there is."""
        if self._trace is not None:
            self._trace.sample(self._us(now), self.engine.words())

    def _say(self, now: float) -> None:
        """Make the phantom that is due, for every peer that is there."""
        ledger, trace = self._ledger, self._trace
        phantom = self.client.phantom() if ledger is None else ledger.confirmed.phantom()
        self.exchange.say(phantom)
        if trace is None or any(kind == DELIVERY for _, kind, _ in self._open_events):
            return  # a log says what its application has taken, and this says less
        named = list(phantom.context)
        if self.spec.streams:  # those do not travel
            frontier = self.client.frontier
            named = [*frontier.context, *frontier.stream_context]
        trace.announced(self._us(now), phantom, sorted(map(self.dot, named)))

    # ---- the end of a turn -----------------------------------------------------------------------

    def commit(self, now: float, is_last: bool = False) -> None:
        """Write down what happened in this turn; JournalError when that cannot be done.

        ``is_last``: the trace ends here, so the journal must say how long it is, also when nothing
        else is new.
        """
        if self.failed:
            raise JournalError(self.failed)
        ledger, trace = self._ledger, self._trace
        try:
            position = 0 if trace is None else trace.log.flush()
        except TraceError as error:  # what the journal then says of the trace would be wrong
            self.failed = str(error)
            raise JournalError(self.failed) from error
        full = trace is not None and (is_last or trace.log.due(now))
        try:
            self._promise()
            if ledger is not None and (ledger.dirty or full):
                ledger.commit(position)
                self._is_overdue = ledger.wants_checkpoint
            if self._is_overdue and ledger is not None and self._is_settled:
                self._is_overdue = False
                self._checkpoint(ledger, position)
        except JournalError as error:
            self.failed = str(error)
            raise
        self.exchange.written()
        if trace is not None and full:
            trace.log.seal(position)

    def commit_large(self, now: float) -> None:
        """The same before the turn ends, if that is a lot already; no message, and nothing of the
        application's state, may be half done."""
        if self._ledger is not None and self._ledger.is_large:
            self.commit(now)

    @property
    def _is_settled(self) -> bool:
        """Whether the state of the application, if it is kept, is what the journal will say."""
        kept = self._kept
        return kept is None or (not self._open_events and kept.is_settled)

    def _promise(self) -> None:
        """Write down what was promised, before it is said (elastic.py)."""

    def _promises(self) -> AcceptorState | None:
        """The same, for a checkpoint: the records of it are gone then."""
        return None

    def _checkpoint(self, ledger: Ledger, position: int) -> None:
        outbox = self.exchange.outbox
        first = outbox.solid  # what is before it, those who lack it are given from the engine
        kept = [outbox.message(number) for number in range(first, outbox.last + 1)]
        have = [flow.have for flow in self.exchange.flows]
        ledger.checkpoint(first, kept, have, self._unconfirmed(), position, self._promises())

    def _unconfirmed(self) -> list[Any]:
        """What was delivered and is not confirmed, in order."""
        unconfirmed = [tag for _, kind, tag in self._open_events if kind == DELIVERY]
        unconfirmed += [entry for entry in self.queue if self.is_delivery(entry)]
        return unconfirmed

    def frames(self, slot: int, channel: int, congested: bool, now: float) -> list[bytes]:
        """What is to be sent to a peer now; after ``commit``."""
        return [] if self.failed else self.exchange.frames(slot, channel, congested, now)

    def close(self, now: float, ended: bool = False) -> None:
        """Write down what there is and let go; ``ended``: nothing more will happen in this run."""
        if self._trace is not None and ended and not self._trace.log.ended:
            self._trace.ended(self._us(now))
        if not self.failed:
            self.commit(now, is_last=True)
        if self._trace is not None:
            self._trace.log.close()
        if self._ledger is not None:
            self._ledger.close()


def _complain(refused: list[Reject]) -> None:
    serious = [reject for reject in refused if reject.reason != DUPLICATE]
    if serious:
        raise WireError(f"{serious[0].reason}: {serious[0].detail}")
