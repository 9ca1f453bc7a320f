"""Faults on purpose: as many as were asked for, and found by whoever receives."""

from __future__ import annotations

import random

import pytest

from thence.errors import UnusableInputError
from thence.link.datagram import kind_of
from thence.link.faults import FaultFilter, Faults
from thence.link.reliable import Link


def data(count: int = 1) -> list[bytes]:
    link = Link(7, 0.0, dialled=False)
    link.outgoing(0.0)
    out: list[bytes] = []
    for number in range(count):
        link.send(b"%d" % number)
        out += link.outgoing(0.0)
    return out


def acknowledgement() -> bytes:
    link = Link(7, 0.0, dialled=False)
    link.outgoing(0.0)
    link.receive(data()[0], 0.0)
    (ack,) = link.outgoing(1.0)
    return ack


def test_without_faults_everything_passes_at_once():
    assert FaultFilter(Faults(), random.Random(1).random).passes(b"x") == [(0.0, b"x")]


def test_as_many_are_dropped_and_doubled_as_were_asked_for():
    faults = FaultFilter(Faults(drop=0.1, duplicate=0.2), random.Random(1).random)
    copies = [len(faults.passes(b"x")) for _ in range(10_000)]
    assert copies.count(0) == faults.dropped == pytest.approx(1000, rel=0.1)
    assert copies.count(2) == pytest.approx(1800, rel=0.1)


def test_an_altered_number_is_found_by_the_checksum():
    faults = FaultFilter(Faults(alter_seq=1.0), random.Random(1).random)
    ((_, changed),) = faults.passes(data()[0])
    assert changed != data()[0]
    link = Link(7, 0.0, dialled=False)
    assert link.receive(changed, 0.0) == []
    assert link.rejected == 1
    assert kind_of(changed) == 0


def test_only_acknowledgements_that_travel_alone_are_held():
    faults = FaultFilter(Faults(ack_delay_s=0.3), random.Random(1).random)
    assert faults.passes(acknowledgement())[0][0] == 0.3
    assert faults.passes(data()[0])[0][0] == 0.0


def test_some_are_held_so_that_others_overtake_them():
    faults = FaultFilter(Faults(reorder=0.5, reorder_s=0.01), random.Random(1).random)
    delays = [faults.passes(b"x")[0][0] for _ in range(1000)]
    assert set(delays) == {0.0, 0.01}


@pytest.mark.parametrize("faults", [Faults(drop=1.1), Faults(alter_seq=-1), Faults(reorder_s=-1)])
def test_impossible_chances_are_refused(faults: Faults):
    with pytest.raises(UnusableInputError):
        FaultFilter(faults, random.Random(1).random)
