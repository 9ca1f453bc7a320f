"""Messages come out of payloads as they went in, whatever their sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.errors import WireError
from thence.link.datagram import PAYLOAD_BYTES_MAX
from thence.link.fragment import LENGTH_BYTES, Cutter, Joiner

FULL = PAYLOAD_BYTES_MAX - LENGTH_BYTES
sizes = st.one_of(
    st.integers(0, 100), st.sampled_from([FULL - 1, FULL, FULL + 1, 2 * FULL, 10 * FULL + 7])
)


@given(st.lists(st.tuples(sizes, st.integers(0, 3)), max_size=20))
def test_messages_come_out_as_they_went_in(plan: list[tuple[int, int]]):
    cutter, joiner = Cutter(), Joiner(1 << 20)
    sent, got = [], []
    for number, (size, takes) in enumerate(plan):
        message = bytes([number]) * size
        sent.append(message)
        cutter.add(message)
        for _ in range(takes):
            if cutter.size:
                got += joiner.feed(cutter.take())
    while cutter.size:
        payload = cutter.take()
        assert 0 < len(payload) <= PAYLOAD_BYTES_MAX
        got += joiner.feed(payload)
    assert got == sent
    assert joiner.held_bytes == 0


def test_small_messages_share_a_payload_and_payloads_are_full():
    cutter = Cutter()
    for _ in range(100):
        cutter.add(b"x" * 60)
    taken = [len(cutter.take()) for _ in range(5)]
    assert taken == [PAYLOAD_BYTES_MAX] * 4 + [6400 - 4 * PAYLOAD_BYTES_MAX]
    assert cutter.size == 0


def test_a_message_above_the_limit_is_refused_when_its_length_is_seen():
    cutter, joiner = Cutter(), Joiner(1000)
    cutter.add(b"x" * 1000)
    assert joiner.feed(cutter.take()) == [b"x" * 1000]
    cutter.add(b"x" * 1001)
    with pytest.raises(WireError, match="a message of 1001 bytes; at most 1000 are taken"):
        joiner.feed(cutter.take()[:4])


@given(st.lists(st.binary(max_size=40), max_size=30))
def test_any_payloads_are_messages_or_an_error_and_what_is_held_is_bounded(payloads: list[bytes]):
    joiner = Joiner(64)
    try:
        for payload in payloads:
            joiner.feed(payload)
            assert joiner.held_bytes < 64 + LENGTH_BYTES
    except WireError:
        pass
