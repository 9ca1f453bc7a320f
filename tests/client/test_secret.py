"""The secret of a group: which files hold one, and who can prove to know it."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thence.client.secret import PROOF_BYTES, SECRET_BYTES_MAX, is_proof, proof, read_secret
from thence.errors import UnusableInputError

PARTS = st.lists(st.text(max_size=6), max_size=4)


def secret_file(folder: Path, data: bytes, mode: int = 0o600) -> Path:
    file = folder / "secret"
    file.write_bytes(data)
    file.chmod(mode)
    return file


def refusal(file: str | Path) -> str:
    with pytest.raises(UnusableInputError) as raised:
        read_secret(file)
    sentence = str(raised.value)
    assert "\n" not in sentence
    return sentence.replace(str(file), "FILE")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
@pytest.mark.parametrize(
    ("data", "secret"),
    [
        (b"open sesame\n", b"open sesame"),
        (b"open sesame", b"open sesame"),
        (b" kept \r\n", b" kept "),
        (b"two\nlines\n", b"two\nlines"),
        (b"\x00\xff", b"\x00\xff"),
        (b"x" * SECRET_BYTES_MAX, b"x" * SECRET_BYTES_MAX),
    ],
)
def test_a_secret_is_the_file_without_its_last_newline(
    tmp_path: Path, data: bytes, secret: bytes, mode: int
):
    assert read_secret(secret_file(tmp_path, data, mode)) == secret


def test_what_holds_no_secret_is_refused(tmp_path: Path):
    assert refusal(tmp_path / "nosuch") == "FILE: No such file or directory"
    assert refusal(secret_file(tmp_path, b"")) == "FILE: empty; expected a secret"
    assert refusal(secret_file(tmp_path, b"\r\n\n")) == "FILE: empty; expected a secret"
    large = b"x" * (SECRET_BYTES_MAX + 1)
    assert refusal(secret_file(tmp_path, large)) == "FILE: larger than 4,096 bytes"
    assert "null" in refusal("a\0b")


def test_what_is_no_file_is_refused_at_once(tmp_path: Path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for place in (pipe, tmp_path):
        assert refusal(place) == "FILE: not a file; expected one that holds a secret"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o644, 0o666])
def test_a_secret_that_others_may_use_is_refused(tmp_path: Path, mode: int):
    assert refusal(secret_file(tmp_path, b"open sesame", mode)) == (
        f"FILE: others than its owner may use it (mode {mode:o}); "
        "expected mode 600 or 400 of a file with a secret"
    )


def test_a_proof_is_the_hmac_of_parts_with_their_lengths():
    text = bytes(7) + b"\x02no" + bytes(7) + b"\x01a" + bytes(8) + bytes(7) + b"\x02\xc3\xa9"
    expected = hmac.new(b"key", text, hashlib.sha256).digest()
    assert proof(b"key", b"no", "a", "", "é") == expected
    assert len(expected) == PROOF_BYTES


@given(st.binary(min_size=1, max_size=80), st.binary(max_size=16), PARTS)
def test_a_proof_is_accepted(secret: bytes, nonce: bytes, parts: list[str]):
    assert is_proof(proof(secret, nonce, *parts), secret, nonce, *parts)


@given(st.tuples(st.binary(max_size=4), PARTS), st.tuples(st.binary(max_size=4), PARTS))
def test_a_proof_is_good_for_nothing_else(
    one: tuple[bytes, list[str]], two: tuple[bytes, list[str]]
):
    given_one = proof(b"secret", one[0], *one[1])
    assert is_proof(given_one, b"secret", two[0], *two[1]) == (one == two)
    assert not is_proof(given_one, b"Secret", one[0], *one[1])


@pytest.mark.parametrize("claimed", [b"", b"x", bytes(PROOF_BYTES), bytes(PROOF_BYTES + 1)])
def test_anything_else_is_no_proof(claimed: bytes):
    assert not is_proof(claimed, b"secret", b"nonce", "d")


def test_parts_are_not_run_together():
    assert proof(b"s", b"n", "ab", "c") != proof(b"s", b"n", "a", "bc")
    assert proof(b"s", b"na", "b") != proof(b"s", b"n", "ab")
    assert proof(b"s", b"n") != proof(b"s", b"n", "")
