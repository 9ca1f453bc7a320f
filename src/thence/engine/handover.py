"""What a member hands to a newcomer, and to others on behalf of a third: groups that change.

What a newcomer begins with
    What the application of one member, its provider, has *taken*, as a ``restore.State`` in the
    newcomer's slot.  Taken, not confirmed: the application's own data go with it, and those are as
    of the last event taken.  The newcomer has then consumed what the provider had, so ``know`` has
    its bit for every message in the state, and its first message comes after all of them.

Why nothing is missing
    The provider has taken the view that admits the newcomer.  What any member found stable before
    that view, every member had consumed before it, the provider included: it is in the state, or
    forgotten there and behind everything.  What is found stable later, the newcomer was known to
    have consumed.  So what it lacks is unstable at its sender, and ``relay`` finds it there.

Former members
    Slots are never reused, so the slots of former members are in the state too, and messages of
    theirs that are not forgotten.  They count as delivered; nothing new is taken from them.

Only the default stream, and messages for everyone: a hollow message has no payload to hand over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from thence.causal.dot import SEQ_BITS, SEQ_MAX, Dot
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.frontier import Confirmed
from thence.engine.outgoing import message_of
from thence.engine.restore import State, export_state, restore
from thence.engine.streams import STREAM_BASE
from thence.engine.tag import Tag
from thence.engine.tagged import Tagged, make
from thence.engine.tagger import Tagger
from thence.errors import LocalProtocolError
from thence.message import Message

MESSAGE_BYTES: Final = 64
"""What a message takes beside its payload, about."""


def taken(client: Tagger, engine: Tagged, waiting: Iterable[Tag]) -> Confirmed:
    """What the application of this node has taken by now, confirmed or not, as ``export_state``
    wants it.  ``waiting`` are the tags that are delivered and not consumed, in order; those that
    are consumed are passed over.  Later events of the application do not change it."""
    found = Confirmed(client.slot)
    found.frontier.become(client.frontier)
    found.clock = client.past.clock
    reached = found.reached
    for k, packed in enumerate(engine.delivered):
        reached[k] = packed
    for tag in waiting:
        k = tag.packed >> SEQ_BITS
        if tag.index < 0 and k < STREAM_BASE and tag.packed <= reached[k]:
            reached[k] = tag.packed - 1
    reached[client.slot] = client.sent
    return found


def state_for(client: Tagger, engine: Tagged, confirmed: Confirmed, slot: int) -> State:
    """What a newcomer in ``slot`` begins with: what ``confirmed`` says of this node (``taken``).
    The newcomer is among the members already and has sent nothing."""
    past = client.past
    if slot == client.slot or slot < 0 or not past.members.mask >> slot & 1:
        raise LocalProtocolError(f"slot {slot} is not another member")
    if slot >= len(engine.delivered) or engine.delivered[slot] & SEQ_MAX:
        raise LocalProtocolError(f"slot {slot} was not admitted here, or has sent something")
    state = export_state(client, engine, confirmed)
    if state.streams or past.hollows or any(message.aside for message in state.messages):
        raise LocalProtocolError("a newcomer cannot take over streams or messages for some members")
    return msgspec.structs.replace(state, slot=slot)


def begin(state: State, mask: int, options: EngineOptions) -> tuple[Tagger, Tagged, Confirmed]:
    """A newcomer's client and engine, and what it has taken: it goes on from a state that
    ``state_for`` made, among the members in ``mask``.  Errors are those of ``restore``."""
    members = Members.former(state.members, mask)
    if not mask >> state.slot & 1:
        raise LocalProtocolError(f"the state is for slot {state.slot}, which is not a member")
    client, engine = make(members, state.slot, options)
    confirmed = Confirmed(state.slot)
    restore(client, engine, confirmed, state)
    return client, engine, confirmed


def relay(engine: Tagged, slot: int, first: int, last: int, bytes_max: int) -> list[Message]:
    """The messages ``first`` to ``last`` of that slot as they were sent, for those who lack them,
    up to the one with which the payloads have ``bytes_max``.  It ends before the first that is not
    delivered here, or forgotten, which all members have then."""
    found: list[Message] = []
    row = engine.rows[slot]
    size = 0
    for seq in range(first, last + 1):
        tag = row.get(slot << SEQ_BITS | seq)
        if tag is None or size >= bytes_max:
            break
        found.append(message_of(tag))
        size += len(found[-1].payload) + MESSAGE_BYTES
    return found


def latest_dots(client: Tagger, confirmed: Confirmed) -> tuple[list[Dot], list[Dot]]:
    """The latest dot of each origin that was confirmed (or ``taken``), and of those, told stable:
    what a trace says of where a node begins, after a crash or as a newcomer."""
    past = client.past
    reached = {k: packed for k, packed in confirmed.reached.items() if packed & SEQ_MAX}
    first: dict[int, int] = {}
    for packed, tag in past.window.items():
        k = packed >> SEQ_BITS
        if k < STREAM_BASE and 0 <= tag.index <= confirmed.clock:
            first[k] = min(packed, first.get(k, packed))
    dots = sorted(past.dot_of(packed) for packed in reached.values())
    told = {k: first.get(k, packed + 1) - 1 for k, packed in reached.items() if k < STREAM_BASE}
    return dots, sorted(past.dot_of(packed) for packed in told.values() if packed & SEQ_MAX)
