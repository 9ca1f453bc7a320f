"""What a transport is: it listens and dials, and gives connections that carry bytes in order.

A *connection* carries the bytes of frames (wire/frame.py) to one peer, whole and in order, until it
breaks; what it had accepted and not carried is then lost, and the owner starts again on another
connection from what the peer says it has.  Transports know nothing of nodes, groups or messages.

Everything runs in one event loop.  ``Connection.send`` only keeps the bytes: they leave at the end
of the turn of the loop, in one write for each connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from thence.errors import UnusableInputError

BACKLOG_BYTES_HIGH = 1 << 20
"""Above this a connection is congested: its owner should hold further messages back."""


class Url(msgspec.Struct, frozen=True):
    """``tcp://host:port``, ``tls://host:port``, ``udp://host:port`` or ``mem://name``."""

    scheme: str
    host: str
    port: int = 0
    """0 for mem, and to listen on a free port."""

    def __str__(self) -> str:
        if self.scheme == "mem":
            return f"mem://{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @staticmethod
    def parse(text: str) -> Url:
        """The address that this text names; UnusableInputError says what is wrong with it."""
        scheme, mark, rest = text.partition("://")
        if not mark or not rest:
            raise UnusableInputError(f"{text!r} is not an address: expected tcp://host:port")
        if scheme == "mem":
            return Url(scheme, rest)
        host, colon, port = rest.rpartition(":")
        host = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise UnusableInputError(
                f"{text!r} is not an address: expected {scheme}://host:port, port 0 to 65535"
            )
        return Url(scheme, host, int(port))


class Connection(Protocol):
    """One carrier to one peer.  Everything is called in the event loop."""

    dialled: bool
    """Whether this side made it."""
    address: str
    """Of the peer, for people."""
    peer_name: str | None
    """The name that the peer proved (tls), or None where nothing is proved."""
    backlog_bytes: int
    """Accepted by ``send`` and not yet taken by the system (udp: not yet acknowledged)."""

    def send(self, data: bytes) -> None:
        """Carry the bytes of one or more whole frames.  Nothing happens once it is closed."""

    def trust(self) -> None:
        """The peer is known now: large frames are taken from it."""

    def close(self, reason: str) -> None:
        """Write what was accepted, then close; ``Handler.closed`` follows, once."""


class Handler(Protocol):
    """Who owns connections."""

    def connected(self, connection: Connection) -> None:
        """A connection was made, dialled or accepted."""

    def received(self, connection: Connection, frames: list[tuple[int, bytes]]) -> None:
        """Whole frames arrived, as (kind, body), in order; never after ``closed``."""

    def drained(self, connection: Connection) -> None:
        """It was congested (BACKLOG_BYTES_HIGH) and is not any more."""

    def closed(self, connection: Connection, reason: str) -> None:
        """It is gone; the reason is a sentence for people."""


class Listener(Protocol):
    """Accepts connections until it is closed."""

    url: Url
    """Where it listens, with the port that was chosen."""

    async def close(self) -> None:
        """Accept no more.  Connections stay."""


class Transport(Protocol):
    """One way to reach other nodes."""

    scheme: str

    async def listen(self, url: Url, handler: Handler) -> Listener:
        """Listen there; UnusableInputError if that cannot be done, in one sentence."""

    async def dial(self, url: Url, handler: Handler) -> Connection:
        """Connect; UnreachableError if nobody answers.  ``handler.connected`` was called then."""


Reporter = Callable[[str, str], None]
"""Called with (what, detail) for things worth counting: a refused connection, a bad datagram."""
