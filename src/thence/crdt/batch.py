"""The bytes of a batch: what one replica did in one go, and what the others carry out in one go.

A payload is an array of MessagePack, the first item of which says what it is:

    [1, clock_ms, [key, code, operation, key, code, operation, ...]]     a batch
    [2, number, last, bytes]                                             a piece of a large one
    [3]                                                                  "say what you have"

``code`` is the number of a data type, and ``operation`` one of it; ``KEYS`` is the keyspace itself,
whose operations are in keyspace.py.  The pieces of a batch are consecutive messages of its sender;
it takes effect with the last of them.  ``clock_ms`` is the sender's wall clock, or 0 if no
operation asks for it.

What a peer sent is checked here.  Every replica comes to the same verdict, so whoever sends
nonsense is ignored by all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from thence.crdt.base import INTEGER_MAX, Element
from thence.crdt.children import REGISTER, class_of
from thence.crdt.keyspace import KEYS, check_keys
from thence.crdt.payload import Batch as Batch  # noqa: PLC0414, for others
from thence.crdt.payload import Piece as Piece  # noqa: PLC0414, for others
from thence.crdt.register_counter import SET
from thence.crdt.scalars import element_fault

BATCH: Final = 1
PIECE: Final = 2
ASK: Final = 3
PIECES_MAX: Final = 18
"""Of one batch: a limit on what a peer can make others keep.  Senders stay far below it."""

ITEM_BYTES: Final = 9
"""What anything counts for besides the bytes of a text: the most that MessagePack needs."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
ASKING: Final[bytes] = _encode([ASK])


def size_of(key: Element, op: Sequence[Any]) -> int:
    """How many bytes an operation has in a batch, or some more: whoever keeps within a limit by it
    does not exceed that."""
    size = _text_bytes(key) + ITEM_BYTES * (len(op) + 3)
    for each in op:
        kind = type(each)
        if kind is bytes:
            size += len(each)
        elif kind is str:
            size += _text_bytes(each)
        elif kind is tuple or kind is list:
            size += _nested_bytes(each)
    return size


def _nested_bytes(nested: Sequence[Any]) -> int:
    size = 0
    waiting = [nested]
    while waiting:
        parts = waiting.pop()
        size += ITEM_BYTES * len(parts)
        for each in parts:
            if isinstance(each, (tuple, list)):
                waiting.append(each)
            else:
                size += _text_bytes(each)
    return size


def _text_bytes(value: Any) -> int:
    """What is more than ``ITEM_BYTES`` of a text, bytes or number."""
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode())
    return 0


def encode(clock_ms: int, items: Sequence[Any], bytes_max: int) -> list[bytes]:
    """The payloads of a batch: one, or its pieces if it has more than ``bytes_max``."""
    whole = _encode((BATCH, clock_ms, items))
    if len(whole) <= bytes_max:
        return [whole]
    size = bytes_max - 32
    parts = [whole[at : at + size] for at in range(0, len(whole), size)]
    last = len(parts) - 1
    return [_encode(Piece(PIECE, at, last, part)) for at, part in enumerate(parts)]


def decode(payload: bytes) -> Batch | Piece | str | None:
    """What a payload says: a batch, a piece of one, None for "say what you have"; a text says what
    is wrong with it."""
    try:
        made = _decode(payload)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return f"not MessagePack: {error}"
    if type(made) is not list or not made:
        return "not a batch"
    kind = made[0]
    if kind == BATCH and len(made) == 3:
        clock_ms = made[1]
        items = made[2]
        if type(clock_ms) is not int or not 0 <= clock_ms <= INTEGER_MAX:
            return "its clock is no time"
        if type(items) is not list or len(items) % 3:
            return "operations come as key, type, operation"
        return fault_of(items) or Batch(clock_ms, items)
    if kind == PIECE and len(made) == 4:
        _, number, last, data = made
        if type(number) is int and type(last) is int and type(data) is bytes:
            if 0 <= number <= last < PIECES_MAX:
                return Piece(PIECE, number, last, data)
        return "not a piece of a batch"
    if kind == ASK and len(made) == 1:
        return None
    return "of a kind that is not known here"


def joined(pieces: dict[str, list[bytes]], node: str, piece: Piece) -> Batch | str:
    """The batch of which this is the last piece; "" before that, and a text that says what is wrong
    with it.  ``pieces`` has by sender what came before, and is changed."""
    parts = pieces.setdefault(node, [])
    if piece.number == 0:
        parts.clear()
    if piece.number != len(parts):
        return "a piece of a batch is missing"
    parts.append(piece.data)
    if piece.number < piece.last:
        return ""
    made = decode(b"".join(pieces.pop(node)))
    return made if isinstance(made, Batch) else "its pieces make no batch"


def asks_clock(items: Sequence[Any]) -> bool:
    """Whether the operations need to be told ``clock_ms``; 0 is shorter."""
    for at in range(1, len(items), 3):
        code = items[at]
        if code != KEYS and class_of(code).asks_clock(items[at + 1]):
            return True
    return False


def fault_of(items: list[Any]) -> str:
    """What is wrong with the operations; empty if nothing is."""
    for at in range(0, len(items), 3):
        key = items[at]
        code = items[at + 1]
        op = items[at + 2]
        # Most are sets of strings.
        if code == REGISTER and type(code) is int and type(op) is list and len(op) == 2:
            if type(key) is bytes and type(op[1]) is bytes and op[0] == SET:
                if type(op[0]) is int:
                    continue
        fault = fault_in(key, code, op)
        if fault:
            return fault
    return ""


def fault_in(key: Any, code: Any, op: Any) -> str:
    """What is wrong with one operation."""
    if type(key) is not bytes:
        fault = element_fault(key)
        if fault:
            return fault
    if not isinstance(op, (list, tuple)):
        return "an operation is an array"
    if type(code) is not int:
        return "a type is named by its number"
    if code == KEYS:
        return check_keys(op)
    try:
        kind = class_of(code)
    except KeyError:
        return f"no type has the number {code}"
    return kind.check(op)
