"""What an application does with its group, and what it is told: take, confirm; broadcast is in
sending.py.

The two queues of the thesis (4.2.1) are in these two: a request of the client reaches the
middleware at once, because both run in one thread; events wait in ``queue`` until the application
takes them, and the context moves when it does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot
from thence.causal.members import Members
from thence.client.beginning import Beginning
from thence.client.entries import DELIVERY, KNOWN_EVENT, STABLE_EVENT, VIEW_EVENT, Recovered
from thence.client.events import Delivered, Event, Known, Stable
from thence.client.exchange import Exchange
from thence.client.kept import Kept, finder
from thence.client.ledger import CHECKPOINT_BYTES, Ledger
from thence.client.sending import Sending
from thence.client.stamped import StampedCredit
from thence.client.tracing import Tracing
from thence.config.node import FlowConfig, TimingConfig
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.handover import latest_dots
from thence.engine.reject import Reject
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import STABLE
from thence.errors import LocalProtocolError
from thence.journal.base import Journal
from thence.wire import codec
from thence.wire.talk import MESSAGE_BYTES_EXTRA

_encode: Final = codec.encode
FLOW: Final = FlowConfig()
TIMING: Final = TimingConfig()
FLUSH_S_PER_MESSAGE: Final = 1e-6
"""Of what is unstable: a look costs a small share of that for each, and must not be all it does."""


class Application(Sending):
    """A group as its application uses it; ``Driver`` adds the peers."""

    def __init__(
        self,
        group: str,
        names: Sequence[str],
        name: str,
        spec: EngineSpec,
        now: float,
        options: EngineOptions = EngineOptions(),
        flow: FlowConfig = FLOW,
        timing: TimingConfig = TIMING,
        journal: Journal | None = None,
        checkpoint_bytes: int = CHECKPOINT_BYTES,
        trace: Callable[[int], Tracing] | None = None,
        epoch_us: int = 0,
        begin: Beginning | None = None,
        kept: Kept | None = None,
    ) -> None:
        """``trace`` makes the trace from the record that the journal names; ``epoch_us`` is what
        the node's clock shows when ``now`` is 0; ``kept`` is the application's state."""
        if flow.credit_messages > options.pending_per_origin_max:
            # More than that the engine would refuse, and what it refuses is gone.
            flow = replace(flow, credit_messages=options.pending_per_origin_max)
        self.group = group
        self.spec = spec
        self.options = options
        self.members = Members(names) if begin is None else begin.members
        self.slot = self.members.slot(name)
        self.name = name
        self.flow = flow
        self._timing = timing
        self._epoch_us = epoch_us
        self.client: Any
        self.engine: Any
        if begin is None:
            self.client, self.engine = spec.make(self.members, self.slot, options)
        else:
            self.client, self.engine = begin.client, begin.engine
        self._unstable_max = flow.unstable_messages_max
        self._ledger: Ledger | None = None
        if journal is not None:
            if spec.name != "tagged":
                raise LocalProtocolError(
                    f"engine {spec.name} cannot come back after a crash: only tagged has a journal"
                )
            self._ledger = Ledger(journal, self.client, self.engine, checkpoint_bytes, kept)
        if kept is not None and spec.name != "tagged":
            raise LocalProtocolError(f"engine {spec.name} has no tags to find: kept= needs tagged")
        self._kept = kept
        self._is_overdue = False  # a checkpoint is, and the application was not settled
        self._is_tagged = spec.name == "tagged"
        self._crashed: set[int] = set()  # the slots of members that are gone for good
        self._is_smaller = False
        self.auto_confirm = True
        self.failed = ""
        """Why this node cannot go on; everything raises it then."""
        self.queue: deque[Any] = deque()
        """Tags to be delivered, (kind, tag) for other events; a tag that was taken is stable."""
        self._notices: dict[str, Callable[[int], Event]] = {}
        self._open_events: deque[tuple[int, int, Any]] = deque()
        self._numbers = 0
        self._out = Effects()
        self.on_stable: Callable[[list[Any]], None] | None = None
        self.on_room: Callable[[], None] | None = None
        self.counts = dict.fromkeys(("sent", "delivered", "stable", "rejected", "phantoms"), 0)
        self._blocked = False
        self._flush_at: float | None = None
        self._phantom_at: float | None = None
        self.unsaid = False
        """The application has confirmed a delivery, and nothing was sent since."""
        self.rtt_s = 0.0
        """The longest round trip to a peer, as the hub measures it: what timers adapt to."""
        self.speaks = spec.phantoms and options.stability and len(names) > 1
        """Whether it tells others what it has consumed while it has nothing to send."""
        recovered = Recovered(have=[0] * len(names) if begin is None else begin.have)
        if self._ledger is not None:
            recovered = self._recover(self._ledger)
            if recovered.is_new and begin is not None:
                recovered.have = begin.have
                self._ledger.confirmed = begin.confirmed or self._ledger.confirmed
        elif kept is not None:
            kept.begin(finder(self.client, self.engine), ())
        self.exchange = Exchange(
            names, self.slot, flow, recovered.have, recovered.outbox_first, recovered.outbox,
            gaps=spec.stamped, relays=spec.relays,
        )  # fmt: skip
        self._stamped = None
        if spec.stamped:
            self._stamped = StampedCredit(self.exchange, options.pending_per_origin_max)
        self._outbox = self.exchange.outbox
        self._outbox_messages_max = flow.outbox_messages_max
        self._outbox_bytes_max = flow.outbox_bytes_max
        self._trace = None if trace is None else trace(recovered.position)
        self._resume(recovered, now)

    def _recover(self, ledger: Ledger) -> Recovered:
        return ledger.recover()  # elastic groups follow their views meanwhile

    def _members_confirmed(self) -> list[str] | None:
        """The members as the application has confirmed them, where they change."""
        return None

    def _resume(self, recovered: Recovered, now: float) -> None:
        for entry in recovered.ready:
            self.queue.append(entry)
            if type(entry) is not tuple:
                self.exchange.hold(entry.origin, entry.payload)
        for message in [] if self._ledger is None else self.engine.held():
            self.exchange.hold(message.origin, message.payload)
        self.queue.extend((KNOWN_EVENT, tag) for tag in recovered.known)
        self.queue.extend(recovered.told)
        if recovered.is_new or self._ledger is None:
            return
        if self._trace is not None:
            taken, told = latest_dots(self.client, self._ledger.confirmed)
            self._trace.restarted(self._us(now), taken, told, self._members_confirmed())
        self._quiet(now)
        self.announce(now)

    # ---- the application -------------------------------------------------------------------------

    def take(self, now: float) -> Event | None:
        """The next event, or None.  A delivery's context is the application's from here on."""
        if self.auto_confirm and self._open_events:
            self._confirm_up_to(self._numbers)
            if self._is_overdue:  # one that is never done would never let it be made
                self.commit(now)
        if self._notices:
            self.require_working()
            number = self._numbers = self._numbers + 1
            return self._notices.pop(next(iter(self._notices)))(number)
        queue = self.queue
        if not queue:
            self.require_working()
            return None
        entry = queue.popleft()
        while self._is_tagged and (entry if type(entry) is not tuple else entry[1]).hollow:
            self._pass_over(entry)
            if not queue:
                return None
            entry = queue.popleft()
        number = self._numbers = self._numbers + 1
        if self.is_delivery(entry):
            self.client.consume(entry)
            self._open_events.append((number, DELIVERY, entry))
            if self._stamped is None:
                flow = self.exchange.flows[entry.origin]
                flow.held -= 1
                flow.held_bytes -= len(entry.payload) + MESSAGE_BYTES_EXTRA
            else:
                self._stamped.taken(entry)
            self.counts["delivered"] += 1
            if self._trace is not None:
                self._trace.delivered(self._us(now), entry)
            if self._flush_at is None:
                self._quiet(now)
            return Delivered(self, number, entry)
        kind, tag = entry if type(entry) is tuple else (STABLE_EVENT, entry)
        if kind == VIEW_EVENT:
            return self._entered(number, tag, now)
        if kind == KNOWN_EVENT:
            self._open_events.append((number, kind, tag))
            return Known(self, number, tag)
        self._tell(number, tag, now)
        return Stable(self, number, tag)

    def commit(self, now: float) -> None:
        """Write down what happened, and a checkpoint if that is due."""
        raise NotImplementedError

    def _entered(self, number: int, change: Any, now: float) -> Event | None:
        """The members of this group do not change."""
        raise NotImplementedError

    def _reached(self, change: Any) -> None:
        """The application is done with a change of the membership."""
        raise NotImplementedError

    def _pass_over(self, entry: Any) -> None:
        """A message for others: ordered here like any other, and nobody is told.

        It counts as confirmed with the event before it.
        """
        if self.is_delivery(entry):
            self.client.consume(entry)
            self._open_events.append((self._numbers, DELIVERY, entry))
            self.exchange.taken(entry.origin, entry.payload)
        else:
            kind, tag = entry if type(entry) is tuple else (STABLE_EVENT, entry)
            self._open_events.append((self._numbers, kind, tag))

    def is_delivery(self, entry: Any) -> bool:
        """Whether an entry of the queue is a message to be delivered."""
        return type(entry) is not tuple and not (self._is_tagged and entry.index >= 0)

    def take_stable(self, now: float) -> list[Any]:
        """The stable messages that come next, up to the first event of another kind.  They are
        confirmed together, with the events that are open, when the next event is taken."""
        tags: list[Any] = []
        queue = self.queue
        while queue and not self._notices and not self.is_delivery(queue[0]):
            kind, tag = queue[0] if type(queue[0]) is tuple else (STABLE_EVENT, queue[0])
            if kind != STABLE_EVENT or (self._is_tagged and tag.hollow):
                break
            queue.popleft()
            self._numbers += 1
            self._tell(self._numbers, tag, now)
            tags.append(tag)
        return tags

    def _tell(self, number: int, tag: Any, now: float) -> None:
        """A stable message is taken: that is counted, and in the trace."""
        self._open_events.append((number, STABLE_EVENT, tag))
        self.counts["stable"] += 1
        if self._trace is not None:
            self._trace.told(self._us(now), tag)

    @property
    def is_plain(self) -> bool:
        """Whether events may be handed over in a loop: nobody writes them down one by one."""
        return (
            self.auto_confirm
            and self._ledger is None
            and self._trace is None
            and self._is_tagged
            and not self._notices
        )

    def handed(self, delivered: int, told: int, now: float) -> None:
        """So many deliveries and stable events were taken and confirmed (handing.py)."""
        self._numbers += delivered + told
        counts = self.counts
        counts["delivered"] += delivered
        counts["stable"] += told
        if delivered:
            self._quiet(now)
        if self._blocked:
            self._unblock()

    def confirm_all(self) -> None:
        """The application is done with everything that it has taken."""
        if self._is_tagged and self.client.telling:
            tags, self.client.telling = self.client.telling, []
            for tag in tags:
                self.client.stabilised(tag)
        self._confirm_up_to(self._numbers)

    def confirm(self, event: Event) -> None:
        """The application is done with this event and all before it."""
        self._confirm_up_to(event.number)

    def _confirm_up_to(self, number: int) -> None:
        events, ledger = self._open_events, self._ledger
        while events and events[0][0] <= number:
            _, kind, tag = events.popleft()
            if kind == VIEW_EVENT:
                self._reached(tag)
                continue
            if ledger is not None:
                ledger.confirm(kind, tag)
            if kind == DELIVERY:
                self.unsaid = self.speaks
            elif kind == STABLE_EVENT:
                self.client.stabilised(tag)
                self.engine.forget(tag)
        if self._blocked:
            self._unblock()

    def announce(self, now: float) -> None:
        """Tell the others what is confirmed, though there is nothing to send: a phantom."""
        self._phantom_at = now
        self.unsaid = self.speaks

    def dot(self, packed: int) -> Dot:
        """The name of a message."""
        if packed >> SEQ_BITS >= STREAM_BASE:
            named: Dot = self.client.past.dot_of(packed)
            return named
        return Dot(self.members.names[packed >> SEQ_BITS], packed & SEQ_MAX)

    @property
    def journal_bytes(self) -> int:
        """How long the journal is since its last checkpoint."""
        return 0 if self._ledger is None else self._ledger.log_bytes

    @property
    def durability(self) -> str:
        """What the journal survives (``Journal.durability``); empty without one."""
        return "" if self._ledger is None else self._ledger.durability

    @property
    def member_names(self) -> list[str]:
        """The members now."""
        names, mask = self.members.names, self.members.mask
        return [name for slot, name in enumerate(names) if mask >> slot & 1]

    @property
    def is_drained(self) -> bool:
        """Whether every member has what was sent here; with a journal, which keeps it for those
        that cannot be reached, every member that can be."""
        last = self.exchange.outbox.last
        needs = [flow for flow in self.exchange.peers if flow.is_open or self._ledger is None]
        return self.unsent == (0, 0) and all([flow.acked >= last for flow in needs])

    @property
    def is_journaled(self) -> bool:
        """Whether it survives a crash."""
        return self._ledger is not None

    def is_stable(self, tag: Any) -> bool:
        """Whether a message is known to be stable here."""
        return bool(tag.gone >= 0 or tag.pushed == STABLE)

    def known_by(self, tag: Any) -> int:
        """How many members are known to have consumed a message, this one included."""
        if self.is_stable(tag):
            return len(self.members)
        known: int = self.engine.known_by(tag)
        return known

    @property
    def has_events(self) -> bool:
        """Whether ``take`` would give something."""
        return bool(self.queue or self._notices)

    # ---- inside ----------------------------------------------------------------------------------

    def _carry_out(self, now: float) -> list[Reject]:
        """Do what the engine asked for; what it refused of a peer's input."""
        out = self._out
        refused: list[Reject] = []
        if out.send:
            self._post(None, now)
            if self._blocked:
                self._unblock()
        if out.deliver:
            if self._trace is not None:
                self._trace.ready(self._us(now), out.deliver)
            if self._stamped is not None:
                self._stamped.ready(out.deliver)
            self.queue.extend(out.deliver)
            out.deliver.clear()
        if out.k_stable:  # before what one pass found stable too: then it is forgotten
            self.queue.extend([(KNOWN_EVENT, tag) for tag in out.k_stable])
            out.k_stable.clear()
        if out.stable:
            stable = out.stable
            self.queue.extend(
                stable if self._is_tagged else [(STABLE_EVENT, tag) for tag in stable]
            )
            if self.on_stable is not None:
                self.on_stable(list(out.stable))
            out.stable.clear()
        if out.reject:
            refused = list(out.reject)
            self.counts["rejected"] += len(refused)
            out.reject.clear()
        return refused

    def _quiet(self, now: float) -> None:
        """Something changed: look for stable messages if it then stays quiet; at once if asked."""
        if self._flush_at is None and self.options.stability:
            wait_s = max(self._timing.idle_flush_ms / 1000, self.unstable * FLUSH_S_PER_MESSAGE)
            self._flush_at = now if self.options.stability_batch == 1 else now + wait_s

    def _us(self, now: float) -> int:
        return self._epoch_us + int(now * 1_000_000)
