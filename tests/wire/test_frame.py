"""Bytes in any portions come out as the frames that were put in, or as a WireError in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.errors import WireError
from thence.wire.frame import HEAD_BYTES, FrameReader, frame, frame_of

frames = st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=50)), max_size=6)


@given(frames, st.lists(st.integers(1, 40), max_size=20))
def test_frames_come_out_whole_whatever_portions_they_arrive_in(
    several: list[tuple[int, bytes]], portions: list[int]
):
    data = b"".join(frame(kind, body) for kind, body in several)
    reader = FrameReader()
    found = []
    for size in portions:
        found += reader.feed(data[:size])
        data = data[size:]
    found += reader.feed(data)
    assert found == several
    assert reader.held_bytes == 0


def test_parts_are_one_body():
    assert frame_of(3, [b"ab", b"", b"c"]) == frame(3, b"abc")


def test_a_length_above_the_limit_is_refused_before_its_body_arrives():
    reader = FrameReader(limit=10)
    assert reader.feed(frame(1, b"x" * 9)) == [(1, b"x" * 9)]
    with pytest.raises(WireError, match="a frame of 11 bytes; at most 10 are taken"):
        reader.feed(frame(1, b"x" * 10)[:HEAD_BYTES])


def test_a_length_of_nothing_is_refused():
    with pytest.raises(WireError):
        FrameReader().feed(b"\0\0\0\0")


def test_what_is_held_stays_within_a_frame():
    reader = FrameReader(limit=100)
    whole = frame(1, b"x" * 99)
    for _ in range(50):
        reader.feed(whole[:60])
        assert reader.held_bytes <= len(whole)
        reader.feed(whole[60:])
