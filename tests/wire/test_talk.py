"""The frames of version 1: golden bytes, how the format may change, and nonsense.

``tests/data/wire`` holds one example of each kind of frame and of message, in hexadecimal.  They
are what version 1 is: an encoder that gives other bytes, or a reader that does not take them, is
another version.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.tracked import ROOT
from thence.causal.dot import pack
from thence.errors import WireError
from thence.message import (
    Aside,
    Chain,
    Message,
    Phantom,
    StreamDot,
    VectorMessage,
    WireMessage,
    hollow_form,
)
from thence.wire import codec, talk
from thence.wire.frame import FrameReader, frame

FOLDER = ROOT / "tests/data/wire"
PAGE = ROOT / "docs/reference/wire.md"

MESSAGE = Message(0, 7, (pack(0, 6), pack(1, 3)), b"hello")
ON_STREAM = Message(
    1, 2, (pack(0, 6),), b"hi", Aside("s", (StreamDot(2, "t", 4),), ())
)  # fmt: skip
HIDING = Message(1, 3, (), b"", Aside("", (StreamDot(1, "s", 2),), (pack(0, 6),)))
MULTICAST = Message(2, 5, (pack(2, 4),), b"secret", Aside("", (), (), (0, 3)))
PHANTOM = Phantom(2, 9, (pack(0, 7), pack(1, 3)))
VECTOR = VectorMessage(1, (3, 4, 0), b"hello")
TWO_VECTORS = VectorMessage(1, (3, 4, 0), b"hello", (1, 4, 0))

MESSAGES: dict[str, WireMessage] = {
    "message": MESSAGE,
    "message-on-stream": ON_STREAM,
    "message-hiding": HIDING,
    "message-to-some": MULTICAST,
    "message-hollow": hollow_form(MULTICAST),
    "phantom": PHANTOM,
    "vector-message": VECTOR,
    "vector-message-two": TWO_VECTORS,
}
CHAIN = Chain(1, 3, [b"one", b"two"])
HELLO = talk.Hello("thence", 1, 1, "alice", 1_790_000_000_000_000_000, "thence 0.1")
OPEN = talk.Open(3, "orders", "tagged", ("alice", "bob"), 41, 16_425, 33_554_432, True)
BATCH = codec.join_batch([codec.encode(MESSAGE), codec.encode(ON_STREAM)])


class Frame(msgspec.Struct, frozen=True):
    """One kind of frame: its example, how it is made, and how it is read."""

    kind: int
    made: bytes
    read: Callable[[bytes], Any]
    says: Any


def read_data(body: bytes) -> Any:
    channel, number, batch = talk.read_data(body)
    return channel, number, codec.decode_batch(batch)


FRAMES = {
    "hello": Frame(
        talk.HELLO, talk.hello("alice", HELLO.boot, "thence 0.1", (1, 1)),
        lambda body: talk.read(body, talk.Hello), HELLO,
    ),
    "refuse": Frame(
        talk.REFUSE, talk.refuse(talk.BAD_VERSION, "upgrade"),
        lambda body: talk.read(body, talk.Refuse), talk.Refuse(1, "upgrade"),
    ),
    "open": Frame(
        talk.OPEN, talk.open_group(OPEN), lambda body: talk.read(body, talk.Open), OPEN
    ),
    "data": Frame(talk.DATA, talk.data(3, 42, BATCH), read_data, (3, 42, [MESSAGE, ON_STREAM])),
    "ack": Frame(
        talk.ACK, talk.ack(3, 41, 16_425, 33_554_432), talk.read_ack,
        talk.Ack(3, 41, 16_425, 33_554_432),
    ),
    "news": Frame(talk.NEWS, talk.news(3, PHANTOM), talk.read_news, (3, PHANTOM)),
    "ping": Frame(talk.PING, talk.ping(123_456_789), talk.read_token, 123_456_789),
    "pong": Frame(talk.PONG, talk.pong(123_456_789), talk.read_token, 123_456_789),
    "bye": Frame(
        talk.BYE, talk.bye(talk.STOPPING, "it stops"),
        lambda body: talk.read(body, talk.Refuse), talk.Refuse(8, "it stops"),
    ),
}  # fmt: skip


def golden(name: str) -> bytes:
    return bytes.fromhex((FOLDER / f"{name}.hex").read_text(encoding="ascii"))


# ---- golden bytes


def test_there_is_an_example_of_everything():
    assert {path.stem for path in FOLDER.glob("*.hex")} == {*FRAMES, *MESSAGES, "chain"}
    kinds = [value for name, value in vars(talk).items() if name in KINDS]
    assert sorted(each.kind for each in FRAMES.values()) == sorted(kinds) == list(range(1, 10))


KINDS = ("HELLO", "REFUSE", "OPEN", "DATA", "ACK", "NEWS", "PING", "PONG", "BYE")


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_has_the_bytes_of_version_1(name: str):
    assert FRAMES[name].made.hex() == golden(name).hex()


@pytest.mark.parametrize("name", FRAMES)
def test_the_bytes_of_version_1_are_read(name: str):
    ((kind, body),) = FrameReader().feed(golden(name))
    assert kind == FRAMES[name].kind
    assert FRAMES[name].read(body) == FRAMES[name].says


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_bytes_of_version_1_and_is_read(name: str):
    assert codec.encode(MESSAGES[name]).hex() == golden(name).hex()
    assert codec.decode(golden(name)) == MESSAGES[name]


def test_a_chain_has_the_bytes_of_version_1_and_is_read():
    assert codec.encode(CHAIN).hex() == golden("chain").hex()
    (read,) = codec.decode_batch(b"".join(codec.join_batch([golden("chain")])))
    assert read == CHAIN
    assert codec.messages_of([read, MESSAGE]) == [
        Message(1, 3, (pack(1, 2),), b"one"),
        Message(1, 4, (pack(1, 3),), b"two"),
        MESSAGE,
    ]


@pytest.mark.parametrize(
    "value",
    [
        [4, 1, 1, [b"x"]],
        [4, 1, 2, []],
        [4, 1, 2, [b"x"] * 65_536],
        [4, 1, (1 << 40) - 1, [b"x"]],
        [4, -1, 2, [b"x"]],
        [4, 1, 2, ["x"]],
        [4, 1, 2],
        [4, 1, 2, b"x"],
    ],
)
def test_a_chain_that_cannot_be_is_refused(value: list[Any]):
    with pytest.raises(WireError, match="not a batch"):
        codec.decode_batch(msgspec.msgpack.encode([value]))
    with pytest.raises(WireError):
        codec.decode(msgspec.msgpack.encode([4, 1, 2, [b"x"]]))  # alone it is no message


def test_the_page_shows_these_bytes():
    page = PAGE.read_text(encoding="utf-8")
    for name in (*FRAMES, *MESSAGES, "chain"):
        assert f"`{golden(name).hex()}`" in page, f"{name} is not in {PAGE.name}"


def test_the_page_has_every_limit_and_code():
    page = PAGE.read_text(encoding="utf-8")
    for name in (
        "BAD_VERSION", "WRONG_NAME", "NOT_A_MEMBER", "DIFFERENT_GROUP", "LOST_JOURNAL", "NONSENSE",
        "REPLACED", "STOPPING", "TOO_MANY", "YOUR_JOURNAL",
    ):  # fmt: skip
        assert f"| {getattr(talk, name)} | `{name}` |" in page
    for name in ("NAME_CHARS_MAX", "SENTENCE_CHARS_MAX", "MEMBERS_MAX", "MESSAGE_BYTES_EXTRA"):
        assert f"| `{name}` | {getattr(talk, name)} |" in page


# ---- how the format may change

ARRAYS = ("hello", "refuse", "open", "bye")


@pytest.mark.parametrize("name", ARRAYS)
def test_fields_after_those_we_know_are_ignored(name: str):
    ((_, body),) = FrameReader().feed(golden(name))
    fields = msgspec.msgpack.decode(body)
    # Only elastic groups say who opens it to whom, only newcomers that they are, and which group it
    # is about only some refusals.
    rest = {"open": ["", "", 0], "hello": [False], "refuse": [""], "bye": [""]}
    fields += rest.get(name, [])
    longer = [*fields, "new", {"in": 2}, [3]]
    assert FRAMES[name].read(msgspec.msgpack.encode(longer)) == FRAMES[name].says


@pytest.mark.parametrize("name", ["ack", "ping", "pong"])
def test_bytes_after_those_we_know_are_ignored(name: str):
    ((_, body),) = FrameReader().feed(golden(name))
    assert FRAMES[name].read(body + b"more") == FRAMES[name].says


@pytest.mark.parametrize("name", MESSAGES)
def test_fields_of_messages_after_those_we_know_are_ignored(name: str):
    known = {"message": 6, "phantom": 4, "vector": 5}[name.split("-", maxsplit=1)[0]]
    fields = msgspec.msgpack.decode(golden(name))
    defaults = [None] if name == "message" else [()]
    longer = [*fields, *defaults * (known - len(fields)), "new"]
    assert codec.decode(msgspec.msgpack.encode(longer)) == MESSAGES[name]


def test_fields_with_a_default_may_be_left_out():
    short = msgspec.msgpack.encode(["thence", 1, 1, "alice", 5])
    assert talk.read(short, talk.Hello).software == ""
    assert not talk.read(short, talk.Hello).is_newcomer
    said = msgspec.msgpack.decode(msgspec.msgpack.encode(OPEN))[:-1]
    assert talk.read(msgspec.msgpack.encode(said), talk.Open).stability is True


@pytest.mark.parametrize(
    ("mine", "theirs", "chosen"),
    [
        ((1, 1), (1, 1), 1),
        ((1, 2), (1, 1), 1),
        ((1, 2), (1, 2), 2),
        ((1, 3), (2, 5), 3),
        ((2, 5), (1, 3), 3),
        ((2, 2), (1, 1), None),
        ((1, 2), (3, 4), None),
        ((1, 1), (2, 1), None),
    ],
)
def test_the_largest_version_that_both_speak_is_chosen(
    mine: tuple[int, int], theirs: tuple[int, int], chosen: int | None
):
    assert talk.choose_version(mine, theirs) == talk.choose_version(theirs, mine) == chosen


# ---- nonsense

READERS: dict[str, Callable[[bytes], Any]] = {
    **{name: each.read for name, each in FRAMES.items()},
    "message": codec.decode,
    "batch": codec.decode_batch,
}


@pytest.mark.parametrize("name", READERS)
@given(st.binary(max_size=120))
def test_any_bytes_give_a_value_or_a_wire_error(name: str, data: bytes):
    try:
        READERS[name](data)
    except WireError as error:
        assert str(error)


@pytest.mark.parametrize("name", FRAMES)
@given(st.data())
def test_damaged_frames_give_a_value_or_a_wire_error(name: str, data: st.DataObject):
    ((_, body),) = FrameReader().feed(golden(name))
    at = data.draw(st.integers(0, len(body) - 1))
    changed = bytearray(body)
    changed[at] ^= data.draw(st.integers(1, 255))
    for damaged in (bytes(changed), body[:at]):
        try:
            FRAMES[name].read(damaged)
        except WireError as error:
            assert str(error)


@given(st.lists(st.binary(max_size=60), max_size=6))
@example([b"\xff\xff\xff\xff\x01"])
@example([b"\x00\x00\x00\x00"])
def test_any_stream_gives_frames_or_a_wire_error(portions: list[bytes]):
    reader = FrameReader()
    try:
        for portion in portions:
            for kind, body in reader.feed(portion):
                assert 0 <= kind < 256
                assert isinstance(bytes(body), bytes)
    except WireError as error:
        assert str(error)
    assert reader.held_bytes <= reader.limit + 60


@pytest.mark.parametrize(
    ("made", "form", "sentence"),
    [
        (["thence", -1, 1, "a", 5], talk.Hello, "not a hello"),
        (["thence", 1, 1 << 63, "a", 5], talk.Hello, "not a hello"),
        (["thence", 1, 1, "a" * 201, 5], talk.Hello, "not a hello"),
        (["thence", 1, 1, 7, 5], talk.Hello, "not a hello"),
        ([1, "s" * 501], talk.Refuse, "not a refuse"),
        ([1 << 16, "g", "tagged", ["a"], 0, 0, 0], talk.Open, "not a open"),
        ([0, "g", "tagged", ["a"] * 4097, 0, 0, 0], talk.Open, "not a open"),
        ([0, "g", "tagged", ["a"], -1, 0, 0], talk.Open, "not a open"),
        ({"channel": 0}, talk.Open, "not a open"),
    ],
)
def test_fields_beyond_their_limits_are_refused(made: Any, form: Any, sentence: str):
    with pytest.raises(WireError, match=sentence):
        talk.read(msgspec.msgpack.encode(made), form)


def test_sentences_are_cut_to_their_limit():
    body = talk.refuse(1, "x" * 1000)[5:]
    assert len(talk.read(body, talk.Refuse).sentence) == talk.SENTENCE_CHARS_MAX


def test_short_bodies_are_refused():
    for read, size in ((talk.read_data, 10), (talk.read_ack, 25), (talk.read_token, 7)):
        with pytest.raises(WireError, match=str(size)):
            read(bytes(size))
    with pytest.raises(WireError, match="no phantom"):
        talk.read_news(b"\x00\x03")
    with pytest.raises(WireError, match="not a phantom"):
        talk.read_news(b"\x00\x03" + codec.encode(MESSAGE))


def test_a_batch_of_phantoms_is_refused():
    with pytest.raises(WireError, match="batch"):
        codec.decode_batch(b"".join(codec.join_batch([codec.encode(PHANTOM)])))


def test_both_ends_count_a_message_alike():
    assert talk.message_bytes(b"hello") == 5 + talk.MESSAGE_BYTES_EXTRA


def test_a_frame_says_how_long_it_is_and_what_it_is():
    assert frame(9, b"xy") == b"\x00\x00\x00\x03\x09xy"
