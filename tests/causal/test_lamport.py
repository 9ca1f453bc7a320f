from __future__ import annotations

import pytest
from hypothesis import given

from tests.strategies import Sent, executions
from thence.causal.lamport import LamportClock, Stamp
from thence.errors import LocalProtocolError


def test_a_clock_ticks_from_one() -> None:
    clock = LamportClock(3)
    assert [clock.tick(), clock.tick()] == [Stamp(1, 3), Stamp(2, 3)]


def test_a_receipt_is_later_than_what_it_witnesses_and_than_its_own_past() -> None:
    clock = LamportClock(0, time=4)
    assert clock.witness(Stamp(9, 1)) == Stamp(10, 0)
    assert clock.witness(Stamp(2, 1)) == Stamp(11, 0)


def test_equal_times_are_ordered_by_slot() -> None:
    in_order = [Stamp(1, 0), Stamp(1, 1), Stamp(2, 0)]
    assert sorted([in_order[2], in_order[1], in_order[0]]) == in_order


@given(executions())
def test_stamps_grow_along_happens_before_and_are_unique(sent: list[Sent]) -> None:
    assert len({message.stamp for message in sent}) == len(sent)
    for a in sent:
        for b in sent:
            if a.history.precedes(b.history):
                assert a.stamp < b.stamp


def test_a_negative_time_is_refused() -> None:
    with pytest.raises(LocalProtocolError):
        LamportClock(0).witness(Stamp(-1, 1))
