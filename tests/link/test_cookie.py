"""Nothing is kept for who has not shown a way back."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.errors import LocalProtocolError
from thence.link.cookie import PERIOD_S, REMEMBERED_MAX, Gate
from thence.link.datagram import COOKIE, HELLO, OPEN, cookie_of, kind_of, opening, short

SECRET = bytes(range(32))
HERE = "127.0.0.1:5000"


def cookie(gate: Gate, connection: int = 9, now: float = 100.0, address: str = HERE) -> bytes:
    answer = gate.greet(opening(HELLO, connection), address, now)
    assert answer is not None
    assert kind_of(answer) == COOKIE
    return cookie_of(answer)


def test_the_cookie_that_came_back_opens():
    gate = Gate(SECRET)
    assert gate.admit(opening(OPEN, 9, cookie(gate)), HERE, 100.0) == 9


@pytest.mark.parametrize(
    ("connection", "address", "now"),
    [(8, HERE, 100.0), (9, "127.0.0.1:5001", 100.0), (9, HERE, 100.0 + 2 * PERIOD_S)],
    ids=["another connection", "another address", "too late"],
)
def test_a_cookie_serves_its_connection_its_address_and_its_time(
    connection: int, address: str, now: float
):
    gate = Gate(SECRET)
    assert gate.admit(opening(OPEN, connection, cookie(gate)), address, now) is None


def test_a_cookie_serves_for_at_least_one_period():
    gate = Gate(SECRET)
    made = cookie(gate, now=109.9)
    assert gate.admit(opening(OPEN, 9, made), HERE, 109.9 + PERIOD_S) == 9


def test_another_secret_makes_other_cookies():
    assert cookie(Gate(SECRET)) != cookie(Gate(SECRET[::-1]))


def test_a_late_copy_of_an_open_opens_nothing():
    gate = Gate(SECRET)
    datagram = opening(OPEN, 9, cookie(gate))
    assert gate.admit(datagram, HERE, 100.0) == 9
    assert gate.admit(datagram, HERE, 105.0) is None


def test_greeting_keeps_nothing():
    gate = Gate(SECRET)
    before = sum(map(sys.getsizeof, vars(gate).values()))
    for number in range(1000):
        cookie(gate, number)
    assert sum(map(sys.getsizeof, vars(gate).values())) == before


def test_what_is_remembered_is_bounded():
    gate = Gate(SECRET)
    for number in range(REMEMBERED_MAX + 500):
        datagram = opening(OPEN, number, cookie(gate, number))
        assert gate.admit(datagram, HERE, 100.0) == number
    assert len(gate._admitted) == len(gate._order) == REMEMBERED_MAX
    cookie(gate, 1, now=200.0)
    gate.admit(opening(OPEN, 1, cookie(gate, 1, now=200.0)), HERE, 200.0)
    assert len(gate._admitted) == 1


@given(st.binary(max_size=60))
def test_any_bytes_bring_no_answer_and_open_nothing(data: bytes):
    gate = Gate(SECRET)
    assert gate.greet(data, HERE, 1.0) is None
    assert gate.admit(data, HERE, 1.0) is None


def test_other_kinds_are_not_for_the_gate():
    gate = Gate(SECRET)
    assert gate.greet(opening(OPEN, 1), HERE, 1.0) is None
    assert gate.admit(short(4, 1), HERE, 1.0) is None


def test_a_short_secret_is_none():
    with pytest.raises(LocalProtocolError):
        Gate(b"short")
