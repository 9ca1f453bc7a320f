"""Filters that are there: delays per peer, compression, encryption, a record of what passes."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from thence.client.filters import Filter, Passing
from thence.errors import LimitError, WireError
from thence.message import PAYLOAD_BYTES_MAX

HELD_MAX: Final = 65_536
"""Messages that a filter holds back at most."""


class Delay(Filter):
    """Holds back what is for some peers for a while (slide 53); a send filter.

    A message for everyone becomes one for those without a delay, now, and one for each of the
    others when its time has come; so the group must be able to send to some members only.
    """

    name = "delay"

    def __init__(self, min_delay_ms: Mapping[str, float], peers: Sequence[str]) -> None:
        """``peers``: the other members."""
        self._delay_s = {peer: ms / 1000 for peer, ms in min_delay_ms.items() if ms > 0}
        self._peers = list(peers)
        self._held: list[tuple[float, int, Passing]] = []
        self._number = 0

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        to = list(message.to) or self._peers
        slow = [peer for peer in to if peer in self._delay_s]
        if not slow:
            return (message,)
        if len(self._held) + len(slow) > HELD_MAX:
            raise LimitError(f"more than {HELD_MAX} messages are delayed")
        for peer in slow:
            self._number += 1  # those of one time in the order in which they came
            entry = (now + self._delay_s[peer], self._number, replace(message, to=(peer,)))
            heapq.heappush(self._held, entry)
        quick = tuple(peer for peer in to if peer not in self._delay_s)
        return (replace(message, to=quick),) if quick else ()

    def due(self) -> float | None:
        return self._held[0][0] if self._held else None

    def tick(self, now: float) -> Sequence[Passing]:
        found = []
        while self._held and self._held[0][0] <= now:
            found.append(heapq.heappop(self._held)[2])
        return found

    def drain(self) -> Sequence[Passing]:
        held, self._held = sorted(self._held, key=lambda entry: entry[1]), []
        return [message for _, _, message in held]


class Compress(Filter):
    """Makes payloads smaller where that helps; a send filter.  The first byte says what it did."""

    name = "compress"

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        smaller = zlib.compress(message.payload)
        plain = len(smaller) >= len(message.payload)
        payload = b"\0" + message.payload if plain else b"\1" + smaller
        return (replace(message, payload=payload),)


class Decompress(Filter):
    """The other end of ``Compress``; a receive filter."""

    name = "compress"

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        kind, payload = message.payload[:1], message.payload[1:]
        if kind == b"\1":
            reader = zlib.decompressobj()
            try:
                payload = reader.decompress(payload, PAYLOAD_BYTES_MAX)
            except zlib.error as error:
                raise WireError(f"{message.origin} sent what is not compressed: {error}") from error
            if not reader.eof:
                raise WireError(f"{message.origin} sent more than {PAYLOAD_BYTES_MAX} bytes")
        elif kind != b"\0":
            raise WireError(f"{message.origin} sent what no Compress has made")
        return (replace(message, payload=payload),)


class Transform(Filter):
    """Puts every payload through a function, such as encryption; either way."""

    def __init__(self, name: str, function: Callable[[bytes], bytes]) -> None:
        """``function`` raises ``ValueError`` for what it cannot take."""
        self.name = name
        self._function = function

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        try:
            payload = self._function(message.payload)
        except ValueError as error:
            raise WireError(f"{self.name}: a message of {message.origin}: {error}") from error
        return (replace(message, payload=payload),)


class Record(Filter):
    """Tells a function of everything that passes."""

    def __init__(self, name: str, function: Callable[[float, Passing], None]) -> None:
        self.name = name
        self._function = function

    def feed(self, message: Passing, now: float) -> Sequence[Passing]:
        self._function(now, message)
        return (message,)


def encryption(key: bytes) -> tuple[Filter, Filter]:
    """A send and a receive filter that encrypt and authenticate payloads with a key that all
    members share (AES in GCM mode, a random nonce for each message).  Needs ``thence[cert]``."""
    import os

    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    cipher = AESGCM(key)

    def encrypt(payload: bytes) -> bytes:
        nonce = os.urandom(12)
        return nonce + cipher.encrypt(nonce, payload, None)

    def decrypt(payload: bytes) -> bytes:
        try:
            return cipher.decrypt(payload[:12], payload[12:], None)
        except InvalidTag:
            raise ValueError("not encrypted with this key") from None

    return Transform("encrypt", encrypt), Transform("encrypt", decrypt)
