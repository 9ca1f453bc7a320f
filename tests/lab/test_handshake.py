"""Who is let in as a worker, and whom a worker believes."""

from __future__ import annotations

import msgspec
import pytest

from thence.lab.handshake import hello, is_host, is_welcome, judge, welcome
from thence.lab.worker_messages import NONCE_BYTES, VERSION, Challenge, Hello

SECRET = b"a secret"
ASKED = b"a" * NONCE_BYTES
OWN = b"b" * NONCE_BYTES


def said(secret: bytes = SECRET, **more: object) -> Hello:
    given = {"name": "w1", "host": "10.0.0.1", "seats": 4, "nonce": OWN, **more}
    return hello(Challenge(VERSION, ASKED), secret, **given)  # type: ignore[arg-type]


def test_who_knows_the_secret_is_let_in_and_knows_the_coordinator():
    assert judge(said(), SECRET, ASKED) is None
    assert is_welcome(welcome(said(), SECRET, 3), said(), SECRET)


def test_without_a_secret_everybody_is_let_in():
    assert judge(said(b""), b"", ASKED) is None


@pytest.mark.parametrize("secret", [b"", b"another"])
def test_who_does_not_know_it_is_refused_for_good(secret: bytes):
    no = judge(said(secret), SECRET, ASKED)
    assert no is not None
    assert no.is_final
    assert "secret" in no.reason


def test_a_proof_is_good_for_one_challenge_and_what_was_said_with_it():
    assert judge(said(), SECRET, b"c" * NONCE_BYTES) is not None
    for change in ({"name": "w2"}, {"host": "10.0.0.2"}, {"seats": 5}, {"nonce": ASKED}):
        assert judge(msgspec.structs.replace(said(), **change), SECRET, ASKED) is not None


def test_a_coordinator_that_does_not_know_the_secret_is_not_believed():
    heard = welcome(said(), b"another", 3)
    assert not is_welcome(heard, said(), SECRET)
    genuine = welcome(said(), SECRET, 3)
    assert not is_welcome(msgspec.structs.replace(genuine, number=4), said(), SECRET)


def test_another_version_is_refused_with_both_versions():
    no = judge(msgspec.structs.replace(said(), version="0.0.1"), SECRET, ASKED)
    assert no is not None
    assert "it is thence 0.0.1" in no.reason
    no = judge(msgspec.structs.replace(said(), version="\x1b[2J"), SECRET, ASKED)
    assert no is not None
    assert no.reason.isprintable()


@pytest.mark.parametrize(
    "more",
    [{"host": "h:1,b=tcp://x"}, {"host": ""}, {"seats": 0}, {"seats": 65}, {"name": ""},
     {"name": "x\n"}, {"nonce": b""}],
)  # fmt: skip
def test_what_a_worker_says_of_itself_must_be_sound(more: dict[str, object]):
    no = judge(said(**more), SECRET, ASKED)
    assert no is not None
    assert "cannot be" in no.reason


def test_hosts_are_names_and_addresses():
    assert all(map(is_host, ["localhost", "w-0.workers.lab.svc", "10.0.0.1", "fe80::1", "::1"]))
    assert not any(map(is_host, ["a b", "a/b", "a,b", "a=b", "-x", "", "a:1x", "x" * 254]))
