"""What only some tags have.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations


class TagAside:
    """What only tags need that have to do with streams of their own or with multicasts."""

    __slots__ = ("behind", "context", "hidden", "hollow", "passed", "to")

    def __init__(
        self, hidden: tuple[int, ...], context: tuple[int, ...], to: tuple[int, ...] = ()
    ) -> None:
        self.hidden = hidden
        """Predecessors on the default stream that only a stream's message orders before it."""
        self.context = context
        """Immediate predecessors on streams, by the local number of the stream."""
        self.to = to
        """The slots it is for; empty: for everyone."""
        self.hollow = False
        """It is not for this node."""
        self.passed = False
        """Hollow, and something after it was consumed here."""
        self.behind: tuple[int, ...] = ()
        """What left the frontier with it though it does not name that (engine/frontier.py)."""


class Answers:
    """The unforgotten ancestors of a tag, as bits of one integer: bit i is index ``base + i``."""

    __slots__ = ("asked", "base", "bits", "lost")

    def __init__(self, bits: int, base: int, asked: int, lost: int) -> None:
        self.bits = bits
        self.base = base
        self.asked = asked
        """The client's clock when they were made."""
        self.lost = lost
        """Below this index an ancestor may be missing: a message between was dropped."""
