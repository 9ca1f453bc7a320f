"""Dots: two forms of one name."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.causal.dot import SEQ_BITS, SEQ_MAX, SLOT_MAX, Dot, pack, seq_of, slot_of

slots = st.integers(0, SLOT_MAX)
seqs = st.integers(1, SEQ_MAX)


@given(slots, seqs)
def test_packing_loses_nothing(slot: int, seq: int):
    packed = pack(slot, seq)
    assert (slot_of(packed), seq_of(packed)) == (slot, seq)
    assert 0 < packed < 1 << 62, "a native integer when compiled"


@given(st.lists(st.tuples(slots, seqs)))
def test_packed_dots_sort_by_origin_and_then_by_sequence_number(drawn: list[tuple[int, int]]):
    assert [pack(*each) for each in sorted(drawn)] == sorted(pack(*each) for each in drawn)


def test_the_next_dot_of_an_origin_is_one_more():
    assert pack(3, 7) + 1 == pack(3, 8)
    assert pack(3, SEQ_MAX) + 1 == pack(4, 0), "which is why sequence numbers start at 1"
    assert SEQ_MAX == (1 << SEQ_BITS) - 1


@given(st.text(min_size=1), seqs)
def test_what_is_printed_is_read_back(node: str, seq: int):
    dot = Dot(node, seq)
    assert Dot.parse(str(dot)) == dot


@pytest.mark.parametrize(
    ("text", "dot"),
    [
        ("b:7", Dot("b", 7)),
        ("b#2:7", Dot("b#2", 7)),
        ("b/s:1", Dot("b/s", 1)),
        ("b:1:2", Dot("b:1", 2)),
        ("b:07", Dot("b", 7)),
    ],
)
def test_names_of_all_kinds(text: str, dot: Dot):
    assert Dot.parse(text) == dot


@pytest.mark.parametrize(
    "text", ["", "b", ":", "b:", ":7", "b:0", "b:-1", "b:+1", "b:1.5", "b: 7", "b:x", "b:²", "b:٣"]
)
def test_what_is_not_a_dot_says_so(text: str):
    with pytest.raises(ValueError, match="is not a dot: expected NODE:SEQ"):
        Dot.parse(text)


def test_dots_sort_by_name_and_cannot_be_changed():
    assert sorted([Dot("b", 1), Dot("a", 2), Dot("a", 1)]) == [
        Dot("a", 1),
        Dot("a", 2),
        Dot("b", 1),
    ]
    assert len({Dot("a", 1), Dot("a", 1)}) == 1
    with pytest.raises(AttributeError):
        Dot("a", 1).seq = 2  # type: ignore[misc]


def test_a_dot_travels_as_an_array():
    assert msgspec.json.encode(Dot("b", 7)) == b'["b",7]'
    assert msgspec.json.decode(b'["b",7]', type=Dot) == Dot("b", 7)
