"""Messages that come back into the outbox, and what counts towards limits meanwhile."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from thence.causal.dot import pack
from thence.client.outbox import SHRINK_MESSAGES, Entry, Outbox
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


def entry_of(message: Message) -> Entry:
    size = message_bytes(message.payload)
    if message.context:
        return Entry(message.payload, size, message.seq)
    return Entry(encode(message), size)


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
    outbox.refill([entry_of(whole(3, b"3")), entry_of(link(4, b"4"))])
    assert (outbox.first, outbox.last, len(outbox), outbox.kept_bytes) == (
        3, 5, 3, len(encode(whole(3, b"3"))) + 2,
    )  # fmt: skip
    assert batch_of(outbox, 3, 5) == [whole(3, b"3"), Chain(SLOT, 4, [b"4", b"5"])]
    outbox.release(3)
    assert (outbox.first, outbox.kept_bytes) == (4, 2)


def test_no_more_comes_back_than_there_are_numbers():
    outbox = chained(1, first=3)
    with pytest.raises(AssertionError):
        outbox.refill([entry_of(whole(seq, b"")) for seq in range(3)])
    outbox.refill([entry_of(whole(seq, b"")) for seq in (1, 2)])
    assert outbox.first == 1


def test_everything_counts_unless_it_is_said_otherwise():
    outbox = chained(4)
    assert (outbox.waiting, outbox.waiting_bytes) == (4, 4)
    outbox.release(3)
    assert (outbox.waiting, outbox.waiting_bytes) == (2, 2)
    outbox.refill([entry_of(link(3, b"345"))])
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
        self.first = 1
        self.floor = 0

    def between(self, number: int, last: int) -> list[Message]:
        return self.all[number - 1 : last]

    def kept_bytes(self, number: int) -> int:
        """Of the messages from this one on."""
        return sum(len(entry_of(message).kept) for message in self.all[number - 1 :])

    def reach(self, number: int, limit: int, room: int, batch_bytes: int) -> tuple[int, int]:
        taken = kept = count = 0
        for message in self.between(number, min(limit, number + BATCH_MESSAGES_MAX - 1)):
            entry = entry_of(message)
            kept += len(entry.kept)
            if (kept > batch_bytes and count) or taken + entry.size > room:
                break
            count, taken = count + 1, taken + entry.size
        return number + count - 1, taken


def step(rng: random.Random, outbox: Outbox, plain: Plain) -> None:
    last = len(plain.all)
    match rng.choice(["append", "chain", "chain", "release", "refill", "floor"]):
        case "append":
            message = whole(last + 1, rng.randbytes(rng.randrange(20)))
            assert outbox.append(encode(message), message_bytes(message.payload)) == last + 1
            plain.all.append(message)
        case "chain" if last:
            many = rng.choice([3, 3, SHRINK_MESSAGES // 2])
            payloads = [rng.randbytes(rng.randrange(20)) for _ in range(rng.randint(1, many))]
            outbox.append_chain(last + 1, payloads)
            plain.all += [link(last + 1 + at, payload) for at, payload in enumerate(payloads)]
        case "release":
            number = rng.randint(max(0, plain.first - 3), last)
            if rng.random() < 0.2:
                number = last
            outbox.release(number)
            plain.first = max(plain.first, number + 1)
        case "refill":
            first = rng.randint(1, plain.first)
            outbox.refill([entry_of(each) for each in plain.between(first, plain.first - 1)])
            plain.first = first
        case "floor":
            outbox.floor = plain.floor = rng.randint(0, last)


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
    assert outbox.message(number) == encode(plain.all[number - 1])
    limit = rng.randint(number - 1, last + 5)
    room, batch_bytes = rng.choice([50, 300, EVERYTHING]), rng.choice([10, 100, EVERYTHING])
    reached, taken = outbox.reach(number, limit, room, batch_bytes, 1)
    assert (reached, taken) == plain.reach(number, limit, room, batch_bytes)
    if reached >= number:
        items = batch_of(outbox, number, reached)
        assert messages_of(items) == plain.between(number, reached)
        # As few items as can be: links go together.
        links = [bool(message.context) for message in plain.between(number, reached)]
        runs = sum(not (now and before) for before, now in pairwise([False, *links]))
        assert len(items) == runs


@pytest.mark.parametrize("seed", range(30))
def test_it_agrees_with_a_plain_list(seed: int):
    rng = random.Random(seed)
    outbox, plain = Outbox(slot=SLOT), Plain()
    for _ in range(80):
        step(rng, outbox, plain)
        compare(rng, outbox, plain)
