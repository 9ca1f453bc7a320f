"""Regular expressions as users of ShiViz write them: JavaScript's, applied to the whole text.

ShiViz compiles them with the flags ``g`` and ``m``.  The differences to Python that occur in such
expressions are translated: ``(?<name>...)``, ``\\k<name>``, what ``.``, ``^`` and ``$`` take for a
line end and ``\\s`` for a space, escaped letters that mean themselves, ``[^]`` and ``[]``, a ``-``
next to ``\\w`` in a class.
"""

from __future__ import annotations

import re
import warnings
from typing import Final

from thence.errors import UnusableInputError

GROUPS: Final = ("host", "clock", "event")
_NAMED: Final = re.compile(r"\(\?<(?=[A-Za-z_$])")
_NAME_BACK: Final = re.compile(r"\\k<(\w+)>")
_CONTROL: Final = re.compile(r"\\c([A-Za-z])")
_CODE: Final = re.compile(r"\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2})")
_SAME_IN_PYTHON: Final = frozenset("dDwWsSbBnrtfv123456789")
_ANY_OF: Final = frozenset("dDwWsS")
_DOT: Final = r"[^\n\r\u2028\u2029]"
# Of its four line ends Python's ^, $ and . know one.
_OUTSIDE_CLASS: Final = {".": _DOT, "^": f"(?<!{_DOT})", "$": f"(?!{_DOT})"}
_SPACES: Final = r"\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

# What a class has of its own; Python cannot say "no space" there for spaces beyond ASCII.
_IN_CLASS: Final = {"b": r"\x08", "s": _SPACES, "S": r"\S"}


def compile_expression(text: str, what: str, groups: tuple[str, ...] = ()) -> re.Pattern[str]:
    """The expression for Python; UnusableInputError says what is wrong with it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of sets that Python may once read differently
            pattern = re.compile(to_python(text.strip()), re.ASCII)
    except (re.error, RecursionError, OverflowError) as error:
        raise UnusableInputError(f"the {what} {text!r} is no regular expression: {error}") from None
    if absent := [name for name in groups if name not in pattern.groupindex]:
        present = ", ".join(pattern.groupindex) or "none"
        raise UnusableInputError(
            f"the {what} needs the named groups {', '.join(groups)}, written (?<host>...); it has "
            f"{present}, no {', '.join(absent)}"
        )
    return pattern


def to_python(text: str) -> str:
    """A JavaScript regular expression in Python's syntax."""
    out: list[str] = []
    at = 0
    while at < len(text):
        if found := _NAMED.match(text, at):
            out.append("(?P<")
            at = found.end()
        elif text[at] == "\\":
            piece, at = _escape(text, at)
            out.append(piece)
        elif text[at] == "[":
            piece, at = _class(text, at)
            out.append(piece)
        else:
            literal = text[at] == "{" and text[at + 1 : at + 2] == ","
            out.append("\\{" if literal else _OUTSIDE_CLASS.get(text[at], text[at]))
            at += 1
    return "".join(out)


def _escape(text: str, at: int) -> tuple[str, int]:
    """What a backslash and the following stand for, and where it ends."""
    if found := _NAME_BACK.match(text, at):
        return f"(?P={found[1]})", found.end()
    if found := _CONTROL.match(text, at):
        return f"\\x{ord(found[1]) % 32:02x}", found.end()
    if found := _CODE.match(text, at):
        return found[0], found.end()
    letter = text[at + 1 : at + 2]
    if letter in ("s", "S"):
        return f"[{'^' if letter == 'S' else ''}{_SPACES}]", at + 2
    if letter == "0":
        return "\\x00", at + 2
    if letter in _SAME_IN_PYTHON or not letter:
        return f"\\{letter}", at + 2
    return re.escape(letter), at + 2


def _class(text: str, at: int) -> tuple[str, int]:
    """A character class, from its bracket on, and where it ends."""
    for empty, meaning in (("[^]", r"[\s\S]"), ("[]", "(?!)")):
        if text.startswith(empty, at):
            return meaning, at + len(empty)
    out = ["["]
    at += 1
    if text[at : at + 1] == "^":
        out.append("^")
        at += 1
    after_set = False
    while at < len(text) and text[at] != "]":
        if text[at] == "\\":
            is_set = text[at + 1 : at + 2] in _ANY_OF
            inside = _IN_CLASS.get(text[at + 1 : at + 2])
            piece, at = _escape(text, at) if inside is None else (inside, at + 2)
        else:
            before_set = text[at + 1 : at + 2] == "\\" and text[at + 2 : at + 3] in _ANY_OF
            is_set = False
            lone = text[at] == "-" and (after_set or before_set)
            piece = "\\-" if lone else "\\[" if text[at] == "[" else text[at]
            at += 1
        out.append(piece)
        after_set = is_set
    out.append(text[at : at + 1])  # nothing when it does not end: Python says so
    return "".join(out), at + 1
