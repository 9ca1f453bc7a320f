"""Which of two concurrent operations wins, type by type, and what is left of churn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.crdt.calls import prepared
from tests.crdt.world import VectorStamp
from thence.crdt.base import INTEGER_MAX, Crdt
from thence.crdt.registry import CRDTS
from thence.errors import LocalProtocolError

SET, INC, ADD = "set", "inc", "add"
DUELS: list[tuple[str, list[Any], Any, Any, Any]] = [
    # type, before that, at a (clock 1), at b (clock 2), value
    ("register_counter", [], (SET, b"a"), (SET, b"b"), b"b"),
    ("register_counter", [(SET, b"10")], (INC, 5), (INC, 7), 22),
    ("register_counter", [(SET, b"10")], (INC, 5), (SET, b"3"), 8),
    ("register_counter", [(INC, 10)], (INC, 5), ("del",), 5),
    ("register_counter", [(SET, b"10")], (INC, 5), (SET, b"word"), b"word"),
    ("register_counter", [(SET, 0.1)], (INC, 0.2), (INC, 0.3), 0.6),
    ("set_aw", [(ADD, "x")], (ADD, "x"), ("remove", "x"), {"x"}),
    ("set_aw", [(ADD, "x", "y")], (ADD, "x"), ("clear",), {"x"}),
    ("set_rw", [(ADD, "x", "y")], (ADD, "x"), ("remove", "x"), {"y"}),
    ("set_rw", [(ADD, "x", "y")], (ADD, "x"), ("clear",), {"x"}),
    ("set_g", [], (ADD, "x"), (ADD, "y"), {"x", "y"}),
    ("set_2p", [(ADD, "x")], (ADD, "x"), ("remove", "x"), set()),
    ("map_uw", [("update", "f", "set_aw", (ADD, 1))], ("update", "f", "set_aw", (ADD, 2)),
     ("remove", "f"), {"f": {2}}),
    ("map_uw", [("update", "f", 1, (SET, 3))], ("update", "f", 1, (INC, 1)), ("remove", "f"),
     {"f": 1}),
    ("map_rw", [("update", "f", "set_aw", (ADD, 1))], ("update", "f", "set_aw", (ADD, 2)),
     ("remove", "f"), {}),
    ("map_rw", [("update", "f", "set_aw", (ADD, 1))], ("update", "f", "set_aw", (ADD, 2)),
     ("clear",), {"f": {2}}),
    ("map_uw", [], ("update", "f", "set_aw", (ADD, 1)), ("update", "f", 1, (SET, "v")),
     {"f": "v"}),
    ("zset_uw", [("update", "m", 1, (SET, 4.1))], ("update", "m", 1, (INC, 2.0)), ("remove", "m"),
     {"m": 2.0}),
    ("zset_uw", [], ("update", "m", 1, (SET, float("-inf"))), ("update", "m", 1, (INC, 2)),
     {"m": float("-inf")}),
    ("sequence", [("insert", 0, "[]")], ("insert", 1, "milk"), ("insert", 1, "eggs"),
     "[milkeggs]"),
    ("sequence", [("insert", 0, "abc")], ("delete", 0, 2), ("delete", 1, 2), ""),
    ("sequence", [("insert", 0, "abc")], ("insert", 2, "X"), ("clear",), "X"),
    ("counter_pn", [], (INC, 2), ("dec", 3), -1),
    ("counter_resettable", [(INC, 10)], (INC, 2), ("reset",), 2),
    ("counter_bounded", [(INC, 5)], ("dec", 5), (INC, 1), 1),
    ("counter_ranged", [("raise", 5)], (INC, 5), ("lower", 1), 5),
    ("register_lww", [], (SET, "a"), (SET, "b"), "b"),
    ("register_lww", [(SET, "x")], (SET, None), ("clear",), None),
    ("register_mv", [(SET, "x")], (SET, "b"), (SET, "a"), ["a", "b"]),
    ("register_mv", [], (SET, 1), (SET, True), [True, 1]),
    ("flag_ew", [], ("enable",), ("disable",), True),
    ("flag_dw", [], ("enable",), ("disable",), False),
    ("flag_dw", [], ("enable",), ("clear",), True),
    ("expiry", [("at", 5)], ("at", 7), ("at", 6), 7),
    ("expiry", [("at", 5)], ("at", 7), ("never",), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "before", "at_a", "at_b", "value"),
    DUELS,
    # Not by the value: sets are printed in another order in each process.
    ids=[f"{name}-{at_a}-{at_b}-{at}" for at, (name, _, at_a, at_b, _) in enumerate(DUELS)],
)
def test_of_two_concurrent_operations(name: str, before: Any, at_a: Any, at_b: Any, value: Any):
    replicas = {"a": CRDTS[name](), "b": CRDTS[name]()}
    past: dict[str, int] = {}
    for seq, call in enumerate(before, 1):
        op = prepared(replicas["a"], call, "a")
        for replica in replicas.values():
            replica.effect(op, VectorStamp("a", seq, 0, past))
        past = {"a": seq}
    first = VectorStamp("a", len(before) + 1, 1, past)
    second = VectorStamp("b", 1, 2, past)
    a_op = prepared(replicas["a"], at_a, "a")
    b_op = prepared(replicas["b"], at_b, "b")
    for node, order in (("a", (first, second)), ("b", (second, first))):
        for by in order:
            replicas[node].effect(a_op if by is first else b_op, by)
        assert replicas[node].value() == value


def test_every_type_is_in_a_duel():
    assert {name for name, *_ in DUELS} == set(CRDTS)


def do(one: Crdt, call: Any, by: VectorStamp) -> None:
    one.effect(prepared(one, call, "a"), by)


CHURN: dict[str, tuple[list[Any], list[Any]]] = {
    # type: again and again, and at last
    "register_counter": ([(SET, b"x"), ("del",)], [(SET, b"v")]),
    "set_aw": ([(ADD, 1, 2, 3), ("remove", 1, 2, 3)], [(ADD, 1)]),
    "set_rw": ([(ADD, 1, 2, 3), ("remove", 1, 2, 3)], [(ADD, 1)]),
    "map_uw": (
        [("update", "f", "set_rw", (ADD, 1)), ("update", "f", 1, (SET, 1)), ("remove", "f")],
        [("update", "f", 1, (SET, 1))],
    ),
    "map_rw": (
        [("update", "f", "map_uw", ("update", "g", 1, (SET, 1))), ("remove", "f")],
        [("update", "f", 1, (SET, 1))],
    ),
    "zset_uw": ([("update", "m", 1, (SET, 1)), ("remove", "m")], [("update", "m", 1, (SET, 2))]),
    "sequence": ([("insert", 0, "abc"), ("delete", 0, 3)], [("insert", 0, "z")]),
    "counter_resettable": ([(INC, 5), ("reset",)], [(INC, 1)]),
    "register_lww": ([(SET, 5), ("clear",)], [(SET, 1)]),
    "register_mv": ([(SET, 5), ("clear",)], [(SET, 1)]),
    "flag_ew": ([("enable",), ("disable",)], [("enable",)]),
    "flag_dw": ([("enable",), ("disable",)], [("enable",)]),
    "expiry": ([("at", 5), ("never",)], [("at", 1)]),
}


@pytest.mark.parametrize("name", CHURN)
def test_what_came_and_went_leaves_nothing_once_it_is_stable(name: str):
    churned, fresh = CRDTS[name](), CRDTS[name]()
    again, at_last = CHURN[name]
    seq = 0
    stamps = []
    for call in again * 50 + at_last:
        seq += 1
        by = VectorStamp("a", seq, 0, {})
        do(churned, call, by)
        stamps.append(by)
        if seq % 7 == 0:
            churned.stabilise(dict.fromkeys(stamps))
    for call in at_last:
        seq += 1
        stamps.append(VectorStamp("a", seq, 0, {}))
        do(fresh, call, stamps[-1])
    for one in (churned, fresh):
        one.stabilise(dict.fromkeys(stamps))
    encode = msgspec.msgpack.encode
    assert encode(churned.export()) == encode(fresh.export())


@pytest.mark.parametrize("name", ["counter_bounded", "counter_ranged"])
def test_rights_are_for_those_who_have_them(name: str):
    one: Any = CRDTS[name]()
    call = ("raise", 5) if name == "counter_ranged" else ("inc", 5)
    do(one, call, VectorStamp("a", 1, 0, {}))
    spending = "inc" if name == "counter_ranged" else "dec"
    for who, match in (("", "say which replica"), ("b", "'b' has rights to 0 of the 1")):
        with pytest.raises(LocalProtocolError, match=match):
            one.prepare(spending, 1, me=who)
    giving = "transfer_up" if name == "counter_ranged" else "transfer"
    with pytest.raises(LocalProtocolError, match="to another replica"):
        one.prepare(giving, "a", 1, me="a")
    with pytest.raises(LocalProtocolError, match="rights to 5 of the 6"):
        one.prepare(giving, "b", 6, me="a")
    do(one, (giving, "b", 2), VectorStamp("a", 2, 0, {}))
    one.prepare(spending, 2, me="b")
    one.prepare(spending, 3, me="a")
    with pytest.raises(LocalProtocolError, match="rights to 3 of the 4"):
        one.prepare(spending, 4, me="a")


MERGES: list[tuple[str, Any, Any, Any]] = [
    ("counter_pn", (0, 2), (0, 3), (0, 5)),
    ("counter_pn", (0, 2), (1, 3), (1, 1)),
    ("counter_pn", (0, 2), (1, 2), None),
    ("counter_pn", (0, INTEGER_MAX), (0, 1), None),
    ("counter_resettable", (0, 2), (2,), (2,)),
    ("counter_bounded", (2, "b", 1), (2, "b", 1), None),
    ("counter_ranged", (5, 1), (5, 1), (5, 2)),
    ("register_counter", (1, 2), (1, 3), (1, 5)),
    ("register_counter", (1, 0.1), (1, 0.2), (1, 0.3)),
    ("register_counter", (1, INTEGER_MAX), (1, 1), None),
    ("register_counter", (1, 5), (0, b"v"), (0, b"v")),
    ("register_counter", (0, 5), (1, 1), None),
    ("set_aw", (0, 1), (0, 2, 3), (0, 1, 2, 3)),
    ("set_aw", (0, 1), (2,), (2,)),
    ("set_rw", (1, 1), (2,), None),
    ("set_g", (0, 1), (0, 2), (0, 1, 2)),
    ("set_2p", (1, 1), (0, 1), None),
    ("flag_dw", (1,), (0,), None),
    ("flag_dw", (0,), (1,), (1,)),
    ("flag_ew", (1,), (0,), (0,)),
    ("register_lww", (0, 1), (0, 2), (0, 2)),
    ("register_mv", (0, 1), (1,), (1,)),
    ("expiry", (0, 1), (1,), (1,)),
    ("map_uw", (0, "f", 1, (1, 2)), (0, "f", 1, (1, 3)), (0, "f", 1, (1, 5))),
    ("map_uw", (0, "f", 1, (1, 2)), (0, "g", 1, (1, 3)), None),
    ("map_rw", (0, "f", 2, (0, 1)), (0, "f", 2, (0, 2)), (0, "f", 2, (0, 1, 2))),
    ("map_rw", (0, "f", 2, (0, 1)), (0, "f", 18, (0, 2)), None),
    ("map_rw", (1, "f"), (1, "f"), (1, "f")),
    ("map_rw", (1, "f"), (2,), None),
    ("zset_uw", (0, "m", 1, (1, 2)), (0, "m", 1, (0, 9)), (0, "m", 1, (0, 9))),
    ("sequence", (0, 0, "ab"), (0, 2, "c"), (0, 0, "abc")),
]


@pytest.mark.parametrize(("name", "last", "new", "merged"), MERGES, ids=str)
def test_two_operations_of_one_batch_become_one(name: str, last: Any, new: Any, merged: Any):
    assert CRDTS[name].merge(last, new) == merged


def test_every_type_says_how_operations_merge():
    assert {name for name, *_ in MERGES} == set(CRDTS)


CLOCKS: list[tuple[str, Any, bool]] = [
    ("register_counter", (0, b"v"), True),
    ("register_counter", (1, 5), False),
    ("register_counter", (2,), False),
    ("register_lww", (0, None), True),
    ("register_lww", (1,), False),
    ("map_uw", (0, "f", 10, (0, b"v")), True),
    ("map_rw", (0, "f", 3, (0, "g", 1, (0, b"v"))), True),
    ("map_rw", (0, "f", 3, (0, "g", 1, (1, 5))), False),
    ("map_rw", (1, "f"), False),
    ("zset_uw", (0, "m", 1, (0, 2.5)), True),
    ("zset_uw", (2,), False),
    ("expiry", (0, 5), False),
    ("register_mv", (0, 5), False),
    ("flag_dw", (1,), False),
    ("set_rw", (0, 1), False),
]


@pytest.mark.parametrize(("name", "op", "asks"), CLOCKS, ids=str)
def test_only_what_is_compared_by_clock_asks_for_it(name: str, op: Any, asks: bool):
    assert CRDTS[name].check(op) == ""
    assert CRDTS[name].asks_clock(op) is asks
