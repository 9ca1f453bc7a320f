"""The engines of one order for all where limits differ or are reached: nothing is lost."""

from __future__ import annotations

import itertools
import random

import pytest
from msgspec.structs import replace

from tests.engine.one_node import Node
from tests.engine.test_total import TOTAL, Taken, each_engine
from tests.seeds import seeds
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES
from thence.engine.reject import TOO_FAR_AHEAD, Reject
from thence.message import Directed, Stamped
from thence.sim.cluster import Cluster
from thence.sim.names import node_names
from thence.sim.order_walk import OrderWalk, order_plan

USUAL = 65_536


class Refused(Taken):
    """Also what was refused."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.refused: list[Reject] = []

    def rejected(self, node: int, reject: Reject) -> None:
        self.refused.append(reject)


def differ(cluster: Cluster, limits: list[int]) -> None:
    """Each member has its own limit."""
    names = node_names(len(limits))
    for slot, limit in enumerate(limits):
        options = EngineOptions(pending_per_origin_max=limit)
        made = cluster.spec.make(Members(names), slot, options)
        cluster.clients[slot], cluster.engines[slot] = made


def talk(name: str, limits: list[int], rng: random.Random) -> Refused:
    """Everyone sends 20 messages at once; links bring them in the order of sending."""
    taken = Refused(len(limits))
    cluster = Cluster(ENGINES[name], node_names(len(limits)), watchers=[taken])
    differ(cluster, limits)
    for sender in range(len(limits)):
        for _ in range(20):
            cluster.client_broadcast(sender)
            cluster.middleware_step(sender)
    flights = cluster.in_flight
    for _ in range(20_000):
        if not flights:
            break
        link = rng.choice(flights)[:2]
        at = next(at for at, flight in enumerate(flights) if flight[:2] == link)
        if cluster.network_deliver(*flights[at]):
            flights.pop(at)
        while cluster.client_take(link[1]):
            pass
    assert not flights, f"{len(flights)} messages are refused for ever"
    return taken


@each_engine
@pytest.mark.parametrize("limits", list(itertools.product((1, 3, USUAL), repeat=3)))
def test_members_with_different_limits_take_everything_in_one_order(
    name: str, limits: tuple[int, ...]
):
    taken = talk(name, list(limits), random.Random(7))
    assert len(set(taken.by_node[0])) == 60
    assert taken.by_node == [taken.by_node[0]] * 3
    assert all(each.retry for each in taken.refused)
    # Only what waits for somebody else is put off: senders know what may wait for themselves.
    assert name in ("token", "lamport") or not taken.refused


@pytest.mark.parametrize("name", TOTAL)
def test_members_with_different_limits_agree_after_crashes(name: str):
    spec = ENGINES[name]
    for seed in seeds(100):
        plan = order_plan(spec, seed, crashes=seed % 4)
        walk = OrderWalk(spec, replace(plan, nodes=3 + seed % 3, messages=10 + seed % 40))
        rng = random.Random(seed)
        differ(walk.cluster, [rng.choice((1, 2, 3, USUAL)) for _ in range(3 + seed % 3)])
        orders = walk.go()
        assert orders.violations(spec.guarantee) == [], f"seed {seed}"
        assert orders.missing() + orders.disagreements() == [], f"seed {seed}"


def is_put_off(refused: list[Reject]) -> bool:
    return [(each.reason, each.retry) for each in refused] == [(TOO_FAR_AHEAD, True)]


def test_lamport_puts_off_more_than_may_wait_for_a_release():
    node = Node("lamport", limit=2)
    assert node.message(1, 1, 1, 1) == node.message(1, 2, 1, 2) == []
    assert is_put_off(node.message(1, 3, 1, 3))
    assert node.control(1, 2, 1) == [], "the place on the link is free"
    assert node.message(1, 3, 1, 3) == []
    assert is_put_off(node.message(1, 4, 1, 4))


def test_lamport_puts_off_more_than_may_wait_for_the_release_of_somebody_else():
    node = Node("lamport", limit=2)
    assert node.message(2, 1, 1, 1) == []
    for seq in (1, 2):
        assert node.message(1, seq, 1, seq + 1) == node.control(1, 2, seq) == []
    assert node.delivered == []
    assert is_put_off(node.message(1, 3, 1, 4))
    assert node.control(2, 2, 1) == []
    assert node.delivered == [(2, 1), (1, 1), (1, 2)]
    assert node.message(1, 3, 1, 4) == []


def test_skeen_puts_off_more_than_may_wait_for_their_times():
    node = Node("skeen", limit=2)
    assert node.message(1, 1, 1, 1, 0) == node.message(1, 2, 1, 2, 0) == []
    assert is_put_off(node.message(1, 3, 1, 3, 0))
    assert node.control(1, 2, 1, 2) == [], "the place on the link is free"
    assert node.message(1, 3, 1, 3, 0) == []
    assert is_put_off(node.message(1, 4, 1, 4, 0))


def test_the_coordinator_puts_off_more_than_may_wait_for_a_number():
    node = Node("sequencer", limit=2)
    assert node.message(1, 1, 2, 0) == node.message(1, 2, 2, 0) == node.control(2, 2, 2) == []
    assert node.kinds() == [1, 1], "their numbers"
    assert node.message(1, 3, 2, 0) == node.message(1, 4, 2, 0) == []
    assert node.delivered == [(1, 1), (1, 2)]
    assert node.kinds() == [5], "b is asked, once; c has said what it has"
    assert is_put_off(node.message(1, 5, 2, 0))
    assert node.message(2, 1, 2, 2) == [], "it is not for c to wait"
    assert node.control(1, 2, 2) == [], "the place on the link is free"
    assert node.delivered == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert node.message(1, 5, 2, 2) == []


def test_a_coordinator_that_lacks_a_part_of_the_list_asks_nobody():
    node = Node("sequencer", limit=2, members="abcd")
    node.crashed(1)
    assert node.control(2, 0, 1, 1, 1) == node.control(3, 0, 1, 1, 0) == []
    node.kinds()
    assert node.message(3, 1, 2, 0) == []
    assert node.kinds() == []
    assert node.message(2, 1, 1, 1, 0) == []
    assert node.delivered == [(2, 1), (3, 1)]


def test_what_is_numbered_far_ahead_is_put_off_until_the_numbers_before_it_come():
    node = Node("token", limit=2)
    assert is_put_off(node.message(1, 2, 1, 3, 0))
    assert node.message(1, 1, 1, 2, 0) == []
    assert node.message(2, 1, 1, 1, 0) == []
    assert node.delivered == [(2, 1), (1, 1)]
    assert node.message(1, 2, 1, 3, 0) == []


def test_the_number_of_an_own_message_is_put_off_likewise():
    node = Node("sequencer", limit=2, members="bac")
    node.broadcast()
    assert is_put_off(node.control(0, 1, 3, 1, 0, 0))
    assert node.control(0, 1, 1, 1, 0, 0) == []
    assert node.delivered == [(1, 1)]


def test_who_is_asked_answers_when_it_has_the_list_up_to_there():
    node = Node("token")
    assert node.message(1, 1, 1, 2, 0) == node.control(1, 5, 2) == []
    assert node.sent == []
    assert node.message(2, 1, 1, 1, 0) == []
    assert [each.stamp for each in node.sent] == [(1, 0, 2)]


def test_who_asked_and_crashed_gets_no_answer():
    node = Node("token")
    assert node.control(1, 5, 1) == []
    node.crashed(1)
    assert node.control(2, 0, 1, 1, 0) == []
    node.kinds()
    assert node.message(2, 1, 1, 1, 0) == []
    assert (node.delivered, node.sent) == ([(2, 1)], [])


@pytest.mark.parametrize(("limit", "room"), [(USUAL, 4), (4, USUAL)])
@pytest.mark.parametrize(
    ("name", "answer", "sent"),
    [("lamport", (1,), 5), ("skeen", (1, 2, 0), 4), ("sequencer", (1, 1, 0), 5)],
)
def test_one_message_goes_out_until_it_is_known_how_many_may_wait(
    name: str, answer: tuple[int, ...], sent: int, limit: int, room: int
):
    """Then as many as both limits allow; skeen does not know yet that the first one is taken."""
    node = Node(name, limit, members="bac")
    for _ in range(9):
        node.broadcast()
    assert len(node.sent) == 1, "nobody is asked either"
    for peer in (0,) if name == "sequencer" else (0, 2):
        assert node.control(peer, 1, *answer, room) == []
    assert len({each.seq for each in node.sent if isinstance(each, Stamped)}) == sent


def test_without_a_limit_of_its_own_a_member_says_so_in_a_byte():
    node = Node("lamport")
    node.message(1, 1, 1, 1)
    assert [each.stamp[2:] for each in node.sent] == [(1, 0)]
    node = Node("lamport", limit=7)
    node.message(1, 1, 1, 1)
    assert [each.stamp[2:] for each in node.sent] == [(1, 7)]


@pytest.mark.parametrize("engine", ["sequencer", "token", "lamport", "skeen"])
def test_own_messages_that_wait_for_their_turn_are_counted(engine: str):
    members = Members(["a", "b", "c"])
    client, node = ENGINES[engine].make(members, 1, EngineOptions(stability=False))
    out = Effects()
    for _ in range(5):
        node.broadcast(client.broadcast(bytes(100)), out)
    sent = sum(isinstance(_message(each), Stamped) for each in out.send)
    assert sent < 5
    assert node.unsent == (5 - sent, 100 * (5 - sent))


def _message(each: object) -> object:
    return each.message if isinstance(each, Directed) else each
