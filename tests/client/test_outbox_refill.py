"""Messages that come back into the outbox, and what counts towards limits meanwhile."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from thence.causal.dot import pack
from thence.client.outbox import SHRINK_MESSAGES, Outbox
from thence.message import Chain, Message
from thence.wire.codec import BATCH_MESSAGES_MAX, decode_batch, encode, messages_of
from thence.wire.talk import message_bytes

EVERYTHING = 1 << 40
SLOT = 2


def whole(seq: int, payload: bytes) -> Message:
    """After nothing, so that it is no part of a chain."""
    return Message(SLOT, seq, (), payload)


def link(seq: int, payload: bytes) -> Message:
    return Message(SLOT, seq, (pack(SLOT, seq - 1),), payload)


def size_of(message: Message) -> int:
    return message_bytes(message.payload)


def chained(count: int, first: int = 2) -> Outbox:
    outbox = Outbox(first, slot=SLOT)
    outbox.append_chain(first, [b"%d" % seq for seq in range(first, first + count)])
    return outbox


def batch_of(outbox: Outbox, number: int, last: int) -> list:
    return decode_batch(memoryview(b"".join(outbox.batch(number, last, 1)[0])))


def test_what_comes_back_is_in_front():
    outbox = chained(4)
    outbox.release(4)
    assert len(outbox._messages) == 4  # still there
    before = [whole(3, b"3"), link(4, b"4")]
    outbox.refill([1, 1])
    outbox.fetch = lambda number: before[number - 3]
    assert (outbox.first, outbox.last, len(outbox), outbox.solid) == (3, 5, 3, 5)
    assert outbox.kept_bytes == 3
    assert batch_of(outbox, 3, 5) == [
        whole(3, b"3"),
        Chain(SLOT, 4, [b"4"]),
        Chain(SLOT, 5, [b"5"]),
    ]
    outbox.release(3)
    assert (outbox.first, outbox.kept_bytes) == (4, 2)


def test_what_only_some_lack_is_fetched_when_it_is_sent():
    outbox = chained(4)
    fetched: list[int] = []

    def fetch(number: int) -> Message:
        fetched.append(number)
        return link(number, b"%d" % number)

    outbox.fetch = fetch
    outbox.lighten(4)
    outbox.lighten(3)
    assert (outbox.solid, len(outbox)) == (5, 4)
    assert not any(outbox._messages[:3])
    assert messages_of(batch_of(outbox, 3, 5)) == [link(seq, b"%d" % seq) for seq in (3, 4, 5)]
    assert fetched == [3, 4]
    with pytest.raises(AssertionError):
        outbox.message(4)


def test_no_more_comes_back_than_there_are_numbers():
    outbox = chained(1, first=3)
    with pytest.raises(AssertionError):
        outbox.refill([5] * 3)
    outbox.refill([5] * 2)
    assert outbox.first == 1


def test_everything_counts_unless_it_is_said_otherwise():
    outbox = chained(4)
    assert (outbox.waiting, outbox.waiting_bytes) == (4, 4)
    outbox.release(3)
    assert (outbox.waiting, outbox.waiting_bytes) == (2, 2)
    outbox.refill([3])
    assert (outbox.waiting, outbox.waiting_bytes) == (3, 5)


def test_what_is_up_to_the_floor_does_not_count():
    outbox = chained(4)
    outbox.floor = 3
    assert (len(outbox), outbox.waiting, outbox.waiting_bytes) == (4, 2, 2)
    outbox.release(2)
    assert (len(outbox), outbox.waiting, outbox.waiting_bytes) == (3, 2, 2)
    outbox.release(4)
    assert (len(outbox), outbox.waiting, outbox.waiting_bytes) == (1, 1, 1)
    outbox.floor = 5
    assert (len(outbox), outbox.waiting, outbox.waiting_bytes) == (1, 0, 0)


class Plain:
    """An outbox as a list of all messages that were ever sent."""

    def __init__(self) -> None:
        self.all: list[Message] = []
        self.kept: list[int] = []
        """What each counts of the bytes that are kept."""
        self.first = 1
        self.floor = 0
        self.light = 0

    def add(self, message: Message) -> None:
        self.all.append(message)
        self.kept.append(len(message.payload if message.context else encode(message)))

    def between(self, number: int, last: int) -> list[Message]:
        return self.all[number - 1 : last]

    def kept_bytes(self, number: int) -> int:
        """Of the messages from this one on."""
        return sum(self.kept[number - 1 :])

    def reach(self, number: int, limit: int, room: int, batch_bytes: int) -> tuple[int, int]:
        taken = kept = count = 0
        for message in self.between(number, min(limit, number + BATCH_MESSAGES_MAX - 1)):
            kept += self.kept[number + count - 1]
            if (kept > batch_bytes and count) or taken + size_of(message) > room:
                break
            count, taken = count + 1, taken + size_of(message)
        return number + count - 1, taken


def step(rng: random.Random, outbox: Outbox, plain: Plain) -> None:
    last = len(plain.all)
    match rng.choice(["append", "chain", "chain", "release", "refill", "floor", "lighten"]):
        case "append":
            message = whole(last + 1, rng.randbytes(rng.randrange(20)))
            assert outbox.append(encode(message), message_bytes(message.payload)) == last + 1
            plain.add(message)
        case "chain" if last:
            many = rng.choice([3, 3, SHRINK_MESSAGES // 2])
            payloads = [rng.randbytes(rng.randrange(20)) for _ in range(rng.randint(1, many))]
            outbox.append_chain(last + 1, payloads)
            for at, payload in enumerate(payloads):
                plain.add(link(last + 1 + at, payload))
        case "release":
            number = rng.randint(max(0, plain.first - 3), last)
            if rng.random() < 0.2:
                number = last
            outbox.release(number)
            plain.first = max(plain.first, number + 1)
        case "refill":
            first = rng.randint(1, plain.first)
            before = plain.between(first, plain.first - 1)
            lengths = [len(each.payload) for each in before]
            outbox.refill(lengths)
            plain.kept[first - 1 : plain.first - 1] = lengths
            plain.light = max(plain.light, plain.first - 1)
            plain.first = first
        case "floor":
            outbox.floor = plain.floor = rng.randint(0, last)
        case "lighten":
            number = rng.randint(0, last)
            outbox.lighten(number)
            plain.light = max(plain.light, number)


def compare(rng: random.Random, outbox: Outbox, plain: Plain) -> None:
    first, last = plain.first, len(plain.all)
    assert (outbox.first, outbox.last, len(outbox)) == (first, last, last - first + 1)
    assert outbox.kept_bytes == plain.kept_bytes(first)
    counts_from = max(plain.floor + 1, first)
    assert outbox.waiting == last - counts_from + 1
    assert outbox.waiting_bytes == plain.kept_bytes(counts_from)
    after = rng.randint(first - 1, last)
    assert outbox.bytes_after(after) == plain.kept_bytes(after + 1)
    if first > last:
        return
    number = rng.randint(first, last)
    assert outbox.solid == max(first, plain.light + 1)
    if number >= outbox.solid:
        assert outbox.message(number) == encode(plain.all[number - 1])
    limit = rng.randint(number - 1, last + 5)
    room, batch_bytes = rng.choice([50, 300, EVERYTHING]), rng.choice([10, 100, EVERYTHING])
    reached, taken = outbox.reach(number, limit, room, batch_bytes, 1)
    assert (reached, taken) == plain.reach(number, limit, room, batch_bytes)
    if reached >= number:
        items = batch_of(outbox, number, reached)
        assert messages_of(items) == plain.between(number, reached)
        # As few items as can be: links go together, but for those that are light.
        links = [bool(message.context) for message in plain.between(number, reached)]
        runs = sum(not (now and before) for before, now in pairwise([False, *links]))
        assert runs <= len(items) <= runs + (number <= plain.light < reached)


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_a_plain_list(seed: int):
    rng = random.Random(seed)
    outbox, plain = Outbox(slot=SLOT), Plain()
    outbox.fetch = lambda number: plain.all[number - 1]
    for _ in range(80):
        step(rng, outbox, plain)
        compare(rng, outbox, plain)
