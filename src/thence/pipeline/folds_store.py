"""The keyspace of a store, or of objects bound to a group, from the payloads that its nodes sent.

The payloads are batches of operations (crdt/batch.py), and what becomes of them is decided by the
code that replicas run: pieces of a large batch take effect with the last one, what makes no sense
is ignored, publications change nothing.  The stamp of a batch is its message, with the past that
the logs show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from pyspark.sql.types import LongType, StringType, StructField, StructType

from thence.crdt import batch
from thence.crdt.base import Crdt, Element
from thence.crdt.keyspace import CLEAR, KEYS, PUBLISH, Keyspace
from thence.crdt.register_counter import RegisterCounter
from thence.errors import UnusableInputError
from thence.pipeline.folding import Operation
from thence.pipeline.folds_crdt import PastStamp, Unstable, json_text, key_text, readable
from thence.pipeline.frames import STREAM_MARK
from thence.trace.payload import bytes_of

STORE_COLUMNS: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("type", StringType()),
        StructField("operations", LongType()),
        StructField("state", StringType()),
        StructField("expires_ms", LongType()),
    ]
)


class Store:
    """A store while it is folded."""

    __slots__ = ("counts", "keyspace", "pieces", "unstable")

    def __init__(self) -> None:
        self.keyspace = Keyspace()
        self.pieces: dict[str, list[bytes]] = {}
        self.counts: dict[Element, int] = {}
        self.unstable = Unstable()


class StoreFold:
    """All keys that show something, with their types and when they go.

    Columns: ``key``; ``type``, the name of the data type; ``operations`` on the key, removals of it
    included, those of one turn that a node put together counting once; ``state``, what the key
    shows; ``expires_ms``, when it goes, in milliseconds since 1970, null for never.

    ``now_ms``: keys that are over at this time are left out, as every node does by its own clock.
    Without it they are there until a node has removed them.
    """

    columns: Final = STORE_COLUMNS

    def __init__(self, now_ms: int | None = None) -> None:
        self._now_ms = now_ms

    def initial(self) -> Store:
        """No key."""
        return Store()

    def apply(self, state: Store, operation: Operation) -> Store:
        """Carry out a batch, or what else a payload may be."""
        if STREAM_MARK in operation.dot.node or not operation.is_for_all:
            return state  # no replica takes it for a batch: never stable, or not for everyone
        made = batch.decode(_payload(operation))
        if isinstance(made, batch.Piece):
            made = batch.joined(state.pieces, operation.dot.node, made)
        if isinstance(made, batch.Batch):
            _carry_out(state, made, PastStamp(operation, made.clock_ms))
        return state

    def stabilise(self, state: Store, behind: Mapping[str, int]) -> bool:
        """Forget the stamps of what is stable; whether there are others."""
        state.keyspace.stabilise(state.unstable.take(behind))
        return bool(state.unstable)

    def rows(self, state: Store) -> Iterator[tuple[Any, ...]]:
        """By key."""
        keyspace, now_ms = state.keyspace, self._now_ms
        for text, key in sorted([(key_text(key), key) for key in keyspace], key=_order):
            at_ms = keyspace.expiry_ms(key)
            if now_ms is None or at_ms is None or at_ms > now_ms:
                shown = keyspace.get(key)
                kind = type(shown) if isinstance(shown, Crdt) else RegisterCounter
                value = shown.value() if isinstance(shown, Crdt) else shown
                yield text, kind.NAME, state.counts[key], json_text(readable(value)), at_ms


def _carry_out(state: Store, made: batch.Batch, stamp: PastStamp) -> None:
    items, counts, apply = made.items, state.counts, state.keyspace.apply
    for at in range(0, len(items), 3):
        key, code, op = items[at], items[at + 1], items[at + 2]
        apply(key, code, op, stamp)
        if code != KEYS or op[0] not in (CLEAR, PUBLISH):
            counts[key] = counts.get(key, 0) + 1
    state.unstable.add(stamp)


def _payload(operation: Operation) -> bytes:
    """The bytes that were sent.  Any bytes may be sent, and some are no batch; but a trace without
    them, or of something else, gives no store."""
    if operation.value is None:
        raise UnusableInputError(
            f"{operation.dot} has no payload: nodes log what they send with trace.payload only"
        )
    try:
        return bytes_of(msgspec.json.decode(operation.value))
    except ValueError as error:
        raise UnusableInputError(
            f"the payload of {operation.dot} is none of a store: {error}"
        ) from None


def _order(named: tuple[str, Element]) -> tuple[str, str]:
    """Keys that read the same by what they are."""
    return named[0], type(named[1]).__name__
