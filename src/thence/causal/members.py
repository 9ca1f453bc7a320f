"""Who takes part: an identity per incarnation, a slot per identity.

A slot is a small number that stands for one identity in bit masks and packed dots.  Slots are
handed out in order of arrival, never reused and never shifted, so that a group can change without
renumbering anything (thesis ch. 6, algorithm 13: shifting bits is where the printed one breaks).
All nodes of a group must hand out the same slots: a static group lists its members in one order.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from thence.causal.dot import SEQ_MAX, SLOT_MAX, Dot, pack, seq_of, slot_of
from thence.errors import LimitError, LocalProtocolError

NAME_CHARS_MAX = 128


class MemberId(msgspec.Struct, frozen=True, order=True):
    """One life of a node.  A node that comes back without its journal is a new incarnation."""

    name: str
    incarnation: int = 1

    def __str__(self) -> str:
        return self.name if self.incarnation == 1 else f"{self.name}#{self.incarnation}"

    @staticmethod
    def parse(text: str) -> MemberId:
        """The id that ``str(id)`` printed: ``name`` or ``name#incarnation``."""
        name, hash_, incarnation = text.partition("#")
        if not hash_:
            check_name(name)
            return MemberId(name)
        digits = incarnation.isascii() and incarnation.isdigit() and len(incarnation) <= 18
        if not digits or int(incarnation) < 2:
            raise LocalProtocolError(f"{text!r}: an incarnation is a number from 2, as in b#2")
        check_name(name)
        return MemberId(name, int(incarnation))


def check_name(name: str) -> None:
    """Names end up in dots (``a:7``), incarnations (``a#2``) and streams (``a/s``)."""
    if not name or len(name) > NAME_CHARS_MAX:
        raise LocalProtocolError(f"{name!r}: a name has 1 to {NAME_CHARS_MAX} characters")
    if any(c in ":#/" or not c.isprintable() for c in name):
        raise LocalProtocolError(f"{name!r}: a name has no ':', '#', '/' or unprintable characters")


class Members:
    """The slots handed out so far, and which of them are members now (``mask``)."""

    __slots__ = ("_slots", "ids", "mask", "names")

    def __init__(self, members: Iterable[str | MemberId] = ()) -> None:
        self.ids: list[MemberId] = []
        self.names: list[str] = []
        self.mask = 0
        self._slots: dict[str, int] = {}
        for member in members:
            self.add(member)

    @classmethod
    def former(cls, names: Iterable[str | MemberId], mask: int) -> Members:
        """The slots of these names in order, of which only those in ``mask`` are members now: for
        a node that comes to a group which others have left before."""
        made = cls(names)
        if mask < 0 or mask & ~made.mask:
            raise LocalProtocolError(f"mask {mask:#x} names more than {len(made.names)} slots")
        made.mask = mask
        return made

    def __len__(self) -> int:
        """How many members there are now (slots of former members do not count)."""
        return self.mask.bit_count()

    def add(self, member: str | MemberId) -> int:
        """Admit an identity that was never seen before; its slot."""
        name = str(member)
        identity = MemberId.parse(name)
        if name in self._slots:
            raise LocalProtocolError(f"{name} has a slot already: names of members are unique")
        if len(self.ids) > SLOT_MAX:
            raise LimitError(f"no slot left: {SLOT_MAX + 1} identities were handed out")
        slot = len(self.ids)
        self.ids.append(identity)
        self.names.append(name)
        self._slots[name] = slot
        self.mask |= 1 << slot
        return slot

    def remove(self, slot: int) -> None:
        """End a membership.  The slot stays taken."""
        if slot < 0 or not self.mask >> slot & 1:
            raise LocalProtocolError(f"slot {slot} is not a member")
        self.mask &= ~(1 << slot)

    def has(self, name: str) -> bool:
        """Was a slot handed out to this name, whether it is a member now or was one?"""
        return name in self._slots

    def slot(self, name: str) -> int:
        """The slot of a name, member or former member."""
        try:
            return self._slots[name]
        except KeyError:
            known = ", ".join(self.names) or "nobody"
            raise LocalProtocolError(f"{name!r} is not a member; members are {known}") from None

    def dot(self, packed: int) -> Dot:
        """The readable form of a packed dot."""
        return Dot(self.names[slot_of(packed)], seq_of(packed))

    def pack(self, dot: Dot) -> int:
        """The packed form of a readable dot."""
        if not 0 < dot.seq <= SEQ_MAX:
            raise LocalProtocolError(f"{dot}: a sequence number is in 1..{SEQ_MAX}")
        return pack(self.slot(dot.node), dot.seq)
