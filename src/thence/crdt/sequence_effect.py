"""What the operations on a sequence do to its blocks.

An index counts in the sequence that the sender saw.  Almost always that is everything that is here:
then the sizes of the chunks lead to it, and nothing stands between the neighbours of an insert.  If
not, ``sequence_seen`` takes over.
"""

from __future__ import annotations

from typing import Any

from thence.crdt.base import Stamp
from thence.crdt.sequence_blocks import END, START
from thence.crdt.sequence_list import BlockList
from thence.crdt.sequence_seen import delete_seen, insert_seen


def insert(whole: BlockList, index: int, content: Any, stamp: Stamp) -> None:
    """Insert behind the ``index``-th element that the sender saw, or its last."""
    if isinstance(content, tuple):
        content = list(content)
    view = whole.view_of(stamp)
    if view is not None:
        insert_seen(whole, view, index, content, stamp)
    elif index == 0 or whole.length == 0:
        right = whole.chunks[0].blocks[0].head if whole.chunks else END
        whole.put(0, 0, content, stamp, START, right)
    else:
        if index > whole.length:
            index = whole.length
        at, place, offset = whole.locate(index)
        blocks = whole.chunks[at].blocks
        block = blocks[place]
        if offset < block.size:
            rest = whole.split(block, offset)
            blocks.insert(place + 1, rest)
            whole.put(at, place + 1, content, stamp, block.tail, rest.head)
        else:
            right = whole.head_after(at, place)
            if not whole.extend(at, block, content, stamp, right):
                whole.put(at, place + 1, content, stamp, block.tail, right)
    whole.note(stamp)


def delete(whole: BlockList, index: int, count: int, stamp: Stamp) -> None:
    """Delete those of the elements from ``index`` on that the sender saw."""
    view = whole.view_of(stamp)
    if view is not None:
        delete_seen(whole, view, index, count, stamp)
        return
    if count > whole.length - index:
        count = whole.length - index
    if count <= 0:
        return
    at, place, offset = whole.locate(index + 1)
    first = at
    chunk = whole.chunks[at]
    blocks = chunk.blocks
    if offset > 1:
        blocks.insert(place + 1, whole.split(blocks[place], offset - 1))
        place += 1
    while True:
        block = blocks[place]
        if block.shown:
            if block.size > count:
                blocks.insert(place + 1, whole.split(block, count))
            count -= block.size
            whole.mark(chunk, block, stamp)
            place = whole.fuse(blocks, place)
            if count == 0:
                break
        place += 1
        if place == len(blocks):
            at += 1
            place = 0
            chunk = whole.chunks[at]
            blocks = chunk.blocks
    whole.spread(at)
    if at != first:
        whole.spread(first)
    whole.note(stamp)


def clear(whole: BlockList, stamp: Stamp) -> None:
    """Delete everything that the sender saw."""
    view = whole.view_of(stamp)
    if view is not None:
        delete_seen(whole, view, 0, -1, stamp)
    elif whole.length:
        whole.at = whole.before = 0
        for at in range(len(whole.chunks)):
            chunk = whole.chunks[at]
            blocks = chunk.blocks
            place = 0
            while place < len(blocks):
                if blocks[place].shown:
                    whole.mark(chunk, blocks[place], stamp)
                    place = whole.fuse(blocks, place)
                place += 1
        whole.note(stamp)
