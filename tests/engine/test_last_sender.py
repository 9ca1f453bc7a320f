"""``last-sender``: one cause is named; with several it fails (slides 15 and 16)."""

from __future__ import annotations

import pytest

from tests.engine.talks import Talk, one_at_a_time
from tests.seeds import seeds
from thence.causal.dot import pack
from thence.engine.effects import Effects
from thence.engine.registry import make_node
from thence.engine.reject import BAD_CONTEXT, UNSENT_OWN_DOT
from thence.message import Stamped, WireMessage


@pytest.mark.parametrize("policy", ["deliver", "flag", "refuse", "branch"])
def test_without_concurrent_messages_it_is_causal_and_no_policy_has_anything_to_say(policy: str):
    for seed in seeds(60):
        talk = one_at_a_time("last-sender", seed, concurrent=policy)
        assert talk.orders.missing() == talk.orders.violations("causal") == [], seed
        assert not any("(" in text for name in talk.names for text in talk.took(name))


def test_slide_15_a_message_waits_for_the_one_it_names():
    talk = Talk("last-sender")
    talk.say("a", "Done?")
    talk.bring("Done?", "b")
    talk.say("b", "Lunch?")
    talk.bring("Lunch?", "c")
    assert talk.took("c") == []
    [waiting] = talk.cluster.engines[2].waiting()
    assert (waiting.dot, waiting.missing) == (pack(1, 1), pack(0, 1))
    talk.bring("Done?", "c")
    assert talk.took("c") == ["Done?", "Lunch?"]


def two_causes(policy: str = "deliver") -> Talk:
    """a and b ask; c hears both and answers, naming the later one only; d hears the first late."""
    talk = Talk("last-sender", "abcd", concurrent=policy)
    talk.say("a", "first")
    talk.say("b", "second")
    talk.bring("first", "c")
    talk.bring("second", "c")
    talk.say("c", "both")
    talk.bring("second", "d")
    talk.bring("both", "d")
    talk.bring("first", "d")
    return talk


def test_slide_16_of_two_causes_only_the_most_recent_is_waited_for():
    talk = two_causes()
    assert talk.took("d") == ["second", "both", "first"]
    assert talk.orders.violations("causal") == ["d took c:1 before a:1"]
    assert talk.orders.violations("fifo") == []


def test_more_of_the_named_sender_than_was_named_does_not_stop_a_message():
    talk = Talk("last-sender")
    talk.say("a", "1")
    talk.bring("1", "b")
    talk.say("a", "2")
    talk.say("b", "answer to 1")
    talk.bring("1", "c")
    talk.bring("2", "c")
    talk.bring("answer to 1", "c")
    assert talk.took("c") == ["1", "2", "answer to 1"]


def test_what_follows_none_of_the_latest_is_flagged():
    talk = two_causes("flag")
    assert talk.took("c") == ["first", "second (concurrent)"]
    assert talk.took("d") == ["second", "both", "first (concurrent)"]


def test_a_refused_message_is_told_and_what_names_it():
    talk = Talk("last-sender", "abcd", concurrent="refuse")
    talk.say("a", "first")
    talk.say("b", "second")
    talk.bring("first", "c")
    talk.bring("second", "d")
    talk.say("c", "to the first")
    talk.bring_all()
    assert talk.took("c") == ["first", "second (refused)"]
    assert talk.took("d") == ["second", "first (refused)", "to the first (refused)"]
    talk.say("c", "again")
    talk.say("b", "on the other side")
    talk.bring_all()
    assert talk.took("a")[-2:] == ["again", "on the other side (refused)"]
    assert talk.took("d")[-2:] == ["again (refused)", "on the other side"]
    assert talk.orders.missing() == []


def test_branches_go_on_and_are_joined():
    talk = Talk("last-sender", "abcd", concurrent="branch")
    talk.say("a", "a1")
    talk.say("b", "b1")
    talk.say("a", "a2")
    talk.say("b", "b2")
    for text in ("a1", "b1", "b2", "a2"):
        talk.bring(text, "c")
    assert talk.took("c") == ["a1", "b1 (branch)", "b2", "a2"]
    assert talk.branches("c") == [0, 1, 1, 0]
    talk.say("c", "both")
    talk.bring_all()
    talk.say("d", "after")
    talk.bring_all()
    assert (talk.took("c")[-1], talk.branches("c")[-1]) == ("after", 0)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Stamped(0, 1, (3, 0), b""), BAD_CONTEXT),
        (Stamped(0, 1, (0, 3), b""), BAD_CONTEXT),
        (Stamped(0, 1, (1, 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (9, 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (2, 1), b""), UNSENT_OWN_DOT),
    ],
)
def test_nonsense_is_refused_and_leaves_no_trace(message: WireMessage, reason: str):
    _, engine = make_node(["a", "b", "c"], "b", "last-sender")
    out = Effects()
    engine.receive(0, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    engine.receive(0, Stamped(0, 1, (0, 0), b"good"), out)
    assert [tag.payload for tag in out.deliver] == [b"good"]
