"""Where newcomers knock: who is let in, what they must prove, and states that cannot be had."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from tests.client.companies import MEMBERSHIP, Company, council, elastic_of, guest, heard
from tests.client.fakes import FakeConnection, hub_of, taken, turn
from tests.client.greetings import greeted, hello
from thence.client.elastic import Elastic
from thence.client.handover import WINDOW_PIECES
from thence.client.hub import Hub
from thence.client.reception import GUEST_S, RESUME_S
from thence.client.secret import proof
from thence.wire import membership as said
from thence.wire.membership import Knock, Piece, Request, Wait

J = Request("j", 7, "tcp://127.0.0.1:1")
SECRET = b"open sesame"


def alone(**more: Any) -> tuple[Elastic, Hub]:
    """A group of one, so that nobody else is to be asked."""
    driver = elastic_of("a", "a", **more)
    return driver, hub_of("a", driver)


def answer(hub: Hub, connection: FakeConnection, message: Knock, now: float = 0.0) -> Any:
    """The first thing that is said in return."""
    hub.received(connection, [council(message)], now)
    turn(hub, now)
    found = heard(connection)
    return found[0] if found else None


def answered(
    hub: Hub, name: str = "j", request: Request = J, secret: bytes = SECRET, group: str = "g",
    now: float = 0.0,
) -> Any:  # fmt: skip
    """What a challenge that is answered so leads to."""
    connection = guest(hub, name, now)
    challenge = answer(hub, connection, Knock(request), now)
    assert isinstance(challenge, said.Challenge)
    parts = (group, request.name, str(request.ticket), request.address)
    proved = proof(secret, challenge.nonce, *parts)
    return answer(hub, connection, Knock(request, challenge.nonce, proved), now)


# ---- who is let in


def test_a_newcomer_is_let_in_and_gets_the_state():
    company = Company("ab")
    newcomer = company.knock("j", "a")
    company.go(1.0)
    assert newcomer.is_done
    assert company.members("b") == ["a", "b", "j"]
    assert company.drivers["a"].reception.handed == 1
    assert not company.drivers["a"].reception.guests


def test_one_who_asks_for_another_is_refused():
    _, hub = alone()
    found = answer(hub, guest(hub, "x"), Knock(J))
    assert found == Wait(True, "x asks for j")


@pytest.mark.parametrize("name", ["a#2", "x/y", "x:1", "x\n"])
def test_a_name_that_would_be_taken_for_something_else_is_refused(name: str):
    driver, hub = alone()
    found = answer(hub, guest(hub, name), Knock(Request(name, 1)))
    assert found.is_final
    assert "no name that a node can have" in found.sentence
    assert not driver.council.joins
    assert driver.council.view.num == 0


def test_the_name_of_a_member_is_refused_until_it_is_gone():
    company = Company("ab")
    company.crash("b")
    newcomer = company.knock("b", "a", ticket=9)
    company.go(0.5)
    assert newcomer.waiting_for == "b is a member still: it must leave or be evicted"
    company.go(3.0)
    company.connect("b", "a", company.now)  # the other connection ended with the member's
    company.go(1.5)
    assert newcomer.is_done
    assert company.members("a") == ["a", "b#2"]


def test_of_two_newcomers_with_one_name_one_is_let_in():
    driver, hub = alone()
    driver.reception.snapshot = lambda: [b"c"] * 100
    first, second = guest(hub, "j"), FakeConnection()
    answer(hub, first, Knock(J))
    hub.connected(second, "", 0.0)
    hub.received(second, [hello("j", boot=2)], 0.0)
    found = answer(hub, second, Knock(Request("j", 8)))
    assert found.sentence == "j is a member still: it must leave or be evicted"
    assert [each.ticket for each in driver.council.view.members] == [0, 7]


def test_a_ticket_is_good_for_one_life():
    company = Company("ab")
    company.knock("j", "a")
    company.go(1.0)
    company.enter("j").leave(company.now)
    company.go(1.0)
    assert company.members("a") == ["a", "b"]
    hub = company.hubs["a"]
    found = answer(hub, guest(hub, "j", company.now), Knock(J), company.now)
    assert found == Wait(True, "j was let in and is out again: ask anew")


def test_a_group_that_handed_out_all_slots_takes_nobody():
    driver, hub = alone()
    driver.council.view = replace(driver.council.view, slots=said.SLOTS_MAX)
    found = answer(hub, guest(hub, "j"), Knock(J))
    assert found == Wait(True, "g has room for nobody more")
    driver.council.want(J, 0.0)
    driver.tick(1.0)
    assert driver.council.view.num == 0, "and no view is agreed on for nothing"


def test_newcomers_are_let_in_so_many_per_second():
    driver, hub = alone(membership=replace(MEMBERSHIP, joins_per_s=2))
    sentences = []
    for name in "jklm":
        found = answer(hub, guest(hub, name), Knock(Request(name, 1)))
        sentences.append(getattr(found, "sentence", ""))
    assert sentences[2:] == ["a lets in 2/s at most"] * 2
    assert [*driver.council.joins] == ["k"], "j is in"
    late = answer(hub, guest(hub, "n", 1.0), Knock(Request("n", 1)), 1.0)
    assert "at most" not in getattr(late, "sentence", "")


def test_a_minority_and_one_who_is_out_let_nobody_in():
    driver = elastic_of("b", "abc")
    hub = hub_of("b", driver)
    turn(hub, 1.5)
    driver.council.suspects = frozenset([0, 2])
    found = answer(hub, guest(hub, "j", 1.5), Knock(J), 1.5)
    assert found.sentence == "b is in a minority, and can let nobody in"
    view = driver.council.view
    driver.council.install(view.next({1: (0, True)}))
    found = answer(hub, guest(hub, "k", 1.5), Knock(Request("k", 1)), 1.5)
    assert (found.is_final, found.sentence) == (False, "b is no member any more")
    assert len(found.addresses) == 2, "but says who is"


def test_newcomers_are_told_of_those_who_have_the_state():
    company = Company("ab")
    company.knock("j", "a")
    company.go(1.0)  # it is a member, and does not take part yet
    hub = company.hubs["a"]
    found = answer(hub, guest(hub, "k", company.now), Knock(Request("k", 1)), company.now)
    members = company.drivers["a"].council.view.members
    assert found.addresses == tuple(each.address for each in members if each.name != "j")


def test_who_does_not_knock_any_more_is_forgotten():
    driver, hub = alone()
    driver.reception.snapshot = lambda: [b"c"] * 100
    answer(hub, guest(hub, "j"), Knock(J))
    taken(driver)
    assert driver.reception.is_busy
    for at in range(1, 60):
        turn(hub, at / 10)
    assert GUEST_S < 6
    assert not driver.reception.guests


# ---- the secret


def test_who_knows_the_secret_is_let_in():
    company = Company("ab", secret=SECRET)
    newcomer = company.knock("j", "a", secret=SECRET)
    company.go(1.0)
    assert newcomer.is_done


def test_who_has_another_secret_or_none_is_not_let_in():
    company = Company("ab", secret=SECRET)
    for name, secret in (("j", b"guess"), ("k", None)):
        newcomer = company.knock(name, "a", secret=secret)
        company.go(1.0)
        assert "secret" in newcomer.failed
    assert company.members("a") == ["a", "b"]
    assert not company.drivers["a"].council.joins
    assert not company.drivers["a"].reception.guests


@pytest.mark.parametrize("wrong", [{"secret": b"other"}, {"group": "h"}])
def test_a_wrong_proof_is_challenged_again(wrong: dict[str, Any]):
    _, hub = alone(secret=SECRET)
    assert isinstance(answered(hub, **wrong), said.Challenge)


@pytest.mark.parametrize(
    "other",
    [Request("j", 8, J.address), Request("j", 7, "tcp://evil:1"), Request("k", 7, J.address)],
)
def test_a_proof_that_was_overheard_is_good_for_nobody_else(other: Request):
    driver, hub = alone(secret=SECRET)
    connection = guest(hub)
    connection = guest(hub, "j")
    challenge = answer(hub, connection, Knock(J))
    proved = proof(SECRET, challenge.nonce, "g", "j", "7", J.address)
    thief = guest(hub, other.name, 0.0) if other.name != "j" else connection
    found = answer(hub, thief, Knock(other, challenge.nonce, proved))
    assert isinstance(found, said.Challenge)
    assert not driver.council.joins


def test_a_proof_for_one_member_or_one_life_of_it_is_no_proof_for_another():
    nonces = set()
    for name, born in (("a", 0.0), ("a", 1.0), ("b", 0.0)):
        driver = elastic_of(name, "ab", secret=SECRET, now=born)
        hub = hub_of(name, driver)
        nonces.add(answer(hub, guest(hub, "j", born), Knock(J), born).nonce)
    assert len(nonces) == 3


def test_a_certificate_is_proof_enough():
    driver, hub = alone(secret=SECRET)
    connection = FakeConnection(peer_name="j")
    hub.connected(connection, "", 0.0)
    hub.received(connection, [hello("j")], 0.0)
    connection.said()
    answer(hub, connection, Knock(J))
    assert driver.council.view.named("j") is not None


# ---- states that cannot be had


def raising() -> bytes:
    raise ValueError("the database is away " + "x" * 2000)


def breaking() -> Iterator[bytes]:
    yield b"one"
    raise ValueError("in the middle")


@pytest.mark.parametrize(
    ("snapshot", "sentence"),
    [
        (raising, "the database is away"),
        (breaking, "in the middle"),
        (lambda: 5, "snapshot() gave int, not bytes or chunks of them"),
        (lambda: None, "snapshot() gave NoneType"),
        (lambda: "text", "snapshot() gave str"),
        (lambda: {"a dict": 1}, "snapshot() gave a chunk of str, not bytes"),
        (lambda: [3], "snapshot() gave a chunk of int"),
    ],
)
def test_a_state_that_cannot_be_had_is_told_and_the_node_goes_on(
    snapshot: Callable[[], Any], sentence: str
):
    company = Company("ab")
    reception = company.drivers["a"].reception
    told: list[Exception] = []
    reception.snapshot, reception.on_failed = snapshot, told.append
    newcomer = company.knock("j", "a")
    company.go(1.0)
    assert not newcomer.is_done
    assert sentence in newcomer.waiting_for
    assert told
    assert not company.refusals
    reception.snapshot = lambda: b"here it is"
    company.go(1.5)
    assert list(newcomer.spool.chunks()) == [b"here it is"]


def test_the_state_is_that_of_all_that_was_taken_and_nothing_else():
    """A member hands over between two events: what it has taken, and not what waits."""
    company = Company("ab")
    a, b = company.drivers["a"], company.drivers["b"]
    state: list[bytes] = []
    a.reception.snapshot = lambda: list(state)
    newcomer = company.knock("j", "a")
    company.go(0.5, takes=False)
    b.broadcast(b"one", company.now)
    company.go(0.5, takes=False)
    assert not newcomer.is_done, "the application of a has not reached the view with j"
    while (event := a.take(company.now)) is not None:
        state += [event.payload] if hasattr(event, "payload") else []
    company.go(1.0)
    assert newcomer.is_done
    assert newcomer.head is not None
    reached = {str(dot) for dot in newcomer.head.taken}
    assert [f"b:{at + 1}" for at in range(len(list(newcomer.spool.chunks())))] == sorted(reached)


def test_a_generator_may_copy_the_state_before_its_first_chunk():
    """Its first lines run when the state is asked for, not when the first chunk is sent: before
    that come pieces of the engine, as many as may be on their way."""
    membership = replace(MEMBERSHIP, chunk_bytes=1024)
    company = Company("ab", membership=membership)
    a = company.drivers["a"]
    state = [b"old"]

    def snapshot() -> Iterator[bytes]:
        copy = list(state)
        yield from copy

    a.reception.snapshot = snapshot
    for _ in range(60):
        a.broadcast(bytes(1000), company.now)
    newcomer = company.knock("j", "a")
    while a.view_told.num == 0:  # b takes nothing, so nothing is stable
        company.go(0.05, takes=False)
        taken(a, company.now)
    assert a.reception.is_busy
    state[0] = b"new"
    company.go(2.0)
    assert list(newcomer.spool.chunks()) == [b"old"]


def handing(chunks: int = 1000) -> tuple[Elastic, Hub, FakeConnection, list[Any]]:
    """j is let in, and has the first pieces of its state."""
    driver, hub = alone()
    drawn: list[int] = []

    def snapshot() -> Iterator[bytes]:
        for at in range(chunks):
            drawn.append(at)
            yield b"c"

    driver.reception.snapshot = snapshot
    connection = guest(hub, "j")
    answer(hub, connection, Knock(J))
    taken(driver)
    turn(hub)
    found = heard(connection)
    assert [each.number for each in found if isinstance(each, Piece)] == [*range(WINDOW_PIECES)]
    return driver, hub, connection, drawn


def test_snapshots_of_the_same_moment_have_different_numbers():
    company = Company("abc")
    a = company.drivers["a"]
    a.reception.snapshot = lambda: [b"c"] * 1000
    for name in ("j", "k"):
        company.knock(name, "a", ticket=ord(name))
    company.go(0.1, takes=False)
    while a.take(company.now) is not None:
        pass
    made = [each.handover for each in a.reception.guests.values()]
    assert len({each.number for each in made if each is not None}) == 2


def test_acknowledgements_are_answered_once_a_turn():
    """One of them fits into a few bytes, and what it asks for are megabytes."""
    _, hub, connection, drawn = handing()
    number = heard_snapshot(hub)
    acks = [council(said.PieceAck(number, at)) for at in range(1, WINDOW_PIECES + 1)]
    hub.received(connection, acks, 0.0)
    turn(hub)
    assert len(drawn) <= 2 * WINDOW_PIECES
    assert len(heard(connection)) == WINDOW_PIECES
    hub.received(connection, [council(said.PieceAck(number, 1 << 40))], 0.0)
    assert hub.refused == {"nonsense": 1}


def pieces(hub: Hub, connection: FakeConnection, message: Any, now: float) -> list[int]:
    """The numbers of those that a newcomer is sent for saying this."""
    hub.received(connection, [council(message)], now)
    turn(hub, now)
    return [each.number for each in heard(connection) if isinstance(each, Piece)]


def heard_snapshot(hub: Hub) -> int:
    driver = hub.drivers["g"]
    assert isinstance(driver, Elastic)
    made = driver.reception.guests["j"].handover
    assert made is not None
    return made.number


def test_pieces_on_their_way_are_not_sent_again_for_every_knock():
    """On a slow line they would be most of what travels."""
    _, hub, connection, _ = handing()
    number = heard_snapshot(hub)
    for at in range(1, 6):
        assert not pieces(hub, connection, Knock(J, snapshot=number, piece=at), 0.15 * at)
    assert pieces(hub, connection, said.PieceAck(number, 7), 0.9) == [*range(16, 23)]
    assert not pieces(hub, connection, Knock(J, snapshot=number, piece=9), 1.5)
    again = pieces(hub, connection, Knock(J, snapshot=number, piece=9), 0.9 + RESUME_S)
    assert again == [*range(9, 25)]


def test_knocks_do_not_begin_one_snapshot_after_another():
    _, hub, connection, _ = handing()
    number = heard_snapshot(hub)
    for other in range(1, 50):
        assert not pieces(hub, connection, Knock(J, snapshot=other), 0.5)
    assert heard_snapshot(hub) == number
    assert pieces(hub, connection, Knock(J, snapshot=98), RESUME_S)
    assert heard_snapshot(hub) != number


def test_one_that_heard_nothing_of_its_state_is_sent_it_again():
    """The connection broke when the first pieces were on it."""
    _, hub, connection, _ = handing()
    number = heard_snapshot(hub)
    hub.closed(connection, "broken", 0.1)
    again = guest(hub, "j", 0.2)
    assert not pieces(hub, again, Knock(J), 0.2)
    assert pieces(hub, again, Knock(J), RESUME_S) == [*range(WINDOW_PIECES)]
    assert heard_snapshot(hub) == number


def test_a_knock_costs_the_members_one_beat_and_not_one_each():
    driver, hub = alone_of_two()
    member = greeted(hub, "b")
    turn(hub)
    heard(member)
    connection = guest(hub, "j")
    for at in range(20):
        answer(hub, connection, Knock(J), 0.001 * at)
    assert len([each for each in heard(member) if isinstance(each, said.Beat)]) == 1
    assert driver.council.joins


def alone_of_two() -> tuple[Elastic, Hub]:
    """a, whom b does not answer yet."""
    driver = elastic_of("a", "ab")
    return driver, hub_of("a", driver)


def test_events_are_taken_as_quickly_while_many_wait_at_the_door(monkeypatch: pytest.MonkeyPatch):
    driver, hub = alone_of_two()
    for at in range(40):
        name = f"x{at}"
        hub.received(guest(hub, name), [council(Knock(Request(name, 1)))], float(at))
    looked: list[float] = []
    monkeypatch.setattr(driver.reception, "provide", looked.append)
    for _ in range(100):
        driver.take(40.0)
    assert not looked


def test_a_guest_that_has_the_state_from_another_is_none_any_more():
    driver, _, _, _ = handing()
    assert driver.reception.is_busy
    driver.council.up.add(1)
    driver.tick(0.2)
    assert not driver.reception.guests


def test_nobody_waits_for_a_newcomer_that_gives_up():
    company = Company("abc", membership=replace(MEMBERSHIP, join_s=600.0))
    newcomer = company.knock("j", "b")
    company.drivers["b"].reception.snapshot = raising
    company.go(1.0)
    assert company.members("a") == ["a", "b", "c", "j"]
    company.hubs["j"].withdraw(newcomer)
    company.go(1.0)
    assert company.members("a") == company.members("b") == ["a", "b", "c"]


def test_a_newcomer_that_gives_up_before_it_is_let_in_is_not_let_in():
    driver, hub = alone()
    driver.council.up.clear()  # so it can let nobody in
    connection = guest(hub, "j")
    answer(hub, connection, Knock(J))
    assert [*driver.council.joins] == ["j"]
    hub.received(connection, [council(said.Withdraw(J.ticket))], 0.0)
    assert not driver.council.joins
    assert not driver.reception.guests


def test_only_a_newcomer_itself_can_give_up():
    company = Company("abc", membership=replace(MEMBERSHIP, join_s=600.0))
    newcomer = company.knock("j", "b")
    company.drivers["b"].reception.snapshot = raising
    company.go(0.5)
    for ticket in (newcomer.request.ticket + 1, 0):
        company.drivers["b"].hear("j", said.Withdraw(ticket), company.now, False)
    company.drivers["b"].hear("c", said.Withdraw(0), company.now, False)
    company.go(1.0)
    assert company.members("a") == ["a", "b", "c", "j"]
