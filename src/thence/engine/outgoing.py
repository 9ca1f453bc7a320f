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
    aside = tag.aside
    if aside is None or not (aside.context or aside.hidden or aside.to or tag.stream):
        return Message(packed >> SEQ_BITS, packed & SEQ_MAX, tag.raw_context, tag.payload)
    named = tuple(sorted([tag.past.stream_dot(d) for d in aside.context]))
    said = Aside(tag.stream, named, aside.hidden, aside.to, aside.hollow)
    return Message(tag.origin, packed & SEQ_MAX, tag.raw_context, tag.payload, said)
