"""More packets while they arrive, fewer when some are lost."""

from __future__ import annotations

import pytest

from thence.link.window import DECREASE, PACKETS_FIRST, PACKETS_MIN, PACKETS_MIN_LOST, Window


def test_it_doubles_in_a_round_trip_until_something_is_lost():
    window = Window(256)
    for expected in (20, 40, 80, 160, 256, 256):
        window.acked(window.packets)
        assert window.packets == expected


def test_after_a_loss_it_grows_by_one_in_a_round_trip():
    window = Window(256)
    window.acked(90)
    window.lost()
    assert window.packets == int(100 * DECREASE)
    before = window.packets
    for _ in range(before):
        window.acked(1)
    assert window.packets == pytest.approx(before + 1, abs=1)


def test_losses_leave_enough_to_see_the_next_one():
    window = Window(256)
    for _ in range(50):
        window.lost()
    assert window.packets == PACKETS_MIN_LOST


def test_after_a_time_out_it_starts_again_and_doubles_up_to_where_it_was():
    window = Window(256)
    window.acked(90)
    for _ in range(5):  # several in a row do not forget what the path carried
        window.timed_out()
        assert window.packets == PACKETS_MIN
    while window.packets < int(100 * DECREASE):
        before = window.packets
        window.acked(before)
        assert window.packets == 2 * before or before * 2 > 100 * DECREASE


def test_it_starts_small_and_within_the_largest():
    assert Window(256).packets == PACKETS_FIRST
    assert Window(4).packets == 4
