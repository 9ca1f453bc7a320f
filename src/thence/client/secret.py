"""The secret that newcomers must know, and proofs that somebody knows it.

A proof is an HMAC-SHA256 over a nonce of whoever asks and what the proof is about, so the secret
itself never travels, and a proof that was overheard is good for nothing else.  Lengths go before
the parts: ("ab", "c") and ("a", "bc") have different proofs.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from pathlib import Path
from typing import Final

from thence.errors import UnusableInputError

SECRET_BYTES_MAX: Final = 4096
PROOF_BYTES: Final = hashlib.sha256().digest_size
_LENGTH_BYTES: Final = 8


def read_secret(path: str | Path) -> bytes:
    """The secret in a file, without the newline that editors put at its end.

    UnusableInputError if there is none, or if others than its owner may read it: such a secret
    protects nothing.
    """
    try:
        # Not blocking: a pipe that nobody writes to is refused instead of waited for.
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_private(path, os.fstat(file).st_mode)
            data = os.read(file, SECRET_BYTES_MAX + 1)
        finally:
            os.close(file)
    except OSError as error:
        raise UnusableInputError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise UnusableInputError(f"{str(path)!r}: {error}") from None
    if len(data) > SECRET_BYTES_MAX:
        raise UnusableInputError(f"{path}: larger than {SECRET_BYTES_MAX:,} bytes")
    secret = data.rstrip(b"\r\n")
    if not secret:
        raise UnusableInputError(f"{path}: empty; expected a secret")
    return secret


def _check_private(path: str | Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise UnusableInputError(f"{path}: not a file; expected one that holds a secret")
    if mode & 0o077:
        raise UnusableInputError(
            f"{path}: others than its owner may use it (mode {stat.S_IMODE(mode):03o}); "
            "expected mode 600 or 400 of a file with a secret"
        )


def proof(secret: bytes, nonce: bytes, *parts: str) -> bytes:
    """What only somebody who knows the secret can say of these parts, to whoever made the nonce."""
    mac = hmac.new(secret, digestmod=hashlib.sha256)
    for part in (nonce, *(part.encode() for part in parts)):
        mac.update(len(part).to_bytes(_LENGTH_BYTES, "big"))
        mac.update(part)
    return mac.digest()


def is_proof(claimed: bytes, secret: bytes, nonce: bytes, *parts: str) -> bool:
    """Whether this is that proof.  How long it takes does not tell how much of it is right."""
    return hmac.compare_digest(claimed, proof(secret, nonce, *parts))
