"""What a setting may hold: kinds of values, their limits, and how text becomes one.

A field of a config Struct is ``Annotated[type, About(...)]``.  ``value_of`` reads that once into a
``Value``; everything that looks at settings (the check of a Struct that is made by hand, TOML
files, environment, flags, the table in the documentation) goes by it, so they cannot disagree.
"""

from __future__ import annotations

import ipaddress
import math
import re
import types
from functools import cache
from typing import Annotated, Any, Final, Literal, NamedTuple, Union, get_args, get_origin
from typing import get_type_hints as hints_of

import msgspec

from thence.errors import UnusableInputError

NAME_CHARS_MAX: Final = 128
TEXT_CHARS_MAX: Final = 4096
FOUND_CHARS_MAX: Final = 80
"""Of a wrong value that an error repeats."""

Kind = Literal["text", "whole", "number", "switch", "choice", "list", "map"]
Shape = Literal["word", "name", "url", "address", "file", "folder"]

SHAPES: Final[dict[Shape, str]] = {
    "word": "a word",
    "name": f"a name of 1 to {NAME_CHARS_MAX} characters without ':', '#', '/'",
    "url": "an address such as tcp://host:port",
    "address": "HOST:PORT",
    "file": "a file",
    "folder": "a folder",
}
SWITCHES: Final = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_URL: Final = re.compile(r"[a-z][a-z0-9+]*://[^\s,]+")
_WHOLE: Final = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class About(NamedTuple):
    """What a setting is for, and what its type does not say."""

    help: str
    low: float | None = None
    high: float | None = None
    flag: str | None = None
    """On the command line; None: made of the key."""
    shape: Shape = "word"


class Value(msgspec.Struct, frozen=True):
    """What one setting may hold."""

    kind: Kind
    about: About
    optional: bool = False
    choices: tuple[str, ...] = ()
    item: Value | None = None
    """Of a list, or under each name of a map."""

    @property
    def expected(self) -> str:
        """In words, after "expected"."""
        about = self.about
        if self.kind == "text":
            return SHAPES[about.shape]
        if self.kind == "switch":
            return "true or false"
        if self.kind == "choice":
            return "one of " + ", ".join(self.choices)
        if self.item is not None:
            return f"NAME = {self.item.expected}" if self.kind == "map" else self._items
        noun = "a whole number" if self.kind == "whole" else "a number"
        return f"{noun} from {about.low:,} to {about.high:,}"

    @property
    def _items(self) -> str:
        assert self.item is not None
        return f"a list, each {self.item.expected}"


class Unfit(Exception):
    """Not what a setting may hold; ``at`` is where within a list or map."""

    def __init__(self, found: object, expected: str, at: str = "") -> None:
        super().__init__(found, expected, at)
        self.found = found
        self.expected = expected
        self.at = at

    def sentence(self, where: str) -> str:
        """One sentence; ``where`` says which setting and who set it."""
        found = repr(self.found)
        if len(found) > FOUND_CHARS_MAX:
            found = f"{found[:FOUND_CHARS_MAX]}..."
        return f"{where}{self.at} is {found}; expected {self.expected}"


def value_of(hint: Any) -> Value:
    """The Value behind ``Annotated[type, About(...)]``."""
    assert get_origin(hint) is Annotated, hint
    type_, about = get_args(hint)
    return _value(type_, about)


def _value(type_: Any, about: About) -> Value:
    origin, arguments = get_origin(type_), get_args(type_)
    if origin in (Union, types.UnionType):
        (plain,) = (argument for argument in arguments if argument is not type(None))
        return msgspec.structs.replace(_value(plain, about), optional=True)
    if origin is Literal:
        return Value("choice", about, choices=arguments)
    if origin is tuple:
        return Value("list", about, item=_value(arguments[0], about))
    if origin is dict:
        return Value("map", about, item=_value(arguments[1], about))
    kinds: dict[type, Kind] = {str: "text", bool: "switch", int: "whole", float: "number"}
    return Value(kinds[type_], about)


def check(value: Value, found: object) -> Any:
    """What a setting of this kind holds after ``found`` was given to it, or Unfit."""
    if value.kind == "list":
        return _check_list(value, found)
    if value.kind == "map":
        return _check_map(value, found)
    if value.optional and (found is None or found == ""):
        return None
    if not _fits(value, found):
        raise Unfit(found, value.expected)
    return float(found) if value.kind == "number" else found  # type: ignore[arg-type]


def _fits(value: Value, found: object) -> bool:
    if value.kind == "whole":
        return type(found) is int and _within(found, value.about)
    if value.kind == "number":
        # Not-a-number is within no limits: it compares with nothing.
        return type(found) in (int, float) and _within(found, value.about)
    if value.kind == "switch":
        return type(found) is bool
    if value.kind == "choice":
        return type(found) is str and found in value.choices
    return type(found) is str and _fits_shape(found, value.about.shape)


def _within(found: Any, about: About) -> bool:
    assert about.low is not None, "a number has limits"
    assert about.high is not None
    return bool(about.low <= found <= about.high)


def _check_list(value: Value, found: object) -> tuple[Any, ...]:
    assert value.item is not None
    if not isinstance(found, list | tuple):
        raise Unfit(found, value.expected)
    clean = []
    for place, entry in enumerate(found):
        try:
            clean.append(check(value.item, entry))
        except Unfit as unfit:
            raise Unfit(unfit.found, unfit.expected, f"[{place}]") from None
    return tuple(clean)


def _check_map(value: Value, found: object) -> dict[str, Any]:
    assert value.item is not None
    if not isinstance(found, dict):
        raise Unfit(found, value.expected)
    clean = {}
    for name, entry in found.items():
        if not is_name(name):
            raise Unfit(name, SHAPES["name"], ", a name in it,")
        try:
            clean[name] = check(value.item, entry)
        except Unfit as unfit:
            raise Unfit(unfit.found, unfit.expected, f".{name}") from None
    return clean


def _fits_shape(text: str, shape: Shape) -> bool:
    if not text or len(text) > TEXT_CHARS_MAX or not text.isprintable():
        return False
    if shape == "name":
        return is_name(text)
    if shape == "url":
        return _URL.fullmatch(text) is not None
    if shape == "address":
        return split_address(text) is not None
    return True


def is_name(text: object) -> bool:
    """Whether a node or group may be called this (causal/members.py has the same rule)."""
    if not isinstance(text, str) or not 1 <= len(text) <= NAME_CHARS_MAX:
        return False
    return text.isprintable() and not any(c in ":#/" for c in text)


def split_address(text: str) -> tuple[str, int] | None:
    """(host, port) of ``HOST:PORT`` or ``[HOST]:PORT``; None if it is neither."""
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        return None
    numeric = port.isascii() and port.isdigit() and len(port) <= 5
    if not colon or not host or not host.isprintable() or " " in host or not numeric:
        return None
    return (host, int(port)) if int(port) <= 65535 else None


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host; of names, ``localhost`` alone counts."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def from_text(value: Value, text: str) -> object:
    """What the text of an environment variable or flag stands for; ``check`` judges it."""
    if value.kind == "list":
        assert value.item is not None
        return [from_text(value.item, part) for part in _parts(text)]
    if value.kind == "map":
        return _map_from_text(value, text)
    if value.kind == "switch":
        return SWITCHES.get(text.strip().lower(), text)
    if value.kind == "whole":
        digits = text.strip().replace("_", "")
        return int(digits) if _WHOLE.fullmatch(digits) else text
    if value.kind == "number":
        return _number(text)
    return text


def _map_from_text(value: Value, text: str) -> dict[str, object]:
    assert value.item is not None
    found: dict[str, object] = {}
    for part in _parts(text):
        name, mark, rest = part.partition("=")
        name = name.strip()
        if not mark:
            raise Unfit(part, f"NAME={value.item.expected}")
        if name in found:
            raise Unfit(text, f"{name} once")
        found[name] = from_text(value.item, rest.strip())
    return found


def _parts(text: str) -> list[str]:
    return [part for part in (part.strip() for part in text.split(",")) if part]


def _number(text: str) -> object:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


@cache
def values_of(struct: type) -> dict[str, Value]:
    """The settings among the fields of a config Struct; sections are left out."""
    hints = hints_of(struct, include_extras=True)
    return {
        field: value_of(hints[field])
        for field in struct.__struct_fields__  # type: ignore[attr-defined]
        if get_origin(hints[field]) is Annotated
    }


class Checked(msgspec.Struct, frozen=True):
    """A Struct whose fields are checked however it is made."""

    def __post_init__(self) -> None:
        for field, value in values_of(type(self)).items():
            found = getattr(self, field)
            try:
                clean = check(value, found)
            except Unfit as unfit:
                where = f"{type(self).__name__}.{field}"
                raise UnusableInputError(unfit.sentence(where)) from None
            if clean is not found:
                msgspec.structs.force_setattr(self, field, clean)
