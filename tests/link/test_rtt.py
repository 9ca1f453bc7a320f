"""RFC 6298, with Karn's rule."""

from __future__ import annotations

import pytest

from thence.link.rtt import RETRANSMIT_S_FIRST, RETRANSMIT_S_MAX, RETRANSMIT_S_MIN, Rtt


def test_before_any_sample_the_time_out_is_the_first_one():
    assert Rtt().timeout_s == RETRANSMIT_S_FIRST


def test_the_first_sample_sets_mean_and_half_of_it_as_variation():
    rtt = Rtt()
    rtt.sample(0.2)
    assert (rtt.smooth_s, rtt.variation_s) == (0.2, 0.1)
    assert rtt.timeout_s == pytest.approx(0.2 + 4 * 0.1)


def test_further_samples_count_an_eighth_and_a_quarter():
    rtt = Rtt()
    rtt.sample(0.2)
    rtt.sample(0.4)
    assert rtt.variation_s == pytest.approx(0.75 * 0.1 + 0.25 * 0.2)
    assert rtt.smooth_s == pytest.approx(0.875 * 0.2 + 0.125 * 0.4)
    assert rtt.smallest_s == 0.2


def test_the_time_out_stays_within_its_bounds():
    near, far = Rtt(), Rtt()
    for _ in range(50):
        near.sample(0.0001)
        far.sample(30.0)
    assert near.timeout_s == RETRANSMIT_S_MIN
    assert far.timeout_s == RETRANSMIT_S_MAX


def test_time_outs_double_up_to_the_largest_and_a_sample_ends_that():
    rtt = Rtt()
    waited = []
    for _ in range(40):
        waited.append(rtt.timeout_s)
        rtt.back_off()
    assert waited[:4] == [0.3, 0.6, 1.2, 2.4]
    assert set(waited[4:]) == {RETRANSMIT_S_MAX}
    rtt.sample(0.01)
    assert rtt.timeout_s == RETRANSMIT_S_MIN


def test_a_clock_that_stands_still_does_no_harm():
    rtt = Rtt()
    rtt.sample(0.0)
    rtt.sample(-1.0)
    assert rtt.timeout_s == RETRANSMIT_S_MIN
