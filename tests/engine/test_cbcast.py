"""``cbcast`` and ``cbcast-e2e``: behaviour beyond the conformance suite, and a peer's nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import anything_sent
from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.cbcast import SPEC, SPEC_E2E, CbcastTag
from thence.engine.effects import Effects
from thence.engine.reject import (
    BAD_CONTEXT,
    DUPLICATE,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Waiting,
)
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Message, Phantom, VectorMessage, WireMessage


def node(spec: Any = SPEC, size: int = 3, **options: int) -> tuple[Any, Any, Effects]:
    """The node in slot 0."""
    return *spec.make(Members("abcdef"[:size]), 0, EngineOptions(**options)), Effects()


def said(origin: int, *counts: int, seen: tuple[int, ...] = ()) -> VectorMessage:
    return VectorMessage(origin, counts, b"", seen)


def dots(tags: list[CbcastTag]) -> list[tuple[int, int]]:
    return [(tag.origin, tag.seq) for tag in tags]


def test_the_middleware_tags_when_it_dequeues():
    client, engine, out = node()
    tag = client.broadcast(b"")
    assert tag.vector is None
    engine.receive(1, said(1, 0, 1, 0), out)
    engine.broadcast(tag, out)
    assert tag.vector == (1, 1, 0), "after b:1, which the application has not consumed"
    assert out.send == [said(0, 1, 1, 0)]
    assert tag.predecessors is None


def test_double_tagging_sends_both_vectors_and_shows_the_application_s():
    client, engine, out = node(SPEC_E2E)
    tag = client.broadcast(b"")
    engine.receive(1, said(1, 0, 1, 0, seen=(0, 1, 0)), out)
    engine.broadcast(tag, out)
    assert tag.vector == (1, 0, 0)
    assert out.send == [said(0, 1, 1, 0, seen=(1, 0, 0))]
    client.consume(out.deliver[0])
    assert client.broadcast(b"").vector == (2, 1, 0)


def test_what_is_held_back_is_released_in_causal_order():
    _, engine, out = node()
    for message in (said(2, 0, 2, 1), said(1, 0, 2, 0), said(2, 0, 2, 2)):
        engine.receive(message.origin, message, out)
    assert engine.waiting() == [
        Waiting(pack(1, 2), pack(1, 1)),
        Waiting(pack(2, 1), pack(1, 1)),
        Waiting(pack(2, 2), pack(2, 1)),
    ]
    engine.receive(1, said(1, 0, 1, 0), out)
    assert dots(out.deliver) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert engine.waiting() == []


def test_the_classic_has_no_stability_whatever_the_option_says():
    client, engine, out = node(SPEC, 1, stability=True)
    engine.broadcast(client.broadcast(b""), out)
    assert not out.stable
    assert not SPEC.stability


def test_double_tagging_is_stable_by_what_applications_consumed():
    client, engine, out = node(SPEC_E2E, 2)
    engine.broadcast(client.broadcast(b""), out)
    engine.receive(1, said(1, 1, 1, seen=(0, 1)), out)
    assert dots(out.stable) == [(1, 1)], "b's middleware had a:1, its application had not"
    engine.receive(1, said(1, 1, 2, seen=(1, 2)), out)
    assert dots(out.stable) == [(1, 1), (0, 1), (1, 2)]


def test_words_count_the_second_vector_wherever_it_is_kept():
    _, engine, out = node(SPEC)
    engine.receive(1, said(1, 0, 2, 0), out)
    assert engine.words() == 3 + (3 + 1)
    _, engine, out = node(SPEC_E2E, stability=False)
    engine.receive(1, said(1, 0, 2, 0, seen=(0, 2, 0)), out)
    assert engine.words() == 2 * 3 + (2 * 3 + 1)
    client, engine, out = node(SPEC_E2E)
    engine.broadcast(client.broadcast(b""), out)
    assert engine.words() == 2 * 3 + 3 * 3 + (2 + 2 * 3)


NONSENSE = [
    (Message(1, 1, (), b""), WRONG_KIND),
    (said(0, 1, 0, 0), DUPLICATE),
    (said(0, 2, 0, 0), NOT_MY_MESSAGE),
    (said(1, 0, 1, 0, seen=(0, 1, 0)), DUPLICATE),
    (said(2, 0, 0, 2, seen=(0, 0, 2)), DUPLICATE),
    (said(1, 0, 2), BAD_CONTEXT),
    (said(1, 2, 2, 0), UNSENT_OWN_DOT),
    (said(1, 0, 9, 0), TOO_FAR_AHEAD),
]
BAD_SECOND_VECTOR = [(), (0, 2), (0, 1, 0), (1, 2, 0), (0, 2, -1), (0, 2, None)]


def refuses(spec: Any, message: WireMessage, reason: str) -> None:
    client, engine, out = node(spec, pending_per_origin_max=2)
    engine.broadcast(client.broadcast(b""), out)
    seen = [(0, 1, 0), (0, 0, 2)] if spec is SPEC_E2E else [(), ()]
    engine.receive(1, said(1, 0, 1, 0, seen=seen[0]), out)
    engine.receive(2, said(2, 0, 0, 2, seen=seen[1]), out)
    assert not out.reject
    before = engine.words(), engine.waiting(), list(engine._clock)
    out.clear()
    engine.receive(1, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    assert out.reject[0].retry == (reason == TOO_FAR_AHEAD)
    assert not out.send + out.deliver + out.stable
    assert (engine.words(), engine.waiting(), list(engine._clock)) == before


@pytest.mark.parametrize("spec", [SPEC, SPEC_E2E], ids=lambda spec: spec.name)
@pytest.mark.parametrize(("message", "reason"), NONSENSE)
def test_nonsense_is_refused_and_changes_nothing(spec: Any, message: WireMessage, reason: str):
    refuses(spec, message, reason)


@pytest.mark.parametrize("seen", BAD_SECOND_VECTOR)
def test_a_second_vector_that_is_no_part_of_the_first_is_refused(seen: tuple[int, ...]):
    refuses(SPEC_E2E, said(1, 0, 2, 0, seen=seen), BAD_CONTEXT)


def test_a_second_vector_is_refused_where_there_is_none():
    refuses(SPEC, said(1, 0, 2, 0, seen=(0, 2, 0)), BAD_CONTEXT)


@pytest.mark.parametrize("spec", [SPEC, SPEC_E2E], ids=lambda spec: spec.name)
@given(st.lists(anything_sent(3), max_size=8), st.sampled_from((-1, 0, 1, 2, 9)))
def test_nothing_that_a_peer_sends_raises(spec: Any, messages: list[WireMessage], peer: int):
    _, engine, out = node(spec)
    for message in messages:
        engine.receive(peer, message, out)
        engine.waiting()
        engine.words()


@pytest.mark.parametrize("spec", [SPEC, SPEC_E2E], ids=lambda spec: spec.name)
def test_misuse_by_the_caller_raises(spec: Any):
    client, engine, out = node(spec)
    first, second = client.broadcast(b""), client.broadcast(b"")
    with pytest.raises(LocalProtocolError, match="not the next"):
        engine.broadcast(second, out)
    engine.broadcast(first, out)
    with pytest.raises(LocalProtocolError, match="no phantoms"):
        engine.announce(Phantom(0, 1, ()), out)
    with pytest.raises(LimitError):
        client.broadcast(b"x" * (PAYLOAD_BYTES_MAX + 1))
    assert client.phantom() is None
