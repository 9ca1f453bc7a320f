"""``tcp://host:port``: plain TCP, for nodes on one machine.

Nothing is proved and nothing is secret, so addresses of other machines are refused unless
``allow_remote`` says that the network itself is trusted (docs/howto/tls.md).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket

from thence.errors import UnreachableError, UnusableInputError
from thence.transport.address import Address, refuse_remote, resolve
from thence.transport.base import Connection, Handler, Reporter, Url
from thence.transport.stream import StreamConnection, Turn, tune, why
from thence.transport.watch import DEFAULT_LIMITS, Limits, Watch

LISTEN_BACKLOG = 128
"""Connections that the system keeps until the loop accepts them."""
PORT_TRIES = 16
"""To find one port that is free at every address of a name."""


class TcpListener:
    """Accepts connections at one or more addresses of a name, all with the same port."""

    def __init__(self, url: Url, servers: list[asyncio.Server]) -> None:
        self.url = url
        self._servers = servers

    async def close(self) -> None:
        """Accept no more.  Connections stay."""
        for server in self._servers:
            # Not wait_closed: from Python 3.12 on it waits for the connections too.
            server.close()
        self._servers.clear()
        await asyncio.sleep(0)


class TcpTransport:
    """Listens and dials within one event loop."""

    scheme = "tcp"

    def __init__(
        self,
        *,
        allow_remote: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        report: Reporter | None = None,
    ) -> None:
        self.allow_remote = allow_remote
        self.limits = limits
        self._turn = Turn()
        self._report = report
        # Dialled connections; every listener bounds its own.
        self._dialled = Watch(limits, report)

    @property
    def turn(self) -> Turn:
        """Lets an owner that knows when its turn ends write then."""
        return self._turn

    async def listen(self, url: Url, handler: Handler) -> TcpListener:
        """Listen there; port 0 takes a free one, the same for every address of the name."""
        try:
            addresses = await resolve(url)
        except OSError as error:
            raise UnusableInputError(f"cannot listen on {url}: {why(error)}") from error
        self._admit(url, addresses)
        sockets = _bind(url, addresses)
        watch = Watch(self.limits, self._report)
        loop = asyncio.get_running_loop()
        servers: list[asyncio.Server] = []
        port = int(sockets[0].getsockname()[1])
        try:
            for sock in sockets:
                servers.append(
                    await loop.create_server(
                        lambda: self._connection(handler, watch, dialled=False),
                        sock=sock,
                        backlog=LISTEN_BACKLOG,
                    )
                )
        except BaseException as error:
            for server in servers:
                server.close()
            for sock in sockets[len(servers) :]:
                sock.close()
            if isinstance(error, OSError):
                raise _cannot_listen(url, error) from error
            raise
        return TcpListener(Url(url.scheme, url.host, port), servers)

    async def dial(self, url: Url, handler: Handler) -> Connection:
        """Connect to the first address of the name that answers, within ``limits.dial_s``."""
        if url.port == 0:
            raise UnusableInputError(f"{url}: nobody can be dialled at port 0")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self.limits.dial_s
        try:
            async with asyncio.timeout_at(deadline):
                addresses = await resolve(url)
        except TimeoutError as error:
            raise UnreachableError(f"{url}: its name could not be resolved in time") from error
        except OSError as error:
            raise UnreachableError(f"{url}: {why(error)}") from error
        self._admit(url, addresses)
        reason = ""
        for at, address in enumerate(addresses):
            # An address that swallows packets must not eat the time of those after it.
            share_s = (deadline - loop.time()) / (len(addresses) - at)
            try:
                async with asyncio.timeout(share_s):
                    return await self._dial_one(address, handler)
            except TimeoutError:
                reason = f"no answer within {self.limits.dial_s:g} s"
            except (OSError, UnreachableError) as error:
                reason = why(error)
        raise UnreachableError(f"{url}: {reason}")

    def _admit(self, url: Url, addresses: list[Address]) -> None:
        """UnusableInputError if this transport does not go there."""
        if not self.allow_remote:
            refuse_remote(url, addresses)

    def _connection(self, handler: Handler, watch: Watch, *, dialled: bool) -> StreamConnection:
        return StreamConnection(handler, watch, self._turn, dialled=dialled)

    async def _dial_one(self, address: Address, handler: Handler) -> StreamConnection:
        loop = asyncio.get_running_loop()
        connection = self._connection(handler, self._dialled, dialled=True)
        connection.ready = loop.create_future()
        sock = socket.socket(address.family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            tune(sock)
            await loop.sock_connect(sock, address.sockaddr)
            await loop.create_connection(lambda: connection, sock=sock)
        except BaseException:
            sock.close()
            _give_up(connection)
            raise
        try:
            await connection.ready
        except BaseException:
            _give_up(connection)
            raise
        return connection


def _give_up(connection: StreamConnection) -> None:
    if connection.ready is not None:
        connection.ready.cancel()
    connection.abort("the dial was given up")


def _bind(url: Url, addresses: list[Address]) -> list[socket.socket]:
    """A bound socket for every address, all with one port."""
    port = url.port
    for tries_left in reversed(range(PORT_TRIES)):
        sockets: list[socket.socket] = []
        try:
            for address in addresses:
                sock = socket.socket(address.family, socket.SOCK_STREAM)
                sockets.append(sock)
                if os.name == "posix":  # elsewhere this would let two processes share a port
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if address.family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.setblocking(False)
                sock.bind(address.with_port(port or sockets[0].getsockname()[1]).sockaddr)
        except OSError as error:
            for sock in sockets:
                sock.close()
            # A free port of the first address may be taken at the next one: try another.
            if url.port == 0 and tries_left and error.errno == errno.EADDRINUSE:
                continue
            raise _cannot_listen(url, error) from error
        return sockets
    raise AssertionError("the last try raises")


def _cannot_listen(url: Url, error: OSError) -> UnusableInputError:
    reasons = {
        errno.EADDRINUSE: "another process listens there",
        errno.EADDRNOTAVAIL: "this machine does not have that address",
        errno.EACCES: "ports below 1024 need a privilege",
    }
    reason = reasons.get(error.errno or 0) or why(error)
    return UnusableInputError(f"cannot listen on {url}: {reason}")
