"""Messages of one sender, each right after the one before it: what a burst is made of.

Compiled by mypyc together with the flagship; plain Python when not compiled.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import SEQ_BITS
from thence.engine.tag import NOTHING, Past, Tag


def chain_tags(
    past: Past, packed: int, latest: Tag, payloads: Sequence[bytes], log: list[Tag]
) -> list[Tag]:
    """The tags of the messages after ``packed``, which are delivered or sent now.

    ``latest`` is the last tag of that sender, ``log`` what is delivered and not stable.
    """
    row = past.rows[packed >> SEQ_BITS]
    tags: list[Tag] = []
    previous: Tag | None = latest
    if latest.packed != packed or latest.gone >= 0:
        previous = None
    for payload in payloads:
        packed += 1
        tag = Tag(past, packed, None, payload, NOTHING, previous)
        row[packed] = tag
        log.append(tag)
        tags.append(tag)
        previous = tag
    past.kept += len(tags)
    return tags
