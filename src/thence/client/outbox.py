"""What a node has sent and not everybody has acknowledged: encoded once, kept until then.

Messages have link numbers 1, 2, 3, ... in the order in which they were sent.  A peer is sent them
in order, from what it has on.
"""

from __future__ import annotations

from typing import Final

import msgspec

from thence.wire.codec import BATCH_MESSAGES_MAX, join_batch
from thence.wire.talk import MESSAGE_BYTES_EXTRA

SHRINK_MESSAGES: Final = 1024
"""Released messages are dropped in lots of this: deleting from the front of a list moves it."""


class Hollow(msgspec.Struct, frozen=True):
    """A message that is for some members only."""

    to: frozenset[int]
    """The slots it is for."""
    encoded: bytes
    """What the others get instead: the same without its payload."""


class Outbox:
    """The messages from ``first`` on, in order."""

    def __init__(self, first: int = 1, is_sent: bool = True) -> None:
        self.first = first
        """The number of the first that is kept."""
        self.bytes = 0
        """Of the messages that are kept, encoded."""
        self.is_sent = is_sent
        """Whether there is anybody to send to."""
        self.last = first - 1
        """The number of the last message, or of the one before ``first``."""
        self._messages: list[bytes] = []
        self._sizes: list[int] = []  # as both ends count them (talk.message_bytes)
        self._gone = 0  # released, and still at the front of the lists
        self._hollow: dict[int, Hollow] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return self.last - self.first + 1

    def append(self, encoded: bytes, size: int, hollow: Hollow | None = None) -> int:
        """Keep a message; its number.  ``size`` is what it counts towards a peer's limit."""
        self._messages.append(encoded)
        self._sizes.append(size)
        self.bytes += len(encoded)
        number = self.last = self.last + 1
        if hollow is not None:
            self._hollow[number] = hollow
        return number

    def release(self, number: int) -> None:
        """Everybody has what is up to this number."""
        count = number - self.first + 1
        if count <= 0:
            return
        gone = self._gone
        self.bytes -= sum(map(len, self._messages[gone : gone + count]))
        if self._hollow:
            for each in range(self.first, number + 1):
                self._hollow.pop(each, None)
        self._gone += count
        self.first = number + 1
        if self._gone >= SHRINK_MESSAGES and 2 * self._gone >= len(self._messages):
            del self._messages[: self._gone], self._sizes[: self._gone]
            self._gone = 0

    def reach(
        self, number: int, limit: int, room: int, batch_bytes: int, slot: int
    ) -> tuple[int, int]:
        """How far one frame goes for a peer that has everything before ``number``.

        Up to the number ``limit``, within ``room`` bytes of the peer's and ``batch_bytes`` of
        ours.  (the last number, what it takes of the room); the last is below ``number`` when
        nothing fits.
        """
        at = number - self.first + self._gone
        end = min(limit - self.first + self._gone + 1, len(self._sizes), at + BATCH_MESSAGES_MAX)
        taken = total = 0
        sizes, messages = self._sizes, self._messages
        for position in range(at, end):
            size = sizes[position]
            if self._hollow:
                hollow = self._hollow.get(number + position - at)
                if hollow is not None and slot not in hollow.to:
                    size = MESSAGE_BYTES_EXTRA
            total += len(messages[position])
            if taken + size > room or (taken and total > batch_bytes):
                end = position
                break
            taken += size
        return number + end - at - 1 if end > at else number - 1, taken

    def batch(self, number: int, last: int, slot: int) -> tuple[list[bytes], bool]:
        """The parts of a batch (codec.join_batch) from ``number`` to ``last`` for a peer, and
        whether all peers get the same."""
        if self._hollow and any(each in self._hollow for each in range(number, last + 1)):
            chosen = [self._for_slot(each, slot) for each in range(number, last + 1)]
            return join_batch(chosen), False
        at = number - self.first + self._gone
        return join_batch(self._messages[at : at + last - number + 1]), True

    def message(self, number: int) -> bytes:
        """One of the messages that are kept."""
        return self._messages[number - self.first + self._gone]

    def _for_slot(self, number: int, slot: int) -> bytes:
        hollow = self._hollow.get(number)
        if hollow is None or slot in hollow.to:
            return self.message(number)
        return hollow.encoded
