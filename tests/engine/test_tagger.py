"""The flagship's client: what messages are tagged with, streams, phantoms, and misuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.causal.context import maximal
from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot, pack
from thence.causal.history import CausalHistory
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.streams import STREAMS_PER_NODE_MAX
from thence.engine.tag import STREAM_WINDOW_MAX, Tag, read_tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import EXPLICIT_STREAM, UNORDERED_STREAM, Tagger
from thence.errors import ForgottenTagError, LimitError, LocalProtocolError, UnknownTagError
from thence.message import (
    PAYLOAD_BYTES_MAX,
    STREAM_CHARS_MAX,
    Aside,
    Message,
    Phantom,
    StreamDot,
    WireMessage,
)

A1, A2, B1, B2, C1, C2 = pack(0, 1), pack(0, 2), pack(1, 1), pack(1, 2), pack(2, 1), pack(2, 2)


def node(size: int = 3, slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    return *make(Members("abcdefgh"[:size]), slot, EngineOptions(**options)), Effects()


def said(dot: int, *context: int, payload: bytes = b"", aside: Aside | None = None) -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, payload, aside)


def receive(engine: Tagged, out: Effects, *messages: WireMessage) -> list[Tag]:
    """What these messages make ready."""
    before = len(out.deliver)
    for message in messages:
        engine.receive(message.origin, message, out)
    return out.deliver[before:]


def names(tags: list[Tag]) -> list[str]:
    return [str(tag) for tag in tags]


# ---- what a message is tagged with ---------------------------------------------------------------


def test_3_6_a_message_is_tagged_with_what_was_consumed_not_with_what_is_queued():
    client, engine, out = node()
    ready = receive(engine, out, said(B1), said(C1))
    assert client.broadcast(b"").predecessors == ()
    client.consume(ready[0])
    second = client.broadcast(b"")
    assert second.predecessors == (A1, B1)
    client.consume(ready[1])
    assert second.predecessors == (A1, B1), "tagged at the call, for good"
    assert client.broadcast(b"").predecessors == (A2, C1)


def test_sending_replaces_the_context():
    client, engine, out = node()
    for tag in receive(engine, out, said(B1), said(C1)):
        client.consume(tag)
    assert client.broadcast(b"").predecessors == (B1, C1)
    assert client.broadcast(b"").predecessors == (A1,)


def test_consuming_removes_what_the_message_names():
    client, engine, out = node()
    for tag in receive(engine, out, said(B1), said(C1, B1), said(B2, C1)):
        client.consume(tag)
    assert client.broadcast(b"").predecessors == (B2,)


def test_the_middleware_sends_what_the_client_tagged():
    client, engine, out = node()
    tag = client.broadcast(b"early")
    for ready in receive(engine, out, said(B1)):
        client.consume(ready)
    engine.broadcast(tag, out)
    engine.broadcast(client.broadcast(b"late"), out)
    assert out.send == [said(A1, payload=b"early"), said(A2, A1, B1, payload=b"late")]


Step = tuple[int, int]


@given(st.integers(2, 4), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=40))
def test_contexts_are_the_maximal_dots_of_explicit_histories(size: int, steps: list[Step]):
    """Clients that exchange tags directly, in any causal order, against sets of dots."""
    nodes = [node(size, slot) for slot in range(size)]
    past: list[CausalHistory] = [CausalHistory()] * size
    histories: dict[int, CausalHistory] = {}
    sent: list[Message] = []
    for slot, choice in steps:
        slot %= size
        client, engine, out = nodes[slot]
        queue = [tag for tag in out.deliver if tag.packed not in past[slot]]
        if choice < 2 or not queue:
            tag = client.broadcast(b"")
            engine.broadcast(tag, out)
            assert tag.predecessors == maximal(past[slot].dots, histories)
            past[slot] = histories[tag.packed] = past[slot].event(tag.packed)
            sent.append(out.send[-1])
            for other, (_, peer, effects) in enumerate(nodes):
                if other != slot:
                    peer.receive(slot, sent[-1], effects)
        else:
            client.consume(queue[0])
            past[slot] = past[slot].union(histories[queue[0].packed])
            assert queue[0].predecessors == maximal(
                histories[queue[0].packed].dots - {queue[0].packed}, histories
            )
        assert client.phantom().context == maximal(past[slot].dots, histories)


# ---- phantoms ------------------------------------------------------------------------------------


def test_a_phantom_says_what_was_consumed_and_which_message_comes_next():
    client, engine, out = node()
    assert client.phantom() == Phantom(0, 1, ())
    ready = receive(engine, out, said(B1), said(C1))
    assert client.phantom() == Phantom(0, 1, ()), "ready, not consumed"
    client.consume(ready[0])
    assert client.phantom() == Phantom(0, 1, (B1,))
    client.broadcast(b"")
    client.consume(ready[1])
    assert client.phantom() == Phantom(0, 2, (A1, C1))
    engine.announce(client.phantom(), out)
    assert out.send == [Phantom(0, 2, (A1, C1))]


def test_a_phantom_names_what_streams_hide():
    client, engine, out = node()
    for tag in receive(engine, out, said(B1), said(C1, B1, aside=Aside("s"))):
        client.consume(tag)
    assert client.phantom() == Phantom(0, 1, (B1,))


# ---- streams -------------------------------------------------------------------------------------


def test_after_names_the_predecessors_on_a_stream_of_its_own():
    client, engine, out = node()
    b1, c1, b2 = receive(engine, out, said(B1), said(C1), said(B2, B1))
    for tag in (b1, c1, b2):
        client.consume(tag)
    tag = client.broadcast(b"x", after=[b1, c1])
    assert (str(tag), tag.stream, tag.origin, tag.seq) == ("a/explicit:1", EXPLICIT_STREAM, 0, 1)
    assert tag.predecessors == (B1, C1)
    assert b1 < tag
    assert tag.concurrent(b2)
    engine.broadcast(tag, out)
    assert out.send == [said(A1, B1, C1, payload=b"x", aside=Aside("explicit"))]
    assert client.broadcast(b"", after=[b2, b1]).raw_context == (B2,), "the newest of an origin"


def test_unordered_messages_have_no_predecessor_but_their_stream():
    client, engine, out = node()
    (b1,) = receive(engine, out, said(B1))
    client.consume(b1)
    first, second = client.broadcast(b"", ordered=False), client.broadcast(b"", ordered=False)
    assert names([first, second]) == ["a/unordered:1", "a/unordered:2"]
    assert first.stream == UNORDERED_STREAM
    assert first.predecessors == second.predecessors == ()
    assert first < second
    assert first.concurrent(b1)


def test_streams_are_independent_of_each_other():
    client, _, _ = node()
    left, right = client.broadcast(b"", stream="left"), client.broadcast(b"", stream="right")
    assert names([left, right]) == ["a/left:1", "a/right:1"]
    assert left.concurrent(right)
    third = client.broadcast(b"", stream="left", after=[right])
    assert (str(third), names_of(third)) == ("a/left:2", ["a/right:1"])
    assert right < third
    assert left < third


def names_of(tag: Tag) -> list[str]:
    return [str(dot) for dot in tag.context]


def test_the_next_usual_message_is_after_the_streams_and_says_what_they_hide():
    client, engine, out = node()
    (b1,) = receive(engine, out, said(B1))
    client.consume(b1)
    aside = client.broadcast(b"", after=[b1], stream="s")
    usual = client.broadcast(b"")
    assert names_of(usual) == ["a/s:1"]
    assert usual.raw_context == ()
    assert usual.hidden == (B1,)
    assert b1 < aside < usual
    engine.broadcast(aside, out)
    engine.broadcast(usual, out)
    assert out.send[1] == said(A1, aside=Aside("", (StreamDot(0, "s", 1),), (B1,)))
    assert client.broadcast(b"").predecessors == (A1,), "and the one after that only after it"


def test_messages_of_a_stream_wait_for_each_other_and_for_nobody_else():
    _, engine, out = node()
    ready = receive(engine, out, said(B2, aside=Aside("s")), said(B1), said(B1, aside=Aside("t")))
    assert names(ready) == ["b:1", "b/t:1"]
    (waiting,) = engine.waiting()
    assert str(engine.past.dot_of(waiting.dot)) == "b/s:2"
    assert str(engine.past.dot_of(waiting.missing)) == "b/s:1"
    assert names(receive(engine, out, said(B1, aside=Aside("s")))) == ["b/s:1", "b/s:2"]
    receive(engine, out, said(B1, aside=Aside("s")))
    assert [reject.reason for reject in out.reject] == ["duplicate"]


def test_a_message_waits_for_what_it_names_on_streams():
    _, engine, out = node()
    receive(engine, out, said(C1, aside=Aside("", (StreamDot(1, "s", 1),))))
    (waiting,) = engine.waiting()
    assert str(engine.past.dot_of(waiting.missing)) == "b/s:1"
    receive(engine, out, said(B1, B1, aside=Aside("s")))
    assert not out.deliver
    assert names(receive(engine, out, said(B1))) == ["b:1", "b/s:1", "c:1"]


def test_streams_take_no_part_in_stability_but_let_it_through():
    client, engine, out = node(2)
    for tag in receive(engine, out, said(B1), said(B1, B1, aside=Aside("s"))):
        client.consume(tag)
    engine.flush(out)
    assert names(out.stable) == ["b:1"]
    client, engine, out = node(3)
    through = Aside("", (StreamDot(1, "s", 1),), (B1,))
    for tag in receive(
        engine, out, said(B1), said(B1, B1, aside=Aside("s")), said(C1, aside=through)
    ):
        client.consume(tag)
    engine.flush(out)
    assert names(out.stable) == ["b:1"], "c:1 is after it, by way of b/s:1 alone"


def test_messages_of_streams_are_forgotten_with_the_first_usual_one_after_them():
    client, engine, out = node(2, stability_batch=1)
    through = said(B1, aside=Aside("", (StreamDot(1, "s", 2),)))
    on_stream = [said(B1, aside=Aside("s")), said(B2, aside=Aside("s"))]
    ready = receive(engine, out, *on_stream, through)
    for tag in ready:
        client.consume(tag)
    assert len(client.past.window) == 3
    engine.flush(out)
    client.stabilised(out.stable[0])
    assert not client.past.window
    with pytest.raises(UnknownTagError):
        client.find("b/s:1")


def test_a_stream_nobody_answers_is_remembered_up_to_a_bound():
    client, engine, out = node(2)
    (b1,) = receive(engine, out, said(B1))
    first = client.broadcast(b"", stream="s")
    client.consume(b1)
    for _ in range(STREAM_WINDOW_MAX):
        client.broadcast(b"", stream="s")
    assert len(client.past.window) == STREAM_WINDOW_MAX + 1
    assert first.payload == b""
    with pytest.raises(ForgottenTagError):
        first.precedes(b1)


@pytest.mark.parametrize("name", ["x" * (STREAM_CHARS_MAX + 1), "a/b", "\n"])
def test_a_stream_has_a_short_printable_name_without_slash(name: str):
    client, _, _ = node()
    with pytest.raises(LocalProtocolError, match="stream's name"):
        client.broadcast(b"", stream=name)
    assert not client.past.streams


def test_a_node_may_use_so_many_streams():
    client, _, _ = node()
    for n in range(STREAMS_PER_NODE_MAX):
        client.broadcast(b"", stream=f"s{n}")
    with pytest.raises(LimitError, match=str(STREAMS_PER_NODE_MAX)):
        client.broadcast(b"", stream="one more")
    assert client.broadcast(b"", stream="s0").seq == 2
    assert len(names_of(client.broadcast(b""))) == STREAMS_PER_NODE_MAX


def test_predecessors_cannot_be_named_and_denied():
    client, _, _ = node()
    with pytest.raises(LocalProtocolError, match="choose one"):
        client.broadcast(b"", after=[], ordered=False)


def test_after_takes_tags_of_other_nodes_and_stored_ones_if_consumed_here():
    client, engine, out = node()
    other, middleware, sent = node(3, 1)
    theirs = other.broadcast(b"")
    middleware.broadcast(theirs, sent)
    with pytest.raises(UnknownTagError):
        client.broadcast(b"", after=[theirs])
    (mine,) = receive(engine, out, sent.send[0])
    with pytest.raises(UnknownTagError, match="b:1"):
        client.broadcast(b"", after=[mine])
    client.consume(mine)
    assert client.broadcast(b"", after=[theirs]).predecessors == (B1,)
    assert client.broadcast(b"", after=[read_tag(bytes(theirs))]).raw_context == (B1,)
    assert client.past.streams == [(0, EXPLICIT_STREAM)]


# ---- find ----------------------------------------------------------------------------------------


def test_find_gives_this_nodes_tag_by_any_name():
    client, engine, out = node()
    (b1,) = receive(engine, out, said(B1))
    client.consume(b1)
    own = client.broadcast(b"")
    aside = client.broadcast(b"", stream="s")
    ways: list[Callable[[Tag], Tag | Dot | str | bytes]] = [
        lambda tag: tag,
        lambda tag: tag.dot,
        str,
        bytes,
        lambda tag: read_tag(bytes(tag)),
    ]
    for tag in (b1, own, aside):
        for name in ways:
            assert client.find(name(tag)) is tag


@pytest.mark.parametrize("name", ["b:2", "c:1", "a/s:1", "b/:1"])
def test_find_says_what_to_do_about_a_tag_it_does_not_have(name: str):
    client, engine, out = node()
    receive(engine, out, said(B1), said(C1))
    client.consume(out.deliver[0])
    with pytest.raises(UnknownTagError, match="Keep the Tag itself"):
        client.find(name)


@pytest.mark.parametrize("name", ["", "b", "b:", "b:0", "b:x", ":1", "nobody:1", b"", b"\xff"])
def test_find_of_what_names_nothing_is_an_error(name: str | bytes):
    client, _, _ = node()
    with pytest.raises(LocalProtocolError):
        client.find(name)


# ---- limits and misuse ---------------------------------------------------------------------------


def state(client: Tagger) -> tuple[object, ...]:
    past = client.past
    return client.sent, set(client.frontier.context), past.clock, set(past.window), set(past.unsent)


def test_a_payload_has_a_limit():
    client, _, _ = node()
    before = state(client)
    with pytest.raises(LimitError, match=str(PAYLOAD_BYTES_MAX)):
        client.broadcast(b"x" * (PAYLOAD_BYTES_MAX + 1))
    assert state(client) == before
    assert client.broadcast(b"x" * PAYLOAD_BYTES_MAX).seq == 1


def test_the_last_sequence_number_is_the_last():
    client, _, _ = node()
    client.sent = SEQ_MAX - 1
    assert client.broadcast(b"").seq == SEQ_MAX
    before = state(client)
    with pytest.raises(LimitError, match="new incarnation"):
        client.broadcast(b"")
    assert state(client) == before


def test_consuming_twice_or_what_is_not_ours_is_an_error_that_changes_nothing():
    client, engine, out = node()
    other, peer, there = node(3, 2)
    (here,) = receive(engine, out, said(B1))
    (theirs,) = receive(peer, there, said(B1))
    client.consume(here)
    own = client.broadcast(b"")
    before = state(client)
    for tag in (here, theirs, own):
        with pytest.raises(LocalProtocolError, match=str(tag)):
            client.consume(tag)
    assert state(client) == before
    other.consume(theirs)
    assert state(client) == before


def test_a_stable_event_is_taken_after_the_delivery_and_once():
    client, engine, out = node(2)
    (b1,) = receive(engine, out, said(B1, payload=b"p"))
    before = state(client)
    with pytest.raises(LocalProtocolError, match="b:1 cannot be forgotten"):
        client.stabilised(b1)
    assert state(client) == before
    client.consume(b1)
    engine.flush(out)
    assert b1.payload == b"p"
    client.stabilised(b1)
    before = state(client)
    with pytest.raises(LocalProtocolError, match="b:1 cannot be forgotten"):
        client.stabilised(b1)
    assert state(client) == before
    assert client.broadcast(b"").predecessors == (B1,), "forgotten, still what the next one follows"
