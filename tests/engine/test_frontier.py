"""The frontier: what the next message names; of what is consumed, and of what is confirmed."""

from __future__ import annotations

import random

from tests.seeds import seeds
from thence.causal.dot import SEQ_BITS, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.frontier import Confirmed, Frontier
from thence.engine.tag import Tag
from thence.engine.tagged import make
from thence.engine.tagger import Tagger
from thence.message import Message

NAMES = ["a", "b", "c"]
A1, B1, B2 = pack(0, 1), pack(1, 1), pack(1, 2)


def tag_of(client: Tagger, packed: int, *context: int) -> Tag:
    return Tag(client.past, packed, context, b"", [])


def content(frontier: Frontier) -> tuple[set[int], set[int], set[int]]:
    return set(frontier.context), set(frontier.hidden), set(frontier.stream_context)


def test_taking_replaces_what_is_named():
    client = Tagger(Members(NAMES), 2)
    frontier = Frontier()
    frontier.take(tag_of(client, A1))
    frontier.take(tag_of(client, B1))
    assert frontier.context == {A1, B1}
    frontier.take(tag_of(client, B2, A1, B1))
    assert frontier.context == {B2}


def test_a_peer_that_forgets_to_name_its_own_does_not_stay_in_the_context_twice():
    # Others would refuse this node's next message: two dots of one origin.
    client, engine = make(Members("ab"), 0, EngineOptions())
    out = Effects()
    for seq in (1, 2, 3):
        engine.receive(1, Message(1, seq, (), b""), out)
    assert [len(out.deliver), out.reject] == [3, []]
    for tag in out.deliver:
        client.consume(tag)
    assert client.broadcast(b"").raw_context == (pack(1, 3),)


def test_sending_leaves_only_the_own_dot():
    client = Tagger(Members(NAMES), 2)
    frontier = Frontier()
    frontier.take(tag_of(client, A1))
    frontier.send(pack(2, 1))
    assert frontier.context == {pack(2, 1)}
    assert frontier.phantom(2, 1).context == (pack(2, 1),)
    assert frontier.phantom(2, 1).seq == 2


def test_one_frontier_becomes_another_and_goes_on_alone():
    client = Tagger(Members(NAMES), 2)
    first, second = Frontier(), Frontier()
    first.take(tag_of(client, A1))
    second.become(first)
    first.take(tag_of(client, B1))
    assert second.context == {A1}
    assert first.context == {A1, B1}


def test_what_is_confirmed_follows_what_is_consumed_event_by_event():
    """The second frontier, told the same events later, is what the client's was then."""
    for seed in seeds(60):
        rng = random.Random(seed)
        nodes = [make(Members(NAMES), slot, EngineOptions()) for slot in range(3)]
        client = nodes[2][0]
        confirmed = Confirmed(2)
        was: list[tuple[Tag, tuple[set[int], set[int], set[int]]]] = []
        for _ in range(rng.randrange(5, 40)):
            sender, engine = rng.choice(nodes)
            out = Effects()
            if rng.random() < 0.4:
                known = [tag for tag in sender.past.window.values() if tag.index >= 0]
                after = rng.sample(known, min(len(known), rng.randrange(3)))
                tag = sender.broadcast(b"", after=after, stream=rng.choice("st"))
            else:
                tag = sender.broadcast(b"")
            engine.broadcast(tag, out)
            (message,) = out.send
            if sender is client:
                was.append((tag, content(client.frontier)))
            for other, at_other in nodes:
                if other is not sender:
                    out = Effects()
                    at_other.receive(sender.slot, message, out)
                    for each in out.deliver:
                        other.consume(each)
                        if other is client:
                            was.append((each, content(client.frontier)))
        for tag, then in was:
            if tag.origin == 2:
                confirmed.send(tag)
            else:
                confirmed.take(tag)
            assert content(confirmed.frontier) == then
            assert confirmed.reached[tag.packed >> SEQ_BITS] == tag.packed
            assert confirmed.clock == tag.index
        assert confirmed.phantom() == client.phantom()


def test_confirming_many_is_confirming_each():
    client = Tagger(Members(NAMES), 2)
    tags = [tag_of(client, A1), tag_of(client, B1, A1), tag_of(client, B2, B1)]
    at_once, one_by_one = Confirmed(2), Confirmed(2)
    at_once.take_many(tags)
    for tag in tags:
        one_by_one.take(tag)
    assert content(at_once.frontier) == content(one_by_one.frontier) == ({B2}, set(), set())
    assert at_once.reached == one_by_one.reached == {0: A1, 1: B2}
