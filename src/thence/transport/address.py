"""From a host name to addresses of sockets, and whether they stay within this machine."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import Any, Final

import msgspec

from thence.errors import UnusableInputError
from thence.transport.base import Url

ADDRESSES_MAX: Final = 8
"""Of one name; the rest are not tried."""


class Address(msgspec.Struct, frozen=True):
    """What ``socket`` needs to bind or connect."""

    family: int
    sockaddr: Any
    """``(host, port)`` or ``(host, port, flow, scope)``."""

    @property
    def loopback(self) -> bool:
        """Whether it is this machine and cannot be another."""
        address = ipaddress.ip_address(self.sockaddr[0])
        mapped = getattr(address, "ipv4_mapped", None)
        return bool((mapped or address).is_loopback)

    def with_port(self, port: int) -> Address:
        """The same host at another port."""
        return Address(self.family, (self.sockaddr[0], port, *self.sockaddr[2:]))


async def resolve(url: Url) -> list[Address]:
    """The addresses of a host, best first, at least one; OSError if it has none."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a label that is empty or too long
        raise OSError(f"{url.host!r} is not a host name") from error
    addresses = dict.fromkeys(
        (int(family), sockaddr)
        for family, _, _, _, sockaddr in found
        if family in (socket.AF_INET, socket.AF_INET6)
    )
    if not addresses:
        raise OSError(f"{url.host!r} has no address")
    return [Address(*pair) for pair in list(addresses)[:ADDRESSES_MAX]]


def refuse_remote(url: Url, addresses: list[Address]) -> None:
    """UnusableInputError unless every address is this machine's own."""
    if not all([address.loopback for address in addresses]):
        raise UnusableInputError(
            f"{url}: plain {url.scheme} is neither secret nor authentic, so it stays on this "
            f"machine (127.0.0.1, ::1); use tls:// between machines, or set allow_remote"
        )
