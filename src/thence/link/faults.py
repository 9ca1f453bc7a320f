"""Faults on purpose, for tests and for operators who want to see the link at work.

The switches of seed 002: datagrams that are dropped, whose sequence number is altered, whose
acknowledgement is delayed; and doubling and reordering.  The filter stands between a link and the
socket, on what leaves.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from thence.errors import UnusableInputError
from thence.link.datagram import ACK, DATA, FIN, kind_of

_NUMBER_LAST = 17
"""Where the last byte of a packet's number is."""


class Faults(msgspec.Struct, frozen=True):
    """Chances from 0 to 1 for each datagram; times in seconds."""

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Chance that a datagram is held for ``reorder_s``, so that others overtake it."""
    reorder_s: float = 0.002
    alter_seq: float = 0.0
    """Chance that the sequence number of a packet is changed on the way.  The checksum finds it."""
    ack_delay_s: float = 0.0
    """Every acknowledgement that travels alone is held for so long."""

    def check(self) -> None:
        """UnusableInputError says what cannot be."""
        for name in ("drop", "duplicate", "reorder", "alter_seq"):
            chance = getattr(self, name)
            if not 0 <= chance <= 1:
                raise UnusableInputError(f"{name} {chance:g}: expected a chance from 0 to 1")
        if self.reorder_s < 0 or self.ack_delay_s < 0:
            raise UnusableInputError("reorder_s and ack_delay_s cannot be below 0")


class FaultFilter:
    """What becomes of datagrams.  ``chance`` gives numbers from 0 to below 1."""

    def __init__(self, faults: Faults, chance: Callable[[], float]) -> None:
        faults.check()
        self._faults = faults
        self._chance = chance
        self.dropped = 0
        self.altered = 0

    def passes(self, datagram: bytes) -> list[tuple[float, bytes]]:
        """The copies of it that leave, each after a delay in seconds."""
        faults, chance = self._faults, self._chance
        if faults.drop and chance() < faults.drop:
            self.dropped += 1
            return []
        delay_s = 0.0
        kind = kind_of(datagram)
        if faults.alter_seq and kind in (DATA, FIN) and chance() < faults.alter_seq:
            changed = bytearray(datagram)
            changed[_NUMBER_LAST] ^= 1 + int(chance() * 255)
            datagram = bytes(changed)
            self.altered += 1
        if faults.ack_delay_s and kind == ACK:
            delay_s = faults.ack_delay_s
        if faults.reorder and chance() < faults.reorder:
            delay_s += faults.reorder_s
        copies = [(delay_s, datagram)]
        if faults.duplicate and chance() < faults.duplicate:
            copies.append((delay_s, datagram))
        return copies
