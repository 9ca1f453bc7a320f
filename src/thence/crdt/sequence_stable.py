"""What stability does to the blocks of a sequence: stamps go, blocks join, deleted ones vanish.

A deleted block may go when its insert and a delete of it are stable and the inserts of both its
neighbours in the list are, too: whoever comes then sees both neighbours, and what it inserts
between them has nothing to be compared with.  Next to an insert that is not stable it stays: it may
be what a concurrent one has as its right neighbour.
"""

from __future__ import annotations

from collections.abc import Collection, Set

from thence.crdt.base import Stamp
from thence.crdt.sequence_blocks import (
    BLOCK_ELEMENTS_MAX,
    CHUNK_BLOCKS_MAX,
    LOST,
    Block,
    Chunk,
)
from thence.crdt.sequence_list import BlockList


def stabilise(blocks: BlockList, stamps: Collection[Stamp]) -> None:
    """Forget those stamps, and what only they made necessary."""
    stable = [stamp for stamp in blocks.log if stamp in stamps]
    if not stable:
        return
    forgotten = set(stable)
    blocks.forget(forgotten)
    for chunk in blocks.chunks:
        if not chunk.settled:
            forget(blocks, chunk, forgotten)
    compact(blocks)
    blocks.at = blocks.before = 0
    if not blocks.log or not blocks.chunks:
        # Deletes of what is gone by a stable delete are the only stamps that may be left.
        blocks.log.clear()
        blocks.chains.clear()
        blocks.views.clear()
        blocks.tip = None
    else:
        for view in blocks.views.values():
            view.settle(stable)


def forget(blocks: BlockList, chunk: Chunk, stable: Set[Stamp]) -> None:
    """Take the stable stamps out of a chunk."""
    place = 0
    while place < len(chunk.blocks):
        block = chunk.blocks[place]
        if block.insert is not None and block.first_insert() in stable:
            if block.insert not in stable:
                chunk.blocks.insert(place + 1, blocks.split(block, stable_size(block, stable)))
            block.insert = block.run = None
            block.left = block.right = LOST
        for stamp in block.deletes:
            if stamp in stable:
                block.dead = True
                block.deletes = ()
                break
        place += 1


def stable_size(block: Block, stable: Set[Stamp]) -> int:
    """How many elements the stable inserts of a run have."""
    size = 0
    assert block.run is not None
    for end, stamp in block.run:
        if stamp not in stable:
            break
        size = end
    return size


def compact(blocks: BlockList) -> None:
    """Remove the blocks that may go, and join those of which the same is known."""
    chunks = blocks.chunks
    kept: list[Chunk] = []
    after_stable = True
    for at, chunk in enumerate(chunks):
        if not chunk.settled:
            old = chunk.blocks
            last_stable = old[-1].insert is None
            before_stable = at + 1 == len(chunks) or chunks[at + 1].blocks[0].insert is None
            chunk.blocks = compacted(old, after_stable, before_stable)
            after_stable = last_stable
            settled = True
            for block in chunk.blocks:
                if block.insert is not None or not block.shown:
                    settled = False
                    break
            chunk.settled = settled
        else:
            after_stable = True
        if not chunk.blocks:
            continue
        if kept and len(kept[-1].blocks) + len(chunk.blocks) <= CHUNK_BLOCKS_MAX // 2:
            last = kept[-1]
            if join(last.blocks[-1], chunk.blocks[0]):
                del chunk.blocks[0]
            last.blocks.extend(chunk.blocks)
            last.shown += chunk.shown
            last.settled = last.settled and chunk.settled
            last.noted = max(last.noted, chunk.noted)
        else:
            kept.append(chunk)
    blocks.chunks = kept


def compacted(old: list[Block], after_stable: bool, before_stable: bool) -> list[Block]:
    """The blocks of a chunk that stay; the arguments say whether the insert before them and that
    behind them are stable."""
    new: list[Block] = []
    last: Block | None = None
    for place, block in enumerate(old):
        if block.insert is not None:
            after_stable = False
            new.append(block)
            last = block
            continue
        if block.dead:
            if place + 1 < len(old):
                next_stable = old[place + 1].insert is None
            else:
                next_stable = before_stable
            if after_stable and next_stable:
                continue
            block.size = 1
        after_stable = True
        if last is None or not join(last, block):
            new.append(block)
            last = block
    return new


def join(block: Block, other: Block) -> bool:
    """Let a block take up the one behind it, if the inserts of both are stable and the same is
    known of both."""
    if block.insert is not None or other.insert is not None:
        return False
    if block.dead or other.dead:
        if not (block.dead and other.dead):
            return False
    elif block.deletes or other.deletes:
        if block.deletes != other.deletes:
            return False
        block.size += other.size
    else:
        size = block.size + other.size
        own = block.content
        more = other.content
        if size > BLOCK_ELEMENTS_MAX:
            return False
        if isinstance(own, str):
            if not isinstance(more, str):
                return False
            block.content = own + more
        elif isinstance(more, str):
            return False
        else:
            assert own is not None
            assert more is not None
            own.extend(more)
        block.size = block.shown = size
    block.tail = other.tail
    return True
