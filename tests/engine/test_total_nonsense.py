"""What a peer says to the engines of one order for all never raises, also while members crash."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.one_node import Node
from tests.engine.test_total import each_engine, group
from tests.seeds import seeds
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import make_node
from thence.engine.reject import BAD_CONTEXT, BAD_SEQ, TOO_FAR_AHEAD, Reject
from thence.engine.total import REPORT, TIME_JUMP_MAX
from thence.message import Control, Directed, Stamped, WireMessage
from thence.wire.codec import decode, encode

NAMES = "abcd"


class Liar:
    """Messages with fields in their ranges, each with the next number of its link."""

    def __init__(self, rng: random.Random, engine: Any, slot: int) -> None:
        self.rng = rng
        self.engine = engine
        self.slot = slot
        self.gone: set[int] = set()

    def crash(self) -> int:
        """Somebody who is there; this node if nobody is."""
        there = [peer for peer in range(len(NAMES)) if peer not in self.gone | {self.slot}]
        found = self.rng.choice(there or [self.slot])
        self.gone |= {found} - {self.slot}
        return found

    def say(self) -> tuple[int, WireMessage]:
        peer = self.rng.choice([peer for peer in range(len(NAMES)) if peer != self.slot])
        epoch = self.rng.choice((0, len(self.gone), self.engine._epoch))
        start = (self.engine._received[peer] + 1, epoch)
        if self.rng.random() < 0.5:
            role, count = self.rng.choice(sorted(self.engine.ROLES.items()))
            origin = peer if self.rng.random() < 0.8 else self.rng.randrange(len(NAMES))
            stamp = (*start, role, *self._numbers(count))
            return peer, Stamped(origin, self._number() % 9 + 1, stamp, b"", self._to(origin))
        kind = self.rng.choice([REPORT, *self.engine.KINDS])
        if kind == REPORT:
            gone = sorted(self.gone)
            numbers = self._numbers(self.rng.randrange(4))
            return peer, Control(peer, REPORT, (*start, len(gone), *gone, *numbers))
        return peer, Control(peer, kind, (*start, *self._numbers(self.engine.KINDS[kind])))

    def _to(self, origin: int) -> tuple[int, ...]:
        to = {self.slot, self.rng.randrange(len(NAMES))} - {origin}
        return tuple(sorted(to)) if self.rng.random() < 0.3 else ()

    def _number(self) -> int:
        small = self.rng.randrange(8)
        return self.rng.choice((small, small, small, small, 1 << 40, (1 << 56) - 1))

    def _numbers(self, count: int) -> list[int]:
        return [self._number() for _ in range(count)]


@each_engine
def test_no_message_of_a_peer_raises_whoever_crashes(name: str):
    for seed in seeds(300):
        rng = random.Random(f"{name} {seed}")
        slot = rng.randrange(len(NAMES))
        options = EngineOptions(pending_per_origin_max=rng.choice((1, 2, 5, 65_536)))
        client, engine = make_node(NAMES, NAMES[slot], name, options)
        made: Any = engine
        liar = Liar(rng, made, slot)
        for _ in range(60):
            out, chance = Effects(), rng.random()
            if chance < 0.2:
                engine.broadcast(client.broadcast(b""), out)
            elif chance < 0.25 and (found := liar.crash()) != slot:
                made.crashed(found, out)
            else:
                peer, message = liar.say()
                engine.receive(peer, message, out)
            for sent in out.send:
                message = sent.message if isinstance(sent, Directed) else sent
                assert decode(encode(message)) == message, f"seed {seed}"
            assert engine.words() > 0
            assert len({(tag.origin, tag.seq) for tag in out.deliver}) == len(out.deliver)


@pytest.mark.parametrize("name", ["sequencer", "token"])
def test_a_report_of_less_than_was_said_before_stops_nobody(name: str):
    client, engine = make_node("abc", "a", name)
    made: Any = engine
    out = Effects()
    engine.receive(2, Control(2, 2, (1, 0, 100)), out)
    made.crashed(1, out)
    engine.receive(2, Control(2, REPORT, (2, 0, 1, 1, 1)), out)
    engine.receive(2, Stamped(2, 1, (3, 1, 1, 1, 0), b"c has this"), out)
    engine.broadcast(client.broadcast(b"on"), out)
    assert [tag.payload for tag in out.deliver] == [b"c has this", b"on"]


@pytest.mark.parametrize("name", ["sequencer", "token"])
def test_the_longest_list_is_found_from_the_reports_alone(name: str):
    """c had said that it has more; d lacks a message that b and c report, and b shows it."""
    client, engine = make_node("abcd", "b", name)
    made: Any = engine
    out = Effects()
    engine.receive(0, Stamped(0, 1, (1, 0, 1, 1, 0), b"first"), out)
    engine.receive(2, Control(2, 2, (1, 0, 9)), out)
    made.crashed(0, out)
    out.clear()
    engine.receive(2, Control(2, REPORT, (2, 0, 1, 0, 1)), out)
    engine.receive(3, Control(3, REPORT, (1, 0, 1, 0, 0)), out)
    [shown] = [each for each in out.send if each.to == (3,)]  # type: ignore[union-attr]
    assert shown.message.payload == b"first"  # type: ignore[union-attr]
    engine.broadcast(client.broadcast(b"second"), out)
    assert [tag.payload for tag in out.deliver] == [b"second"]


@pytest.mark.parametrize(
    ("name", "numbers"),
    [
        ("sequencer", ()),
        ("sequencer", (1, 2)),
        ("token", ()),
        ("lamport", (1,)),
        ("skeen", ()),
        ("skeen", (1, 2)),
    ],
)
def test_a_report_has_the_numbers_of_its_order(name: str, numbers: tuple[int, ...]):
    _, engine = make_node("abc", "a", name)
    out = Effects()
    engine.receive(2, Control(2, REPORT, (1, 0, 1, 1, *numbers)), out)
    assert [reject.reason for reject in out.reject] == [BAD_CONTEXT]


END = (1 << 56) - 1
"""The greatest number that fits on the wire."""


def timed(time: int) -> list[tuple[str, WireMessage]]:
    """What c says to a that has a time in it, by engine."""
    return [
        ("lamport", Stamped(2, 1, (1, 0, 1, time), b"")),
        ("lamport", Stamped(1, 1, (1, 0, 0, time), b"")),
        ("skeen", Stamped(2, 1, (1, 0, 1, time, 0), b"")),
        ("skeen", Stamped(1, 1, (1, 0, 0, time), b"")),
        ("skeen", Control(2, 1, (1, 0, 1, time, 0, 0))),
        ("skeen", Control(2, 2, (1, 0, 1, time))),
        ("skeen", Control(2, REPORT, (1, 0, 1, 1, time))),
        ("skeen", Control(2, REPORT, (1, 0, 1, 1, 0, 1, time))),
    ]


@pytest.mark.parametrize(("name", "message"), timed(TIME_JUMP_MAX + 2))
def test_a_time_far_past_the_clock_is_put_off_and_moves_nothing(name: str, message: WireMessage):
    client, engine = make_node("abc", "a", name)
    out = Effects()
    engine.broadcast(client.broadcast(b""), out)  # the clock is 1
    out.clear()
    words = engine.words()
    engine.receive(2, message, out)
    assert [(each.reason, each.retry) for each in out.reject] == [(TOO_FAR_AHEAD, True)]
    assert (out.send, out.deliver, engine.words()) == ([], [], words)


@pytest.mark.parametrize(("name", "message"), timed(TIME_JUMP_MAX + 1))
def test_a_time_that_others_can_have_got_to_is_not(name: str, message: WireMessage):
    client, engine = make_node("abc", "a", name)
    out = Effects()
    engine.broadcast(client.broadcast(b""), out)
    engine.receive(2, message, out)
    assert TOO_FAR_AHEAD not in [each.reason for each in out.reject]


@pytest.mark.parametrize(("name", "numbers"), [("lamport", (1, END)), ("skeen", (1, END, 0))])
def test_one_time_at_the_end_of_all_times_does_not_keep_others_from_talking(
    name: str, numbers: tuple[int, ...]
):
    cluster, taken = group(name, 3)
    for peer in (0, 1):
        cluster.network_deliver(2, peer, Stamped(2, 1, (1, 0, *numbers), b""))
        cluster.crashed(peer, 2)
    cluster.in_flight = [flight for flight in cluster.in_flight if flight[1] != 2]
    for sender in (0, 1):
        cluster.client_broadcast(sender)
    cluster.quiesce()
    assert sorted(taken.by_node[0]) == [(0, 1), (1, 1)]
    assert taken.by_node[0] == taken.by_node[1]
    assert all(engine._time < 9 for engine in cluster.engines)  # type: ignore[attr-defined]


# One by one.


def bad_seq(refused: list[Reject]) -> bool:
    return [(each.reason, each.retry) for each in refused] == [(BAD_SEQ, False)]


@pytest.mark.parametrize("name", ["sequencer", "token"])
def test_a_number_is_given_once(name: str):
    node = Node(name)
    assert node.message(1, 1, 1, 2, 0) == []
    assert bad_seq(node.message(2, 1, 1, 2, 0)), "another message with a number that waits"
    assert node.message(2, 1, 1, 1, 0) == []
    assert node.delivered == [(2, 1), (1, 1)]
    assert bad_seq(node.message(2, 2, 1, 2, 0)), "or with the last one"
    assert bad_seq(node.message(2, 2, 1, 1, 0))
    assert bad_seq(node.message(2, 2, 1, 3, 3)), "nobody has it before it is given"
    assert node.message(2, 2, 1, 3, 2) == []
    assert node.delivered[2:] == [(2, 2)]


def test_who_lacks_a_part_of_the_list_does_not_submit_what_may_be_in_it():
    """d's message has a number, which only c knows; a, who gave it, crashes."""
    cluster, taken = group("sequencer", 4)
    refused: list[Reject] = []
    cluster._on_rejected = [lambda node, reject: refused.append(reject)]
    cluster.client_broadcast(3)
    cluster.middleware_step(3)
    cluster.network_deliver(*cluster.in_flight.pop())
    [to_c] = [flight for flight in cluster.in_flight if flight[1] == 2]
    cluster.in_flight.clear()
    cluster.network_deliver(*to_c)
    for survivor in (1, 2, 3):
        cluster.crashed(survivor, 0)
    cluster.in_flight.sort(key=lambda flight: flight[1] != 3)  # d is the first to go on
    cluster.quiesce()
    assert taken.by_node[1:] == [[(3, 1)]] * 3
    assert refused == []


def test_the_token_is_handed_on_by_who_has_everything_before_its_number():
    node = Node("token")
    assert node.control(2, 4, 1, 0) == []
    assert node.kinds() == [3]
    assert node.control(2, 3, 2) == [], "it comes back before number 1 of b"
    assert node.control(1, 4, 2, 1) == []
    assert node.kinds() == []
    assert node.message(1, 1, 1, 1, 0) == []
    assert [each.stamp for each in node.sent] == [(1, 0, 2)]


def test_an_acknowledgement_counts_once():
    node = Node("lamport")
    node.broadcast()
    assert node.control(1, 1, 1, 0) == []
    assert bad_seq(node.control(1, 1, 1, 0))
    assert bad_seq(node.control(1, 1, 2, 0)), "nor of what was not sent"


def test_skeen_forgets_what_began_an_epoch_when_all_have_begun_it():
    cluster, taken = group("skeen", 4)
    cluster.client_broadcast(0)
    cluster.middleware_step(0)
    cluster.in_flight[:] = [flight for flight in cluster.in_flight if flight[1] != 3]
    for _ in range(2):
        cluster.network_deliver(*cluster.in_flight.pop(0))
    cluster.in_flight.clear()

    def crash(gone: int, live: list[int]) -> list[tuple[int, int]]:
        """What the survivors tell each other."""
        for node in live:
            cluster.crashed(node, gone)
        cluster.in_flight = [flight for flight in cluster.in_flight if flight[1] in live]
        told = [each for _, _, each in cluster.in_flight if isinstance(each, Stamped)]
        cluster.quiesce()
        return [(each.origin, each.seq) for each in told]

    assert crash(0, [1, 2, 3]) == [(0, 1)] * 4  # b and c to each other, and both to d
    assert taken.by_node[1:] == [[(0, 1)]] * 3
    for sender in (1, 2, 3):
        cluster.client_broadcast(sender)
    cluster.quiesce()
    told = crash(1, [2, 3])
    assert told
    assert (0, 1) not in told
