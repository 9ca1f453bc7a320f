"""Bits of strings.

``SETBIT`` writes the whole string, as ``SETRANGE`` does: of two at the same time on different nodes
one stays.  Who wants both keeps positions in a set.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from thence.crdt.register_counter import SET, RegisterCounter
from thence.store.commands.arguments import bounded, integer
from thence.store.commands.base import Database
from thence.store.commands.rows import GROW, READ, READ_FAST, Rows
from thence.store.errors import SYNTAX, CommandError
from thence.store.replies import Reply
from thence.store.session import Session

BAD_OFFSET: Final = "ERR bit offset is not an integer or out of range"
BAD_BIT: Final = "ERR bit is not an integer or out of range"
NOT_A_BIT: Final = "ERR The bit argument must be 1 or 0."
ONE_SOURCE: Final = "ERR BITOP NOT must be called with a single source key."
FULL: Final = 0xFF
OFFSET_MAX: Final = 2**32 - 1
"""Of a bit that can be asked for."""


def _mask(offset: int) -> int:
    """The bit within its byte; the first is the greatest."""
    return 0x80 >> (offset % 8)


def setbit(db: Database, session: Session, args: list[bytes]) -> Reply:
    key = args[0]
    offset = bounded(args[1], 0, 8 * session.shared.settings.value_bytes_max - 1, BAD_OFFSET)
    bit = bounded(args[2], 0, 1, BAD_BIT)
    made = bytearray(db.string(key) or b"")
    at = offset // 8
    made.extend(bytes(max(at + 1 - len(made), 0)))
    mask = _mask(offset)
    before = 1 if made[at] & mask else 0
    made[at] = made[at] | mask if bit else made[at] & ~mask
    db.update(key, RegisterCounter, (SET, bytes(made)))
    return before


def getbit(db: Database, session: Session, args: list[bytes]) -> Reply:
    offset = bounded(args[1], 0, OFFSET_MAX, BAD_OFFSET)
    value = db.string(args[0]) or b""
    at = offset // 8
    return 1 if at < len(value) and value[at] & _mask(offset) else 0


class Span:
    """A piece of a string whose ends are bytes or bits."""

    __slots__ = ("_first", "_last", "is_empty", "value")

    def __init__(self, value: bytes, first: int, last: int, in_bits: bool) -> None:
        """Ends may count from the end of the string."""
        size = 8 * len(value) if in_bits else len(value)
        first = max(first + size, 0) if first < 0 else first
        last = max(last + size, 0) if last < 0 else last
        last = min(last, size - 1)
        self.is_empty: Final = first > last
        scale = 1 if in_bits else 8
        # In bits, the second one after the last.
        self._first: Final = first * scale
        self._last: Final = (last + 1) * scale
        self.value: Final = value

    def piece(self, outside: int) -> bytes:
        """The bytes that it touches; bits of them that are outside of it are as said."""
        piece = bytearray(self.value[self._first // 8 : (self._last + 7) // 8])
        before = self._first % 8
        after = -self._last % 8
        keep_first = FULL >> before
        keep_last = FULL << after & FULL
        if outside:
            piece[0] |= ~keep_first & FULL
            piece[-1] |= ~keep_last & FULL
        else:
            piece[0] &= keep_first
            piece[-1] &= keep_last
        return bytes(piece)

    def find(self, bit: int) -> int | None:
        """The place of the first such bit in the string; None if there is none."""
        piece = self.piece(1 - bit)
        left = piece.lstrip(b"\0" if bit else b"\xff")
        if not left:
            return None
        byte = left[0] if bit else ~left[0] & FULL
        return 8 * (self._first // 8 + len(piece) - len(left)) + 8 - byte.bit_length()


def _in_bits(argument: bytes) -> bool:
    word = argument.upper()
    if word not in (b"BIT", b"BYTE"):
        raise CommandError(SYNTAX)
    return word == b"BIT"


def bitcount(db: Database, session: Session, args: list[bytes]) -> Reply:
    value = db.string(args[0])
    if value is None:
        return 0
    if len(args) not in (1, 3, 4):
        raise CommandError(SYNTAX)
    first, last, in_bits = 0, -1, False
    if len(args) > 1:
        first, last = integer(args[1]), integer(args[2])
        if first < 0 and last < 0 and first > last:
            return 0
        in_bits = len(args) == 4 and _in_bits(args[3])
    span = Span(value, first, last, in_bits)
    return 0 if span.is_empty else int.from_bytes(span.piece(0), "big").bit_count()


def bitpos(db: Database, session: Session, args: list[bytes]) -> Reply:
    bit = integer(args[1])
    if bit not in (0, 1):
        raise CommandError(NOT_A_BIT)
    value = db.string(args[0])
    if value is None:
        return -1 if bit else 0
    if len(args) > 5:
        raise CommandError(SYNTAX)
    first = integer(args[2]) if len(args) > 2 else 0
    in_bits = len(args) == 5 and _in_bits(args[4])
    last = integer(args[3]) if len(args) > 3 else -1
    span = Span(value, first, last, in_bits)
    if span.is_empty:
        return -1
    found = span.find(bit)
    if found is not None:
        return found
    # Without an end, zeros follow the string.
    return -1 if bit or len(args) > 3 else 8 * len(value)


Combine = Callable[[int, int], int]
_OPERATIONS: Final[dict[bytes, Combine]] = {
    b"AND": int.__and__,
    b"OR": int.__or__,
    b"XOR": int.__xor__,
}


def _number(value: bytes, size: int) -> int:
    """Of a string with zeros behind it, up to so many bytes."""
    return int.from_bytes(value.ljust(size, b"\0"), "big")


def bitop(db: Database, session: Session, args: list[bytes]) -> Reply:
    word, target, *keys = args
    name = word.upper()
    combine = _OPERATIONS.get(name)
    if combine is None and name != b"NOT":
        raise CommandError(SYNTAX)
    if combine is None and len(keys) != 1:
        raise CommandError(ONE_SOURCE)
    values = [db.string(key) or b"" for key in keys]
    size = max(map(len, values))
    made = _number(values[0], size)
    if combine is None:
        made = (1 << 8 * size) - 1 - made
    else:
        for value in values[1:]:  # one number at a time: they are as large as the strings
            made = combine(made, _number(value, size))
    if size:
        db.write(target, made.to_bytes(size, "big"))
    elif db.get(target) is not None:
        db.delete(target)
    return size


_row = Rows("bitmap")
TABLE = (
    _row("SETBIT", setbit, 4, GROW, "Write a bit of a string; what it was."),
    _row("GETBIT", getbit, 3, READ_FAST, "A bit of a string."),
    _row("BITCOUNT", bitcount, -2, READ, "How many bits are 1."),
    _row("BITPOS", bitpos, -3, READ, "Where the first 1, or 0, is."),
    _row("BITOP", bitop, -4, GROW, "Store what strings make, bit by bit.", (2, -1, 1)),
)
