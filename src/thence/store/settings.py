"""Settings of the server that clients connect to; every limit a client could run into is here."""

from __future__ import annotations

import ipaddress
from typing import Final

import msgspec

from thence.errors import UnusableInputError

MIB: Final = 1024 * 1024
PORT: Final = 6379
"""Where clients of Redis look for a server."""
CLIENTS_MAX: Final = 10_000
VALUE_BYTES_MAX: Final = 8 * MIB
"""Of one argument; the payload of one broadcast of a group has 16 MiB."""
REQUEST_BYTES_MAX: Final = 32 * MIB
"""Of one request that is not whole yet, with all its arguments."""
OUTPUT_BYTES_PAUSE: Final = 1 * MIB
"""Replies that wait to be sent: with more, no further request of that client is run."""
SUBSCRIBER_BYTES_MAX: Final = 32 * MIB
"""Messages that wait to be sent to a subscriber: with more, it is dropped."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Of one server.  A password is a secret: it is in no text of this object."""

    host: str = "127.0.0.1"
    port: int = PORT
    """0: the system chooses one."""
    password: str = ""
    """Empty: clients need none."""
    protected: bool = True
    """Refuse to listen where others can connect, as long as there is no password."""
    tls_certificate: str = ""
    """PEM file; with it and a key every connection is TLS."""
    tls_key: str = ""
    tls_authority: str = ""
    """PEM file: clients must show a certificate that this authority signed."""
    clients_max: int = CLIENTS_MAX
    value_bytes_max: int = VALUE_BYTES_MAX
    request_bytes_max: int = REQUEST_BYTES_MAX
    output_bytes_pause: int = OUTPUT_BYTES_PAUSE
    subscriber_bytes_max: int = SUBSCRIBER_BYTES_MAX
    idle_timeout_s: float = 0.0
    """Clients that say nothing for so long are dropped, subscribers are not; 0: never."""

    def __repr__(self) -> str:
        return f"Settings(host={self.host!r}, port={self.port}, password={bool(self.password)})"

    def check(self) -> None:
        """UnusableInputError if no server should run so."""
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise UnusableInputError("TLS needs both a certificate and its key")
        if self.tls_authority and not self.tls_certificate:
            raise UnusableInputError("an authority for clients' certificates goes with TLS only")
        if self.protected and not self.password and not self.tls_authority:
            if not is_loopback(self.host):
                raise UnusableInputError(
                    f"anybody who reaches {self.host or 'this machine'} could read and write the "
                    "store: set a password, listen on 127.0.0.1, or switch protected mode off"
                )
        for name in (
            "clients_max",
            "value_bytes_max",
            "request_bytes_max",
            "output_bytes_pause",
            "subscriber_bytes_max",
        ):
            if getattr(self, name) < 1:
                raise UnusableInputError(f"{name} has to be at least 1")
        if self.idle_timeout_s < 0:
            raise UnusableInputError("idle_timeout_s is negative")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to an address.  A name other than ``localhost`` may
    mean anything."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
