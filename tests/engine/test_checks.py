"""What peers may not say to the flagship, and how much: each is refused and changes nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import Sent, contexts, executions, packed_dots
from thence.causal.dot import SEQ_BITS, SEQ_MAX, SLOT_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.checks import STREAM_DOTS_MAX, aside_fault, context_fault
from thence.engine.effects import Effects
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    BAD_SEQ,
    BAD_STREAM,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    TOO_LARGE,
    UNSENT_OWN_DOT,
    WRONG_KIND,
)
from thence.engine.streams import STREAMS_PER_NODE_MAX
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import LocalProtocolError
from thence.message import (
    PAYLOAD_BYTES_MAX,
    STREAM_CHARS_MAX,
    Aside,
    Message,
    Phantom,
    StreamDot,
    VectorMessage,
    WireMessage,
)

A1, A2, B1, B2, B3 = pack(0, 1), pack(0, 2), pack(1, 1), pack(1, 2), pack(1, 3)
C1, C2 = pack(2, 1), pack(2, 2)
LONG_NAME = "x" * (STREAM_CHARS_MAX + 1)
LARGE = b"x" * (PAYLOAD_BYTES_MAX + 1)


def node(size: int = 3, slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    return *make(Members("abcdefgh"[:size]), slot, EngineOptions(**options)), Effects()


def said(dot: int, *context: int, aside: Aside | None = None) -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, b"", aside)


def dots(tags: list[Tag]) -> list[int]:
    return [tag.packed for tag in tags]


def receive(engine: Tagged, out: Effects, *messages: WireMessage) -> None:
    for message in messages:
        engine.receive(message.origin, message, out)


# ---- the rules by themselves ---------------------------------------------------------------------

DELIVERED = [pack(0, 3), pack(1, 2), pack(2, 9)]


@pytest.mark.parametrize("context", [(), (A1,), (A1, B2), (A1, B2, pack(2, 50)), (pack(2, 9),)])
def test_a_context_that_can_be(context: tuple[int, ...]):
    assert context_fault(context, B3, DELIVERED, 0) is None


@pytest.mark.parametrize(
    ("context", "reason"),
    [
        ((B1, A1), BAD_CONTEXT),
        ((A1, A1), BAD_CONTEXT),
        ((A1, A2), BAD_CONTEXT),
        ((B3,), BAD_CONTEXT),
        ((pack(1, 4),), BAD_CONTEXT),
        ((pack(3, 1),), BAD_CONTEXT),
        ((pack(SLOT_MAX, 1),), BAD_CONTEXT),
        ((pack(2, 0),), BAD_CONTEXT),
        ((0,), BAD_CONTEXT),
        ((-1,), BAD_CONTEXT),
        ((-(1 << 90),), BAD_CONTEXT),
        ((1 << 90,), BAD_CONTEXT),
        ((A1, -1), BAD_CONTEXT),
        ((pack(0, 4),), UNSENT_OWN_DOT),
    ],
)
def test_a_context_that_cannot_be(context: tuple[int, ...], reason: str):
    fault = context_fault(context, B3, DELIVERED, 0)
    assert fault is not None
    assert fault[0] == reason
    assert fault[1]


@given(st.lists(packed_dots(4) | st.integers(), max_size=4).map(tuple))
def test_no_fault_means_sorted_one_per_origin_of_known_slots(context: tuple[int, ...]):
    if context_fault(context, B3, DELIVERED, 0) is None:
        slots = [dot >> SEQ_BITS for dot in context]
        assert slots == sorted(set(slots))
        assert set(slots) <= {0, 1, 2}
        assert all(dot & SEQ_MAX for dot in context)
        assert all(dot < B3 for dot in context if dot >> SEQ_BITS == 1)
        assert all(dot <= DELIVERED[0] for dot in context if dot >> SEQ_BITS == 0)
    else:
        assert context


def test_streams_that_can_be():
    named = (StreamDot(0, "s", 1), StreamDot(1, "t", SEQ_MAX), StreamDot(0, "t", 1))
    assert aside_fault(Aside("s", named), 1, 3, 0) is None
    assert aside_fault(Aside("", named, (A1, B1)), 1, 3, 0) is None
    assert aside_fault(Aside("x" * STREAM_CHARS_MAX), 1, 3, 0) is None


def test_recipients_that_can_be():
    for to in ((0,), (2,), (0, 2)):
        assert aside_fault(Aside(to=to), 1, 3, 0) is None
    assert aside_fault(Aside(to=(2,), hollow=True), 1, 3, 0) is None


BAD_ASIDES = [
    (Aside(LONG_NAME), BAD_STREAM),
    (Aside("a/b"), BAD_STREAM),
    (Aside("s", (), (B1,)), BAD_CONTEXT),
    (Aside("s", (StreamDot(1, "s", 1),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(2, "t", 1), StreamDot(2, "t", 2))), BAD_CONTEXT),
    (Aside("s", (StreamDot(3, "t", 1),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(-1, "t", 1),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(1 << 80, "t", 1),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(2, "t", 0),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(2, "t", -5),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(2, "t", SEQ_MAX + 1),)), BAD_CONTEXT),
    (Aside("s", (StreamDot(2, "", 1),)), BAD_STREAM),
    (Aside("s", (StreamDot(2, "t/u", 1),)), BAD_STREAM),
    (Aside("s", (StreamDot(2, LONG_NAME, 1),)), BAD_STREAM),
    (Aside("s", tuple(StreamDot(2, f"t{n}", 1) for n in range(STREAM_DOTS_MAX + 1))), TOO_LARGE),
    (Aside(hollow=True), BAD_RECIPIENTS),
    (Aside("s", to=(2,)), BAD_RECIPIENTS),
    (Aside(to=(3,)), BAD_RECIPIENTS),
    (Aside(to=(-1,)), BAD_RECIPIENTS),
    (Aside(to=(1 << 80,)), BAD_RECIPIENTS),
    (Aside(to=(2, 0)), BAD_RECIPIENTS),
    (Aside(to=(2, 2)), BAD_RECIPIENTS),
    (Aside(to=(1, 2)), BAD_RECIPIENTS),
    (Aside(to=(0, 2), hollow=True), BAD_RECIPIENTS),
]


@pytest.mark.parametrize(("aside", "reason"), BAD_ASIDES)
def test_streams_that_cannot_be(aside: Aside, reason: str):
    fault = aside_fault(aside, 1, 3, 0)
    assert fault is not None
    assert fault[0] == reason
    assert fault[1]


# ---- the engine refuses them ---------------------------------------------------------------------

NONSENSE: list[tuple[WireMessage, str]] = [
    (VectorMessage(1, (0, 2, 0), b""), WRONG_KIND),
    (VectorMessage(-1, (), b""), WRONG_KIND),
    (Message(3, 1, (), b""), NOT_A_MEMBER),
    (Message(-1, 1, (), b""), NOT_A_MEMBER),
    (Message(1 << 80, 1, (), b""), NOT_A_MEMBER),
    (Message(3, 1, (), b"", Aside("s")), NOT_A_MEMBER),
    (Message(1, 0, (), b""), BAD_SEQ),
    (Message(1, -1, (), b""), BAD_SEQ),
    (Message(1, SEQ_MAX + 1, (), b""), BAD_SEQ),
    (Message(1, SEQ_MAX + 2, (), b""), BAD_SEQ),
    (Message(1, 5 << SEQ_BITS, (), b""), BAD_SEQ),
    (Message(1, -(5 << SEQ_BITS), (), b""), BAD_SEQ),
    (Message(1, 1 << 200, (), b""), BAD_SEQ),
    (Message(1, -1, (), b"", Aside("s")), BAD_SEQ),
    (Message(1, 5 << SEQ_BITS, (), b"", Aside("s")), BAD_SEQ),
    (said(A1), DUPLICATE),
    (said(A2), NOT_MY_MESSAGE),
    (said(A2, A1), NOT_MY_MESSAGE),
    (said(pack(0, 9)), NOT_MY_MESSAGE),
    (said(A1, aside=Aside("s")), NOT_MY_MESSAGE),
    (said(B1), DUPLICATE),
    (said(B1, C1), DUPLICATE),
    (said(C2, C1), DUPLICATE),
    (said(C2, B1), DUPLICATE),
    (said(pack(1, 4)), TOO_FAR_AHEAD),
    (said(pack(1, SEQ_MAX)), TOO_FAR_AHEAD),
    (said(B3, aside=Aside("s")), TOO_FAR_AHEAD),
    (said(B2, B2), BAD_CONTEXT),
    (said(B2, B3), BAD_CONTEXT),
    (said(B2, B1, A1), BAD_CONTEXT),
    (said(B2, C1, C2), BAD_CONTEXT),
    (said(B2, B1, C1, C1), BAD_CONTEXT),
    (said(B2, pack(3, 1)), BAD_CONTEXT),
    (said(B2, pack(2, 0)), BAD_CONTEXT),
    (said(B2, B1, pack(1, 0)), BAD_CONTEXT),
    (said(B2, -1), BAD_CONTEXT),
    (said(B2, 1 << 200), BAD_CONTEXT),
    (said(B2, -(1 << 200)), BAD_CONTEXT),
    (said(B3, B3), BAD_CONTEXT),
    (said(B2, *range(pack(2, 1), pack(2, 2000))), BAD_CONTEXT),
    (said(B2, A2, B1), UNSENT_OWN_DOT),
    (said(B3, A2), UNSENT_OWN_DOT),
    (said(B2, B1, aside=Aside("", (StreamDot(0, "s", 1),))), UNSENT_OWN_DOT),
    (said(B2, B1, aside=Aside("", (), (A2,))), UNSENT_OWN_DOT),
    (said(B2, B1, aside=Aside("", (), (B2,))), BAD_CONTEXT),
    (said(B2, B1, aside=Aside("", (), (C1, C2))), BAD_CONTEXT),
    (said(B2, B1, aside=Aside("", (), (-1, 1 << 90))), BAD_CONTEXT),
    (said(B1, -1, aside=Aside("s")), BAD_CONTEXT),
    *[(said(B1, B1, aside=aside), reason) for aside, reason in BAD_ASIDES],
    (Message(1, 2, (B1,), LARGE), TOO_LARGE),
    (Message(1, 3, (B1,), LARGE), TOO_LARGE),
    (Message(1, 1, (), LARGE, Aside("s")), TOO_LARGE),
    (Phantom(3, 1, ()), NOT_A_MEMBER),
    (Phantom(-1, 1, ()), NOT_A_MEMBER),
    (Phantom(0, 2, ()), NOT_A_MEMBER),
    (Phantom(1, 0, ()), BAD_SEQ),
    (Phantom(1, -(1 << 90), ()), BAD_SEQ),
    (Phantom(1, 1 << 90, ()), BAD_SEQ),
    (Phantom(1, 4, ()), TOO_FAR_AHEAD),
    (Phantom(1, 2, (B2,)), BAD_CONTEXT),
    (Phantom(1, 2, (C1, B1)), BAD_CONTEXT),
    (Phantom(1, 2, (C1, C2)), BAD_CONTEXT),
    (Phantom(1, 2, (pack(3, 1),)), BAD_CONTEXT),
    (Phantom(1, 2, (0,)), BAD_CONTEXT),
    (Phantom(1, 2, (-1,)), BAD_CONTEXT),
    (Phantom(1, 2, (1 << 90,)), BAD_CONTEXT),
    (Phantom(1, 2, (A2,)), UNSENT_OWN_DOT),
]


def state(engine: Tagged) -> tuple[object, ...]:
    phantoms = {j: (n, dict(newest)) for j, (n, newest) in engine.knowledge.phantoms.items()}
    held = dict(engine.pending), set(engine.watchers), set(engine.past.window), phantoms
    return engine.words(), engine.waiting(), list(engine.delivered), held


def in_the_middle() -> tuple[Tagger, Tagged, Effects]:
    """a:1 sent, b:1 taken, c:2 waits for c:1; at most two of an origin are held back."""
    client, engine, out = node(3, pending_per_origin_max=2, stability_batch=1)
    engine.broadcast(client.broadcast(b""), out)
    receive(engine, out, said(B1), said(C2, C1), Phantom(2, 1, (B1,)))
    client.consume(out.deliver[0])
    out.clear()
    return client, engine, out


@pytest.mark.parametrize(("message", "reason"), NONSENSE)
def test_nonsense_is_refused_with_a_reason_and_changes_nothing(message: WireMessage, reason: str):
    client, engine, out = in_the_middle()
    before = state(engine)
    engine.receive(1, message, out)
    engine.receive_many(1, [message], out)
    assert [reject.reason for reject in out.reject] == [reason] * 2
    for reject in out.reject:
        assert reject.peer == 1
        assert reject.detail
        assert reject.retry == (reason == TOO_FAR_AHEAD)
    assert [out.send, out.deliver, out.stable, out.k_stable] == [[], [], [], []]
    assert state(engine) == before
    out.clear()
    engine.receive_many(1, [said(B2, A1, B1), said(C1, B2), said(B1, aside=Aside("s"))], out)
    assert not out.reject
    assert [str(tag) for tag in out.deliver] == ["b:2", "c:1", "c:2", "b/s:1"]
    for tag in out.deliver:
        client.consume(tag)
    engine.flush(out)
    assert dots(out.stable) == [B1, A1, B2]


def test_every_reason_that_this_engine_gives_is_in_the_table():
    assert {reason for _, reason in NONSENSE} == {
        *(WRONG_KIND, NOT_A_MEMBER, BAD_SEQ, DUPLICATE, NOT_MY_MESSAGE),
        *(TOO_FAR_AHEAD, BAD_CONTEXT, UNSENT_OWN_DOT, BAD_STREAM, BAD_RECIPIENTS, TOO_LARGE),
    }


def test_a_forged_second_message_with_the_dot_of_one_that_waits_is_refused():
    _, engine, out = node()
    receive(engine, out, said(B2, B1), said(C1, B2))
    forged = [Message(1, 2, (), b"forged"), Message(2, 1, (), b"forged")]
    receive(engine, out, *forged)
    assert [reject.reason for reject in out.reject] == [DUPLICATE] * 2
    receive(engine, out, said(B1))
    assert dots(out.deliver) == [B1, B2, C1]
    assert not any(tag.payload for tag in out.deliver)


def test_a_peer_cannot_use_more_streams_than_a_node_may():
    _, engine, out = node()
    for n in range(STREAMS_PER_NODE_MAX + 1):
        receive(engine, out, said(B1, aside=Aside(f"s{n}")))
    assert [reject.reason for reject in out.reject] == [BAD_STREAM]
    assert len(out.deliver) == STREAMS_PER_NODE_MAX
    receive(engine, out, said(C1, aside=Aside("s")), said(B2, aside=Aside("s0")), said(B1))
    assert len(out.reject) == 1
    assert len(out.deliver) == STREAMS_PER_NODE_MAX + 3


def test_what_is_refused_uses_up_no_streams():
    client, engine, out = node()
    for n in range(STREAMS_PER_NODE_MAX + 1):
        receive(engine, out, said(B1, -1, aside=Aside(f"s{n}")))
        receive(engine, out, said(A1, aside=Aside(f"s{n}")))
    assert {reject.reason for reject in out.reject} == {BAD_CONTEXT, NOT_MY_MESSAGE}
    out.clear()
    receive(engine, out, said(B1, aside=Aside("s")))
    assert not out.reject
    assert len(out.deliver) == 1
    assert str(client.broadcast(b"", stream="mine")) == "a/mine:1"


def test_nobody_can_use_up_the_streams_of_another_by_naming_them():
    _, engine, out = node()
    named = [StreamDot(2, f"s{n}", 1) for n in range(STREAMS_PER_NODE_MAX)]
    receive(engine, out, said(B1, aside=Aside("", tuple(named))))
    receive(engine, out, said(C1, aside=Aside("own")))
    assert not out.reject
    assert [str(tag) for tag in out.deliver] == ["c/own:1"]


def test_a_message_that_somebody_outside_the_group_hands_over_is_refused():
    _, engine, out = node()
    for peer in (-1, 3, 1 << 80):
        engine.receive(peer, said(B1), out)
    assert [reject.reason for reject in out.reject] == [NOT_A_MEMBER] * 3
    engine.receive(2, said(B1), out)
    assert dots(out.deliver) == [B1], "another member may relay it"


def hostile(slots: int) -> st.SearchStrategy[WireMessage]:
    """Numbers of any size and sign where peers put numbers; now and then they make sense."""
    small = st.integers(-1, slots + 1)
    number = small | st.integers() | st.integers(0, slots).map(lambda slot: slot << SEQ_BITS)
    loose: st.SearchStrategy[tuple[int, ...]] = st.lists(
        packed_dots(slots + 1) | number, max_size=slots + 1
    ).map(tuple)
    context = contexts(slots) | loose
    stream = st.sampled_from(("", "s", "t", "a/b", LONG_NAME))
    named = st.lists(st.builds(StreamDot, number, stream, number), max_size=3).map(tuple)
    aside = st.none() | st.builds(Aside, stream, named, st.just(()) | context)
    message = st.builds(Message, number, number, context, st.binary(max_size=2), aside)
    phantom = st.builds(Phantom, number, number, context)
    return message | phantom | st.builds(VectorMessage, number, context, st.just(b""))


def outcome(engine: Tagged, out: Effects) -> list[Any]:
    """By name: the numbers of streams are local."""
    tags = [
        [(str(tag), tag.context, tag.payload, tag.hidden) for tag in each]
        for each in (out.deliver, out.stable, out.k_stable)
    ]
    name = engine.past.dot_of
    waiting = sorted((name(entry.dot), name(entry.missing)) for entry in engine.waiting())
    return [tags, waiting, engine.words(), engine.delivered]


@given(executions(3, 14), st.lists(hostile(4), max_size=12), st.randoms(use_true_random=False))
def test_what_is_refused_leaves_no_trace_in_a_correct_execution(
    sent: list[Sent], nonsense: list[WireMessage], rng: random.Random
):
    """The outcome is that of a run without everything that was refused."""
    options = {"pending_per_origin_max": 4, "stability_batch": rng.choice((0, 1)), "k": 2}
    client, engine, out = node(4, 3, **options)
    clean_client, clean, clean_out = node(4, 3, **options)
    correct = [said(message.dot, *message.context) for message in sent]
    inputs: list[WireMessage] = [*correct, *nonsense]
    rng.shuffle(inputs)
    taken = 0
    for message in inputs:
        out.reject.clear()
        engine.receive(1, message, out)
        assert all(reject.detail for reject in out.reject)
        if not out.reject:
            clean.receive(1, message, clean_out)
            assert not clean_out.reject
        assert outcome(engine, out) == outcome(clean, clean_out)
        for tag, same in zip(out.deliver[taken:], clean_out.deliver[taken:], strict=True):
            client.consume(tag)
            clean_client.consume(same)
        taken = len(out.deliver)
    engine.flush(out)
    clean.flush(clean_out)
    assert outcome(engine, out) == outcome(clean, clean_out)
    assert client.phantom() == clean_client.phantom()


# ---- bounds --------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["stability_batch", "k", "pending_per_origin_max"])
def test_options_that_make_no_sense_are_refused_when_they_are_made(option: str):
    wrong: dict[str, Any] = {option: -1}
    with pytest.raises(LocalProtocolError, match=option):
        EngineOptions(**wrong)
    with pytest.raises(LocalProtocolError, match="at least 1"):
        EngineOptions(pending_per_origin_max=0)


def test_what_is_too_far_ahead_is_to_be_offered_again():
    _, engine, out = node(3, pending_per_origin_max=2)
    receive(engine, out, said(B2), said(B3), said(C2))
    assert [(r.reason, r.retry) for r in out.reject] == [(TOO_FAR_AHEAD, True)], (
        "b:3; c has its own"
    )
    assert "3" in out.reject[0].detail
    receive(engine, out, said(B1), said(B3))
    assert dots(out.deliver) == [B1, B2, B3]
    assert len(out.reject) == 1


@pytest.mark.parametrize("bound", [1, 2, 3])
def test_the_next_message_of_an_origin_is_accepted_however_full_the_buffer(bound: int):
    _, engine, out = node(3, pending_per_origin_max=bound)
    receive(engine, out, said(B1, C1), *[said(pack(1, seq)) for seq in range(2, bound + 1)])
    assert not out.reject
    assert len(engine.waiting()) == bound
    receive(engine, out, said(pack(1, bound + 1)), said(C1))
    assert [reject.retry for reject in out.reject] == [True]
    assert len(out.deliver) == bound + 1


@given(executions(4, 30), st.randoms(use_true_random=False), st.integers(1, 3))
def test_a_full_buffer_never_deadlocks(sent: list[Sent], rng: random.Random, bound: int):
    _, engine, out = node(5, 4, pending_per_origin_max=bound)
    link = [said(message.dot, *message.context) for message in sent]
    while link:
        rng.shuffle(link)
        refused = []
        for message in link:
            out.reject.clear()
            receive(engine, out, message)
            assert all(reject.retry for reject in out.reject)
            refused += [message] if out.reject else []
            assert len(engine.pending) <= bound * len(engine.delivered)
        assert len(refused) < len(link), "nothing moves any more"
        link = refused
    assert sorted(dots(out.deliver)) == sorted(message.dot for message in sent)
