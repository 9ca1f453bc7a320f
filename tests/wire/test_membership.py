"""What is said about members: golden bytes, limits, nonsense; and the arithmetic of views.

``tests/data/wire/council`` holds one example of each message, in hexadecimal, as test_talk.py says.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tracked import ROOT
from thence.causal.dot import Dot
from thence.errors import WireError
from thence.wire import membership as said
from thence.wire.membership import (
    GONE_MAX,
    PIECE_BYTES_MAX,
    SLOTS_MAX,
    CouncilMessage,
    Gone,
    Head,
    Member,
    Request,
    View,
    decode,
    encode,
)
from thence.wire.talk import MEMBERS_MAX

FOLDER = ROOT / "tests/data/wire/council"
REQUEST = Request("dora", 77, "tcp://10.0.0.4:7000")
VIEW = View(
    3,
    (Member("alice", 1, 0, "tcp://10.0.0.1:7000"), Member("carl", 2, 3, "tcp://10.0.0.3:7000", 9)),
    4,
    (Gone("bob", 1, 1, 12, True), Gone("carl", 1, 2, 5, False, 8)),
)
MESSAGES: dict[str, CouncilMessage] = {
    "beat": said.Beat(3, True, (REQUEST,), ((3, 41),), True, (0,), (3,)),
    "prepare": said.Prepare(3, (2, 0), (3,), ((3, 41),), ((3, 0),)),
    "promise": said.Promise(3, (2, 0), ((3, 41),), (3,), (1, 3), VIEW),
    "refused": said.Refused(3, (2, 0)),
    "accept": said.Accept(2, (2, 0), VIEW),
    "accepted": said.Accepted(2, (2, 0)),
    "installed": said.Installed(VIEW, b"p" * 32),
    "pull": said.Pull(3, 3, 40, 41),
    "relay": said.Relay(3, 3, b"batch"),
    "knock": said.Knock(REQUEST, b"n" * 16, b"p" * 32, 5, 6),
    "challenge": said.Challenge(b"n" * 16),
    "wait": said.Wait(False, "the members agree on it", ("tcp://10.0.0.1:7000",)),
    "piece": said.Piece(5, 6, said.CHUNK, b"data"),
    "pieceack": said.PieceAck(5, 7),
    "withdraw": said.Withdraw(7),
}
HEAD = Head("alice", VIEW, 3, "tagged", True, (Dot("alice", 7),), (Dot("alice", 6),))


def golden(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text(encoding="ascii"))


# ---- golden bytes


def test_there_is_an_example_of_every_message():
    assert {type(each) for each in MESSAGES.values()} == {*get_args(CouncilMessage)}
    assert {path.stem for path in FOLDER.glob("*.hex")} == {*MESSAGES, "head"}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_these_bytes_and_is_read(name: str):
    assert encode("orders", MESSAGES[name]).hex() == golden(name).hex()
    assert decode(golden(name)) == ("orders", MESSAGES[name])


def test_the_head_of_a_state_has_these_bytes_and_is_read():
    assert msgspec.msgpack.encode(HEAD).hex() == golden("head").hex()
    assert msgspec.msgpack.decode(golden("head"), type=Head) == HEAD


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_after_those_we_know_are_ignored(name: str):
    group, fields = msgspec.msgpack.decode(golden(name))
    longer = msgspec.msgpack.encode([group, [*fields, "new", [1]], "more"])
    assert decode(longer) == ("orders", MESSAGES[name])


def test_fields_with_a_default_may_be_left_out():
    assert decode(msgspec.msgpack.encode(["g", [1, 4]])) == ("g", said.Beat(4))
    view = msgspec.msgpack.decode(golden("installed"))[1][1]
    assert decode(msgspec.msgpack.encode(["g", [7, view]])) == ("g", said.Installed(VIEW))


# ---- nonsense


@pytest.mark.parametrize(
    "fields",
    [
        [99, 1],
        [1],
        [1, -1],
        [1, 1 << 63],
        [1, "1"],
        [1, 1, True, [["j", 1]] * (MEMBERS_MAX + 1)],
        [1, 1, True, [["", 1]]],
        [1, 1, True, [["j" * 129, 1]]],
        [1, 1, True, [["j", 1, "t" * 301]]],
        [1, 1, True, [], [[1 << 16, 0]]],
        [2, 1, [1]],
        [2, 1, [1, 1 << 16]],
        [7, [0, [["a", 1, 0]] * (MEMBERS_MAX + 1), 1]],
        [7, [0, [["a", 1, 0]], SLOTS_MAX + 1]],
        [7, [0, [["a", 1, 0]], 1, [["b", 1, 0, 0, True]] * (GONE_MAX + 1)]],
        [7, [0, [["a", 1, 0]], 1], b"p" * 65],
        [8, 1, 1, 1, 1 << 40],
        [10, ["j", 1], b"n" * 65],
        [12, True, "s" * 501],
        [12, True, "s", ["a"] * 9],
        [13, 1, 1, 256, b""],
        [13, 1, 1, 0, b"x" * (PIECE_BYTES_MAX + 1)],
    ],
)
def test_what_is_beyond_its_limits_is_refused(fields: list[Any]):
    with pytest.raises(WireError, match="say nothing about members"):
        decode(msgspec.msgpack.encode(["g", fields]))


@given(st.binary(max_size=80))
def test_any_bytes_give_a_message_or_a_wire_error(data: bytes):
    try:
        decode(data)
    except WireError as error:
        assert str(error)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_that_is_cut_off_is_refused(name: str):
    whole = golden(name)
    for at in range(len(whole)):
        with pytest.raises(WireError):
            decode(whole[:at])


def test_deep_nesting_is_refused():
    with pytest.raises(WireError):
        decode(b"\x91" * 100_000)


# ---- views


def first(names: str = "abc") -> View:
    return View.first({name: f"tcp://{name}" for name in names})


def test_the_first_view_is_the_same_in_whatever_order_founders_are_named():
    assert first("cab") == first("abc")
    assert [(each.id, each.slot) for each in first("cab").members] == [("a", 0), ("b", 1), ("c", 2)]


def test_the_next_view_has_the_newcomers_last_in_slots_of_their_own():
    view = first().next({1: (5, True)}, [Request("k", 2), Request("j", 1)])
    assert view.num == 1
    assert [(each.id, each.slot) for each in view.members] == [
        ("a", 0), ("c", 2), ("j", 3), ("k", 4),
    ]  # fmt: skip
    assert view.gone == (Gone("b", 1, 1, 5, True),)
    assert view.slots == 5
    assert not view.fault()


def test_one_who_comes_back_is_another_incarnation():
    view = first().next({1: (5, False)})
    for number in (2, 3):
        view = view.next({}, [Request("b", number)])
        member = view.named("b")
        assert member is not None
        assert member.id == f"b#{number}"
        view = view.next({member.slot: (0, False)})
    assert [each.id for each in view.gone] == ["b#3"]


def test_a_name_that_is_there_is_not_let_in_and_of_two_requests_the_first_is():
    assert first().next({}, [Request("b", 9)]).members == first().members
    assert first().next({1: (0, True)}, [Request("b", 9)]).named("b") is None, "in the view after"
    view = first().next({}, [Request("j", 9), Request("j", 4)])
    assert [each.ticket for each in view.members if each.name == "j"] == [4]


def test_the_latest_former_members_are_remembered_and_nobody_has_an_incarnation_twice():
    view, lives = first("a"), {"a"}
    for at in range(GONE_MAX + 10):
        view = view.next({}, [Request(f"m{at}", at + 1)])
        lives.add(view.members[-1].id)
        view = view.next({view.members[-1].slot: (0, False)})
    assert len(view.gone) == GONE_MAX
    assert view.gone[-1].name == f"m{GONE_MAX + 9}"
    assert view.former("m0") is None
    view = view.next({}, [Request("m0", 5)])
    assert view.members[-1].id not in lives
    assert not view.fault()


def test_a_view_lets_nobody_in_when_there_is_no_room():
    full = View(1, (Member("a", 1, 0),), SLOTS_MAX - 1)
    assert not full.is_full
    full = full.next({}, [Request("j", 1), Request("k", 1)])
    assert [each.name for each in full.members] == ["a", "j"]
    assert full.is_full
    crowd = View(0, tuple(Member(f"m{at}", 1, at) for at in range(MEMBERS_MAX)), MEMBERS_MAX)
    assert crowd.is_full
    assert crowd.next({}, [Request("j", 1)]).members == crowd.members


@pytest.mark.parametrize(
    ("members", "gone"),
    [
        ([("a", 1, 0), ("a", 2, 1)], []),
        ([("a", 1, 0), ("b", 1, 0)], []),
        ([("a", 1, 0)], [("b", 1, 0)]),
        ([("a", 1, 9)], []),
        ([("a", 1, 0)], [("b", 1, 9)]),
        ([("a", 1, 0)], [("a", 1, 1)]),
        ([("a", 0, 0)], []),
        ([("a#2", 1, 0)], []),
        ([("a/b", 1, 0)], []),
        ([("a\n", 1, 0)], []),
        ([("a", (1 << 63) - 1, 0)], []),
    ],
)
def test_a_view_that_cannot_be_says_so(
    members: list[tuple[str, int, int]], gone: list[tuple[str, int, int]]
):
    former = tuple(Gone(*each, 0, True) for each in gone)
    assert View(1, tuple(Member(*each) for each in members), 3, former).fault()


@given(
    st.lists(
        st.tuples(st.sets(st.integers(0, 9), max_size=2), st.sets(st.sampled_from("abcdef"))),
        max_size=6,
    )
)
def test_views_that_follow_each_other_do_not_contradict(
    changes: list[tuple[set[int], set[str]]],
):
    views = [first()]
    for at, (removed, names) in enumerate(changes):
        requests = [Request(name, at + 1) for name in names]
        views.append(views[-1].next(dict.fromkeys(removed, (0, True)), requests))
    for at, view in enumerate(views):
        assert not view.fault()
        assert not any(view.conflict(before) for before in views[: at + 1])


@pytest.mark.parametrize(
    ("other", "sentence"),
    [
        (first("abd"), "another view 0: a, b, d there, a, b, c here"),
        (first("ab"), "2 slots after 3"),
        (first("xyz").next({}), "x is in slot 0, and was not: a, b, c"),
        (View(4, (Member("a", 2, 0),), 3), "a#2 is in slot 0"),
        (View(4, (Member("a", 1, 0, "", 5),), 3), "another start of a is in slot 0"),
    ],
)
def test_a_view_of_another_group_contradicts(other: View, sentence: str):
    assert sentence in other.conflict(first())


def test_founders_may_know_each_other_by_other_addresses():
    assert not first().conflict(View.first(dict.fromkeys("abc", "udp://elsewhere")))


def test_who_is_gone_does_not_come_back_in_its_slot():
    without_b = first().next({1: (0, True)})
    again = View(2, first().members, 3)
    assert "b is in slot 1, and was not: a, c" in again.conflict(without_b)


def test_a_pair_decides_with_its_first_member_and_nobody_decides_for_nobody():
    pair = first("ab")
    assert pair.is_enough([0])
    assert not pair.is_enough([1])
    assert pair.is_enough([1], without=[0])
    assert not pair.is_enough([1], without=[1])
    assert not View(1, (), 2).is_enough([])
    assert not first().is_enough([0, 99]), "slots of nobody do not count"
