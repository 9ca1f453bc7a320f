"""The failure detector: who is suspect when, and what it learns from how members are heard."""

from __future__ import annotations

import math
import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.client.suspicion import (
    BURST_S,
    DEVIATION_S_MIN,
    DEVIATION_SHARE_MIN,
    OUTAGE_FACTOR,
    WINDOW,
    Detector,
)

KEY = 3
SUSPECT_S = 5.0
PHI = 8.0
EPSILON_S = 1e-6

INTERVALS = st.lists(st.floats(0, 20) | st.floats(0, 0.01), max_size=40)
STARTS = st.floats(0, 1e7)
LEAST = st.floats(0.05, 100)
PHIS = st.just(0.0) | st.floats(0, 100)


def beating(detector: Detector, intervals: list[float], now: float = 100.0) -> float:
    """Have a member heard after each of these times; when it was heard last."""
    detector.heard(KEY, now)
    for interval in intervals:
        now += interval
        detector.heard(KEY, now)
    return now


def jittered(mean: float, seed: int = 1, count: int = WINDOW) -> list[float]:
    chance = random.Random(seed)
    return [mean * chance.uniform(0.75, 1.25) for _ in range(count)]


# ---- what it learns ---------------------------------------------------------------------------


def test_a_slow_member_is_given_more_time_than_a_quick_one():
    slow, quick = Detector(SUSPECT_S, PHI), Detector(SUSPECT_S, PHI)
    slow_last = beating(slow, jittered(4.0))
    quick_last = beating(quick, jittered(0.1))
    assert not slow.is_suspect(KEY, slow_last + 5.0)
    assert quick.is_suspect(KEY, quick_last + 5.0)
    assert slow.is_suspect(KEY, slow_last + 12.0)


def test_a_member_that_becomes_slow_is_given_more_time():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, jittered(0.1))
    last = beating(detector, jittered(4.0), last)
    assert not detector.is_suspect(KEY, last + 5.0)
    last = beating(detector, jittered(0.1), last)
    assert detector.is_suspect(KEY, last + 5.0)


def test_the_least_silence_is_never_suspicious():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, jittered(0.1))
    assert detector.phi(KEY, last + 4.9) > PHI
    assert not detector.is_suspect(KEY, last + 4.9)
    assert detector.due(KEY) == last + SUSPECT_S


def test_without_phi_silence_alone_counts():
    detector = Detector(SUSPECT_S, 0.0)
    last = beating(detector, jittered(4.0))
    assert not detector.is_suspect(KEY, last + 4.9)
    assert detector.is_suspect(KEY, last + 5.0)


def test_a_burst_is_one_sign_of_life():
    plain, bursty = Detector(SUSPECT_S, PHI), Detector(SUSPECT_S, PHI)
    burst = [BURST_S / 2] * 30
    plain_last = beating(plain, [4.0 + sum(burst)] * 20)
    # The same beats, each followed by many frames: the interval is from the last to the next.
    bursty_last = beating(bursty, [gap for _ in range(20) for gap in (4.0, *burst)])
    assert bursty.silence(KEY, bursty_last + 1) == pytest.approx(1.0)
    wait = plain.due(KEY) - plain_last
    assert bursty.due(KEY) - bursty_last == pytest.approx(wait, rel=0.01)


def test_an_outage_does_not_make_it_deaf_to_the_next():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, [*jittered(0.5), 3600.0, *jittered(0.5, count=20)])
    assert detector.due(KEY) - last < 2 * SUSPECT_S


def test_only_the_window_counts():
    long, short = Detector(SUSPECT_S, PHI), Detector(SUSPECT_S, PHI)
    recent = jittered(3.0, seed=2)
    beating(long, [*jittered(0.5), *recent], 0.0)
    last = beating(short, recent, sum(jittered(0.5)))
    assert long.due(KEY) == pytest.approx(short.due(KEY))
    assert long.phi(KEY, last + 6) == pytest.approx(short.phi(KEY, last + 6), rel=1e-3)


@given(st.lists(st.floats(BURST_S * 2, SUSPECT_S), min_size=1, max_size=300), st.floats(0, 60))
def test_phi_is_the_tail_of_a_normal_distribution(intervals: list[float], silence: float):
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, intervals, 0.0)
    mean = statistics.fmean(intervals[-WINDOW:])
    spread = statistics.pstdev(intervals[-WINDOW:])
    spread = max(spread, DEVIATION_SHARE_MIN * mean, DEVIATION_S_MIN)
    tail = 1 - statistics.NormalDist(mean, spread).cdf(silence)
    if 1e-9 < tail < 0.999:
        assert detector.phi(KEY, last + silence) == pytest.approx(-math.log10(tail), abs=1e-2)


# ---- who is suspect, and when -----------------------------------------------------------------


@given(LEAST, PHIS, INTERVALS, STARTS, st.lists(st.floats(0, 1e4), min_size=2, max_size=8))
def test_suspicion_grows_with_time(
    least: float, phi_min: float, intervals: list[float], start: float, later: list[float]
):
    detector = Detector(least, phi_min)
    last = beating(detector, intervals, start)
    times = [last + after for after in sorted(later)]
    for measure in (detector.silence, detector.phi, detector.is_suspect):
        seen = [measure(KEY, now) for now in times]
        assert seen == sorted(seen)


@given(LEAST, PHIS, INTERVALS, STARTS)
def test_a_member_is_suspect_from_when_it_is_due_and_not_before(
    least: float, phi_min: float, intervals: list[float], start: float
):
    detector = Detector(least, phi_min)
    last = beating(detector, intervals, start)
    due = detector.due(KEY)
    assert last + least <= due < math.inf
    assert detector.is_suspect(KEY, due)
    assert not detector.is_suspect(KEY, math.nextafter(due, -math.inf))


@given(LEAST, PHIS, INTERVALS, st.floats(0, 500))
def test_a_member_is_suspect_if_its_silence_is_long_and_unlikely(
    least: float, phi_min: float, intervals: list[float], silence: float
):
    detector = Detector(least, phi_min)
    now = beating(detector, intervals, 0.0) + silence
    if abs(now - detector.due(KEY)) > EPSILON_S:
        unlikely = phi_min == 0 or detector.phi(KEY, now) >= phi_min
        assert detector.is_suspect(KEY, now) == (detector.silence(KEY, now) >= least and unlikely)


@given(LEAST, PHIS, INTERVALS)
def test_a_sign_of_life_ends_the_suspicion(least: float, phi_min: float, intervals: list[float]):
    detector = Detector(least, phi_min)
    beating(detector, intervals)
    due = detector.due(KEY)
    detector.heard(KEY, due)
    assert not detector.is_suspect(KEY, due)
    assert detector.due(KEY) >= due + least
    assert detector.silence(KEY, due) == 0.0


# ---- members that come and go -----------------------------------------------------------------


def test_a_member_that_is_expected_and_never_heard_becomes_suspect():
    detector = Detector(SUSPECT_S, PHI)
    detector.expect(KEY, 10.0)
    assert detector.silence(KEY, 12.0) == 2.0
    assert detector.phi(KEY, 12.0) == 0.0
    assert detector.due(KEY) == 15.0
    assert not detector.is_suspect(KEY, 14.9)
    assert detector.is_suspect(KEY, 15.0)
    assert detector.phi(KEY, 15.0) == math.inf


def test_to_expect_a_member_again_changes_nothing():
    detector = Detector(SUSPECT_S, PHI)
    detector.expect(KEY, 10.0)
    detector.expect(KEY, 14.0)
    assert detector.due(KEY) == 15.0
    detector.heard(KEY, 14.5)
    detector.expect(KEY, 19.0)
    assert detector.due(KEY) == 19.5


def test_the_wait_for_the_first_sign_of_life_is_no_sample():
    detector = Detector(SUSPECT_S, PHI)
    detector.expect(KEY, 0.0)
    detector.heard(KEY, 9.0)
    assert detector.due(KEY) == 14.0


def test_a_member_that_is_not_known_is_never_suspect():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, jittered(0.1))
    detector.forget(KEY)
    detector.forget(KEY)
    for key in (KEY, KEY + 1):
        assert detector.silence(key, last + 99) == 0.0
        assert detector.phi(key, last + 99) == 0.0
        assert detector.due(key) == math.inf
        assert not detector.is_suspect(key, last + 99)


def test_a_member_that_begins_anew_has_no_history():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, jittered(4.0))
    detector.forget(KEY)
    detector.heard(KEY, last)
    assert detector.due(KEY) == last + SUSPECT_S


def test_members_are_judged_one_by_one():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, jittered(0.1))
    detector.expect(KEY + 1, last)
    detector.heard(KEY, last + 4)
    assert detector.is_suspect(KEY + 1, last + 6)
    assert not detector.is_suspect(KEY, last + 6)


def test_time_in_which_this_node_slept_is_no_silence_of_others():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, jittered(0.1))
    detector.awoke(last + 100.0, asleep_s=98.0)
    assert detector.silence(KEY, last + 100.0) == pytest.approx(2.0)
    assert not detector.is_suspect(KEY, last + 102.9)
    assert detector.is_suspect(KEY, last + 103.1), "nor does it begin anew"
    detector.awoke(last + 110.0, asleep_s=500.0)
    assert detector.silence(KEY, last + 110.0) == 0


def test_a_clock_that_goes_back_is_taken_as_standing_still():
    detector = Detector(SUSPECT_S, PHI)
    detector.heard(KEY, 10.0)
    detector.heard(KEY, 8.0)
    assert detector.silence(KEY, 9.0) == 0.0
    assert detector.due(KEY) == 15.0


def test_the_longest_interval_that_counts_is_a_few_least_silences():
    detector = Detector(SUSPECT_S, PHI)
    last = beating(detector, [1000.0])
    longest = OUTAGE_FACTOR * SUSPECT_S
    assert longest < detector.due(KEY) - last < 3 * longest
