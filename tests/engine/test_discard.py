"""Members that come and go in a running engine, and what is thrown away of those who go."""

from __future__ import annotations

from typing import Any

import pytest

from thence.causal.dot import SEQ_BITS, SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine import bursts
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.reject import NOT_A_MEMBER
from thence.engine.tag import LANE_BITS, Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.message import Aside, Chain, Message, Phantom, WireMessage

A1, B1, B2, B3, B4 = pack(0, 1), *(pack(1, n) for n in (1, 2, 3, 4))
C1, C2, D1, D2 = pack(2, 1), pack(2, 2), pack(3, 1), pack(3, 2)


def node(size: int = 3, slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    names = [f"n{i:03}" for i in range(size)]
    return *make(Members(names), slot, EngineOptions(**options)), Effects()


def said(dot: int, *context: int, payload: bytes = b"", aside: Aside | None = None) -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, payload, aside)


def receive(engine: Tagged, out: Effects, *items: WireMessage | Chain) -> None:
    for item in items:
        if isinstance(item, Chain):
            bursts.receive_chain(engine, item.origin, item, out)
        else:
            engine.receive(item.origin, item, out)


def dots(tags: list[Tag]) -> list[int]:
    return [tag.packed for tag in tags]


def held_state(engine: Tagged) -> tuple[Any, ...]:
    """All that says what is held back."""
    chains = engine.chains
    return (
        engine.held(), engine.waiting(), engine.words(), chains.count, list(chains.by_first),
        chains.dots(), dict(engine.held_aside), sorted(engine.watchers), list(engine.delivered),
    )  # fmt: skip


# ---- discard -------------------------------------------------------------------------------------


def test_what_is_discarded_is_as_if_it_had_never_arrived():
    _, engine, out = node()
    _, other, ignored = node()
    kept = [said(C1, B1), said(C2, C1, payload=b"c")]
    gone = [said(B1, D1, payload=b"four"), said(B2, B1, payload=b"x"), Chain(1, 3, [b"12", b"3"])]
    for each in (engine, other):
        each.members.add("d")
        each.admit()
    receive(engine, out, gone[0], kept[0], *gone[1:], kept[1])
    receive(other, ignored, *kept)
    assert engine.discard(1) == (4, 8)
    assert held_state(engine) == held_state(other)
    assert engine.ahead[1] == engine.delivered[1]
    assert engine.discard(1) == (0, 0)
    assert not out.deliver


def test_what_was_discarded_is_delivered_when_it_comes_again():
    client, engine, out = node(4)
    receive(engine, out, said(B1, D1), said(C1, B1), Chain(1, 2, [b"2", b"3"]), said(B4, B3, D2))
    assert engine.discard(1)[0] == 4
    receive(engine, out, said(D1))
    assert dots(out.deliver) == [D1], "nobody of the discarded watches it any more"
    receive(engine, out, Chain(1, 2, [b"2", b"3"]), said(B4, B3, D2))
    assert engine.chains.count == 2, "held as a chain again"
    receive(engine, out, said(B1, D1))
    assert dots(out.deliver) == [D1, B1, C1, B2, B3]
    receive(engine, out, said(D2, D1))
    assert dots(out.deliver)[5:] == [D2, B4]
    assert not out.reject
    assert not engine.pending
    assert not engine.watchers
    for tag in out.deliver:
        client.consume(tag)
    assert out.deliver[1] < out.deliver[2]


def test_others_who_watch_the_same_dot_go_on_watching_in_their_order():
    _, engine, out = node(6)
    e1, f1 = pack(4, 1), pack(5, 1)
    for first in (B1, C1, e1, f1):
        receive(engine, out, said(first, D1))
    assert engine.discard(4)[0] == 1
    assert engine.discard(1)[0] == 1
    receive(engine, out, said(D1))
    assert dots(out.deliver) == [D1, C1, f1]


def test_what_was_delivered_stays_and_only_the_rest_is_discarded():
    _, engine, out = node()
    receive(engine, out, said(B1), said(B3, B2, payload=b"3"))
    assert engine.discard(1) == (1, 1)
    assert engine.ahead[1] == B1
    receive(engine, out, Chain(1, 2, [b"", b""]))
    assert dots(out.deliver) == [B1, B2, B3]


def test_the_limit_of_what_is_held_back_counts_anew():
    _, engine, out = node(pending_per_origin_max=2)
    second = [said(B2, aside=Aside(stream)) for stream in "stu"]
    receive(engine, out, *second)
    assert len(out.reject) == 1
    assert engine.discard(1)[0] == 2
    out.clear()
    receive(engine, out, *second[:2], said(B1, aside=Aside("t")))
    assert not out.reject
    assert [str(tag) for tag in out.deliver] == ["n001/t:1", "n001/t:2"]


# ---- dismiss -------------------------------------------------------------------------------------


def test_nobody_waits_for_a_member_that_was_dismissed():
    client, engine, out = node()
    receive(engine, out, said(B1), Phantom(2, 3, (B1,)), said(C2, C1, payload=b"ab"))
    client.consume(out.deliver[0])
    engine.flush(out)
    assert out.stable == []
    engine.members.remove(2)
    assert engine.dismiss(2) == (1, 2)
    engine.flush(out)
    assert dots(out.stable) == [B1]
    assert not engine.knowledge.phantoms
    assert not engine.pending
    receive(engine, out, said(C1), Phantom(2, 1, (B1,)))
    assert [each.reason for each in out.reject] == [NOT_A_MEMBER] * 2


def test_what_a_dismissed_member_sent_waits_for_the_others_alone():
    client, engine, out = node()
    receive(engine, out, said(C1, payload=b"last"))
    client.consume(out.deliver[0])
    engine.members.remove(2)
    engine.dismiss(2)
    engine.flush(out)
    assert out.stable == []
    receive(engine, out, said(B1, C1))
    engine.flush(out)
    assert dots(out.stable) == [C1]


def test_the_last_one_left_finds_everything_stable():
    client, engine, out = node(2)
    tags = bursts.post(client, engine, [b"x", b"y"], out)
    engine.members.remove(1)
    engine.dismiss(1)
    engine.flush(out)
    assert out.stable == tags


# ---- admit ---------------------------------------------------------------------------------------


def test_a_new_member_is_heard_and_waited_for():
    client, engine, out = node()
    receive(engine, out, said(B1), said(C1, B1))
    for tag in out.deliver:
        client.consume(tag)
    receive(engine, out, said(D1, C1), Phantom(3, 1, (C1,)))
    assert [each.reason for each in out.reject] == [NOT_A_MEMBER] * 2
    slot = engine.members.add("d")
    engine.admit()
    engine.flush(out)
    assert out.stable == [], "d is not known to have B1"
    receive(engine, out, Phantom(slot, 1, (C1,)))
    engine.flush(out)
    assert dots(out.stable) == [B1], "b is not known to have C1"
    receive(engine, out, said(D1, C1), said(B2, B1, D1), Phantom(2, 2, (B2,)))
    client.consume(out.deliver[2])
    client.consume(out.deliver[3])
    mine = client.broadcast(b"")
    assert mine.raw_context == (B2,)
    engine.broadcast(mine, out)
    engine.flush(out)
    assert dots(out.stable) == [B1, C1, D1]


def test_chains_and_bursts_go_on_with_a_new_member():
    client, engine, out = node()
    engine.members.add("d")
    engine.admit()
    assert client.past.rows is engine.rows
    assert len(client.past.rows) == 4
    receive(engine, out, Chain(3, 2, [b"2", b"3"]), said(D1))
    assert dots(out.deliver) == [D1, D2, pack(3, 3)]
    for tag in out.deliver:
        client.consume(tag)
    tags = bursts.post(client, engine, [b"x", b"y", b"z"], out)
    assert tags[0].raw_context == (pack(3, 3),)
    assert out.deliver[0] < tags[2]
    receive(engine, out, Phantom(1, 1, (tags[2].packed,)), Phantom(2, 1, (tags[2].packed,)))
    engine.flush(out)
    assert dots(out.stable) == [D1, D2, pack(3, 3)], "d is not known to have the others"
    receive(engine, out, Phantom(3, 4, (tags[2].packed,)))
    assert not out.reject
    engine.flush(out)
    assert len(out.stable) == 6


@pytest.mark.parametrize("size", [LANE_BITS, 2 * LANE_BITS, 3 * LANE_BITS + 5])
def test_members_beyond_a_lane_are_waited_for(size: int):
    """What was delivered before there were more lanes is told to the new member as well."""
    client, engine, out = node(size)
    receive(engine, out, said(B1), said(C1, B1))
    for tag in out.deliver:
        client.consume(tag)
    for slot in range(1, size):
        receive(engine, out, Phantom(slot, 2 if slot < 3 else 1, (C1,)))
    engine.knowledge._use_phantoms(engine.delivered)  # heard, and not looked at yet
    slot = engine.members.add("new")
    assert slot == size
    engine.admit()
    engine.flush(out)
    assert out.stable == []
    receive(engine, out, Phantom(slot, 1, (C1,)))
    engine.flush(out)
    assert dots(out.stable) == [B1, C1]
    receive(engine, out, said(pack(slot, 1), C1))
    (tag,) = out.deliver[2:]
    client.consume(tag)
    assert engine.known_by(tag) == 2
    for other in range(2, size):
        engine.members.remove(other)
        engine.dismiss(other)
    receive(engine, out, Phantom(1, 2, (tag.packed,)))
    engine.flush(out)
    assert out.stable[2:] == [tag]
