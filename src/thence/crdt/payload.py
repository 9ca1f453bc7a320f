"""What a payload says, as values (crdt/batch.py).

They have a module of their own: mypyc does not pass on what their classes are made with.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """A piece of a batch that is too large for one message."""

    kind: int
    number: int
    """From 0."""
    last: int
    data: bytes


class Batch(msgspec.Struct, frozen=True):
    """A batch whose shape is right."""

    clock_ms: int
    items: list[Any]
    """key, code, operation, and so on."""
