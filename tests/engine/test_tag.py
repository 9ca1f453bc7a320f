"""Tags as users hold them: order, equality, storage, forgetting, and what a question costs."""

from __future__ import annotations

import gc
import itertools
import pickle
from types import ModuleType
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.seeds import seeds
from tests.strategies import Sent, executions
from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.tag import STREAM_WINDOW_MAX, Past, Tag, read_tag
from thence.engine.tagged import SPEC, Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import ForgottenTagError, LocalProtocolError, UnknownTagError
from thence.forms import interpreted_engine
from thence.message import Message
from thence.sim.walk import WalkOptions, random_walk

B1, B2, C1, C2 = pack(1, 1), pack(1, 2), pack(2, 1), pack(2, 2)
D1, E1 = pack(3, 1), pack(4, 1)


def node(size: int = 4, slot: int = 0, **options: Any) -> tuple[Tagger, Tagged, Effects]:
    return *make(Members("abcdefgh"[:size]), slot, EngineOptions(**options)), Effects()


def said(dot: int, *context: int, payload: bytes = b"") -> Message:
    return Message(dot >> SEQ_BITS, dot & SEQ_MAX, context, payload)


def taken(client: Tagger, engine: Tagged, out: Effects, *messages: Message) -> list[Tag]:
    """The tags of these messages, delivered and consumed."""
    before = len(out.deliver)
    for message in messages:
        engine.receive(message.origin, message, out)
    for tag in out.deliver[before:]:
        client.consume(tag)
    return out.deliver[before:]


def diamond() -> tuple[Tag, Tag, Tag, Tag]:
    """b:1 before c:1 and d:1, which are concurrent, and both before b:2."""
    client, engine, out = node()
    messages = said(B1), said(C1, B1), said(D1, B1), said(B2, C1, D1)
    b1, c1, d1, b2 = taken(client, engine, out, *messages)
    return b1, c1, d1, b2


# ---- order ---------------------------------------------------------------------------------------


def test_operators_say_what_happened_before():
    b1, c1, d1, b2 = diamond()
    assert b1 < c1
    assert b1 < b2
    assert c1 < b2
    assert not c1 < b1
    assert c1 > b1
    assert not b1 > c1
    assert b1 <= c1 <= c1
    assert b2 >= d1 >= d1
    assert not b2 <= d1
    assert b1.precedes(b2)
    assert not b1.precedes(b1)


def test_concurrent_is_neither_before_nor_after_nor_the_same():
    b1, c1, d1, _ = diamond()
    assert c1.concurrent(d1)
    assert d1.concurrent(c1)
    assert not c1.concurrent(c1)
    assert not b1.concurrent(c1)
    for a, b in ((c1, d1), (d1, c1)):
        assert not a < b
        assert not a > b
        assert not a <= b
        assert not a >= b


def test_own_messages_compare_before_the_middleware_takes_them():
    client, engine, out = node()
    (b1,) = taken(client, engine, out, said(B1))
    own = client.broadcast(b"")
    (c1,) = taken(client, engine, out, said(C1))
    after = client.broadcast(b"")
    assert b1 < own < after
    assert own.concurrent(c1)
    assert c1 < after


def test_other_types_do_not_compare():
    b1, *_ = diamond()
    assert b1 != "b:1"
    for compare in (Tag.__lt__, Tag.__gt__, Tag.__le__, Tag.__ge__):
        assert compare(b1, "b:1") is NotImplemented
    with pytest.raises(TypeError):
        assert b1 < 3


def test_what_was_not_consumed_cannot_be_compared_yet():
    client, engine, out = node()
    (b1,) = taken(client, engine, out, said(B1))
    engine.receive(2, said(C1), out)
    with pytest.raises(UnknownTagError, match="c:1 was not consumed here yet"):
        b1.precedes(out.deliver[-1])
    with pytest.raises(UnknownTagError, match="c:1"):
        b1.concurrent(out.deliver[-1])


@given(executions(4, 30), st.booleans())
def test_answers_are_those_of_explicit_histories(sent: list[Sent], backwards: bool):
    client, engine, out = node(5, 4)
    tags = taken(client, engine, out, *[said(each.dot, *each.context) for each in sent])
    history = {each.dot: each.history for each in sent}
    pairs = list(itertools.product(tags, tags))
    for a, b in reversed(pairs) if backwards else pairs:
        before = history[a.packed].precedes(history[b.packed])
        assert (a < b) == a.precedes(b) == before
        assert a.concurrent(b) == history[a.packed].concurrent(history[b.packed])


@pytest.mark.parametrize("streams", [0.0, 0.5])
def test_answers_are_true_in_random_executions(streams: float):
    """The oracle compares at random moments and, at the end, every pair of every node."""
    for seed in seeds(40):
        options = WalkOptions(seed, nodes=4, messages=24, phantoms=6, streams=streams)
        random_walk(SPEC, options)


# ---- equality, printing, storage -----------------------------------------------------------------


def test_a_tag_equals_the_tag_of_the_same_message_at_another_node():
    here, there = (node(4, slot) for slot in (0, 3))
    mine = taken(*here, said(B1), said(C1, B1))
    theirs = taken(*there, said(B1), said(C1, B1))
    assert mine == theirs
    assert mine[0] != theirs[1]
    assert len({*mine, *theirs}) == 2
    assert [hash(tag) for tag in mine] == [hash(tag) for tag in theirs]
    assert mine[0] < theirs[1], "its context says so"
    assert not theirs[1] < mine[0]
    assert not mine[0].concurrent(theirs[1])
    assert not mine[0].concurrent(theirs[0])


def test_tags_print_as_people_name_messages():
    client, engine, out = node()
    b1, c1 = taken(client, engine, out, said(B1), said(C1, B1))
    assert (str(b1), repr(b1)) == ("b:1", "<Tag b:1 after []>")
    assert repr(c1) == "<Tag c:1 after [b:1]>"
    assert repr(client.broadcast(b"", after=[b1, c1])) == "<Tag a/explicit:1 after [b:1, c:1]>"
    assert c1.dot == Dot("c", 1)
    assert c1.context == (Dot("b", 1),)
    assert c1.vector is None


def test_incarnations_are_part_of_the_name():
    client, engine = make(Members(["a", "b#2"]), 0, EngineOptions())
    (tag,) = taken(client, engine, Effects(), said(B1))
    assert str(tag) == "b#2:1"
    assert read_tag(bytes(tag)) == tag


def test_a_stored_tag_comes_back_equal_and_detached():
    client, engine, out = node()
    b1, c1 = taken(client, engine, out, said(B1, payload=b"p"), said(C1, B1))
    aside = client.broadcast(b"", after=[c1], stream="s")
    last = client.broadcast(b"")
    for tag in (b1, c1, aside, last):
        for copy in (read_tag(bytes(tag)), pickle.loads(pickle.dumps(tag))):
            assert copy == tag
            assert tag == copy
            assert hash(copy) == hash(tag)
            assert (str(copy), repr(copy), copy.context) == (str(tag), repr(tag), tag.context)
            assert (copy.seq, copy.stream) == (tag.seq, tag.stream)
            assert copy.past is not tag.past
            assert bytes(copy) == bytes(tag)
            assert client.find(copy) is tag


def test_detached_tags_compare_by_what_they_carry_or_say_what_to_do():
    b1, c1, d1, b2 = [read_tag(bytes(tag)) for tag in diamond()]
    assert b1 < b2, "one origin"
    assert b1 < c1 < b2
    assert c1 > b1
    assert not b2 < d1
    assert b1 <= b1
    assert not b1.concurrent(b1)
    with pytest.raises(LocalProtocolError, match=r"Tagger\.find"):
        c1.precedes(d1)
    with pytest.raises(LocalProtocolError, match=r"Tagger\.find"):
        d1.concurrent(c1)


GARBAGE = [
    b"",
    b"\x00",
    b"\xff" * 9,
    b"b:7",
    msgspec.msgpack.encode("b:7"),
    msgspec.msgpack.encode((("b", 1),)),
    msgspec.msgpack.encode((("b", 0), ())),
    msgspec.msgpack.encode((("b", -1), ())),
    msgspec.msgpack.encode((("b", SEQ_MAX + 1), ())),
    msgspec.msgpack.encode((("b", 1.5), ())),
    msgspec.msgpack.encode((("", 1), ())),
    msgspec.msgpack.encode((("a:b", 1), ())),
    msgspec.msgpack.encode((("a#x", 1), ())),
    msgspec.msgpack.encode((("a#1", 1), ())),
    msgspec.msgpack.encode((("x" * 999, 1), ())),
    msgspec.msgpack.encode((("b", 1), (("c", 0),))),
    msgspec.msgpack.encode((("b", 1), (("", 1),))),
    msgspec.msgpack.encode((("b", 1), "c:1")),
]


@pytest.mark.parametrize("data", GARBAGE)
def test_bytes_that_are_no_tag_are_refused(data: bytes):
    with pytest.raises(LocalProtocolError, match="not a tag"):
        read_tag(data)


@given(st.binary(max_size=60))
def test_any_bytes_are_a_tag_or_refused(data: bytes):
    try:
        tag = read_tag(data)
    except LocalProtocolError:
        return
    assert read_tag(bytes(tag)) == tag


@given(st.data())
def test_damaged_bytes_are_a_tag_or_refused(data: st.DataObject):
    *_, b2 = diamond()
    stored = bytearray(bytes(b2))
    at = data.draw(st.integers(0, len(stored) - 1))
    stored[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(stored)))
    for damaged in (bytes(stored), bytes(stored[:cut])):
        try:
            assert str(read_tag(damaged))
        except LocalProtocolError as error:
            assert "not a tag" in str(error)


# ---- forgetting ----------------------------------------------------------------------------------


def forgotten() -> tuple[Tagger, Tagged, Effects, Tag, Tag]:
    """b:1 and c:1, concurrent; b:1 is stable and forgotten, c:1 is not."""
    client, engine, out = node(3)
    b1, c1, _ = taken(client, engine, out, said(B1, payload=b"p"), said(C1), said(C2, B1, C1))
    engine.flush(out)
    assert out.stable == [b1]
    return client, engine, out, b1, c1


def test_a_question_about_a_forgotten_tag_says_what_to_do():
    client, _, _, b1, c1 = forgotten()
    client.stabilised(b1)
    with pytest.raises(
        ForgottenTagError, match="Compare tags before you take the stable event"
    ) as e:
        b1.precedes(c1)
    assert "whether b:1 happened before c:1" in str(e.value)
    assert "b:1 became stable" in str(e.value)
    assert not c1.precedes(b1), "it was consumed later"


def test_answers_stay_available_once_asked():
    client, _, _, b1, c1 = forgotten()
    assert b1.concurrent(c1)
    client.stabilised(b1)
    assert b1.concurrent(c1)
    assert not b1 < c1


def test_what_is_consumed_after_a_stable_event_is_after_it():
    client, engine, out, b1, _ = forgotten()
    client.stabilised(b1)
    (b2,) = taken(client, engine, out, said(B2, C2))
    assert b1 < b2
    assert b1 < client.broadcast(b"")


def test_a_forgotten_tag_is_still_equal_printable_and_ordered_with_its_origin():
    client, engine, out, b1, _ = forgotten()
    stored = bytes(b1)
    client.stabilised(b1)
    (b2,) = taken(client, engine, out, said(B2, C2))
    assert b1 < b2
    assert str(b1) == "b:1"
    assert bytes(b1) == stored
    assert read_tag(stored) == b1
    assert b1 <= b1


def test_without_stability_a_tag_knows_its_own_predecessors_and_no_more():
    client, engine, out = node(4, stability=False)
    b1, c1, d1 = taken(client, engine, out, said(B1), said(C1, B1), said(D1, C1))
    assert b1 < c1 < d1
    with pytest.raises(ForgottenTagError, match="whether b:1 happened before d:1") as error:
        b1.precedes(d1)
    assert "Turn stability on" in str(error.value)


def test_order_by_way_of_a_dropped_message_of_a_stream_is_not_guessed():
    client, engine, out = node()
    (b1,) = taken(client, engine, out, said(B1))
    link = client.broadcast(b"", stream="s", after=[b1])
    for _ in range(STREAM_WINDOW_MAX):
        newest = client.broadcast(b"", stream="s")
    last = client.broadcast(b"", stream="t", after=[newest])
    assert link < newest < last
    with pytest.raises(ForgottenTagError):
        b1.precedes(last)


def reachable(roots: list[Tag], stop: set[int]) -> int:
    """Objects that these tags keep alive, apart from what the node itself holds."""
    seen = set(stop)
    work: list[object] = list(roots)
    count = 0
    while work:
        item = work.pop()
        if id(item) in seen or isinstance(item, type | ModuleType):
            continue
        seen.add(id(item))
        count += 1
        work.extend(gc.get_referents(item))
    return count


def conversation(rounds: int) -> tuple[Tagger, Tagged, list[Tag]]:
    """c, b and this node answer each other; the application compares, and keeps every tag."""
    client, engine, out = node(3, stability_batch=1)
    kept: list[Tag] = []
    for n in range(1, rounds + 1):
        context = [pack(0, n - 1)] if n > 1 else []
        first, second = said(pack(2, n), *context, payload=b"p"), said(pack(1, n), pack(2, n))
        kept += taken(client, engine, out, first, second)
        kept.append(client.broadcast(b"payload"))
        assert kept[-3] < kept[-1], "not named by its context"
        engine.broadcast(kept[-1], out)
        for tag in out.stable:
            client.stabilised(tag)
        out.clear()
    return client, engine, kept


def test_a_forgotten_tag_keeps_neither_its_payload_nor_the_past():
    """Each tag costs the same, however long the past was."""
    client, engine, kept = conversation(400)
    assert len(client.past.window) < 9
    old = kept[:-9]
    assert {tag.payload for tag in old} == {b""}
    assert not any(tag.before for tag in old)
    stop = {id(client.past), id(engine), id(client)}
    alone = [reachable([tag], stop) for tag in old[20:]]
    assert max(alone) <= min(alone) + 4
    assert max(alone) < 20
    half, whole = (reachable(old[:count], stop) for count in (500, 1000))
    assert whole < 2.5 * half, "small numbers are shared objects, so not quite 2"


def test_answers_are_no_longer_than_what_is_not_forgotten():
    _, _, kept = conversation(400)
    asked = [tag.answers for tag in kept if tag.answers is not None]
    assert len(asked) >= 400
    assert max(answers.bits.bit_length() for answers in asked) < 64


# ---- what a question costs -----------------------------------------------------------------------


def test_a_tag_remembers_its_answers_after_the_first_question():
    client, engine, out = node(5)
    messages = said(B1), said(E1), said(C1, B1), said(D1, C1)
    b1, e1, _, d1 = taken(client, engine, out, *messages)
    assert d1.answers is None
    assert b1 < d1
    first = d1.answers
    assert first is not None
    assert e1.concurrent(d1)
    assert b1 < d1
    assert d1.answers is first


def test_only_the_first_question_about_a_tag_walks_the_past(monkeypatch: pytest.MonkeyPatch):
    """On the interpreted form: methods of the compiled one cannot be replaced."""
    engine_module = interpreted_engine()
    client, engine = engine_module.make(Members("abcd"), 0, EngineOptions())
    past_type = type(client.past)
    walks = 0
    original = past_type.ancestors

    def counted(past: Past, tag: Tag) -> object:
        nonlocal walks
        walks += 1
        return original(past, tag)

    monkeypatch.setattr(past_type, "ancestors", counted)
    path = [pack(1 + n % 3, 1 + n // 3) for n in range(399)]
    chain = [said(dot, *path[max(n - 1, 0) : n]) for n, dot in enumerate(path)]
    tags = taken(client, engine, Effects(), *chain)
    last = tags[-1]
    assert all(tag < last for tag in tags[:-1])
    assert walks == 1
    assert all(a < b for a, b in zip(tags, tags[2:], strict=False))
    assert walks == 1, "what the walk passed knows its own answers"
