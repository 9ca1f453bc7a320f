"""``thence cert``: the certificates by which the nodes of a group know each other (tls)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from thence.errors import UnusableInputError
from thence.transport.certificates import (
    CA_DAYS,
    CA_KEY_FILE,
    NODE_DAYS,
    describe,
    issue,
    make_authority,
    read_certificate,
)

Flag = Parameter(negative=())


def command(
    action: Literal["init", "issue", "show"],
    subject: str | None = None,
    /,
    *,
    ca: Path | None = None,
    out: Path | None = None,
    days: int | None = None,
    force: Annotated[bool, Flag] = False,
) -> int:
    """Make and show the certificates of mutual TLS.

    `thence cert init --out DIR` makes an authority for a group, `thence cert issue NAME --ca DIR
    --out DIR` signs key and certificate for the node NAME, `thence cert show FILE` says what a
    certificate holds and whether it is valid now.

    Parameters
    ----------
    action
        init, issue or show.
    subject
        With issue: the name of the node. With show: a certificate, as a PEM file.
    ca
        With issue: the folder that init wrote.
    out
        Folder for the files; it is made if it is not there.
    days
        How long the certificate is valid: 3650 for an authority, 365 for a node unless given.
    force
        Replace files that are there already.
    """
    if action == "show":
        if subject is None or ca is not None or out is not None or days is not None or force:
            raise UnusableInputError(
                "thence cert show takes one certificate: thence cert show FILE"
            )
        return show(Path(subject))
    if out is None:
        raise UnusableInputError(f"thence cert {action} needs --out DIR")
    if action == "init":
        if subject is not None or ca is not None:
            raise UnusableInputError("thence cert init takes --out, --days and --force only")
        path = make_authority(out, days=CA_DAYS if days is None else days, force=force)
        print(f"authority    {path}\nits key      {path.with_name(CA_KEY_FILE)}")
        print("Keep the key off the nodes: whoever has it can name itself as any node.")
        return 0
    if subject is None or ca is None:
        raise UnusableInputError("thence cert issue needs a NAME and --ca DIR, the folder of init")
    files = issue(subject, ca, out, days=NODE_DAYS if days is None else days, force=force)
    print(f"certificate  {files.certificate}\nits key      {files.key}\nauthority    {files.ca}")
    return 0


def show(path: Path) -> int:
    """Print what a certificate says; 1 if it is not valid now."""
    found = describe(read_certificate(path))
    now = datetime.now(UTC)
    if now < found.not_before:
        state = "not valid yet"
    elif now > found.not_after:
        state = "expired"
    else:
        state = f"valid, {(found.not_after - now).days} days left"
    kind = "authority" if found.authority else f"node {found.name}" if found.name else "no node"
    for label, value in (
        ("names", kind),
        ("state", state),
        ("from", f"{found.not_before:%Y-%m-%d %H:%M} UTC"),
        ("until", f"{found.not_after:%Y-%m-%d %H:%M} UTC"),
        ("subject", found.subject),
        ("issuer", found.issuer),
        ("serial", found.serial),
        ("sha256", found.sha256),
    ):
        print(f"{label:<8}  {value}")
    return 0 if state.startswith("valid") else 1
