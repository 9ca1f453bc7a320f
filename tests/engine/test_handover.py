"""A newcomer goes on from what a member has taken; messages are handed on for others."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from tests.engine.elastic_world import World
from tests.seeds import seeds
from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot, pack
from thence.causal.members import Members
from thence.engine import bursts
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.handover import begin, latest_dots, relay, state_for, taken
from thence.engine.reject import DUPLICATE, NOT_A_MEMBER
from thence.engine.restore import State
from thence.engine.tag import LANE_BITS, Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import JournalError, LocalProtocolError, UnknownTagError
from thence.message import Chain, Message, Phantom, WireMessage

A1, A2, B1, B2, C1, C2 = (pack(slot, n) for slot in range(3) for n in (1, 2))
D1 = pack(3, 1)
OPTIONS = EngineOptions()
EVERYTHING = 1 << 40


def node(names: str | list[str] = "abc", slot: int = 0) -> tuple[Tagger, Tagged, Effects]:
    return *make(Members(names), slot, OPTIONS), Effects()


def said(dot: int, *context: int, payload: bytes = b"") -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, payload)


def receive(engine: Tagged, out: Effects, *messages: WireMessage) -> list[Tag]:
    before = len(out.deliver)
    for message in messages:
        engine.receive(message.origin, message, out)
    return out.deliver[before:]


def take(client: Tagger, tags: list[Tag]) -> list[Tag]:
    for tag in tags:
        client.consume(tag)
    return tags


def tell(client: Tagger, engine: Tagged, out: Effects) -> list[Tag]:
    """The application takes what is found stable."""
    out.stable.clear()
    engine.flush(out)
    for tag in out.stable:
        client.stabilised(tag)
        engine.forget(tag)
    return list(out.stable)


def join(client: Tagger, engine: Tagged, name: str, waiting: Any = ()) -> State:
    slot = engine.members.add(name)
    engine.admit()
    state = state_for(client, engine, taken(client, engine, waiting), slot)
    return msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State)


# ---- what a newcomer begins with -----------------------------------------------------------------


def test_a_newcomer_begins_with_what_was_taken_and_not_with_what_waits():
    client, engine, out = node()
    take(client, receive(engine, out, said(B1, payload=b"b"), said(C1, B1)))
    client.broadcast(b"tagged, and not sent yet")
    waiting = receive(engine, out, said(B2, B1), said(C2, C1, B2))
    confirmed = taken(client, engine, waiting)
    state = join(client, engine, "d", waiting)
    assert state.slot == 3
    assert state.members == ("a", "b", "c", "d")
    assert state.confirmed == (1, 1, 1, 0)
    assert [(m.origin, m.payload[:1]) for m in state.messages] == [(1, b"b"), (2, b""), (0, b"t")]
    assert state.context == (A1,)
    take(client, waiting)
    assert confirmed.reached[1] == B1, "later events do not change it"
    assert confirmed.frontier.context == {A1}

    newcomer, new, mine = begin(state, 0b1111, OPTIONS)
    assert mine.reached == {0: A1, 1: B1, 2: C1, 3: 3 << SEQ_BITS}
    assert newcomer.phantom() == Phantom(3, 1, (A1,))
    assert mine.phantom() == newcomer.phantom()
    assert all(tag.knows(3) for tag in newcomer.past.window.values())
    effects = Effects()
    tags = receive(new, effects, said(A1, C1), said(C2, B2, C1), said(B2, B1))
    assert [str(tag) for tag in tags] == ["b:2", "c:2"]
    assert [each.reason for each in effects.reject] == [DUPLICATE]
    first = newcomer.broadcast(b"")
    assert first.dot == Dot("d", 1)
    assert first.context == (Dot("a", 1),), "b:2 and c:2 are delivered, not taken"


def test_what_is_consumed_among_what_waits_is_passed_over():
    client, engine, out = node()
    tags = receive(engine, out, said(B1), said(B2, B1))
    client.consume(tags[0])
    assert taken(client, engine, tags).reached[1] == B1


def test_a_newcomer_compares_as_its_provider_does():
    client, engine, out = node()
    take(client, receive(engine, out, said(B1), said(C1), said(B2, B1, C1)))
    bursts.post(client, engine, [b"1", b"2", b"3"], out)
    state = join(client, engine, "d")
    newcomer, new, _ = begin(state, 0b1111, OPTIONS)
    window = client.past.window
    for x in window.values():
        for y in window.values():
            assert newcomer.find(x).precedes(newcomer.find(y)) == x.precedes(y)
    (late,) = take(newcomer, receive(new, Effects(), said(C2, C1)))
    assert newcomer.find("c:1") < late
    assert late.concurrent(newcomer.find("a:3"))


def test_what_was_forgotten_is_not_in_it_and_is_not_delivered_again():
    client, engine, out = node()
    take(client, receive(engine, out, said(B1), said(C1, B1)))
    tell(client, engine, out)
    state = join(client, engine, "d")
    assert [m.origin for m in state.messages] == [2]
    newcomer, new, confirmed = begin(state, 0b1111, OPTIONS)
    with pytest.raises(UnknownTagError):
        newcomer.find("b:1")
    assert receive(new, Effects(), said(B1), said(B2, B1, C1)) == [new.latest[1]]
    dots = latest_dots(newcomer, confirmed)
    assert dots == ([Dot("b", 1), Dot("c", 1)], [Dot("b", 1)])
    assert dots == latest_dots(client, taken(client, engine, ()))


def test_things_become_stable_once_every_member_knows_them_the_newcomer_included():
    client, engine, out = node()
    take(client, receive(engine, out, said(B1), said(C1, B1)))
    state = join(client, engine, "d")
    newcomer, new, _ = begin(state, 0b1111, OPTIONS)
    effects = Effects()
    assert tell(newcomer, new, effects) == []
    receive(new, effects, client.phantom())
    assert [str(t) for t in tell(newcomer, new, effects)] == ["b:1"], "a, b, c and itself have it"
    receive(new, effects, said(B2, C1))
    assert [str(t) for t in tell(newcomer, new, effects)] == ["c:1"]
    assert tell(client, engine, out) == [], "d is not known to have b:1"
    receive(engine, out, newcomer.phantom())
    assert [str(t) for t in tell(client, engine, out)] == ["b:1"]


def test_messages_of_former_members_are_in_it():
    client, engine, out = node()
    take(client, receive(engine, out, said(B1), said(C1, B1), said(B2, B1, C1)))
    engine.members.remove(1)
    engine.dismiss(1)
    state = join(client, engine, "d")
    assert [m.origin for m in state.messages] == [1, 2, 1]
    newcomer, new, _ = begin(state, 0b1101, OPTIONS)
    assert len(new.members) == 3
    effects = Effects()
    receive(new, effects, said(pack(1, 3), B2), client.phantom())
    assert [each.reason for each in effects.reject] == [NOT_A_MEMBER]
    assert newcomer.find("b:1") < newcomer.find("c:1") < newcomer.find("b:2")
    assert [str(t) for t in tell(newcomer, new, effects)] == ["b:1", "c:1"]
    receive(new, effects, said(C2, B2, C1))
    assert [str(t) for t in tell(newcomer, new, effects)] == ["b:2"]


@pytest.mark.parametrize("size", [LANE_BITS, 2 * LANE_BITS + 1])
def test_a_newcomer_beyond_a_lane(size: int):
    names = [f"n{i}" for i in range(size)]
    client, engine, out = node(names)
    take(client, receive(engine, out, said(B1)))
    state = join(client, engine, "new")
    newcomer, new, _ = begin(state, (1 << size + 1) - 1, OPTIONS)
    tag = newcomer.find("n1:1")
    assert tag.knows(size)
    effects = Effects()
    receive(new, effects, *[Phantom(slot, 1, (B1,)) for slot in range(size) if slot != 1])
    assert tell(newcomer, new, effects) == [tag]


# ---- what is refused -----------------------------------------------------------------------------


def test_only_a_member_that_has_sent_nothing_is_a_newcomer():
    client, engine, out = node("abcd")
    take(client, receive(engine, out, said(B1)))
    confirmed = taken(client, engine, ())
    state_for(client, engine, confirmed, 2)
    engine.members.remove(3)
    engine.dismiss(3)
    unadmitted = engine.members.add("e")
    for slot in (-1, 0, 1, 3, unadmitted, 9):
        with pytest.raises(LocalProtocolError, match=f"slot {slot} "):
            state_for(client, engine, confirmed, slot)


@pytest.mark.parametrize("how", [{"stream": "s"}, {"to": [1]}])
def test_streams_and_multicasts_are_not_handed_over(how: dict[str, Any]):
    client, engine, out = node()
    engine.broadcast(client.broadcast(b"", **how), out)
    with pytest.raises(LocalProtocolError, match="newcomer cannot"):
        state_for(client, engine, taken(client, engine, ()), 2)


def test_a_state_that_cannot_be_is_refused():
    client, engine, out = node()
    take(client, receive(engine, out, said(B1)))
    state = join(client, engine, "d")
    with pytest.raises(LocalProtocolError, match="slot 3, which is not a member"):
        begin(state, 0b0111, OPTIONS)
    with pytest.raises(LocalProtocolError, match="mask"):
        begin(state, 0b11111, OPTIONS)
    with pytest.raises(JournalError, match="missing"):
        begin(msgspec.structs.replace(state, confirmed=(0, 2, 0, 0)), 0b1111, OPTIONS)


# ---- relay ---------------------------------------------------------------------------------------


def test_what_is_relayed_is_what_was_sent():
    client, engine, out = node()
    own = bursts.post(client, engine, [b"1", b"2", b"3"], out)
    sent = [said(A1, payload=b"1"), *Chain(0, 2, [b"2", b"3"]).messages()]
    assert relay(engine, 0, 1, 3, EVERYTHING) == sent
    assert relay(engine, 0, 2, 2, EVERYTHING) == sent[1:2]
    assert relay(engine, 0, 3, 9, EVERYTHING) == sent[2:]
    assert relay(engine, 0, 1, 3, 1) == sent[:1], "one is too much, and has to be"
    client.broadcast(b"4")
    assert len(relay(engine, 0, 1, 4, EVERYTHING)) == 3, "tagged, and not sent yet"
    messages = [said(B1, payload=b"x"), said(B2, A2, B1, payload=b"y")]
    receive(engine, out, *messages, said(pack(1, 4), pack(1, 3)))
    found = relay(engine, 1, 1, 4, EVERYTHING)
    assert found == messages, "delivered, taken or not; not what is held back"
    receive(engine, out, Phantom(2, 1, (own[0].packed,)))
    take(client, out.deliver)
    assert tell(client, engine, out) == own[:1]
    assert relay(engine, 0, 1, 3, EVERYTHING) == [], "the first is forgotten"
    assert relay(engine, 0, 2, 3, EVERYTHING) == sent[1:]
    assert relay(engine, 2, 1, 5, EVERYTHING) == []


# ---- at random -----------------------------------------------------------------------------------


def test_groups_that_change_at_random():
    """Members come and go, messages come in any order, are thrown away and come again."""
    for seed in seeds(150):
        world = World(random.Random(seed), 2 + seed % 3, 6)
        try:
            world.run((60, 200, 500)[seed % 7 % 3])
            world.finish()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def test_groups_that_grow_beyond_a_lane_at_random():
    """Everybody says what it has while a newcomer is waited for, so nothing may become stable."""
    for seed in seeds(3):
        world = World(random.Random(seed), LANE_BITS - 1, LANE_BITS + 3)
        try:
            for _ in range(3):
                world.run(60)
                world.admit(world.any_node())
                for node in world.nodes.values():
                    world.announce(node)
                world.settle()
                world.start(world.any_node())
            world.finish()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
