"""Hypothesis leads a group step by step against the oracle, and shrinks what it finds.

The random walks of tests/conformance try far more executions; this gives the shortest one, and
puts a peer's nonsense between the steps to see that it changes nothing.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from thence.causal.dot import pack
from thence.engine import cbcast, graph, vector
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.message import Message, Phantom, VectorMessage, WireMessage
from thence.sim.checkers import Oracle
from thence.sim.cluster import Cluster
from thence.sim.walk import close

NODES = 3
nodes = st.integers(0, NODES - 1)


def nonsense(me: int) -> list[WireMessage]:
    """Messages that the node in slot ``me`` refuses whatever happened before."""
    peer = (me + 1) % NODES
    far = tuple(99 if slot == peer else 0 for slot in range(NODES))
    unsent = tuple(9999 if slot == me else 1 for slot in range(NODES))
    return [
        Message(me, 9999, (), b""),
        Message(NODES, 1, (), b""),
        Message(peer, 9999, (), b""),
        Message(peer, 1, (pack(peer, 1),), b""),
        Message(peer, 1, (pack(me, 9999),), b""),
        Message(peer, 1, (pack(2, 1), pack(0, 1)), b""),
        Phantom(me, 1, ()),
        Phantom(peer, 1, (pack(me, 9999),)),
        Phantom(peer, 1, (pack(peer, 1),)),
        VectorMessage(me, unsent, b""),
        VectorMessage(peer, far, b"", far),
        VectorMessage(peer, unsent, b"", unsent),
        VectorMessage(peer, (1,), b""),
        VectorMessage(peer, (-1,) * NODES, b""),
    ]


class Steps(RuleBasedStateMachine):
    """Three nodes; a subclass names the engine."""

    spec: EngineSpec

    @initialize(stability=st.booleans())
    def begin(self, stability: bool) -> None:
        names = ["a", "b", "c"]
        options = EngineOptions(stability=stability, pending_per_origin_max=32)
        self.oracle = Oracle(self.spec, names, options)
        self.cluster = Cluster(self.spec, names, options, [self.oracle])

    @rule(node=nodes)
    def broadcast(self, node: int) -> None:
        self.cluster.client_broadcast(node)

    @rule(node=nodes)
    def phantom(self, node: int) -> None:
        self.cluster.client_phantom(node)

    @rule(node=nodes)
    def dequeue(self, node: int) -> None:
        self.cluster.middleware_step(node)

    @rule(node=nodes)
    def take(self, node: int) -> None:
        self.cluster.client_take(node)

    @precondition(lambda self: self.cluster.in_flight)
    @rule(chosen=st.integers(0, 999))
    def arrive(self, chosen: int) -> None:
        self.cluster.deliver_in_flight(chosen % len(self.cluster.in_flight))

    @precondition(lambda self: self.cluster.in_flight)
    @rule(chosen=st.integers(0, 999))
    def arrive_and_stay(self, chosen: int) -> None:
        self.cluster.network_deliver(*self.cluster.in_flight[chosen % len(self.cluster.in_flight)])

    @rule(node=nodes, chosen=st.integers(0, 13))
    def refuse(self, node: int, chosen: int) -> None:
        out = Effects()
        self.cluster.engines[node].receive((node + 1) % NODES, nonsense(node)[chosen], out)
        assert len(out.reject) == 1
        assert not out.send + out.deliver + out.stable

    @rule(node=nodes)
    def ask(self, node: int) -> None:
        self.oracle.check_waiting(node, self.cluster.waiting(node))

    def teardown(self) -> None:
        if hasattr(self, "cluster"):
            self.cluster.quiesce()
            self.oracle.check_end()
            close(self.cluster, self.oracle)


class VectorSteps(Steps):
    spec = vector.SPEC


class GraphSteps(Steps):
    spec = graph.SPEC


class CbcastSteps(Steps):
    spec = cbcast.SPEC


class EndToEndSteps(Steps):
    spec = cbcast.SPEC_E2E


QUICK = settings(max_examples=40, stateful_step_count=40)

TestVector = VectorSteps.TestCase
TestVector.settings = QUICK
TestGraph = GraphSteps.TestCase
TestGraph.settings = QUICK
TestCbcast = CbcastSteps.TestCase
TestCbcast.settings = QUICK
TestEndToEnd = EndToEndSteps.TestCase
TestEndToEnd.settings = QUICK
