"""Callers who take the wrong tag to the wrong place: an error, and nothing has changed."""

from __future__ import annotations

from typing import Any

import pytest

from thence.causal.dot import Dot, pack
from thence.causal.members import MemberId, Members
from thence.engine import reject
from thence.engine.base import EngineOptions, memory_bytes
from thence.engine.effects import Effects
from thence.engine.tag import STREAM_WINDOW_MAX
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import ForgottenTagError, LocalProtocolError, UnknownTagError
from thence.message import Aside, Message, Phantom


def node(slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    return *make(Members("abc"), slot, EngineOptions(**options)), Effects()


@pytest.mark.parametrize("stream", ["", "s"])
def test_a_tag_of_another_node_cannot_be_broadcast(stream: str):
    _, engine, out = node()
    foreign, _, _ = node(1)
    before = (engine.words(), list(engine.delivered))
    with pytest.raises(LocalProtocolError):
        engine.broadcast(foreign.broadcast(b"", stream=stream), out)
    assert out.send == []
    assert (engine.words(), list(engine.delivered)) == before


def test_a_delivered_tag_cannot_be_broadcast():
    _, engine, out = node()
    engine.receive(1, Message(1, 1, (), b""), out)
    with pytest.raises(LocalProtocolError):
        engine.broadcast(out.deliver[0], out)
    assert out.send == []


def test_only_what_is_stable_here_can_be_forgotten():
    client, engine, out = node()
    foreign, _, _ = node(1)
    unsent = client.broadcast(b"kept")
    streamed = client.broadcast(b"kept", stream="s")
    engine.receive(1, Message(1, 1, (), b""), out)
    delivered = out.deliver[0]
    client.consume(delivered)
    for tag in (unsent, streamed, delivered, foreign.broadcast(b"")):
        with pytest.raises(LocalProtocolError):
            client.stabilised(tag)
    assert unsent.payload == streamed.payload == b"kept"
    assert client.find("b:1") is delivered


def test_a_number_out_of_range_names_nobody_elses_message():
    client, engine, out = node()
    engine.receive(1, Message(1, 1, (), b""), out)
    client.consume(out.deliver[0])
    with pytest.raises(UnknownTagError):
        client.find(Dot("a", (1 << 40) + 1))
    with pytest.raises(LocalProtocolError):
        Members("ab").pack(Dot("a", (1 << 40) + 1))


def test_a_phantom_handed_over_by_a_stranger_is_refused():
    _, engine, out = node()
    engine.receive(7, Phantom(1, 1, ()), out)
    assert [each.reason for each in out.reject] == [reject.NOT_A_MEMBER]


@pytest.mark.parametrize(
    "message",
    [
        Message(1, "1", (), b""),  # type: ignore[arg-type]
        Message(1, 1, None, b""),  # type: ignore[arg-type]
        Message(1, 1, ("x",), b""),  # type: ignore[arg-type]
        Message("b", 1, (), b""),  # type: ignore[arg-type]
        Message(1, 1, (), None),  # type: ignore[arg-type]
        Phantom(1, None, ()),  # type: ignore[arg-type]
    ],
)
def test_a_field_of_the_wrong_type_is_refused(message: Message | Phantom):
    _, engine, out = node()
    before = (engine.words(), engine.waiting())
    engine.receive(1, message, out)
    assert [each.reason for each in out.reject] == [reject.WRONG_KIND]
    assert (engine.words(), engine.waiting()) == before
    engine.receive(1, Message(1, 1, (), b""), out)
    assert len(out.deliver) == 1


def test_a_mistake_of_the_engine_is_not_blamed_on_the_peer():
    _, engine, out = node()
    engine.delivered[1] = "broken"  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        engine.receive(1, Message(1, 1, (), b""), out)
    assert not out.reject


def test_an_unprintable_stream_is_refused():
    _, engine, out = node()
    engine.receive(1, Message(1, 1, (), b"", Aside("\n")), out)
    assert [each.reason for each in out.reject] == [reject.BAD_STREAM]


def test_members_refuse_what_cannot_be_printed_and_read_back():
    for wrong in (MemberId("a/b:"), MemberId("b", -3), "a#" + "9" * 5000, "a#1"):
        with pytest.raises(LocalProtocolError):
            Members([wrong])
    with pytest.raises(LocalProtocolError):
        Members("ab").remove(-1)


def test_memory_is_told_in_bytes_too():
    _, engine, out = node()
    engine.receive(1, Message(1, 1, (), b""), out)
    assert memory_bytes(engine) == 8 * engine.words() > 0


def test_answers_do_not_look_at_the_context_again():
    client, engine, out = node()
    engine.receive(1, Message(1, 1, (), b""), out)
    engine.receive(2, Message(2, 1, (pack(1, 1),), b""), out)
    first, second = out.deliver
    client.consume(first)
    client.consume(second)
    assert first < second
    second.named = ()  # what it named no longer matters: the answer is there
    assert first < second


def test_streams_of_others_do_not_take_answers_away():
    client, engine, _ = node()

    def take(message: Message) -> None:
        out = Effects()
        engine.receive(message.origin, message, out)
        for tag in out.deliver:
            client.consume(tag)

    take(Message(1, 1, (), b""))
    take(Message(2, 1, (), b""))
    first, second = client.find("b:1"), client.find("c:1")
    for seq in range(1, STREAM_WINDOW_MAX + 3):
        take(Message(1, seq, (), b"", Aside("s")))
    assert first.concurrent(second)


def test_what_came_before_a_dropped_message_of_a_stream_is_an_error_not_a_guess():
    client, engine, out = node()
    engine.receive(1, Message(1, 1, (), b""), out)
    client.consume(out.deliver[0])
    first = out.deliver[0]
    streamed = [client.broadcast(b"", after=[first], stream="s")]
    streamed += [client.broadcast(b"", stream="s") for _ in range(STREAM_WINDOW_MAX + 1)]
    with pytest.raises(ForgottenTagError, match="was dropped"):
        first.precedes(streamed[-1])


def test_what_is_held_back_on_streams_is_bounded_for_all_streams_of_a_node_together():
    _, engine, out = node(pending_per_origin_max=4)
    for stream in range(50):
        for seq in range(2, 10):
            engine.receive(1, Message(1, seq, (), b"", Aside(f"s{stream}")), out)
    assert len(engine.waiting()) == 4
    assert all(each.retry for each in out.reject)
    assert engine.past.opened == {1: {"s0", "s1"}}  # what is refused leaves no trace
    for stream in range(50):  # the next of a stream is always taken, and makes room again
        for seq in range(1, 10):
            engine.receive(1, Message(1, seq, (), b"", Aside(f"s{stream}")), out)
    assert len(out.deliver) == 450
    assert engine.waiting() == []
