"""Explicit causal histories: the definition, kept as bit sets.

Every message gets a number when its application sends it; a set of messages is an integer with one
bit per message.  ``closure[m]`` is m and everything that happened before it, by the definition of
thesis 3.3 and nothing cleverer: what its application had sent or consumed by then.

No engine imports this and this imports no engine, so that the oracle cannot share their mistakes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from thence.message import Message, VectorMessage, WireMessage

Key = tuple[int, str, int]
"""(slot, stream, seq): one message.  The stream is empty for the usual one."""


def key_of_tag(tag: Any) -> Key:
    """Which message a tag of any engine is about."""
    return (tag.origin, getattr(tag, "stream", ""), tag.seq)


def key_of_message(message: WireMessage) -> Key:
    """Which message this is on the wire; a phantom has none."""
    if isinstance(message, Message):
        return (message.origin, message.stream, message.seq)
    if isinstance(message, VectorMessage):
        return (message.origin, "", message.vector[message.origin])
    raise TypeError(f"a {type(message).__name__} is no message")


def bits(mask: int) -> Iterator[int]:
    """The members of a bit set, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


class Histories:
    """All messages of an execution and what happened before each."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.number: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.closure: list[int] = []
        """The message itself and all of its causal past."""
        self.ordered = 0
        """The messages on the usual stream: those that take part in stability."""
        self.of_slot = [0] * len(names)
        """Messages of the usual stream by sender."""
        self.not_for = [0] * len(names)
        """By node, the multicasts that are not for it."""

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: Key, past: int) -> int:
        """A new message and its causal past, which must be closed; its number."""
        number = len(self.keys)
        self.number[key] = number
        self.keys.append(key)
        self.closure.append(past | 1 << number)
        if not key[1]:
            self.ordered |= 1 << number
            self.of_slot[key[0]] |= 1 << number
        return number

    def maximal(self, some: int, among: int = -1) -> list[int]:
        """The maximal elements of a set, or of its part in ``among``, straight from the
        definition: those that are in the past of no other element."""
        some &= among
        covered = 0
        for number in bits(some):
            covered |= self.closure[number] ^ 1 << number
        return list(bits(some & ~covered))

    def vector(self, closed: int) -> tuple[int, ...]:
        """How many messages of each sender are in the set."""
        return tuple((closed & mine).bit_count() for mine in self.of_slot)

    def show(self, number: int) -> str:
        """As in ``b:7``, or ``b/stream:7``."""
        slot, stream, seq = self.keys[number]
        return f"{self.names[slot]}{'/' + stream if stream else ''}:{seq}"

    def show_all(self, mask: int, at_most: int = 8) -> str:
        """The members of a set for people, cut when there are many."""
        numbers = sorted(bits(mask), key=lambda number: self.keys[number])
        shown = [self.show(number) for number in numbers[:at_most]]
        if len(numbers) > at_most:
            shown.append(f"and {len(numbers) - at_most} more")
        return "{" + ", ".join(shown) + "}"
