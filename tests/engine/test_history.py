"""``history``: what is listed, what is left out, who waits for what."""

from __future__ import annotations

import random

import pytest

from tests.engine.talks import Talk, at_random, flags, messages, one_at_a_time
from tests.seeds import seeds
from thence.causal.dot import pack
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.plain import PlainTag
from thence.engine.registry import make_node
from thence.engine.reject import (
    BAD_CONTEXT,
    DUPLICATE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
)
from thence.errors import LocalProtocolError
from thence.message import Control, Stamped, WireMessage

NAMES = ["a", "b", "c"]


def stamps(talk: Talk) -> dict[str, tuple[int, ...]]:
    """By text, of what is on its way."""
    return {talk.text(message): message.stamp for _, _, message in talk.cluster.in_flight}


def test_slide_12_an_answer_waits_for_its_question():
    talk = Talk("history")
    talk.say("a", "Done?")
    talk.bring("Done?", "b")
    talk.say("b", "Lunch?")
    talk.bring("Lunch?", "c")
    assert talk.took("c") == []
    [waiting] = talk.cluster.engines[2].waiting()
    assert (waiting.dot, waiting.missing) == (pack(1, 1), pack(0, 1))
    talk.bring("Done?", "c")
    assert talk.took("c") == ["Done?", "Lunch?"]


def test_of_broadcasts_only_the_immediate_predecessors_are_listed():
    talk = Talk("history")
    talk.say("a", "1")
    talk.say("a", "2")
    talk.bring_all()
    talk.say("b", "3")
    assert stamps(talk) == {"3": (pack(0, 2), 1)}


def test_with_messages_for_some_a_history_names_those_who_may_lack_them():
    talk = Talk("history", "abcd")
    talk.say("a", "for c", "c")
    talk.say("a", "for b", "b")
    talk.bring("for b", "b")
    talk.say("b", "for c and d", "cd")
    assert stamps(talk)["for c and d"] == (pack(0, 1), 2, 2)
    talk.bring("for c and d", "c", "d")
    assert (talk.took("c"), talk.took("d")) == ([], ["for c and d"])
    talk.bring("for c", "c")
    assert talk.took("c") == ["for c", "for c and d"]


def test_a_history_stays_within_an_entry_for_each_pair():
    rng = random.Random(7)
    talk = Talk("history", "abcd")
    for number in range(400):
        name = rng.choice("abcd")
        to = rng.sample(sorted(set("abcd") - {name}), rng.randint(1, 2))
        talk.say(name, str(number), "".join(sorted(to)))
        if number % 3 == 0:
            talk.bring_all(rng)
        for engine in talk.cluster.engines:
            assert len(engine._past) <= 4 * 3
    talk.bring_all(rng)
    assert talk.orders.violations("causal") == talk.orders.missing() == []


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Control(0, 1, ()), WRONG_KIND),
        (Stamped(0, 1, (pack(2, 1),), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(2, 1), 4, 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(2, 1), 2, 9), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(9, 1), 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(2, 0), 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(2, 2), 1, pack(2, 1), 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(2, 1), 1, pack(2, 1), 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(0, 1), 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (pack(1, 1), 1), b""), UNSENT_OWN_DOT),
    ],
)
def test_nonsense_is_refused_and_leaves_no_trace(message: WireMessage, reason: str):
    _, engine = make_node(NAMES, "b", "history")
    out = Effects()
    engine.receive(0, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    out.clear()
    engine.receive(0, Stamped(0, 1, (), b"good"), out)
    assert [tag.payload for tag in out.deliver] == [b"good"]
    engine.receive(0, Stamped(0, 1, (), b"good"), out)
    assert [reject.reason for reject in out.reject] == [DUPLICATE]


def test_no_more_than_the_limit_is_held_back_and_what_is_ready_is_always_taken():
    _, engine = make_node(NAMES, "b", "history", EngineOptions(pending_per_origin_max=2))
    out = Effects()
    for seq in (2, 3, 4):
        engine.receive(0, Stamped(0, seq, (pack(0, seq - 1), 1), b"%d" % seq), out)
    assert [(each.reason, each.retry) for each in out.reject] == [(TOO_FAR_AHEAD, True)]
    engine.receive(0, Stamped(0, 1, (), b"1"), out)
    assert [tag.payload for tag in out.deliver] == [b"1", b"2", b"3"]


def test_what_is_next_at_the_middleware_is_what_it_takes():
    client, engine = make_node(NAMES, "a", "history")
    client.broadcast(b"lost")
    with pytest.raises(LocalProtocolError, match="not the next message"):
        engine.broadcast(client.broadcast(b"second"), Effects())
    with pytest.raises(LocalProtocolError, match="not the next message"):
        engine.broadcast(PlainTag(1, 1, b"of somebody else"), Effects())


# Concurrent messages.


def apart(policy: str) -> Talk:
    """a and b speak at once; c hears a first and answers; then b answers that."""
    talk = Talk("history", concurrent=policy)
    talk.say("a", "1")
    talk.say("b", "2")
    talk.bring("1", "c")
    talk.say("c", "3")
    talk.bring_all()
    return talk


def test_they_are_delivered_unless_told_otherwise():
    talk = apart("deliver")
    assert [sorted(talk.took(name)) for name in "abc"] == [["2", "3"], ["1", "3"], ["1", "2"]]


def test_those_that_do_not_follow_all_that_was_here_are_flagged():
    talk = apart("flag")
    assert talk.took("a") == ["2 (concurrent)", "3 (concurrent)"]
    assert talk.took("b") == ["1 (concurrent)", "3 (concurrent)"]
    assert talk.took("c") == ["1", "2 (concurrent)"]
    talk.say("a", "4")
    talk.bring_all()
    assert talk.took("b")[-1] == talk.took("c")[-1] == "4"


def test_exactly_the_concurrent_ones_are_flagged():
    seen = set()
    for seed in seeds(60):
        for flagged, is_concurrent in flags(at_random("history", seed, concurrent="flag")):
            assert flagged == is_concurrent, seed
            seen.add(flagged)
    assert seen == {False, True}


def test_they_are_refused_and_so_is_what_follows_them():
    talk = apart("refuse")
    assert talk.took("a") == ["2 (refused)", "3"]
    assert talk.took("b") == ["1 (refused)", "3 (refused)"]
    assert talk.took("c") == ["1", "2 (refused)"]
    talk.say("a", "4")
    talk.say("b", "5")
    talk.bring_all()
    assert talk.took("c")[2:] == ["4", "5 (refused)"]
    assert talk.took("b")[2:] == ["4 (refused)"]


def test_branches_are_numbered_and_joined_by_who_has_heard_both():
    talk = apart("branch")
    assert (talk.took("a"), talk.branches("a")) == (["2 (branch)", "3"], [1, 0])
    assert (talk.took("c"), talk.branches("c")) == (["1", "2 (branch)"], [0, 1])
    talk.say("a", "4")
    talk.say("a", "5")
    talk.bring_all()
    assert (talk.took("c")[2:], talk.branches("c")[2:]) == (["4", "5"], [0, 0])


@pytest.mark.parametrize("policy", ["flag", "refuse", "branch"])
def test_without_concurrent_messages_no_policy_has_anything_to_say(policy: str):
    for seed in range(40):
        talk = one_at_a_time("history", seed, concurrent=policy)
        assert talk.orders.missing() == talk.orders.violations("causal") == []
        assert not any("(" in text for name in talk.names for text in talk.took(name)), seed


def test_with_a_policy_messages_are_for_everyone():
    client, engine = make_node(NAMES, "b", "history", EngineOptions(concurrent="flag"))
    with pytest.raises(LocalProtocolError, match="everyone"):
        client.broadcast(b"", to=[0])
    out = Effects()
    engine.receive(0, Stamped(0, 1, (), b"", (1,)), out)
    assert (len(out.reject), out.deliver) == (1, [])
    engine.broadcast(client.broadcast(b"all"), out)
    assert [message.to for message in messages(out.send)] == [()]


def test_there_are_four_policies():
    with pytest.raises(LocalProtocolError, match="deliver, flag, refuse, branch"):
        EngineOptions(concurrent="perhaps")  # type: ignore[arg-type]
