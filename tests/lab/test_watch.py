"""When a group of processes is done."""

from __future__ import annotations

import pytest

from thence.errors import ThenceError
from thence.lab.orders import GroupOrders, NodeOrders
from thence.lab.watch import QUIET_S, STALL_S, Counts, Watch


def orders(phantom_ms: float | None = None, stability: bool = True) -> GroupOrders:
    nodes = [NodeOrders(name=name, send=send, phantom_ms=phantom_ms)
             for name, send in (("a", 2), ("b", 1))]  # fmt: skip
    return GroupOrders(
        group="g", nodes=tuple(nodes), engine="tagged", interval_ms=1.0, seed=1, sample_ms=100.0,
        stability=stability,
    )  # fmt: skip


HALF = {"a": Counts(2, 0, 0), "b": Counts(1, 2, 0)}
DELIVERED = {"a": Counts(2, 1, 1), "b": Counts(1, 2, 3)}
STABLE = {"a": Counts(2, 1, 3), "b": Counts(1, 2, 3)}


def test_it_is_done_when_everything_is_delivered_and_stable():
    watch = Watch(orders(), 0.0)
    assert not watch.look({}, 0.0)
    assert not watch.look({"a": STABLE["a"]}, 0.1)
    assert not watch.look(HALF, 0.2)
    assert not watch.look(DELIVERED, 0.3)
    assert watch.delivered == 3
    assert watch.look(STABLE, 0.4)


def test_without_phantoms_it_is_done_when_no_more_becomes_stable():
    watch = Watch(orders(phantom_ms=0.0), 0.0)
    assert not watch.look(HALF, 2 * QUIET_S), "not everything is delivered"
    assert not watch.look(DELIVERED, 3 * QUIET_S)
    assert not watch.look(DELIVERED, 3.9 * QUIET_S)
    assert watch.look(DELIVERED, 4.1 * QUIET_S)


def test_without_stability_it_is_done_when_everything_is_delivered():
    watch = Watch(orders(stability=False), 0.0)
    assert not watch.look(HALF, 0.0)
    assert watch.look(DELIVERED, 0.0)


def test_quiet_is_longer_where_links_are_slow():
    slow = NodeOrders(name="a", send=2, delay_to={"b": 1000.0}, phantom_ms=0.0)
    given = orders(phantom_ms=0.0)
    given = GroupOrders(
        group="g", nodes=(slow, given.nodes[1]), engine="tagged", interval_ms=1.0, seed=1,
        sample_ms=100.0,
    )  # fmt: skip
    watch = Watch(given, 0.0)
    watch.look(DELIVERED, 0.0)
    assert not watch.look(DELIVERED, 2.9)
    assert watch.look(DELIVERED, 3.1)


def test_counting_on_or_up_and_down_is_no_progress():
    watch = Watch(orders(), 0.0)
    for second in range(int(STALL_S)):
        assert not watch.look({**HALF, "b": Counts(9 + second, second % 2, 0)}, float(second))
    with pytest.raises(ThenceError, match="no progress"):
        watch.look({**HALF, "b": Counts(999, 0, 0)}, STALL_S + 2)


@pytest.mark.parametrize(
    ("counts", "why"),
    [
        ({"a": STABLE["a"]}, "b did not say a word"),
        (HALF, "a sent 2 of 2 messages and took 0 of 1"),
        (DELIVERED, "at a 1 of 3 messages became stable"),
    ],
)
def test_a_group_without_progress_is_given_up(counts: dict[str, Counts], why: str):
    watch = Watch(orders(), 0.0)
    watch.look(counts, 0.0)
    watch.look(counts, STALL_S)
    with pytest.raises(ThenceError, match=f"no progress for {STALL_S:g} s: {why}"):
        watch.look(counts, STALL_S + 0.1)
