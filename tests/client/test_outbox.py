"""What was sent and is not acknowledged: numbers, slices, bytes, hollow forms."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from thence.client.outbox import SHRINK_BYTES, SHRINK_MESSAGES, Hollow, Outbox
from thence.wire.codec import join_batch
from thence.wire.talk import MESSAGE_BYTES_EXTRA

EVERYTHING = 1 << 40


def filled(count: int, size: int = 10, first: int = 1) -> Outbox:
    outbox = Outbox(first)
    for number in range(count):
        outbox.append(b"%d" % (first + number), size)
    return outbox


def test_messages_are_numbered_from_the_first():
    outbox = Outbox(5)
    assert (outbox.first, outbox.last, len(outbox), outbox.kept_bytes) == (5, 4, 0, 0)
    assert [outbox.append(b"ab", 1), outbox.append(b"c", 1)] == [5, 6]
    assert (outbox.first, outbox.last, len(outbox), outbox.kept_bytes) == (5, 6, 2, 3)
    assert outbox.message(6) == b"c"


def test_release_forgets_up_to_a_number():
    outbox = filled(4)
    outbox.release(2)
    assert (outbox.first, outbox.last, len(outbox), outbox.kept_bytes) == (3, 4, 2, 2)
    assert outbox.message(3) == b"3"


def test_releasing_less_than_before_does_nothing():
    outbox = filled(4)
    outbox.release(3)
    outbox.release(1)
    outbox.release(0)
    assert (outbox.first, len(outbox)) == (4, 1)


def test_everything_released_leaves_the_numbers():
    outbox = filled(2)
    outbox.release(2)
    assert (outbox.first, outbox.last, len(outbox), outbox.kept_bytes) == (3, 2, 0, 0)
    assert outbox.append(b"x", 1) == 3


def test_what_is_released_is_dropped_in_lots():
    outbox = filled(SHRINK_MESSAGES + 10)
    outbox.release(SHRINK_MESSAGES - 1)
    assert len(outbox._messages) == SHRINK_MESSAGES + 10
    outbox.release(SHRINK_MESSAGES)
    assert len(outbox._messages) == len(outbox) == 10
    assert outbox.message(SHRINK_MESSAGES + 3) == b"%d" % (SHRINK_MESSAGES + 3)


def test_large_messages_that_are_released_do_not_wait_for_a_lot():
    outbox = Outbox()
    for _ in range(10):
        outbox.append_chain(2, [bytes(SHRINK_BYTES // 4)])
    outbox.release(3)
    assert len(outbox._messages) == 10
    outbox.release(4)
    assert len(outbox._messages) == len(outbox) == 6
    assert outbox.kept_bytes == 6 * (SHRINK_BYTES // 4)
    assert outbox.reach(5, 9, EVERYTHING, EVERYTHING, 1)[0] == 9


def test_a_frame_reaches_to_the_peers_limit():
    outbox = filled(5)
    assert outbox.reach(2, 3, EVERYTHING, EVERYTHING, 1) == (3, 20)
    assert outbox.reach(2, 9, EVERYTHING, EVERYTHING, 1) == (5, 40)
    assert outbox.reach(4, 3, EVERYTHING, EVERYTHING, 1) == (3, 0)


def test_a_frame_stays_within_the_room_of_the_peer():
    outbox = filled(5)
    assert outbox.reach(1, 9, 29, EVERYTHING, 1) == (2, 20)
    assert outbox.reach(1, 9, 30, EVERYTHING, 1) == (3, 30)
    assert outbox.reach(1, 9, 9, EVERYTHING, 1) == (0, 0)


def test_a_frame_has_one_message_however_large_and_more_while_they_fit():
    outbox = Outbox()
    for size in (100, 5, 5, 100):
        outbox.append(bytes(size), size)
    assert outbox.reach(1, 9, EVERYTHING, 20, 1) == (1, 100)
    assert outbox.reach(2, 9, EVERYTHING, 20, 1) == (3, 10)
    assert outbox.reach(4, 9, EVERYTHING, 20, 1) == (4, 100)


def test_a_batch_is_a_slice_and_the_same_for_all():
    outbox = filled(4)
    outbox.release(1)
    parts, same = outbox.batch(2, 3, 1)
    assert b"".join(parts) == b"".join(join_batch([b"2", b"3"]))
    assert same


def test_those_whom_a_message_is_not_for_get_its_hollow_form():
    outbox = filled(1)
    outbox.append(b"secret", 90, Hollow(frozenset({1}), b"hollow"))
    assert b"".join(outbox.batch(1, 2, 1)[0]) == b"".join(join_batch([b"1", b"secret"]))
    parts, same = outbox.batch(1, 2, 2)
    assert b"".join(parts) == b"".join(join_batch([b"1", b"hollow"]))
    assert not same


def test_a_hollow_message_takes_the_room_of_an_empty_one():
    outbox = Outbox()
    outbox.append(b"secret", 1000, Hollow(frozenset({1}), b""))
    assert outbox.reach(1, 9, EVERYTHING, EVERYTHING, 1) == (1, 1000)
    assert outbox.reach(1, 9, EVERYTHING, EVERYTHING, 2) == (1, MESSAGE_BYTES_EXTRA)


def test_hollow_forms_are_released_with_their_messages():
    outbox = Outbox()
    for _ in range(3):
        outbox.append(b"secret", 10, Hollow(frozenset({1}), b""))
    outbox.release(2)
    assert list(outbox._hollow) == [3]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2000)), max_size=60))
def test_it_agrees_with_a_plain_list(steps: list[tuple[bool, int]]):
    outbox, plain, first = Outbox(), [], 1
    for is_append, amount in steps:
        if is_append:
            for _ in range(amount):
                plain.append(b"%d" % (first + len(plain)))
                outbox.append(plain[-1], 1)
        else:
            count = min(amount, len(plain))
            outbox.release(first + count - 1)
            del plain[:count]
            first += count
        assert (outbox.first, len(outbox), outbox.last) == (
            first,
            len(plain),
            first + len(plain) - 1,
        )
        assert outbox.kept_bytes == sum(map(len, plain))
        if plain:
            assert outbox.message(first) == plain[0]
            assert outbox.message(outbox.last) == plain[-1]
