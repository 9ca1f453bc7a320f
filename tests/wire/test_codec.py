"""Bytes in, message or WireError out; message in, the same message back."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.seeds import seeds
from thence.causal.dot import SEQ_MAX, SLOT_MAX, pack
from thence.errors import WireError
from thence.message import (
    CONTEXT_DOTS_MAX,
    PAYLOAD_BYTES_MAX,
    STREAM_CHARS_MAX,
    Aside,
    Bundle,
    Control,
    Message,
    Phantom,
    Stamped,
    StreamDot,
    VectorMessage,
    WireMessage,
)
from thence.wire.codec import decode, decode_batch, encode, join_batch, metadata_bytes

slots = st.integers(0, SLOT_MAX)
seqs = st.integers(1, SEQ_MAX)
payloads = st.binary(max_size=80)
contexts = st.dictionaries(slots, seqs, max_size=8).map(
    lambda d: tuple(sorted(pack(k, s) for k, s in d.items()))
)
names = st.text(max_size=STREAM_CHARS_MAX)
stream_dots = st.builds(StreamDot, slots, names, seqs)
asides = st.builds(Aside, names, st.lists(stream_dots, max_size=3).map(tuple), contexts)
vectors = st.lists(st.integers(0, SEQ_MAX), max_size=8).map(tuple)
messages = st.one_of(
    st.builds(Message, slots, seqs, contexts, payloads, st.none() | asides),
    st.builds(Phantom, slots, seqs, contexts),
    st.builds(VectorMessage, slots, vectors, payloads, vectors),
)


@given(messages)
def test_what_is_encoded_comes_back(message: WireMessage) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    try:
        message = decode(data)
    except WireError:
        return
    assert decode(encode(message)) == message


def test_damaged_messages_are_a_message_or_a_wire_error() -> None:
    good = encode(Message(1, 7, (pack(0, 3), pack(2, 300)), b"hello", Aside("s", (), ())))
    for seed in seeds(2000):
        rng = random.Random(seed)
        data = bytearray(good)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        del data[rng.randint(0, len(data)) :]
        try:
            decode(bytes(data))
        except WireError:
            pass


@pytest.mark.parametrize(
    "value",
    [
        [1, -1, 1, [], b""],
        [1, SLOT_MAX + 1, 1, [], b""],
        [1, 0, 0, [], b""],
        [1, 0, SEQ_MAX + 1, [], b""],
        [1, 0, 1, [0], b""],
        [1, 0, 1, [-1], b""],
        [1, 0, 1, [pack(SLOT_MAX, SEQ_MAX) + 1], b""],
        [1, 0, 1, ["a"], b""],
        [1, 0, 1, [1] * (CONTEXT_DOTS_MAX + 1), b""],
        [1, 0, 1, [], "text"],
        [1, 0, 1, [], b"", ["s", [[0, "t" * (STREAM_CHARS_MAX + 1), 1]], []]],
        [2, 0, 1],
        [3, 0, [1, -1], b""],
        [4, 0, 1, [], b""],
        [],
        {},
        None,
    ],
)
def test_a_field_out_of_range_is_a_wire_error(value: object) -> None:
    with pytest.raises(WireError):
        decode(msgspec.msgpack.encode(value))


def test_a_payload_above_the_limit_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        decode(encode(Message(0, 1, (), b"x" * (PAYLOAD_BYTES_MAX + 1))))


def test_bytes_after_a_message_are_a_wire_error() -> None:
    with pytest.raises(WireError):
        decode(encode(Phantom(0, 1, ())) + b"x")


def test_deep_nesting_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        decode(b"\x91" * 100_000)


def test_metadata_does_not_count_the_payload() -> None:
    small, large = Message(1, 7, (pack(0, 3),), b""), Message(1, 7, (pack(0, 3),), b"x" * 1000)
    assert metadata_bytes(small) == metadata_bytes(large) == len(encode(small))


@given(st.lists(messages.filter(lambda m: not isinstance(m, Phantom)), max_size=5))
def test_a_batch_is_the_messages_one_after_the_other(several: list[WireMessage]) -> None:
    data = b"".join(join_batch([encode(message) for message in several]))
    assert decode_batch(data) == several


@given(st.binary(max_size=100))
def test_any_bytes_are_a_batch_or_a_wire_error(data: bytes) -> None:
    try:
        decode_batch(data)
    except WireError:
        return


@pytest.mark.parametrize(
    ("message", "written"),
    [
        (Stamped(1, 2, (3, 4), b"hi"), "96050102920304c402686990"),
        (Stamped(1, 2, (3, 4), b"hi", (0, 2)), "96050102920304c4026869920002"),
        (Control(1, 2, (3, 4)), "94060102920304"),
        (
            Bundle((Stamped(1, 1, (1,), b"a"), Stamped(2, 1, (1, 1), b"b"))),
            "920792960501019101c401619096050201920101c4016290",
        ),
    ],
)
def test_messages_of_engines_that_order_by_stamps_have_these_bytes(
    message: WireMessage, written: str
) -> None:
    assert encode(message).hex() == written
    assert decode(bytes.fromhex(written)) == message
