"""A dot names one message: the node that sent it and its sequence number there, from 1.

Two forms of the same thing.  ``Dot`` is for people: it prints as ``b:7`` and sorts by name.
A *packed dot* is for engines: ``slot << SEQ_BITS | seq`` in one integer, where the slot stands for
the node (causal/members.py).  Packed dots of one origin compare as their sequence numbers do, and
a sorted context of packed dots is sorted by origin, so "at most one dot per origin" is one
comparison per dot.  They are plain integers because engines touch several per message.
"""

from __future__ import annotations

from typing import Final

import msgspec

SEQ_BITS: Final = 40
SEQ_MAX: Final = (1 << SEQ_BITS) - 1
SLOT_MAX: Final = (1 << 16) - 1  # packed dots stay below 2**56: a native integer when compiled


class Dot(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """One message by name.  ``node`` is ``name``, ``name#2`` or either with ``/stream``."""

    node: str
    seq: int

    def __str__(self) -> str:
        return f"{self.node}:{self.seq}"

    @staticmethod
    def parse(text: str) -> Dot:
        """The dot that ``str(dot)`` printed; ValueError says what is wrong with anything else."""
        node, colon, seq = text.rpartition(":")
        if not colon or not node or not seq.isascii() or not seq.isdigit() or int(seq) < 1:
            raise ValueError(f"{text!r} is not a dot: expected NODE:SEQ with SEQ from 1, as in b:7")
        return Dot(node, int(seq))


def pack(slot: int, seq: int) -> int:
    """The packed dot of message ``seq`` of the node in ``slot``."""
    return slot << SEQ_BITS | seq


def slot_of(packed: int) -> int:
    """The origin's slot."""
    return packed >> SEQ_BITS


def seq_of(packed: int) -> int:
    """The sequence number at the origin, from 1."""
    return packed & SEQ_MAX
