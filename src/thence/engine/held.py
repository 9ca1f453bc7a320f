"""A message at the front of its origin that has to wait.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from thence.message import Message


class Held:
    """The next message of its origin, while a dot of its context is missing."""

    def __init__(self, packed: int, message: Message, named: tuple[int, ...]) -> None:
        self.packed = packed
        self.message = message
        self.named = named
        """Its predecessors on streams, by their local numbers."""
        self.scanned = 0
        """How much of its context was found delivered."""
        self.missing = -1
        """The one dot it watches."""
        self.next: Held | None = None
        """The one that began to watch the same dot before it."""


def missing_dots(watchers: dict[int, Held]) -> dict[int, int]:
    """By held dot, the dot it watches."""
    missing: dict[int, int] = {}
    for chain in watchers.values():
        held: Held | None = chain
        while held is not None:
            missing[held.packed] = held.missing
            held = held.next
    return missing
