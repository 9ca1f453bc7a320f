"""The state of a replicated keyspace as rows: for the journal, and for newcomers.

A row is a key and everything that is kept of it.  What is larger than a row of a journal may be is
in several: the row of the key says how many, and has the first piece.

For the journal, the keys that changed since the last checkpoint.  For a newcomer, all keys as they
were at one moment, drawn piece by piece while they go on changing: a key is written down just
before it changes for the first time since.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final
from weakref import WeakSet

import msgspec

from thence.crdt.base import Element, Op, StampOf
from thence.crdt.keyspace import Keyspace
from thence.errors import JournalError

META_KEY: Final = b"\xc1"  # never the first byte of MessagePack
ROW_BYTES_MAX: Final = 1 << 28
"""Of a value; a larger one is cut into pieces."""
_PIECE: Final = struct.Struct(">BI")
"""Before the key of all pieces but the first, ``META_KEY`` and which it is; before the first piece,
``META_KEY`` and how many there are."""
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
        rows = _cut(_encode(key), _encode(exported))
        self._rows += rows
        return sum([len(key) + len(value) for key, value in rows])

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
        self._cut: dict[bytes, int] = {}
        """In how many pieces a key is in the journal, if that is more than one."""
        self._pieces: dict[bytes, dict[int, bytes]] = {}
        """What was loaded of keys of which there is more."""

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
            name = _encode(key)
            rows = _cut(name, _encode(exported)) if exported else [(name, None)]
            yield from rows
            if len(rows) > 1 or name in self._cut:
                for number in range(len(rows), self._cut.pop(name, 0)):
                    yield _piece_key(name, number), None
                if len(rows) > 1:
                    self._cut[name] = len(rows)

    def load(self, key: bytes, value: bytes, stamp_of: StampOf) -> None:
        """Take over a row; JournalError if it is none."""
        if META_KEY in (key[:1], value[:1]):
            whole = self._joined(key, value)
            if whole is None:
                return
            key, value = whole
        try:
            name = _decode(key)
            exported: Any = _decode(value)
            self._keyspace.load(name, exported, stamp_of)
        except _UNREADABLE as error:
            raise JournalError(f"a row of the state cannot be read: {error}") from error

    def _joined(self, key: bytes, value: bytes) -> tuple[bytes, bytes] | None:
        """A row that is a piece: the key and all of its value, if that was the last one."""
        number, size = 0, _PIECE.size
        if key[:1] == META_KEY and len(key) > size:
            number, key = _PIECE.unpack_from(key)[1], key[size:]
        elif len(value) < size:
            raise JournalError("a piece of a row of the state cannot be read")
        pieces = self._pieces.setdefault(key, {})
        pieces[number] = value
        if 0 not in pieces or len(pieces) < (count := _PIECE.unpack_from(pieces[0])[1]):
            return None
        del self._pieces[key]
        self._cut[key] = count
        if set(pieces) != set(range(count)):
            raise JournalError("pieces of a row of the state are not those that were written")
        return key, b"".join([pieces[0][size:], *(pieces[each] for each in range(1, count))])

    def loaded(self) -> None:
        """That was all; JournalError if something is not whole."""
        if self._pieces:
            raise JournalError(f"pieces are missing of {len(self._pieces)} rows of the state")

    def forget(self) -> None:
        """As if it were new."""
        self._cut.clear()
        self._pieces.clear()


def _cut(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    """The row of a key, or its pieces."""
    if len(value) <= ROW_BYTES_MAX:
        return [(key, value)]
    ends = range(0, len(value), ROW_BYTES_MAX)
    pieces = [value[at : at + ROW_BYTES_MAX] for at in ends]
    pieces[0] = _PIECE.pack(META_KEY[0], len(pieces)) + pieces[0]
    return [(_piece_key(key, number), piece) for number, piece in enumerate(pieces)]


def _piece_key(key: bytes, number: int) -> bytes:
    return _PIECE.pack(META_KEY[0], number) + key if number else key


def meta_of(value: bytes) -> Meta:
    """What a row of ``META_KEY`` says."""
    return _META.decode(value)


def rows_of(chunk: bytes) -> Iterable[tuple[bytes, bytes]]:
    """The rows in a chunk of an export; JournalError if it is none."""
    try:
        return _ROWS.decode(chunk)
    except _UNREADABLE as error:
        raise JournalError(f"a piece of the state cannot be read: {error}") from error
