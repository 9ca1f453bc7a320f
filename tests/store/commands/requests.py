"""Random requests, valid and not, from short templates.

Words in capitals stand for themselves, small letters for something random:

    s h l t z k   a key that is likely to be a string, hash, list, set, sorted set, anything
    f m v n       a field, member, value, new name of a key
    e             a time, far away or over
    i j d         an integer, a small one, a number with a point
    o             the place of a bit
    x             an index or a small count
    b y           a bound of scores, of members
    g             a pattern
    a|b           either
    [ ... ]       perhaps
    { ... }       once to four times
"""

from __future__ import annotations

import random
from typing import Final

KEYS_OF_A_KIND: Final = 3
WORDS: Final = {
    "f": [b"f1", b"f2", b"f3", b"f4", b"7", b"field\x00\xff"],
    "m": [b"a", b"b", b"c", b"d", b"e", b"10", b"-3", b"2.5", b"", b"aa", b"ab", b"\xc3\xa9"],
    "v": [b"x", b"12", b"-7", b"3.25", b"", b"hello world", b"y" * 60, b"0"]
    + [b"007", b" 1", b"1 ", b"+5", b"1e3", b"inf", b"0.5", b"-0.25", b"a\r\nb"],
    "i": [b"1", b"-1", b"5", b"10", b"0", b"-12", b"100", b"9223372036854775807", b"-5"]
    + [b"-9223372036854775808", b"9223372036854775808", b"1.5", b"abc", b"", b"01", b"+1", b" 1"],
    "j": [b"1", b"-1", b"5", b"10", b"0", b"-12", b"100", b"1.5", b"abc", b"", b"01", b"+1"],
    "o": [b"0", b"1", b"7", b"8", b"9", b"15", b"100", b"-1", b"abc", b"4294967296", b"1.5", b""],
    "d": [b"1", b"0.5", b"-0.25", b"2.75", b"1e3", b"-12", b"3", b"0", b"7.5", b"100"]
    + [b"inf", b"-inf", b"+inf", b"nan", b"abc", b"", b"1.", b".5", b" 1", b"1e400", b"1e-400"],
    "e": [b"100000", b"5000000", b"9999999999", b"0", b"-1", b"-100000", b"abc", b"", b"1.5"]
    + [b"9223372036854775807", b"-9223372036854775808", b"9223372036854770"],
    "x": [b"0", b"1", b"2", b"3", b"-1", b"-2", b"-3", b"10", b"-10", b"5", b"100", b"x", b"-100"],
    "b": [b"-inf", b"+inf", b"inf", b"(1", b"(0.5", b"1", b"3", b"2.75", b"-5", b"(-1", b"100"]
    + [b"", b"(", b"((1", b"abc", b"1e400", b" 2", b"(inf", b"(-inf"],
    "y": [b"-", b"+", b"[a", b"(a", b"[c", b"(c", b"[", b"(", b"[aa", b"b", b"", b"[\xc3", b"-a"],
    "g": [b"*", b"?1", b"s*", b"[hz]?", b"[^s]*", b"*1", b"f*", b"a", b"[a-c]", b"\\s1", b"*a*b*"]
    + [b"[", b"[a", b"[]", b"[^]", b"**", b"h\\", b"[z-a]*", b""],
    "n": [b"s1", b"h2", b"l1", b"t2", b"z1", b"new", b"s9"],
}
JUNK: Final = [b"", b"x", b"-1", b"0", b"1.5", b"NX", b"LIMIT", b"COUNT", b"STORE", b"\xff\x00"]
SPOILED_SHARE: Final = 0.08
WRONG_KEY_SHARE: Final = 0.06


def request(draw: random.Random, template: str) -> list[bytes]:
    """The words of one request."""
    name, *rest = template.split()
    words = [name.encode(), *_fill(draw, rest)]
    if draw.random() < SPOILED_SHARE:
        _spoil(draw, words)
    if draw.random() < 0.1:
        words = [words[0].lower(), *[w.lower() if w.isupper() else w for w in words[1:]]]
    return words


def _fill(draw: random.Random, tokens: list[str]) -> list[bytes]:
    words: list[bytes] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        if token in "[{":
            end = _closing(tokens, at)
            times = draw.randrange(2) if token == "[" else draw.choice((1, 1, 2, 2, 3, 4))
            for _ in range(times):
                words += _fill(draw, tokens[at + 1 : end])
            at = end
        else:
            words.append(_word(draw, draw.choice(token.split("|"))))
        at += 1
    return words


def _closing(tokens: list[str], at: int) -> int:
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] in "[{") - (tokens[end] in "]}")
        if not depth:
            return end
    raise ValueError(f"{tokens[at]} is not closed")


def _word(draw: random.Random, token: str) -> bytes:
    if token in ("s", "h", "l", "t", "z", "k"):
        kind = token
        if token == "k" or draw.random() < WRONG_KEY_SHARE:
            kind = draw.choice("shltz")
        return f"{kind}{draw.randint(1, KEYS_OF_A_KIND)}".encode()
    choices = WORDS.get(token)
    if choices is not None:
        return draw.choice(choices)
    return token.encode().decode("unicode_escape").encode("latin-1")


def _spoil(draw: random.Random, words: list[bytes]) -> None:
    """Make something wrong of it, perhaps; the name stays."""
    kind = draw.randrange(4)
    at = draw.randrange(1, len(words)) if len(words) > 1 else 1
    if kind == 0:
        words.append(draw.choice(JUNK))
    elif kind == 1 and len(words) > 1:
        del words[at]
    elif kind == 2 and len(words) > 1:
        words[at] = draw.choice(JUNK)
    else:
        words.insert(at, draw.choice(JUNK))
