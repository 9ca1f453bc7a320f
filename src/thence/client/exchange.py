"""What a group sends its peers and gets from them: numbers, acknowledgements, credit.

The engine does not know of it: what comes out of here is each message of a peer once, in the order
in which that peer sent it.

Where members come and go, three more rules hold:

-   A peer gets nothing that the application sent in a later view than the peer has installed
    (``enter``, ``installed``): no member has to hold messages of views to come.  Messages have no
    view with them; ``_marks`` says where each view begins.
-   Nobody waits for a member that joined and is not there, and nothing is kept for it.  What it
    lacks when it opens the group is not stable, so the engine has it: ``lacks``, then ``refill``.
-   A member that catches up holds what it lacks in the outbox, but not the application: what the
    others have counts towards no limit (``Outbox.floor``) until it is *settled*.

While nobody joins or leaves none of this costs anything: ``Flow.limit`` has the ceiling in it, and
``owes_news`` the view.

Engines that send to some members only (``message.Directed``) leave numbers out for the others.  A
frame may begin after such a gap; where a peer's limit ends within one, an empty frame says how far
it goes.  What is left out counts as acknowledged once everything before it is.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from thence.causal.dot import SEQ_MAX
from thence.client.flow import NO_CEILING, Flow
from thence.client.outbox import Hollow, Outbox
from thence.config.node import FlowConfig
from thence.errors import WireError
from thence.message import Chain, Message, Phantom, hollow_form
from thence.wire import codec, talk

ACK_S: Final = 0.05
"""An acknowledgement waits so long for more to acknowledge, unless the peer may wait for it."""
ACK_WITH_DATA_S: Final = 0.01
"""After so long it goes with data, which costs no write of its own."""


class Exchange:
    """The peers of one group of one node."""

    def __init__(
        self,
        names: Sequence[str],
        slot: int,
        config: FlowConfig,
        have: Sequence[int],
        outbox_first: int,
        outbox: Sequence[bytes],
        gaps: bool = False,
        relays: bool = False,
    ) -> None:
        """``have`` and ``outbox`` are what a journal remembers.  ``gaps``: peers leave out numbers
        that are not for this node; ``relays``: they hand on messages of others."""
        self._gaps, self._relays = gaps, relays
        self._messages_max, self._bytes_max = config.outbox_messages_max, config.outbox_bytes_max
        self._batch_bytes_max = config.batch_bytes_max
        self._config, self._slot = config, slot
        self.flows = [Flow(at, name, config, have=have[at]) for at, name in enumerate(names)]
        """By slot, this node's own place included."""
        self.peers = [flow for flow in self.flows if flow.slot != slot]
        self.outbox = Outbox(outbox_first, is_sent=bool(self.peers), slot=slot)
        for encoded in outbox:
            self.keep(encoded, codec.decode(encoded))
        self.view = 0
        """The view that the application of this node is in."""
        self._marks: list[tuple[int, int]] = []  # (first number, view), where peers lack the view
        self._unsettled: list[Flow] = []
        self._said: Phantom | None = None
        self._said_view = 0
        self._said_after = 0  # the number of the last message before it
        self._frame: tuple[int, int, int, bytes, int] = (0, 0, 0, b"", 0)

    # ---- what goes out ---------------------------------------------------------------------------

    def keep(self, encoded: bytes, message: Any, to: Sequence[int] = ()) -> None:
        """An own message, for everybody; with ``to`` nothing goes to the others."""
        hollow = None
        if to:
            hollow = Hollow(frozenset(to), None)
        elif type(message) is Message and message.aside is not None and message.to:
            hollow = Hollow(frozenset(message.to), codec.encode(hollow_form(message)))
        self.outbox.append(encoded, len(message.payload) + talk.MESSAGE_BYTES_EXTRA, hollow)
        if not self.outbox.is_sent:
            self.outbox.release(self.outbox.last)
        elif to:
            self._pass(self.peers)

    @property
    def has_room(self) -> bool:
        """Whether the outbox takes one more."""
        outbox = self.outbox
        return outbox.waiting < self._messages_max and outbox.waiting_bytes < self._bytes_max

    @property
    def has_unsettled(self) -> bool:
        """Whether some member is away, or catches up."""
        return bool(self._unsettled)

    def behind(self) -> list[str]:
        """The members that have acknowledged least: whom a full outbox waits for."""
        waited = [flow for flow in self.peers if flow.is_settled] if not self.has_room else []
        waited = waited or self._unsettled or self.peers
        least = min([flow.acked for flow in waited], default=0)
        return [flow.name for flow in waited if flow.acked == least]

    def say(self, phantom: Phantom) -> None:
        """Tell every peer that is there what this node has consumed, after what was sent before;
        those that are not in the application's view, once they are."""
        self._said, self._said_view, self._said_after = phantom, self.view, self.outbox.last
        for flow in self.peers:
            flow.owes_news = flow.is_open and flow.view >= self.view
            flow.awaits_view = flow.is_open and flow.view < self.view

    def owes(self, slot: int, now: float) -> bool:
        """Whether ``frames`` might have something."""
        flow = self.flows[slot]
        return flow.is_open and (
            flow.sent < self.outbox.last
            or flow.owes_news
            or (flow.ack_at is not None and flow.ack_at <= now)
            or flow.owes_ack()
        )

    def frames(self, slot: int, channel: int, congested: bool, now: float) -> list[bytes]:
        """What is to be sent to a peer now."""
        flow = self.flows[slot]
        if not flow.is_open:
            return []
        found: list[bytes] = []
        outbox = self.outbox
        if self._gaps:
            found = self._leave_out(flow, channel)
        same_channel, first, end, data, size = self._frame
        if flow.sent + 1 == first and end == outbox.last and end <= flow.limit:
            # Most often all peers get the same frame.
            if same_channel == channel and size <= flow.room and not congested:
                found.append(data)
                flow.sent = end
                flow.room -= size
        while flow.sent < outbox.last and flow.sent < flow.limit and not congested:
            number = flow.sent + 1
            last, taken = outbox.reach(number, flow.limit, flow.room, self._batch_bytes_max, slot)
            if last < number:
                break
            found.append(self._data(channel, number, last, slot, taken))
            flow.sent = last
            flow.room -= taken
            if self._gaps:
                found += self._leave_out(flow, channel)
        due = now + ACK_S - ACK_WITH_DATA_S if found else now
        if (flow.ack_at is not None and flow.ack_at <= due) or flow.owes_ack():
            found.append(talk.ack(channel, *flow.ack()))
        # Before the messages that it follows it is of no use to the peer, who refuses one that is
        # far ahead.
        if flow.owes_news and self._said is not None and flow.sent >= self._said_after:
            flow.owes_news = False
            found.append(talk.news(channel, self._said))
        return found

    def _data(self, channel: int, number: int, last: int, slot: int, size: int) -> bytes:
        """A frame of messages, kept for the next peer unless it is for this one only."""
        parts, is_for_all = self.outbox.batch(number, last, slot)
        data = talk.data(channel, number, parts)
        if is_for_all:
            self._frame = (channel, number, last, data, size)
        return data

    def _leave_out(self, flow: Flow, channel: int) -> list[bytes]:
        """Go past what is not for a peer; a frame without messages if its limit ends there."""
        before = flow.sent
        flow.sent = self.outbox.passed(max(before, flow.acked), flow.slot)
        if before == flow.sent or flow.sent < flow.limit:
            return []
        return [talk.data(channel, flow.sent + 1, codec.join_batch([]))]

    def _pass(self, flows: Sequence[Flow]) -> None:
        """What is not for a peer it needs not acknowledge."""
        for flow in flows:
            flow.acked = self.outbox.passed(flow.acked, flow.slot)
        self.release()

    def opened(self, slot: int, said: talk.Open) -> None:
        """A peer opened the group, and has no more than was sent and no less than is kept."""
        self.flows[slot].opened(said)
        if self._gaps:
            self._pass([self.flows[slot]])

    def acknowledged(self, slot: int, said: talk.Ack) -> None:
        """A peer told what it has.  WireError for nonsense."""
        flow = self.flows[slot]
        if not flow.is_open:
            return
        if said.have > flow.sent:
            raise WireError(f"acknowledged {said.have} of {flow.sent} messages")
        flow.acknowledged(said.have, said.limit, said.limit_bytes)
        if self._gaps:
            self._pass([flow])
        else:
            self.release()

    def release(self) -> None:
        """Forget what every peer has that something is kept for."""
        waited = self._settle() if self._unsettled else self.peers
        self.outbox.release(min([flow.acked for flow in waited], default=self.outbox.last))

    # ---- members that come and go ----------------------------------------------------------------

    def add(self, name: str) -> Flow:
        """A new member, in the next slot; nobody waits for it until it is there.

        Its view is that of the application here: the one that added it is no earlier, and it opens
        nothing before it has installed that.
        """
        flow = Flow(len(self.flows), name, self._config)
        flow.view = self.view
        self.flows.append(flow)
        self.peers.append(flow)
        self.unsettle(flow.slot)
        return flow

    def remove(self, slot: int) -> None:
        """A member is none any more: nothing goes there, and nobody waits for it."""
        flow = self.flows[slot]
        flow.closed()
        self.peers = [each for each in self.peers if each is not flow]
        self._unsettled = [each for each in self._unsettled if each is not flow]
        self.outbox.is_sent = bool(self.peers)
        self._drop_marks()
        self.release()

    def retain(self, slots: Collection[int]) -> None:
        """Only these are members; the others were there before this node came."""
        self.peers = [flow for flow in self.peers if flow.slot in slots]
        self.outbox.is_sent = bool(self.peers)
        self._drop_marks()
        self.release()

    def resume(self, view: int) -> None:
        """What was sent so far was sent in this view or earlier: it is not known when."""
        self._marks = [(1, view)] if view else []
        self.view = view
        for flow in self.peers:
            flow.set_ceiling(self._ceiling(flow.view))

    def enter(self, view: int) -> None:
        """The application is in this view from its next message on."""
        assert view >= self.view, f"view {view} after {self.view}"
        self.view = view
        number = self.outbox.last + 1
        if self._marks and self._marks[-1][0] == number:
            self._marks.pop()  # nothing was sent in that view
        self._marks.append((number, view))
        self._drop_marks()
        for flow in self.peers:
            flow.set_ceiling(self._ceiling(flow.view))

    def installed(self, slot: int, view: int) -> None:
        """A peer said which view it has installed: it may get what was sent in that one."""
        flow = self.flows[slot]
        flow.view = max(flow.view, view)
        flow.set_ceiling(self._ceiling(flow.view))
        self._drop_marks()
        if flow.awaits_view and flow.view >= self._said_view:
            flow.awaits_view = False
            flow.owes_news = True

    def _ceiling(self, view: int) -> int:
        """The number of the last message that was sent in a view up to this one."""
        return next((number - 1 for number, each in self._marks if each > view), NO_CEILING)

    def _drop_marks(self) -> None:
        """Forget where views began that every peer has reached."""
        reached = min([flow.view for flow in self.peers], default=self.view)
        self._marks = [mark for mark in self._marks if mark[1] > reached]

    def unsettle(self, slot: int) -> None:
        """A member has to catch up first: with what was sent before it came, or with what it lost
        when others tried to evict it."""
        flow = self.flows[slot]
        if flow not in self._unsettled:
            flow.is_settled = False
            self._unsettled.append(flow)

    def _settle(self) -> list[Flow]:
        """See who has caught up, and what still counts; the peers that messages are kept for: those
        that are settled or there."""
        outbox = self.outbox
        for flow in self._unsettled:
            flow.is_settled = flow.is_open and self._has_caught_up(flow.acked)
        self._unsettled = [flow for flow in self._unsettled if not flow.is_settled]
        settled = [flow.acked for flow in self.peers if flow.is_settled]
        outbox.floor = min(settled, default=outbox.last)
        outbox.lighten(outbox.floor)
        waited = [flow for flow in self.peers if flow.is_settled or flow.is_open]
        outbox.is_sent = bool(waited)
        return waited

    def _has_caught_up(self, acked: int) -> bool:
        """Whether a peer that has so much leaves half of the outbox free: then waiting for it does
        not stop the application at once."""
        outbox = self.outbox
        assert acked >= outbox.first - 1, "the outbox is refilled before a flow is opened"
        return (
            2 * (outbox.last - acked) <= self._messages_max
            and 2 * outbox.bytes_after(acked) <= self._bytes_max
        )

    def lacks(self, have: int) -> range:
        """The numbers that a peer with so much lacks and the outbox no longer has: before its flow
        is opened, ``refill`` has to bring them back."""
        return range(have + 1, self.outbox.first)

    def refill(self, lengths: Sequence[int]) -> None:
        """Own messages whose payloads have these lengths are to be sent again, oldest first, up to
        the one before ``outbox.first``.

        Only where link numbers are those of the default stream.  The next ``release`` forgets them
        again unless the flow of whoever lacks them is open by then.
        """
        self.outbox.refill(lengths)

    def fall_back(self, slot: int, have: int, discarded: int, discarded_bytes: int) -> None:
        """What was received of a peer and not delivered is gone, because an eviction froze it:
        ``discarded`` messages, which count ``discarded_bytes`` (``talk.message_bytes``)."""
        self.flows[slot].fall_back(have, discarded, discarded_bytes)

    def relayed(self, slot: int, count: int, size: int) -> None:
        """The next messages of a peer came through another member; ``size`` is what they count
        (``talk.message_bytes``).  They take room that the peer was promised, so it is not to be
        heard again before its next opening."""
        self.flows[slot].relayed(count, size)

    # ---- what comes in ---------------------------------------------------------------------------

    def arrived(
        self, slot: int, number: int, batch: memoryview, now: float
    ) -> tuple[list[codec.BatchItem], bytes | memoryview]:
        """What is new in a batch, and the batch of that.  WireError for nonsense."""
        flow = self.flows[slot]
        items = codec.decode_batch(batch)
        count, size = _measure(items, None if self._relays else slot)
        skip = flow.have + 1 - number
        if skip < 0:
            if not self._gaps or number > SEQ_MAX:
                raise WireError(f"message {number} after {flow.have}: some are missing")
            flow.have = number - 1
            skip = 0
        if not items:
            flow.ack_at = now
            return [], b""
        # First, and with what was here already: a short chain may stand for many messages.
        if number + count - 1 > flow.told_limit:
            raise WireError(f"{number + count - 1} messages; {flow.told_limit} were allowed")
        if flow.exceeds(size):
            raise WireError(f"{size} more bytes of messages than were allowed")
        if skip:
            items, repeated = _without(items, skip)
            flow.repeated(repeated)
            if not items:
                flow.ack_at = now
                return [], b""
            count -= skip
            size -= repeated
            encoded = [codec.encode(message) for message in items]
            batch = memoryview(b"".join(codec.join_batch(encoded)))
        flow.arrived(count, size)
        if flow.ack_at is None:
            flow.ack_at = now + ACK_S
        return items, batch

    def take_back(self, slot: int, count: int, refused: Sequence[bytes]) -> None:
        """The last so many messages that arrived do not count: the first of them is no good.
        ``refused``: the payloads of those that the engine did not take, which are not held."""
        self.flows[slot].have -= count
        for payload in refused:
            self.taken(slot, payload)

    def hold(self, slot: int, payload: bytes) -> None:
        """A message of a former life waits for the application again."""
        self.flows[slot].hold(talk.message_bytes(payload))

    def taken(self, slot: int, payload: bytes) -> None:
        """The application took a message."""
        self.flows[slot].taken(talk.message_bytes(payload))

    def written(self) -> None:
        """The journal has everything that arrived."""
        for flow in self.peers:
            flow.durable = flow.have

    def hurry(self, now: float) -> None:
        """Acknowledgements wait no longer."""
        for flow in self.peers:
            if flow.ack_at is not None:
                flow.ack_at = now

    def due(self) -> list[float]:
        """When acknowledgements are."""
        return [flow.ack_at for flow in self.peers if flow.ack_at is not None]


def _without(items: list[codec.BatchItem], skip: int) -> tuple[list[codec.BatchItem], int]:
    """The messages after the first so many, and what those count.  What is left out is not taken
    apart: a peer may repeat much in few bytes."""
    at = 0
    for item in items:
        count = len(item) if type(item) is Chain else 1
        if count > skip:
            break
        skip -= count
        at += 1
    messages = codec.messages_of(items[at:])
    repeated = _measure(items[:at], None)[1] + _measure(messages[:skip], None)[1]
    return [*messages[skip:]], repeated


def _measure(items: Sequence[codec.BatchItem], slot: int | None) -> tuple[int, int]:
    """How many messages there are, and what they count towards ``limit_bytes``; WireError if one
    is not of that slot, if one is given."""
    count = size = 0
    for item in items:
        if item.origin != slot and slot is not None:
            raise WireError(f"a message of slot {item.origin} from slot {slot}")
        if type(item) is Chain:
            count += len(item.payloads)
            size += sum(map(len, item.payloads))
        else:
            count += 1
            size += len(item.payload)  # type: ignore[union-attr]
    return count, size + talk.MESSAGE_BYTES_EXTRA * count
