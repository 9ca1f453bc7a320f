"""Each erratum of algorithms 1 to 11, put back, is caught; without it the same walks are clean.

The table is errata_table.py.  Errata that no walk of this interface can show are tested directly.
"""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.seeds import seeds
from tests.thesis.errata_table import ERRATA, GRAPH, VECTOR, Erratum
from tests.thesis.mutant import NotOnceError, first_failure, mutate
from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine import cbcast, graph, vector
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.reject import BAD_CONTEXT
from thence.message import Message, Phantom

WALKS = 120


@pytest.mark.parametrize("erratum", ERRATA, ids=lambda erratum: erratum.lines)
def test_an_erratum_put_back_is_caught(erratum: Erratum):
    failed = first_failure(erratum.engine(), range(WALKS))
    assert failed is not None, erratum.breaks
    assert "NameError" not in failed[1].what, "the mutant is broken, not mistaken"
    assert "AttributeError" not in failed[1].what, "the mutant is broken, not mistaken"


@pytest.mark.parametrize(
    "spec", [vector.SPEC, graph.SPEC, cbcast.SPEC, cbcast.SPEC_E2E], ids=lambda spec: spec.name
)
def test_without_the_errata_the_same_walks_are_clean(spec: EngineSpec):
    assert first_failure(spec, seeds(WALKS)) is None


def test_a_passage_that_is_not_there_exactly_once_is_an_error():
    with pytest.raises(NotOnceError):
        mutate(VECTOR, ("no such passage", ""))
    with pytest.raises(NotOnceError):
        mutate(VECTOR, ("self", ""))


def test_an_unchanged_mutant_is_the_engine():
    assert first_failure(mutate(GRAPH).SPEC, range(10)) is None


def tag_after_the_next_send(module: ModuleType) -> list[int]:
    client = module.VectorClient(2, 0)
    tag = client.broadcast(b"")
    client.broadcast(b"")
    return list(tag.vector)


def test_2_8_and_6_8_a_tag_does_not_change_with_the_client():
    alias = mutate(VECTOR, ("tuple(self._vector), payload", "self._vector, payload"))
    assert tag_after_the_next_send(alias) == [2, 0], "as printed: message 1 became message 2"
    assert tag_after_the_next_send(vector) == [1, 0]


def dots_of_a_send_within_a_callback(module: ModuleType) -> list[int]:
    """An application that answers its own first message from the delivery callback."""
    client = module.GraphClient(0, False)
    sent: list[int] = []

    def callback(tag: graph.GraphTag) -> None:
        if not sent:
            sent.append(0)
            sent.append(client.broadcast(b"inner").seq)

    module.CALLBACK = callback
    sent.append(client.broadcast(b"outer").seq)
    return sent[1:]


def test_10_8_and_10_9_the_callback_runs_after_the_tag_is_taken():
    """The printed order runs the callback first: what it sends takes the outer message's dot."""
    made = "tuple(sorted(self._context)), payload)\n"
    done = "        self._seq += 1\n"
    as_printed = mutate(GRAPH, (made, f"{made}        CALLBACK(tag)\n"))
    corrected = mutate(GRAPH, (done, f"{done}        CALLBACK(tag)\n"))
    assert dots_of_a_send_within_a_callback(as_printed) == [1, 1]
    assert dots_of_a_send_within_a_callback(corrected) == [2, 1]


def deliver_after_two_of_one_origin(module: ModuleType) -> tuple[list[str], list[int]]:
    """c:1 names both b:1 and b:2, which come after it."""
    _, engine = module.make(Members("abc"), 0, EngineOptions())
    out = Effects()
    b1, b2 = pack(1, 1), pack(1, 2)
    engine.receive(2, Message(2, 1, (b1, b2), b""), out)
    engine.receive(1, Message(1, 1, (), b""), out)
    engine.receive(1, Message(1, 2, (b1,), b""), out)
    return [reject.reason for reject in out.reject], [tag.origin for tag in out.deliver]


def test_5_19_and_9_25_the_sum_of_bits_needs_one_predecessor_per_origin():
    """Twice bit(b) is bit(c), which no delivery of b clears; so such contexts are refused."""
    unchecked = mutate(GRAPH, ("if slot <= last_slot:", "if slot < last_slot:"))
    assert deliver_after_two_of_one_origin(unchecked) == ([], [1, 1]), "c:1 waits for ever"
    assert deliver_after_two_of_one_origin(graph) == ([BAD_CONTEXT], [1, 1])


def test_9_41_with_two_nodes_nothing_would_become_stable():
    erratum = next(erratum for erratum in ERRATA if erratum.lines == "9:41")
    for spec, stable in ((erratum.engine(), []), (graph.SPEC, [1])):
        _, engine = spec.make(Members("ab"), 0, EngineOptions())
        out = Effects()
        engine.receive(1, Message(1, 1, (), b""), out)
        assert [tag.seq for tag in out.stable] == stable


def test_11_30_a_message_counts_for_stability_once_it_is_delivered():
    """5.1 wants a later message *delivered* from every node; c:1 still waits for d:1."""
    erratum = next(erratum for erratum in ERRATA if erratum.lines == "11:30")
    b1, d1 = pack(1, 1), pack(3, 1)
    for spec, stable in ((erratum.engine(), [1]), (graph.SPEC, [])):
        _, engine = spec.make(Members("abcd"), 0, EngineOptions())
        out = Effects()
        engine.receive(1, Message(1, 1, (), b""), out)
        engine.receive(3, Phantom(3, 1, (b1,)), out)
        engine.receive(2, Message(2, 1, (b1, d1), b""), out)
        assert [tag.origin for tag in out.deliver] == [1]
        assert [tag.origin for tag in out.stable] == stable
