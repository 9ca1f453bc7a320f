"""Every engine of the table through one suite: random interleavings under the oracle, and nonsense
from peers.  What an engine promises is read from its line in the table."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from thence.causal.dot import SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES
from thence.message import Message, Phantom, VectorMessage, WireMessage
from thence.sim.cluster import Cluster
from thence.sim.walk import plan, random_walk

# Those that order and do not tag are in test_orders.py.
each_engine = pytest.mark.parametrize(
    "name", [name for name, spec in ENGINES.items() if not spec.stamped]
)


@each_engine
def test_random_interleavings_with_stability(name: str):
    spec = ENGINES[name]
    for seed in seeds(600):
        random_walk(spec, plan(spec, seed, stability=True))


@each_engine
def test_random_interleavings_without_stability(name: str):
    spec = ENGINES[name]
    for seed in seeds(300):
        random_walk(spec, plan(spec, seed, stability=False))


@each_engine
def test_as_many_vectors_travel_with_a_message_as_the_table_says(name: str):
    client, engine = ENGINES[name].make(Members(["a", "b", "c"]), 0, EngineOptions())
    out = Effects()
    engine.broadcast(client.broadcast(b"x"), out)
    (message,) = out.send
    vectors = (message.vector, message.application) if isinstance(message, VectorMessage) else ()
    assert [len(vector) for vector in vectors if vector] == [3] * ENGINES[name].vectors


NONSENSE: list[WireMessage] = [
    Message(7, 1, (), b""),
    Message(-1, 1, (), b""),
    Message(1, 0, (), b""),
    Message(1, -4, (), b""),
    Message(1, SEQ_MAX + 1, (), b""),
    Message(0, 9, (), b""),
    Message(1, 5, (pack(1, 5),), b""),
    Message(1, 5, (pack(1, 6),), b""),
    Message(1, 5, (pack(2, 1), pack(2, 2)), b""),
    Message(1, 5, (pack(2, 1), pack(1, 1)), b""),
    Message(1, 5, (pack(0, 9),), b""),
    Message(1, 5, (pack(9, 1),), b""),
    Message(1, 5, (-1,), b""),
    Message(1, 10**6, (), b""),
    Phantom(7, 1, ()),
    Phantom(-1, 1, ()),
    Phantom(1, 0, ()),
    Phantom(1, 2, (pack(2, 1), pack(2, 2))),
    Phantom(1, 2, (pack(0, 9),)),
    VectorMessage(7, (0, 0, 0), b""),
    VectorMessage(-1, (0, 0, 0), b""),
    VectorMessage(1, (), b""),
    VectorMessage(1, (0, 1), b""),
    VectorMessage(1, (0, 1, 0, 0), b""),
    VectorMessage(1, (0, 0, 0), b""),
    VectorMessage(1, (0, -3, 0), b""),
    VectorMessage(1, (9, 1, 0), b""),
    VectorMessage(0, (9, 0, 0), b""),
    VectorMessage(1, (0, 10**6, 0), b""),
    VectorMessage(1, (0, 2**70, 0), b""),
]


@each_engine
@pytest.mark.parametrize("at", range(len(NONSENSE)))
def test_nonsense_is_rejected_with_a_reason_and_leaves_no_trace(name: str, at: int):
    options = EngineOptions(pending_per_origin_max=100)
    _, engine = ENGINES[name].make(Members(["a", "b", "c"]), 0, options)
    words, waiting = engine.words(), engine.waiting()
    out = Effects()
    engine.receive(1, NONSENSE[at], out)
    assert [reject.peer for reject in out.reject] == [1]
    assert out.reject[0].reason
    assert out.reject[0].detail
    assert [out.send, out.deliver, out.stable, out.k_stable] == [[], [], [], []]
    assert (engine.words(), engine.waiting()) == (words, waiting)


@each_engine
def test_the_next_message_is_taken_however_full_the_buffer_is(name: str):
    """A bound on what is held back must not deadlock."""
    cluster = Cluster(ENGINES[name], ["a", "b"], EngineOptions(pending_per_origin_max=2))
    for _ in range(8):
        cluster.client_broadcast(0)
        cluster.middleware_step(0)
    refused = 0
    flights = list(reversed(cluster.in_flight))
    while flights:
        again = [flight for flight in flights if not cluster.network_deliver(*flight)]
        refused += len(again)
        assert len(again) < len(flights), "nothing moves any more"
        flights = again
    assert refused
    taken = 0
    while cluster.client_take(1):
        taken += 1
    assert taken >= 8


@each_engine
def test_an_engine_says_what_it_is(name: str):
    spec = ENGINES[name]
    assert spec.name == name
    assert spec.summary
    assert spec.stability or not (spec.phantoms or spec.k_stability)
