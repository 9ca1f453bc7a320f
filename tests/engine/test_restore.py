"""A node after a crash: what is exported, what is restored, what is refused, and replaying."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.seeds import seeds
from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.frontier import Confirmed
from thence.engine.restore import Lost, State, export_state, restore
from thence.engine.tag import STREAM_WINDOW_MAX, Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import ForgottenTagError, JournalError, LocalProtocolError, UnknownTagError
from thence.message import Aside, Message, Phantom, StreamDot, WireMessage

NAMES = ["a", "b", "c"]
A1, A2, A3, B1, B2, C1, C2 = (
    pack(0, 1), pack(0, 2), pack(0, 3), pack(1, 1), pack(1, 2), pack(2, 1), pack(2, 2)
)  # fmt: skip


class Node:
    """Client, engine and what is confirmed; every event is confirmed at once unless told."""

    def __init__(self, slot: int = 0, names: list[str] = NAMES, **options: Any) -> None:
        self.slot, self.names, self.options = slot, names, EngineOptions(**options)
        made: tuple[Tagger, Tagged] = make(Members(names), slot, self.options)
        self.client, self.engine = made
        self.confirmed = Confirmed(slot)
        self.out = Effects()

    def hear(self, *messages: WireMessage, confirm: bool = True) -> list[Tag]:
        self.out.deliver.clear()
        for message in messages:
            self.engine.receive(message.origin, message, self.out)
        tags = list(self.out.deliver)
        for tag in tags:
            self.client.consume(tag)
            if confirm:
                self.confirmed.take(tag)
        return tags

    def say(self, payload: bytes = b"", **how: Any) -> Tag:
        tag = self.client.broadcast(payload, **how)
        self.confirmed.send(tag)
        self.engine.broadcast(tag, self.out)
        return tag

    def settle(self) -> list[Tag]:
        self.out.stable.clear()
        self.engine.flush(self.out)
        tags = list(self.out.stable)
        for tag in tags:
            self.client.stabilised(tag)
            self.engine.forget(tag)
        return tags

    def export(self, **more: Any) -> State:
        return export_state(self.client, self.engine, self.confirmed, **more)

    def reborn(self, state: State | None = None) -> tuple[Node, list[Tag]]:
        data = msgspec.msgpack.encode(self.export() if state is None else state)
        node = Node(self.slot, self.names, **msgspec.structs.asdict(self.options))
        again = msgspec.msgpack.decode(data, type=State)
        return node, restore(node.client, node.engine, node.confirmed, again)


def said(dot: int, *context: int, payload: bytes = b"", aside: Aside | None = None) -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, payload, aside)


# ---- what comes back -----------------------------------------------------------------------------


def test_what_was_confirmed_comes_back_and_what_was_not_does_not():
    node = Node()
    node.hear(said(B1, payload=b"one"))
    node.say(b"mine")
    node.hear(said(C1, B1))
    node.hear(said(B2, B1), confirm=False)
    state = node.export()
    assert [m.payload for m in state.messages] == [b"one", b"mine", b""]
    assert state.confirmed == (1, 1, 1)
    again, tags = node.reborn(state)
    assert [str(tag) for tag in tags] == ["b:1", "a:1", "c:1"]
    assert again.export() == state
    assert [str(tag) for tag in again.hear(said(C1, B1), said(B2, B1))] == ["b:2"]
    assert again.say().context == (Dot("a", 1), Dot("b", 2), Dot("c", 1))


def test_own_numbers_go_on():
    node = Node()
    node.say()
    node.say(stream="s")
    node.say()
    again, _ = node.reborn()
    assert str(again.say()) == "a:3"
    assert str(again.say(stream="s")) == "a/s:2"


def test_an_own_message_that_the_engine_never_saw_comes_back():
    node = Node()
    tag = node.client.broadcast(b"kept")
    with pytest.raises(LocalProtocolError, match="was not told"):
        node.export()
    node.confirmed.send(tag)
    again, tags = node.reborn()
    assert [(str(t), t.payload) for t in tags] == [("a:1", b"kept")]
    with pytest.raises(LocalProtocolError, match="not the next"):
        again.engine.broadcast(tags[0], again.out)


def test_what_others_know_is_found_again_from_contexts():
    node = Node()
    node.hear(said(B1), said(C1, B1))
    node.say()
    again, _ = node.reborn()
    assert [str(tag) for tag in again.settle()] == ["b:1"]


def test_what_a_phantom_said_must_be_said_again():
    node = Node()
    node.hear(said(B1))
    node.engine.receive(2, Phantom(2, 1, (B1,)), node.out)
    again, _ = node.reborn()
    assert again.settle() == []
    again.engine.receive(2, Phantom(2, 1, (B1,)), again.out)
    assert [str(tag) for tag in again.settle()] == ["b:1"]


def test_a_stable_message_that_was_confirmed_is_forgotten():
    node = Node()
    node.hear(said(B1), said(C1, B1))
    assert [str(tag) for tag in node.settle()] == ["b:1"]
    state = node.export()
    assert [m.origin for m in state.messages] == [2]
    again, tags = node.reborn(state)
    with pytest.raises(UnknownTagError):
        again.client.find("b:1")
    assert again.client.find("c:1") is tags[0]
    assert again.engine.words() == node.engine.words()
    assert [str(t) for t in again.hear(said(B1), said(B2, C1))] == ["b:2"], "b:1 is a duplicate"


def test_k_stable_is_not_told_twice():
    node = Node(k=2)
    (tag,) = node.hear(said(B1))
    node.engine.flush(node.out)
    assert node.out.k_stable == [tag]
    state = node.export(k_told=[tag])
    again, _ = node.reborn(state)
    again.engine.flush(again.out)
    assert again.out.k_stable == []
    again, tags = node.reborn(node.export())
    again.engine.flush(again.out)
    assert again.out.k_stable == tags, "it was not confirmed: told again"


def test_without_stability_only_numbers_and_context_come_back():
    node = Node(stability=False)
    node.hear(said(B1), said(C1, B1))
    node.say(stream="s")
    state = node.export()
    assert state.messages == ()
    again, tags = node.reborn(state)
    assert tags == []
    assert again.hear(said(B1), said(C1, B1)) == []
    assert again.say().context == (Dot("a/s", 1), Dot("c", 1))


def test_more_members_than_a_lane_has_bits():
    names = [f"n{i:03}" for i in range(130)]
    node = Node(125, names)
    node.hear(*[Message(j, 1, (), b"") for j in range(0, 130, 5) if j != 125])
    again, tags = node.reborn()
    assert len(tags) == 25
    assert {again.engine.known_by(tag) for tag in tags} == {2}, "its sender, and this node"


def test_streams_are_named_not_numbered():
    """The new process may number streams otherwise."""
    node = Node()
    node.hear(said(B1, aside=Aside("y")), said(C1, aside=Aside("x")))
    node.hear(said(B1, aside=Aside("", (StreamDot(2, "x", 1),))))
    again, _ = node.reborn()
    assert again.say().context == (Dot("b", 1), Dot("b/y", 1))
    second = Aside("x", (StreamDot(1, "y", 1),))
    assert [str(t) for t in again.hear(said(C1, aside=Aside("x")), said(C2, aside=second))] == [
        "c/x:2"
    ]


# ---- comparing -----------------------------------------------------------------------------------


def test_restored_tags_compare_as_before():
    node = Node()
    node.hear(said(B1), said(C1), said(B2, B1, C1))
    mine = node.say()
    again, (b1, c1, b2, a1) = node.reborn()
    assert b1 < b2 < a1
    assert c1 < b2
    assert b1.concurrent(c1)
    (c2,) = again.hear(said(C2, C1))
    assert c1 < c2
    assert c2.concurrent(b2)
    assert mine == a1, "a tag of the former life names the same message"


def test_what_a_bound_dropped_is_not_guessed_after_a_restart():
    node = Node()
    node.hear(said(B1))
    tags = [node.say(stream="s", after=[node.client.find("b:1")])]
    for _ in range(STREAM_WINDOW_MAX):
        tags.append(node.say(stream="s"))
    node.hear(said(C1))
    state = node.export()
    assert state.lost == (Lost(StreamDot(0, "s", 1), 1),)
    again, restored = node.reborn(state)
    b1, newest, c1 = restored[0], restored[-2], restored[-1]
    with pytest.raises(ForgottenTagError, match="dropped"):
        assert b1 < newest
    assert not c1 < newest
    assert restored[1] < newest
    (b2,) = again.hear(said(B2, B1))
    assert not b2 < c1


def test_what_a_bound_dropped_and_nobody_confirmed_comes_again():
    node = Node()
    node.say(stream="s")
    for n in range(1, STREAM_WINDOW_MAX + 3):
        node.hear(said(pack(1, n), aside=Aside("t")), confirm=False)
    state = node.export()
    assert state.lost == ()
    again, _ = node.reborn(state)
    (first,) = again.hear(said(B1, aside=Aside("t")))
    (second,) = again.hear(said(B2, aside=Aside("t")))
    assert first < second
    assert again.client.find("a/s:1").concurrent(second)


# ---- settling ------------------------------------------------------------------------------------


def test_a_settled_message_is_stable_without_a_word():
    node = Node()
    b1, c1, a1 = *node.hear(said(B1), said(C1)), node.say()
    node.engine.settle([b1, c1, a1])
    assert node.engine.known_by(b1) == 3
    node.engine.flush(node.out)
    assert node.out.stable == []
    for tag in (b1, c1, a1):
        node.client.stabilised(tag)
        node.engine.forget(tag)
    assert not node.client.past.window


def test_while_a_former_life_is_carried_out_again_nothing_is_told_stable():
    node = Node(stability_batch=1)
    knowledge = node.engine.knowledge
    knowledge.pause()
    heard = node.hear(said(B1), said(C1))
    for at in range(2, 41):
        both = pack(1, at - 1), pack(2, at - 1)
        heard += node.hear(said(pack(1, at), *both), said(pack(2, at), *both))
    assert node.out.stable == []
    for tag in heard[:60]:
        node.engine.settle([tag])
        node.client.stabilised(tag)
        node.engine.forget(tag)
    assert len(knowledge.log) < 40, "and not all of it until the end"
    knowledge.resume()
    assert node.settle() == heard[60:-2], "once, and not what was settled"


def test_a_wide_group_settles_too():
    names = [f"n{i:03}" for i in range(130)]
    node = Node(125, names)
    (tag,) = node.hear(Message(3, 1, (), b""))
    node.engine.settle([tag])
    assert node.engine.known_by(tag) == 130


def test_settling_out_of_order_or_what_cannot_be_stable_is_refused():
    node = Node()
    b1, c1 = node.hear(said(B1), said(C1, B1))
    with pytest.raises(LocalProtocolError, match="before b:1"):
        node.engine.settle([c1])
    on_stream = node.say(stream="s")
    with pytest.raises(LocalProtocolError, match="cannot be stable"):
        node.engine.settle([b1, on_stream])
    node.engine.receive(1, said(B2), node.out)
    with pytest.raises(LocalProtocolError, match="not consumed"):
        node.engine.settle([node.out.deliver[-1]])
    other = Node(1)
    with pytest.raises(LocalProtocolError, match="cannot be stable"):
        node.engine.settle([other.say()])
    assert node.engine.knowledge.log[0] is b1, "nothing has changed"
    node.engine.settle([b1])
    node.client.stabilised(b1)
    with pytest.raises(LocalProtocolError, match="forgotten"):
        node.engine.settle([b1])
    node.engine.settle([c1])


def test_replaying_every_event_gives_the_same_state():
    """A journal is a state and the events since: received, sent, told stable, in order."""
    for seed in seeds(40):
        rng = random.Random(seed)
        nodes = [Node(slot) for slot in range(3)]
        watched = nodes[0]
        events: list[tuple[str, Any, Any]] = []
        start = rng.randrange(20)
        state = watched.export()
        for step in range(60):
            if step == start:
                state, events = watched.export(), []
            node = rng.choice(nodes)
            how: dict[str, Any] = {"stream": "s"} if rng.random() < 0.2 else {}
            payload = bytes([step])
            node.say(payload, **how)
            if node is watched:
                events.append(("send", payload, how))
            message = node.out.send.pop()
            for other in nodes:
                if other is not node:
                    other.hear(message)
                    if other is watched:
                        events.append(("receive", node.slot, message))
            if rng.random() < 0.3:
                for tag in watched.settle():
                    events.append(("stable", tag.dot, None))
        again, _ = watched.reborn(state)
        for kind, what, more in events:
            if kind == "send":
                again.say(what, **more)
            elif kind == "receive":
                again.hear(more)
            else:
                tag = again.client.find(what)
                again.engine.settle([tag])
                again.client.stabilised(tag)
        assert again.export() == watched.export(), seed
        assert again.engine.words() == watched.engine.words()


# ---- what is refused -----------------------------------------------------------------------------


def test_a_state_is_restored_into_a_fresh_node_of_the_same_name():
    node = Node()
    node.hear(said(B1))
    state = node.export()
    for other in (Node(1), Node(0, ["a", "b", "d"]), Node(0, ["a", "b"]), node):
        with pytest.raises(LocalProtocolError):
            restore(other.client, other.engine, other.confirmed, state)
    without = Node(stability=False)
    with pytest.raises(LocalProtocolError, match="without"):
        restore(without.client, without.engine, without.confirmed, state)


def _message(state: State, at: int, **fields: Any) -> dict[str, Any]:
    messages = list(state.messages)
    messages[at] = msgspec.structs.replace(messages[at], **fields)
    return {"messages": tuple(messages)}


IMPOSSIBLE: dict[str, Callable[[State], dict[str, Any]]] = {
    "too few counts": lambda s: {"confirmed": s.confirmed[:-1]},
    "a message is missing": lambda s: {"messages": (*s.messages[:-2], s.messages[-1])},
    "the last is missing": lambda s: {"messages": s.messages[:-1]},
    "twice": lambda s: {"messages": (*s.messages, s.messages[-1])},
    "out of order": lambda s: {"messages": s.messages[::-1]},
    "of no member": lambda s: _message(s, 0, origin=7),
    "names what is not there": lambda s: _message(s, 0, context=(C2,)),
    "names no member": lambda s: _message(s, 0, context=(pack(9, 1),)),
    "names itself": lambda s: _message(s, 0, context=(B1,)),
    "hides nonsense": lambda s: _message(s, 0, aside=Aside("", (), (C2, C1))),
    "a stream of no member": lambda s: _message(s, 0, aside=Aside("", (StreamDot(9, "s", 1),))),
    "a stream's dot that is not there": lambda s: _message(
        s, 0, aside=Aside("", (StreamDot(1, "t", 9),))
    ),
    "an impossible stream": lambda s: _message(s, 0, aside=Aside("a/b")),
    "a context that is not there": lambda s: {"context": (pack(0, 9),)},
    "a context that is not sorted": lambda s: {"context": (C1, B1)},
    "a context of no member": lambda s: {"context": (pack(9, 1),)},
    "a stream in the context": lambda s: {"stream_context": (StreamDot(0, "x", 5),)},
    "a stream without its messages": lambda s: {"streams": (StreamDot(9, "x", 5),)},
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_state_that_cannot_be_is_refused(what: str):
    node = Node()
    node.hear(said(B1), said(C1, B1), said(B1, aside=Aside("t")))
    node.say(stream="s")
    for _ in range(3):
        node.say()
    state = node.export()
    node.reborn(state)
    with pytest.raises(JournalError, match="cannot be the state"):
        node.reborn(msgspec.structs.replace(state, **IMPOSSIBLE[what](state)))
