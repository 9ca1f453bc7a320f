"""What is in a journal: records in the order in which things happened, and checkpoints.

What they mean is in ledger.py and recovery.py.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from thence.client.acceptor import AcceptorState
from thence.engine.restore import State
from thence.engine.tag import Tag
from thence.message import Chain, Message, StreamDot
from thence.wire.membership import View

FORMAT: Final = 1
# What an application can be done with; in a record: packed dot * 4 + kind.
DELIVERY: Final = 0
STABLE_EVENT: Final = 1
KNOWN_EVENT: Final = 2
VIEW_EVENT: Final = 3


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


class Froze(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """What was held back of these members is gone."""

    slots: list[int]


class Relayed(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A message of a frozen member that came through another."""

    slot: int
    message: bytes


class Viewed(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """This view was installed."""

    view: View


class Promised(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """What this node has promised of the next view."""

    state: AcceptorState


Entry = Sent | Received | Confirmed | Mark | Froze | Relayed | Viewed | Promised


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Everything up to some moment."""

    v: int = FORMAT
    state: State
    outbox_first: int
    outbox: list[bytes]
    """Own messages from that number on, those included that are in ``state`` too."""
    have: list[int]
    """By slot: the link number up to which messages of that peer are written down."""
    unconfirmed: list[Message | Chain | Viewed]
    """Received and not confirmed, in the order in which they were or can be delivered; views where
    they belong."""
    position: int
    view: View | None = None
    """In an elastic group: the view that the application has confirmed ..."""
    changes: int = 0
    """... and how many changes of the next one."""
    promised: AcceptorState | None = None
    life: int = 0
    """When this incarnation of the node began, in microseconds."""
    kept: bool = False
    """Whether the rows of the journal are the application's state of this moment (kept.py)."""


class Recovered(msgspec.Struct, kw_only=True):
    """What a node goes on with."""

    outbox_first: int = 1
    outbox: list[bytes] = []
    have: list[int]
    ready: list[Any] = []
    """Delivered and not confirmed, in order; changes of the membership where they belong."""
    told: list[Tag] = []
    """Found stable and not confirmed, in order."""
    known: list[Tag] = []
    position: int = 0
    is_new: bool = True
    """Nothing was written down before."""
    view: View | None = None
    """In an elastic group: the view that the application has confirmed."""
    partial: list[Any] = []
    """The changes of the next view that it has confirmed."""
    promised: AcceptorState | None = None


encode: Final = msgspec.msgpack.Encoder().encode
"""The bytes of a record or checkpoint."""
decode_entry: Final = msgspec.msgpack.Decoder(Entry).decode
decode_checkpoint: Final = msgspec.msgpack.Decoder(Checkpoint).decode
