"""``tls://host:port``: TCP with mutual TLS; a peer's name is proved by its certificate.

Every node shows a certificate that the group's own authority signed (``thence cert``); no other
authority counts.  The certificate names the node in a subjectAltName of type URI,
``thence://node/NAME``; that name is ``Connection.peer_name``.  Addresses prove nothing and are not
compared with anything: nodes move.  TLS 1.3 is the minimum.

TLS runs over memory here (``ssl.SSLObject``) instead of in the event loop: asyncio and uvloop both
keep a failed handshake to themselves, and a refused certificate has to be counted with its reason.
A side that dials learns late whether its own certificate was accepted, for in TLS 1.3 it finishes
first.  So it waits for the first bytes that follow the handshake (the server's session ticket)
before it says that there is a connection: ``dial`` then fails with the reason.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from thence.causal.members import check_name
from thence.errors import ThenceError, UnusableInputError
from thence.transport.base import Handler, Reporter
from thence.transport.stream import StreamConnection, Turn
from thence.transport.tcp import TcpTransport
from thence.transport.watch import (
    BAD_CERTIFICATE,
    DEFAULT_LIMITS,
    NO_TLS,
    REFUSED_BY_PEER,
    TLS_FAILED,
    Limits,
    Watch,
)

NODE_URI: Final = "thence://node/"
CA_FILE: Final = "ca.pem"
RECORD_BYTES_MAX: Final = 16 * 1024
"""Of plain text in one record of TLS."""
# Types of the records that can come first: an alert, a handshake.
_FIRST_BYTES: Final = (0x15, 0x16)
_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": "the peer wants a certificate, and none was shown",
    "UNKNOWN_CA": "the peer does not know the authority that signed this node's certificate",
    "CERTIFICATE_EXPIRED": "the peer says that this node's certificate has expired",
    "BAD_CERTIFICATE": "the peer does not accept this node's certificate",
    "CERTIFICATE_UNKNOWN": "the peer does not accept this node's certificate",
    "UNSUPPORTED_CERTIFICATE": "the peer says that this node's certificate is for something else",
    "DECRYPT_ERROR": "the peer does not accept the signature of this node's certificate",
    "PROTOCOL_VERSION": "the peer does not speak TLS 1.3",
}


def node_uri(name: str) -> str:
    """How a certificate names a node."""
    return NODE_URI + quote(name, safe="")


def proved_name(certificate: object) -> str:
    """The node that a verified certificate (``getpeercert()``) names; ValueError says why none."""
    names = certificate.get("subjectAltName", ()) if isinstance(certificate, dict) else ()
    found = [
        value.removeprefix(NODE_URI)
        for kind, value in names
        if kind == "URI" and value.startswith(NODE_URI)
    ]
    if not found:
        raise ValueError(f"it names no node (a subjectAltName {NODE_URI}NAME)")
    if len(found) > 1:
        raise ValueError(f"it names {len(found)} nodes")
    try:
        name = unquote(found[0], errors="strict")
        check_name(name)
    except (UnicodeDecodeError, ThenceError) as error:
        raise ValueError("the name of the node in it is not a name") from error
    return name


class TlsFiles(msgspec.Struct, frozen=True):
    """What a node needs to prove its name and to check others.  PEM files."""

    certificate: str
    """Of the node; certificates between it and the authority may follow in the file."""
    key: str
    """Of the node, not encrypted."""
    ca: str
    """The authority of the group; several while an old one is replaced."""

    @staticmethod
    def of(folder: str | os.PathLike[str], name: str) -> TlsFiles:
        """The files as ``thence cert issue NAME --out FOLDER`` names them."""
        stem = quote(name, safe="")
        path = Path(folder)
        return TlsFiles(
            os.fspath(path / f"{stem}.pem"),
            os.fspath(path / f"{stem}.key"),
            os.fspath(path / CA_FILE),
        )


class TlsTransport(TcpTransport):
    """Listens and dials with this node's certificate, everywhere.  Files are read once, here."""

    scheme = "tls"

    def __init__(
        self,
        files: TlsFiles,
        *,
        limits: Limits = DEFAULT_LIMITS,
        report: Reporter | None = None,
    ) -> None:
        super().__init__(allow_remote=True, limits=limits, report=report)
        self._server = _context(files, ssl.PROTOCOL_TLS_SERVER)
        self._client = _context(files, ssl.PROTOCOL_TLS_CLIENT)
        self.name = _own_name(files, self._client, self._server)
        """The node that the certificate names."""

    def _connection(self, handler: Handler, watch: Watch, *, dialled: bool) -> TlsConnection:
        context = self._client if dialled else self._server
        return TlsConnection(context, handler, watch, self._turn, dialled=dialled)


class TlsConnection(StreamConnection):
    """One connection; its handler hears of it once the peer's name is proved."""

    def __init__(
        self,
        context: ssl.SSLContext,
        handler: Handler,
        watch: Watch,
        turn: Turn,
        *,
        dialled: bool,
    ) -> None:
        super().__init__(handler, watch, turn, dialled=dialled)
        self._arrived = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._arrived, self._leaving, server_side=not dialled)
        self._proved = False

    def begin(self) -> None:
        self._write = self._encrypt
        if self.dialled:
            self._shake_hands()

    def data_received(self, data: bytes) -> None:
        if self._reason is not None:
            return
        self._arrived.write(data)
        if not self._proved:
            if not self.received_bytes and data[0] not in _FIRST_BYTES:
                self.refuse(NO_TLS, "the peer speaks plain tcp, and this is TLS")
                return
            self.received_bytes += len(data)
            if not self._shake_hands() or (self.dialled and not self._arrived.pending):
                return  # a peer that was dialled may still refuse this side
        plain = self._read()
        if self._reason is not None:
            return
        if not self._told:
            self.announce()
        if plain:
            super().data_received(plain)

    def eof_received(self) -> None:
        if not self._told and self._reason is None:
            self._refuse_gently(
                TLS_FAILED,
                "the peer closed the connection during the handshake; its log says why",
            )
        super().eof_received()

    def say_end(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLError:
            pass  # it waits for the peer's answer, which the end of the stream is too
        self._pass_on()
        super().say_end()

    # ---- inside

    def _shake_hands(self) -> bool:
        """One step of the handshake; whether it is done and the peer has proved its name."""
        try:
            self._tls.do_handshake()
            self.peer_name = proved_name(self._tls.getpeercert())
        except ssl.SSLWantReadError:
            self._pass_on()
            return False
        except ssl.SSLError as error:
            self._pass_on()  # the alert that tells the peer why
            self._refuse_gently(*explain(error))
            return False
        except ValueError as error:
            # TLS has no alert for it, and without the rest of the handshake the peer gives up.
            self._refuse_gently(BAD_CERTIFICATE, f"the peer's certificate is refused: {error}")
            return False
        self._proved = True
        self._pass_on()
        return True

    def _read(self) -> bytes:
        """What the records that are whole say."""
        parts: list[bytes] = []
        try:
            while part := self._tls.read(RECORD_BYTES_MAX):
                parts.append(part)
            self._pass_on()
        except ssl.SSLWantReadError:
            self._pass_on()  # answers of TLS itself
        except ssl.SSLError as error:
            self._pass_on()  # the alert that tells the peer why
            self._refuse_gently(*explain(error))
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _encrypt(self, data: bytes) -> None:
        view = memoryview(data)
        while view:  # a call may take less
            view = view[self._tls.write(view) :]
        self._transport.write(self._leaving.read())

    def _pass_on(self) -> None:
        if self._leaving.pending:
            self._transport.write(self._leaving.read())

    def _refuse_gently(self, what: str, reason: str) -> None:
        """Report it and close, so that what was written last arrives."""
        self._watch.report(what, f"{self.address}: {reason}")
        self.end(reason)
        super().say_end()


def explain(error: ssl.SSLError) -> tuple[str, str]:
    """What to count, and a sentence for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return BAD_CERTIFICATE, f"the peer's certificate is refused: {error.verify_message}"
    code = error.reason or str(error)
    if code == "PEER_DID_NOT_RETURN_A_CERTIFICATE":
        return BAD_CERTIFICATE, "the peer showed no certificate"
    if code in ("UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION"):
        return TLS_FAILED, "the peer does not speak TLS 1.3"
    _, alert, name = code.partition("_ALERT_")
    said = name.replace("_", " ").lower()
    if alert:
        return REFUSED_BY_PEER, _ALERTS.get(name) or f"the peer ended TLS: {said}"
    return TLS_FAILED, f"TLS failed: {code.replace('_', ' ').lower()}"


def _context(files: TlsFiles, protocol: int) -> ssl.SSLContext:
    for path in (files.certificate, files.key, files.ca):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise UnusableInputError(f"{path}: {error.strerror}") from error
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # names are proved by certificates, not by addresses
    context.verify_mode = ssl.CERT_REQUIRED
    if protocol == ssl.PROTOCOL_TLS_SERVER:
        context.num_tickets = 1  # what the side that dials waits for; nobody resumes a session
    try:
        # A key with a password would otherwise ask for it on the terminal.
        context.load_cert_chain(files.certificate, files.key, password=lambda: "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            reason = f"it does not belong to the certificate {files.certificate}"
        else:
            reason = f"it or {files.certificate} is not a PEM file without password"
        raise UnusableInputError(f"{files.key} cannot be used: {reason}") from error
    try:
        context.load_verify_locations(files.ca)
    except ssl.SSLError as error:
        raise UnusableInputError(f"{files.ca} cannot be used: no certificate in it") from error
    return context


def _own_name(files: TlsFiles, client: ssl.SSLContext, server: ssl.SSLContext) -> str:
    """Talk to oneself: what a peer would refuse is better known at the start."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for side in (*sides, *sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
        return proved_name(sides[0].getpeercert())
    except ssl.SSLError as error:
        reason = explain(error)[1].replace("the peer's certificate is refused: ", "")
        raise UnusableInputError(
            f"{files.certificate} cannot be used with {files.ca}: {reason}"
        ) from error
    except ValueError as error:
        raise UnusableInputError(f"{files.certificate} cannot be used: {error}") from error
