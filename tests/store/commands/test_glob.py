"""Patterns match what those of Redis match, in time that no pattern can stretch."""

from __future__ import annotations

import itertools
import time

import pytest

from thence.store.commands.glob import COMPILED_BYTES_MAX, matcher
from thence.store.errors import CommandError


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (b"abc", [b"abc"], [b"ab", b"abcd", b"ABC", b""]),
        (b"a?c", [b"abc", b"a\nc"], [b"ac", b"abbc"]),
        (b"a*c", [b"ac", b"abc", b"abcc", b"a\nc"], [b"acd", b"a"]),
        (b"*", [b"a", b"ab"], [b""]),
        (b"", [b""], [b"a"]),
        (b"a*", [b"a", b"ab"], [b"ba", b""]),
        (b"*b*", [b"b", b"abc"], [b"ac"]),
        (b"*ab*ab*", [b"abab", b"xabyabz"], [b"ab", b"aba"]),
        (b"[abc]", [b"a", b"c"], [b"d", b"ab"]),
        (b"[^abc]", [b"d", b"^"], [b"a"]),
        (b"[a-c]x", [b"ax", b"bx"], [b"dx", b"-x"]),
        (b"[c-a]", [b"b"], [b"d"]),
        (b"[a-]", [b"a", b"_", b"]"], [b"b"]),
        (b"[\\]]", [b"]"], [b"\\"]),
        (b"[", [], [b"[", b"a"]),
        (b"[]", [], [b"a", b"]"]),
        (b"[^]", [b"a"], [b""]),
        (b"[ab", [b"a", b"b"], [b"c"]),
        (b"a\\*b", [b"a*b"], [b"axb"]),
        (b"a\\", [b"a\\"], [b"a"]),
        (b"(.+)", [b"(.+)"], [b"x"]),
        (b"\xff?", [b"\xff\xfe"], [b"\xfe\xff"]),
    ],
)
def test_what_matches(pattern: bytes, yes: list[bytes], no: list[bytes]):
    matches = matcher(pattern)
    assert all([matches(text) for text in yes])
    assert not any([matches(text) for text in no])


def _matches(pattern: bytes, text: bytes) -> bool:
    """The definition, without sets."""
    if not text:
        return not pattern
    if not pattern:
        return False
    if pattern[:1] == b"*":
        rest = pattern.lstrip(b"*")
        return not rest or any([_matches(rest, text[at:]) for at in range(len(text))])
    return pattern[:1] in (b"?", text[:1]) and (
        (pattern[1:] == text[1:] == b"")
        or (text[1:] == b"" and pattern[1:].strip(b"*") == b"")
        or _matches(pattern[1:], text[1:])
    )


def test_every_short_pattern_is_what_the_definition_says():
    texts = [bytes(t) for size in range(5) for t in itertools.product(b"ab", repeat=size)]
    for size in range(5):
        for letters in itertools.product(b"ab*?", repeat=size):
            pattern = bytes(letters)
            matches = matcher(pattern)
            for text in texts:
                assert bool(matches(text)) == _matches(pattern, text), (pattern, text)


def test_many_stars_take_no_longer():
    matches = matcher(b"*a" * 200 + b"b")
    begin = time.perf_counter()
    assert not matches(b"a" * 5000)
    assert time.perf_counter() - begin < 1.0


@pytest.mark.parametrize("pattern", [b"a" * 10**6, b"*a" * 10**6, b"*" * 10**6 + b"b"])
def test_long_patterns_take_no_time(pattern: bytes):
    text = pattern.replace(b"*", b"")
    begin = time.perf_counter()
    matches = matcher(pattern)
    assert matches(text)
    assert not matches(text[:-1] + b"x")
    assert time.perf_counter() - begin < 2.0


@pytest.mark.parametrize("letter", [b"?", b"[a]", b"\\a"])
def test_long_patterns_that_would_have_to_be_compiled_are_refused(letter: bytes):
    assert matcher(letter + b"*" * (COMPILED_BYTES_MAX - len(letter)))(b"ab")
    begin = time.perf_counter()
    with pytest.raises(CommandError, match="at most 1024 bytes"):
        matcher(letter * 2_000_000)
    assert time.perf_counter() - begin < 1.0
