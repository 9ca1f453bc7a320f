"""A node on its way into a group: whom it asks, what it takes, when it gives up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.client.companies import elastic_of, founders, newcomer_of
from thence.client.handover import Handover
from thence.client.newcomer import CONTACTS_KEPT_MAX, KNOCK_S, PATIENCE_S, Newcomer
from thence.client.secret import is_proof
from thence.engine.handover import state_for, taken
from thence.errors import WireError
from thence.wire import membership as said
from thence.wire.frame import FRAME_BYTES_MAX, FrameReader
from thence.wire.membership import CouncilMessage, Head, Request

REQUEST = newcomer_of().request
VIEW = founders("ab").next({}, [REQUEST])


def spoken(newcomer: Newcomer) -> list[tuple[str, CouncilMessage]]:
    found = []
    for peer, data in newcomer.told():
        for _, body in FrameReader(FRAME_BYTES_MAX).feed(data):
            found.append((peer, said.decode(body)[1]))
    return found


def asking(peers: tuple[str, ...] = ("a",), **more: Any) -> Newcomer:
    """It has knocked once."""
    newcomer = newcomer_of(**more)
    newcomer.tick(0.0, peers)
    assert [type(each) for _, each in spoken(newcomer)] == [said.Knock]
    return newcomer


def handover(*chunks: bytes, number: int = 5, provider: str = "a", **head: Any) -> Handover:
    member = VIEW.named("j")
    assert member is not None
    driver = elastic_of("a", view=VIEW)
    state = state_for(driver.client, driver.engine, taken(driver.client, driver.engine, []), 2)
    made = Head(provider, VIEW, member.slot, "tagged", True, (), ())
    made = msgspec.structs.replace(made, **head)
    return Handover(number, made, msgspec.msgpack.encode(state), chunks, 10)


def give(
    newcomer: Newcomer, made: Handover, count: int = 1 << 30, peer: str = "a", now: float = 0.0
) -> None:
    """So many pieces arrive and are acknowledged."""
    while count and not newcomer.is_done and not newcomer.failed:
        for piece in made.due()[:count]:
            newcomer.hear(peer, piece, now)
            count -= 1
        for _, message in spoken(newcomer):
            assert isinstance(message, said.PieceAck)
            made.acknowledged(message.piece)


def test_it_has_the_state_when_all_pieces_are_there():
    newcomer = asking()
    give(newcomer, handover(b"x" * 25, b"", b"y"))
    assert newcomer.is_done
    assert list(newcomer.spool.chunks()) == [b"x" * 25, b"", b"y"]
    assert newcomer.head is not None
    assert newcomer.head.view == VIEW


def test_an_application_without_chunks_has_none_there():
    newcomer = asking()
    give(newcomer, handover())
    assert newcomer.is_done
    assert list(newcomer.spool.chunks()) == []


def test_a_state_that_is_too_large_is_not_taken():
    newcomer = asking(state_bytes_max=5000)
    give(newcomer, handover(*[b"c" * 100] * 90), 800)
    assert newcomer.failed == "the state has more than 5,000 bytes: see membership.state_bytes_max"
    assert newcomer.received_bytes <= 5000


def test_it_says_where_it_broke_off():
    newcomer = asking()
    give(newcomer, handover(*[b"c"] * 90), 7)
    newcomer.tick(1.0, ("a",))
    ((_, knock),) = spoken(newcomer)
    assert isinstance(knock, said.Knock)
    assert (knock.snapshot, knock.piece) == (5, 7)


def test_a_state_of_another_provider_replaces_what_was_there():
    newcomer = asking(("a", "b"))
    give(newcomer, handover(*[b"old"] * 90), 60)
    assert newcomer.received_bytes
    newcomer.tick(PATIENCE_S, ("b",))
    spoken(newcomer)
    give(newcomer, handover(b"new", number=6, provider="b"), peer="b")
    assert newcomer.is_done
    assert list(newcomer.spool.chunks()) == [b"new"]
    assert newcomer.head is not None
    assert newcomer.head.provider == "b"


def test_a_piece_that_comes_twice_or_too_early_is_not_taken_again():
    newcomer, made = asking(), handover(b"x", b"y")
    pieces = made.due()
    for piece in (pieces[0], pieces[2], pieces[0], pieces[1], pieces[1]):
        newcomer.hear("a", piece, 0.0)
    acks = [message for _, message in spoken(newcomer)]
    assert acks == [said.PieceAck(5, number) for number in (1, 1, 1, 2, 2)]


def test_a_state_that_was_damaged_is_refused_and_asked_for_anew():
    newcomer, made = asking(), handover(b"x" * 5)
    for piece in made.due():
        if piece.kind == said.CHUNK:
            piece = msgspec.structs.replace(piece, data=b"z" * 5)
        if piece.kind == said.END:
            with pytest.raises(WireError, match="not what its provider sent"):
                newcomer.hear("a", piece, 0.0)
        else:
            newcomer.hear("a", piece, 0.0)
    assert not newcomer.is_done
    spoken(newcomer)
    newcomer.tick(1.0, ("a",))
    ((_, knock),) = spoken(newcomer)
    assert isinstance(knock, said.Knock)
    assert (knock.snapshot, knock.piece) == (0, 0)
    give(newcomer, handover(b"good", number=6))
    assert list(newcomer.spool.chunks()) == [b"good"]


@pytest.mark.parametrize(
    "head",
    [
        {"slot": 0},
        {"slot": 9},
        {"view": founders("ab")},
        {"view": founders("ab").next({}, [Request("j", 8)])},
        {"view": msgspec.structs.replace(VIEW, slots=1)},
    ],
)
def test_a_state_for_somebody_else_is_refused(head: dict[str, Any]):
    newcomer = asking()
    with pytest.raises(WireError, match="for somebody else"):
        give(newcomer, handover(**head), 1)
    assert newcomer.head is None


@pytest.mark.parametrize("kind", [said.HEAD, said.END])
def test_pieces_of_nonsense_are_refused(kind: int):
    newcomer = asking()
    with pytest.raises(WireError):
        newcomer.hear("a", said.Piece(5, 0, kind, b"nonsense"), 0.0)
    assert not newcomer.is_done


def test_only_the_member_that_it_asks_is_listened_to():
    newcomer = asking(("a", "b"))
    newcomer.hear("b", said.Wait(True, "go away"), 0.0)
    newcomer.hear("b", handover().due()[0], 0.0)
    newcomer.hear("b", said.Challenge(b"n"), 0.0)
    assert not newcomer.failed
    assert not spoken(newcomer)


def asking_another() -> Newcomer:
    """a brought nothing for long, so it asks b now."""
    newcomer = asking(("a", "b", "c"))
    newcomer.tick(PATIENCE_S, ("a", "b", "c"))
    assert [peer for peer, _ in spoken(newcomer)] == ["b"]
    return newcomer


def test_one_that_was_asked_before_may_hand_over_the_state():
    newcomer = asking_another()
    newcomer.hear("c", handover().due()[0], PATIENCE_S)
    assert not spoken(newcomer), "c was not asked"
    give(newcomer, handover(*[b"x"] * 90), 7, now=PATIENCE_S)
    newcomer.tick(PATIENCE_S + KNOCK_S, ("a", "b", "c"))
    ((peer, knock),) = spoken(newcomer)
    assert isinstance(knock, said.Knock)
    assert (peer, knock.piece) == ("a", 7), "it goes on there"


def test_what_comes_from_one_is_not_thrown_away_for_another():
    newcomer = asking_another()
    give(newcomer, handover(*[b"x"] * 90, provider="b"), 7, peer="b")
    newcomer.hear("a", handover(number=6).due()[0], PATIENCE_S)
    assert not spoken(newcomer)
    assert newcomer.head is not None
    assert newcomer.head.provider == "b"


def test_it_asks_another_when_one_is_gone_or_brings_nothing_for_long():
    newcomer = asking(("a", "b", "c"))
    newcomer.tick(KNOCK_S, ("b", "c"))
    assert [peer for peer, _ in spoken(newcomer)] == ["b"]
    now, asked = KNOCK_S, []
    for _ in range(20):
        now += KNOCK_S
        newcomer.tick(now, ("b", "c"))
        newcomer.hear(newcomer._provider, said.Wait(False, "not yet"), now)
        asked += [peer for peer, _ in spoken(newcomer)]
    assert {*asked} == {"b", "c"}


def test_a_final_no_is_the_end_and_another_no_is_a_reason():
    newcomer = asking()
    newcomer.hear("a", said.Wait(False, "not yet", ("tcp://b:1", REQUEST.address)), 0.0)
    assert newcomer.waiting_for == "not yet"
    assert [*newcomer.contacts] == ["tcp://b:1"], "and not itself"
    newcomer.missed("nobody is at d")
    assert newcomer.waiting_for == "not yet", "an answer is worth more"
    newcomer.hear("a", said.Wait(True, "never"), 0.0)
    assert newcomer.failed == "a: never"
    assert newcomer.deadline() is None


def test_addresses_that_it_is_told_of_are_bounded():
    newcomer = asking()
    for at in range(100):
        addresses = tuple(f"tcp://h{at}:{port}" for port in range(8))
        newcomer.hear("a", said.Wait(False, "later", addresses), 0.0)
    assert len(newcomer.contacts) < CONTACTS_KEPT_MAX + 8


def test_a_challenge_is_answered_for_this_group_name_ticket_and_address():
    newcomer = asking(secret=b"s")
    newcomer.hear("a", said.Challenge(b"nonce"), 0.0)
    ((_, knock),) = spoken(newcomer)
    assert isinstance(knock, said.Knock)
    assert is_proof(knock.proof, b"s", b"nonce", "g", "j", "7", REQUEST.address)


def test_a_second_challenge_after_the_proof_means_another_secret():
    newcomer = asking(secret=b"s")
    for _ in range(2):
        newcomer.hear("a", said.Challenge(b"nonce"), 0.0)
    assert newcomer.failed == "a has another secret: compare membership.secret_file"


def test_a_challenge_to_one_without_a_secret_is_the_end():
    newcomer = asking()
    newcomer.hear("a", said.Challenge(b"nonce"), 0.0)
    assert "asks for the secret of the group" in newcomer.failed


@pytest.mark.parametrize("operation", ["write", "clear", "flush"])
def test_a_disk_that_is_full_is_the_end_and_said(operation: str, monkeypatch: pytest.MonkeyPatch):
    newcomer = asking()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(newcomer.spool, operation, full)
    for piece in handover(b"one", b"two").due():
        newcomer.hear("a", piece, 0.0)
    assert newcomer.failed == ("the state cannot be kept here: [Errno 28] No space left on device")
    assert not newcomer.is_done
