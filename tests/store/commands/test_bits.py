"""Bits of strings where a Redis has nothing to compare with."""

from __future__ import annotations

import tracemalloc

from tests.store.commands.tables import TABLES
from tests.store.commands.world import World

STRING_BYTES = 100_000


def test_strings_are_combined_one_by_one():
    world = World(TABLES)
    world.run("SET", "s", b"a" * STRING_BYTES)
    world.run("SET", "short", b"\xff")
    world.run("BITOP", "OR", "target", "s", "s")
    tracemalloc.start()
    assert world.run("BITOP", "OR", "target", "short", *["s"] * 100) == STRING_BYTES
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert world.run("GET", "target") == b"\xff" + b"a" * (STRING_BYTES - 1)
    assert peak < 20 * STRING_BYTES
