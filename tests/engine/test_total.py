"""The engines of one order for all: what a broadcast costs, what is kept, and how crashes end."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.seeds import seeds
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES, make_node
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    NOT_A_MEMBER,
    TOO_FAR_AHEAD,
    WRONG_KIND,
)
from thence.engine.total import ACK_MESSAGES, ACK_ROUNDS, OWN_MESSAGES_MAX
from thence.errors import LimitError, LocalProtocolError
from thence.message import Bundle, Control, Phantom, Stamped, WireMessage
from thence.sim.cluster import Cluster, Watcher
from thence.sim.names import node_names
from thence.sim.order_walk import order_plan, order_walk

TOTAL = ("sequencer", "token", "lamport", "skeen")
each_engine = pytest.mark.parametrize("name", TOTAL)


class Taken(Watcher):
    """What applications took, as (origin, seq), by node."""

    def __init__(self, size: int) -> None:
        self.by_node: list[list[tuple[int, int]]] = [[] for _ in range(size)]
        self.arrivals: Counter[int] = Counter()

    def consumed(self, node: int, tag: object) -> None:
        self.by_node[node].append((tag.origin, tag.seq))  # type: ignore[attr-defined]

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        self.arrivals[node] += 1


def group(name: str, size: int, limit: int = 65_536) -> tuple[Cluster, Taken]:
    taken = Taken(size)
    options = EngineOptions(pending_per_origin_max=limit)
    return Cluster(ENGINES[name], node_names(size), options, [taken]), taken


def cost(
    name: str, size: int, sender: int, count: int, to: list[int] | None = None
) -> Counter[int]:
    """Messages that each member got for ``count`` messages of one sender, each after the other."""
    cluster, taken = group(name, size)
    for _ in range(count):
        cluster.client_broadcast(sender, b"x", to=to)
        cluster.quiesce()
    assert taken.by_node[sender] == [(sender, seq) for seq in range(1, count + 1)]
    return taken.arrivals


# Messages per multicast.


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_the_sequencer_sends_at_most_n_messages_for_each_of_a_few_broadcasts(size: int):
    for sender in range(size):
        expected = size if sender else size - 1
        assert cost("sequencer", size, sender, 10).total() == 10 * expected


def rounds(size: int, count: int) -> int:
    """How often a member that is silent has to say how far it is."""
    return count // max(ACK_MESSAGES, ACK_ROUNDS * size)


@pytest.mark.parametrize("size", [2, 5, 20])
def test_the_sequencer_sends_n_messages_per_broadcast_and_now_and_then_one_of_each_listener(
    size: int,
):
    for sender in (0, size - 1):
        spent = cost("sequencer", size, sender, 1000).total()
        expected = 1000 * (size if sender else size - 1)
        assert expected <= spent <= expected + (size - 1) * rounds(size, 1000)


@pytest.mark.parametrize("size", [2, 5, 20])
def test_the_token_costs_n_less_one_per_broadcast_and_now_and_then_as_much_of_each_listener(
    size: int,
):
    spent = cost("token", size, 0, 1000).total()
    expected = 1000 * (size - 1)
    assert expected <= spent <= expected + (size - 1) ** 2 * rounds(size, 1000)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_lamport_sends_three_messages_to_or_from_each_other_member(size: int):
    for sender in range(size):
        assert cost("lamport", size, sender, 10).total() == 10 * 3 * (size - 1)


@pytest.mark.parametrize("to", [[1], [1, 3], [1, 2, 3, 4]])
def test_skeen_sends_three_messages_per_recipient_and_nothing_to_others(to: list[int]):
    got = cost("skeen", 6, 0, 10, to)
    assert got.total() == 10 * 3 * len(to)
    assert set(got) == {0, *to}


@pytest.mark.parametrize("rare", [0.0, 0.01, 0.5])
def test_skeen_sends_three_messages_per_recipient_and_now_and_then_asks_who_got_little(rare: float):
    """Mixed recipients; b gets nearly all, the others some of it."""
    size, count, recipients = 6, 1000, 0
    rng = random.Random(f"skeen {rare}")
    cluster, taken = group("skeen", size)
    for number in range(count):
        others = rng.sample(range(2, size), rng.randint(1, size - 2))
        to = sorted({1, *others}) if number == 0 or rng.random() < rare else [1]
        recipients += len(to)
        cluster.client_broadcast(0, to=to)
        cluster.quiesce()
    questions = taken.arrivals.total() - 3 * recipients
    assert 0 <= questions <= 2 * (size - 1) * rounds(size, count)


def test_the_token_costs_a_wish_and_itself_once_and_then_rests():
    size = 5
    assert cost("token", size, 0, 10).total() == 10 * (size - 1)
    assert cost("token", size, 3, 10).total() == 10 * (size - 1) + (size - 1) + 1


# What is kept.


@each_engine
@pytest.mark.parametrize("senders", [[0], [1], [0, 1, 2, 3]])
def test_what_is_kept_does_not_grow_with_the_messages(name: str, senders: list[int]):
    cluster, taken = group(name, 4)
    most = [0, 0]
    for count in range(1200):
        cluster.client_broadcast(senders[count % len(senders)])
        cluster.quiesce()
        most[count >= 600] = max(most[count >= 600], *(node.words() for node in cluster.engines))
    assert most[1] <= most[0]
    assert all(len(sequence) == 1200 for sequence in taken.by_node)
    assert taken.by_node == [taken.by_node[0]] * 4


def test_skeen_asks_those_who_have_nothing_to_say_and_forgets():
    """e gets one message and no more; d gets all others.  What d keeps is bounded all the same."""
    cluster, _ = group("skeen", 3)
    cluster.client_broadcast(0, to=[1, 2])
    most = [0, 0]
    for count in range(800):
        cluster.client_broadcast(0, to=[1])
        cluster.quiesce()
        most[count >= 400] = max(most[count >= 400], *(node.words() for node in cluster.engines))
    assert most[1] <= most[0]


@each_engine
def test_an_application_that_runs_ahead_of_the_order_is_refused(name: str):
    client, engine = make_node("abc", "b", name)
    out = Effects()
    for _ in range(OWN_MESSAGES_MAX):
        engine.broadcast(client.broadcast(b""), out)
        out.clear()
    with pytest.raises(LimitError, match="wait for their place"):
        client.broadcast(b"")


@each_engine
def test_a_backlog_goes_out_as_the_others_take_it(name: str):
    """The window opens again: also for one who sends everything before anything comes back."""
    cluster, taken = group(name, 3, limit=2)
    for sender in (0, 1, 2):
        for _ in range(30):
            cluster.client_broadcast(sender)
    for sender in (2, 1, 0):
        while cluster.middleware_step(sender):
            pass
    cluster.quiesce()
    assert len(taken.by_node[0]) == 90
    assert taken.by_node == [taken.by_node[0]] * 3


# Crashes.


def crash(cluster: Cluster, node: int, keep: tuple[int, ...] = ()) -> None:
    """Those in ``keep`` get what the node sent, the others nothing; all survivors are told."""
    cluster.in_flight[:] = [
        (i, j, m) for i, j, m in cluster.in_flight if j != node and (i != node or j in keep)
    ]


def settle(cluster: Cluster, live: list[int]) -> None:
    while cluster.in_flight:
        i, j, message = cluster.in_flight.pop(0)
        if j in live:
            cluster.network_deliver(i, j, message)
    for node in live:
        while cluster.client_take(node):
            pass


@each_engine
def test_a_message_of_the_crashed_that_one_survivor_has_reaches_all(name: str):
    cluster, taken = group(name, 4)
    cluster.client_broadcast(0, b"last words")
    cluster.middleware_step(0)
    crash(cluster, 0, keep=(2,))
    live = [1, 2, 3]
    for _ in range(len(cluster.in_flight)):
        cluster.network_deliver(*cluster.in_flight.pop(0))
    cluster.in_flight[:] = [flight for flight in cluster.in_flight if flight[1] != 0]
    for node in live:
        cluster.crashed(node, 0)
    settle(cluster, live)
    assert [taken.by_node[node] for node in live] == [[(0, 1)]] * 3


@each_engine
def test_a_message_of_the_crashed_that_no_survivor_has_is_gone_and_holds_up_nobody(name: str):
    cluster, taken = group(name, 3)
    cluster.client_broadcast(0)
    cluster.middleware_step(0)
    crash(cluster, 0)
    for node in (1, 2):
        cluster.client_broadcast(node)
        cluster.middleware_step(node)
        cluster.crashed(node, 0)
    settle(cluster, [1, 2])
    assert sorted(taken.by_node[1]) == [(1, 1), (2, 1)]
    assert taken.by_node[1] == taken.by_node[2]


@each_engine
def test_the_last_survivor_takes_its_own_messages(name: str):
    cluster, taken = group(name, 3)
    for _ in range(3):
        cluster.client_broadcast(2)
        cluster.middleware_step(2)
    cluster.in_flight.clear()
    cluster.crashed(2, 0)
    cluster.crashed(2, 0)  # told twice
    cluster.crashed(2, 1)
    cluster.client_broadcast(2)
    cluster.middleware_step(2)
    settle(cluster, [2])
    assert taken.by_node[2] == [(2, 1), (2, 2), (2, 3), (2, 4)]


def test_a_number_after_a_gap_that_nobody_can_fill_is_given_anew():
    """c has b's message with number 2, and a's with number 1 is lost with a and b."""
    cluster, taken = group("token", 4)
    for node in (0, 1):
        cluster.client_broadcast(node)
        cluster.middleware_step(node)
    while cluster.in_flight:
        i, j, message = cluster.in_flight.pop(0)
        if {i, j} == {0, 1} or (i, j) == (1, 2):
            cluster.network_deliver(i, j, message)
    live = [2, 3]
    for node in live:
        for gone in (0, 1):
            cluster.crashed(node, gone)
        cluster.client_broadcast(node)
        cluster.middleware_step(node)
    settle(cluster, live)
    assert taken.by_node[2] == taken.by_node[3]
    assert sorted(taken.by_node[2]) == [(2, 1), (3, 1)]


def test_a_coordinator_may_take_an_order_to_its_grave():
    """N messages per broadcast do not suffice for more: it delivers before others have it."""
    cluster, taken = group("sequencer", 3)
    for node in (1, 2):
        cluster.client_broadcast(node)
        cluster.middleware_step(node)
        cluster.network_deliver(*cluster.in_flight.pop(0 if node == 1 else -1))
        while cluster.client_take(0):
            pass
    assert taken.by_node[0] == [(1, 1), (2, 1)]
    crash(cluster, 0)
    cluster.crashed(2, 0)
    cluster.crashed(1, 0)
    settle(cluster, [1, 2])
    assert taken.by_node[1] == taken.by_node[2]
    assert sorted(taken.by_node[1]) == [(1, 1), (2, 1)]


def test_with_lamport_what_crashed_nodes_took_is_part_of_the_order_too():
    spec = ENGINES["lamport"]
    for seed in seeds(300):
        orders = order_walk(spec, order_plan(spec, seed, crashes=2))
        assert orders.violations("causal-total", uniform=True) == [], f"seed {seed}"


def test_with_skeen_it_is_not():
    """Survivors give a message another time than its sender, who crashed, had found."""
    spec = ENGINES["skeen"]
    assert any(
        order_walk(spec, order_plan(spec, seed, crashes=2)).violations("total", uniform=True)
        for seed in range(3000)
    )


# Garg 12.3.2 as worded.


def test_garg_12_3_2_a_release_alone_delivers_nothing():
    """c has b's later message released before a's earlier one: it waits for that (the source
    delivers on the notification alone, and c would take b:1 before a:1)."""
    cluster, taken = group("lamport", 3)

    def carry(i: int, j: int) -> None:
        at = next(at for at, flight in enumerate(cluster.in_flight) if flight[:2] == (i, j))
        cluster.network_deliver(*cluster.in_flight.pop(at))
        while cluster.client_take(j):
            pass

    cluster.client_broadcast(0)
    cluster.middleware_step(0)
    for peer in (1, 2):
        carry(0, peer)
    cluster.client_broadcast(1)
    cluster.middleware_step(1)
    for peer in (0, 2):
        carry(1, peer)  # acknowledgement or message
    carry(1, 0)  # a has b's message
    carry(2, 0)  # a has all acknowledgements and releases
    while cluster.client_take(0):
        pass
    assert taken.by_node[0] == [(0, 1)]
    for i, j in ((0, 1), (2, 1), (0, 1)):
        carry(i, j)  # a's answer, c's answer, a's release: b releases its own
    assert taken.by_node[1] == [(0, 1), (1, 1)]
    carry(1, 2)  # b's release at c, where a's is missing
    assert taken.by_node[2] == []
    carry(0, 2)
    assert taken.by_node[2] == [(0, 1), (1, 1)]


# Nonsense.

NONSENSE: list[tuple[int, WireMessage, str]] = [
    (1, Phantom(1, 1, ()), WRONG_KIND),
    (1, Bundle((Stamped(1, 1, (1, 0, 1), b""),)), WRONG_KIND),
    (7, Control(7, 1, (1, 0, 1)), NOT_A_MEMBER),
    (0, Control(0, 1, (1, 0, 1)), NOT_A_MEMBER),
    (1, Control(2, 1, (1, 0, 1)), NOT_A_MEMBER),
    (1, Control(1, 99, (1, 0, 1)), WRONG_KIND),
    (1, Control(1, 2, ()), BAD_CONTEXT),
    (1, Control(1, 2, (1, 0, -1)), BAD_CONTEXT),
    (1, Control(1, 2, (1, 0, 1, 1, 1, 1, 1)), BAD_CONTEXT),
    (1, Control(1, 0, (1, 0)), BAD_CONTEXT),
    (1, Control(1, 0, (1, 0, 3, 2)), BAD_CONTEXT),
    (1, Control(1, 0, (1, 0, 1, 9)), BAD_CONTEXT),
    (1, Stamped(1, 1, (), b""), WRONG_KIND),
    (1, Stamped(1, 1, (1, 0, 77), b""), WRONG_KIND),
    (1, Stamped(9, 1, (1, 0, 1), b""), NOT_A_MEMBER),
]


@each_engine
@pytest.mark.parametrize("at", range(len(NONSENSE)))
def test_nonsense_is_rejected_with_a_reason_and_leaves_no_trace(name: str, at: int):
    peer, message, reason = NONSENSE[at]
    _, engine = make_node("abc", "a", name)
    words, out = engine.words(), Effects()
    engine.receive(peer, message, out)
    assert [(reject.peer, reject.reason) for reject in out.reject] == [(peer, reason)]
    assert [out.send, out.deliver] == [[], []]
    assert engine.words() == words


ONE_KIND = {  # a Control of the right length by engine, for what all check alike
    "sequencer": (2, (1,)),
    "token": (2, (1,)),
    "lamport": (2, (1,)),
    "skeen": (4, (1,)),
}


@each_engine
def test_links_are_counted_from_1_and_bring_each_number_once(name: str):
    kind, numbers = ONE_KIND[name]
    _, engine = make_node("abc", "a", name, EngineOptions(pending_per_origin_max=5))

    def refused(link: int, epoch: int = 0) -> list[tuple[str, bool]]:
        out = Effects()
        engine.receive(1, Control(1, kind, (link, epoch, *numbers)), out)
        return [(reject.reason, reject.retry) for reject in out.reject]

    assert refused(0) == [(BAD_SEQ, False)]
    assert refused(6) == [(TOO_FAR_AHEAD, True)]
    assert refused(5) == []
    assert refused(5) == [(DUPLICATE, False)]
    assert refused(1, epoch=3) == [(BAD_CONTEXT, False)]


UNASKED: list[tuple[str, WireMessage]] = [
    ("sequencer", Control(1, 1, (1, 0, 1, 1, 0, 0))),
    ("sequencer", Stamped(2, 1, (1, 0, 2, 0), b"")),
    ("sequencer", Stamped(1, 5, (1, 0, 2, 0), b"")),
    ("sequencer", Stamped(1, 5, (1, 0, 1, 1, 0), b"")),
    ("sequencer", Stamped(1, 1, (1, 0, 1, 1, 9), b"")),
    ("sequencer", Stamped(1, 1, (1, 0, 1, 10**9, 0), b"")),
    ("token", Control(1, 3, (1, 0, 1))),
    ("token", Control(1, 1, (1, 0, 1, 1, 0))),
    ("lamport", Control(1, 1, (1, 0, 1, 0))),
    ("lamport", Control(1, 2, (1, 0, 1))),
    ("lamport", Stamped(2, 1, (1, 0, 1, 1), b"")),
    ("lamport", Stamped(1, 2, (1, 0, 1, 1), b"")),
    ("lamport", Stamped(1, 1, (1, 0, 1, 0), b"")),
    ("skeen", Control(1, 1, (1, 0, 1, 1, 0, 0))),
    ("skeen", Control(1, 2, (1, 0, 1, 1))),
    ("skeen", Stamped(2, 1, (1, 0, 1, 1, 0), b"")),
    ("skeen", Stamped(1, 1, (1, 0, 1, 1, 1), b"")),
]


@pytest.mark.parametrize(("name", "message"), UNASKED)
def test_what_nobody_asked_for_is_rejected_and_delivers_nothing(name: str, message: WireMessage):
    _, engine = make_node("abc", "a", name)
    out = Effects()
    engine.receive(1, message, out)
    assert len(out.reject) == 1
    assert [out.send, out.deliver] == [[], []]


@each_engine
def test_what_still_comes_from_the_crashed_is_refused(name: str):
    kind, numbers = ONE_KIND[name]
    _, engine = make_node("abc", "a", name)
    out = Effects()
    engine.crashed(1, out)
    engine.receive(1, Control(1, kind, (1, 0, *numbers)), out)
    assert [reject.reason for reject in out.reject] == [NOT_A_MEMBER]
    with pytest.raises(LocalProtocolError, match="no other member"):
        engine.crashed(0, out)


@each_engine
def test_misuse_raises(name: str):
    client, engine = make_node("abc", "a", name)
    out = Effects()
    tag = client.broadcast(b"")
    engine.broadcast(tag, out)
    with pytest.raises(LocalProtocolError, match="not the next message"):
        engine.broadcast(tag, out)
    with pytest.raises(LocalProtocolError, match="no phantoms"):
        engine.announce(Phantom(0, 1, ()), out)
