"""What a peer may not say: one rule per line, each with its reason.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from typing import Final

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_RECIPIENTS,
    BAD_SEQ,
    BAD_STREAM,
    DUPLICATE,
    NOT_A_MEMBER,
    NOT_MY_MESSAGE,
    TOO_FAR_AHEAD,
    TOO_LARGE,
    UNSENT_OWN_DOT,
)
from thence.message import (
    PAYLOAD_BYTES_MAX,
    STREAM_CHARS_MAX,
    Aside,
    Message,
    Phantom,
    StreamDot,
    WireMessage,
)

Fault = tuple[str, str]
STREAM_DOTS_MAX: Final = 1024


def has_its_types(message: WireMessage) -> bool:
    """Whether its fields are what they are declared to be.  Slow: for what went wrong already."""
    try:
        plain = msgspec.to_builtins(message, builtin_types=(bytes,))
        return bool(msgspec.convert(plain, type(message)) == message)
    except (msgspec.MsgspecError, TypeError, OverflowError):
        return False


def message_fault(
    message: Message, packed: int, last: int, slot: int, is_held: bool, pending_max: int
) -> Fault:
    """Why a message is refused, its context apart; ``last`` of its origin is delivered."""
    j, n = message.origin, message.seq
    if not 0 < n <= SEQ_MAX:
        return BAD_SEQ, f"sequence number {n} is not in 1..{SEQ_MAX}"
    if j == slot and packed > last:
        return NOT_MY_MESSAGE, f"this node has not sent its message {n}"
    if packed <= last or is_held:
        return DUPLICATE, f"message {n} of slot {j} is here already"
    if len(message.payload) > PAYLOAD_BYTES_MAX:
        return TOO_LARGE, f"a payload of {len(message.payload)} bytes, at most {PAYLOAD_BYTES_MAX}"
    return TOO_FAR_AHEAD, (
        f"message {n} of slot {j} while {last & SEQ_MAX} is delivered: at most {pending_max} are "
        "held back"
    )


def context_fault(
    context: tuple[int, ...], packed: int, delivered: list[int], slot: int
) -> Fault | None:
    """Why this cannot be the context of ``packed``; ``slot`` is this node, ``delivered`` its
    last packed dot per slot."""
    size = len(delivered)
    origin = packed >> SEQ_BITS
    previous = -1
    for d in context:
        k = d >> SEQ_BITS
        if k <= previous:
            return BAD_CONTEXT, "origins are not in order, or one is named twice"
        if k >= size or not d & SEQ_MAX:
            return BAD_CONTEXT, f"slot {k}, message {d & SEQ_MAX} cannot be"
        if k == origin and d >= packed:
            return BAD_CONTEXT, "it names itself or a later message of its origin"
        if k == slot and d > delivered[k]:
            return UNSENT_OWN_DOT, f"this node has not sent its message {d & SEQ_MAX}"
        previous = k
    return None


def phantom_fault(
    phantom: Phantom, peer: int, is_member: list[bool], delivered: list[int], slot: int, ahead: int
) -> Fault | None:
    """Why a phantom is refused; at most ``ahead`` messages of an origin are held back."""
    j, n = phantom.origin, phantom.seq
    size = len(delivered)
    if not 0 <= j < size or not is_member[j] or j == slot:
        return NOT_A_MEMBER, f"slot {j} is not another member"
    if not 0 <= peer < size or not is_member[peer]:
        return NOT_A_MEMBER, f"it came from slot {peer}, no member"
    if not 0 < n <= SEQ_MAX:
        return BAD_SEQ, f"sequence number {n} is not in 1..{SEQ_MAX}"
    last = delivered[j] & SEQ_MAX
    if n > last + ahead:
        return TOO_FAR_AHEAD, f"phantom of message {n} of slot {j} while {last} is delivered"
    return context_fault(phantom.context, j << SEQ_BITS | n, delivered, slot)


def nameable(stream: str) -> bool:
    """May a stream have this name?"""
    return 0 < len(stream) <= STREAM_CHARS_MAX and "/" not in stream and stream.isprintable()


def unsent_fault(
    named: tuple[StreamDot, ...],
    slot: int,
    stream_ids: dict[tuple[int, str], int],
    delivered: dict[int, int],
) -> Fault | None:
    """Does it name a message on a stream of this node that it has not sent?"""
    for d in named:
        if d.slot == slot:
            last = delivered.get(stream_ids.get((slot, d.stream), -1), 0)
            if last & SEQ_MAX < d.seq:
                detail = f"this node has not sent message {d.seq} on stream {d.stream!r}"
                return UNSENT_OWN_DOT, detail
    return None


def recipients_fault(aside: Aside, origin: int, size: int, slot: int) -> Fault | None:
    """Why a message of slot ``origin`` cannot be for these members only; ``slot`` is this node."""
    if aside.hollow and not aside.to:
        return BAD_RECIPIENTS, "it is hollow, and for everyone"
    if aside.to and aside.stream:
        return BAD_RECIPIENTS, "a message on a stream of its own is for everyone"
    previous = -1
    for each in aside.to:
        if not previous < each < size:
            return BAD_RECIPIENTS, "recipients are not in order, named twice or unknown"
        if each == origin:
            return BAD_RECIPIENTS, "it names its sender as a recipient"
        if each == slot and aside.hollow:
            return BAD_RECIPIENTS, "it is for this node, and without its payload"
        previous = each
    return None


def aside_fault(aside: Aside, origin: int, size: int, slot: int) -> Fault | None:
    """Why a message of slot ``origin`` cannot say this of streams and recipients; ``size`` slots
    are known, ``slot`` is this node."""
    if not nameable(aside.stream or "x"):
        return BAD_STREAM, "a stream's name is too long, has a '/' or is not printable"
    if aside.stream and aside.hidden:
        return BAD_CONTEXT, "hidden predecessors belong to the default stream"
    if len(aside.context) > STREAM_DOTS_MAX:
        return TOO_LARGE, f"{len(aside.context)} dots on streams, at most {STREAM_DOTS_MAX}"
    seen: set[tuple[int, str]] = set()
    for d in aside.context:
        key = (d.slot, d.stream)
        if not 0 <= d.slot < size or not 0 < d.seq <= SEQ_MAX:
            return BAD_CONTEXT, "a stream's dot is out of range"
        if not nameable(d.stream):
            return BAD_STREAM, "a stream's name is empty, too long, has a '/' or is not printable"
        if key in seen or key == (origin, aside.stream):
            return BAD_CONTEXT, "a stream is named twice, or its own"
        seen.add(key)
    return recipients_fault(aside, origin, size, slot) if aside.to or aside.hollow else None
