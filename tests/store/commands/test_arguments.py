"""Numbers in arguments are taken as strictly as Redis takes them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.store.commands.arguments import bounded, integer, loose_real, real, text
from thence.store.commands.values import as_bytes, as_integer, as_real, decimal, shortest
from thence.store.errors import CommandError


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_have_64_bits(number: int):
    assert integer(b"%d" % number) == number


@pytest.mark.parametrize(
    "argument",
    [b"", b" 1", b"1 ", b"+1", b"01", b"-0", b"1.0", b"1e3", b"0x1", b"x", b"9223372036854775808"]
    + [b"-9223372036854775809", b"1_000", b"\xd9\xa1", b"1" * 5000],
)
def test_nothing_else_is_an_integer(argument: bytes):
    with pytest.raises(CommandError, match="not an integer"):
        integer(argument)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_what_they_print_as(number: float):
    assert real(repr(number).encode()) == number
    assert float(decimal(number)) == number
    assert b"e" not in decimal(number)
    assert as_real(decimal(number)[:255]) == number or len(decimal(number)) > 255


@pytest.mark.parametrize(
    "argument",
    [b"", b" 1", b"1 ", b"nan", b"x", b"1e", b"1e400", b"-1e400", b"1e-400", b"--1", b"1_0", b"e5"]
    + [b".", b"1" * 256, b"0x10"],
)
def test_nothing_else_is_a_float(argument: bytes):
    with pytest.raises(CommandError, match="not a valid float"):
        real(argument)


@pytest.mark.parametrize(
    ("argument", "number"),
    [(b"inf", math.inf), (b"-INF", -math.inf), (b"+infinity", math.inf), (b"0e-400", 0.0)]
    + [(b"1.", 1.0), (b".5", 0.5), (b"+1", 1.0), (b"00", 0.0)],
)
def test_other_forms_of_floats(argument: bytes, number: float):
    assert real(argument) == number


def test_bounds_of_scores_are_taken_loosely():
    assert loose_real(b"", "fault") == 0.0
    assert loose_real(b"  2", "fault") == 2.0
    assert loose_real(b"2\0x", "fault") == 2.0
    assert loose_real(b"\0x", "fault") == 0.0
    assert loose_real(b"1e400", "fault", huge=True) == math.inf
    for argument in (b"1e400", b"x", b" ", b"1 "):
        with pytest.raises(CommandError, match="fault"):
            loose_real(argument, "fault")


def test_numbers_within_bounds():
    assert bounded(b"5", 5, 9) == 5
    for argument in (b"4", b"10", b"x"):
        with pytest.raises(CommandError, match="fault"):
            bounded(argument, 5, 9, "fault")


def test_values_as_numbers_and_bytes():
    assert as_integer(None) == 0
    assert as_integer(5.0) == 5
    assert as_bytes("é") == b"\xc3\xa9"
    assert as_bytes(5.0) == b"5"
    assert as_bytes(1e22) == b"10000000000000000000000"
    assert as_bytes(1e-7) == b"0.0000001"
    for value in (5.5, "5", 2.0**70, b"x"):
        with pytest.raises(CommandError, match="not an integer"):
            as_integer(value)
    with pytest.raises(CommandError, match="not a valid float"):
        as_real("5")
    assert shortest(5.0) == 5
    assert type(shortest(5.0)) is int
    assert type(shortest(2.0**60)) is float
    assert shortest(math.inf) == math.inf
    assert text(b"aB\xff") == "AB\ufffd"
