"""What data types hold: checks of elements and values, and numbers that add up exactly.

Elements of sets and fields of maps are compared and hashed, and Python takes 1, 1.0 and True for
one: replicas that got them in different orders would show different ones.  So an element is no
truth value, and a float only if no 64-bit integer says the same.

Numbers are added in a different order at every replica, and rounded sums would differ.  A float
counts as the decimal number that it prints as, and sums of those are exact: 0.1 and 0.2 make 0.3.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import Any, Final

from thence.crdt.base import INTEGER_MAX, INTEGER_MIN, Element
from thence.errors import LocalProtocolError

Scalar = str | bytes | int | float
"""What registers that count hold."""
Number = int | Decimal
"""An exact number; Decimal if it comes from a float, so that it is shown as one."""

NUMBER_CHARS_MAX: Final = 255  # a longer text is no number
INTEGER_CHARS_MAX: Final = 20
# Finite floats are sums of powers of ten from 10**308 down to 10**-324 of at most 17 digits.
EXACT: Final = Context(prec=1000, traps=[])
NUMERAL: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
INTEGRAL: Final = re.compile(r"[+-]?\d+", re.ASCII)


def element_fault(value: Any) -> str:
    """Why this is no element of a set or field of a map; empty if it is one."""
    kind = type(value)
    if kind is str:
        return text_fault(value)
    if kind is bytes:
        return ""
    if kind is int:
        return "" if INTEGER_MIN <= value <= INTEGER_MAX else "an integer has at most 64 bits"
    if kind is float:
        if value - value != 0.0:
            return "a float must be finite"
        if value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX:
            return f"{value!r} is written as an integer"
        return ""
    return f"an element is a text, bytes, an integer or a float, not {kind.__name__}"


def element_of(value: Any) -> Element:
    """An element as operations carry it: 3 for 3.0; LocalProtocolError if it is none."""
    kind = type(value)
    if kind is bytes or (kind is str and value.isascii()):
        element: Element = value
        return element
    if kind is float and value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX:
        return int(value)
    fault = element_fault(value)
    if fault:
        raise LocalProtocolError(fault)
    element = value
    return element


def text_fault(value: str) -> str:
    """Why a text cannot be sent; empty if it can."""
    if value.isascii():
        return ""
    try:
        value.encode()
    except UnicodeEncodeError:
        return "a text must not have lone surrogates"
    return ""


def scalar_fault(value: Any) -> str:
    """Why this is no text, bytes, integer or float; empty if it is one."""
    kind = type(value)
    if kind is bytes:
        return ""
    if kind is str:
        return text_fault(value)
    if kind is int or kind is float:
        return number_fault(value)
    return f"a value is a text, bytes, an integer or a float, not {kind.__name__}"


def plain_fault(value: Any) -> str:
    """As ``scalar_fault``, but None and truth values are allowed, too."""
    if value is None or value is True or value is False:
        return ""
    return scalar_fault(value)


def number_fault(value: Any) -> str:
    """Why this is no 64-bit integer or finite float; empty if it is one."""
    kind = type(value)
    if kind is int:
        return "" if INTEGER_MIN <= value <= INTEGER_MAX else "an integer has at most 64 bits"
    if kind is float:
        return "" if value - value == 0.0 else "a float must be finite"
    return f"a number is an integer or a float, not {kind.__name__}"


def amount_fault(value: Any) -> str:
    """Why nothing can be counted up or down by this; empty if it can."""
    if type(value) is not int:
        return f"an amount is an integer, not {type(value).__name__}"
    return "" if 1 <= value <= INTEGER_MAX else "an amount is at least 1 and has at most 64 bits"


def order_of(value: Any) -> tuple[str, Any]:
    """What values of registers are sorted by: their types, then themselves.  Different
    for values that users can tell apart."""
    if value is None:
        return "", 0
    if type(value) is float:
        return "float", (value, repr(value))  # 0.0 and -0.0 are equal
    return type(value).__name__, value


# Exact numbers.


def exact(value: int | float) -> Number:
    """The number that is shown as ``value``; zero has no sign, for sums would lose it or not."""
    return Decimal(repr(value + 0.0)) if isinstance(value, float) else value


def sum_of(left: Number, right: Number) -> Number:
    """Their exact sum."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    return EXACT.add(Decimal(left), Decimal(right))


def difference_of(left: Number, right: Number) -> Number:
    """Their exact difference."""
    if isinstance(left, int) and isinstance(right, int):
        return left - right
    return EXACT.subtract(Decimal(left), Decimal(right))


def number_in(value: Any) -> Number | None:
    """The number that a scalar or an exact number is, or that its text says; None if none."""
    if isinstance(value, int | Decimal):
        return value
    if isinstance(value, float):
        return Decimal(repr(value + 0.0))
    if len(value) > NUMBER_CHARS_MAX:
        return None
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    if INTEGRAL.fullmatch(text) and len(text) <= INTEGER_CHARS_MAX:
        return int(text)
    if not NUMERAL.fullmatch(text):
        return None
    number = float(text)
    return Decimal(repr(number + 0.0)) if number - number == 0.0 else None


def shown(value: Any) -> Any:
    """What users read for a value or an exact number."""
    return float(value) if isinstance(value, Decimal) else value


def settled_number(number: Number) -> int | float | Decimal:
    """The float that stands for exactly this number, if there is one; otherwise the number."""
    if isinstance(number, int):
        return number
    rounded = float(number)
    if rounded - rounded == 0.0 and Decimal(repr(rounded)) == number:
        return rounded
    return number


def is_plain(value: Any) -> bool:
    """Whether MessagePack can say it, so that it need not be kept as an exact number."""
    if isinstance(value, int):
        return INTEGER_MIN <= value <= INTEGER_MAX
    return not isinstance(value, Decimal)


def export_exact(value: Any) -> Any:
    """A scalar or an exact number (or None) as MessagePack can say it."""
    if value is None or is_plain(value):
        return value
    return [isinstance(value, Decimal), str(value)]


def load_exact(exported: Any) -> Any:
    """What ``export_exact`` was given."""
    if isinstance(exported, list | tuple):
        return Decimal(exported[1]) if exported[0] else int(exported[1])
    return exported
