"""How a tag travels: the wire message that stands for it.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from thence.causal.dot import SEQ_BITS, SEQ_MAX
from thence.engine.tag import Tag
from thence.message import Aside, Message


def message_of(tag: Tag) -> Message:
    """The message of a tag that was not forgotten, payload included."""
    packed = tag.packed
    streams = tag.streams
    if streams is None:
        return Message(packed >> SEQ_BITS, packed & SEQ_MAX, tag.raw_context, tag.payload)
    named = tuple(sorted([tag.past.stream_dot(d) for d in streams.context]))
    aside = Aside(tag.stream, named, streams.hidden)
    return Message(tag.origin, packed & SEQ_MAX, tag.raw_context, tag.payload, aside)
