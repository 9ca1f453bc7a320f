"""Sentences of chapters 3, 4, 5 and 8, one test each, on the faithful engines.

Names give chapter, algorithm and line.  Figures and examples are in test_figures.py, the thesis'
mistakes in test_errata.py.
"""

from __future__ import annotations

import pytest

from tests.thesis.group import Group
from thence.engine import cbcast, graph, vector
from thence.engine.base import EngineSpec

EXACT = [vector.SPEC, graph.SPEC, cbcast.SPEC_E2E]
ALL = [*EXACT, cbcast.SPEC]
STABLE = [spec for spec in ALL if spec.stability]


def each(specs: list[EngineSpec]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("spec", specs, ids=lambda spec: spec.name)


def past_of(group: Group, shown: str) -> set[str]:
    """What a tag says happened before, transitively for tags of dots."""
    tag = group.tags[shown]
    if tag.vector is not None:
        return {
            f"{group.names[slot]}:{seq}"
            for slot, count in enumerate(tag.vector)
            for seq in range(1, count + 1)
        } - {shown}
    found: set[str] = set()
    left = group.predecessors(shown)
    while left:
        before = left.pop()
        found.add(before)
        left += group.predecessors(before)
    return found


@each(ALL)
def test_3_2_effects_are_seen_after_their_causes(spec: EngineSpec):
    """The chat of 3.2: ross cancels, rachel and phoebe react, joey reads in an order that fits."""
    group = Group(spec, "rhpj")
    late = group.broadcast("r", b"I have to give a late lecture")
    sad = group.send("h", b"Oh, too bad!")
    group.arrive(sad, "r", "p")
    group.take("r", "p")
    joining = group.send("r", b"Lecture canceled")
    group.arrive(joining, "p")
    group.take("p")
    great = group.send("p", b"Great news!!")
    for message in (great, joining, sad):
        group.arrive(message, "j")
    group.take("j")
    assert group.took["j"] == [late, sad, joining, great]


@each(EXACT)
def test_3_7_1_a_send_is_after_what_was_delivered_and_not_after_what_is_queued(spec: EngineSpec):
    group = Group(spec, "abc")
    taken, queued = group.send("b"), group.send("c")
    group.arrive(taken, "a")
    group.take("a")
    group.arrive(queued, "a")
    answer = group.send("a")
    assert past_of(group, answer) == {taken}


@each([vector.SPEC, cbcast.SPEC_E2E])
def test_4_3_a_vector_is_incremented_before_it_is_copied_to_the_message(spec: EngineSpec):
    group = Group(spec, "ab")
    assert [group.vector(group.send("a")) for _ in range(3)] == [[1, 0], [2, 0], [3, 0]]


@each(ALL)
def test_4_3_a_message_waits_until_all_that_caused_it_is_delivered(spec: EngineSpec):
    group = Group(spec, "abc")
    cause = group.send("a")
    group.arrive(cause, "b")
    group.take("b")
    effect = group.send("b")
    group.arrive(effect, "c")
    group.take("c")
    assert group.took["c"] == []
    assert group.waiting("c") == {effect: cause}
    group.arrive(cause, "c")
    group.take("c")
    assert group.took["c"] == [cause, effect]


@each(ALL)
def test_4_5_2_a_message_received_or_delivered_before_is_discarded(spec: EngineSpec):
    group = Group(spec, "ab")
    first, second = group.send("a"), group.send("a")
    for message in (second, second, first, first, second):
        group.arrive(message, "b")
    group.take("b")
    assert group.took["b"] == [first, second]


def test_4_4_1_a_context_is_transitively_reduced():
    group = Group(graph.SPEC, "abc")
    group.send("c")
    a1 = group.send("a")
    group.arrive(a1, "b")
    group.take("b")
    b1 = group.send("b")
    group.arrive(b1, "a")
    group.take("a")
    a2 = group.send("a")
    for message in (a1, b1, a2):
        group.arrive(message, "c")
    group.take("c")
    assert group.predecessors(group.send("c")) == [a2, "c:1"], "not a:1 and b:1, which a:2 implies"


def test_4_5_1_alg_4_13_taking_a_message_removes_only_what_it_names_from_the_context():
    group = Group(graph.SPEC, "abcd")
    b1, c1 = group.send("b"), group.send("c")
    group.arrive(b1, "d")
    group.take("d")
    d1 = group.send("d")
    for message in (b1, c1, d1):
        group.arrive(message, "a")
    group.take("a")
    assert group.predecessors(group.send("a")) == [c1, d1]


def stage(group: Group, node: str, shown: str) -> int | None:
    found = group.engine(node)._graph.get(group.pack(shown))
    return None if found is None else found.stage


def test_figures_20_and_22_a_dot_goes_from_slot_to_received_to_delivered_to_stable():
    group = Group(graph.SPEC, "abc")
    b1, b2, b3 = group.send("b"), group.send("b"), group.send("b")
    assert stage(group, "a", b2) is None
    group.arrive(b3, "a")
    assert stage(group, "a", b2) == graph.SLT
    group.arrive(b2, "a")
    assert stage(group, "a", b2) == graph.RCV
    group.arrive(b1, "a")
    assert stage(group, "a", b2) == graph.DLV
    for message in (b1, b2):
        group.arrive(message, "c")
    group.take("c")
    group.arrive(group.send("c"), "a")
    assert stage(group, "a", b2) == graph.STB
    group.take("a")
    assert stage(group, "a", b2) is None
    assert stage(group, "a", b3) == graph.DLV


def test_4_5_2_without_stability_a_dot_is_removed_upon_delivery():
    group = Group(graph.SPEC, "ab", stability=False)
    b1, b2 = group.send("b"), group.send("b")
    group.arrive(b2, "a")
    assert stage(group, "a", b2) == graph.RCV
    group.arrive(b1, "a")
    assert group.engine("a")._graph == {}


@each(STABLE)
def test_5_1_stable_when_a_message_after_it_was_delivered_from_every_other_node(spec: EngineSpec):
    group = Group(spec, "abc")
    first = group.broadcast("a")
    group.broadcast("b")
    assert group.stable == {"a": [], "b": [], "c": [first]}, "stability is local to the node"
    group.broadcast("c")
    assert all(stable[:1] == [first] for stable in group.stable.values())


@each(STABLE)
def test_5_1_after_a_stable_event_nothing_concurrent_is_delivered(spec: EngineSpec):
    """A message of c that is concurrent with a:1 comes before a:1 is stable, at everybody."""
    group = Group(spec, "abc")
    a1, c1 = group.send("a"), group.send("c")
    group.arrive(a1, "b", "c")
    group.take()
    b1 = group.send("b")
    c2 = group.send("c")
    for message in (b1, c2):
        group.arrive(message, "a")
    group.take("a")
    assert group.stable["a"] == [], "c:2 is after a:1, but c:1 is missing and is not"
    group.arrive(c1, "a")
    group.take("a")
    assert group.took["a"] == [b1, c1, c2]
    assert group.stable["a"] == [a1]


@each(STABLE)
def test_5_1_2_older_dots_become_stable_before_their_successors(spec: EngineSpec):
    group = Group(spec, "abc")
    sent = [group.broadcast(name) for name in "abcabc"]
    for stable in group.stable.values():
        assert stable == sent[: len(stable)]
        assert len(stable) >= 4


@each(STABLE)
def test_5_1_a_stable_message_was_delivered_before(spec: EngineSpec):
    group = Group(spec, "ab")
    first = group.broadcast("a")
    answer = group.send("b")
    group.arrive(answer, "a")
    group.cluster.client_take(0)
    assert group.took["a"] == [answer]
    assert group.stable["a"] == []
    group.take("a")
    assert group.stable["a"] == [first, answer]


def test_5_3_alg_9_65_a_deleted_dot_is_removed_from_the_predecessors_of_its_successors():
    group = Group(graph.SPEC, "ab")
    a1 = group.broadcast("a")
    b1 = group.send("b")
    group.arrive(b1, "a")
    nodes = group.engine("a")._graph
    assert nodes[group.pack(b1)].pred == [group.pack(a1)]
    group.cluster.client_take(0)
    group.cluster.client_take(0)
    assert group.stable["a"] == [a1]
    group.dequeue("a")
    assert nodes[group.pack(b1)].pred == []
    assert group.pack(a1) not in nodes


def test_5_4_a_reader_gives_stability_by_phantoms_and_they_stay_out_of_the_graph():
    group = Group(graph.SPEC, "abc")
    first = group.broadcast("a")
    group.broadcast("b")
    assert group.stable["a"] == []
    size = len(group.engine("a")._graph)
    group.arrive(group.announce("c"))
    assert len(group.engine("a")._graph) == size
    group.take()
    assert group.stable["a"][0] == first
    assert group.took["a"] == ["b:1"]


def test_5_4_without_phantoms_a_reader_stops_stability():
    group = Group(graph.SPEC, "abc")
    for _ in range(5):
        group.broadcast("a")
        group.broadcast("b")
    assert group.stable["a"] == []
    assert group.stable["b"] == []
    assert len(group.stable["c"]) > 0, "the reader itself needs nobody else"


def test_8_3_1_1_words_of_the_graph():
    """Per node 2 for the dot, 2 per predecessor and successor, 1 for the stage, 1 for the bits."""
    group = Group(graph.SPEC, "abc")
    group.broadcast("a")
    group.arrive(group.send("b"), "a")
    assert group.engine("a").words() == (2 + 2 + 1 + 1) + (2 + 2 + 1 + 1)


def test_8_3_1_2_words_of_the_vectors():
    """2 N for R and V, N * N for the matrix, K (2 + N) for the map, N + 1 per queued message."""
    group = Group(vector.SPEC, "abc")
    group.broadcast("a")
    group.send("b")
    group.arrive(group.send("b"), "a")
    assert group.engine("a").words() == 2 * 3 + 9 + 1 * (2 + 3) + 1 * (3 + 1)


@pytest.mark.parametrize(
    ("spec", "entries"),
    [(vector.SPEC, 3), (cbcast.SPEC, 3), (cbcast.SPEC_E2E, 6)],
    ids=lambda value: getattr(value, "name", None),
)
def test_8_4_1_double_tagging_sends_twice_as_many_entries(spec: EngineSpec, entries: int):
    group = Group(spec, "abc")
    message = group.wire[group.send("a")]
    assert len(message.vector) + len(message.application) == entries
