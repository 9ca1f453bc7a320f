"""The token bucket: never more than it promises, and never less."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.client.bucket import SLACK_S, Bucket

RATES = st.floats(0.01, 10_000)
BURSTS = st.integers(1, 20)
PAUSES = st.lists(st.floats(0, 100) | st.just(0.0), max_size=60)
STARTS = st.floats(0, 1e8)


def test_a_full_bucket_gives_a_burst_and_then_one_at_a_time():
    bucket = Bucket(10, 3)
    assert [bucket.take(5.0) for _ in range(4)] == [True, True, True, False]
    assert bucket.wait(5.0) == pytest.approx(0.1)
    assert not bucket.take(5.05)
    assert bucket.take(5.1)
    assert not bucket.take(5.1)
    assert [bucket.take(99.0) for _ in range(4)] == [True, True, True, False]


@given(RATES, BURSTS, STARTS, PAUSES)
def test_no_stretch_of_time_has_more_than_its_share(
    rate: float, burst: int, now: float, pauses: list[float]
):
    bucket = Bucket(rate, burst)
    taken = []
    for pause in pauses:
        now += pause / rate
        if bucket.take(now):
            taken.append(now)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            most = burst + rate * (taken[last] - taken[first] + 2 * SLACK_S)
            assert last - first + 1 <= most + 1e-3


@given(RATES, BURSTS, STARTS, PAUSES)
def test_whoever_waits_as_long_as_told_gets_a_token(
    rate: float, burst: int, now: float, pauses: list[float]
):
    bucket = Bucket(rate, burst)
    for pause in pauses:
        now += pause / rate
        wait = bucket.wait(now)
        assert 0 <= wait <= 1 / rate + SLACK_S
        if wait > 0:
            assert not bucket.take(now)
            now += wait
        assert bucket.wait(now) == 0.0
        assert bucket.take(now)


def test_a_refused_token_costs_nothing():
    bucket = Bucket(1, 1)
    assert bucket.take(0.0)
    assert not any(bucket.take(0.5) for _ in range(100))
    assert bucket.wait(0.5) == pytest.approx(0.5)
    assert bucket.take(1.0)


@pytest.mark.parametrize(("rate", "burst"), [(0.0, 1), (-1.0, 1), (1.0, 0)])
def test_a_bucket_that_gives_nothing_is_a_mistake(rate: float, burst: int):
    with pytest.raises(AssertionError):
        Bucket(rate, burst)
