"""What a node writes down, and how it finds its way back after a crash.

Records, in the order in which things happened; one commit for each turn of the loop:

    Sent        an own message, with its link number: never sent before it is written
    Received    messages of a peer: never acknowledged before they are written
    Confirmed   events that the application is done with, in the order in which it took them

and in groups whose members change

    Froze       a member is being evicted: what was held back of it is gone
    Relayed     a message of it that came through another member
    Viewed      another view was installed
    Promised    what was promised to those who want to agree on the next one

and with every commit ``Mark``, how long the trace is.  A *checkpoint* (``Checkpoint``) stands for
all records before it; it is made when they have grown to some multiple of what they amount to.

How a node comes back is in recovery.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from thence.causal.dot import SEQ_BITS
from thence.client.acceptor import AcceptorState
from thence.client.entries import (
    DELIVERY,
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
    encode,
)
from thence.client.kept import Kept, finder
from thence.client.recovery import Install, Recovery
from thence.client.retold import Retold
from thence.client.shelf import Shelf
from thence.engine.frontier import Confirmed as ConfirmedFrontier
from thence.engine.outgoing import message_of
from thence.engine.restore import State, export_state
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged
from thence.engine.tagger import Tagger
from thence.errors import JournalError, LimitError
from thence.journal.base import Journal
from thence.message import Message, StreamDot
from thence.wire.membership import View

CHECKPOINT_BYTES: Final = 1 << 24
"""Records may grow to this size before a checkpoint is made, unless somebody says otherwise."""
COMMIT_BYTES_SOON: Final = 1 << 26
"""Of records: with more, they are better written down before the turn ends; a journal does not take
any number of bytes in one commit."""
CHECKPOINT_FACTOR: Final = 2
"""Records may grow to this multiple of the last checkpoint before the next one is made."""


class Ledger:
    """The journal of one node in one group, and what its application has confirmed."""

    def __init__(
        self, journal: Journal, client: Tagger, engine: Tagged, checkpoint_bytes: int,
        kept: Kept | None = None,
    ) -> None:  # fmt: skip
        self._journal = journal
        self._client = client
        self._engine = engine
        self._kept = kept
        self.confirmed = ConfirmedFrontier(client.slot)
        self._checkpoint_bytes = checkpoint_bytes
        self._due_bytes = checkpoint_bytes
        self._known: dict[int, Tag] = {}
        self.view: View | None = None
        """In an elastic group: the view that the application has confirmed ..."""
        self._changes = 0  # ... and how many changes of the next one
        self._events: list[int | StreamDot] = []
        self._dirty = False
        self._staged_bytes = 0
        self._broken = ""
        """Why a record is missing that was to be staged: no commit may say that all is there."""
        self.life = 0
        """When this incarnation of the node began, in microseconds."""
        self.shelf: Shelf | None = None
        """Where payloads are that are not in memory."""

    # While the node runs.

    def sent(self, tag: Tag, encoded: bytes) -> None:
        """An own message; everything that was taken before it must be confirmed."""
        self._write_events()
        self.confirmed.send(tag)
        self._append(Sent(encoded))

    def received(self, slot: int, number: int, batch: bytes) -> None:
        """Messages that the engine accepted."""
        self._append(Received(slot, number, batch))

    def froze(self, slots: list[int]) -> None:
        """What was held back of these members is gone."""
        self._append(Froze(slots))

    def relayed(self, slot: int, message: bytes) -> None:
        """A message of a frozen member, which the engine accepted."""
        self._append(Relayed(slot, message))

    def viewed(self, view: View) -> None:
        """Another view was installed."""
        self._append(Viewed(view))

    def promised(self, state: AcceptorState) -> None:
        """Something was promised; to be written before it is said."""
        self._append(Promised(state))

    def reached(self, view: View | None) -> None:
        """The application is done with one change of the membership; with the last one of a view,
        if that is given."""
        self._events.append(VIEW_EVENT)
        self._changes += 1
        if view is not None:
            self.view, self._changes = view, 0

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

    @property
    def is_large(self) -> bool:
        """Whether so much is staged that it should not wait for the end of the turn."""
        return self._staged_bytes >= COMMIT_BYTES_SOON

    def commit(self, position: int) -> None:
        """Write everything down; ``position`` is how long the trace is."""
        self._write_events()
        self._append(Mark(position))
        self._journal.commit()
        self._dirty = False
        self._staged_bytes = 0

    @property
    def durability(self) -> str:
        """What it survives (``Journal.durability``)."""
        return self._journal.durability

    @property
    def log_bytes(self) -> int:
        """Of the records since the last checkpoint."""
        return self._journal.log_bytes

    @property
    def wants_checkpoint(self) -> bool:
        """Whether the records, or what is on the shelf for nothing, have grown enough."""
        shelf = self.shelf
        return self._journal.log_bytes >= self._due_bytes or (
            shelf is not None and shelf.stale_bytes >= self._checkpoint_bytes + shelf.shelved_bytes
        )

    def checkpoint(
        self, outbox_first: int, outbox: list[bytes], have: list[int],
        ready: Iterable[Tag | Viewed], position: int, promised: AcceptorState | None,
    ) -> None:  # fmt: skip
        """Replace all records by what they amount to.  ``ready``: delivered, not confirmed.  With
        an application whose state is kept everything taken is confirmed."""
        self._events.clear()  # their effect is in the state
        pending = self._engine.held_items()
        state = export_state(self._client, self._engine, self.confirmed, list(self._known.values()))
        if self.view is not None:  # who came later comes again with its view
            state = up_to(state, self.view.slots)
        made = encode(
            Checkpoint(
                state=state, outbox_first=outbox_first, outbox=outbox, have=have,
                unconfirmed=[*map(_item, ready), *pending], position=position,
                view=self.view, changes=self._changes, promised=promised, life=self.life,
                kept=self._kept is not None,
            )
        )  # fmt: skip
        rows = () if self._kept is None else self._kept.rows()
        self._journal.checkpoint(made, state.shelved, rows)
        if self.shelf is not None:
            self.shelf.settled()
        self._dirty = False
        self._staged_bytes = 0
        if self._checkpoint_bytes:  # 0: at every commit, which tests want
            self._due_bytes = max(self._checkpoint_bytes, CHECKPOINT_FACTOR * len(made))

    def close(self) -> None:
        """Commit what is staged and let go."""
        self._journal.close()

    def _append(self, entry: Entry) -> None:
        self._dirty = True  # first: if it fails, the next commit must fail too
        if self._broken:
            raise JournalError(self._broken)
        encoded = encode(entry)
        try:
            self._journal.append(encoded)
        except LimitError as error:
            self._broken = str(error)
            raise JournalError(self._broken) from error
        self._staged_bytes += len(encoded)

    def _write_events(self) -> None:
        if self._events:
            self._append(Confirmed(self._events))
            self._events = []

    # After a crash.

    def recover(self, install: Install | None = None) -> Recovered:
        """Bring client and engine, which have done nothing yet, back to what is written down."""
        saved = self._journal.load()
        retold = None
        if self._kept is not None:
            retold = Retold(self._kept, finder(self._client, self._engine), self._journal.rows())
            self._client.past.shelf = self._journal  # it may ask for payloads
        recovery = Recovery(
            self._client, self._engine, self.confirmed, self._known, install, retold
        )
        found = recovery.go(saved)
        self.view, self._changes = found.view, recovery.changes
        return found


def up_to(state: State, slots: int) -> State:
    """The same for one who knows only so many slots; of later ones there must be nothing."""
    return replace(state, members=state.members[:slots], confirmed=state.confirmed[:slots])


def _item(each: Tag | Viewed) -> Message | Viewed:
    return each if isinstance(each, Viewed) else message_of(each)
