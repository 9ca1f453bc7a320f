"""``scalar``: right while nobody speaks at once, and how it fails when they do (slide 14)."""

from __future__ import annotations

import pytest

from tests.engine.talks import Talk, at_random, flags, one_at_a_time
from tests.seeds import seeds
from thence.causal.dot import pack
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES, make_node
from thence.engine.reject import BAD_CONTEXT, BAD_RECIPIENTS, TOO_FAR_AHEAD, WRONG_KIND
from thence.errors import LocalProtocolError
from thence.message import Control, Stamped, WireMessage
from thence.sim.order_walk import OrderWalkOptions, order_walk

NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("policy", ["deliver", "flag", "refuse", "branch"])
def test_without_concurrent_messages_it_is_causal_and_no_policy_has_anything_to_say(policy: str):
    for seed in seeds(60):
        talk = one_at_a_time("scalar", seed, concurrent=policy)
        assert talk.orders.missing() == talk.orders.violations("causal-total") == [], seed
        assert not any("(" in text for name in talk.names for text in talk.took(name))


def test_a_message_waits_for_the_id_before_its_own():
    talk = Talk("scalar")
    talk.say("a", "Done?")
    talk.bring("Done?", "b")
    talk.say("b", "Lunch?")
    talk.bring("Lunch?", "c")
    assert talk.took("c") == []
    [waiting] = talk.cluster.engines[2].waiting()
    assert waiting.dot == pack(1, 1)
    talk.bring("Done?", "c")
    assert talk.took("c") == ["Done?", "Lunch?"]


def speak_at_once(policy: str = "deliver") -> Talk:
    """a and b speak at once; d answers a.  At c the words of b have the id of the question."""
    talk = Talk("scalar", "abcd", concurrent=policy)
    talk.say("a", "question")
    talk.say("b", "something else")
    talk.bring("question", "d")
    talk.say("d", "answer")
    talk.bring("something else", "c")
    talk.bring("answer", "c")
    talk.bring("question", "c")
    return talk


def test_with_concurrent_messages_an_answer_comes_before_its_question():
    talk = speak_at_once()
    assert talk.took("c") == ["something else", "answer", "question"]
    assert talk.orders.violations("causal") == ["c took d:1 before a:1"]
    assert talk.orders.violations("fifo") == []


def test_the_second_message_of_an_id_is_flagged_as_soon_as_it_arrives():
    talk = speak_at_once("flag")
    assert talk.took("c") == ["something else", "answer", "question (concurrent)"]


def test_what_is_flagged_is_concurrent():
    flagged = 0
    for seed in seeds(60):
        for found, is_concurrent in flags(at_random("scalar", seed, concurrent="flag")):
            flagged += found
            assert is_concurrent or not found, seed
    assert flagged


def test_a_refused_message_is_told_and_all_that_its_sender_says_later():
    talk = speak_at_once("refuse")
    assert talk.took("c") == ["something else", "answer", "question (refused)"]
    talk.say("a", "and?")
    talk.bring_all()
    assert talk.took("c")[-1] == "and? (refused)"
    assert talk.took("d") == ["question", "something else (refused)", "and? (refused)"]
    assert talk.orders.missing() == []


def test_what_waits_for_a_refused_message_does_not_wait_for_ever():
    talk = Talk("scalar", concurrent="refuse")
    talk.say("b", "mine")
    for number in range(3):
        talk.say("a", str(number))
    talk.bring("0", "c")
    talk.bring("1", "c")
    talk.say("c", "third")
    talk.bring("third", "b")
    assert talk.took("b") == []
    talk.bring_all()
    assert talk.orders.missing() == []
    assert set(talk.took("b")) == {"0 (refused)", "1 (refused)", "2 (refused)", "third (refused)"}


def test_branches():
    talk = Talk("scalar", "abc", concurrent="branch")
    talk.say("a", "a1")
    talk.say("b", "b1")
    talk.bring("a1", "c")
    talk.bring("b1", "c")
    talk.say("a", "a2")
    talk.say("b", "b2")
    talk.bring("a2", "c")
    talk.bring("b2", "c")
    assert talk.took("c") == ["a1", "b1 (branch)", "a2", "b2"]
    assert talk.branches("c") == [0, 1, 0, 1]
    talk.say("c", "both")
    talk.bring_all()
    talk.say("a", "a3")
    talk.bring_all()
    assert talk.branches("c")[-1] == 0


@pytest.mark.parametrize("engine", ["scalar", "last-sender"])
@pytest.mark.parametrize("policy", ["flag", "refuse", "branch"])
def test_with_any_policy_nothing_is_lost_and_senders_keep_their_order(engine: str, policy: str):
    options = EngineOptions(concurrent=policy)  # type: ignore[arg-type]
    for seed in seeds(60):
        walk = OrderWalkOptions(seed, nodes=4, messages=14, duplicate=0.2, engine=options)
        orders = order_walk(ENGINES[engine], walk)
        assert orders.violations("fifo") == orders.missing() == [], seed


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Control(0, 1, ()), WRONG_KIND),
        (Stamped(0, 1, (), b""), BAD_CONTEXT),
        (Stamped(0, 1, (0,), b""), BAD_CONTEXT),
        (Stamped(0, 2, (1,), b""), BAD_CONTEXT),
        (Stamped(0, 1, (1,), b"", (1,)), BAD_RECIPIENTS),
        (Stamped(0, 9, (9,), b""), TOO_FAR_AHEAD),
    ],
)
def test_nonsense_is_refused_and_leaves_no_trace(message: WireMessage, reason: str):
    _, engine = make_node(NAMES, "b", "scalar", EngineOptions(pending_per_origin_max=8))
    out = Effects()
    engine.receive(0, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    engine.receive(0, Stamped(0, 1, (1,), b"good"), out)
    assert [tag.payload for tag in out.deliver] == [b"good"]


def test_what_is_next_at_the_middleware_is_what_it_takes():
    client, engine = make_node(NAMES, "a", "scalar")
    client.broadcast(b"lost")
    with pytest.raises(LocalProtocolError, match="not the next message"):
        engine.broadcast(client.broadcast(b"second"), Effects())
    with pytest.raises(LocalProtocolError, match="everyone"):
        client.broadcast(b"", to=[1])
