"""The operations that make a new object what an old one is, RENAME and COPY, or what was computed:
the commands with STORE.

A replicated object is not its value alone: it also knows which of its operations others may not
have seen.  The new one starts with the value as it is here and now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from thence.client.replica import BATCH_BYTES_MAX
from thence.crdt.base import INTEGER_MAX, Crdt, Op
from thence.crdt.batch import ITEM_BYTES, size_of
from thence.crdt.children import REGISTER, UPDATE
from thence.crdt.counter_resettable import DEC, INC, CounterResettable
from thence.crdt.flag_dw import FlagDw
from thence.crdt.flag_ew import ENABLE, FlagEw
from thence.crdt.map_rw import MapRw
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import SET, RegisterCounter
from thence.crdt.register_lww import RegisterLww
from thence.crdt.register_mv import RegisterMv
from thence.crdt.scalars import scalar_fault
from thence.crdt.sequence import INSERT, Sequence
from thence.crdt.set_aw import ADD, SetAw
from thence.crdt.set_g import SetG
from thence.crdt.set_rw import SetRw
from thence.crdt.zset_uw import SortedSet
from thence.store.commands.base import Database
from thence.store.commands.sorted_index import as_score
from thence.store.commands.values import as_bytes, shortest
from thence.store.errors import OVERFLOW, TRANSACTION_TOO_LARGE, CommandError

OBJECTS_INSIDE: Final = "ERR a map with objects in it cannot be written anew under another name"
SEVERAL_VALUES: Final = "ERR concurrent values cannot be written anew under another name"

OPERATION_BYTES_MAX: Final = BATCH_BYTES_MAX
PIECE_BYTES: Final = 4 * 1024 * 1024
"""With so many bytes of elements an operation is large enough, and the rest is for another."""

Operations = list[tuple[type[Crdt], Op]]


def replace(db: Database, key: bytes, operations: Operations) -> None:
    """Whatever the key was, it is what these operations make of nothing now.  CommandError before
    anything is changed: what was there is not lost to something that cannot be written."""
    for _, operation in operations:
        if size_of(key, operation) > OPERATION_BYTES_MAX:
            raise CommandError(f"ERR an operation has at most {OPERATION_BYTES_MAX} bytes")
    if sum([size_of(key, operation) for _, operation in operations]) > db.room_bytes():
        raise CommandError(TRANSACTION_TOO_LARGE)
    if db.get(key) is not None:
        db.delete(key)
    for kind, operation in operations:
        db.update(key, kind, operation)


def added(members: Iterable[Any]) -> list[Op]:
    """The operations that make these the members of a set."""
    return [(ADD, *piece) for piece in _pieces(members)]


def inserted(elements: Iterable[Any]) -> list[Op]:
    """The operations that make these the elements of a sequence."""
    made: list[Op] = []
    at = 0
    for piece in _pieces(elements):
        made.append((INSERT, at, piece))
        at += len(piece)
    return made


def scored(entries: Iterable[tuple[Any, Any]]) -> list[Op]:
    """The operations that make these the members and scores of a sorted set."""
    return [
        (UPDATE, member, REGISTER, (SET, shortest(as_score(score)))) for member, score in entries
    ]


def _pieces(elements: Iterable[Any]) -> Iterator[list[Any]]:
    piece: list[Any] = []
    size = 0
    for element in elements:
        piece.append(element)
        size += ITEM_BYTES
        if isinstance(element, (bytes, str)):
            size += len(element)
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _string(value: Any) -> Op:
    """Sums may have become numbers that are not sent as such."""
    return SET, (as_bytes(value) if scalar_fault(value) else value)


def _fields(found: Any) -> list[Op]:
    made: list[Op] = []
    for field, value in found.value().items():
        if found.child(field, REGISTER) is None:
            raise CommandError(OBJECTS_INSIDE)
        made.append((UPDATE, field, REGISTER, _string(value)))
    return made


def _scores(found: Any) -> list[Op]:
    return scored(found.value().items())


def _elements(found: Any) -> list[Op]:
    value = found.value()
    if not isinstance(value, str):
        return inserted(value)
    return [(INSERT, at, value[at : at + PIECE_BYTES]) for at in range(0, len(value), PIECE_BYTES)]


def _count(found: Any) -> list[Op]:
    value = found.value()
    if abs(value) >= INTEGER_MAX:
        raise CommandError(OVERFLOW)
    # That it is there, if only as 0, is part of what it is.
    return [(INC, value + 1), (DEC, 1)] if value >= 0 else [(DEC, -value)]


def _register(found: Any) -> list[Op]:
    return [(SET, found.value())]


def _only_value(found: Any) -> list[Op]:
    values = found.value()
    if len(values) > 1:
        raise CommandError(SEVERAL_VALUES)
    return [(SET, values[0])]


def _on(found: Any) -> list[Op]:
    return [(ENABLE,)]


_RECREATE: Final[dict[type[Crdt], Callable[[Any], list[Op]]]] = {
    MapUw: _fields,
    SetAw: added,
    Sequence: _elements,
    SortedSet: _scores,
    MapRw: _fields,
    CounterResettable: _count,
    RegisterLww: _register,
    RegisterMv: _only_value,
    FlagEw: _on,
    FlagDw: _on,
    SetG: added,
    SetRw: added,
}
"""Those that have a way.  Bounded counters have rights that cannot be made twice, and what a 2P-set
keeps of removed members is not among its members."""


def recreated(value: Any) -> Operations:
    """The operations for what a key shows; CommandError if there are none that say the same."""
    if not isinstance(value, Crdt):
        return [(RegisterCounter, _string(value))]
    recreate = _RECREATE.get(type(value))
    if recreate is None:
        raise CommandError(f"ERR a {value.NAME} cannot be written anew under another name")
    return [(type(value), operation) for operation in recreate(value)]
