"""The figures and worked examples of the thesis, played step by step."""

from __future__ import annotations

import pytest

from tests.thesis.group import Group
from tests.thesis.mutant import first_failure, mutate
from thence.causal.members import Members
from thence.causal.vector import VersionVector
from thence.engine import cbcast, graph, vector
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.message import VectorMessage

EXACT = [vector.SPEC, graph.SPEC, cbcast.SPEC_E2E]
ALL = [*EXACT, cbcast.SPEC]


def each(specs: list[EngineSpec]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("spec", specs, ids=lambda spec: spec.name)


def test_figure_14_cbcast_holds_e_back_until_d_is_delivered():
    group = Group(cbcast.SPEC, "pqr")
    a = group.broadcast("p")
    b, c = group.send("q"), group.send("r")
    group.arrive(b, "r")
    group.arrive(c, "q")
    group.arrive(c, "p")
    group.arrive(b, "p")
    group.take()
    d = group.send("q")
    group.arrive(d, "r")
    group.take("r")
    e = group.send("r")
    shown = [group.vector(m) for m in (a, b, c, d, e)]
    assert shown == [[1, 0, 0], [1, 1, 0], [1, 0, 1], [1, 2, 1], [1, 2, 2]]
    group.arrive(e, "p")
    group.take("p")
    assert group.took["p"] == [c, b], "b and c are concurrent; e must wait"
    assert group.waiting("p") == {e: d}
    group.arrive(d, "p")
    group.take("p")
    assert group.took["p"] == [c, b, d, e]


def concurrent(group: Group, a: str, b: str, at: str) -> bool:
    """Whether two messages are concurrent by the tags that a node's application was given."""
    tags = [group.seen[at].get(m) or group.tags[m] for m in (a, b)]
    if tags[0].vector is not None:
        return VersionVector(tags[0].vector).concurrent(VersionVector(tags[1].vector))
    # Tags of dots: enough where a past is at most one step long, as in the figures.
    return not any(group.pack(m) in t.predecessors for m, t in zip((b, a), tags, strict=True))


def play_figure_17(spec: EngineSpec) -> tuple[Group, str, str]:
    """Both applications send before they see the other's; b's arrives before a's is dequeued."""
    group = Group(spec, "abc")
    sent_a, sent_b = group.call("a"), group.call("b")
    group.dequeue("b")
    group.arrive(sent_b, "a")
    group.dequeue("a")
    return group, sent_a, sent_b


@each(EXACT)
def test_figure_17b_end_to_end_tagging_keeps_concurrent_messages_concurrent(spec: EngineSpec):
    group, sent_a, sent_b = play_figure_17(spec)
    group.take("a")
    group.arrive(sent_a, "c")
    group.arrive(sent_b, "c")
    group.take("c")
    assert concurrent(group, sent_a, sent_b, at="a")
    assert concurrent(group, sent_a, sent_b, at="c")


def test_figure_17a_internal_tagging_orders_concurrent_messages():
    group, sent_a, sent_b = play_figure_17(cbcast.SPEC)
    group.take("a")
    assert not concurrent(group, sent_a, sent_b, at="a")
    assert group.vector(sent_b) == [0, 1, 0]
    assert group.vector(sent_a) == [1, 1, 0]


@pytest.mark.parametrize(
    ("spec", "delayed"),
    [(vector.SPEC, False), (graph.SPEC, False), (cbcast.SPEC, True), (cbcast.SPEC_E2E, True)],
    ids=lambda value: getattr(value, "name", None),
)
def test_section_3_5_1_over_ordering_delays_a_message_for_a_concurrent_one(
    spec: EngineSpec, delayed: bool
):
    """Double tagging repairs what the application sees, not the delay."""
    group, sent_a, sent_b = play_figure_17(spec)
    group.arrive(sent_a, "c")
    group.take("c")
    assert group.took["c"] == ([] if delayed else [sent_a])
    assert group.waiting("c") == ({sent_a: sent_b} if delayed else {})


@each(EXACT)
def test_section_3_4_1_tags_tell_a_stale_theoretical_price(spec: EngineSpec):
    """o: the option server, t: derives theoretical prices, u: the user's monitor."""
    group = Group(spec, "otu")
    option_1 = group.broadcast("o", b"25.5")
    price_1 = group.broadcast("t", b"26.75")
    option_2 = group.broadcast("o", b"26")
    option_3 = group.send("o", b"26.5")
    price_2 = group.send("t", b"26.25")
    group.arrive(option_3, "u")
    group.arrive(price_2, "u")
    group.take("u")
    assert group.took["u"] == [option_1, price_1, option_2, option_3, price_2]
    assert not concurrent(group, option_1, price_1, at="u")
    assert not concurrent(group, option_2, price_2, at="u"), "derived from it"
    assert concurrent(group, option_3, price_2, at="u"), "stale: to be ignored"


def test_section_3_4_1_without_exact_tags_the_anomaly_cannot_be_told():
    """The classic: the price was sent before the new option was consumed, and looks later."""
    group = Group(cbcast.SPEC, "otu")
    group.broadcast("o", b"26")
    option = group.send("o", b"26.5")
    price = group.call("t", b"26.25")
    group.arrive(option, "t", "u")
    group.dequeue("t")
    group.arrive(price, "u")
    group.take("u")
    assert not concurrent(group, option, price, at="u")


def bit_strings(group: Group, node: str, shown: str) -> dict[str, str]:
    """Bit strings as figure 24 prints them: the most significant bit is a's, d is the observer."""
    nodes = group.engine(node)._graph
    return {
        group.show(dot): "".join(str(entry.bits >> slot & 1) for slot in range(len(shown)))
        for dot, entry in sorted(nodes.items())
    }


def stages(group: Group, node: str) -> dict[str, int]:
    return {group.show(dot): entry.stage for dot, entry in group.engine(node)._graph.items()}


def test_figure_24_evolution_of_the_graph_with_bit_strings():
    group = Group(graph.SPEC, "abcd")
    a1 = group.send("a")
    b1 = group.send("b")
    c1 = group.send("c")
    b2 = group.send("b")
    group.arrive(b1, "a")
    group.take("a")
    a2 = group.send("a")
    for message in (a1, b1, a2):
        group.arrive(message, "c")
    group.take("c")
    c2 = group.send("c")
    assert group.predecessors(a2) == [a1, b1]
    assert group.predecessors(c2) == [a2, c1], "the transitive reduction of 4.4.1"

    for message in (a1, c1, b2, a2, c2):
        group.arrive(message, "d")
    assert stages(group, "d")[b1] == graph.SLT
    assert bit_strings(group, "d", "abc") == {
        a1: "011", a2: "010", b1: "000", b2: "010", c1: "110", c2: "100",
    }  # fmt: skip
    group.arrive(b1, "d")
    group.take("d")
    # The text has the delivery of c2 clear c's bit on b2 as well, which is not before c2.
    assert bit_strings(group, "d", "abc") == {
        a1: "010", a2: "010", b2: "101", c1: "110", c2: "110",
    }  # fmt: skip
    assert group.took["d"] == [a1, c1, b1, b2, a2, c2]
    assert group.stable["d"] == [b1]
    assert b1 not in stages(group, "d"), "deleted once the application took its stable event"


def test_section_5_2_example_16_of_peer_0_and_13_of_peer_3_become_stable():
    client, engine = vector.make(Members("0123"), 1, EngineOptions())
    out = Effects()

    def arrives(origin: int, *counts: int) -> list[tuple[int, int]]:
        out.clear()
        engine.receive(origin, VectorMessage(origin, counts, b""), out)
        assert not out.reject
        return [(tag.origin, tag.seq) for tag in out.stable]

    for _ in range(9):
        engine.broadcast(client.broadcast(b""), out)
    for origin, last in ((0, 15), (2, 10), (3, 12)):
        for seq in range(1, last + 1):
            arrives(origin, *[seq if slot == origin else 0 for slot in range(4)])
    arrives(0, 16, 9, 10, 12)
    arrives(2, 15, 9, 11, 12)
    arrives(3, 15, 9, 10, 13)
    assert engine._stability._stable == [15, 9, 10, 12]
    assert arrives(0, 17, 9, 10, 13) == []
    assert arrives(3, 16, 9, 10, 14) == []
    assert arrives(2, 16, 9, 12, 13) == [(0, 16), (3, 13)]
    assert engine._stability._stable == [16, 9, 10, 13]


def test_the_middlewares_own_vectors_are_no_ground_for_stability():
    """What cbcast would tell if its matrix were fed with the vectors that order its messages."""
    changed = mutate(
        "thence.engine.cbcast",
        (
            "self._stability.update(origin, vector, tag, out)",
            "self._stability.update(origin, message.vector, tag, out)",
        ),
    )
    assert first_failure(cbcast.SPEC_E2E, range(40)) is None
    failed = first_failure(changed.SPEC_E2E, range(40))
    assert failed is not None
    assert "stable" in failed[1].what
