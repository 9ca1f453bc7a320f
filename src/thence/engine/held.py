"""Messages that have to wait: one at the front of its origin, and chains behind such ones.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from bisect import bisect_right

from thence.causal.dot import SEQ_BITS
from thence.message import Chain, Message


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


class HeldChains:
    """Chains whose first message waits for the one before it.  Of one origin they do not overlap
    and come in order, so each is found by its first dot."""

    def __init__(self) -> None:
        self.count = 0
        """How many messages there are."""
        self.by_first: dict[int, tuple[int, Chain]] = {}
        """With the order of arrival, by the first dot."""
        self._firsts: dict[int, list[int]] = {}

    def add(self, arrival: int, first: int, chain: Chain) -> None:
        """Hold a chain that is after all of its origin that are held."""
        self.by_first[first] = (arrival, chain)
        self._firsts.setdefault(first >> SEQ_BITS, []).append(first)
        self.count += len(chain.payloads)

    def pop(self, first: int) -> tuple[int, Chain]:
        """Let go of the chain that begins with this dot: the first of its origin."""
        found = self.by_first.pop(first)
        firsts = self._firsts[first >> SEQ_BITS]
        firsts.remove(first)
        if not firsts:
            del self._firsts[first >> SEQ_BITS]
        self.count -= len(found[1].payloads)
        return found

    def drop(self, slot: int) -> list[Chain]:
        """Let go of all chains of an origin, in order."""
        dropped: list[Chain] = []
        for first in self._firsts.pop(slot, ()):
            chain: Chain = self.by_first.pop(first)[1]
            self.count -= len(chain.payloads)
            dropped.append(chain)
        return dropped

    def has(self, packed: int) -> bool:
        """Whether a message is in one of them."""
        firsts = self._firsts.get(packed >> SEQ_BITS)
        at = 0 if firsts is None else bisect_right(firsts, packed)
        if firsts is None or not at:
            return False
        first = firsts[at - 1]
        size: int = len(self.by_first[first][1].payloads)
        return packed < first + size

    def dots(self) -> list[int]:
        """Of all messages."""
        found: list[int] = []
        for first, (_, chain) in self.by_first.items():
            found.extend(range(first, first + len(chain.payloads)))
        return found


def missing_dots(watchers: dict[int, Held]) -> dict[int, int]:
    """By held dot, the dot it watches."""
    missing: dict[int, int] = {}
    for chain in watchers.values():
        held: Held | None = chain
        while held is not None:
            missing[held.packed] = held.missing
            held = held.next
    return missing


def stop_watching(watchers: dict[int, Held], slot: int) -> None:
    """Take out what messages of this origin watch; the others keep their order."""
    for missing in list(watchers):
        staying: list[Held] = []
        held: Held | None = watchers[missing]
        while held is not None:
            if held.message.origin != slot:
                staying.append(held)
            held = held.next
        if not staying:
            del watchers[missing]
            continue
        newer: Held | None = None
        for held in staying:  # newest first
            held.next = None
            if newer is None:
                watchers[missing] = held
            else:
                newer.next = held
            newer = held
