"""``synchronous``: how many messages, no deadlock, what its sender knows; crowns; nonsense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.seeds import seeds
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.matrix import SPEC as MATRIX
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    NOT_A_MEMBER,
    WRONG_KIND,
)
from thence.engine.synchronous import CONFIRM, PERMIT, REQUEST, SPEC
from thence.errors import LimitError, LocalProtocolError
from thence.message import Control, Message, Phantom, Stamped, WireMessage
from thence.sim.cluster import Cluster
from thence.sim.order_walk import order_plan, order_walk
from thence.sim.orders import Orders

A, B, C, D = range(4)


def group(spec: EngineSpec = SPEC, size: int = 4) -> tuple[Cluster, Orders, list[str]]:
    """A cluster, what its applications see, and what travels: kind and recipient."""
    names = "abcd"[:size]
    orders = Orders(spec, names)
    travelled: list[str] = []

    def transmit(node: int, message: WireMessage, to: Sequence[int] | None) -> None:
        kinds = {REQUEST: "asks", PERMIT: "permits", CONFIRM: "confirms"}
        kind = kinds[message.kind] if isinstance(message, Control) else "sends"
        for slot in range(size) if to is None else to:
            travelled.append(f"{names[node]} {kind} {names[slot]}")
            cluster.in_flight.append((node, slot, message))

    cluster = Cluster(spec, names, watchers=[orders], transmit=transmit)
    return cluster, orders, travelled


def test_to_a_lower_slot_a_message_and_a_word_travel():
    cluster, orders, travelled = group()
    cluster.client_broadcast(D, to=[B])
    cluster.quiesce()
    assert travelled == ["d sends b", "b confirms d"]
    assert orders.sequences == [[], [0], [], [0]]


def test_a_higher_slot_is_asked_first():
    cluster, _, travelled = group()
    cluster.client_broadcast(A, to=[C])
    cluster.quiesce()
    assert travelled == ["a asks c", "c permits a", "a sends c", "c confirms a"]


@pytest.mark.parametrize(("sender", "to"), [(A, ()), (B, ()), (D, ()), (B, (A, C)), (C, (A, B))])
def test_a_message_takes_at_most_four_messages_for_each_recipient(sender: int, to: tuple[int, ...]):
    cluster, _, travelled = group()
    cluster.client_broadcast(sender, to=to)
    cluster.quiesce()
    recipients = len(to) or 3
    assert 2 * recipients <= len(travelled) <= 4 * recipients


@pytest.mark.parametrize("to", [None, "next", "pairs"])
def test_nodes_that_send_to_each_other_at_once_do_not_deadlock(to: str | None):
    cluster, orders, _ = group()
    for node in range(4):
        recipients = {None: None, "next": [(node + 1) % 4], "pairs": [node ^ 1]}[to]
        for _ in range(5):
            cluster.client_broadcast(node, to=recipients)
    cluster.quiesce()
    assert orders.missing() == []
    assert orders.violations("synchronous") == []


def test_two_that_send_to_each_other_at_once_make_a_crown_under_causal_order():
    for spec, crown in ((MATRIX, True), (SPEC, False)):
        cluster, orders, _ = group(spec, 2)
        cluster.client_broadcast(A)
        cluster.client_broadcast(B)
        cluster.quiesce()
        assert orders.violations("causal") == []
        assert bool(orders.violations("synchronous")) is crown


def test_whoever_gets_its_message_back_too_early_is_found_out():
    cluster, orders, _ = group(size=2)
    tag = cluster.client_broadcast(A)
    orders.ready(A, tag)
    orders.ready(B, tag)
    for node in (A, B):
        orders.consumed(node, tag)
    assert orders.violations("causal-total") == []
    assert orders.violations("synchronous") == ["a got a:1 back before all had it"]


def test_while_a_node_waits_for_permission_it_takes_messages_of_others():
    cluster, orders, _ = group(size=3)
    cluster.client_broadcast(A, to=[C])
    assert cluster.middleware_step(A)
    (request,) = cluster.in_flight
    cluster.in_flight.clear()
    cluster.client_broadcast(B, to=[A])
    cluster.quiesce()
    assert orders.sequences == [[1], [1], []]
    cluster.in_flight.append(request)
    cluster.quiesce()
    assert orders.sequences == [[1, 0], [1], [0]]


def test_a_passive_node_takes_nothing_else():
    cluster, orders, _ = group(size=3)
    cluster.client_broadcast(A, to=[C])
    cluster.middleware_step(A)
    cluster.deliver_in_flight(0)
    permit = cluster.in_flight.pop()
    cluster.client_broadcast(B, to=[C])
    cluster.quiesce()
    assert orders.sequences == [[], [], []]
    assert cluster.waiting(C) == [((B, "", 1), (A, "", 1))]
    cluster.in_flight.append(permit)
    cluster.quiesce()
    assert orders.sequences == [[0], [1], [0, 1]]


def test_larger_groups_under_load():
    for seed in seeds(20):
        plan = order_plan(SPEC, seed)
        orders = order_walk(SPEC, type(plan)(seed=seed, nodes=6, messages=40, some=0.6))
        assert orders.violations("synchronous") == [], f"seed {seed}"
        assert orders.missing() == [], f"seed {seed}"


# ---- nonsense and misuse -------------------------------------------------------------------------


def node(slot: int, **options: int) -> tuple[Any, Any, Effects]:
    return *SPEC.make(Members("abc"), slot, EngineOptions(**options)), Effects()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Message(B, 1, (), b""), WRONG_KIND),
        (Stamped(B, 1, (1,), b""), BAD_CONTEXT),
        (Stamped(B, 1, (), b""), BAD_CONTEXT),
        (Control(A, REQUEST, (1,)), NOT_A_MEMBER),
        (Control(B, REQUEST, ()), BAD_CONTEXT),
        (Control(B, REQUEST, (0,)), BAD_CONTEXT),
        (Control(B, 77, (1,)), WRONG_KIND),
        (Control(B, PERMIT, (1,)), WRONG_KIND),
        (Control(B, CONFIRM, (1,)), WRONG_KIND),
    ],
)
def test_nonsense_of_a_peer_is_refused(message: Any, reason: str):
    _, engine, out = node(C)
    before = engine.words()
    engine.receive(B, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    assert (engine.words(), out.deliver, out.send) == (before, [], [])


def test_a_node_asks_for_one_message_at_a_time():
    _, engine, out = node(C)
    for seq in (1, 1, 2):
        engine.receive(B, Control(B, REQUEST, (seq,)), out)
    assert [reject.reason for reject in out.reject] == [DUPLICATE, BAD_SEQ]


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(0, 3), st.booleans()),
        max_size=30,
    )
)
def test_no_message_of_a_peer_raises(messages: list[tuple[int, int, int, bool]]):
    client, engine, out = node(B)
    engine.broadcast(client.broadcast(b""), out)
    for origin, kind, seq, plain in messages:
        message = Stamped(origin, seq, (), b"") if plain else Control(origin, kind, (seq,))
        engine.receive(origin, message, out)
    assert len(engine.waiting()) <= 3


def test_more_messages_than_may_wait_are_refused_and_the_next_is_fine(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("thence.engine.synchronous.TO_SEND_MAX", 2)
    client, engine, out = node(A)
    for _ in range(2):
        engine.broadcast(client.broadcast(b""), out)
    with pytest.raises(LimitError, match="2 messages wait"):
        engine.broadcast(client.broadcast(b""), out)
    with pytest.raises(LocalProtocolError):
        engine.announce(Phantom(0, 1, ()), out)
    monkeypatch.undo()
    engine.broadcast(client.broadcast(b""), out)


def test_alone_a_node_gets_its_messages_back_at_once():
    client, engine = SPEC.make(Members("a"), 0, EngineOptions())
    out = Effects()
    for _ in range(3):
        engine.broadcast(client.broadcast(b""), out)
    assert [tag.seq for tag in out.deliver] == [1, 2, 3]
    assert out.send == []
