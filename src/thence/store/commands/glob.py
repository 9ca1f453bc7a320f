"""Patterns of KEYS and MATCH: ``*``, ``?``, ``[a-z]``, ``[^a]`` and a backslash, as Redis has them.

A pattern becomes a regular expression.  What stands between two stars is an atomic group: the first
place where it fits is as good as any other, so nothing is ever tried twice, and a pattern of many
stars takes no more than the length of the pattern times that of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

PATTERNS_KEPT_MAX = 256


@lru_cache(maxsize=PATTERNS_KEPT_MAX)
def matcher(pattern: bytes) -> Callable[[bytes], object]:
    """A function that is true of the texts that match."""
    if pattern and not pattern.strip(b"*"):
        # As in Redis, stars match anything but nothing at all.
        return re.compile(rb".", re.DOTALL).match
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
