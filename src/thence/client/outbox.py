"""What a node has sent and not everybody has acknowledged: encoded once, kept until then.

Messages have link numbers 1, 2, 3, ... in the order in which they were sent.  A peer is sent them
in order, from what it has on.  Of messages that come right after the one before them only the
payload is kept: they travel as chains (``message.Chain``).

Where members come and go, what only those lack who catch up is *light*: only its size is kept, and
it is fetched from the engine, which remembers what is not stable, when it is sent.  Light messages
are the first ones.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Final

import msgspec

from thence.causal.dot import SEQ_BITS
from thence.message import Chain, Message
from thence.wire.codec import BATCH_MESSAGES_MAX, encode, join_batch
from thence.wire.talk import MESSAGE_BYTES_EXTRA

SHRINK_MESSAGES: Final = 1024
"""Released messages are dropped in lots of this: deleting from the front of a list moves it."""
SHRINK_BYTES: Final = 1 << 20
"""... or of so many bytes, because what is released counts towards no limit."""


class Hollow(msgspec.Struct, frozen=True):
    """A message that is for some members only."""

    to: frozenset[int]
    """The slots it is for."""
    encoded: bytes | None
    """What the others get instead: the same without its payload; None: nothing, and the number is
    left out for them."""


class Outbox:
    """The messages from ``first`` on, in order."""

    def __init__(self, first: int = 1, is_sent: bool = True, slot: int = 0) -> None:
        self._slot = slot  # of this node
        self.first = first
        """The number of the first that is kept."""
        self.is_sent = is_sent
        """Whether there is anybody to send to."""
        self.last = first - 1
        """The number of the last message, or of the one before ``first``."""
        self.floor = first - 1
        """Messages up to this number are kept only for peers that catch up, and count towards no
        limit of this node; below ``first`` it says nothing."""
        self.light = 0
        """The number of the last message that is fetched when it is sent; below ``first``: none."""
        self.fetch: Callable[[int], Message] | None = None
        """Gives the message of that number, which is not stable."""
        self._messages: list[bytes] = []
        self._seqs: list[int] = []  # of those whose payload is kept; 0 for the others
        # What all messages before each one add up to, and what all do: as both ends count them
        # (talk.message_bytes), and as they are kept.
        self._sizes: list[int] = [0]
        self._bytes: list[int] = [0]
        self._gone = 0  # released, and still at the front of the lists
        self._hollow: dict[int, Hollow] = {}

    def __len__(self) -> int:
        """How many are kept."""
        return self.last - self.first + 1

    @property
    def kept_bytes(self) -> int:
        """Of the messages that are kept."""
        return self._bytes[-1] - self._bytes[self._gone]

    @property
    def waiting(self) -> int:
        """How many of them count towards the limits of this node."""
        # Asked for every broadcast, so without max().
        floor, first = self.floor, self.first
        return self.last - floor if floor >= first else self.last - first + 1

    @property
    def waiting_bytes(self) -> int:
        """Of the messages that count."""
        floor, first = self.floor, self.first
        at = self._gone + floor - first + 1 if floor >= first else self._gone
        return self._bytes[-1] - self._bytes[at]

    def bytes_after(self, number: int) -> int:
        """Of the messages after this one, which is kept or the one before ``first``."""
        return self._bytes[-1] - self._bytes[number + 1 - self.first + self._gone]

    def append(self, encoded: bytes, size: int, hollow: Hollow | None = None) -> int:
        """Keep a message; its number.  ``size`` is what it counts towards a peer's limit."""
        self._messages.append(encoded)
        self._seqs.append(0)
        self._sizes.append(self._sizes[-1] + size)
        self._bytes.append(self._bytes[-1] + len(encoded))
        number = self.last = self.last + 1
        if hollow is not None:
            self._hollow[number] = hollow
        return number

    def append_chain(self, seq: int, payloads: Sequence[bytes]) -> None:
        """Keep messages from ``seq`` on, each right after the one before it."""
        count = len(payloads)
        lengths = list(map(len, payloads))
        self._messages += payloads
        self._seqs += range(seq, seq + count)
        self._bytes += accumulate(lengths, initial=self._bytes.pop())
        sizes = map(MESSAGE_BYTES_EXTRA.__add__, lengths)
        self._sizes += accumulate(sizes, initial=self._sizes.pop())
        self.last += count

    def release(self, number: int) -> None:
        """Everybody has what is up to this number."""
        count = number - self.first + 1
        if count <= 0:
            return
        if self._hollow:
            for each in range(self.first, number + 1):
                self._hollow.pop(each, None)
        self._gone += count
        self.first = number + 1
        gone = self._gone
        is_lot = gone >= SHRINK_MESSAGES and 2 * gone >= len(self._messages)
        if is_lot or self._bytes[gone] - self._bytes[0] >= SHRINK_BYTES:
            self._shrink()

    def _shrink(self) -> None:
        """Drop what is released."""
        for kept in (self._messages, self._seqs, self._sizes, self._bytes):
            del kept[: self._gone]
        self._gone = 0

    def refill(self, lengths: Sequence[int]) -> None:
        """Messages that were released are to be sent again, those before ``first`` whose payloads
        have these lengths: a peer lacks them whom nobody waited for."""
        count = len(lengths)
        assert count < self.first, "there are no numbers for so many"
        self._shrink()
        if self.light < self.first:
            self.light = self.first - 1
        self._messages[:0] = [b""] * count
        self._seqs[:0] = [0] * count
        # Sums may be below zero then: only their differences mean anything.
        sizes = [length + MESSAGE_BYTES_EXTRA for length in lengths]
        self._sizes[:1] = accumulate(sizes, initial=self._sizes[0] - sum(sizes))
        self._bytes[:1] = accumulate(lengths, initial=self._bytes[0] - sum(lengths))
        self.first -= count

    def lighten(self, number: int) -> None:
        """What is up to this number only those lack who catch up."""
        start = max(self.first, self.light + 1)
        if number >= start and self.fetch is not None:
            at, count = start - self.first + self._gone, number - start + 1
            self._messages[at : at + count] = [b""] * count
            self._seqs[at : at + count] = [0] * count
            self.light = number

    @property
    def solid(self) -> int:
        """The number of the first message that is here itself, or of the next one."""
        return max(self.first, self.light + 1)

    def reach(
        self, number: int, limit: int, room: int, batch_bytes: int, slot: int
    ) -> tuple[int, int]:
        """How far one frame goes for a peer that has everything before ``number``.

        Up to the number ``limit``, within ``room`` bytes of the peer's and ``batch_bytes`` of
        ours, which the first message may exceed.  (the last number, what it takes of the room);
        the last is below ``number`` when nothing fits.
        """
        at = number - self.first + self._gone
        last_at = limit - self.first + self._gone
        end = min(last_at + 1, len(self._messages), at + BATCH_MESSAGES_MAX)
        sizes, kept = self._sizes, self._bytes
        if kept[end] - kept[at] > batch_bytes:
            end = max(at + 1, bisect_right(kept, kept[at] + batch_bytes, at, end) - 1)
        if self._hollow:
            return self._reach_hollow(number, number + end - at - 1, room, slot)
        if sizes[end] - sizes[at] > room:
            end = bisect_right(sizes, sizes[at] + room, at, end) - 1
        return number + end - at - 1, sizes[end] - sizes[at]

    def passed(self, number: int, slot: int) -> int:
        """The last number from this one on before the next message that the peer gets."""
        hollow = self._hollow
        while hollow and number < self.last:
            following = hollow.get(number + 1)
            if following is None or following.encoded is not None or slot in following.to:
                break
            number += 1
        return number

    def _reach_hollow(self, number: int, last: int, room: int, slot: int) -> tuple[int, int]:
        """The same where some are for some members only: to the others they are smaller, or not
        there, which ends the frame."""
        taken = 0
        at = number - self.first + self._gone
        for each in range(number, last + 1):
            size = self._sizes[at + 1] - self._sizes[at]
            hollow = self._hollow.get(each)
            if hollow is not None and slot not in hollow.to:
                if hollow.encoded is None:
                    return each - 1, taken
                size = MESSAGE_BYTES_EXTRA
            if taken + size > room:
                return each - 1, taken
            taken += size
            at += 1
        return last, taken

    def batch(self, number: int, last: int, slot: int) -> tuple[list[bytes], bool]:
        """The parts of a batch (codec.join_batch) from ``number`` to ``last`` for a peer, and
        whether all peers get the same."""
        is_for_all = True
        items: list[bytes] = []
        if number <= self.light:
            items = self._fetched(number, min(last, self.light))
            number = min(last, self.light) + 1
        at = number - self.first + self._gone
        end = at + last - number + 1
        seqs, messages = self._seqs, self._messages
        while at < end:
            seq = seqs[at]
            if seq:
                chain_end = at + 1
                if seqs[end - 1] == seq + end - 1 - at and 0 not in seqs[at:end]:
                    chain_end = end  # numbers only go up, so none is left out
                while chain_end < end and seqs[chain_end] == seq + chain_end - at:
                    chain_end += 1
                items.append(encode(Chain(self._slot, seq, messages[at:chain_end])))
                at = chain_end
                continue
            encoded = messages[at]
            if self._hollow:
                hollow = self._hollow.get(at + self.first - self._gone)
                if hollow is not None:
                    is_for_all = False
                    if slot not in hollow.to:
                        assert hollow.encoded is not None, "a frame ends before it"
                        encoded = hollow.encoded
            items.append(encoded)
            at += 1
        return join_batch(items), is_for_all

    def _fetched(self, number: int, last: int) -> list[bytes]:
        """Light messages as items of a batch, those that come right after each other as chains."""
        assert self.fetch is not None
        items: list[bytes] = []
        seq = 0
        payloads: list[bytes] = []
        for each in range(number, last + 1):
            message = self.fetch(each)
            before = (self._slot << SEQ_BITS) + message.seq - 1
            if message.seq > 1 and message.context == (before,) and message.aside is None:
                seq = seq if payloads else message.seq
                payloads.append(message.payload)
                continue
            if payloads:
                items.append(encode(Chain(self._slot, seq, payloads)))
                payloads = []
            items.append(encode(message))
        if payloads:
            items.append(encode(Chain(self._slot, seq, payloads)))
        return items

    def message(self, number: int) -> bytes:
        """One of the messages that are here themselves, encoded."""
        assert number > self.light
        at = number - self.first + self._gone
        kept, seq = self._messages[at], self._seqs[at]
        if not seq:
            return kept
        before = (self._slot << SEQ_BITS) + seq - 1
        return encode(Message(self._slot, seq, (before,), kept))
