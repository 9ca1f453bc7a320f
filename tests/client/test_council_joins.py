"""Which newcomers a council lets in, and for how long it remembers the others."""

from __future__ import annotations

import pytest

from tests.client.companies import Company
from tests.client.test_council import council
from thence.client.council import REQUEST_S
from thence.wire.membership import Beat, Request

MANY = [Request(name, 1) for name in ("z", "y", "x", "w", "v")]


@pytest.mark.parametrize(
    ("count", "up", "suspects", "room"),
    [
        (1, {0}, (), 1),
        (2, {0, 1}, (), 2),
        (3, {0, 1, 2}, (), 3),
        (3, {0, 1}, (), 1),
        (3, {1, 2}, (), 0),
        (3, {0, 1, 2}, (2,), 1),
        (3, {0}, (), 0),
        (3, set(), (), 0),
    ],
)
def test_so_many_are_let_in_that_those_with_the_state_are_still_a_quorum(
    count: int, up: set[int], suspects: tuple[int, ...], room: int
):
    a = council(0, count)
    a.up, a.suspects = up, frozenset(suspects)
    for request in MANY:
        a.want(request, 0.0)
    assert a._wanted() == MANY[:room], "who came first"
    if room:
        assert a.view.next({}, MANY[:room]).is_enough(up - {*suspects})
        assert not a.view.next({}, MANY[: room + 1]).is_enough(up - {*suspects})


def test_newcomers_that_never_come_for_their_state_do_not_stop_the_group():
    company = Company("abc")
    a = company.drivers["a"]
    for request in MANY:
        a.council.want(request, company.now)
    company.go(1.0)
    assert len(company.members("b")) == 6
    assert not a.council.is_minority
    company.go(61.0)
    assert company.members("b") == ["a", "b", "c"]


def test_the_others_are_let_in_when_those_before_them_have_the_state():
    company = Company("a")
    newcomers = [company.knock(name, "a", ticket=at + 1) for at, name in enumerate("jk")]
    company.go(0.4)
    assert company.members("a") == ["a", "j"]
    company.go(1.0)
    assert [each.is_done for each in newcomers] == [True, False]
    company.enter("j")
    company.go(1.5)
    assert newcomers[1].is_done
    assert company.members("j") == ["a", "j", "k"]


def test_members_do_not_remind_each_other_of_one_who_went_away():
    a, b = council(0, 5), council(1, 5)
    a.want(MANY[0], 0.0)
    a.up = b.up = set()  # nobody can be let in
    now = 0.0
    while now < 3 * REQUEST_S:
        now += 0.5
        b.receive(0, a.beat(), now)
        a.receive(1, b.beat(), now)
        a.up, b.up = set(), set()
        a.tick(now)
        b.tick(now)
    assert not a.joins
    assert not b.joins


def test_only_who_was_asked_tells_the_others():
    a, b = council(0), council(1)
    a.want(MANY[0], 0.0)
    assert a.beat().joins == (MANY[0],)
    b.receive(0, a.beat(), 0.0)
    assert [*b.joins] == ["z"]
    assert b.beat().joins == ()


def test_a_request_with_a_name_that_no_node_has_is_passed_over():
    a = council(0)
    a.receive(1, Beat(0, joins=(Request("a#2", 1), Request("x/y", 1))), 0.0)
    assert not a.joins
