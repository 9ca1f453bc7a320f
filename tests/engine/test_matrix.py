"""``matrix``: figure 12.1 of Garg's chapter, its errata, and a peer's nonsense."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.causal.dot import SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.matrix import SPEC
from thence.engine.plain import PlainTag
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    TOO_FAR_AHEAD,
    UNSENT_OWN_DOT,
    WRONG_KIND,
    Waiting,
)
from thence.errors import LocalProtocolError
from thence.message import Control, Directed, Phantom, Stamped

COUNTS = st.lists(st.integers(0, 3), min_size=9, max_size=9).map(tuple)


def node(slot: int, **options: int) -> tuple[Any, Any, Effects]:
    return *SPEC.make(Members("abc"), slot, EngineOptions(**options)), Effects()


def send(sender: tuple[Any, Any, Effects], *to: int) -> Stamped:
    client, engine, out = sender
    out.clear()
    engine.broadcast(client.broadcast(b"", to), out)
    (sent,) = out.send
    if not to:
        assert isinstance(sent, Stamped)
        return sent
    assert sent.to == to
    return sent.message


def receive(receiver: tuple[Any, Any, Effects], message: Stamped) -> list[tuple[int, int]]:
    _, engine, out = receiver
    out.clear()
    engine.receive(message.origin, message, out)
    return [(tag.origin, tag.seq) for tag in out.deliver]


def reasons(receiver: tuple[Any, Any, Effects], message: Any) -> list[str]:
    _, engine, out = receiver
    out.clear()
    before = engine.words()
    engine.receive(1, message, out)
    assert (engine.words(), out.deliver) == (before, [])
    return [reject.reason for reject in out.reject]


def test_figure_12_1_a_message_is_not_overtaken_by_a_chain_of_others():
    a, b, c = node(0), node(1), node(2)
    direct = send(a, 2)
    to_b = send(a, 1)
    assert receive(b, to_b) == [(0, 2)]
    through_b = send(b, 2)
    assert receive(c, through_b) == []
    assert c[1].waiting() == [Waiting(pack(1, 1), pack(0, 1))]
    assert receive(c, direct) == [(0, 1), (1, 1)]
    assert c[1].waiting() == []


def test_what_is_for_others_is_not_waited_for():
    a, b, c = node(0), node(1), node(2)
    receive(b, send(a, 1))
    assert receive(c, send(b, 2)) == [(1, 1)]
    assert receive(c, send(a)) == [(0, 2)], "though c got nothing of a before"


def test_a_multicast_is_counted_for_all_it_is_for_before_it_is_sent():
    a = node(0)
    assert send(a, 1, 2).stamp == (0, 1, 1, 0, 0, 0, 0, 0, 0)
    assert send(a, 2).stamp == (0, 1, 2, 0, 0, 0, 0, 0, 0)


def test_figure_12_4_line_25_an_old_duplicate_is_not_taken_again():
    a, b = node(0), node(1)
    first, second = send(a, 1), send(a, 1)
    assert receive(b, second) == []
    assert reasons(b, second) == [DUPLICATE]
    assert receive(b, first) == [(0, 1), (0, 2)]
    assert reasons(b, first) == reasons(b, second) == [DUPLICATE]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Control(1, 0, ()), WRONG_KIND),
        (Stamped(1, 1, (0,) * 4, b""), BAD_CONTEXT),
        (Stamped(1, 1, (0,) * 9, b""), BAD_SEQ),
        (Stamped(1, 1, (1, 0, 0, 1, 0, 0, 0, 0, 0), b""), BAD_CONTEXT),
        (Stamped(1, 1, (0, 0, 0, SEQ_MAX + 1, 0, 0, 0, 0, 0), b""), BAD_CONTEXT),
        (Stamped(1, 1, (0, 1, 0, 1, 0, 0, 0, 0, 0), b""), UNSENT_OWN_DOT),
        (Stamped(1, 9, (0, 0, 0, 9, 0, 0, 0, 0, 0), b""), TOO_FAR_AHEAD),
    ],
)
def test_nonsense_of_a_peer_is_refused(message: Any, reason: str):
    assert reasons(node(0, pending_per_origin_max=8), message) == [reason]


def test_the_greatest_count_is_one():
    assert receive(node(0), Stamped(1, 1, (0, 0, 0, 1, 0, SEQ_MAX, 0, 0, 0), b"")) == [(1, 1)]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), COUNTS), max_size=20))
def test_no_message_of_a_peer_raises(messages: list[tuple[int, int, tuple[int, ...]]]):
    _, engine, out = node(0)
    for origin, seq, stamp in messages:
        engine.receive(1, Stamped(origin, seq, stamp, b""), out)
    assert len(engine.waiting()) + len(out.deliver) + len(out.reject) == len(messages)


def test_misuse_by_the_caller_raises():
    client, engine, out = node(0)
    client.broadcast(b"lost on the way")
    with pytest.raises(LocalProtocolError):
        engine.broadcast(client.broadcast(b""), out)
    with pytest.raises(LocalProtocolError):
        engine.broadcast(PlainTag(1, 1, b"of somebody else"), out)
    with pytest.raises(LocalProtocolError):
        engine.announce(Phantom(0, 1, ()), out)
    with pytest.raises(LocalProtocolError):
        client.broadcast(b"", [0])
    assert out.send == []


def test_only_those_it_is_for_get_a_message():
    client, engine, out = node(0)
    engine.broadcast(client.broadcast(b"", [2]), out)
    assert isinstance(out.send[0], Directed)
    assert out.send[0].to == (2,)
