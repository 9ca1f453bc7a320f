"""Names to addresses, and which of them stay on this machine."""

from __future__ import annotations

import asyncio
import socket

import pytest

from thence.errors import UnusableInputError
from thence.transport.address import Address, refuse_remote, resolve
from thence.transport.base import Url


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:192.0.2.1", False),
        ("192.0.2.1", False),
        ("10.0.0.1", False),
        ("fe80::1%1", False),
    ],
)
def test_what_is_loopback(host: str, loopback: bool):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    address = Address(family, (host, 80))
    assert address.loopback is loopback
    if loopback:
        refuse_remote(Url("tcp", host, 80), [address])
    else:
        with pytest.raises(UnusableInputError, match="use tls:// between machines"):
            refuse_remote(
                Url("tcp", host, 80), [Address(socket.AF_INET, ("127.0.0.1", 1)), address]
            )


def test_a_name_gives_addresses_with_the_port():
    (address,) = asyncio.run(resolve(Url("tcp", "127.0.0.1", 7)))
    assert address == Address(socket.AF_INET, ("127.0.0.1", 7))
    assert address.with_port(9).sockaddr == ("127.0.0.1", 9)
    (address,) = asyncio.run(resolve(Url("tcp", "::1", 7)))
    assert address.with_port(9).sockaddr == ("::1", 9, 0, 0)
    assert [a.loopback for a in asyncio.run(resolve(Url("tcp", "localhost", 7)))]


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a..b", "x" * 300])
def test_a_name_without_address_is_an_error_of_the_system(host: str):
    with pytest.raises(OSError, match=r"."):
        asyncio.run(resolve(Url("tcp", host, 7)))
