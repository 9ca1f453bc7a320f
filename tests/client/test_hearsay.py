"""Who is believed that there is a later view; what can be said about views at all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.companies import MEMBERSHIP, council, elastic_of, founders, guest, heard
from tests.client.fakes import FakeConnection, hub_of, turn
from tests.client.greetings import greeted, hello, refusal
from thence.client.elastic import Elastic
from thence.client.hearsay import STRANGERS_MAX, check, is_believed, sign
from thence.client.hub import Hub
from thence.errors import WireError
from thence.wire import membership as said
from thence.wire import talk
from thence.wire.membership import Member, Request, View

SECRET = b"open sesame"
LATER = founders().next({1: (0, True)}, [Request("x", 3)])
"""b is out and x is in."""


def at_a(**more: Any) -> tuple[Elastic, Hub]:
    driver = elastic_of(**more)
    return driver, hub_of("a", driver)


def lose_quorum(driver: Elastic, hub: Hub) -> float:
    """Nobody answers for long; the time then."""
    now = 0.0
    while not driver.council.is_minority:
        now += 0.2
        turn(hub, now)
    return now


def say(hub: Hub, connection: FakeConnection, *messages: Any, now: float = 0.0) -> list[Any]:
    hub.received(connection, [council(each) for each in messages], now)
    turn(hub, now)
    return heard(connection)


# ---- later views


@pytest.mark.parametrize("name", ["x", "y", "old"])
def test_a_stranger_does_not_change_the_view_of_a_group_that_works(name: str):
    driver, hub = at_a()
    connection = guest(hub, name)
    say(hub, connection, said.Installed(LATER))
    assert driver.council.view == founders()
    assert connection.closed is None, "it may be right, and is not heard"


def test_a_member_is_believed():
    driver, hub = at_a()
    say(hub, greeted(hub, "c"), said.Installed(LATER))
    assert driver.council.view == LATER


def test_a_node_that_is_left_without_a_quorum_believes_a_member_of_the_later_view():
    driver, hub = at_a()
    now = lose_quorum(driver, hub)
    say(hub, guest(hub, "y", now), said.Installed(LATER), now=now)
    assert driver.council.view == founders(), "y is not in it, and never was"
    say(hub, guest(hub, "x", now), said.Installed(LATER), now=now)
    assert driver.council.view == LATER


def test_with_a_secret_nobody_is_believed_who_does_not_know_it():
    driver, hub = at_a(secret=SECRET)
    now = lose_quorum(driver, hub)
    connection = guest(hub, "x", now)
    for proof in (b"", b"p" * 32):
        say(hub, connection, said.Installed(LATER, proof), now=now)
    say(hub, connection, sign(said.Installed(LATER), "g", b"another"), now=now)
    say(hub, connection, sign(said.Installed(LATER), "h", SECRET), now=now)
    assert driver.council.view == founders()


def test_with_the_secret_a_stranger_is_believed_at_once():
    driver, hub = at_a(secret=SECRET)
    say(hub, guest(hub, "x"), sign(said.Installed(LATER), "g", SECRET))
    assert driver.council.view == LATER


def test_a_proof_is_for_one_view():
    good = sign(said.Installed(LATER), "g", SECRET)
    assert isinstance(good, said.Installed)
    other = said.Installed(LATER.next({}), good.proof)
    assert is_believed("x", good, "g", SECRET, False, False)
    assert not is_believed("x", other, "g", SECRET, False, False)


def test_a_node_with_a_secret_proves_what_it_says_of_views():
    _, hub = at_a(secret=SECRET)
    (told,) = say(hub, guest(hub), said.Beat(0))
    assert told == sign(said.Installed(founders()), "g", SECRET)


def test_a_certificate_is_believed():
    driver, hub = at_a(secret=SECRET)
    connection = FakeConnection(peer_name="x")
    hub.connected(connection, "", 0.0)
    hub.received(connection, [hello("x")], 0.0)
    say(hub, connection, said.Installed(LATER))
    assert driver.council.view == LATER


# ---- everything else that a stranger may say


@pytest.mark.parametrize(
    "message",
    [
        said.Beat(0, True, (Request("z", 1),), ((0, 0), (1, 0)), True, (1,), (1, 2)),
        said.Beat(7),
        said.Prepare(0, (9, 1), (2,), ((2, 0),)),
        said.Promise(0, (1, 0), (), (), (1, 1), LATER),
        said.Refused(0, (99, 1)),
        said.Accept(0, (9, 1), LATER),
        said.Accepted(0, (1, 0)),
        said.Installed(founders()),
        said.Pull(0, 0, 1, 5),
        said.Relay(0, 2, b"batch"),
        said.Piece(1, 0, said.HEAD, b"x"),
        said.PieceAck(1, 1),
        said.Challenge(b"n"),
        said.Wait(True, "go away"),
    ],
)
def test_what_a_stranger_says_changes_nothing(message: said.CouncilMessage):
    driver, hub = at_a()
    driver.broadcast(b"x", 0.0)
    before = driver.council.state()
    say(hub, guest(hub), message)
    assert driver.council.state() == before
    assert not driver.council.joins
    assert not driver.council.leaves
    assert not driver.council.sentenced | driver.council.vouched
    assert driver.detector.silence(1, 1.0) == 1.0


def test_a_stranger_is_told_the_view_once_in_a_turn_however_much_it_says():
    _, hub = at_a()
    told = say(hub, guest(hub), *[said.Beat(0)] * 500)
    assert told == [said.Installed(founders())]


def test_strangers_that_are_remembered_are_bounded():
    driver, hub = at_a()
    for at in range(5 * STRANGERS_MAX):
        connection = guest(hub, f"x{at}")
        say(hub, connection, said.Beat(1 << 60))
        hub.closed(connection, "enough", 0.0)
    assert len(driver._views) <= STRANGERS_MAX + 3
    assert not hub.totals
    driver.council.install(founders().next({}))
    assert not driver._views


# ---- what cannot be


def view(*members: tuple[str, int, int], num: int = 1, slots: int = 9) -> View:
    return View(num, tuple(Member(*each) for each in members), slots)


ABSURD = {
    "slots twice": view(("a", 1, 0), ("b", 1, 0)),
    "slots that were never handed out": view(("a", 1, 0), ("q", 1, 5), slots=3),
    "another in a slot": view(("q", 1, 0), ("b", 1, 1)),
    "slots taken back": view(("a", 1, 0), slots=1),
    "a name that no node has": view(("a", 1, 0), ("a#2", 1, 3)),
    "another group, far ahead": view(("p", 1, 3), ("q", 1, 0), num=1 << 62),
    "thousands of the same": view(*[("a", 1, at) for at in range(4000)], slots=4000),
}


@pytest.mark.parametrize("name", ABSURD)
@pytest.mark.parametrize("is_member", [True, False])
def test_views_that_cannot_be_end_the_connection_and_nothing_else(name: str, is_member: bool):
    driver, hub = at_a()
    lose_quorum(driver, hub)
    for message in (
        said.Installed(ABSURD[name]),
        said.Accept(0, (9, 1), ABSURD[name]),
        said.Promise(0, (9, 1), (), (), (9, 1), ABSURD[name]),
    ):
        connection = greeted(hub, "b") if is_member else guest(hub)
        hub.received(connection, [council(message)], 0.0)
        code, sentence = refusal(connection)
        assert code == talk.NONSENSE
        assert "a view of another group, or one that cannot be" in sentence
        turn(hub)
    assert driver.council.view == founders()


@pytest.mark.parametrize(
    "message",
    [
        said.Prepare(0, (9, 77)),
        said.Prepare(0, (9, 1), (77,)),
        said.Prepare(0, (9, 1), (2,), ((77, 5),)),
        said.Prepare(0, (9, 1), (2,), ((2, 5),), ((2, 77),)),
    ],
)
def test_a_ballot_about_somebody_who_is_no_member_is_refused(message: said.Prepare):
    with pytest.raises(WireError, match="somebody who is no member"):
        check(message, founders())


def test_a_later_view_without_this_node_puts_it_out_in_order():
    driver, hub = at_a()
    say(hub, greeted(hub, "b"), said.Installed(founders().next({0: (0, True)})))
    assert driver.is_out
    turn(hub, 1.0)


def test_thousands_of_requests_in_a_beat_are_bounded_and_forgotten():
    driver, hub = at_a(membership=MEMBERSHIP)
    joins = tuple(Request(f"n{at}", 1) for at in range(4096))
    connection = greeted(hub, "b")
    say(hub, connection, said.Beat(0, joins=joins))
    assert len(driver.council.joins) <= 1024
    turn(hub, 60.0)
    assert len(driver.council.joins) == 0
