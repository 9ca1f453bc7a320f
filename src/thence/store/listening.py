"""TLS for clients: certificates and keys from PEM files, read once when the server starts."""

from __future__ import annotations

import ssl

from thence.errors import UnusableInputError
from thence.store.settings import Settings


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """What connections are made with; None: no TLS.  With an authority, clients have to show a
    certificate that it signed.  UnusableInputError names the file that cannot be used."""
    if not settings.tls_certificate:
        return None
    for path in (settings.tls_certificate, settings.tls_key, settings.tls_authority):
        _check_readable(path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2  # clients of Redis are of all ages
    try:
        # A key with a password would otherwise ask for it on the terminal.
        context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=lambda: "")
    except ssl.SSLError as error:
        raise UnusableInputError(
            f"{settings.tls_certificate} and {settings.tls_key} cannot be used: they are no PEM "
            "files without password, or do not belong together"
        ) from error
    if settings.tls_authority:
        try:
            context.load_verify_locations(settings.tls_authority)
        except ssl.SSLError as error:
            raise UnusableInputError(
                f"{settings.tls_authority} cannot be used: no certificate in it"
            ) from error
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _check_readable(path: str) -> None:
    if not path:
        return
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise UnusableInputError(f"{path}: {error.strerror}") from error
