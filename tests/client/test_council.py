"""The rules of a council, one by one, with what arrives chosen by hand."""

from __future__ import annotations

from collections.abc import Iterable

from thence.client.council import Council
from thence.wire.membership import (
    Accept,
    Accepted,
    Beat,
    CouncilMessage,
    Installed,
    Member,
    Prepare,
    Promise,
    Pull,
    Refused,
    Request,
    View,
)

J = Request("j", 7)


class Numbers:
    """How far messages are delivered, as a table."""

    def __init__(self, delivered: dict[int, int]) -> None:
        self.delivered = delivered
        self.frozen: list[int] = []
        self.installed: list[tuple[int, int]] = []

    def reached(self, slot: int) -> int:
        return self.delivered.get(slot, 0)

    def freeze(self, slots: Iterable[int]) -> None:
        self.frozen = [*slots]

    def install(self, old: View, new: View) -> None:
        self.installed.append((old.num, new.num))


def first_view(count: int) -> View:
    return View(0, tuple(Member(name, 1, slot) for slot, name in enumerate("abcde"[:count])), count)


def council(slot: int, count: int = 3, **delivered: int) -> Council:
    """In a group of a, b, c ...; ``c=2``: has delivered two messages of c."""
    numbers = Numbers({"abcde".index(name): number for name, number in delivered.items()})
    made = Council(slot, first_view(count), numbers)
    made.up = set(range(count))
    return made


def said(who: Council) -> list[tuple[int, CouncilMessage]]:
    out, who.out = who.out, []
    return out


def suspect(who: Council, *slots: int) -> None:
    who.suspects = who.condemned = frozenset(slots)


# ---- what a coordinator does not do --------------------------------------------------------------


def test_a_proposal_that_its_own_node_refuses_is_made_again_with_a_later_ballot():
    """b's ballot reached only a and c has promised a: nobody but a itself can tell a."""
    a = council(0)
    a.want(J, 0.0)
    a.tick(0.0)
    assert [slot for slot, _ in said(a)] == [1, 2]
    a.receive(1, Prepare(0, (1, 1)), 0.0)
    a.receive(2, Promise(0, (1, 0)), 0.0)
    accepts = [slot for slot, message in said(a) if isinstance(message, Accept)]
    assert accepts == [1, 2], "and nothing to itself"
    a.receive(2, Accepted(0, (1, 0)), 0.0)
    assert a.view.num == 0
    a.tick(1.0)
    assert said(a)[0][1] == Prepare(0, (2, 0))


def test_nobody_leaves_before_somebody_else_has_the_state_and_nothing_happens_meanwhile():
    a = council(0, 1)
    a.want(J, 0.0)
    a.tick(0.0)
    assert a.view.num == 1
    said(a)
    a.leave(0)
    a.tick(1.0)
    assert a.view.num == 1
    assert a.proposal is None
    a.receive(1, Beat(1, is_up=True), 1.0)
    a.tick(2.0)
    assert [each.name for each in a.view.members] == ["j"]


# ---- quorums -------------------------------------------------------------------------------------


def test_a_quorum_is_most_members_or_half_with_the_first():
    assert first_view(3).is_enough([1, 2])
    assert not first_view(3).is_enough([0])
    assert first_view(4).is_enough([0, 3])
    assert not first_view(4).is_enough([1, 2])
    assert first_view(2).is_enough([0])
    assert not first_view(2).is_enough([1])
    assert first_view(1).is_enough([0])
    assert not first_view(0).is_enough([])


def test_without_those_that_are_vouched_to_be_dead_all_others_are_needed():
    """b and c have agreed on a view without a, and c is dead: a alone must not decide."""
    assert first_view(2).is_enough([1], without=[0])
    assert first_view(3).is_enough([2], without=[0, 1])
    assert not first_view(3).is_enough([0], without=[2])
    assert not first_view(5).is_enough([0, 3], without=[1, 2])
    assert first_view(5).is_enough([0, 3, 4], without=[1, 2])
    assert not first_view(2).is_enough([], without=[0, 1])


def test_a_node_does_not_decide_alone_because_one_of_two_others_is_dead():
    a = council(0)
    a.vouched = a.suspects = a.condemned = frozenset([2])
    a.tick(0.0)
    assert a.view.num == 0
    a.receive(1, Installed(first_view(3).next({0: (0, True)})), 0.0)
    assert not a.is_member


# ---- promises ------------------------------------------------------------------------------------


def test_a_ballot_below_a_promise_is_refused():
    c = council(2)
    c.receive(1, Prepare(0, (2, 1)), 0.0)
    assert said(c) == [(1, Promise(0, (2, 1)))]
    c.receive(0, Prepare(0, (1, 0)), 0.0)
    c.receive(0, Accept(0, (1, 0), first_view(3).next({})), 0.0)
    assert said(c) == [(0, Refused(0, (2, 1)))] * 2
    assert c.accepted is None


def test_accepting_a_ballot_promises_it_though_nobody_asked_before():
    """Else what was accepted could be replaced by the value of a lower ballot, and forgotten."""
    c = council(2)
    c.receive(1, Prepare(0, (1, 1)), 0.0)
    later, earlier = first_view(3).next({}), first_view(3).next({}, [J])
    c.receive(0, Accept(0, (2, 0), later), 0.0)
    said(c)
    c.receive(1, Accept(0, (1, 1), earlier), 0.0)
    assert said(c) == [(1, Refused(0, (2, 0)))]
    assert c.accepted == later


def test_a_promise_tells_what_was_accepted():
    c = council(2)
    value = first_view(3).next({}, [J])
    c.receive(0, Accept(0, (1, 0), value), 0.0)
    said(c)
    c.receive(1, Prepare(0, (2, 1)), 0.0)
    assert said(c) == [(1, Promise(0, (2, 1), accepted_in=(1, 0), accepted=value))]


def test_the_value_of_the_highest_ballot_is_taken():
    a = council(0, 5)
    a.want(J, 0.0)
    a.tick(0.0)
    high, low = first_view(5).next({3: (0, False)}), first_view(5).next({4: (0, False)})
    ballot = (1, 0)
    said(a)
    a.receive(1, Promise(0, ballot, accepted_in=(0, 3), accepted=low), 0.0)
    a.receive(2, Promise(0, ballot, accepted_in=(0, 4), accepted=high), 0.0)
    assert said(a)[0] == (1, Accept(0, ballot, high))


def test_answers_to_an_earlier_ballot_do_not_count():
    """c promised the first ballot, and has accepted somebody else's value since."""
    a = council(0)
    a.want(J, 0.0)
    a.tick(0.0)
    a.receive(1, Refused(0, (1, 1)), 0.0)
    a.tick(1.0)
    said(a)
    a.receive(2, Promise(0, (1, 0)), 1.0)
    assert said(a) == []
    a.receive(2, Promise(0, (2, 0)), 1.0)
    assert isinstance(said(a)[0][1], Accept)
    a.receive(2, Accepted(0, (1, 0)), 1.0)
    assert a.view.num == 0
    a.receive(2, Accepted(0, (2, 0)), 1.0)
    assert a.view.num == 1


def test_the_ballot_after_a_refusal_is_above_the_one_it_names():
    a = council(0)
    a.want(J, 0.0)
    a.tick(0.0)
    said(a)
    a.receive(1, Refused(0, (7, 1)), 0.0)
    a.tick(0.0)
    assert said(a)[0] == (1, Prepare(0, (8, 0)))


def test_what_was_promised_survives_a_crash():
    before, after = council(2, b=3), council(2, b=3)
    value = first_view(3).next({})
    before.receive(0, Accept(0, (1, 0), value), 0.0)
    before.receive(1, Prepare(0, (2, 1), (0,), ((0, 4),), ((0, 1),)), 0.0)
    after.resume(before.state())
    assert after.state() == before.state()
    after.receive(0, Accept(0, (1, 0), value), 0.0)
    assert said(after) == [(0, Refused(0, (2, 1)))]
    assert after.frozen == {0}
    assert after.limit == {0: 4}


# ---- the flush -----------------------------------------------------------------------------------


def test_a_cut_is_the_most_that_somebody_has_and_waits_until_all_have_it():
    a = council(0, 4, d=1)
    suspect(a, 3)
    a.tick(0.0)
    assert said(a) == [(slot, Prepare(0, (1, 0), (3,))) for slot in (1, 2)]
    a.receive(1, Promise(0, (1, 0), ((3, 2),), (3,)), 0.0)
    assert said(a) == [], "c may have more"
    a.receive(2, Promise(0, (1, 0), ((3, 1),), (3,)), 0.0)
    again = Prepare(0, (1, 0), (3,), ((3, 2),), ((3, 1),))
    assert said(a) == [(2, again), (1, Pull(0, 3, 2, 2))]
    a.receive(2, Promise(0, (1, 0), ((3, 2),), (3,)), 0.0)
    assert said(a) == [], "a lacks it still"
    numbers: Numbers = a._plane  # type: ignore[assignment]
    numbers.delivered[3] = 2
    a.advanced()
    value = first_view(4).next({3: (2, True)})
    assert said(a) == [(slot, Accept(0, (1, 0), value)) for slot in (1, 2, 3)]


def test_reaching_the_cut_is_told_at_once_and_only_once():
    c = council(2, b=1)
    c.receive(0, Prepare(0, (1, 0), (1,), ((1, 2),), ((1, 0),)), 0.0)
    assert said(c) == [(0, Promise(0, (1, 0), ((1, 1),), (1,))), (0, Pull(0, 1, 2, 2))]
    numbers: Numbers = c._plane  # type: ignore[assignment]
    numbers.delivered[1] = 2
    c.advanced()
    assert said(c) == [(0, Promise(0, (1, 0), ((1, 2),), (1,)))]
    c.advanced()
    assert said(c) == []


def test_nothing_of_an_earlier_ballots_cut_is_taken_under_a_later_one():
    c = council(2)
    c.receive(0, Prepare(0, (1, 0), (1,), ((1, 2),), ((1, 0),)), 0.0)
    assert c.limit == {1: 2}
    c.receive(0, Prepare(0, (2, 0), (1,)), 0.0)
    assert c.limit == {}
    assert c.frozen == {1}, "until the next view"
    c.receive(0, Prepare(0, (2, 0), (1,), ((1, 3),), ((1, 0),)), 0.0)
    c.receive(0, Accept(0, (3, 0), first_view(3).next({})), 0.0)
    assert c.limit == {}


def test_nobody_freezes_itself():
    c = council(2)
    c.receive(0, Prepare(0, (1, 0), (1, 2)), 0.0)
    assert c.frozen == {1}


def test_what_somebody_else_has_frozen_is_unfrozen_before_anybody_is_evicted():
    a = council(0)
    suspect(a, 2)
    a.tick(0.0)
    said(a)
    a.receive(1, Promise(0, (1, 0), ((0, 0), (2, 0)), (0, 2)), 0.0)
    assert said(a)[0][1] == Accept(0, (1, 0), first_view(3).next({}))


# ---- views ---------------------------------------------------------------------------------------


def test_something_of_another_view_is_answered_with_the_view_here():
    c = council(2)
    view = first_view(3).next({1: (0, False)})
    c.receive(0, Installed(view), 0.0)
    c.receive(0, Beat(0), 0.0)
    c.receive(1, Prepare(1, (1, 1)), 0.0)
    assert said(c) == [(0, Installed(view)), (1, Installed(view))]
    c.receive(0, Installed(first_view(3)), 0.0)
    assert c.view == view
    assert said(c) == [(0, Installed(view))]


def test_a_view_ends_freezes_promises_and_proposals():
    c = council(2)
    c.receive(0, Prepare(0, (1, 0), (1,)), 0.0)
    c.receive(0, Installed(first_view(3).next({})), 0.0)
    assert c.frozen == set()
    assert c.state() == Council(2, c.view, Numbers({})).state()


def test_a_former_member_comes_back_only_with_another_ticket():
    a = council(0, 1)
    a.receive(0, Installed(first_view(1).next({}, [J]).next({1: (0, True)})), 0.0)
    a.want(J, 0.0)
    a.tick(0.0)
    assert a.view.num == 2
    a.joins.clear()
    a.want(Request("j", 8), 0.0)
    a.tick(0.0)
    assert [each.id for each in a.view.members] == ["a", "j#2"]


def test_everybody_old_and_new_is_told_of_a_view():
    a = council(0, 2)
    a.want(J, 0.0)
    a.receive(1, Beat(0, leaves=((1, 0),)), 0.0)
    a.tick(0.0)
    assert [slot for slot, message in said(a) if message == Installed(a.view)] == [1, 2]


# ---- who leaves ----------------------------------------------------------------------------------


def test_nobody_leaves_with_the_state_while_others_are_let_in():
    """j is a member and has no state yet; a stays for it, and k has to wait."""
    a = council(0, 1)
    a.want(J, 0.0)
    a.tick(0.0)
    a.leave(0)
    a.want(Request("k", 8), 0.0)
    a.tick(0.0)
    assert [each.name for each in a.view.members] == ["a", "j"]


def test_the_last_do_not_leave_while_somebody_wants_to_join():
    a = council(0, 1)
    a.leave(0)
    a.want(J, 0.0)
    a.tick(0.0)
    assert [each.name for each in a.view.members] == ["a", "j"]


def test_a_group_ends_when_all_leave():
    a = council(0, 1)
    a.leave(0)
    a.tick(0.0)
    assert a.view.members == ()
    a.tick(1.0)
    assert a.view.num == 1


# ---- the coordinator -----------------------------------------------------------------------------


def test_a_minority_proposes_nothing():
    a = council(0)
    a.want(J, 0.0)
    suspect(a, 1, 2)
    a.tick(0.0)
    assert (a.proposal, said(a)) == (None, [])


def test_a_value_that_is_fixed_goes_on_when_somebody_else_is_suspected():
    a = council(0, 4)
    a.want(J, 0.0)
    a.tick(0.0)
    a.receive(1, Promise(0, (1, 0)), 0.0)
    said(a)
    suspect(a, 3)
    a.tick(0.0)
    assert said(a) == []
    a.tick(1.0)
    assert {type(message) for _, message in said(a)} == {Accept}


def test_a_node_that_does_not_coordinate_any_more_gives_its_proposal_up():
    b = council(1)
    suspect(b, 0)
    b.want(J, 0.0)
    b.tick(0.0)
    assert b.proposal is not None
    suspect(b)
    b.tick(0.0)
    assert b.proposal is None


def test_only_the_next_view_is_accepted_and_only_a_later_one_installed():
    c = council(2)
    later = first_view(3).next({}).next({})
    c.receive(0, Accept(0, (1, 0), later), 0.0)
    assert (c.accepted, said(c)) == (None, [])
    c.receive(0, Installed(later), 0.0)
    c.install(first_view(3))
    assert c.view == later
