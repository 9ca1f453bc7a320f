"""Patterns of KEYS and MATCH: ``*``, ``?``, ``[a-z]``, ``[^a]`` and a backslash, as Redis has them.

What stands between two stars is looked for from left to right: the first place where it fits is as
good as any other, so nothing is ever tried twice, and a pattern of many stars takes no more than
the length of the pattern times that of the text.

A pattern of letters and stars is just that.  Others become regular expressions, in which what
stands between stars is an atomic group.  To compile a long one takes seconds, and to compare it
without that takes longer: it is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from thence.store.errors import CommandError

PATTERNS_KEPT_MAX: Final = 256
COMPILED_BYTES_MAX: Final = 1024
"""Of a pattern that is not just letters and stars."""
_special: Final = re.compile(rb"[?\[\\]").search


def check(pattern: bytes) -> None:
    """CommandError if a pattern cannot be used because it is too long."""
    if len(pattern) > COMPILED_BYTES_MAX and _special(pattern):
        raise CommandError(
            f"ERR a pattern with ?, [ or \\ in it has at most {COMPILED_BYTES_MAX} bytes"
        )


def matcher(pattern: bytes) -> Callable[[bytes], object]:
    """A function that is true of the texts that match.  CommandError as ``check``."""
    check(pattern)
    return _compiled(pattern) if _special(pattern) else Starred(pattern)


class Starred:
    """A pattern of letters and stars."""

    __slots__ = ("_first", "_last", "_length_min", "_middle")

    def __init__(self, pattern: bytes) -> None:
        first, *rest = pattern.split(b"*")
        self._first: Final = first
        self._last: Final = rest.pop() if rest else None
        self._middle: Final = [piece for piece in rest if piece]
        # As in Redis, stars match anything but nothing at all.
        self._length_min: Final = max(len(pattern) - pattern.count(b"*"), 1)

    def __call__(self, text: bytes) -> bool:
        """Whether it matches all of the text."""
        first, last = self._first, self._last
        if last is None:
            return text == first
        if len(text) < self._length_min or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in self._middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def _compiled(pattern: bytes) -> Callable[[bytes], object]:
    pieces = _pieces(pattern)
    if len(pieces) == 1:
        return re.compile(pieces[0] + rb"\Z", re.DOTALL).match
    first, *between, last = pieces
    middle = b"".join(b"(?>.*?" + piece + b")" for piece in between if piece)
    return re.compile(first + middle + b".*" + last + rb"\Z", re.DOTALL).match


def _pieces(pattern: bytes) -> list[bytes]:
    """What stands between stars, as regular expressions of a fixed length."""
    pieces = [b""]
    at, end = 0, len(pattern)
    while at < end:
        letter = pattern[at : at + 1]
        at += 1
        if letter == b"*":
            if pieces[-1] or len(pieces) == 1:
                pieces.append(b"")
            continue
        if letter == b"?":
            pieces[-1] += b"."
        elif letter == b"[":
            text, at = _letters(pattern, at)
            pieces[-1] += text
        else:
            if letter == b"\\" and at < end:
                letter = pattern[at : at + 1]
                at += 1
            pieces[-1] += re.escape(letter)
    return pieces


def _letters(pattern: bytes, at: int) -> tuple[bytes, int]:
    """The set of letters that begins at ``at``, and where the pattern goes on.  A set that is not
    closed ends with the pattern."""
    end = len(pattern)
    negated = pattern[at : at + 1] == b"^"
    at += negated
    inside = b""
    while at < end and pattern[at] != ord("]"):
        if pattern[at] == ord("\\") and at + 1 < end:
            inside += _letter(pattern[at + 1])
            at += 2
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < end:
            low, high = sorted((pattern[at], pattern[at + 2]))
            inside += _letter(low) + b"-" + _letter(high)
            at += 3
        else:
            inside += _letter(pattern[at])
            at += 1
    if not inside:  # an empty set: nothing is in it, everything is outside it
        return (b"." if negated else b"(?!)"), at + 1
    return b"[" + (b"^" if negated else b"") + inside + b"]", at + 1


def _letter(code: int) -> bytes:
    return b"\\x%02x" % code
