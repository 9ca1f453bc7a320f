"""What a peer says to the engines of one order for all never raises, also while members crash."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.test_total import each_engine
from tests.seeds import seeds
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.registry import make_node
from thence.engine.reject import BAD_CONTEXT
from thence.engine.total import REPORT
from thence.message import Control, Stamped, WireMessage

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
            assert engine.words() > 0
            assert len({(tag.origin, tag.seq) for tag in out.deliver}) == len(out.deliver)


@pytest.mark.parametrize("name", ["sequencer", "token"])
def test_a_report_of_less_than_was_said_before_stops_nobody(name: str):
    client, engine = make_node("abc", "a", name)
    made: Any = engine
    out = Effects()
    engine.receive(2, Control(2, 2, (1, 0, 100)), out)
    made.crashed(1, out)
    engine.receive(2, Control(2, REPORT, (2, 0, 1, 1, 0)), out)
    engine.broadcast(client.broadcast(b"on"), out)
    assert [tag.payload for tag in out.deliver] == [b"on"]


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
