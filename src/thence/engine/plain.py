"""What engines share whose clients only number messages: the client, its tags, and refusals.

Such an engine tells applications nothing about what happened before what; it only orders.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from thence.causal.dot import SEQ_MAX
from thence.causal.members import Members
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    BAD_SEQ,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_LARGE,
    Reject,
)
from thence.engine.vector_rules import is_member
from thence.errors import LimitError, LocalProtocolError
from thence.message import PAYLOAD_BYTES_MAX, Stamped


class PlainTag(msgspec.Struct, eq=False, gc=False):
    """A message, and whom it is for."""

    origin: int
    seq: int
    payload: bytes
    to: tuple[int, ...] = ()
    """Slots, sorted; empty: everyone."""
    flag: str = ""
    """What the engine noticed about it, as a policy for concurrent messages asks: ``concurrent``,
    ``refused`` or ``branch`` (engine/branches.py); empty: nothing."""
    branch: int = 0
    """The path of messages that it continues, numbered as they begin at this node, from 0."""

    @property
    def predecessors(self) -> tuple[int, ...] | None:
        """This engine does not tag."""
        return None

    @property
    def vector(self) -> tuple[int, ...] | None:
        """This engine does not tag."""
        return None


class PlainClient:
    """The application's side: it numbers messages."""

    __slots__ = ("_members", "_seq", "_slot", "_some")

    def __init__(self, members: Members, slot: int, some: bool = False) -> None:
        """``some``: a message may be for some members only."""
        self._members = members
        self._slot = slot
        self._some = some
        self._seq = 0

    def broadcast(self, payload: bytes, to: Iterable[int] = ()) -> PlainTag:
        """Number a message now; ``to``: slots it is for, by default everyone."""
        if len(payload) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        slots = tuple(sorted(set(to)))
        if slots and not self._some:
            raise LocalProtocolError("this engine sends to everyone")
        if self._slot in slots or not all(is_member(slot, self._members) for slot in slots):
            raise LocalProtocolError(f"{slots} are not other members")
        self._seq += 1
        return PlainTag(self._slot, self._seq, payload, slots)

    def consume(self, tag: PlainTag) -> None:
        """Nothing to learn."""

    def stabilised(self, tag: PlainTag) -> None:
        """There is no stability."""

    def phantom(self) -> None:
        """There are none."""


def refusal(
    peer: int, message: Stamped, members: Members, slot: int, numbers: int
) -> Reject | None:
    """Why the node in ``slot`` cannot take this, for whatever engine; None if it can.

    ``numbers`` is how long a stamp is; -1: that differs.
    """
    origin, seq = message.origin, message.seq
    if not is_member(peer, members) or not is_member(origin, members):
        return Reject(peer, NOT_A_MEMBER, f"slot {origin} or {peer} is not a member")
    if origin == slot:
        return Reject(peer, NOT_MY_MESSAGE, f"message {seq} of this node came back")
    if not isinstance(seq, int) or not 1 <= seq <= SEQ_MAX:
        return Reject(peer, BAD_SEQ, f"a message has a number from 1 to {SEQ_MAX}")
    if not isinstance(message.stamp, tuple) or (numbers >= 0 and len(message.stamp) != numbers):
        return Reject(peer, BAD_CONTEXT, f"not a stamp of {numbers} numbers")
    if not all(isinstance(number, int) and number >= 0 for number in message.stamp):
        return Reject(peer, BAD_CONTEXT, "a stamp has numbers from 0")
    if message.to and not _is_for(message, members, slot):
        return Reject(peer, BAD_RECIPIENTS, f"{message.to} are not members, or not this one")
    if not isinstance(message.payload, bytes) or len(message.payload) > PAYLOAD_BYTES_MAX:
        return Reject(peer, TOO_LARGE, f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
    return None


def _is_for(message: Stamped, members: Members, slot: int) -> bool:
    to = message.to
    return (
        list(to) == sorted(set(to))
        and slot in to
        and message.origin not in to
        and all(is_member(each, members) for each in to)
    )
