"""What commands return: plain Python values, and the few kinds that Python has no value for.

    value                       RESP2                       RESP3
    bytes, str                  bulk string                 the same
    int                         integer                     the same
    bool                        integer 1 or 0              boolean
    float                       bulk string                 double
    None                        null bulk ($-1)             null (_)
    list, tuple                 array                       the same
    dict                        array of keys and values    map
    Simple(b"OK"), OK ...       simple string               the same
    CommandError                error, also inside arrays   the same
    NULL_ARRAY                  null array (*-1)            null (_)
    Members(list)               array                       set
    Pairs([(a, b), ...])        flat array a b ...          array of arrays [a, b]
    Verbatim("text")            bulk string                 verbatim string, txt
    Push([...])                 array                       push
    Several([reply, ...])       one reply after another: SUBSCRIBE answers each channel
    NOTHING                     no reply at all
    Later(start)                what the awaitable gives; the connection waits for it, no other does

``INCRBYFLOAT`` and its like answer with a bulk string in both protocols: they return the bytes of
``format_double``.  ``ZSCORE`` returns a float, ``ZRANGE WITHSCORES`` Pairs of bytes and floats.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final


class Special:
    """A reply that is no plain Python value."""

    __slots__ = ()


class Simple(Special):
    """A simple string: one line, no bytes of users in it."""

    __slots__ = ("encoded",)

    def __init__(self, text: bytes) -> None:
        self.encoded: Final = b"+%b\r\n" % text

    def __repr__(self) -> str:
        return f"Simple({self.encoded[1:-2]!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Simple) and self.encoded == other.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)


class _Items(Special):
    __slots__ = ("items",)

    def __init__(self, items: list[Any]) -> None:
        self.items: Final = items

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.items!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Items) and type(self) is type(other) and self.items == other.items

    def __hash__(self) -> int:
        return id(self)


class Members(_Items):
    """The members of a set, in no order that means anything."""

    __slots__ = ()


class Pairs(_Items):
    """Pairs of two, such as members with their scores."""

    __slots__ = ()


class Push(_Items):
    """A message that answers no request: what a subscriber gets."""

    __slots__ = ()


class Several(_Items):
    """More than one reply, or none."""

    __slots__ = ()


class Verbatim(Special):
    """A text for people: INFO."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text: Final = text


class NullArray(Special):
    """An array that is not there: EXEC after a watched key changed."""

    __slots__ = ()


class Later(Special):
    """The reply comes when what ``start`` gives is done.  Not for commands within MULTI."""

    __slots__ = ("start",)

    def __init__(self, start: Callable[[], Awaitable[Reply]]) -> None:
        self.start: Final = start


Reply = (
    bytes
    | str
    | int
    | float
    | list[Any]
    | tuple[Any, ...]
    | dict[Any, Any]
    | Special
    | Exception
    | None
)

OK: Final = Simple(b"OK")
QUEUED: Final = Simple(b"QUEUED")
PONG: Final = Simple(b"PONG")
NULL_ARRAY: Final = NullArray()
NOTHING: Final = Several([])

_WHOLE_MAX: Final = 2.0**52


def format_double(value: float) -> bytes:
    """As Redis 7.2 writes a double: the fewest digits that give it back; whole numbers without a
    point; ``inf``, ``-inf``, ``nan``."""
    if -_WHOLE_MAX < value < _WHOLE_MAX and value == int(value):
        return b"%d" % int(value) if value or str(value)[0] != "-" else b"-0"
    text = repr(value)
    if text[-1] in "fn":  # inf, -inf, nan
        return text.encode()
    return _shortest(text)


def _shortest(text: str) -> bytes:
    """The digits of ``repr`` laid out as Redis does, which writes other exponents than Python."""
    sign = "-" if text[0] == "-" else ""
    mantissa, _, exponent = text.removeprefix("-").partition("e")
    whole, _, part = mantissa.partition(".")
    part = part.rstrip("0") if part != "0" else ""
    digits = (whole + part).lstrip("0")
    scale = int(exponent or 0) - len(part)  # value = digits * 10 ** scale
    stripped = digits.rstrip("0")
    scale += len(digits) - len(stripped)
    digits = stripped
    point = scale + len(digits) - 1  # the exponent, were there one digit before the point
    if 0 <= scale and abs(point) < len(digits) + 7:
        laid_out = digits + "0" * scale
    elif scale < 0 and (scale > -7 or abs(point) < 4):
        before = len(digits) + scale
        if before > 0:
            laid_out = digits[:before] + "." + digits[before:]
        else:
            laid_out = "0." + "0" * -before + digits
    else:
        laid_out = digits[0] + ("." + digits[1:] if len(digits) > 1 else "") + f"e{point:+d}"
    return (sign + laid_out).encode()
