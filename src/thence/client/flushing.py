"""What an eviction does with messages: freeze, pull, relay.

The part of the driver of an elastic group (elastic.py) by which all survivors come to have the same
messages of a member that is being evicted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from thence.client.attendance import Attendance
from thence.engine import handover
from thence.errors import WireError
from thence.message import Message
from thence.wire import codec, talk
from thence.wire import membership as said

RELAY_BYTES: Final = 1 << 20
"""Of messages in one relay, but for the last of them."""


class Flushing(Attendance):
    """The driver of an elastic group, as far as the messages of frozen members are concerned."""

    _frozen_before: set[int]
    """Members that were frozen since the last view."""
    _pulls: dict[tuple[int, int], said.Pull]
    """What was asked for in this turn, by who asked and whose messages."""

    def freeze(self, slots: Iterable[int]) -> None:
        """Throw away what is held back of these; from now on only relays of theirs are taken."""
        frozen = list(slots)
        for slot in frozen:
            self._frozen_before.add(slot)
            count, size = self.engine.discard(slot)
            size += count * talk.MESSAGE_BYTES_EXTRA
            self.exchange.fall_back(slot, self.reached(slot), count, size)
        if self._ledger is not None and frozen:
            self._ledger.froze(frozen)

    def data(self, slot: int, number: int, batch: memoryview, now: float) -> None:
        """Messages of a peer."""
        self._now = now
        if self.is_out or slot in self.council.frozen:
            return
        super().data(slot, number, batch, now)
        if self.council.limit:
            self.council.advanced()

    def news(self, slot: int, phantom: Any, now: float) -> None:
        """A peer told what it has consumed; one that is no member any more may not know it yet."""
        if not self.is_out and self.exchange.flows[slot].is_open:
            super().news(slot, phantom, now)

    def _pulled(self, slot: int, message: said.Pull) -> None:
        """A member lacks messages of a frozen one.  It is answered once in a turn, however often it
        asks: the answer is much larger."""
        if message.view == self.council.view.num and message.slot in self.council.frozen:
            self._pulls[slot, message.slot] = message

    def _relay(self) -> None:
        """Answer who asked."""
        pulls, self._pulls = self._pulls, {}
        for (slot, origin), asked in pulls.items():
            found = handover.relay(self.engine, origin, asked.first, asked.last, RELAY_BYTES)
            if found:
                batch = b"".join(codec.join_batch([codec.encode(each) for each in found]))
                name = self.members.ids[slot].name
                self.replies.append((name, said.Relay(asked.view, origin, batch)))

    def _relayed(self, holder: int, message: said.Relay, now: float) -> None:
        """Messages of a frozen member, by way of another."""
        slot, limit = message.slot, self.council.limit.get(message.slot, 0)
        if message.view != self.council.view.num or not limit:
            return
        flow = self.exchange.flows[slot]
        for each in codec.decode_batch(message.batch):
            if not isinstance(each, Message) or each.origin != slot:
                raise WireError("a relay of something else")
            if flow.have < each.seq <= limit and each.seq == flow.have + 1:
                self.engine.receive(slot, each, self._out)
                if self._out.reject:
                    refused = self._carry_out(now)[0]
                    raise WireError(f"{refused.reason}: {refused.detail}")
                self.exchange.relayed(slot, 1, len(each.payload) + talk.MESSAGE_BYTES_EXTRA)
                if self._ledger is not None:
                    self._ledger.relayed(slot, codec.encode(each))
                if self._trace is not None:
                    self._trace.arrived(self._us(now), [each])
                self._carry_out(now)
        self.council.advanced()
        if flow.have < limit:
            again = said.Pull(self.council.view.num, slot, flow.have + 1, limit)
            self.council.out.append((holder, again))
