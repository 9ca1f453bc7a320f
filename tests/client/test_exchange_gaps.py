"""Numbers that are left out because a message is for others, limits, connections that break."""

from __future__ import annotations

import random

import pytest

from tests.seeds import seeds
from thence.client.exchange import Exchange
from thence.config.node import FlowConfig
from thence.errors import WireError
from thence.message import Stamped
from thence.wire import codec, talk
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader

NAMES = ("a", "b", "c")


def exchange_of(slot: int, credit: int) -> Exchange:
    config = FlowConfig(credit_messages=credit)
    return Exchange(NAMES, slot, config, [0] * len(NAMES), 1, [], gaps=True)


class Pair:
    """A sender, and a peer that it sends some messages, over a connection that breaks."""

    def __init__(self, rng: random.Random, credit: int, slot: int = 1) -> None:
        self.rng, self.slot = rng, slot
        self.a, self.b = exchange_of(0, 100), exchange_of(slot, credit)
        self.wanted: list[int] = []
        self.got: list[int] = []
        self.untaken: list[bytes] = []
        self.frames: list[bytes] = []
        self.acks: list[bytes] = []
        self.connect()

    def connect(self) -> None:
        self.frames, self.acks = [], []
        self.a.flows[self.slot].closed()
        self.b.flows[0].closed()
        have, limit, limit_bytes = self.b.flows[0].opening()
        self.a.flows[self.slot].opening()
        assert self.a.flows[self.slot].reached(have) >= self.a.outbox.first - 1, "that is gone"
        self.a.opened(self.slot, talk.Open(0, "g", "fifo", NAMES, have, limit, limit_bytes))
        self.b.opened(0, talk.Open(0, "g", "fifo", NAMES, 0, 100, 1 << 30))

    def send(self, to: tuple[int, ...]) -> None:
        seq = self.a.outbox.last + 1
        message = Stamped(0, seq, (seq,), b"x" * self.rng.randrange(3), to)
        self.a.keep(codec.encode(message), message, to)
        if not to or self.slot in to:
            self.wanted.append(seq)

    def step(self) -> None:
        self.frames += self.a.frames(self.slot, 0, False, 0.0)
        if self.frames:
            ((_, body),) = FrameReader(FRAME_BYTES_MAX).feed(self.frames.pop(0))
            _, number, batch = talk.read_data(body)
            items, _ = self.b.arrived(0, number, batch, 0.0)
            self.got += [item.seq for item in items]
            self.untaken += [item.payload for item in items]
        self.b.written()

    def take(self) -> None:
        if self.untaken:
            self.b.taken(0, self.untaken.pop(0))
        self.b.hurry(9.0)
        for data in self.b.frames(0, 0, False, 9.0):
            ((_, body),) = FrameReader(FRAME_BYTES_MAX).feed(data)
            self.a.acknowledged(self.slot, talk.read_ack(body))


@pytest.mark.parametrize("credit", [1, 3, 50])
def test_a_peer_gets_what_is_for_it_once_and_in_order(credit: int):
    for seed in seeds(150):
        rng = random.Random(seed)
        pair = Pair(rng, credit)
        pair.a.remove(2)  # only one reads; what is for the other is released as soon as it can be
        for _ in range(200):
            kind = rng.randrange(8)
            if kind < 2 and pair.a.outbox.last < 60:
                pair.send(rng.choice([(), (1,), (2,), (2,), (2,), (1, 2)]))
            elif kind == 2 and rng.random() < 0.3:
                pair.connect()
            elif kind < 5:
                pair.take()
            else:
                pair.step()
        for _ in range(400):
            pair.step()
            pair.take()
        assert pair.got == pair.wanted, f"seed {seed}"
        assert pair.a.flows[1].acked == pair.a.outbox.last, f"seed {seed}"
        assert len(pair.a.outbox) == 0, f"seed {seed}"


def test_what_is_for_others_alone_sends_nothing():
    pair = Pair(random.Random(0), credit=50)
    for _ in range(5):
        pair.send((2,))
    assert pair.a.frames(1, 0, False, 0.0) == []
    assert pair.a.flows[1].acked == 5


def test_an_empty_frame_says_how_far_a_gap_goes_when_the_limit_ends_in_it():
    pair = Pair(random.Random(0), credit=3)
    for _ in range(4):
        pair.send((2,))
    pair.send((1,))
    assert len(pair.a.frames(1, 0, False, 0.0)) == 1
    pair.b.arrived(0, 5, memoryview(b"".join(codec.join_batch([]))), 0.0)
    assert pair.b.flows[0].have == 4


def test_a_gap_beyond_all_numbers_is_nonsense():
    pair = Pair(random.Random(0), credit=3)
    with pytest.raises(WireError, match="some are missing"):
        pair.b.arrived(0, 1 << 62, memoryview(b"".join(codec.join_batch([]))), 0.0)


def test_engines_without_such_messages_take_no_gap():
    plain = Exchange(NAMES, 1, FlowConfig(), [0, 0, 0], 1, [])
    with pytest.raises(WireError, match="some are missing"):
        plain.arrived(0, 2, memoryview(b"".join(codec.join_batch([]))), 0.0)
