"""Operations on a sequence whose senders had not seen everything that is here.

A ``View`` says which stamps a sender had not seen; an index counts what is left.  Chunks where all
is stable look the same to everybody; others are counted anew for each view, and the count is kept
as long as the view sees nothing more.

Where an insert goes is FugueMax in the form of a scan over the list between the two neighbours that
the sender saw.  Everything between them is concurrent with the insert, so it is not stable, and its
own neighbours are known.
"""

from __future__ import annotations

from thence.crdt.base import Stamp
from thence.crdt.sequence_blocks import END, START, Block, Chunk, Content, View
from thence.crdt.sequence_list import BlockList


def seen_in_block(whole: BlockList, view: View, chunk: Chunk, place: int) -> int:
    """How many elements of a block are seen.  A run that is seen in part is cut there."""
    block = chunk.blocks[place]
    if block.dead:
        return 0
    unseen = view.unseen
    insert = block.insert
    if insert is not None and insert in unseen:
        run = block.run
        if run is None or run[0][1] in unseen:
            return 0
        size = 0
        for end, stamp in run:
            if stamp in unseen:
                break
            size = end
        chunk.blocks.insert(place + 1, whole.split(block, size))
    for stamp in block.deletes:
        if stamp not in unseen:
            return 0
    return block.size


def seen_in_chunk(whole: BlockList, view: View, chunk: Chunk) -> int:
    """How many elements of a chunk are seen."""
    if chunk.settled:
        return chunk.shown
    known = view.counts.get(chunk)
    if known is not None:
        return known
    count = place = 0
    while place < len(chunk.blocks):
        count += seen_in_block(whole, view, chunk, place)
        place += 1
    view.counts[chunk] = count
    return count


def locate_seen(whole: BlockList, view: View, index: int) -> tuple[int, int, int]:
    """The ``index``-th element that is seen, the first being 1, or else the last: the places
    of its chunk and block, and how many elements of the block end with it.  The last is 0 if
    no element is seen."""
    chunks = whole.chunks
    at = view.at
    before = view.before
    while index <= before:
        at -= 1
        before -= seen_in_chunk(whole, view, chunks[at])
    count = seen_in_chunk(whole, view, chunks[at])
    while index > before + count:
        if at + 1 == len(chunks):  # beyond what the sender can have seen: its last element
            index = before + count
            while index and index <= before:
                at -= 1
                before -= seen_in_chunk(whole, view, chunks[at])
            break
        before += count
        at += 1
        count = seen_in_chunk(whole, view, chunks[at])
    if index == 0:
        return 0, 0, 0
    view.at = at
    view.before = before
    offset = index - before
    place = 0
    while True:
        seen = seen_in_block(whole, view, chunks[at], place)
        if offset <= seen:
            return at, place, offset
        offset -= seen
        place += 1


def insert_seen(whole: BlockList, view: View, index: int, content: Content, stamp: Stamp) -> None:
    """Insert behind the ``index``-th element that is seen, or the last."""
    at = place = offset = 0
    if index:
        at, place, offset = locate_seen(whole, view, index)
    if offset == 0:
        right, at, place = scan(whole, view, stamp, 0, 0, START)
        put_seen(whole, view, at, place, content, stamp, START, right)
        return
    chunk = whole.chunks[at]
    block = chunk.blocks[place]
    if offset < block.size:
        rest = whole.split(block, offset)
        chunk.blocks.insert(place + 1, rest)
        put_seen(whole, view, at, place + 1, content, stamp, block.tail, rest.head)
        return
    right, to, into = scan(whole, view, stamp, at, place + 1, block.tail)
    if to == at and into == place + 1 and whole.extend(at, block, content, stamp, right):
        if chunk in view.counts:
            view.counts[chunk] += len(content)
    else:
        put_seen(whole, view, to, into, content, stamp, block.tail, right)


def put_seen(
    whole: BlockList,
    view: View,
    at: int,
    place: int,
    content: Content,
    stamp: Stamp,
    left: int,
    right: int,
) -> None:
    """Insert new blocks, which this view sees, at a place of a chunk."""
    chunk = whole.chunks[at]
    view.counts[chunk] = seen_in_chunk(whole, view, chunk) + len(content)
    if at < view.at:
        view.before += len(content)
    whole.put(at, place, content, stamp, left, right)


def scan(
    whole: BlockList, view: View, stamp: Stamp, at: int, place: int, left: int
) -> tuple[int, int, int]:
    """Where an insert goes among the concurrent ones that begin at a place: the number of the
    element that its sender saw to the right, and the places of chunk and block to insert at."""
    chunks = whole.chunks
    between: list[Block] = []
    places: list[tuple[int, int]] = [(at, place)]
    right = END
    unseen = view.unseen
    while True:
        if place == len(chunks[at].blocks):
            if at + 1 == len(chunks):
                break
            at += 1
            place = 0
        block = chunks[at].blocks[place]
        first = block.first_insert()
        if first is None or first not in unseen:
            right = block.head
            break
        between.append(block)
        place += 1
        places.append((at, place))
    found = 0
    if between:
        found = destination(between, stamp.node, left, right)
    at, place = places[found]
    return right, at, place


def delete_seen(whole: BlockList, view: View, index: int, count: int, stamp: Stamp) -> None:
    """Delete seen elements; all of them if ``count`` is negative."""
    if count == 0:
        return
    chunks = whole.chunks
    at = view.at
    before = view.before
    while index < before:
        at -= 1
        before -= seen_in_chunk(whole, view, chunks[at])
    while at < len(chunks) and index >= before + seen_in_chunk(whole, view, chunks[at]):
        before += seen_in_chunk(whole, view, chunks[at])
        at += 1
    if at == len(chunks):
        return
    view.at = at
    view.before = before
    skip = index - before
    while at < len(chunks) and count:
        chunk = chunks[at]
        blocks = chunk.blocks
        place = gone = 0
        total = seen_in_chunk(whole, view, chunk)
        while place < len(blocks) and count:
            seen = seen_in_block(whole, view, chunk, place)
            if seen and skip >= seen:
                skip -= seen
            elif seen:
                if skip:
                    blocks.insert(place + 1, whole.split(blocks[place], skip))
                    skip = 0
                else:
                    block = blocks[place]
                    if 0 < count < block.size:
                        blocks.insert(place + 1, whole.split(block, count))
                    gone += block.size
                    if count > 0:
                        count -= block.size
                    shown = block.shown
                    whole.mark(chunk, block, stamp)
                    if at < whole.at:
                        whole.before -= shown
                    place = whole.fuse(blocks, place)
            place += 1
        if gone:
            view.counts[chunk] = total - gone
        at += 1
    whole.note(stamp)
    for place in range(at - 1, view.at - 1, -1):
        whole.spread(place)


def destination(between: list[Block], node: str, left: int, right: int) -> int:
    """How many of the blocks that stand between the neighbours of an insert come before it."""
    found = 0
    scanning = False
    for place, other in enumerate(between):
        if other.left == left:
            if other.right == right:
                insert = other.insert
                assert insert is not None
                if node < insert.node:
                    break
                scanning = False
            else:
                scanning = begins_in(between, place + 1, other.right)
        elif not lies_in(between, place, other.left):
            break
        if not scanning:
            found = place + 1
    return found


def begins_in(between: list[Block], start: int, number: int) -> bool:
    """Whether the element of this number is the first of one of the blocks from ``start`` on."""
    if number < 0:
        return False
    for place in range(start, len(between)):  # noqa: SIM110, compiled it is faster so
        if between[place].head == number:
            return True
    return False


def lies_in(between: list[Block], stop: int, number: int) -> bool:
    """Whether the element of this number is in one of the blocks before ``stop``."""
    if number < 0:
        return False
    for place in range(stop - 1, -1, -1):
        block = between[place]
        if block.head <= number < block.head + block.size:
            return True
    return False
