"""What a node writes down, and how it finds its way back after a crash.

Records, in the order in which things happened; one commit for each turn of the loop:

    Sent        an own message, with its link number: never sent before it is written
    Received    messages of a peer: never acknowledged before they are written
    Confirmed   events that the application is done with, in the order in which it took them

and with every commit ``Mark``, how long the trace is.  A *checkpoint* (``Checkpoint``) stands for
all records before it; it is made when they have grown to some multiple of what they amount to.

Coming back: the state of the checkpoint is restored (engine/restore.py) and the records are carried
out again on real engines.  What was received and not confirmed is delivered again.  What a pass
found stable and was not confirmed is told again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot
from thence.engine.bursts import receive_chain
from thence.engine.effects import Effects
from thence.engine.frontier import Confirmed as ConfirmedFrontier
from thence.engine.outgoing import message_of
from thence.engine.reject import DUPLICATE, Reject
from thence.engine.restore import State, export_state, restore
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import STABLE, Tag
from thence.engine.tagged import Tagged
from thence.engine.tagger import Tagger
from thence.errors import JournalError, WireError
from thence.journal.base import Journal, Saved
from thence.message import Chain, Message, StreamDot
from thence.wire import codec

FORMAT: Final = 1
CHECKPOINT_FACTOR: Final = 2
"""Records may grow to this multiple of the last checkpoint before the next one is made."""

# What an application can be done with; in a record: packed dot * 4 + kind.
DELIVERY: Final = 0
STABLE_EVENT: Final = 1
KNOWN_EVENT: Final = 2


class Sent(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """An own message."""

    message: bytes


class Received(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A batch (codec.py) of a peer's; ``number`` is the link number of its first message."""

    slot: int
    number: int
    batch: bytes


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """Events that the application is done with."""

    events: list[int | StreamDot]
    """Deliveries on streams by their dot; everything else as packed dot * 4 + kind."""


class Mark(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """Where the trace is, in records."""

    position: int


Entry = Sent | Received | Confirmed | Mark


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to some moment."""

    v: int = FORMAT
    state: State
    outbox_first: int
    outbox: list[bytes]
    """Own messages from that number on, those included that are in ``state`` too."""
    have: list[int]
    """By slot: the link number up to which messages of that peer are written down."""
    unconfirmed: list[Message | Chain]
    """Received and not confirmed, in the order in which they were or can be delivered."""
    position: int


class Recovered(msgspec.Struct, kw_only=True):
    """What a node goes on with."""

    outbox_first: int = 1
    outbox: list[bytes] = []
    have: list[int]
    ready: list[Tag] = []
    """Delivered and not confirmed, in order."""
    told: list[Tag] = []
    """Found stable and not confirmed, in order."""
    known: list[Tag] = []
    position: int = 0
    is_new: bool = True
    """Nothing was written down before."""


_encode: Final = msgspec.msgpack.Encoder().encode
_entries: Final = msgspec.msgpack.Decoder(Entry)
_checkpoints: Final = msgspec.msgpack.Decoder(Checkpoint)


class Ledger:
    """The journal of one node in one group, and what its application has confirmed."""

    def __init__(
        self, journal: Journal, client: Tagger, engine: Tagged, checkpoint_bytes: int
    ) -> None:
        self._journal = journal
        self._client = client
        self._engine = engine
        self.confirmed = ConfirmedFrontier(client.slot)
        self._checkpoint_bytes = checkpoint_bytes
        self._due_bytes = checkpoint_bytes
        self._known: dict[int, Tag] = {}
        self._events: list[int | StreamDot] = []
        self._dirty = False

    # While the node runs.

    def sent(self, tag: Tag, encoded: bytes) -> None:
        """An own message; everything that was taken before it must be confirmed."""
        self._write_events()
        self.confirmed.send(tag)
        self._append(Sent(encoded))

    def received(self, slot: int, number: int, batch: bytes) -> None:
        """Messages that the engine accepted."""
        self._append(Received(slot, number, batch))

    def confirm(self, kind: int, tag: Tag) -> None:
        """The application is done with an event."""
        if kind == DELIVERY:
            self.confirmed.take(tag)
        elif kind == KNOWN_EVENT:
            self._known[tag.packed] = tag
        else:
            self._known.pop(tag.packed, None)
        if tag.packed >> SEQ_BITS >= STREAM_BASE:
            self._events.append(tag.past.stream_dot(tag.packed))
        else:
            self._events.append(tag.packed << 2 | kind)

    @property
    def dirty(self) -> bool:
        """Whether there is something to commit."""
        return self._dirty or bool(self._events)

    def commit(self, position: int) -> None:
        """Write everything down; ``position`` is how long the trace is."""
        self._write_events()
        self._append(Mark(position))
        self._journal.commit()
        self._dirty = False

    @property
    def log_bytes(self) -> int:
        """Of the records since the last checkpoint."""
        return self._journal.log_bytes

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the records have grown enough to be replaced."""
        return self._journal.log_bytes >= self._due_bytes

    def checkpoint(
        self, outbox_first: int, outbox: list[bytes], have: list[int], ready: Iterable[Tag],
        position: int,
    ) -> None:  # fmt: skip
        """Replace all records by what they amount to.  ``ready``: delivered, not confirmed."""
        self._events.clear()  # their effect is in the state
        pending = self._engine.held_items()
        state = export_state(self._client, self._engine, self.confirmed, list(self._known.values()))
        made = _encode(
            Checkpoint(
                state=state, outbox_first=outbox_first, outbox=outbox, have=have,
                unconfirmed=[*map(message_of, ready), *pending], position=position,
            )
        )  # fmt: skip
        self._journal.checkpoint(made)
        self._dirty = False
        if self._checkpoint_bytes:  # 0: at every commit, which tests want
            self._due_bytes = max(self._checkpoint_bytes, CHECKPOINT_FACTOR * len(made))

    def close(self) -> None:
        """Commit what is staged and let go."""
        self._journal.close()

    def _append(self, entry: Entry) -> None:
        self._dirty = True  # first: if it fails, the next commit must fail too
        self._journal.append(_encode(entry))

    def _write_events(self) -> None:
        if self._events:
            self._append(Confirmed(self._events))
            self._events = []

    # After a crash.

    def recover(self) -> Recovered:
        """Bring client and engine, which have done nothing yet, back to what is written down."""
        saved = self._journal.load()
        return _Recovery(self._client, self._engine, self.confirmed, self._known).go(saved)


class _Recovery:
    def __init__(
        self, client: Tagger, engine: Tagged, confirmed: ConfirmedFrontier, known: dict[int, Tag]
    ) -> None:
        self.client = client
        self.engine = engine
        self.confirmed = confirmed
        self.known = known
        self.found = Recovered(have=[0] * len(engine.delivered))
        self.ready: dict[int, Tag] = {}
        self.stable: dict[int, Tag] = {}
        self.k_stable: dict[int, Tag] = {}
        self.out = Effects()
        self.refused: list[Reject] = []

    def go(self, saved: Saved) -> Recovered:
        found = self.found
        found.is_new = saved.checkpoint is None and not saved.records
        try:
            if saved.checkpoint is not None:
                self._begin(_checkpoints.decode(saved.checkpoint))
            for record in saved.records:
                self._carry_out(_entries.decode(record))
        except (msgspec.MsgspecError, WireError, KeyError, IndexError) as error:
            raise _impossible(f"{type(error).__name__}: {error}") from error
        self.engine.flush(self.out)
        self._collect()
        found.ready = list(self.ready.values())
        found.told = [tag for tag in self.stable.values() if tag.gone < 0]
        found.known = [
            tag for tag in self.k_stable.values() if tag.gone < 0 and tag.packed not in self.known
        ]
        return found

    def _begin(self, made: Checkpoint) -> None:
        if made.v != FORMAT:
            raise JournalError(
                f"the journal has version {made.v} of its format, this thence reads {FORMAT}: "
                "use the version of thence that wrote it"
            )
        for tag in restore(self.client, self.engine, self.confirmed, made.state):
            if tag.packed in made.state.k_told:
                self.known[tag.packed] = tag
        found = self.found
        found.outbox_first, found.outbox = made.outbox_first, made.outbox
        found.have, found.position = made.have, made.position
        for item in made.unconfirmed:
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
        else:
            self.found.position = entry.position

    def _receive(self, slot: int, batch: list[Any]) -> None:
        for item in batch:  # chains as chains: what waits must come in the same order again
            if isinstance(item, Chain):
                receive_chain(self.engine, slot, item, self.out)
            else:
                self.engine.receive(slot, item, self.out)
        # What a peer sent and the engine refused is in the records too, and is refused again.
        self.refused = [reject for reject in self.out.reject if reject.reason != DUPLICATE]
        self._collect()

    def _collect(self) -> None:
        out = self.out
        self.ready.update((tag.packed, tag) for tag in out.deliver)
        self.stable.update((tag.packed, tag) for tag in out.stable)
        self.k_stable.update((tag.packed, tag) for tag in out.k_stable)
        out.clear()

    def _confirm(self, event: int | StreamDot) -> None:
        if isinstance(event, int):
            packed, kind = event >> 2, event & 3
        else:
            packed, kind = self.client.past.stream_packed(event), DELIVERY
        if kind == DELIVERY:
            tag = self.ready.pop(packed)
            self.client.consume(tag)
            self.confirmed.take(tag)
            return
        tag = self.client.past.rows[packed >> SEQ_BITS][packed]
        if kind == KNOWN_EVENT:
            self.known[packed] = tag
            self.engine.knowledge.k_told.add(packed)
            return
        if tag.pushed != STABLE:
            self.engine.settle([tag])
        self.client.stabilised(tag)
        self.engine.forget(tag)
        self.known.pop(packed, None)

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
        self.found.outbox.append(encoded)


def latest_dots(client: Tagger, confirmed: ConfirmedFrontier) -> tuple[list[Dot], list[Dot]]:
    """The latest dot of each origin that was confirmed, and of those, told stable: what a
    ``restart`` record says."""
    past = client.past
    reached = {k: packed for k, packed in confirmed.reached.items() if packed & SEQ_MAX}
    first: dict[int, int] = {}
    for packed, tag in past.window.items():
        k = packed >> SEQ_BITS
        if k < STREAM_BASE and 0 <= tag.index <= confirmed.clock:
            first[k] = min(packed, first.get(k, packed))
    taken = sorted(past.dot_of(packed) for packed in reached.values())
    told = {k: first.get(k, packed + 1) - 1 for k, packed in reached.items() if k < STREAM_BASE}
    return taken, sorted(past.dot_of(packed) for packed in told.values() if packed & SEQ_MAX)


def _impossible(why: str) -> JournalError:
    return JournalError(
        f"the journal cannot be carried out again ({why}): restore it from a copy, or let the node "
        "join as a new incarnation"
    )
