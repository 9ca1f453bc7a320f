"""How a node finds its way back after a crash, from what its journal has (ledger.py).

The state of the checkpoint is restored (engine/restore.py) and the records are carried out again on
real engines.  What was received and not confirmed is delivered again.  What was not confirmed to be
stable is looked for at the end, among the members of the last view, and told after it: what those
of an earlier one know is not enough for an application that has reached a later one.

An application whose state is kept (kept.py) is given the rows of the checkpoint, and then told what
it sent and confirmed since, in that order; the rest comes as events, like everybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.client.entries import (
    DELIVERY,
    FORMAT,
    KNOWN_EVENT,
    VIEW_EVENT,
    Checkpoint,
    Confirmed,
    Entry,
    Froze,
    Mark,
    Promised,
    Received,
    Recovered,
    Relayed,
    Sent,
    Viewed,
    decode_checkpoint,
    decode_entry,
)
from thence.client.retold import Retold
from thence.engine.bursts import receive_chain
from thence.engine.effects import Effects
from thence.engine.frontier import Confirmed as ConfirmedFrontier
from thence.engine.reject import DUPLICATE, Reject
from thence.engine.restore import restore
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged
from thence.engine.tagger import Tagger
from thence.errors import JournalError, LocalProtocolError, WireError
from thence.journal.base import Journal, Saved
from thence.message import Chain, Message, StreamDot
from thence.wire import codec
from thence.wire.membership import View

Install = Callable[[View], list[Any]]
"""Makes a view that of client and engine; the changes that the application is to be told."""


class Recovery:
    """One way back."""

    def __init__(
        self, client: Tagger, engine: Tagged, confirmed: ConfirmedFrontier, known: dict[int, Tag],
        install: Install | None, retold: Retold | None = None,
    ) -> None:  # fmt: skip
        self.install = install
        self.retold = retold
        self.changes = 0
        self.skipped = 0  # changes that were confirmed before, of a view that was not
        self.told = 0
        self.client = client
        self.engine = engine
        self.confirmed = confirmed
        self.known = known
        self.found = Recovered(have=[0] * len(engine.delivered))
        self.ready: dict[int, Any] = {}
        """By packed dot; changes of the membership by negative numbers."""
        self.out = Effects()
        self.refused: list[Reject] = []

    def go(self, saved: Saved) -> Recovered:
        """All of it."""
        found = self.found
        found.is_new = saved.checkpoint is None and not saved.records
        try:
            made = None if saved.checkpoint is None else decode_checkpoint(saved.checkpoint)
            if made is not None:
                self._begin(made)
            if self.retold is not None:
                self.retold.begin()
            self.engine.knowledge.pause()
            for item in () if made is None else made.unconfirmed:
                self._receive_again(item)
            for record in saved.records:
                self._carry_out(decode_entry(record))
        except (msgspec.MsgspecError, WireError, KeyError, IndexError) as error:
            raise _impossible(f"{type(error).__name__}: {error}") from error
        self.engine.knowledge.resume()
        self.engine.flush(self.out)
        found.ready = list(self.ready.values())
        found.told, found.known = self.out.stable, self.out.k_stable
        return found

    def _begin(self, made: Checkpoint) -> None:
        if made.v != FORMAT:
            raise JournalError(
                f"the journal has version {made.v} of its format, this thence reads {FORMAT}: "
                "use the version of thence that wrote it"
            )
        if made.kept and self.retold is None:
            raise LocalProtocolError("the journal has the state of its application: give it kept=")
        if not made.kept and self.retold is not None:
            raise LocalProtocolError(
                "the journal was begun without kept=, so the state of its application is not in it"
            )
        for tag in restore(self.client, self.engine, self.confirmed, made.state):
            if tag.packed in made.state.k_told:
                self.known[tag.packed] = tag
        found = self.found
        found.outbox_first, found.outbox = made.outbox_first, made.outbox
        found.have, found.position = made.have, made.position
        found.view, found.promised = made.view, made.promised
        self.changes = self.skipped = made.changes

    def _receive_again(self, item: Message | Chain | Viewed) -> None:
        """What was delivered before the checkpoint, and not confirmed."""
        if isinstance(item, Viewed):
            self._view(item.view)
            return
        self._receive(item.origin, [item])
        if self.refused:
            raise _impossible(self.refused[0].detail)

    def _carry_out(self, entry: Entry) -> None:
        if isinstance(entry, Received):
            batch = codec.decode_batch(entry.batch)
            self._receive(entry.slot, batch)
            self.found.have[entry.slot] = entry.number + len(codec.messages_of(batch)) - 1
        elif isinstance(entry, Confirmed):
            for event in entry.events:
                self._confirm(event)
        elif isinstance(entry, Sent):
            self._send(entry.message)
        elif isinstance(entry, Mark):
            self.found.position = entry.position
        else:
            self._carry_out_members(entry)

    def _carry_out_members(self, entry: Froze | Relayed | Viewed | Promised) -> None:
        have = self.found.have
        if isinstance(entry, Froze):
            for slot in entry.slots:
                self.engine.discard(slot)
                have[slot] = self.engine.delivered[slot] & SEQ_MAX
        elif isinstance(entry, Relayed):
            self._receive(entry.slot, [codec.decode(entry.message)])
            have[entry.slot] += 1
        elif isinstance(entry, Viewed):
            self._view(entry.view)
        else:
            self.found.promised = entry.state

    def _view(self, view: View) -> None:
        if self.install is None:
            raise _impossible("a view in a group whose members do not change")
        for change in self.install(view):
            if self.skipped:
                self.skipped -= 1
                self.found.partial.append(change[1])
            else:
                self.told += 1
                self.ready[-self.told] = change
        have = self.found.have
        have += [0] * (len(self.engine.delivered) - len(have))

    def _receive(self, slot: int, batch: list[Any]) -> None:
        for item in batch:  # chains as chains: what waits must come in the same order again
            if isinstance(item, Chain):
                receive_chain(self.engine, slot, item, self.out)
            else:
                self.engine.receive(slot, item, self.out)
        # What a peer sent and the engine refused is in the records too, and is refused again.
        self.refused = [reject for reject in self.out.reject if reject.reason != DUPLICATE]
        self.ready.update((tag.packed, tag) for tag in self.out.deliver)
        self.out.clear()

    def _confirm(self, event: int | StreamDot) -> None:
        if isinstance(event, int):
            packed, kind = event >> 2, event & 3
            if kind == VIEW_EVENT:
                self._reach()
                return
        else:
            packed, kind = self.client.past.stream_packed(event), DELIVERY
        if kind == DELIVERY:
            tag = self.ready.pop(packed)
            self.client.consume(tag)
            self.confirmed.take(tag)
            if self.retold is not None:
                self.retold.delivered(tag)
            return
        tag = self.client.past.rows[packed >> SEQ_BITS][packed]
        if kind == KNOWN_EVENT:
            self.known[packed] = tag
            self.engine.knowledge.k_told.add(packed)
            return
        if self.retold is not None:
            self.retold.stable(tag)
        self.engine.settle([tag])
        self.client.stabilised(tag)
        self.engine.forget(tag)
        self.known.pop(packed, None)

    def _reach(self) -> None:
        """The application is done with the next change."""
        key = next(each for each in self.ready if each < 0)
        change = self.ready.pop(key)[1]
        self.changes += 1
        self.found.partial.append(change)
        if change.is_last:
            self.found.view, self.changes = change.view, 0
            self.found.partial = []

    def _send(self, encoded: bytes) -> None:
        message = codec.decode(encoded)
        if not isinstance(message, Message):
            raise _impossible("an own message of another kind")
        client = self.client
        tag = self.engine.readmit(message)
        client.readmit(tag)
        if tag.packed >> SEQ_BITS < STREAM_BASE:
            if tag.packed != client.sent + 1:
                raise _impossible(f"{tag} does not come after {client.sent & SEQ_MAX}")
            client.sent = tag.packed
            client.frontier.send(tag.packed)
        else:
            client.stream_sent[tag.packed >> SEQ_BITS] = tag.packed
            client.frontier.take(tag)
        self.confirmed.send(tag)
        if self.retold is not None:
            self.retold.sent(tag)
        self.found.outbox.append(encoded)


def last_checkpoint(journal: Journal) -> Checkpoint | None:
    """What a node of an elastic group began with, or came to; None if there is nothing, or it ended
    there: it left, or was evicted."""
    saved = journal.load()
    if saved.checkpoint is None:
        return None
    try:
        made = decode_checkpoint(saved.checkpoint)
        views = [item.view for item in made.unconfirmed if isinstance(item, Viewed)]
        entries = [decode_entry(record) for record in saved.records]
    except msgspec.MsgspecError as error:
        raise _impossible(str(error)) from error
    views += [entry.view for entry in entries if isinstance(entry, Viewed)]
    is_out = bool(views) and views[-1].member(made.state.slot) is None
    return None if is_out else made


def _impossible(why: str) -> JournalError:
    return JournalError(
        f"the journal cannot be carried out again ({why}): restore it from a copy, or let the node "
        "join as a new incarnation"
    )
