"""The tables of the commands that are tested here."""

from __future__ import annotations

from typing import Final

from thence.store.commands import (
    bits,
    causal,
    expiry,
    hashes,
    keys,
    lists,
    scan,
    sets,
    sort,
    sorted_algebra,
    sorted_ranges,
    sorted_sets,
    strings,
    types,
)

TABLES: Final = [
    module.TABLE
    for module in (
        bits,
        causal,
        expiry,
        hashes,
        keys,
        lists,
        scan,
        sets,
        sort,
        sorted_algebra,
        sorted_ranges,
        sorted_sets,
        strings,
        types,
    )
]
