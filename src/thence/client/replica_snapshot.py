"""The state of a replicated keyspace as rows: for the journal, and for newcomers.

A row is a key and everything that is kept of it.  For the journal, the keys that changed since the
last checkpoint.  For a newcomer, all keys as they were at one moment, drawn piece by piece while
they go on changing: a key is written down just before it changes for the first time since.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from weakref import WeakSet

import msgspec

from thence.crdt.base import Element, Op, StampOf
from thence.crdt.keyspace import Keyspace
from thence.errors import JournalError

META_KEY: Final = b"\xc1"  # never the first byte of MessagePack
CHUNK_BYTES: Final = 128 * 1024
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
_ROWS: Final = msgspec.msgpack.Decoder(list[tuple[bytes, bytes]])
# What is raised where a state is no state: of decimals, and of maps in maps without end, too.
_UNREADABLE: Final = (
    msgspec.MsgspecError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class Meta(msgspec.Struct, frozen=True):
    """What belongs to the state and to no key."""

    seen: dict[str, int]
    """By member, the number of its last message that took effect."""
    pieces: dict[str, list[bytes]]
    """By member, the first pieces of a batch whose last one is still to come."""

    def encode(self) -> bytes:
        """As a row has it."""
        return _encode(self)


_META: Final = msgspec.msgpack.Decoder(Meta)


class Export:
    """The state of the moment in which it was made, in chunks of rows."""

    def __init__(self, keyspace: Keyspace, meta: Meta) -> None:
        self._keyspace = keyspace
        self._waiting = dict.fromkeys(keyspace.kept())
        self._rows: list[tuple[bytes, bytes]] = [(META_KEY, meta.encode())]
        """Written down, not drawn yet."""

    def before(self, key: Element) -> None:
        """This key is about to change."""
        if key in self._waiting:
            del self._waiting[key]
            self._write(key)

    def _write(self, key: Element) -> int:
        exported = self._keyspace.export(key)
        if not exported:
            return 0
        row = (_encode(key), _encode(exported))
        self._rows.append(row)
        return len(row[0]) + len(row[1])

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        size = sum([len(key) + len(value) for key, value in self._rows])
        waiting = self._waiting
        while waiting and size < CHUNK_BYTES:
            key, _ = waiting.popitem()
            size += self._write(key)
        if not self._rows:
            raise StopIteration
        rows, self._rows = self._rows, []
        return _encode(rows)


class Rows:
    """Turns a keyspace into rows and back."""

    def __init__(self, keyspace: Keyspace) -> None:
        self._keyspace = keyspace
        self._exports: WeakSet[Export] = WeakSet()
        """Under way; one that nobody draws from any more is gone."""

    def export(self, meta: Meta) -> Export:
        """Everything there is now."""
        made = Export(self._keyspace, meta)
        self._exports.add(made)
        return made

    @property
    def is_exporting(self) -> bool:
        """Whether ``before`` wants to be told."""
        return bool(self._exports)

    def before(self, key: Element, code: int, op: Op | None) -> None:
        """This key is about to change."""
        for export in list(self._exports):
            export.before(key)

    def changed(self) -> Iterator[tuple[bytes, bytes | None]]:
        """The keys that changed since the last time; of those that are gone, None."""
        dirty, self._keyspace.dirty = self._keyspace.dirty or {}, {}
        for key in dirty:
            exported = self._keyspace.export(key)
            yield _encode(key), _encode(exported) if exported else None

    def load(self, key: bytes, value: bytes, stamp_of: StampOf) -> None:
        """Take over a row; JournalError if it is none."""
        try:
            name = _decode(key)
            exported: Any = _decode(value)
            self._keyspace.load(name, exported, stamp_of)
        except _UNREADABLE as error:
            raise JournalError(f"a row of the state cannot be read: {error}") from error


def meta_of(value: bytes) -> Meta:
    """What a row of ``META_KEY`` says."""
    return _META.decode(value)


def rows_of(chunk: bytes) -> Iterable[tuple[bytes, bytes]]:
    """The rows in a chunk of an export; JournalError if it is none."""
    try:
        return _ROWS.decode(chunk)
    except _UNREADABLE as error:
        raise JournalError(f"a piece of the state cannot be read: {error}") from error
