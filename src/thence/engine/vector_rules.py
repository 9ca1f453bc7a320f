"""What the engines that tag with vectors share: when a message is ready, and what is refused.

A peer may send anything.  Every flaw has a reason (engine/effects.py) and none raises.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from operator import gt

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    TOO_LARGE,
    UNSENT_OWN_DOT,
    Reject,
    Waiting,
)
from thence.message import PAYLOAD_BYTES_MAX, VectorMessage


def is_ready(message: VectorMessage, delivered: Sequence[int]) -> bool:
    """The next of its origin, and ahead of what is delivered in no other way (1:10, 7:25, 7:58)."""
    origin, vector = message.origin, message.vector
    return vector[origin] == delivered[origin] + 1 and sum(map(gt, vector, delivered)) == 1


def waiting(queue: Iterable[VectorMessage], delivered: Sequence[int]) -> list[Waiting]:
    """The messages of a queue in which nothing is ready, each with the first one it lacks."""
    found = [
        Waiting(pack(message.origin, message.vector[message.origin]), missing(message, delivered))
        for message in queue
    ]
    found.sort(key=lambda entry: entry.dot)
    return found


def missing(message: VectorMessage, delivered: Sequence[int]) -> int:
    """The next message of its own origin if it lacks that, else of the first that it lacks."""
    slot, vector = message.origin, message.vector
    if vector[slot] == delivered[slot] + 1:
        slot = next(k for k, seq in enumerate(vector) if seq > delivered[k] and k != slot)
    return pack(slot, delivered[slot] + 1)


def refusal(
    peer: int,
    message: VectorMessage,
    members: Members,
    slot: int,
    delivered: Sequence[int],
    pending_max: int,
) -> Reject | None:
    """Why the node in ``slot``, which delivered so much, cannot take this; None if it can.

    Duplicates are for the engine to see.  The next message of an origin is never too far ahead, so
    a full queue cannot deadlock.
    """
    origin, vector = message.origin, message.vector
    if not is_member(peer, members) or not is_member(origin, members):
        return Reject(peer, NOT_A_MEMBER, f"slot {origin} or {peer} is not a member")
    if not is_vector(vector, len(delivered)):
        return Reject(peer, BAD_CONTEXT, f"not a vector of {len(delivered)} counts")
    seq = vector[origin]
    if origin == slot:
        if 0 < seq <= delivered[slot]:
            return Reject(peer, DUPLICATE, f"message {seq} of this node came back")
        return Reject(peer, NOT_MY_MESSAGE, f"this node has not sent its message {seq}")
    if seq < 1:
        return Reject(peer, BAD_SEQ, "a message counts itself, so its own entry is from 1")
    if vector[slot] > delivered[slot]:
        return Reject(peer, UNSENT_OWN_DOT, f"this node has not sent its message {vector[slot]}")
    if seq > delivered[origin] + pending_max:
        detail = f"message {seq} of slot {origin} while {delivered[origin]} is delivered"
        return Reject(peer, TOO_FAR_AHEAD, f"{detail}: at most {pending_max} are held back", True)
    if not isinstance(message.payload, bytes) or len(message.payload) > PAYLOAD_BYTES_MAX:
        return Reject(peer, TOO_LARGE, f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
    return None


def is_member(slot: object, members: Members) -> bool:
    """Slots come from peers, so they may be anything."""
    return isinstance(slot, int) and slot >= 0 and members.mask >> slot & 1 == 1


def is_vector(vector: object, size: int) -> bool:
    """A tuple of ``size`` counts, none negative or absurd."""
    if not isinstance(vector, tuple) or len(vector) != size:
        return False
    try:
        array("Q", vector)  # the fastest loop over a tuple that refuses all but 0..2**64-1
    except (TypeError, OverflowError):
        return False
    return True
