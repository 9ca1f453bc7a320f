"""``graph``: behaviour beyond the conformance suite, and what it does with a peer's nonsense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import anything_sent
from thence.causal.dot import SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.graph import GraphClient, GraphEngine, GraphTag, make
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    BAD_STREAM,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    TOO_LARGE,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Waiting,
)
from thence.errors import LimitError, LocalProtocolError
from thence.message import (
    PAYLOAD_BYTES_MAX,
    Aside,
    Message,
    Phantom,
    VectorMessage,
    WireMessage,
)

A1, A2, B1, B2, C1, C2 = pack(0, 1), pack(0, 2), pack(1, 1), pack(1, 2), pack(2, 1), pack(2, 2)


def node(size: int = 3, **options: int) -> tuple[GraphClient, GraphEngine, Effects]:
    """The node in slot 0."""
    return *make(Members("abcdef"[:size]), 0, EngineOptions(**options)), Effects()


def said(dot: int, *context: int, payload: bytes = b"") -> Message:
    return Message(dot >> 40, dot & SEQ_MAX, context, payload)


def dots(tags: list[GraphTag]) -> list[int]:
    return [pack(tag.origin, tag.seq) for tag in tags]


def receive(engine: GraphEngine, out: Effects, *messages: WireMessage) -> None:
    for message in messages:
        engine.receive(message.origin, message, out)


def test_a_message_is_tagged_at_the_call_with_what_was_consumed():
    client, engine, out = node()
    receive(engine, out, said(B1), said(C1))
    assert client.broadcast(b"before the application took anything").predecessors == ()
    client.consume(out.deliver[0])
    assert client.broadcast(b"after b:1").predecessors == (A1, B1)
    client.consume(out.deliver[1])
    assert client.phantom() == Phantom(0, 3, (A2, C1))


def test_messages_wait_for_their_predecessors_and_keep_their_whole_context():
    _, engine, out = node()
    receive(engine, out, said(B1), said(C2, B2, C1), said(B2, B1))
    assert engine.waiting() == [Waiting(C2, C1)]
    receive(engine, out, said(C1, B1))
    assert dots(out.deliver) == [B1, B2, C1, C2]
    assert out.deliver[3].predecessors == (B2, C1), "not only what it waited for"
    assert out.deliver[3].vector is None


def test_11_44_successors_are_delivered_depth_first_in_the_order_they_came():
    _, engine, out = node(4)
    d1 = pack(3, 1)
    receive(engine, out, said(C1, B1), said(d1, B1), said(C2, C1), said(B2, B1, C2))
    receive(engine, out, said(B1))
    assert dots(out.deliver) == [B1, C1, C2, d1, B2], "c:2 before d:1; b:2 when b:1 reaches it"


def test_11_64_predecessors_become_stable_first():
    _, engine, out = node(4)
    d1 = pack(3, 1)
    receive(engine, out, said(B1), said(C1), said(d1, B1, C1))
    assert not out.stable
    receive(engine, out, said(B2, d1))
    assert dots(out.stable) == [C1], "after it: d:1 of d, b:2 of b"
    receive(engine, out, said(C2, B2))
    assert dots(out.stable) == [C1, B1, d1]


def test_a_chain_far_longer_than_the_stack_is_delivered_and_becomes_stable():
    _, engine, out = node(2, pending_per_origin_max=6000)
    chain = [said(pack(1, seq), *([pack(1, seq - 1)] if seq > 1 else [])) for seq in range(1, 5001)]
    receive(engine, out, *reversed(chain))
    assert [tag.seq for tag in out.deliver] == list(range(1, 5001))
    assert [tag.seq for tag in out.stable] == list(range(1, 5001))
    _, engine, out = node(3, pending_per_origin_max=6000)
    receive(engine, out, *chain, said(C1, pack(1, 5000)))
    assert len(out.stable) == 5000, "one message at the end makes the whole chain stable"


def test_a_stable_node_leaves_the_graph_when_it_is_forgotten():
    client, engine, out = node(2)
    engine.broadcast(client.broadcast(b""), out)
    receive(engine, out, said(B1, A1))
    assert dots(out.stable) == [A1, B1]
    assert engine.words() == 2 * (2 + 1 + 1) + 2 + 2, "two nodes and both ends of an edge"
    engine.forget(out.stable[0])
    assert engine.words() == 2 + 1 + 1
    with pytest.raises(LocalProtocolError, match="already forgotten"):
        engine.forget(out.stable[0])
    engine.forget(out.stable[1])
    assert engine.words() == 0


def test_words_count_slots_and_the_bit_string_in_words_of_64():
    members = Members(f"n{i}" for i in range(65))
    _, engine = make(members, 0, EngineOptions())
    receive(engine, Effects(), said(C1, B1))
    assert engine.words() == (2 + 2 + 1 + 2) + (2 + 2 + 1 + 2), "the slot has a successor"


def test_without_stability_a_node_is_deleted_when_it_is_delivered():
    client, engine, out = node(3, stability=False)
    engine.broadcast(client.broadcast(b""), out)
    receive(engine, out, said(C1, A1, B1))
    assert engine.words() > 0
    receive(engine, out, said(B1, A1))
    assert dots(out.deliver) == [B1, C1]
    assert engine.words() == 0
    assert not out.stable
    assert client.phantom() is None


def test_a_phantom_lets_a_silent_node_give_stability():
    _, engine, out = node()
    receive(engine, out, said(B1))
    receive(engine, out, Phantom(2, 1, (B1,)))
    assert dots(out.stable) == [B1]


def test_an_own_phantom_is_broadcast():
    client, engine, out = node()
    phantom = client.phantom()
    assert phantom is not None
    engine.announce(phantom, out)
    assert out.send == [Phantom(0, 1, ())]


def test_an_early_phantom_is_used_once_its_next_dot_and_context_are_delivered():
    _, engine, out = node()
    receive(engine, out, Phantom(2, 2, (B1, C1)))
    receive(engine, out, said(B1))
    assert not out.stable, "c:1 is missing, and may be concurrent with b:1"
    receive(engine, out, said(C1))
    assert dots(out.stable) == [B1]
    assert not engine._phantoms


def test_the_newest_phantom_of_an_origin_replaces_and_equal_ones_are_merged():
    _, engine, out = node()
    receive(engine, out, Phantom(2, 1, (B1,)), Phantom(2, 1, (B2,)), Phantom(2, 1, (B1,)))
    assert engine._phantoms == {2: (1, {1: B2})}
    receive(engine, out, Phantom(2, 3, (C2,)), Phantom(2, 1, (B1,)))
    assert engine._phantoms == {2: (3, {2: C2})}
    receive(engine, out, said(C1), said(C2, C1), said(pack(2, 3), C2))
    assert not engine._phantoms, "its next message was delivered and says the same"
    receive(engine, out, Phantom(2, 2, (B1,)))
    assert not engine._phantoms, "old"


NONSENSE = [
    (VectorMessage(1, (0, 1, 0), b""), WRONG_KIND),
    (Message(3, 1, (), b""), NOT_A_MEMBER),
    (Message(-1, 1, (), b""), NOT_A_MEMBER),
    (Message("b", 1, (), b""), NOT_A_MEMBER),  # type: ignore[arg-type]
    (Message(1, 0, (), b""), BAD_SEQ),
    (Message(1, SEQ_MAX + 1, (), b""), BAD_SEQ),
    (Message(1, "2", (), b""), BAD_SEQ),  # type: ignore[arg-type]
    (said(A1), DUPLICATE),
    (said(A2), NOT_MY_MESSAGE),
    (said(B1), DUPLICATE),
    (said(C2, C1), DUPLICATE),
    (said(pack(1, 4)), TOO_FAR_AHEAD),
    (said(B2, B2), BAD_CONTEXT),
    (said(B2, pack(1, 3)), BAD_CONTEXT),
    (said(B2, B1, A1), BAD_CONTEXT),
    (said(B2, C1, C2), BAD_CONTEXT),
    (said(B2, C1, C1), BAD_CONTEXT),
    (said(B2, pack(3, 1)), BAD_CONTEXT),
    (said(B2, pack(2, 0)), BAD_CONTEXT),
    (said(B2, -1), BAD_CONTEXT),
    (said(B2, "a"), BAD_CONTEXT),  # type: ignore[arg-type]
    (Message(1, 2, [B1], b""), BAD_CONTEXT),  # type: ignore[arg-type]
    (said(B2, A2, B1), UNSENT_OWN_DOT),
    (Message(1, 2, (B1,), b"", Aside(stream="s")), BAD_STREAM),
    (said(B2, B1, payload=b"x" * (PAYLOAD_BYTES_MAX + 1)), TOO_LARGE),
    (Phantom(3, 1, ()), NOT_A_MEMBER),
    (Phantom(0, 1, ()), NOT_MY_MESSAGE),
    (Phantom(1, 0, ()), BAD_SEQ),
    (Phantom(1, 5, ()), TOO_FAR_AHEAD),
    (Phantom(1, 2, (B2,)), BAD_CONTEXT),
    (Phantom(1, 2, (C1, B1)), BAD_CONTEXT),
    (Phantom(1, 2, (A2,)), UNSENT_OWN_DOT),
]


@pytest.mark.parametrize(("message", "reason"), NONSENSE)
def test_nonsense_is_refused_and_changes_nothing(message: WireMessage, reason: str):
    client, engine, out = node(3, pending_per_origin_max=2)
    engine.broadcast(client.broadcast(b""), out)
    receive(engine, out, said(B1), said(C2, C1))
    before = engine.words(), engine.waiting(), list(engine._delivered), dict(engine._phantoms)
    out.clear()
    engine.receive(1, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    assert out.reject[0].retry == (reason == TOO_FAR_AHEAD)
    assert not out.send + out.deliver + out.stable
    after = engine.words(), engine.waiting(), list(engine._delivered), dict(engine._phantoms)
    assert after == before
    out.clear()
    engine.receive_many(1, [said(B2, A1, B1), said(C1, B2)], out)
    assert dots(out.deliver) == [B2, C1, C2]
    assert dots(out.stable) == [A1, B1, B2]


def test_a_phantom_without_stability_is_of_the_wrong_kind():
    _, engine, out = node(3, stability=False)
    receive(engine, out, Phantom(1, 1, ()))
    assert [reject.reason for reject in out.reject] == [WRONG_KIND]


def test_a_peer_that_is_no_member_is_refused():
    _, engine, out = node()
    engine.receive(7, said(B1), out)
    assert [reject.reason for reject in out.reject] == [NOT_A_MEMBER]


@pytest.mark.parametrize("stability", [True, False])
def test_a_message_that_hides_its_predecessor_at_its_origin_waits_for_it(stability: bool):
    _, engine, out = node(3, stability=stability)
    receive(engine, out, said(B2))
    assert not out.deliver
    assert engine.waiting() == [Waiting(B2, B1)]
    receive(engine, out, said(B1), said(C1, B2))
    assert dots(out.deliver) == [B1, B2, C1]
    for tag in out.stable:
        engine.forget(tag)
    assert engine.words() == (0 if not stability else 2 + 1 + 1)


@given(st.lists(anything_sent(3), max_size=8), st.sampled_from((-1, 0, 1, 2, 9)), st.booleans())
def test_nothing_that_a_peer_sends_raises(messages: list[WireMessage], peer: int, stable: bool):
    _, engine, out = node(3, stability=stable)
    for message in messages:
        engine.receive(peer, message, out)
        engine.waiting()
        engine.words()
    for tag in out.stable:
        engine.forget(tag)


def test_misuse_by_the_caller_raises():
    client, engine, out = node()
    first, second = client.broadcast(b""), client.broadcast(b"")
    with pytest.raises(LocalProtocolError, match="not the next"):
        engine.broadcast(second, out)
    engine.broadcast(first, out)
    with pytest.raises(LocalProtocolError, match="not stable"):
        engine.forget(first)
    with pytest.raises(LimitError):
        client.broadcast(b"x" * (PAYLOAD_BYTES_MAX + 1))
    assert client.broadcast(b"").seq == 3
