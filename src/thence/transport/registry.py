"""``TRANSPORTS``: every way to reach other nodes, by the scheme of its addresses.

Adding one is a file and a line here.  A transport is loaded when it is first made: a node that uses
none of them must not load ``ssl``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import msgspec

from thence.errors import UnusableInputError
from thence.transport.base import Reporter, Transport
from thence.transport.watch import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from thence.link.faults import Faults
    from thence.link.options import LinkOptions
    from thence.transport.tls import TlsFiles


class TransportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What all transports together can be told; each takes what it has a use for."""

    limits: Limits = DEFAULT_LIMITS
    report: Reporter | None = None
    """Told what was refused, and why."""
    allow_remote: bool = False
    """tcp and udp: go to other machines although nothing is secret or proved there."""
    tls: TlsFiles | None = None
    """tls: key and certificates."""
    link: LinkOptions | None = None
    """udp: settings of the link."""
    faults: Faults | None = None
    """udp: what to do to datagrams on purpose."""


DEFAULT_OPTIONS: Final = TransportOptions()


def _mem(options: TransportOptions) -> Transport:
    from thence.transport.memory import MemoryTransport

    return MemoryTransport(limits=options.limits, report=options.report)


def _tcp(options: TransportOptions) -> Transport:
    from thence.transport.tcp import TcpTransport

    return TcpTransport(
        allow_remote=options.allow_remote, limits=options.limits, report=options.report
    )


def _tls(options: TransportOptions) -> Transport:
    from thence.transport.tls import TlsTransport

    if options.tls is None:
        raise UnusableInputError(
            "tls needs a certificate, its key and the group's authority: tls.cert, tls.key, tls.ca"
        )
    return TlsTransport(options.tls, limits=options.limits, report=options.report)


def _udp(options: TransportOptions) -> Transport:
    from thence.transport.udp import UdpTransport

    return UdpTransport(
        allow_remote=options.allow_remote,
        limits=options.limits,
        report=options.report,
        options=options.link,
        faults=options.faults,
    )


TRANSPORTS: Final[dict[str, Callable[[TransportOptions], Transport]]] = {
    "mem": _mem,
    "tcp": _tcp,
    "tls": _tls,
    "udp": _udp,
}


def make_transport(scheme: str, options: TransportOptions = DEFAULT_OPTIONS) -> Transport:
    """The transport for addresses of this scheme."""
    if scheme not in TRANSPORTS:
        raise UnusableInputError(f"no transport {scheme!r}; there are {', '.join(TRANSPORTS)}")
    return TRANSPORTS[scheme](options)
