"""The door: who wants a connection must first show that it receives at the address it claims.

    HELLO ->                 <- COOKIE, a keyed hash of address, connection and time
    OPEN with the cookie ->  now a connection is kept here   <- ACCEPT

Until the cookie comes back nothing is kept, and no answer is longer than the question: a forged
source address costs this side nothing and brings its victim no more than it would get directly.
Cookies serve for one to two periods.  A connection that was admitted is remembered that long, so
that a late copy of its OPEN does not open it a second time after it ended.

A cookie shows a way back, not a name: who is there is for others to prove.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import deque
from typing import Final

from thence.errors import LocalProtocolError
from thence.link.datagram import (
    COOKIE,
    COOKIE_BYTES,
    HELLO,
    OPEN,
    connection_of,
    cookie_of,
    kind_of,
    opening,
)

PERIOD_S: Final = 10.0
SECRET_BYTES_MIN: Final = 16
REMEMBERED_MAX: Final = 4096
"""Connections admitted lately; beyond it the oldest are forgotten."""


class Gate:
    """Answers strangers.  The secret is random and stays in this process."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < SECRET_BYTES_MIN:
            raise LocalProtocolError(f"a secret needs {SECRET_BYTES_MIN} bytes, got {len(secret)}")
        self._secret = secret
        self._admitted: set[int] = set()
        self._order: deque[tuple[float, int]] = deque()
        """When each was admitted."""

    def greet(self, datagram: bytes, address: str, now: float) -> bytes | None:
        """The answer to a HELLO; None if it is none."""
        if kind_of(datagram) != HELLO:
            return None
        connection = connection_of(datagram)
        return opening(COOKIE, connection, self._cookie(connection, address, now // PERIOD_S))

    def admit(self, datagram: bytes, address: str, now: float) -> int | None:
        """The connection that an OPEN opens; None if its cookie is wrong, old or was used."""
        if kind_of(datagram) != OPEN:
            return None
        connection, cookie = connection_of(datagram), cookie_of(datagram)
        period = now // PERIOD_S
        if not hmac.compare_digest(cookie, self._cookie(connection, address, period)):
            if not hmac.compare_digest(cookie, self._cookie(connection, address, period - 1)):
                return None
        self._forget(now - 2 * PERIOD_S)
        if connection in self._admitted:
            return None
        self._admitted.add(connection)
        self._order.append((now, connection))
        return connection

    def _cookie(self, connection: int, address: str, period: float) -> bytes:
        said = f"{period:.0f} {connection} {address}".encode()
        return hashlib.blake2s(said, key=self._secret[:32], digest_size=COOKIE_BYTES).digest()

    def _forget(self, before: float) -> None:
        order = self._order
        while order and (order[0][0] <= before or len(order) >= REMEMBERED_MAX):
            self._admitted.discard(order.popleft()[1])
