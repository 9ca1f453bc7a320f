"""Members: a slot per identity, for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.causal import members as module
from thence.causal.dot import Dot, pack
from thence.causal.members import NAME_CHARS_MAX, MemberId, Members, check_name
from thence.errors import LimitError, LocalProtocolError

names = st.text(
    st.characters(exclude_characters=":#/", exclude_categories=("C", "Z")), min_size=1, max_size=20
)


@given(names, st.integers(1, 1000))
def test_an_identity_that_is_printed_is_read_back(name: str, incarnation: int):
    identity = MemberId(name, incarnation)
    assert MemberId.parse(str(identity)) == identity


def test_the_first_life_needs_no_number():
    assert str(MemberId("b")) == "b"
    assert str(MemberId("b", 2)) == "b#2"
    assert MemberId.parse("b") == MemberId("b", 1)
    assert MemberId("a", 2) < MemberId("b", 1) < MemberId("b", 2)


@pytest.mark.parametrize(
    "text",
    ["", "#2", "b#", "b#0", "b#1", "b#-1", "b#x", "b#2#3", "b#²", "a:b", "a/b", "a\nb", "\0"],
)
def test_what_is_no_identity_is_refused(text: str):
    with pytest.raises(LocalProtocolError):
        MemberId.parse(text)
    with pytest.raises(LocalProtocolError):
        Members([text])


def test_names_have_a_length():
    check_name("x" * NAME_CHARS_MAX)
    check_name("node 1, in Köln")
    with pytest.raises(LocalProtocolError, match=f"1 to {NAME_CHARS_MAX}"):
        check_name("x" * (NAME_CHARS_MAX + 1))


def test_slots_follow_the_order_of_arrival():
    group = Members(["b", "a", MemberId("c", 3)])
    assert [group.slot(name) for name in ("b", "a", "c#3")] == [0, 1, 2]
    assert group.names == ["b", "a", "c#3"]
    assert len(group) == 3
    assert group.mask == 0b111


def test_a_slot_is_never_used_again():
    group = Members(["a", "b", "c"])
    group.remove(1)
    assert len(group) == 2
    assert group.mask == 0b101
    assert group.slot("b") == 1, "of a former member"
    assert group.add("d") == 3
    assert group.mask == 0b1101
    with pytest.raises(LocalProtocolError, match="b has a slot already"):
        group.add("b")
    assert group.add("b#2") == 4, "a new life, a new slot"
    assert group.names == ["a", "b", "c", "d", "b#2"]


def test_names_are_unique():
    with pytest.raises(LocalProtocolError, match="a has a slot already"):
        Members(["a", "a"])
    with pytest.raises(LocalProtocolError, match="b#2"):
        Members(["b#2", MemberId("b", 2)])


def test_only_a_member_can_leave_and_once():
    group = Members(["a", "b"])
    for slot in (2, 99):
        with pytest.raises(LocalProtocolError, match=f"slot {slot} is not a member"):
            group.remove(slot)
    group.remove(0)
    with pytest.raises(LocalProtocolError, match="slot 0"):
        group.remove(0)
    assert group.mask == 0b10


def test_an_unknown_name_is_an_error_that_lists_the_members():
    with pytest.raises(LocalProtocolError, match="'x' is not a member; members are a, b"):
        Members(["a", "b"]).slot("x")
    with pytest.raises(LocalProtocolError, match="members are nobody"):
        Members().slot("x")


def test_dots_go_both_ways():
    group = Members(["a", "b#2"])
    assert group.dot(pack(1, 7)) == Dot("b#2", 7)
    assert group.pack(Dot("b#2", 7)) == pack(1, 7)
    with pytest.raises(LocalProtocolError):
        group.pack(Dot("b", 7))


def test_slots_run_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SLOT_MAX", 2)
    group = Members(["a", "b", "c"])
    with pytest.raises(LimitError, match="3 identities"):
        group.add("d")
    assert group.names == ["a", "b", "c"]
    assert group.mask == 0b111


def test_a_group_that_some_have_left_keeps_their_slots():
    group = Members.former(["a", "b", "c#2"], 0b101)
    assert group.mask == 0b101
    assert len(group) == 2
    assert group.names == ["a", "b", "c#2"]
    assert group.slot("b") == 1
    assert group.add("d") == 3
    assert group.mask == 0b1101
    with pytest.raises(LocalProtocolError, match="slot 1 is not a member"):
        group.remove(1)
    for mask in (0b1000, -1):
        with pytest.raises(LocalProtocolError, match="mask"):
            Members.former(["a", "b", "c"], mask)


def test_a_name_has_a_slot_for_ever():
    group = Members(["a", "b#2"])
    group.remove(0)
    assert group.has("a")
    assert group.has("b#2")
    assert not group.has("b")
