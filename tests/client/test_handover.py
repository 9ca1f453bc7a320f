"""A state in pieces: in order, a window at a time, again where it broke off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.companies import founders
from thence.client.handover import WINDOW_PIECES, Handover
from thence.errors import WireError
from thence.wire.membership import CHUNK, END, ENGINE, HEAD, PART, Head

HEAD_OF_A = Head("a", founders(), 2, "tagged", True, (), ())


def handover(*chunks: bytes, engine: bytes = b"e", piece_bytes: int = 10) -> Handover:
    return Handover(5, HEAD_OF_A, engine, chunks, piece_bytes)


def kinds(made: Handover) -> list[int]:
    """Of all pieces, acknowledged as they come."""
    found = []
    while not made.is_done:
        pieces = made.due()
        assert pieces
        found += [each.kind for each in pieces]
        made.acknowledged(pieces[-1].number + 1)
    return found


def test_pieces_come_in_their_order_and_chunks_end_where_they_ended():
    assert kinds(handover(b"x" * 25, b"", b"y" * 10, engine=b"e" * 11)) == [
        HEAD, ENGINE, ENGINE, PART, PART, CHUNK, CHUNK, CHUNK, END,
    ]  # fmt: skip


def test_an_application_without_state_gives_no_chunks():
    assert kinds(handover()) == [HEAD, ENGINE, END]


def test_only_a_window_of_pieces_is_drawn_from_the_application():
    drawn = []

    def chunks() -> Iterator[bytes]:
        for at in range(1000):
            drawn.append(at)
            yield b"z"

    made = Handover(5, HEAD_OF_A, b"e", chunks(), 10)
    pieces = made.due()
    assert len(pieces) == WINDOW_PIECES
    assert not made.due(), "nothing more before it is acknowledged"
    made.acknowledged(pieces[0].number + 3)
    assert len(made.due()) == 3
    assert len(drawn) < WINDOW_PIECES + 3
    assert len(made._kept) == WINDOW_PIECES


def test_what_was_lost_with_a_connection_is_sent_again():
    made = handover(*[b"c"] * 40)
    first = made.due()
    made.acknowledged(4)
    made.due()
    assert made.resume(6)
    again = made.due()
    assert again[0] == first[6]
    assert [each.number for each in again] == list(range(6, 6 + WINDOW_PIECES))


def test_it_cannot_go_on_from_what_is_forgotten_or_was_never_sent():
    made = handover(*[b"c"] * 40)
    made.due()
    made.acknowledged(9)
    assert not made.resume(3)
    assert not handover(*[b"c"] * 40).resume(3)
    made.due()
    assert not made.resume(1 << 60)


def test_an_acknowledgement_of_what_was_never_sent_is_nonsense():
    """Otherwise each would draw another window, and nobody would have to read any of it."""
    made = handover(*[b"c"] * 40)
    made.due()
    made.acknowledged(WINDOW_PIECES)
    with pytest.raises(WireError, match=f"acknowledged 17 of {WINDOW_PIECES} pieces"):
        made.acknowledged(WINDOW_PIECES + 1)
    assert not made.is_done


@pytest.mark.parametrize("chunk", [bytearray(b"x" * 25), memoryview(b"x" * 25)])
def test_a_chunk_may_be_any_bytes(chunk: bytes):
    made = handover(chunk)
    assert b"".join(each.data for each in made.due()[2:-1]) == b"x" * 25


def test_what_the_application_raises_while_it_is_drawn_comes_out():
    def chunks() -> Iterator[bytes]:
        yield b"one"
        raise ValueError("no more")

    made = Handover(5, HEAD_OF_A, b"", chunks(), 10)
    with pytest.raises(ValueError, match="no more"):
        made.due()


def test_a_chunk_that_is_no_bytes_is_an_error():
    with pytest.raises(TypeError):
        Handover(5, HEAD_OF_A, b"", ["text"], 10).due()  # type: ignore[list-item]


def test_a_number_is_no_chunk():
    """``bytes(3)`` would be three zeros that the application never gave."""
    with pytest.raises(TypeError):
        Handover(5, HEAD_OF_A, b"", [3], 10).due()  # type: ignore[list-item]
