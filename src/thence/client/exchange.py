"""What a group sends its peers and gets from them: numbers, acknowledgements, credit.

The engine does not know of it: what comes out of here is each message of a peer once, in the order
in which that peer sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thence.client.flow import Flow
from thence.client.outbox import Hollow, Outbox
from thence.config.node import FlowConfig
from thence.errors import WireError
from thence.message import Chain, Message, Phantom, VectorMessage, hollow_form
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
    ) -> None:
        """``have`` and ``outbox`` are what a journal remembers."""
        self._messages_max, self._bytes_max = config.outbox_messages_max, config.outbox_bytes_max
        self._batch_bytes_max = config.batch_bytes_max
        self.flows = [Flow(at, name, config, have=have[at]) for at, name in enumerate(names)]
        """By slot, this node's own place included."""
        self.peers = [flow for flow in self.flows if flow.slot != slot]
        self.outbox = Outbox(outbox_first, is_sent=bool(self.peers), slot=slot)
        for encoded in outbox:
            self.keep(encoded, codec.decode(encoded))
        self._said: Phantom | None = None
        self._frame: tuple[int, int, int, bytes, int] = (0, 0, 0, b"", 0)

    # ---- what goes out ---------------------------------------------------------------------------

    def keep(self, encoded: bytes, message: object) -> None:
        """An own message, for everybody."""
        hollow = None
        if type(message) is Message:
            if message.aside is not None and message.to:
                hollow = Hollow(frozenset(message.to), codec.encode(hollow_form(message)))
        else:
            assert type(message) is VectorMessage
        self.outbox.append(encoded, len(message.payload) + talk.MESSAGE_BYTES_EXTRA, hollow)
        if not self.peers:
            self.outbox.release(self.outbox.last)

    @property
    def has_room(self) -> bool:
        """Whether the outbox takes one more."""
        outbox = self.outbox
        return len(outbox) < self._messages_max and outbox.kept_bytes < self._bytes_max

    def behind(self) -> list[str]:
        """The members that have acknowledged least: whom a full outbox waits for."""
        least = min([flow.acked for flow in self.peers], default=0)
        return [flow.name for flow in self.peers if flow.acked == least]

    def say(self, phantom: Phantom) -> None:
        """Tell every peer that is there what this node has consumed."""
        self._said = phantom
        for flow in self.peers:
            flow.owes_news = flow.is_open

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
        due = now + ACK_S - ACK_WITH_DATA_S if found else now
        if (flow.ack_at is not None and flow.ack_at <= due) or flow.owes_ack():
            found.append(talk.ack(channel, *flow.ack()))
        if flow.owes_news and self._said is not None:
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

    def acknowledged(self, slot: int, said: talk.Ack) -> None:
        """A peer told what it has.  WireError for nonsense."""
        flow = self.flows[slot]
        if not flow.is_open:
            return
        if said.have > flow.sent:
            raise WireError(f"acknowledged {said.have} of {flow.sent} messages")
        flow.acknowledged(said.have, said.limit, said.limit_bytes)
        self.release()

    def release(self) -> None:
        """Forget what every peer has."""
        self.outbox.release(min([flow.acked for flow in self.peers], default=self.outbox.last))

    # ---- what comes in ---------------------------------------------------------------------------

    def arrived(
        self, slot: int, number: int, batch: memoryview, now: float
    ) -> tuple[list[codec.BatchItem], bytes | memoryview]:
        """What is new in a batch, and the batch of that.  WireError for nonsense."""
        flow = self.flows[slot]
        items = codec.decode_batch(batch)
        count, size = _measure(items, slot)
        skip = flow.have + 1 - number
        if skip < 0:
            raise WireError(f"message {number} after {flow.have}: some are missing")
        # First, and with what was here already: a short chain may stand for many messages.
        if number + count - 1 > flow.told_limit:
            raise WireError(f"{number + count - 1} messages; {flow.told_limit} were allowed")
        if flow.exceeds(size):
            raise WireError(f"{size} more bytes of messages than were allowed")
        if skip:
            items, repeated = _without(items, skip, slot)
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
        self.flows[slot].held += 1
        self.flows[slot].held_bytes += talk.message_bytes(payload)

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


def _without(
    items: list[codec.BatchItem], skip: int, slot: int
) -> tuple[list[codec.BatchItem], int]:
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
    repeated = _measure(items[:at], slot)[1] + _measure(messages[:skip], slot)[1]
    return [*messages[skip:]], repeated


def _measure(items: Sequence[codec.BatchItem], slot: int) -> tuple[int, int]:
    """How many messages there are, and what they count towards ``limit_bytes``; WireError if one
    is not of that slot."""
    count = size = 0
    for item in items:
        if item.origin != slot:
            raise WireError(f"a message of slot {item.origin} from slot {slot}")
        if type(item) is Chain:
            count += len(item.payloads)
            size += sum(map(len, item.payloads))
        else:
            count += 1
            size += len(item.payload)  # type: ignore[union-attr]
    return count, size + talk.MESSAGE_BYTES_EXTRA * count
