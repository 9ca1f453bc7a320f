"""Guests of a hub: how many, what they can make it keep, and what they are when they are let in."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.client.companies import Company, council, elastic_of, founders, guest, heard, newcomer_of
from tests.client.fakes import TIMING, FakeConnection, driver_of, hub_of, turn
from tests.client.greetings import greeted, hello, opening, refusal
from thence.causal.dot import pack
from thence.client.elastic import Elastic
from thence.client.links import CONTACT, GUESTS_MAX
from thence.client.lobby import BACKLOG_BYTES_MAX
from thence.client.reception import GUEST_S
from thence.message import Message
from thence.transport.base import BACKLOG_BYTES_HIGH
from thence.wire import codec, talk
from thence.wire import membership as said
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader
from thence.wire.membership import Knock, Request


def test_a_stranger_is_a_guest_where_somebody_may_join_and_is_not_trusted():
    hub = hub_of("a", elastic_of())
    connection = guest(hub)
    assert hub.by_peer["x"].is_guest
    assert not connection.trusted, "large frames are not taken from it"


def test_a_stranger_is_refused_where_nobody_may_join():
    hub = hub_of("a", driver_of())
    assert refusal(greeted(hub, "x")) == (
        talk.NOT_A_MEMBER,
        "x is no member of a group here (g)",
    )


def test_guests_are_bounded_and_members_come_in_all_the_same():
    hub = hub_of("a", elastic_of())
    connections = [guest(hub, f"x{at}") for at in range(GUESTS_MAX)]
    assert refusal(greeted(hub, "one more"))[0] == talk.NOT_A_MEMBER
    member = greeted(hub, "b")
    assert member.closed is None
    assert member.trusted
    hub.closed(connections[0], "enough", 0.0)
    assert greeted(hub, "one more").closed is None


def test_a_guest_that_is_let_in_is_trusted():
    company = Company("ab")
    company.knock("j", "a")
    company.go(1.0)
    link = company.hubs["a"].by_peer["j"]
    assert not link.is_guest
    assert isinstance(link.connection, FakeConnection)
    assert link.connection.trusted


def test_strangers_that_come_while_this_node_joins_are_bounded():
    hub = hub_of("j")
    hub.newcomers["g"] = newcomer_of()
    for at in range(GUESTS_MAX):
        assert greeted(hub, f"x{at}").closed is None
    assert refusal(greeted(hub, "one more"))[0] == talk.NOT_A_MEMBER
    asked = FakeConnection(dialled=True)
    hub.connected(asked, CONTACT + "tcp://a", 0.0)
    hub.received(asked, [hello("a")], 0.0)
    assert asked.closed is None, "whom it asks is welcome"


def test_whoever_is_asked_is_not_dialled_while_it_is_connected():
    hub = hub_of("j")
    hub.newcomers["g"] = newcomer_of()
    hub.ask("tcp://a", 0.0)
    assert hub.dials(0.0) == [(CONTACT + "tcp://a", "tcp://a")]
    asked = FakeConnection(dialled=True)
    hub.connected(asked, CONTACT + "tcp://a", 0.0)
    hub.received(asked, [hello("a")], 0.0)
    other = greeted(hub, "a")  # it dialled too, and that one is kept
    assert asked.closed is not None
    hub.ask("tcp://a", 0.5)
    assert not hub.dials(100.0)
    assert hub.deadline() == TIMING.heartbeat_s, "nor is it woken up for that"
    hub.closed(other, "enough", 100.0)
    assert not hub.dials(100.0), "not at once"
    assert hub.dials(101.0) == [(CONTACT + "tcp://a", "tcp://a")]


def test_an_evicted_member_is_told_by_one_that_it_does_not_know():
    """All that it knows are gone by then, and nobody else dials it."""
    company = Company("abc")
    company.break_off("a", "c")
    company.break_off("b", "c")
    company.drivers["a"].evict("c", False, company.now)
    company.knock("j", "a")
    company.connect("j", "c", company.now)
    company.go(3.0)
    assert company.members("c") == ["a", "b", "c"], "j is no member that could tell it"
    company.crash("a")
    company.crash("b")
    company.enter("j")
    company.go(1.0)
    assert company.drivers["c"].is_out


def test_a_newcomer_does_not_take_the_place_of_a_member_that_is_connected():
    hub = hub_of("a", elastic_of())
    member = greeted(hub, "b", boot=5)
    second = greeted(hub, "b", boot=6, is_newcomer=True)
    assert refusal(second) == (
        talk.WRONG_NAME, "b is connected already: choose another name, or stop that node"
    )  # fmt: skip
    assert member.closed is None
    assert greeted(hub, "b", boot=5, is_newcomer=True).closed is None, "it is the same start"
    later = greeted(hub, "b", boot=6)
    assert later.closed is None, "the member itself, started again, has a journal"


def test_names_of_guests_are_not_kept():
    hub = hub_of("a", elastic_of())
    for at in range(300):
        hub.closed(guest(hub, f"x{at}"), "enough", 0.0)
    assert not hub.totals
    assert not hub.by_peer
    hub.closed(greeted(hub, "b"), "enough", 0.0)
    assert hub.totals["b"].connections == 1


def test_a_guest_that_does_not_read_is_told_no_more():
    hub = hub_of("a", elastic_of())
    connection = guest(hub)
    connection.backlog_bytes = BACKLOG_BYTES_HIGH + 1
    hub.received(connection, [council(said.Beat(0))], 0.0)
    turn(hub)
    assert not heard(connection)


def test_a_member_is_told_of_views_while_messages_wait_for_it():
    driver = elastic_of()
    hub = hub_of("a", driver)
    connection = greeted(hub)
    connection.said()
    connection.backlog_bytes = BACKLOG_BYTES_HIGH + 1
    turn(hub, 1.0)
    assert heard(connection)
    connection.backlog_bytes = BACKLOG_BYTES_MAX + 1
    turn(hub, 2.0)
    assert not heard(connection)


def test_a_group_is_opened_once_by_a_stranger_too():
    hub = hub_of("a", elastic_of())
    connection = guest(hub)
    hub.received(connection, [opening(members=())] * 2, 0.0)
    assert refusal(connection) == (talk.NONSENSE, "group g is opened twice")


# ---- nonsense


@pytest.mark.parametrize("group", ["g", "h", "static"])
@pytest.mark.parametrize(
    "body", [b"", b"\x00", b"\xff" * 40, b"\x91" * 100_000, b"\x92\xa1g\x92\x63\x01"]
)
def test_nonsense_about_members_ends_the_connection(group: str, body: bytes):
    hub = hub_of("a", elastic_of(), driver_of(group="static"))
    other = greeted(hub, "b")
    connection = guest(hub)
    hub.received(connection, [(talk.COUNCIL, body)], 0.0)
    assert refusal(connection)[0] == talk.NONSENSE
    assert other.closed is None


def test_a_member_of_a_group_that_does_not_change_is_told_that_the_others_does():
    hub = hub_of("a", driver_of())
    connection = greeted(hub, "b")
    hub.received(connection, [council(said.Installed(founders("b")))], 0.0)
    code, sentence = refusal(connection)
    assert code == talk.NONSENSE
    assert sentence == (
        "members of g come and go at b and not at a: let a join it (--join), or start all without "
        "--elastic"
    )


def test_nothing_about_members_is_heard_before_a_greeting():
    hub = hub_of("a", elastic_of())
    connection = FakeConnection()
    hub.connected(connection, "", 0.0)
    hub.received(connection, [council(said.Beat(0))], 0.0)
    assert refusal(connection) == (talk.NONSENSE, "a frame of kind 10 before HELLO")


@pytest.mark.parametrize("group", ["unknown", "static", "x" * 200])
def test_what_is_said_about_groups_without_such_members_is_passed_over(group: str):
    hub = hub_of("a", elastic_of(), driver_of(group="static"))
    connection = greeted(hub, "b")
    hub.received(connection, [council(said.Beat(0), group)], 0.0)
    turn(hub)
    assert connection.closed is None


def test_a_group_goes_on_while_guests_flood_it_with_knocks():
    company = Company("abc")
    a, hub, chance = company.drivers["a"], company.hubs["a"], random.Random(1)
    for at in range(300):
        name = f"x{chance.randrange(100)}"
        connection = guest(hub, name, company.now)
        forged = Request(f"y{at}", chance.getrandbits(60))
        own = Request(name, chance.getrandbits(60) + 1)
        frames = [council(Knock(forged))] * 20 + [council(Knock(own))] * 20
        hub.received(connection, frames, company.now)
        turn(hub, company.now)
        assert len(a.council.joins) <= 100
        assert len(a.reception.guests) <= 100
        if connection in hub.links:
            hub.closed(connection, "gone", company.now)
    company.go(GUEST_S + 2)
    assert not a.reception.guests
    assert not a.council.joins
    tag = company.drivers["b"].broadcast(b"it goes on", company.now)
    company.go(70.0)  # those that were let in have not come for their state: they are out again
    assert company.members("b") == ["a", "b", "c"]
    assert company.drivers["b"].is_stable(tag)


NONSENSE: list[said.CouncilMessage] = [
    said.Piece(1, 0, said.HEAD, b"x"),
    said.Piece((1 << 63) - 1, (1 << 63) - 1, 255, b""),
    said.PieceAck((1 << 63) - 1, (1 << 63) - 1),
    said.Challenge(b""),
    said.Wait(True, "no"),
    said.Pull(0, 1, 9, 3),
    said.Pull(0, 1, 1, (1 << 40) - 1),
    said.Pull(0, 65_535, 1, 2),
    said.Pull((1 << 63) - 1, 1, 1, 2),
    said.Relay(0, 2, b"nobody is frozen"),
    said.Relay(0, 65_535, b""),
    said.Accepted(0, (9, 9)),
    said.Refused(0, ((1 << 63) - 1, 1)),
    said.Promise(0, (1, 1), ((65_535, 9),), (65_535,)),
    said.Beat(0, leaves=((65_535, 1),), sentenced=(65_535, 0), vouched=(65_535,)),
    said.Beat((1 << 63) - 1),
]


@pytest.mark.parametrize("name", ["b", "x"])
@pytest.mark.parametrize("message", NONSENSE, ids=lambda each: type(each).__name__)
def test_what_cannot_be_meant_stops_nobody(name: str, message: Any):
    company = Company("abc")
    hub, b = company.hubs["a"], company.drivers["b"]
    connection = hub.by_peer["b"].connection if name == "b" else guest(hub, "x", company.now)
    hub.received(connection, [council(message)] * 3, company.now)
    company.go(0.5)
    tag = b.broadcast(b"it goes on", company.now)
    company.go(1.0)
    assert company.members("c") == ["a", "b", "c"]
    assert b.is_stable(tag)


def test_nothing_is_kept_of_strangers_that_connected_to_a_newcomer_or_of_former_members():
    hub = hub_of("j")
    hub.newcomers["g"] = newcomer_of("j")
    for at in range(100):
        hub.closed(greeted(hub, f"x{at}"), "gone", 0.0)
    assert not hub.totals
    company = Company("abc")
    company.drivers["b"].leave(company.now)
    company.go(1.0)
    assert {*company.hubs["a"].totals} == {"c"}


# ---- relays


def frozen_at_b() -> tuple[Company, Any]:
    """b waits for two messages of c, by way of a."""
    company = Company("abc")
    company.break_off("b", "c")
    for payload in (b"one", b"two", b"three"):
        company.drivers["c"].broadcast(payload, company.now)
    company.run(company.now)
    b = company.drivers["b"]
    b.hear("a", said.Prepare(0, (1, 0), (2,), ((2, 2),), ((2, 0),)), company.now, False)
    assert b.council.limit == {2: 2}
    return company, b


def batch(*messages: Any) -> bytes:
    return b"".join(codec.join_batch([codec.encode(each) for each in messages]))


def test_relays_are_taken_up_to_the_limit_and_not_beyond():
    company, b = frozen_at_b()
    sent = [Message(2, at, (pack(2, at - 1),) if at > 1 else (), b"m") for at in (1, 2, 3)]
    b.hear("a", said.Relay(0, 2, batch(*sent)), company.now, False)
    assert b.reached(2) == 2


def test_a_relay_of_another_members_messages_or_of_nonsense_is_refused():
    for data in (batch(Message(0, 1, (), b"m")), b"nonsense", b""):
        company, b = frozen_at_b()
        hub = company.hubs["b"]
        connection = hub.by_peer["a"].connection
        hub.received(connection, [council(said.Relay(0, 2, data))], company.now)
        assert isinstance(connection, FakeConnection)
        assert connection.closed is not None
        assert hub.refused == {"nonsense": 1}
        assert b.reached(2) == 0


def test_a_relay_that_the_engine_refuses_counts_as_nothing():
    """Otherwise it would count as being here, and never be asked for again."""
    company, b = frozen_at_b()
    hub = company.hubs["b"]
    connection = hub.by_peer["a"].connection
    bad = said.Relay(0, 2, batch(Message(2, 1, (pack(2, 7),), b"m")))
    hub.received(connection, [council(bad)], company.now)
    assert hub.refused == {"nonsense": 1}
    assert b.exchange.flows[2].have == b.reached(2) == 0
    b.hear("a", said.Relay(0, 2, batch(Message(2, 1, (), b"m"))), company.now, False)
    assert b.reached(2) == 1


def relays(driver: Elastic) -> list[said.Relay]:
    """What it relays in this turn."""
    frames = b"".join(data for _, data in driver.told())
    found = [said.decode(body)[1] for _, body in FrameReader(FRAME_BYTES_MAX).feed(frames)]
    return [each for each in found if isinstance(each, said.Relay)]


def test_a_pull_is_answered_with_what_is_there():
    company, _ = frozen_at_b()
    a = company.drivers["a"]
    a.hear("b", said.Prepare(0, (1, 1), (2,)), company.now, False)
    pulls = {(1, 2): True, (1, 1 << 39): True, (9, 3): False, (7, 9): False}
    for pull, is_answered in pulls.items():
        a.hear("b", said.Pull(0, 2, *pull), company.now, False)
        assert bool(relays(a)) is is_answered


def test_pulls_are_answered_once_a_turn_and_only_of_the_frozen():
    """The answer may be as large as a megabyte, and a thousand questions fit into one read."""
    company, _ = frozen_at_b()
    a = company.drivers["a"]
    for _ in range(1000):
        a.hear("b", said.Pull(0, 2, 1, 2), company.now, False)
    assert relays(a) == [], "nobody is evicted, as far as is known here"
    a.hear("b", said.Prepare(0, (1, 1), (2,)), company.now, False)
    for _ in range(1000):
        a.hear("b", said.Pull(0, 2, 1, 2), company.now, False)
    assert len(relays(a)) == 1
    assert relays(a) == []


def test_who_is_out_has_no_part_in_what_others_agree_on():
    """It does not even know the slots of those who came after it."""
    company = Company("abc")
    hub, a = company.hubs["a"], company.drivers["a"]
    connection = hub.by_peer["b"].connection
    later = founders().next({0: (0, True)}, [Request("j", 3)])
    hub.received(connection, [council(said.Installed(later))], company.now)
    assert a.is_out
    asked = (
        said.Prepare(1, (5, 3), (3,), ((3, 1),), ((3, 1),)), said.Pull(1, 3, 1, 2),
        said.Accept(1, (5, 1), later.next({})), said.Relay(1, 3, b""),
    )  # fmt: skip
    for each in asked:
        hub.received(connection, [council(each)], company.now)
    assert a.council.state().promised == (0, 0)
    assert hub.refused == {}
