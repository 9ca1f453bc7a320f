"""``compressed`` and ``compressed-broadcast``: what travels, what links must do, and nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.seeds import seeds
from thence.causal.dot import SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.compressed import SPEC
from thence.engine.compressed_broadcast import SPEC as BROADCAST
from thence.engine.effects import Effects
from thence.engine.matrix import SPEC as MATRIX
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    DUPLICATE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Waiting,
)
from thence.errors import LocalProtocolError
from thence.message import Control, Phantom, Stamped, WireMessage
from thence.sim.cluster import Cluster, Watcher
from thence.sim.order_walk import order_plan, order_walk

A, B, C = range(3)
NUMBERS = st.lists(st.integers(0, 9), max_size=6).map(tuple)
each_spec = pytest.mark.parametrize("spec", [SPEC, BROADCAST], ids=lambda spec: spec.name)
Node = tuple[Any, Any, Effects]


def node(slot: int, spec: EngineSpec = SPEC, **options: int) -> Node:
    return *spec.make(Members("abc"), slot, EngineOptions(**options)), Effects()


def send(sender: Node, *to: int) -> dict[int, Stamped]:
    """What each of the others gets."""
    client, engine, out = sender
    out.clear()
    engine.broadcast(client.broadcast(b"", to) if to else client.broadcast(b""), out)
    found = {}
    for each in out.send:
        if isinstance(each, Stamped):
            found.update({slot: each for slot in range(3) if slot != each.origin})
        else:
            found.update(dict.fromkeys(each.to, each.message))
    return found


def receive(receiver: Node, message: Stamped) -> list[tuple[int, int]]:
    _, engine, out = receiver
    out.clear()
    engine.receive(message.origin, message, out)
    assert out.reject == []
    return [(tag.origin, tag.seq) for tag in out.deliver]


def reasons(receiver: Node, message: Any) -> list[str]:
    _, engine, out = receiver
    out.clear()
    before = engine.words()
    engine.receive(1, message, out)
    assert (engine.words(), out.deliver) == (before, [])
    return [reject.reason for reject in out.reject]


# ---- what travels --------------------------------------------------------------------------------


def test_while_nothing_else_happens_broadcasts_take_nothing_along():
    a = node(A)
    assert [send(a)[B].stamp for _ in range(3)] == [(), (), ()]


def test_a_peer_is_told_what_changed_since_the_last_message_to_it():
    a, b = node(A), node(B)
    receive(a, send(b)[A])
    assert send(a, C)[C].stamp == (B * 3 + B, 1), "b's broadcast"
    assert send(a, C)[C].stamp == (), "c was told"
    assert send(a)[B].stamp == (A * 3 + C, 2), "b knows its own row; not what c got"


def test_2_4_3_3_what_came_right_after_a_message_is_told_with_the_next():
    # With an own entry that counts what was sent, LS[c] = 1 and LU[b] = 1: not less, as printed.
    a, b = node(A), node(B)
    send(a, C)
    receive(a, send(b)[A])
    assert send(a, C)[C].stamp == (B * 3 + B, 1)


def test_2_4_3_3_broadcasts_tell_what_was_delivered_since_the_last_one():
    a, b, c = (node(slot, BROADCAST) for slot in range(3))
    receive(a, send(b)[A])
    assert send(a)[C].stamp == (B, 1)
    assert send(a)[C].stamp == ()
    receive(a, send(c)[A])
    assert send(a)[C].stamp == (C, 1)


class Numbers(Watcher):
    """How many numbers travel."""

    def __init__(self) -> None:
        self.total = 0

    def wired(self, node: int, message: WireMessage) -> None:
        assert isinstance(message, Stamped)
        self.total += len(message.stamp)


def test_fewer_numbers_travel_than_with_the_whole_matrix_or_vector():
    """One member talks and the others hardly do: where the thesis says that it pays most."""
    size, messages = 16, 20
    found = {}
    for spec in (MATRIX, SPEC, BROADCAST):
        numbers = Numbers()
        cluster = Cluster(spec, [f"n{slot}" for slot in range(size)], watchers=[numbers])
        for number in range(messages):
            cluster.client_broadcast(number % 10 // 9)
            cluster.quiesce()
        found[spec.name] = numbers.total
    assert found["matrix"] == messages * size * size
    assert found["compressed-broadcast"] < messages
    assert found["compressed"] < messages * size


# ---- order ---------------------------------------------------------------------------------------


def test_figure_12_1_a_message_is_not_overtaken_by_a_chain_of_others():
    a, b, c = node(A), node(B), node(C)
    direct = send(a, C)[C]
    assert receive(b, send(a, B)[B]) == [(A, 2)]
    through_b = send(b, C)[C]
    assert receive(c, through_b) == []
    assert c[1].waiting() == [Waiting(pack(B, 1), pack(A, 1))]
    assert receive(c, direct) == [(A, 1), (B, 1)]


def test_a_held_message_says_less_than_it_needs_and_still_waits():
    # b's second message says nothing of a:1: the first did, and that one waits.
    a, b, c = node(A), node(B), node(C)
    direct = send(a)
    receive(b, direct[B])
    assert receive(c, send(b, C)[C]) == []
    second = send(b, C)[C]
    assert second.stamp == ()
    assert receive(c, second) == []
    assert receive(c, direct[C]) == [(A, 1), (B, 1), (B, 2)]


def test_on_links_that_are_not_fifo_messages_come_before_their_causes():
    broken = [
        seed
        for seed in range(300)
        if order_walk(SPEC, replace(order_plan(SPEC, seed), fifo=False)).violations("causal")
    ]
    assert broken


def test_the_broadcast_form_needs_no_fifo_links():
    for seed in seeds(100):
        plan = replace(order_plan(BROADCAST, seed), fifo=False, nodes=4, messages=20)
        orders = order_walk(BROADCAST, plan)
        assert (orders.violations("causal"), orders.missing()) == ([], []), f"seed {seed}"


# ---- nonsense and misuse -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Control(1, 0, ()), WRONG_KIND),
        (Stamped(1, 1, (8,), b""), BAD_CONTEXT),
        (Stamped(1, 1, (8, 1, 6, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (8, 1, 8, 2), b""), BAD_CONTEXT),
        (Stamped(1, 1, (9, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (2, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (3, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (4, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (8, 0), b""), BAD_CONTEXT),
        (Stamped(1, 1, (8, SEQ_MAX + 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (), b"", (2,)), BAD_RECIPIENTS),
    ],
)
def test_nonsense_of_a_peer_is_refused(message: Any, reason: str):
    assert reasons(node(A), message) == [reason]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Control(1, 0, ()), WRONG_KIND),
        (Stamped(1, 1, (2,), b""), BAD_CONTEXT),
        (Stamped(1, 1, (2, 1, 2, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (3, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (1, 1), b""), BAD_CONTEXT),
        (Stamped(1, 1, (2, 0), b""), BAD_CONTEXT),
        (Stamped(1, 1, (0, 1), b""), UNSENT_OWN_DOT),
        (Stamped(1, 1, (), b"", (0,)), BAD_RECIPIENTS),
        (Stamped(1, 9, (), b""), TOO_FAR_AHEAD),
    ],
)
def test_nonsense_about_broadcasts_is_refused(message: Any, reason: str):
    assert reasons(node(A, BROADCAST, pending_per_origin_max=8), message) == [reason]


def test_a_repeated_message_and_one_too_many_are_refused():
    a = node(A, pending_per_origin_max=2)
    for seq in (1, 2):
        assert receive(a, Stamped(1, seq, (8, 1) if seq == 1 else (), b"")) == []
    assert reasons(a, Stamped(1, 2, (), b"")) == [DUPLICATE]
    assert reasons(a, Stamped(1, 3, (), b"")) == [TOO_FAR_AHEAD]
    assert receive(a, Stamped(2, 1, (), b"")) == [(C, 1), (B, 1), (B, 2)]


@each_spec
@given(messages=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), NUMBERS), max_size=20))
def test_no_message_of_a_peer_raises(
    spec: EngineSpec, messages: list[tuple[int, int, tuple[int, ...]]]
):
    _, engine, out = node(A, spec)
    for origin, seq, stamp in messages:
        engine.receive(1, Stamped(origin, seq, stamp, b""), out)
    assert len(engine.waiting()) + len(out.deliver) + len(out.reject) == len(messages)


@each_spec
def test_misuse_by_the_caller_raises(spec: EngineSpec):
    client, engine, out = node(A, spec)
    client.broadcast(b"lost on the way")
    with pytest.raises(LocalProtocolError):
        engine.broadcast(client.broadcast(b""), out)
    with pytest.raises(LocalProtocolError):
        engine.announce(Phantom(0, 1, ()), out)
    assert out.send == []
