"""All commands by name: a module of commands is one line here."""

from __future__ import annotations

from typing import Final

from thence.store.commands import (
    bits,
    causal,
    clients,
    connection,
    expiry,
    hashes,
    introspection,
    keys,
    lists,
    pubsub,
    scan,
    server,
    sets,
    sort,
    sorted_algebra,
    sorted_ranges,
    sorted_sets,
    strings,
    transactions,
    types,
)
from thence.store.commands.base import Command

COMMANDS: Final[dict[str, Command]] = {}
"""In capitals; a subcommand as ``CLIENT|LIST``."""

TABLES: Final = (
    strings.TABLE,
    bits.TABLE,
    lists.TABLE,
    sets.TABLE,
    hashes.TABLE,
    sorted_sets.TABLE,
    sorted_ranges.TABLE,
    sorted_algebra.TABLE,
    keys.TABLE,
    expiry.TABLE,
    scan.TABLE,
    sort.TABLE,
    causal.TABLE,
    types.TABLE,
    transactions.TABLE,
    pubsub.TABLE,
    connection.TABLE,
    clients.TABLE,
    server.TABLE,
    introspection.table(COMMANDS),
)

for _table in TABLES:
    for _each in _table:
        assert _each.name not in COMMANDS, _each.name
        COMMANDS[_each.name] = _each
