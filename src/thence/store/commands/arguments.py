"""Numbers and texts in arguments, taken as strictly as Redis takes them."""

from __future__ import annotations

import math
import re
from typing import Final

from thence.store.errors import NOT_A_FLOAT, NOT_AN_INTEGER, CommandError

INTEGER_MIN: Final = -(2**63)
INTEGER_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}").fullmatch
_REAL: Final = re.compile(
    rb"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?)", re.IGNORECASE
).fullmatch
_SOME_DIGIT: Final = re.compile(rb"[1-9]").search
_DIGITS_MAX: Final = 255
"""Of a real number: registers take no longer text for one."""


def integer(argument: bytes, fault: str = NOT_AN_INTEGER) -> int:
    """A signed number of 64 bits in its only form: no spaces, no plus, no zeros in front."""
    if _INTEGER(argument):
        value = int(argument)
        if INTEGER_MIN <= value <= INTEGER_MAX:
            return value
    raise CommandError(fault)


def bounded(argument: bytes, low: int, high: int, fault: str = NOT_AN_INTEGER) -> int:
    """The same, from ``low`` to ``high``."""
    value = integer(argument, fault)
    if not low <= value <= high:
        raise CommandError(fault)
    return value


def real(argument: bytes, fault: str = NOT_A_FLOAT) -> float:
    """A number with a point or an exponent or neither, or an infinity; never NaN, and nothing so
    large or small that it becomes infinity or zero."""
    if len(argument) <= _DIGITS_MAX and _REAL(argument):
        value = float(argument)
        if math.isinf(value):
            if b"i" in argument.lower():
                return value
        elif value or not _SOME_DIGIT(argument.lower().partition(b"e")[0]):
            return value
    raise CommandError(fault)


def loose_real(argument: bytes, fault: str, huge: bool = False) -> float:
    """The same, as Redis takes numbers where it looks less closely: spaces may stand in front,
    anything behind a zero byte, and nothing at all is 0.  ``huge``: the too large is infinity."""
    said = argument.partition(b"\0")[0]
    number = said.lstrip()
    if not number:
        if not said:
            return 0.0
    elif len(number) <= _DIGITS_MAX and _REAL(number):
        value = float(number)
        if huge or not math.isinf(value) or b"i" in number.lower():
            return value
    raise CommandError(fault)


def text(argument: bytes) -> str:
    """For comparing with words, which are ASCII: in capitals, whatever the bytes are."""
    return argument.upper().decode("ascii", "replace")
