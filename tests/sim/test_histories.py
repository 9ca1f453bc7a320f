"""Explicit histories, on the example of thesis figure 19: small enough to see."""

from __future__ import annotations

from thence.sim.histories import Histories, bits
from thence.sim.names import node_names


def test_maximal_elements_are_in_the_past_of_no_other():
    histories = Histories(["a", "b"])
    a1 = histories.add((0, "", 1), 0)
    b1 = histories.add((1, "", 1), 0)
    a2 = histories.add((0, "", 2), 1 << a1)
    past = 1 << a1 | 1 << b1 | 1 << a2
    assert histories.maximal(past) == [b1, a2]
    assert histories.vector(past) == (2, 1)


def test_messages_of_streams_do_not_count_in_vectors():
    histories = Histories(["a"])
    histories.add((0, "", 1), 0)
    histories.add((0, "s", 1), 0)
    assert histories.vector(0b11) == (1,)
    assert histories.ordered == 0b01
    assert histories.show(1) == "a/s:1"


def test_bits_are_the_members_of_a_set():
    assert list(bits(0b101001)) == [0, 3, 5]


def test_sets_are_shown_in_order_and_cut():
    histories = Histories(["a"])
    for seq in range(1, 12):
        histories.add((0, "", seq), 0)
    assert histories.show_all(0b110) == "{a:2, a:3}"
    assert histories.show_all((1 << 11) - 1).endswith("and 3 more}")


def test_names_sort_as_slots_do():
    for count in (1, 5, 26, 27, 64, 1000, 1024):
        names = node_names(count)
        assert names == sorted(names)
        assert len(set(names)) == count
