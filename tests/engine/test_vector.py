"""``vector``: behaviour beyond the conformance suite, and what it does with a peer's nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import anything_sent
from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    TOO_LARGE,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Waiting,
)
from thence.engine.vector import VectorClient, VectorEngine, VectorTag, make
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Message, Phantom, VectorMessage, WireMessage


def node(size: int = 3, **options: int) -> tuple[VectorClient, VectorEngine, Effects]:
    """The node in slot 0."""
    return *make(Members("abcdef"[:size]), 0, EngineOptions(**options)), Effects()


def said(origin: int, *counts: int, payload: bytes = b"") -> VectorMessage:
    return VectorMessage(origin, counts, payload)


def dots(tags: list[VectorTag]) -> list[tuple[int, int]]:
    return [(tag.origin, tag.seq) for tag in tags]


def test_a_message_is_tagged_at_the_call_with_what_was_consumed():
    client, engine, out = node()
    engine.receive(1, said(1, 0, 1, 0), out)
    early = client.broadcast(b"before the application took b:1")
    client.consume(out.deliver[0])
    late = client.broadcast(b"after")
    assert early.vector == (1, 0, 0)
    assert late.vector == (2, 1, 0)
    assert late.seq == 2
    assert late.predecessors is None


def test_messages_wait_in_the_queue_for_what_they_count():
    _, engine, out = node()
    engine.receive(2, said(2, 0, 1, 2), out)
    engine.receive(2, said(2, 0, 1, 1), out)
    assert not out.deliver
    assert engine.waiting() == [
        Waiting(pack(2, 1), pack(1, 1)),
        Waiting(pack(2, 2), pack(2, 1)),
    ]
    engine.receive(1, said(1, 0, 1, 0), out)
    assert dots(out.deliver) == [(1, 1), (2, 1), (2, 2)]
    assert engine.waiting() == []


def test_the_queue_is_scanned_again_as_long_as_something_is_delivered():
    _, engine, out = node(2)
    for seq in (5, 4, 3, 2):
        engine.receive(1, said(1, 0, seq), out)
    engine.receive(1, said(1, 0, 1), out)
    assert [tag.seq for tag in out.deliver] == [1, 2, 3, 4, 5]


def test_what_is_not_ready_keeps_its_order_in_the_queue():
    _, engine, out = node()
    for message in (said(2, 0, 2, 1), said(1, 0, 3, 0), said(2, 0, 2, 2)):
        engine.receive(message.origin, message, out)
    engine.receive(1, said(1, 0, 1, 0), out)
    assert dots(out.deliver) == [(1, 1)]
    assert [entry.dot for entry in engine.waiting()] == [pack(1, 3), pack(2, 1), pack(2, 2)]
    engine.receive(1, said(1, 0, 2, 0), out)
    assert dots(out.deliver) == [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)]


def test_a_message_is_stable_once_everybody_has_sent_after_it():
    client, engine, out = node()
    engine.broadcast(client.broadcast(b""), out)
    engine.receive(1, said(1, 1, 1, 0), out)
    assert not out.stable
    engine.receive(2, said(2, 1, 0, 1), out)
    assert dots(out.stable) == [(0, 1)]


def test_alone_everything_is_stable_at_once():
    client, engine, out = node(1)
    engine.broadcast(client.broadcast(b""), out)
    assert dots(out.stable) == [(0, 1)]


def test_without_stability_nothing_is_told_and_nothing_is_kept():
    client, engine, out = node(2, stability=False)
    engine.broadcast(client.broadcast(b""), out)
    engine.receive(1, said(1, 1, 1), out)
    assert not out.stable
    assert engine.words() == 4


def test_words_are_counted_by_8_3_1():
    client, engine, out = node(3)
    assert engine.words() == 2 * 3 + 9
    engine.broadcast(client.broadcast(b""), out)
    assert engine.words() == 2 * 3 + 9 + (2 + 3), "one message is not stable"
    engine.receive(1, said(1, 0, 2, 0), out)
    assert engine.words() == 2 * 3 + 9 + (2 + 3) + (3 + 1), "one message is queued"


NONSENSE = [
    (Message(1, 1, (), b""), WRONG_KIND),
    (Phantom(1, 1, ()), WRONG_KIND),
    (said(3, 0, 0, 0, 1), NOT_A_MEMBER),
    (said(-1, 0, 0, 1), NOT_A_MEMBER),
    (said("b", 0, 1, 0), NOT_A_MEMBER),  # type: ignore[arg-type]
    (said(0, 1, 0, 0), DUPLICATE),
    (said(0, 2, 0, 0), NOT_MY_MESSAGE),
    (said(0, 0, 0, 0), NOT_MY_MESSAGE),
    (said(1, 0, 1), BAD_CONTEXT),
    (said(1, 0, 1, 0, 0), BAD_CONTEXT),
    (said(1, 0, 1, -1), BAD_CONTEXT),
    (said(1, 0, 1, "1"), BAD_CONTEXT),  # type: ignore[arg-type]
    (said(1, 0, 1, 0.5), BAD_CONTEXT),  # type: ignore[arg-type]
    (said(1, 0, 1, 1 << 64), BAD_CONTEXT),
    (VectorMessage(1, [0, 1, 0], b""), BAD_CONTEXT),  # type: ignore[arg-type]
    (said(1, 0, 0, 0), BAD_SEQ),
    (said(1, 2, 3, 0), UNSENT_OWN_DOT),
    (said(1, 0, 1, 0), DUPLICATE),
    (said(2, 0, 0, 2), DUPLICATE),
    (said(1, 0, 4, 0), TOO_FAR_AHEAD),
    (said(1, 0, 1 << 63, 0), TOO_FAR_AHEAD),
    (said(1, 0, 2, 0, payload=b"x" * (PAYLOAD_BYTES_MAX + 1)), TOO_LARGE),
]


@pytest.mark.parametrize(("message", "reason"), NONSENSE)
def test_nonsense_is_refused_and_changes_nothing(message: WireMessage, reason: str):
    client, engine, out = node(3, pending_per_origin_max=2)
    engine.broadcast(client.broadcast(b""), out)
    engine.receive(1, said(1, 0, 1, 0), out)
    engine.receive(2, said(2, 0, 0, 2), out)
    before = engine.words(), engine.waiting(), list(engine._delivered)
    out.clear()
    engine.receive(1, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    assert out.reject[0].retry == (reason == TOO_FAR_AHEAD)
    assert not out.send + out.deliver + out.stable
    assert (engine.words(), engine.waiting(), list(engine._delivered)) == before
    out.clear()
    engine.receive_many(1, [said(1, 1, 2, 0), said(2, 1, 2, 1)], out)
    assert dots(out.deliver) == [(1, 2), (2, 1), (2, 2)]
    assert dots(out.stable) == [(0, 1), (1, 1), (1, 2)]


def test_a_peer_that_is_no_member_is_refused():
    _, engine, out = node()
    engine.receive(7, said(1, 0, 1, 0), out)
    assert [reject.reason for reject in out.reject] == [NOT_A_MEMBER]


def test_the_next_message_of_an_origin_is_accepted_when_the_queue_is_full():
    _, engine, out = node(2, pending_per_origin_max=2)
    engine.receive(1, said(1, 0, 2), out)
    engine.receive(1, said(1, 0, 3), out)
    assert [reject.reason for reject in out.reject] == [TOO_FAR_AHEAD]
    engine.receive(1, said(1, 0, 1), out)
    engine.receive(1, said(1, 0, 3), out)
    assert [tag.seq for tag in out.deliver] == [1, 2, 3]


def test_a_peer_whose_vectors_go_backwards_makes_nothing_stable_twice():
    client, engine, out = node(2)
    engine.broadcast(client.broadcast(b""), out)
    for counts in ((1, 1), (0, 2), (1, 3)):
        engine.receive(1, said(1, *counts), out)
    assert dots(out.stable) == [(0, 1), (1, 1), (1, 2), (1, 3)]


@given(st.lists(anything_sent(3), max_size=8), st.sampled_from((-1, 0, 1, 2, 9)))
def test_nothing_that_a_peer_sends_raises(messages: list[WireMessage], peer: int):
    _, engine, out = node()
    for message in messages:
        engine.receive(peer, message, out)
        engine.waiting()
        engine.words()


def test_misuse_by_the_caller_raises():
    client, engine, out = node()
    first, second = client.broadcast(b""), client.broadcast(b"")
    with pytest.raises(LocalProtocolError, match="not the next"):
        engine.broadcast(second, out)
    engine.broadcast(first, out)
    with pytest.raises(LocalProtocolError, match="not the next"):
        engine.broadcast(first, out)
    with pytest.raises(LocalProtocolError, match="no phantoms"):
        engine.announce(Phantom(0, 1, ()), out)
    with pytest.raises(LimitError):
        client.broadcast(b"x" * (PAYLOAD_BYTES_MAX + 1))
    assert client.broadcast(b"").seq == 3
    assert client.phantom() is None
