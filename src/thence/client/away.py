"""What a group keeps for members that are away, and when that is too much.

The part of the driver of an elastic group (elastic.py) that lets the others go on meanwhile.
Nobody waits for a member without a connection: nothing is kept for it in the outbox.  What it lacks
is not stable, so the engine has it, in memory or on the shelf (shelf.py), and the outbox is filled
again from there when it comes back.  When memory and shelf are full broadcasts wait; a member that
is suspected by then may be evicted for it (``membership.evict_full``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thence.causal.dot import SEQ_BITS
from thence.client.flushing import Flushing
from thence.client.shelf import Shelf
from thence.engine.outgoing import message_of
from thence.errors import JournalError
from thence.journal.base import Journal
from thence.message import Message


class Away(Flushing):
    """The driver of an elastic group, as far as members are concerned that are away."""

    shelf: Shelf

    def _keep_for_absent(self, journal: Journal | None, shelf_bytes_max: int) -> None:
        """From now on; client and engine have what a former life left."""
        past, bytes_max, ledger = self.client.past, self.flow.unstable_bytes_max, self._ledger
        self.shelf = Shelf(
            past, bytes_max, journal, shelf_bytes_max,
            clock=lambda: -1 if ledger is None else ledger.confirmed.clock,
        )  # fmt: skip
        self.exchange.outbox.fetch = self._own
        if ledger is not None:
            ledger.shelf = self.shelf

    def _own(self, number: int) -> Message:
        """An own message that is not stable."""
        return message_of(self.engine.rows[self.slot][self.slot << SEQ_BITS | number])

    def closed(self, slot: int, reason: str) -> None:
        """The connection to a peer is gone."""
        if self.exchange.flows[slot] in self.exchange.peers:
            self.exchange.unsettle(slot)
        super().closed(slot, reason)

    def _refill(self, slot: int, have: int) -> bool:
        """Send again what a peer lacks: it is not stable, so it is remembered."""
        lacks = self.exchange.lacks(have)
        row: dict[int, Any] = self.engine.rows[self.slot]
        base = self.slot << SEQ_BITS
        if base | lacks.start not in row:
            return False
        self._look_after()  # counts what is there
        if self.failed:
            return False
        sizes = [self.shelf.size(row[base | number]) for number in lacks]
        self.exchange.unsettle(slot)
        self.exchange.refill(sizes)
        return True

    def _pass_over(self, slot: int) -> None:
        """What was to be sent to a peer again and is stable by now went there through others: the
        engine no longer has it, and the peer does."""
        flow, row = self.exchange.flows[slot], self.engine.rows[self.slot]
        base = self.slot << SEQ_BITS
        while flow.sent < self.exchange.outbox.light and base | flow.sent + 1 not in row:
            flow.sent += 1

    def tick(self, now: float) -> None:
        """Do what is due."""
        super().tick(now)
        if self.exchange.has_unsettled:
            self._look_after()
        elif not self.shelf.is_idle:
            self._look_after()
            self.shelf.rest()

    def _look_after(self) -> None:
        try:
            self.shelf.look()
        except JournalError as error:
            self.failed = str(error)
            return
        if self._blocked:
            self._unblock()

    def frames(self, slot: int, channel: int, congested: bool, now: float) -> list[bytes]:
        """What is to be sent to a peer now; some of it may be in the journal."""
        if self.exchange.flows[slot].sent < self.exchange.outbox.light:
            self._pass_over(slot)
        try:
            return super().frames(slot, channel, congested, now)
        except JournalError as error:
            self.failed = str(error)
            return []

    @property
    def has_room(self) -> bool:
        """Whether a broadcast would be taken."""
        return self.shelf.has_room and super().has_room

    @property
    def is_full(self) -> bool:
        """Whether broadcasts wait because too much is not stable."""
        return not self.shelf.has_room or super().is_full

    def _make_room(self, payloads: Sequence[bytes], overdraw: bool = False) -> int:
        if not (overdraw or self.shelf.has_room or self.failed):
            self._no_room()
        return super()._make_room(payloads, overdraw)
