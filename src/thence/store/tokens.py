"""Tokens: what a client has seen, as text that it can take to another node.

``1.`` and, in base64, the number of the last message by member, in MessagePack.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import msgspec

from thence.store.errors import CommandError

PREFIX: Final = b"1."
TOKEN_BYTES_MAX: Final = 64 * 1024
NOT_A_TOKEN: Final = "ERR not a token of CAUSAL.TOKEN"
_decode: Final = msgspec.msgpack.Decoder(dict[str, int]).decode
_encode: Final = msgspec.msgpack.Encoder(order="sorted").encode


def encode(seen: dict[str, int]) -> bytes:
    """The token."""
    return PREFIX + urlsafe_b64encode(_encode(seen))


def decode(token: bytes) -> dict[str, int]:
    """What it says; CommandError if it is none."""
    if len(token) > TOKEN_BYTES_MAX or not token.startswith(PREFIX):
        raise CommandError(NOT_A_TOKEN)
    try:
        return _decode(urlsafe_b64decode(token[len(PREFIX) :]))
    except (msgspec.MsgspecError, ValueError):
        raise CommandError(NOT_A_TOKEN) from None
