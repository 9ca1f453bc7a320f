"""The members file: who is in the group, and where.

Lines of ``name address``, ``#`` starts a comment:

    # our three
    a  tcp://10.0.0.1:7400
    b  tcp://10.0.0.2:7400

or, in a file that ends in .toml, the same as a table ``[members]``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Final

from thence.config.node import NodeConfig
from thence.config.values import Unfit, check, values_of
from thence.errors import UnusableInputError

FILE_BYTES_MAX: Final = 1024 * 1024
"""Of a members file or a file of settings."""
_PEERS: Final = values_of(NodeConfig)["peers"]


def read_members(file: str | Path) -> dict[str, str]:
    """Addresses by name, in the order of the file; UnusableInputError names file and line."""
    if Path(file).suffix == ".toml":
        members = _from_toml(file)
    else:
        members = _from_lines(file, read_text(file))
    if not members:
        raise UnusableInputError(f"{file}: names no members; expected lines of: name address")
    return members


def read_text(file: str | Path) -> str:
    """A small text file, or UnusableInputError."""
    try:
        with open(file, "rb") as opened:
            data = opened.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UnusableInputError(f"{file}: {error.strerror or error}") from None
    except ValueError as error:  # a NUL in the name
        raise UnusableInputError(f"{str(file)!r}: {error}") from None
    if len(data) > FILE_BYTES_MAX:
        raise UnusableInputError(f"{file}: larger than {FILE_BYTES_MAX:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise UnusableInputError(f"{file}: not UTF-8 at byte {error.start}") from None


def read_toml(file: str | Path) -> dict[str, Any]:
    """A TOML document, or UnusableInputError."""
    text = read_text(file)
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UnusableInputError(f"{file}: not TOML: {error}") from None


def _from_toml(file: str | Path) -> dict[str, str]:
    document = read_toml(file)
    if list(document) != ["members"]:
        found = ", ".join(document) or "nothing"
        raise UnusableInputError(f"{file}: holds {found}; expected one table [members]")
    return _checked(document["members"], f"{file}: members")


def _from_lines(file: str | Path, text: str) -> dict[str, str]:
    members: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2:
            raise UnusableInputError(f"{file}:{number}: {line.strip()!r}; expected: name address")
        name, address = words
        if name in members:
            raise UnusableInputError(f"{file}:{number}: {name!r} is there a second time")
        members |= _checked({name: address}, f"{file}:{number}: member")
    return members


def _checked(found: object, where: str) -> dict[str, str]:
    try:
        members: dict[str, str] = check(_PEERS, found)
    except Unfit as unfit:
        raise UnusableInputError(unfit.sentence(where)) from None
    return members
