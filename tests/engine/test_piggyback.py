"""``piggyback``: what comes along, what is forgotten, and that nothing waits."""

from __future__ import annotations

import pytest

from tests.engine.talks import Talk
from tests.seeds import seeds
from thence.engine import piggyback
from thence.engine.effects import Effects
from thence.engine.registry import ENGINES, make_node
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    DUPLICATE,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Reject,
)
from thence.errors import LimitError, LocalProtocolError
from thence.message import Bundle, Control, Directed, Phantom, Stamped, WireMessage
from thence.sim.cluster import Watcher
from thence.sim.order_walk import OrderWalk, order_plan

NAMES = ["a", "b", "c"]


def carried(talk: Talk, text: str, name: str) -> list[str]:
    """What comes along with a message on its way to that node."""
    for _, j, message in talk.cluster.in_flight:
        if talk.names[j] == name and talk.text(message) == text:
            before = message.messages[:-1] if isinstance(message, Bundle) else ()
            return [each.payload.decode() for each in before]
    raise AssertionError(f"{text} is not on its way to {name}")


def test_an_answer_brings_its_question_along():
    talk = Talk("piggyback")
    talk.say("a", "Done?")
    talk.bring("Done?", "b")
    talk.say("b", "Lunch?")
    talk.bring("Lunch?", "c")
    assert talk.took("c") == ["Done?", "Lunch?"]
    talk.bring("Done?", "c")
    assert talk.took("c") == ["Done?", "Lunch?"]


def test_who_is_known_to_have_a_message_does_not_get_it_again():
    talk = Talk("piggyback")
    talk.say("a", "1")
    talk.bring("1", "b")
    talk.say("b", "2")
    assert (carried(talk, "2", "a"), carried(talk, "2", "c")) == ([], ["1"])
    talk.bring_all()
    talk.say("c", "3")
    # b has said that it has 1, and that it sent 2; whether a has 2 nobody has said.
    assert (carried(talk, "3", "a"), carried(talk, "3", "b")) == (["2"], [])


def test_what_everyone_is_known_to_have_is_forgotten_once_they_are_idle():
    talk = Talk("piggyback")
    for number in range(10):
        talk.say("abc"[number % 3], str(number))
        talk.bring_all()
    talk.cluster.quiesce()
    for engine in talk.cluster.engines:
        engine.flush(Effects())
        assert engine._kept == []
    talk.say("a", "last")
    assert carried(talk, "last", "b") == []


def test_who_only_listens_says_what_it_has_now_and_then():
    talk = Talk("piggyback")
    for number in range(200):
        talk.say("a", str(number))
        talk.bring_all()
    assert len(talk.cluster.engines[0]._kept) < 2 * piggyback.UNSAID_MESSAGES_MAX + 16


class _AtOnce(Watcher):
    """Of what arrives, all is accepted, and handed over in the same step."""

    def __init__(self) -> None:
        self.ready_here: set[tuple[int, int, int]] = set()
        self.waited = 0

    def ready(self, node: int, tag: object) -> None:
        self.ready_here.add((node, tag.origin, tag.seq))  # type: ignore[attr-defined]

    def rejected(self, node: int, reject: Reject) -> None:
        self.waited += reject.reason != DUPLICATE

    def arrived(self, node: int, peer: int, message: WireMessage) -> None:
        if isinstance(message, Stamped | Bundle):
            last = message if isinstance(message, Stamped) else message.messages[-1]
            self.waited += (node, last.origin, last.seq) not in self.ready_here


def test_nothing_ever_waits():
    spec = ENGINES["piggyback"]
    for seed in seeds(60):
        walk = OrderWalk(spec, order_plan(spec, seed))
        watcher = _AtOnce()
        walk.cluster._hook([walk.orders, watcher])
        walk.go()
        assert watcher.waited == 0, f"seed {seed}"
        assert not any(engine.waiting() for engine in walk.cluster.engines)


def test_much_goes_ahead_in_bundles_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(piggyback, "BUNDLE_BYTES_MAX", 10)
    client, engine = make_node(NAMES, "a", "piggyback")
    out = Effects()
    for text in (b"1111", b"2222", b"3333", b"4444"):
        out.clear()
        engine.broadcast(client.broadcast(text), out)
    parts = [[each.payload for each in getattr(m, "messages", (m,))] for m in out.send]
    assert parts == [[b"1111", b"2222"], [b"3333", b"4444"]]
    _, peer = make_node(NAMES, "b", "piggyback")
    there = Effects()
    peer.receive(0, out.send[1], there)
    assert [(each.reason, each.retry) for each in there.reject] == [(TOO_FAR_AHEAD, True)]
    peer.receive(0, out.send[0], there)
    peer.receive(0, out.send[1], there)
    assert [tag.payload for tag in there.deliver] == [b"1111", b"2222", b"3333", b"4444"]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Phantom(0, 1, ()), WRONG_KIND),
        (Control(0, 9, (0, 0, 0)), WRONG_KIND),
        (Control(2, 1, (0, 0, 0)), BAD_CONTEXT),
        (Control(0, 1, (0, 0)), BAD_CONTEXT),
        (Control(0, 1, (0, 1, 0)), UNSENT_OWN_DOT),
        (Stamped(0, 1, (1, 0), b""), BAD_CONTEXT),
        (Stamped(0, 1, (2, 0, 0), b""), BAD_CONTEXT),
        (Stamped(2, 1, (0, 0, 1), b""), BAD_CONTEXT),
        (Stamped(0, 1, (1, 1, 0), b""), UNSENT_OWN_DOT),
        (Stamped(0, 1, (1, 0, 0), b"", (1,)), BAD_RECIPIENTS),
        (Stamped(0, 1, (1, 0, 1), b""), TOO_FAR_AHEAD),
        (Stamped(0, 2, (2, 0, 0), b""), TOO_FAR_AHEAD),
        (Bundle((Stamped(1, 1, (), b""), Stamped(0, 1, (1, 0, 0), b""))), NOT_MY_MESSAGE),
        (Bundle((Stamped(2, 1, (0, 0, 1), b""), Stamped(0, 1, (1, 0, 1), b""))), BAD_CONTEXT),
        (Bundle((Stamped(2, 1, (), b""), Stamped(2, 3, (), b""))), TOO_FAR_AHEAD),
    ],
)
def test_nonsense_is_refused_and_leaves_no_trace(message: WireMessage, reason: str):
    _, engine = make_node(NAMES, "b", "piggyback")
    out = Effects()
    engine.receive(0, message, out)
    assert [reject.reason for reject in out.reject] == [reason]
    assert out.deliver == []
    engine.receive(0, Stamped(0, 1, (1, 0, 0), b"good"), out)
    assert [tag.payload for tag in out.deliver] == [b"good"]
    engine.receive(0, Stamped(0, 1, (1, 0, 0), b"good"), out)
    assert out.reject[-1].reason == DUPLICATE


def test_no_more_is_kept_of_another_than_the_limit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(piggyback, "OWN_MESSAGES_MAX", 1)
    _, engine = make_node(NAMES, "a", "piggyback")
    out = Effects()
    for seq in (1, 2, 3):
        engine.receive(1, Stamped(1, seq, (0, seq, 0), b""), out)
    assert [(each.reason, each.retry) for each in out.reject] == [(TOO_FAR_AHEAD, True)]
    # Others may be as full as this one, and wait for it.
    assert out.send == [Control(0, 1, (0, 2, 0))]
    engine.receive(2, Control(2, 1, (0, 2, 0)), out)
    out.reject.clear()
    engine.receive(1, Stamped(1, 3, (0, 3, 0), b""), out)
    assert out.reject == []


def test_who_sends_has_to_stop_until_members_say_what_they_have(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(piggyback, "OWN_MESSAGES_MAX", 2)
    client, engine = make_node(NAMES, "a", "piggyback")
    out = Effects()
    engine.broadcast(client.broadcast(b"1"), out)
    engine.broadcast(client.broadcast(b"2"), out)
    with pytest.raises(LimitError, match="2 messages are not known"):
        client.broadcast(b"3")
    engine.receive(1, Control(1, 1, (2, 0, 0)), out)
    engine.receive(2, Control(2, 1, (1, 0, 0)), out)
    engine.broadcast(client.broadcast(b"3"), out)


def test_what_is_next_at_the_middleware_is_what_it_takes():
    client, engine = make_node(NAMES, "a", "piggyback")
    client.broadcast(b"lost")
    with pytest.raises(LocalProtocolError, match="not the next message"):
        engine.broadcast(client.broadcast(b"second"), Effects())


def test_different_members_get_different_bundles():
    client, engine = make_node(NAMES, "a", "piggyback")
    out = Effects()
    engine.broadcast(client.broadcast(b"1"), out)
    engine.receive(1, Control(1, 1, (1, 0, 0)), out)
    out.clear()
    engine.broadcast(client.broadcast(b"2"), out)
    assert sorted((each.to, type(each.message)) for each in out.send) == [
        ((1,), Stamped),
        ((2,), Bundle),
    ]
    assert all(isinstance(each, Directed) for each in out.send)
