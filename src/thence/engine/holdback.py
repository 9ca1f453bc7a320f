"""Messages that wait for others: of each sender in the order of their numbers, and after so many
messages of the other senders.

Shared by engines whose messages say how many of each sender come before them for this node.  Only
the next message of a sender is looked at, and only when what it was last seen to lack is there:
handing over costs what the needs of a message have entries, whatever else is held back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from thence.causal.dot import pack
from thence.engine.reject import BAD_SEQ, DUPLICATE, TOO_FAR_AHEAD, Reject, Waiting
from thence.message import Stamped

Need = tuple[int, int]
"""(slot, how many of its messages come first)."""


class Held(msgspec.Struct, frozen=True, gc=False):
    """A message and what it waits for."""

    message: Stamped
    needs: tuple[Need, ...]


class HoldBack:
    """``delivered[j]`` messages of j are through, the first so many; no held message is ready."""

    __slots__ = ("_blocked", "_held", "_max", "delivered")

    def __init__(self, size: int, pending_per_origin_max: int) -> None:
        self._max: Final = pending_per_origin_max
        self.delivered = [0] * size
        self._held: list[dict[int, Held]] = [{} for _ in range(size)]
        """By origin and number."""
        self._blocked: list[dict[int, int]] = [{} for _ in range(size)]
        """By slot, the origins whose next message lacks something of it: up to which number."""

    def refusal(self, peer: int, origin: int, number: int) -> Reject | None:
        """Why a message with this number cannot be taken; None if it can."""
        delivered = self.delivered[origin]
        if number < 1:
            return Reject(peer, BAD_SEQ, "numbers are from 1")
        if number <= delivered or number in self._held[origin]:
            return Reject(peer, DUPLICATE, f"number {number} of slot {origin} is here")
        if number > delivered + self._max:
            detail = f"number {number} of slot {origin} while {delivered} is delivered"
            return Reject(peer, TOO_FAR_AHEAD, detail, True)
        return None

    def add(self, number: int, message: Stamped, needs: Sequence[Need]) -> list[Stamped]:
        """Hold a message that ``refusal`` lets in; what is ready now, in order."""
        origin = message.origin
        self._held[origin][number] = Held(message, tuple(needs))
        ready: list[Stamped] = []
        look = [origin] if number == self.delivered[origin] + 1 else []
        while look:
            slot = look.pop()
            if (held := self._ready(slot)) is None:
                continue
            ready.append(held.message)
            self.delivered[slot] += 1
            look.append(slot)
            look += self._unblocked(slot)
        return ready

    def _ready(self, origin: int) -> Held | None:
        """The next message of ``origin`` if it lacks nothing; else what it lacks is noted."""
        held = self._held[origin].get(self.delivered[origin] + 1)
        if held is None:
            return None
        for slot, count in held.needs:
            if count > self.delivered[slot]:
                self._blocked[slot][origin] = count
                return None
        return self._held[origin].pop(self.delivered[origin] + 1)

    def _unblocked(self, slot: int) -> list[int]:
        blocked = self._blocked[slot]
        found = [origin for origin, count in blocked.items() if count <= self.delivered[slot]]
        for origin in found:
            del blocked[origin]
        return found

    def waiting(self) -> list[Waiting]:
        """What is held back, each with the number of a message that it lacks, as a dot."""
        found = []
        for origin, held in enumerate(self._held):
            following = self.delivered[origin] + 1
            for number, each in sorted(held.items()):
                slot = origin
                if number == following:
                    slot = next(k for k, count in each.needs if count > self.delivered[k])
                missing = pack(slot, self.delivered[slot] + 1)
                found.append(Waiting(pack(origin, each.message.seq), missing))
        return found

    def messages(self) -> list[Stamped]:
        """What is held back."""
        return [each.message for some in self._held for each in some.values()]

    def words(self) -> int:
        """A count per member; of each held message its dot, its number and its needs."""
        held = [each for some in self._held for each in some.values()]
        blocked = sum(2 * len(some) for some in self._blocked)
        return len(self.delivered) + blocked + sum(3 + 2 * len(each.needs) for each in held)
