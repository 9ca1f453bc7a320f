"""Make the certificates of mutual TLS: an authority for a group, and one certificate for each node.

Only this file needs the package ``cryptography``; TLS itself is Python's.  An authority signs for
one group (or for several that trust each other) and nothing else: its path length is 0, and a
node's certificate serves as server and as client.  Keys are of the curve P-256, which every TLS
library has.  Nothing is revoked: give certificates a short life, or a group a new authority.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from thence.causal.members import check_name
from thence.errors import LocalProtocolError, UnusableInputError
from thence.transport.tls import CA_FILE, NODE_URI, TlsFiles, node_uri

CA_KEY_FILE: Final = "ca.key"
CA_DAYS: Final = 3650
NODE_DAYS: Final = 365
DAYS_MAX: Final = 36_500
CLOCK_SKEW: Final = timedelta(hours=1)
"""Certificates are valid from so long ago: clocks of nodes differ."""
COMMON_NAME_CHARS_MAX: Final = 64
"""Of X.509."""
CERTIFICATE_BYTES_MAX: Final = 1 << 20
"""Of a file that is read."""
KEY_MODE: Final = 0o600
PUBLIC_MODE: Final = 0o644


class Described(msgspec.Struct, frozen=True):
    """What a certificate says, for people."""

    name: str
    """The node that it names; empty for an authority, and where there is none."""
    authority: bool
    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    serial: str
    """Hexadecimal."""
    sha256: str
    """Fingerprint, hexadecimal."""


def make_authority(
    folder: Path, *, days: int = CA_DAYS, force: bool = False, now: datetime | None = None
) -> Path:
    """Write ``ca.pem`` and ``ca.key``; the path of the first."""
    start = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "thence authority")])
    certificate = (
        _unsigned(name, name, key.public_key(), start, start + _days(days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(authority=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = [folder / CA_FILE, folder / CA_KEY_FILE]
    _refuse_to_replace(paths, force)
    _write(paths[1], _key_pem(key), KEY_MODE)
    _write(paths[0], certificate.public_bytes(serialization.Encoding.PEM), PUBLIC_MODE)
    return paths[0]


def issue(
    node: str,
    authority: Path,
    folder: Path,
    *,
    days: int = NODE_DAYS,
    force: bool = False,
    now: datetime | None = None,
) -> TlsFiles:
    """Write key and certificate of a node, and a copy of the authority's certificate beside them.

    The certificate does not outlive the authority's own.
    """
    try:
        check_name(node)
    except LocalProtocolError as error:
        raise UnusableInputError(str(error)) from error
    if node.lower() == Path(CA_FILE).stem:  # some file systems do not tell CA from ca
        raise UnusableInputError(f"a node called {node!r} would have the files of the authority")
    signer = read_certificate(authority / CA_FILE)
    signing_key = _read_key(authority / CA_KEY_FILE)
    if signing_key.public_key() != signer.public_key():
        raise UnusableInputError(f"{authority}: {CA_KEY_FILE} is not the key of {CA_FILE}")
    if not _is_authority(signer):
        raise UnusableInputError(f"{authority / CA_FILE} is not an authority: nodes would refuse")
    start = now or datetime.now(UTC)
    end = min(start + _days(days), signer.not_valid_after_utc)
    if end <= start:
        raise UnusableInputError(f"{authority / CA_FILE} expired {end:%Y-%m-%d}; make a new one")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, node[:COMMON_NAME_CHARS_MAX])])
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
    uri = x509.UniformResourceIdentifier(node_uri(node))
    certificate = (
        _unsigned(subject, signer.subject, key.public_key(), start, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName([uri]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()),
            critical=False,
        )
        .sign(signing_key, hashes.SHA256())
    )
    files = TlsFiles.of(folder, node)
    _refuse_to_replace([Path(files.certificate), Path(files.key)], force)
    ca = (authority / CA_FILE).read_bytes()
    copy = Path(files.ca)
    if copy.exists() and copy.read_bytes() != ca and not force:
        raise UnusableInputError(f"{copy} is of another authority; --force replaces it")
    _write(Path(files.key), _key_pem(key), KEY_MODE)
    _write(
        Path(files.certificate), certificate.public_bytes(serialization.Encoding.PEM), PUBLIC_MODE
    )
    if not copy.exists() or copy.read_bytes() != ca:
        _write(copy, ca, PUBLIC_MODE)
    return files


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate in a PEM file."""
    with path.open("rb") as file:
        text = file.read(CERTIFICATE_BYTES_MAX)
    try:
        return x509.load_pem_x509_certificate(text)
    except ValueError as error:
        raise UnusableInputError(f"{path}: no certificate in it (PEM)") from error


def describe(certificate: x509.Certificate) -> Described:
    """What it says."""
    return Described(
        name=", ".join(_names(certificate)),
        authority=_is_authority(certificate),
        subject=certificate.subject.rfc4514_string(),
        issuer=certificate.issuer.rfc4514_string(),
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        serial=f"{certificate.serial_number:x}",
        sha256=certificate.fingerprint(hashes.SHA256()).hex(),
    )


def _names(certificate: x509.Certificate) -> list[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    uris = found.value.get_values_for_type(x509.UniformResourceIdentifier)
    return [unquote(uri.removeprefix(NODE_URI)) for uri in uris if uri.startswith(NODE_URI)]


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        found = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.value.ca


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    start: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_SKEW)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _days(days: int) -> timedelta:
    if not 1 <= days <= DAYS_MAX:
        raise UnusableInputError(f"{days} days: a certificate is valid for 1 to {DAYS_MAX}")
    return timedelta(days=days)


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        raise UnusableInputError(f"{path}: not a private key without password (PEM)") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UnusableInputError(f"{path}: not a key of thence cert init (elliptic curve)")
    return key


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _refuse_to_replace(paths: list[Path], force: bool) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there and not force:
        raise UnusableInputError(f"{', '.join(there)} exists already; --force replaces it")


def _write(path: Path, data: bytes, mode: int) -> None:
    """Write it whole or not at all, and never readable for more people than it should be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
