"""Sets of sequence numbers as ranges, against plain sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thence.trace.online_ranges import (
    Ranges,
    above,
    add,
    add_range,
    common,
    first_gap,
    has,
    minus,
    numbers,
    size,
    top,
    up_to,
)

SEQ = st.integers(1, 20)
STEPS = st.lists(st.tuples(SEQ, st.integers(-1, 4)), max_size=12)


def build(steps: list[tuple[int, int]]) -> tuple[Ranges, set[int]]:
    ranges: Ranges = []
    plain: set[int] = set()
    for first, more in steps:
        if more == 0:
            add(ranges, first)
        else:
            add_range(ranges, first, first + more)
        plain.update(range(first, first + more + 1))
    return ranges, plain


@given(STEPS)
def test_the_numbers_are_those_that_were_put_in_and_ranges_do_not_touch(steps):
    ranges, plain = build(steps)
    assert list(numbers(ranges)) == sorted(plain)
    assert all(ranges[at] + 1 < ranges[at + 1] for at in range(1, len(ranges) - 1, 2))
    assert size(ranges) == len(plain)
    assert top(ranges) == max(plain, default=0)


@given(STEPS, st.integers(0, 25), st.integers(0, 25))
def test_questions_are_answered_as_by_a_set(steps, one, other):
    ranges, plain = build(steps)
    assert has(ranges, one) == (one in plain)
    assert above(ranges, one) == min((seq for seq in plain if seq > one), default=0)
    assert list(numbers(up_to(ranges, one))) == sorted(seq for seq in plain if seq <= one)
    absent = [seq for seq in range(max(1, one), other + 1) if seq not in plain]
    assert first_gap(ranges, max(1, one), other) == min(absent, default=0)


@given(STEPS, STEPS)
def test_a_difference_is_that_of_the_sets(steps, others):
    ranges, plain = build(steps)
    other, taken = build(others)
    assert list(numbers(minus(ranges, other))) == sorted(plain - taken)
    assert list(numbers(common(ranges, other))) == sorted(plain & taken)
