"""The state of a sequence as MessagePack can say it, for those who join.

    [stamps, entries]      stamps: (node, seq, clock) of those that are not stable, each once
    text                   entry: stable text
    [elements]             entry: stable elements of a list
    number                 entry: so many deleted elements that have to stay
    [content, inserts, deletes, dead, left, right]
                           entry: anything else.  content: text, elements, or the number of deleted
                           elements; inserts: [elements up to its end, place of its stamp] each;
                           deletes: places of stamps; left and right: places of the neighbours among
                           all elements, deleted ones too, -1 for none, -3 for one that is forgotten

Once all is stable that is ``[[], [text]]``, or ``[[], [[elements]]]``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Any

from thence.crdt.base import Stamp, StampOf, export_stamp
from thence.crdt.sequence_blocks import (
    BLOCK_ELEMENTS_MAX,
    CHUNK_BLOCKS_MAX,
    END,
    LOST,
    NUMBERS_SPAN,
    START,
    Block,
    Chunk,
)
from thence.crdt.sequence_list import BlockList


def export(blocks: BlockList) -> list[Any]:
    """The whole state of a sequence."""
    stamps = in_order(blocks.log)
    places = {stamp: place for place, stamp in enumerate(stamps)}
    neighbours = Neighbours(blocks)
    entries: list[Any] = []
    for chunk in blocks.chunks:
        for block in chunk.blocks:
            content: Any = block.size if block.content is None else block.content
            if block.insert is None and not block.deletes:
                extend_entries(entries, content)
                continue
            inserts: list[tuple[int, int]] = []
            if block.run is not None:
                inserts = [(end, places[stamp]) for end, stamp in block.run]
            elif block.insert is not None:
                inserts = [(block.size, places[block.insert])]
            deletes = [places[stamp] for stamp in block.deletes if stamp in places]
            left = neighbours.place(block.left)
            right = neighbours.place(block.right)
            if isinstance(content, list):
                content = content[:]
            entries.append([content, inserts, deletes, block.dead, left, right])
    return [[export_stamp(stamp) for stamp in stamps], entries]


def in_order(stamps: Iterable[Stamp]) -> list[Stamp]:
    """Stamps in an order that is the same at every replica."""
    return sorted(stamps, key=lambda stamp: (stamp.node, stamp.seq))


def extend_entries(entries: list[Any], content: Any) -> None:
    """Add stable content, to the last entry if that is of the same kind."""
    last = entries[-1] if entries else None
    if isinstance(content, str) and isinstance(last, str):
        entries[-1] = last + content
    elif isinstance(content, list):
        if isinstance(last, list) and len(last) == 1:
            last[0].extend(content)
        else:
            entries.append([content[:]])
    else:
        entries.append(content)


class Neighbours:
    """Where the elements of given numbers stand."""

    def __init__(self, blocks: BlockList) -> None:
        self.places = {START: -1, LOST: LOST}
        """Of elements at the ends of blocks."""
        runs: list[tuple[int, int, int]] = []
        total = 0
        for chunk in blocks.chunks:
            for block in chunk.blocks:
                self.places[block.head] = total
                self.places[block.tail] = total + block.size - 1
                if block.insert is not None:
                    runs.append((block.head, block.head + block.size, total))
                total += block.size
        self.places[END] = total
        runs.sort()
        self.runs = runs

    def place(self, number: int) -> int:
        """The place of an element; LOST if it is forgotten."""
        found = self.places.get(number)
        if found is None:
            found = LOST
            nearest = bisect_right(self.runs, (number, number, number)) - 1
            if nearest >= 0:
                head, stop, total = self.runs[nearest]
                if head <= number < stop:
                    found = total + number - head
        return found


def load(exported: Any, stamp_of: StampOf) -> BlockList:
    """The blocks that were exported."""
    blocks = BlockList()
    stamps = [stamp_of(*stamp) for stamp in exported[0]]
    for stamp in in_order(stamps):
        blocks.note(stamp)
    loaded: list[Block] = []
    heads: list[int] = []
    total = 0
    for entry in exported[1]:
        for block in load_entry(blocks, entry, stamps):
            heads.append(total)
            total += block.size
            loaded.append(block)
    for block in loaded:
        if block.insert is not None:
            block.left = number_at(loaded, heads, total, block.left)
            block.right = number_at(loaded, heads, total, block.right)
    for start in range(0, len(loaded), CHUNK_BLOCKS_MAX // 2):
        part = loaded[start : start + CHUNK_BLOCKS_MAX // 2]
        shown = sum(block.shown for block in part)
        settled = all(block.insert is None and block.shown for block in part)
        blocks.chunks.append(Chunk(part, shown, settled, blocks.noted))
        blocks.length += shown
    blocks.listed = sum(block.shown for block in loaded if isinstance(block.content, list))
    return blocks


def load_entry(blocks: BlockList, entry: Any, stamps: list[Stamp]) -> list[Block]:
    """The blocks of an entry, whose neighbours are still places."""
    if isinstance(entry, int):
        block = new_block(blocks, None, entry)
        block.dead = True
        return [block]
    if isinstance(entry, str) or len(entry) == 1:
        stable = entry if isinstance(entry, str) else list(entry[0])
        return [
            new_block(blocks, part, len(part))
            for start in range(0, len(stable), BLOCK_ELEMENTS_MAX)
            if (part := stable[start : start + BLOCK_ELEMENTS_MAX])
        ]
    content, inserts, deletes, dead, left, right = entry
    if isinstance(content, int):
        block = new_block(blocks, None, content)
    else:
        own = content if isinstance(content, str) else list(content)
        block = new_block(blocks, own, len(own))
    block.deletes = tuple(stamps[place] for place in deletes)
    block.dead = dead
    if inserts:
        run = [(end, stamps[place]) for end, place in inserts]
        block.insert = run[-1][1]
        block.run = run if len(run) > 1 else None
        block.left = left
        block.right = right
    return [block]


def new_block(blocks: BlockList, content: Any, size: int) -> Block:
    """A stable block with numbers of its own."""
    head = blocks.numbers
    blocks.numbers = head + size + NUMBERS_SPAN - size % NUMBERS_SPAN
    shown = 0 if content is None else size
    return Block(content, size, shown, None, LOST, LOST, head, head + size - 1)


def number_at(loaded: list[Block], heads: list[int], total: int, place: int) -> int:
    """The number of the element at a place."""
    if place == START:
        return START
    if place == total:
        return END
    if place < 0:
        return LOST
    nearest = bisect_right(heads, place) - 1
    return loaded[nearest].head + place - heads[nearest]
