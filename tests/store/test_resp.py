"""Requests are what they are however the bytes are cut; what is no request ends the connection."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import hiredis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.store.raw import request
from thence.store import resp
from thence.store.errors import CommandError
from thence.store.replies import (
    NOTHING,
    NULL_ARRAY,
    OK,
    Later,
    Members,
    Pairs,
    Push,
    Several,
    Verbatim,
)
from thence.store.resp import Parser, encode, encode_error, split_line

VALUE_MAX = 1000
REQUEST_MAX = 3000


def parser(trusted: bool = True) -> Parser:
    return Parser(VALUE_MAX, REQUEST_MAX, trusted)


def taken(made: Parser, portions: list[bytes]) -> tuple[list[Any], str]:
    """All requests in these portions, and what was wrong with them."""
    found = []
    for portion in portions:
        found += made.feed(portion)
        while made.more:
            found += made.feed(b"")
    return found, made.fault


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """Portions of the data."""
    bounds = sorted({0, len(data), *[place % (len(data) + 1) for place in places]})
    return [data[a:b] for a, b in pairwise(bounds)]


WORDS = st.one_of(
    st.binary(max_size=12),
    st.sampled_from([b"", b"\r\n", b"$3\r\nabc\r\n", b"*1", b"x" * 511, b"x" * 512, b"x" * 1001]),
)
ARRAYS = st.lists(WORDS, min_size=1, max_size=6).map(lambda words: request(*words))
LINES = st.sampled_from(
    [b"PING\r\n", b"SET a 'b c'\n", b'get "\\x41\\n"\r\n', b"\r\n", b"  \n", b"*0\r\n", b"*-1\r\n"]
)
NONSENSE = st.one_of(
    st.binary(max_size=20),
    st.sampled_from(
        [b"*x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n:1\r\n", b"*2\r\n$1\r\na\r\n$99999\r\n", b"$1\r\na"]
        + [b"*1\r\n$01\r\na\r\n", b"*+1\r\n$1\r\na\r\n", b'"a\r\n', b"*1\r\n$1\rxa__", b"*1\rx"]
    ),
)
STREAMS = st.lists(st.one_of(ARRAYS, ARRAYS, LINES, NONSENSE), max_size=6).map(b"".join)
PLACES = st.lists(st.integers(0, 400), max_size=8)


@given(STREAMS, PLACES, PLACES)
def test_how_bytes_are_cut_makes_no_difference(data: bytes, first: list[int], second: list[int]):
    assert taken(parser(), cut(data, first)) == taken(parser(), cut(data, second))


@given(STREAMS, PLACES, PLACES)
def test_nor_before_the_password(data: bytes, first: list[int], second: list[int]):
    assert taken(parser(False), cut(data, first)) == taken(parser(False), cut(data, second))


@given(STREAMS)
def test_the_quick_way_takes_what_the_careful_one_takes(data: bytes):
    careful = Parser(10_000, 10_000)  # the quick way is for what cannot be too large
    expected: list[Any] = []
    careful._careful(data, 0, expected, False)
    found: list[Any] = []
    rest = resp._quick(data, found)
    after = Parser(10_000, 10_000)
    after._careful(rest, 0, found, False)
    assert (found, after.fault) == (expected, careful.fault)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=40), max_size=5), PLACES)
def test_requests_come_out_as_they_went_in(requests: list[list[bytes]], places: list[int]):
    data = b"".join([request(*words) for words in requests])
    expected = [(words[0], words[1:]) for words in requests]
    made = Parser(10_000, 100_000)
    assert taken(made, cut(data, places)) == (expected, "")
    assert made.held_bytes == 0


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"*x\r\n", "invalid multibulk length"),
        (b"*1048577\r\n", "invalid multibulk length"),
        (b"*99999999999999999999\r\n", "invalid multibulk length"),
        (b"*2\r\n$1\r\na\r\n:1\r\n", "expected '$', got ':'"),
        (b"*1\r\n\xff1\r\n", "expected '$', got '\udcff'"),
        (b"*1\r\n*1\r\n$1\r\na\r\n", "expected '$', got '*'"),
        (b"*1\r\n$-1\r\n", "invalid bulk length"),
        (b"*1\r\n$1001\r\n", "invalid bulk length"),
        (b"*1\r\n$x\r\n", "invalid bulk length"),
        (b"*1\r\n$" + b"1" * 70_000, "too big bulk count string"),
        (b"*" + b"1" * 70_000, "too big mbulk count string"),
        (b"a" * 70_000, "too big inline request"),
        (b"set a 'b\r\n", "unbalanced quotes in request"),
        (b"*4\r\n" + b"$1000\r\n" * 1 + b"x" * 1000 + b"\r\n" + b"$1000\r\n" + b"x" * 1000
         + b"\r\n$1000\r\n" + b"x" * 1000 + b"\r\n$1\r\n", "too big request"),
    ],
)  # fmt: skip
def test_what_is_no_request_has_the_text_of_redis(data: bytes, fault: str):
    made = parser()
    before = made.feed(request("PING"))
    assert taken(made, [data]) == ([], f"ERR Protocol error: {fault}")
    assert len(before) == 1
    assert made.feed(request("PING")) == []  # nothing is taken any more


def test_a_stranger_may_send_little_at_a_time():
    assert taken(parser(False), [b"*11\r\n"])[1].endswith("unauthenticated multibulk length")
    large = Parser(10**6, 10**6, False)
    assert taken(large, [b"*1\r\n$16385\r\n"])[1].endswith("unauthenticated bulk length")
    made = parser(False)
    assert made.feed(request("AUTH", "x") + request("PING")) == [(b"AUTH", [b"x"])]
    made.trusted = True
    assert made.more
    assert made.feed(b"") == [(b"PING", [])]


def test_a_request_that_is_not_whole_is_not_looked_at_with_each_portion():
    made = Parser(10**7, 10**8)
    made.feed(b"*2\r\n$3\r\nGET\r\n$1000000\r\n")
    for _ in range(1000):
        assert made.feed(bytes(1000)) == []
    assert made.feed(b"\r\n") == [(b"GET", [bytes(1_000_000)])]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"a b  c", [b"a", b"b", b"c"]),
        (b"", []),
        (b'"a b"', [b"a b"]),
        (b'"\\n\\x41\\q\\""', [b'\nAq"']),
        (b"'a\\n\\'b'", [b"a\\n'b"]),
        (b'""', [b""]),
        (b'"a"b', None),
        (b'"a', None),
        (b"'a", None),
        (b'a"b"', [b"ab"]),
    ],
)
def test_a_line_is_split_as_a_shell_would(line: bytes, words: list[bytes] | None):
    assert split_line(line) == words


PLAIN = st.recursive(
    st.one_of(st.binary(), st.integers(-(2**63), 2**63 - 1), st.none(), st.booleans()),
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=12,
)


def encoded(reply: Any, protocol: int) -> bytes:
    out: list[bytes] = []
    encode(reply, protocol, out)
    return b"".join(out)


@given(PLAIN, st.sampled_from([2, 3]))
def test_what_is_encoded_is_what_a_client_reads(reply: Any, protocol: int):
    reader = hiredis.Reader()
    reader.feed(encoded(reply, protocol))
    assert reader.gets() == reply  # True == 1 in RESP2
    assert reader.gets() is False


@pytest.mark.parametrize(
    ("reply", "two", "three"),
    [
        (b"a", b"$1\r\na\r\n", b"$1\r\na\r\n"),
        ("ä", b"$2\r\n\xc3\xa4\r\n", b"$2\r\n\xc3\xa4\r\n"),
        (None, b"$-1\r\n", b"_\r\n"),
        (NULL_ARRAY, b"*-1\r\n", b"_\r\n"),
        (True, b":1\r\n", b"#t\r\n"),
        (False, b":0\r\n", b"#f\r\n"),
        (1.5, b"$3\r\n1.5\r\n", b",1.5\r\n"),
        (float("inf"), b"$3\r\ninf\r\n", b",inf\r\n"),
        ({b"a": 1}, b"*2\r\n$1\r\na\r\n:1\r\n", b"%1\r\n$1\r\na\r\n:1\r\n"),
        (Members([b"a"]), b"*1\r\n$1\r\na\r\n", b"~1\r\n$1\r\na\r\n"),
        (Pairs([(b"a", 2.0)]), b"*2\r\n$1\r\na\r\n$1\r\n2\r\n", b"*1\r\n*2\r\n$1\r\na\r\n,2\r\n"),
        (Push([b"a"]), b"*1\r\n$1\r\na\r\n", b">1\r\n$1\r\na\r\n"),
        (Verbatim("x"), b"$1\r\nx\r\n", b"=5\r\ntxt:x\r\n"),
        (Several([1, 2]), b":1\r\n:2\r\n", b":1\r\n:2\r\n"),
        (NOTHING, b"", b""),
        (OK, b"+OK\r\n", b"+OK\r\n"),
        ((1, OK), b"*2\r\n:1\r\n+OK\r\n", b"*2\r\n:1\r\n+OK\r\n"),
        ([CommandError("ERR x")], b"*1\r\n-ERR x\r\n", b"*1\r\n-ERR x\r\n"),
    ],
)
def test_each_kind_of_reply_has_its_form_in_both_protocols(reply: Any, two: bytes, three: bytes):
    assert encoded(reply, 2) == two
    assert encoded(reply, 3) == three


def test_an_error_is_one_line_whatever_is_in_it():
    assert encode_error("ERR a\r\nb\udcff") == b"-ERR a  b\xff\r\n"


def test_what_is_no_reply_is_an_error_and_not_the_end():
    async def never() -> Any:
        return None

    assert encoded(Later(never), 2).startswith(b"-ERR a command returned a wait")
    assert encoded(object(), 2).startswith(b"-ERR a command returned object")
