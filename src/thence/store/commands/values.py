"""Strings as commands see them: bytes that a client wrote, or a number that counted."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from thence.crdt.base import INTEGER_MAX, INTEGER_MIN, Crdt
from thence.crdt.children import UNREMOVABLE, class_of
from thence.store.commands.arguments import integer, real
from thence.store.commands.base import Database
from thence.store.errors import (
    NAN_OR_INFINITY,
    NOT_A_FLOAT,
    NOT_AN_INTEGER,
    OVERFLOW,
    CommandError,
    WrongType,
)

Plain = bytes | str | int | float
"""What a string, or a field of a hash, is."""
_WHOLE_MAX: Final = 2.0**53
VALUE_NAN_OR_INFINITY: Final = "ERR value is NaN or Infinity"


def as_bytes(value: Plain) -> bytes:
    """As GET shows it.  Numbers never have an exponent, whole ones no point."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, float):
        return decimal(value)
    return value.encode("utf-8", "surrogateescape")


def decimal(value: float) -> bytes:
    """The fewest digits that give the number back, all of them written out."""
    if -_WHOLE_MAX < value < _WHOLE_MAX and value == int(value):
        return b"%d" % int(value)
    text = format(Decimal(repr(value)), "f")
    return (text.rstrip("0").rstrip(".") if "." in text else text).encode()


def shortest(value: float) -> int | float:
    """The number as it takes the fewest bytes to send: an integer if it is one."""
    return int(value) if -_WHOLE_MAX < value < _WHOLE_MAX and value == int(value) else value


def plain(db: Database, key: bytes) -> Plain | None:
    """The string at the key, as it is kept; WrongType if the key shows another type."""
    value = db.get(key)
    if isinstance(value, Crdt):
        raise WrongType
    found: Plain | None = value
    return found


def as_integer(value: Plain | None, fault: str = NOT_AN_INTEGER) -> int:
    """The number that it counts as; nothing counts as 0."""
    if value is None:
        return 0
    if isinstance(value, bytes):
        return integer(value, fault)
    if isinstance(value, str) or value != int(value):
        raise CommandError(fault)
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise CommandError(fault)
    return int(value)


def as_real(value: Plain | None, fault: str = NOT_A_FLOAT) -> float:
    """The same for numbers with a point."""
    if value is None:
        return 0.0
    if isinstance(value, bytes):
        return real(value, fault)
    if isinstance(value, str):
        raise CommandError(fault)
    return float(value)


def counted(value: int, amount: int) -> int:
    """Their sum, if it has 64 bits."""
    total = value + amount
    if not INTEGER_MIN <= total <= INTEGER_MAX:
        raise CommandError(OVERFLOW)
    return total


def check_finite(value: float, amount: float) -> None:
    """Their sum must be a number."""
    total = value + amount
    if total - total != 0.0:
        raise CommandError(NAN_OR_INFINITY)


def check_removable(db: Database, keys: list[bytes]) -> None:
    """CommandError if a key holds something that cannot be removed.  For commands that do more than
    remove one key: they change nothing then."""
    for key in keys:
        for code in db.codes(key):
            if class_of(code).NAME in UNREMOVABLE:
                raise CommandError(f"ERR a {class_of(code).NAME} cannot be removed")


def drop_if_empty(db: Database, key: bytes) -> None:
    """A key whose last element went is no key any more, and its expiry goes with it."""
    if db.get(key) is None and db.expiry(key) is not None:
        try:
            db.delete(key)
        except CommandError:
            # Something is left of another type that shows nothing and cannot be removed.
            db.expire(key, None)
