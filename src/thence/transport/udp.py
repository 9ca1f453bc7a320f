"""UDP: connections over datagrams, made reliable by link/.

One socket for a listener and all its connections, and one for each dialled connection, connected,
so that the system says at once when nobody listens there.  udp_endpoint.py drives them with
``add_reader``; asyncio's DatagramProtocol takes one datagram a turn, and was measured at a fifth of
the rate.

A link message holds the bytes that one turn sent, cut only where they exceed what a link takes; the
frames in them are cut by wire/frame.py.  Plain UDP proves nothing about who is there, so addresses
off this machine are refused unless ``allow_remote`` is set.
"""

from __future__ import annotations

import asyncio
import errno
import random
import secrets
import socket
from collections.abc import Callable
from typing import Final

from thence.errors import UnreachableError, UnusableInputError
from thence.link.cookie import Gate
from thence.link.faults import FaultFilter, Faults
from thence.link.options import LinkOptions
from thence.transport.address import Address, refuse_remote, resolve
from thence.transport.base import Connection, Handler, Reporter, Url
from thence.transport.udp_endpoint import Endpoint, Settings
from thence.transport.watch import Limits, Watch

SOCKET_BYTES: Final = 4 << 20
"""Asked of the system for each socket and direction; it may give less."""
CONNECTIONS_MAX: Final = 1024
"""Of one listener, trusted ones included."""
PORT_TRIES: Final = 16
"""To find one port that is free at every address of a name."""
DEFAULT_LIMITS: Final = Limits()


class UdpListener:
    """Accepts connections at one or more addresses of a name, all with the same port."""

    def __init__(self, url: Url, endpoints: list[Endpoint]) -> None:
        self.url = url
        self._endpoints = endpoints

    async def close(self) -> None:
        """Accept no more.  Connections stay, and their socket with them."""
        for endpoint in self._endpoints:
            endpoint.accepting = False
            endpoint.close_if_unused()
        self._endpoints.clear()


class UdpTransport:
    """Plain UDP.

    ``faults`` are put on everything that leaves, drawn from ``rng``.  ``secret`` (of cookies) and
    ``draw`` (64 bits that nobody can guess, for each connection) are for tests to set.
    """

    scheme = "udp"

    def __init__(
        self,
        *,
        allow_remote: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        report: Reporter | None = None,
        options: LinkOptions | None = None,
        connections_max: int = CONNECTIONS_MAX,
        faults: Faults | None = None,
        rng: random.Random | None = None,
        secret: bytes | None = None,
        draw: Callable[[], int] = lambda: secrets.randbits(64),
    ) -> None:
        self.allow_remote = allow_remote
        self.limits = limits
        chosen = options or LinkOptions()
        chosen.check()
        chance = (rng or random.Random()).random
        filtered = FaultFilter(faults, chance) if faults is not None else None
        self._settings = Settings(chosen, connections_max, filtered)
        self._secret = secret or secrets.token_bytes(32)
        self._draw = draw
        self._report = report
        # Dialled connections; every listener bounds its own.
        self._dialled = Watch(limits, report)

    async def listen(self, url: Url, handler: Handler) -> UdpListener:
        """Listen there; port 0 takes a free one, the same for every address of the name."""
        try:
            addresses = await resolve(url)
        except OSError as error:
            raise UnusableInputError(
                f"cannot listen on {url}: {error.strerror or error}"
            ) from error
        self._admit(url, addresses)
        sockets = _bind(url, addresses)
        watch = Watch(self.limits, self._report)
        endpoints = [
            Endpoint(self._settings, sock, handler, Gate(self._secret), watch) for sock in sockets
        ]
        return UdpListener(Url("udp", url.host, sockets[0].getsockname()[1]), endpoints)

    async def dial(self, url: Url, handler: Handler) -> Connection:
        """Connect to the first address of the name that answers, within ``limits.dial_s``."""
        if url.port == 0:
            raise UnusableInputError(f"{url}: nobody can be dialled at port 0")
        late = f"{url}: no answer within {self.limits.dial_s:g} s"
        try:
            async with asyncio.timeout(self.limits.dial_s):
                addresses = await resolve(url)
                self._admit(url, addresses)
                share_s = self.limits.dial_s / len(addresses)
                for address in addresses:
                    try:
                        async with asyncio.timeout(share_s):
                            return await self._dial_one(address, handler)
                    except TimeoutError:
                        continue
                    except UnreachableError as error:
                        late = f"{url}: {error}"
        except OSError as error:  # TimeoutError is one
            if not isinstance(error, TimeoutError):
                raise UnreachableError(f"{url}: {error.strerror or error}") from error
        raise UnreachableError(late)

    async def _dial_one(self, address: Address, handler: Handler) -> Connection:
        sock = _socket(address.family)
        try:
            sock.connect(address.sockaddr)
        except OSError as error:
            sock.close()
            raise UnreachableError(error.strerror) from error
        endpoint = Endpoint(self._settings, sock, handler, None, self._dialled)
        peer = endpoint.add(self._draw(), sock.getpeername(), dialled=True)
        peer.opening = opening = endpoint.loop.create_future()
        endpoint.wake(peer)
        try:
            await opening
        finally:
            if not peer.link.opened:  # too late, or cancelled
                peer.close("given up")
        return peer

    def _admit(self, url: Url, addresses: list[Address]) -> None:
        """UnusableInputError if this transport does not go there."""
        if not self.allow_remote:
            refuse_remote(url, addresses)


def _bind(url: Url, addresses: list[Address]) -> list[socket.socket]:
    """Sockets at all addresses, with one port; UnusableInputError if that cannot be."""
    for left in reversed(range(PORT_TRIES if url.port == 0 else 1)):
        sockets: list[socket.socket] = []
        port = url.port
        try:
            for address in addresses:
                sock = _socket(address.family)
                sockets.append(sock)
                sock.bind(address.with_port(port).sockaddr)
                port = int(sock.getsockname()[1])
        except OSError as error:
            for sock in sockets:
                sock.close()
            if error.errno == errno.EADDRINUSE and left:
                continue  # the port was free at the first address alone
            raise UnusableInputError(f"cannot listen on {url}: {error.strerror}") from error
        return sockets
    raise AssertionError("the last try returns or raises")


def _socket(family: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    if family == socket.AF_INET6:
        # The same port at the addresses of IPv4 belongs to another socket.
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BYTES)
    return sock
