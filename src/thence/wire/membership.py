"""What nodes say to each other about who takes part: views, and the messages that agree on them.

Typed values, and their bytes.  A frame of kind ``COUNCIL`` (talk.py) has a group's name and one of
these.  Lists of slots and counts are sorted, so the same state has the same bytes.

    of members     Beat, Prepare, Promise, Refused, Accept, Accepted, Installed, Pull, Relay
    of newcomers   Knock, Challenge, Wait, Piece, PieceAck, Withdraw
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Final

import msgspec

from thence.causal.dot import Dot
from thence.causal.members import MemberId, check_name
from thence.errors import LocalProtocolError, WireError
from thence.message import Count, Slot
from thence.wire.talk import MEMBERS_MAX

GONE_MAX: Final = 256
"""Former members that a view remembers: the last incarnation of each name, newest last."""
ADDRESS_CHARS_MAX: Final = 300
PIECE_BYTES_MAX: Final = 4 << 20
CONTACTS_MAX: Final = 8
"""Addresses of members that a newcomer is told."""
SLOTS_MAX: Final = 1 << 16
"""Members that a group can have in its whole life."""
INCARNATION_MAX: Final = 10**18 - 1
SENTENCE_CHARS_MAX: Final = 500

_Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=128)]
_Address = Annotated[str, msgspec.Meta(max_length=ADDRESS_CHARS_MAX)]
_Sentence = Annotated[str, msgspec.Meta(max_length=SENTENCE_CHARS_MAX)]
_Proof = Annotated[bytes, msgspec.Meta(max_length=64)]
Ballot = tuple[_Number, Slot]
"""A round, and the slot of the member who asks: compared in this order."""
NO_BALLOT: Final = (0, 0)
Reached = Annotated[tuple[tuple[Slot, Count], ...], msgspec.Meta(max_length=MEMBERS_MAX)]
"""By slot, a number of messages."""
Dots = Annotated[tuple[Dot, ...], msgspec.Meta(max_length=1 << 16)]
Slots = Annotated[tuple[Slot, ...], msgspec.Meta(max_length=MEMBERS_MAX)]


class Request(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Somebody wants to take part."""

    name: _Name
    ticket: _Number
    """Drawn by the newcomer: tells it from another of the same name."""
    address: _Address = ""
    """Where others reach it."""


class Member(msgspec.Struct, frozen=True, array_like=True):
    """One life of a node, as a member."""

    name: _Name
    incarnation: _Number
    slot: Slot
    address: _Address = ""
    ticket: _Number = 0

    @property
    def id(self) -> str:
        """``a``, or ``a#2`` for a later incarnation."""
        return str(MemberId(self.name, self.incarnation))


class Gone(msgspec.Struct, frozen=True, array_like=True):
    """A former member."""

    name: _Name
    incarnation: _Number
    slot: Slot
    cut: Count
    """The number of its last message that counts."""
    is_evicted: bool
    ticket: _Number = 0

    @property
    def id(self) -> str:
        """``a``, or ``a#2`` for a later incarnation."""
        return str(MemberId(self.name, self.incarnation))


class View(msgspec.Struct, frozen=True, array_like=True):
    """Who takes part.  Views follow each other by number; the members of one agree on the next."""

    num: _Number
    members: Annotated[tuple[Member, ...], msgspec.Meta(max_length=MEMBERS_MAX)]
    """The longest member first."""
    slots: Annotated[int, msgspec.Meta(ge=0, le=SLOTS_MAX)]
    """How many slots were handed out so far."""
    gone: Annotated[tuple[Gone, ...], msgspec.Meta(max_length=GONE_MAX)] = ()

    @staticmethod
    def first(addresses: Mapping[str, str], ticket: int = 0) -> View:
        """Of a group that begins with these members.

        Who begins alone draws a ticket: it tells this group from another that the same node began
        before, and whose members may still be there.
        """
        names = sorted(addresses)
        members = [
            Member(name, 1, slot, addresses[name], ticket) for slot, name in enumerate(names)
        ]
        return View(0, tuple(members), len(members))

    def member(self, slot: int) -> Member | None:
        """The member in that slot."""
        for each in self.members:  # asked for every message: a generator costs three times as much
            if each.slot == slot:
                return each
        return None

    def named(self, name: str) -> Member | None:
        """The member of that name."""
        for each in self.members:
            if each.name == name:
                return each
        return None

    def former(self, name: str) -> Gone | None:
        """The last former member of that name."""
        return next((each for each in self.gone if each.name == name), None)

    def fault(self) -> str:
        """What is wrong with it, if it comes from a peer; empty: nothing."""
        names = {each.name for each in self.members}
        slots = {each.slot for each in self.members} | {each.slot for each in self.gone}
        if len(names) < len(self.members) or len(slots) < len(self.members) + len(self.gone):
            return "a name or a slot is there twice"
        if any([slot >= self.slots for slot in slots]):
            return "a slot was never handed out"
        lives = [(each.name, each.incarnation) for each in self.members]
        lives += [(each.name, each.incarnation) for each in self.gone]
        if len({*lives}) < len(lives):
            return "a life of a node is there twice"
        if not all([is_name(name) and 0 < number <= INCARNATION_MAX for name, number in lives]):
            return "a name or an incarnation that no node has"
        return ""

    def conflict(self, known: View) -> str:
        """Why it cannot be the view ``known`` or one that came after it; empty: it can.

        Slots are never handed out again.  So whoever has a slot that was there before is the same
        member that had it before.
        """
        if self.slots < known.slots:
            return f"{self.slots} slots after {known.slots}"
        was = {each.slot: (each.id, each.ticket) for each in known.members}
        now = {each.slot: (each.id, each.ticket) for each in self.members}
        before = {slot: each for slot, each in now.items() if slot < known.slots}
        if self.num == known.num and now != was:
            return f"another view {self.num}: {_listed(now)} there, {_listed(was)} here"
        for slot, each in before.items():
            if was.get(slot) != each:
                if slot in was and was[slot][0] == each[0]:
                    return f"another start of {each[0]} is in slot {slot}"
                return f"{each[0]} is in slot {slot}, and was not: {_listed(was)}"
        return ""

    @property
    def is_full(self) -> bool:
        """Whether it has room for nobody more."""
        return len(self.members) >= MEMBERS_MAX or self.slots >= SLOTS_MAX

    def is_enough(self, slots: Iterable[int], without: Iterable[int] = ()) -> bool:
        """Whether these are a quorum: most members, or half with the first of them.

        ``without``: members that somebody vouches to be dead.  All others are a quorum then, and
        not fewer: the dead may have agreed on something with any one of them.
        """
        members = [each.slot for each in self.members]
        there = {*slots}.intersection(members)
        twice = 2 * len(there)
        if twice > len(members) or (twice == len(members) > 0 and members[0] in there):
            return True
        rest = {*members}.difference(without)
        return 0 < len(rest) < len(members) and rest <= there

    def next(
        self, removed: Mapping[int, tuple[int, bool]], requests: Iterable[Request] = ()
    ) -> View:
        """The view after this one: without some members (slot: cut, and whether it is evicted),
        with those who asked, unless one of that name is there, or there is no room."""
        kept = [each for each in self.members if each.slot not in removed]
        gone = {each.name: each for each in self.gone}
        for each in self.members:
            if each.slot in removed:
                cut, is_evicted = removed[each.slot]
                gone.pop(each.name, None)
                gone[each.name] = Gone(
                    each.name, each.incarnation, each.slot, cut, is_evicted, each.ticket
                )
        names = {each.name for each in self.members}
        slots = self.slots
        for request in sorted(requests):
            if request.name in names or slots >= SLOTS_MAX or len(kept) >= MEMBERS_MAX:
                continue
            names.add(request.name)
            last = gone.get(request.name)
            incarnation = 1 if last is None else last.incarnation + 1
            if last is None and len(gone) >= GONE_MAX:
                incarnation = slots + 1  # it may be forgotten; no earlier one has this number
            kept.append(Member(request.name, incarnation, slots, request.address, request.ticket))
            slots += 1
        return View(self.num + 1, tuple(kept), slots, tuple(gone.values())[-GONE_MAX:])


def is_name(name: str) -> bool:
    """Whether a node can have this name."""
    try:
        check_name(name)
    except LocalProtocolError:
        return False
    return True


def _listed(members: Mapping[int, tuple[str, int]]) -> str:
    names = [name for name, _ in members.values()]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


class Beat(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A sign of life: the view of its sender, and what it has heard that is to be done."""

    view: _Number
    is_up: bool = True
    """It has the state: it was there from the beginning, or has taken it over."""
    joins: Annotated[tuple[Request, ...], msgspec.Meta(max_length=MEMBERS_MAX)] = ()
    leaves: Reached = ()
    """Members that want to leave, and the number of their last message."""
    is_stuck: bool = False
    """It has frozen a member."""
    sentenced: Slots = ()
    """Members that an operator wants out ..."""
    vouched: Slots = ()
    """... and those that one vouches to be dead."""


class Prepare(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Phase 1: promise to follow this ballot; freeze those."""

    view: _Number
    ballot: Ballot
    suspects: Slots = ()
    target: Reached = ()
    """What everybody must have of them before they can be removed ..."""
    holders: Reached = ()
    """... and who has it."""


class Promise(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The answer to it: what was accepted before, and what is here of the frozen."""

    view: _Number
    ballot: Ballot
    reached: Reached = ()
    frozen: Slots = ()
    accepted_in: Ballot = NO_BALLOT
    accepted: View | None = None


class Refused(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """There is a later ballot."""

    view: _Number
    ballot: Ballot


class Accept(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Phase 2: let this be the next view."""

    view: _Number
    ballot: Ballot
    value: View


class Accepted(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """The answer to it."""

    view: _Number
    ballot: Ballot


class Installed(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """This is the view here; it was agreed on."""

    value: View
    proof: _Proof = b""
    """That somebody says it who knows the secret of the group, if there is one."""

    @property
    def view(self) -> int:
        """Its number."""
        return self.value.num


class Pull(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Send me these messages of a frozen member."""

    view: _Number
    slot: Slot
    first: Count
    last: Count


class Relay(msgspec.Struct, frozen=True, array_like=True, tag=9):
    """Messages of a frozen member, as a batch (codec.py)."""

    view: _Number
    slot: Slot
    batch: bytes


class Knock(msgspec.Struct, frozen=True, array_like=True, tag=10):
    """Let me in, or go on handing over the state."""

    request: Request
    nonce: _Proof = b""
    """The challenge that the proof answers."""
    proof: _Proof = b""
    snapshot: _Number = 0
    """The snapshot of which pieces are here already ..."""
    piece: _Number = 0
    """... and the first one that is not."""


class Challenge(msgspec.Struct, frozen=True, array_like=True, tag=11):
    """Prove that you know the secret."""

    nonce: _Proof


class Wait(msgspec.Struct, frozen=True, array_like=True, tag=12):
    """Not now, or not at all: why."""

    is_final: bool
    sentence: _Sentence
    addresses: Annotated[tuple[_Address, ...], msgspec.Meta(max_length=CONTACTS_MAX)] = ()
    """Where else to ask."""


# Kinds of pieces.  The head is first, then the engine, payloads, chunks, and the end.
HEAD: Final = 0
"""A ``Head``."""
ENGINE: Final = 1
"""A part of what the engine has."""
PART: Final = 2
"""A part of a chunk of the application ..."""
CHUNK: Final = 3
"""... and the last part of one."""
END: Final = 4
"""The digest of all before: nothing more comes."""
PAYLOAD_PART: Final = 5
"""A part of a payload that the engine's part names and does not have ..."""
PAYLOAD: Final = 6
"""... and the last part of one."""


class Piece(msgspec.Struct, frozen=True, array_like=True, tag=13):
    """A part of the state for a newcomer."""

    snapshot: _Number
    number: _Number
    kind: Annotated[int, msgspec.Meta(ge=0, le=255)]
    data: Annotated[bytes, msgspec.Meta(max_length=PIECE_BYTES_MAX)]


class PieceAck(msgspec.Struct, frozen=True, array_like=True, tag=14):
    """All before this piece are here."""

    snapshot: _Number
    piece: _Number


class Withdraw(msgspec.Struct, frozen=True, array_like=True, tag=15):
    """A newcomer will not take part after all: nobody needs to wait for it."""

    ticket: _Number


class Head(msgspec.Struct, frozen=True, array_like=True):
    """What a newcomer begins with, beside the state."""

    provider: _Name
    view: View
    """Of the provider's application at this moment."""
    slot: Slot
    """Of the newcomer."""
    engine: _Name
    stability: bool
    taken: Dots
    """The latest message of each member that the state contains ..."""
    stable: Dots
    """... and of those, that was told stable to the provider."""


CouncilMessage = (
    Beat | Prepare | Promise | Refused | Accept | Accepted | Installed | Pull | Relay
    | Knock | Challenge | Wait | Piece | PieceAck | Withdraw
)  # fmt: skip
"""Anything said about who takes part."""


class _Said(msgspec.Struct, frozen=True, array_like=True):
    group: Annotated[str, msgspec.Meta(max_length=200)]
    message: CouncilMessage


_decoder: Final = msgspec.msgpack.Decoder(_Said)
_encode: Final = msgspec.msgpack.Encoder().encode


def encode(group: str, message: CouncilMessage) -> bytes:
    """The body of a frame."""
    return _encode(_Said(group, message))


def decode(body: bytes) -> tuple[str, CouncilMessage]:
    """Group and message in the body of a frame, or WireError."""
    try:
        said = _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise WireError(f"{len(body)} bytes say nothing about members: {error}") from None
    return said.group, said.message
