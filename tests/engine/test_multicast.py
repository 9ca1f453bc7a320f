"""Messages for some members only: what recipients and the others see, and what may not be."""

from __future__ import annotations

from typing import Any

import pytest

from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.frontier import Confirmed
from thence.engine.outgoing import message_of
from thence.engine.reject import BAD_RECIPIENTS, WRONG_KIND
from thence.engine.restore import export_state, restore
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import LocalProtocolError, UnknownTagError
from thence.message import Aside, Message, Phantom, StreamDot, WireMessage, hollow_form
from thence.wire.codec import decode, encode

A1, A2, A3, B1, B2, C1, C2, D1 = (
    pack(0, 1), pack(0, 2), pack(0, 3), pack(1, 1), pack(1, 2), pack(2, 1), pack(2, 2), pack(3, 1)
)  # fmt: skip


class Node:
    def __init__(self, slot: int = 2, size: int = 3, **options: Any) -> None:
        made: tuple[Tagger, Tagged] = make(
            Members("abcdefgh"[:size]), slot, EngineOptions(**options)
        )
        self.client, self.engine = made
        self.out = Effects()

    def hear(self, *messages: WireMessage) -> list[Tag]:
        """What the application takes of them; hollow ones go their way."""
        self.out.deliver.clear()
        for message in messages:
            self.engine.receive(message.origin, message, self.out)
        for tag in self.out.deliver:
            self.client.consume(tag)
        return [tag for tag in self.out.deliver if not tag.hollow]

    def say(self, payload: bytes = b"", **how: Any) -> Tag:
        tag = self.client.broadcast(payload, **how)
        self.engine.broadcast(tag, self.out)
        return tag

    def settle(self) -> list[str]:
        self.out.stable.clear()
        self.engine.flush(self.out)
        for tag in self.out.stable:
            self.client.stabilised(tag)
            self.engine.forget(tag)
        return [str(tag) for tag in self.out.stable]

    def names(self) -> tuple[str, ...]:
        """What the next message would name."""
        past, frontier = self.client.past, self.client.frontier
        return tuple(str(past.dot_of(d)) for d in sorted(frontier.context))


def said(dot: int, *context: int, to: tuple[int, ...] = (), hollow: bool = False) -> Message:
    aside = Aside(to=to, hollow=hollow) if to else None
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, b"" if hollow else b"text", aside)


def hollow(dot: int, *context: int, to: tuple[int, ...] = (1,)) -> Message:
    return said(dot, *context, to=to, hollow=True)


# ---- sending -------------------------------------------------------------------------------------


def test_a_multicast_has_its_dot_and_context_and_says_whom_it_is_for():
    node = Node(0, 4)
    node.hear(said(B1))
    tag = node.say(b"secret", to=[3, 1, 3])
    assert (str(tag), tag.to, tag.context) == ("a:1", (1, 3), (Dot("b", 1),))
    (message,) = node.out.send
    assert message.to == (1, 3)
    emptied = hollow_form(message)
    assert emptied.payload == b""
    assert (emptied.origin, emptied.seq, emptied.context) == (0, 1, (B1,))
    assert emptied.aside == Aside(to=(1, 3), hollow=True)
    assert decode(encode(emptied)) == emptied
    assert str(node.say()) == "a:2"
    assert node.client.find("a:2").context == (Dot("a", 1),), "the sender has taken it"


def test_a_multicast_to_everyone_is_a_broadcast():
    node = Node(0)
    assert node.say(to=[1, 2]).to == ()
    assert node.out.send[0].aside is None
    with pytest.raises(LocalProtocolError, match="everyone"):
        hollow_form(node.out.send[0])


@pytest.mark.parametrize("to", [[], [0], [0, 1], [3], [-1], [1, 99]])
def test_recipients_are_other_members(to: list[int]):
    node = Node(0)
    with pytest.raises(LocalProtocolError, match="other members"):
        node.client.broadcast(b"", to=to)
    assert node.client.sent == 0, "nothing has changed"


def test_a_multicast_needs_stability_and_the_default_stream():
    with pytest.raises(LocalProtocolError, match="stability"):
        Node(0, stability=False).say(to=[1])
    node = Node(0)
    for how in ({"stream": "s"}, {"after": []}, {"ordered": False}):
        with pytest.raises(LocalProtocolError, match="stream of its own"):
            node.say(to=[1], **how)
    private = node.say(to=[1])
    with pytest.raises(LocalProtocolError, match="some members only"):
        node.say(after=[private])
    assert node.say(after=[]).context == ()


# ---- those it is not for -------------------------------------------------------------------------


def test_it_is_ordered_and_never_handed_over():
    node = Node()
    assert [str(tag) for tag in node.hear(said(B1, A2), said(A1), hollow(A2, A1))] == ["a:1", "b:1"]
    assert node.names() == ("b:1",)
    with pytest.raises(UnknownTagError, match="not for this node"):
        node.client.find("a:2")


def test_what_a_hollow_message_names_is_behind_what_names_it():
    node = Node()
    node.hear(said(A1), hollow(A2, A1))
    assert node.names() == ("a:1",), "a hollow message moves nothing"
    node.hear(said(A3, A2))
    assert node.names() == ("a:3",)


def test_a_peer_that_forgets_to_name_its_own_hollow_ones_is_not_in_the_context_twice():
    node = Node()
    node.hear(said(A1), hollow(A2), hollow(A3), said(pack(0, 4)))
    assert node.names() == ("a:4",)
    assert node.client.phantom().context == (pack(0, 4),)


def test_a_chain_of_hollow_messages_is_seen_through():
    node = Node(3, 4)
    node.hear(said(A1), said(C1))
    node.hear(hollow(B1, A1, to=(0,)), hollow(A2, B1), hollow(B2, A2, to=(0,)))
    assert node.names() == ("a:1", "c:1")
    node.hear(said(C2, B2, C1))
    assert node.names() == ("c:2",)


def test_a_long_chain_is_walked_once():
    node = Node()
    node.hear(said(A1))
    node.hear(*[hollow(pack(0, n), pack(0, n - 1)) for n in range(2, 3000)])
    node.hear(said(B1, pack(0, 2999)))
    assert node.names() == ("b:1",)
    asides = [tag.aside for tag in node.client.past.window.values() if tag.aside is not None]
    assert all(aside.passed for aside in asides if aside.hollow)


def test_streams_behind_a_hollow_message_are_behind_what_names_it():
    node = Node()
    stream = Message(0, 1, (), b"", Aside("s"))
    over = Message(0, 1, (), b"", Aside("", (StreamDot(0, "s", 1),), (), (1,), True))
    node.hear(stream, over)
    assert node.client.frontier.stream_context
    node.hear(said(B1, A1))
    assert not node.client.frontier.stream_context
    assert node.names() == ("b:1",)


def test_what_a_stream_hides_is_seen_through_too():
    node = Node()
    node.hear(said(B1), Message(1, 1, (B1,), b"", Aside("s")))
    assert node.client.frontier.hidden == {B1}
    node.hear(Message(0, 1, (), b"", Aside("", (StreamDot(1, "s", 1),), (B1,), (1,), True)))
    node.hear(said(A2, A1))
    assert node.client.frontier.hidden == set()
    assert node.client.phantom().context == (A2,)


def test_a_second_frontier_follows_later():
    node, confirmed = Node(), Confirmed(2)
    taken = [*node.hear(said(A1)), *node.hear(hollow(A2, A1), said(A3, A2))]
    hollow_tag = node.client.past.window[A2]
    node.hear(said(B1))
    for tag in (taken[0], hollow_tag, taken[1]):
        confirmed.take(tag)
    assert confirmed.frontier.context == {A3}
    assert confirmed.reached == {0: A3}


def test_comparisons_go_through_hollow_messages():
    node = Node()
    (a1,) = node.hear(said(A1))
    (b1,) = node.hear(hollow(A2, A1), said(B1, A2))
    (b2,) = node.hear(said(B2, B1))
    mine = node.say()
    assert a1 < b1 < b2 < mine
    assert a1 < mine
    assert not b1 < a1
    (a3,) = node.hear(said(A3, A2))
    assert a1 < a3
    assert a3.concurrent(b1)


def test_a_payload_that_should_not_have_come_is_dropped():
    node = Node()
    node.hear(said(A1, to=(1,)), said(B1, A1))
    assert node.client.past.window[A1].hollow
    assert node.client.past.window[A1].payload == b""
    assert message_of(node.client.past.window[A1]) == hollow(A1)


# ---- stability -----------------------------------------------------------------------------------


def test_a_hollow_message_does_not_tell_where_its_sender_is():
    """Whoever reads the trace of this node sees no message of a's after b:1."""
    node = Node()
    node.hear(said(B1), hollow(A1, B1))
    assert node.settle() == []
    node.hear(Phantom(0, 2, (A1,)))
    assert node.settle() == ["b:1"]


def test_a_phantom_that_came_before_a_hollow_message_still_counts():
    node = Node()
    node.hear(said(B1), Phantom(0, 1, (B1,)), hollow(A1, B1))
    assert node.settle() == ["b:1"]
    node = Node()
    node.hear(said(B1), hollow(A1, B1), Phantom(0, 1, (B1,)))
    assert node.settle() == ["b:1"]


def test_it_is_stable_when_everybody_is_past_it_and_forgotten_silently():
    node = Node()
    node.hear(said(A1), hollow(A2, A1), Phantom(0, 3, (A2,)), Phantom(1, 1, (A2,)))
    assert node.settle() == ["a:1"], "c itself is not past a:2: its next message is not after it"
    node.hear(said(A3, A2))
    assert node.names() == ("a:3",)
    assert node.settle() == ["a:2"]
    assert node.out.stable[0].hollow
    node.hear(Phantom(1, 1, (A3,)))
    assert node.settle() == ["a:3"]
    assert node.engine.words() == Node().engine.words()


def test_k_counts_those_it_is_for():
    node = Node(1, 4, k=3)
    (tag,) = node.hear(said(A1, to=(1, 2)))
    node.hear(said(D1), Phantom(3, 2, (A1,)))
    node.engine.flush(node.out)
    assert (node.engine.known_by(tag), node.out.k_stable) == (2, []), "d is past it, no holder"
    node.hear(said(C1, A1))
    node.engine.flush(node.out)
    assert node.engine.known_by(tag) == 3
    assert node.out.k_stable == [tag]


def test_k_is_at_most_all_there_are():
    node = Node(1, 4, k=4)
    (tag,) = node.hear(said(A1, to=(1,)))
    node.engine.flush(node.out)
    assert node.out.k_stable == [tag]


def test_k_counts_in_every_lane():
    node = Node(1, 3)
    members = Members([f"n{i:03}" for i in range(130)])
    made: tuple[Tagger, Tagged] = make(members, 125, EngineOptions())
    node.client, node.engine = made
    (tag,) = node.hear(said(A1, to=(70, 125)))
    assert node.engine.known_by(tag) == 2
    node.hear(Message(70, 1, (A1,), b""))
    node.engine.flush(node.out)
    assert node.engine.known_by(tag) == 3


# ---- peers ---------------------------------------------------------------------------------------


def test_the_hollow_form_is_refused_by_a_recipient():
    node = Node(1)
    assert node.hear(hollow(A1)) == []
    assert [reject.reason for reject in node.out.reject] == [BAD_RECIPIENTS]
    assert [tag.payload for tag in node.hear(said(A1, to=(1,)))] == [b"text"]


def test_a_node_without_stability_takes_no_multicast():
    node = Node(stability=False)
    node.hear(hollow(A1), said(B1, to=(2,)))
    assert [reject.reason for reject in node.out.reject] == [WRONG_KIND, WRONG_KIND]


# ---- after a crash -------------------------------------------------------------------------------


def test_hollow_messages_come_back_hollow():
    node, confirmed = Node(), Confirmed(2)
    node.hear(said(A1), hollow(A2, A1))
    confirmed.take_many(list(node.client.past.window.values()))
    state = export_state(node.client, node.engine, confirmed)
    assert state.confirmed == (2, 0, 0)
    again = Node()
    tags = restore(again.client, again.engine, Confirmed(2), state)
    assert [(str(tag), tag.hollow, again.engine.known_by(tag)) for tag in tags] == [
        ("a:1", False, 2), ("a:2", True, 0)
    ]  # fmt: skip
    again.hear(said(B1, A2))
    assert again.names() == ("b:1",)


def test_own_multicasts_come_back_with_their_payload():
    node, confirmed = Node(0), Confirmed(0)
    confirmed.send(node.say(b"secret", to=[2]))
    again = Node(0)
    (tag,) = restore(
        again.client, again.engine, Confirmed(0), export_state(node.client, node.engine, confirmed)
    )
    assert (tag.to, tag.payload, tag.hollow) == ((2,), b"secret", False)
    assert message_of(tag) == node.out.send[0]
