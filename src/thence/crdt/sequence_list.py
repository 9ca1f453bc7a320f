"""The list of a sequence: finding an index in it, and the steps that operations consist of.

Operations themselves are in ``sequence_effect``, and in ``sequence_seen`` if their senders had not
seen everything.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from thence.crdt.base import Stamp
from thence.crdt.sequence_blocks import (
    BLOCK_ELEMENTS_MAX,
    CHUNK_BLOCKS_MAX,
    CUT,
    END,
    LOST,
    NUMBERS_SPAN,
    Block,
    Chunk,
    Content,
    Run,
    View,
)


class BlockList:
    """Blocks in chunks, and the operations on them."""

    __slots__ = (
        "at",
        "before",
        "chains",
        "chunks",
        "cuts",
        "length",
        "listed",
        "log",
        "noted",
        "numbers",
        "tip",
        "views",
    )

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self.length: int = 0
        """Elements that users see."""
        self.listed: int = 0
        """Those of them that were inserted as elements of a list, not as characters."""
        self.numbers: int = 0
        """The first number that no element had, a multiple of ``NUMBERS_SPAN``."""
        self.cuts: int = CUT
        """The first negative number that no end of a stable block had."""
        self.at: int = 0
        """The place of the chunk that was used last; its neighbours are likely to be next."""
        self.before: int = 0
        """Elements that users see before that chunk."""
        self.log: dict[Stamp, int] = {}
        """The stamps that are not stable, those of each replica in their order, numbered."""
        self.noted: int = 0
        """How many ever were: the number of the next one."""
        self.chains: dict[str, list[Stamp]] = {}
        """The same by replica.  Whoever sees one of a replica sees those before it, so that what an
        operation sees is found from their ends."""
        self.tip: Stamp | None = None
        """A stamp that sees everything here, if some is known to."""
        self.views: dict[str, View] = {}
        """Of replicas whose last operations did not see everything."""

    # Who sees what

    def view_of(self, stamp: Stamp) -> View | None:
        """What an operation sees; None if that is everything."""
        tip = self.tip
        if tip is stamp:
            return None
        if (tip is not None and stamp.sees(tip)) or not self.log:
            self.tip = stamp
            if self.views:
                self.views.pop(stamp.node, None)
            return None
        view = self.views.get(stamp.node)
        if view is None:
            view = View()
            for chain in self.chains.values():
                seen = len(chain)
                while seen and not stamp.sees(chain[seen - 1]):
                    seen -= 1
                for stored in chain[seen:]:
                    view.hide(stored)
        else:
            view.look(stamp, self.log, self.chunks)
        if not view.unseen:
            self.views.pop(stamp.node, None)
            self.tip = stamp
            return None
        self.views[stamp.node] = view
        self.tip = None
        return view

    def note(self, stamp: Stamp) -> None:
        """Something here has this stamp now."""
        if stamp in self.log:
            return
        self.log[stamp] = self.noted
        self.noted += 1
        chain = self.chains.get(stamp.node)
        if chain is None:
            self.chains[stamp.node] = [stamp]
        else:
            chain.append(stamp)
        if self.views:
            own = stamp.node
            for node, view in self.views.items():
                if node != own:
                    view.hide(stamp)

    def forget(self, stable: Set[Stamp]) -> None:
        """These stamps are stable."""
        for stamp in stable:
            del self.log[stamp]
        for node, chain in list(self.chains.items()):
            left = [stamp for stamp in chain if stamp not in stable]
            if left:
                self.chains[node] = left
            else:
                del self.chains[node]

    # Reading

    def item(self, index: int) -> Any:
        """The element that users see at an index, which there is."""
        at, place, offset = self.locate(index + 1)
        content = self.chunks[at].blocks[place].content
        assert content is not None
        return content[offset - 1]

    def parts(self, start: int, stop: int) -> list[Content]:
        """The content from ``start`` to before ``stop``, in pieces, as blocks have it."""
        found: list[Content] = []
        if start >= stop:
            return found
        at, place, offset = self.locate(start + 1)
        offset -= 1
        count = stop - start
        while True:
            blocks = self.chunks[at].blocks
            while place < len(blocks):
                content = blocks[place].content
                place += 1
                if content is None:
                    continue
                if offset or count < len(content):
                    content = content[offset : offset + count]
                    offset = 0
                found.append(content)
                count -= len(content)
                if not count:
                    return found
            at += 1
            place = 0

    # Where everything is seen

    def locate(self, index: int) -> tuple[int, int, int]:
        """The ``index``-th element that users see, the first being 1: the places of its chunk and
        of its block there, and how many elements of the block end with it."""
        chunks = self.chunks
        at = self.at
        before = self.before
        if index <= before:
            if index < before - index:
                at = before = 0
        elif self.length - index < index - before:
            at = len(chunks) - 1
            before = self.length - chunks[at].shown
        while index <= before:
            at -= 1
            before -= chunks[at].shown
        while index > before + chunks[at].shown:
            before += chunks[at].shown
            at += 1
        self.at = at
        self.before = before
        offset = index - before
        place = 0
        for block in chunks[at].blocks:
            shown = block.shown
            if offset <= shown:
                break
            offset -= shown
            place += 1
        return at, place, offset

    def head_after(self, at: int, place: int) -> int:
        """The number of the first element behind a block."""
        blocks = self.chunks[at].blocks
        if place + 1 < len(blocks):
            return blocks[place + 1].head
        return self.chunks[at + 1].blocks[0].head if at + 1 < len(self.chunks) else END

    def extend(self, at: int, block: Block, content: Content, stamp: Stamp, right: int) -> bool:
        """Let an insert behind a block be part of it, if nobody could tell the difference."""
        last = block.insert
        size = len(content)
        if (
            last is None
            or block.right != right
            or not block.shown
            or block.size + size > BLOCK_ELEMENTS_MAX
            or block.tail % NUMBERS_SPAN + size >= NUMBERS_SPAN
            or isinstance(block.content, str) != isinstance(content, str)
            or (last is not stamp and last.node != stamp.node)
        ):
            return False
        block.extend(content, size, stamp)
        self.grew(at, size, content)
        return True

    def put(
        self, at: int, place: int, content: Content, stamp: Stamp, left: int, right: int
    ) -> None:
        """Insert new blocks at a place of a chunk."""
        size = len(content)
        head = self.numbers
        self.numbers = head + size + NUMBERS_SPAN - size % NUMBERS_SPAN
        if not self.chunks:
            self.chunks.append(Chunk([], 0, False, self.noted))
        blocks = self.chunks[at].blocks
        if size <= BLOCK_ELEMENTS_MAX:
            own = content if isinstance(content, str) else content[:]
            blocks.insert(place, Block(own, size, size, stamp, left, right, head, head + size - 1))
        else:
            new = []
            for start in range(0, size, BLOCK_ELEMENTS_MAX):
                part = content[start : start + BLOCK_ELEMENTS_MAX]
                tail = head + start + len(part) - 1
                new.append(
                    Block(part, len(part), len(part), stamp, left, right, head + start, tail)
                )
                left = tail
            blocks[place:place] = new
        self.grew(at, size, content)
        self.spread(at)

    def grew(self, at: int, size: int, content: Content) -> None:
        chunk = self.chunks[at]
        chunk.shown += size
        chunk.settled = False
        chunk.noted = self.noted
        self.length += size
        if not isinstance(content, str):
            self.listed += size
        if at < self.at:
            self.before += size

    def mark(self, chunk: Chunk, block: Block, stamp: Stamp) -> None:
        """Note a delete of a block."""
        if block.shown and not isinstance(block.content, str):
            self.listed -= block.size
        lost = block.mark(stamp)
        chunk.shown -= lost
        chunk.settled = False
        chunk.noted = self.noted
        self.length -= lost

    def fuse(self, blocks: list[Block], place: int) -> int:
        """Join a block that was deleted just now with neighbours of which the same is known: the
        inserts stable, deleted by this stamp alone.  Where the block is then."""
        block = blocks[place]
        deletes = block.deletes
        if block.insert is not None or len(deletes) != 1:
            return place
        if place + 1 < len(blocks):
            other = blocks[place + 1]
            if other.insert is None and len(other.deletes) == 1:
                if other.deletes[0] is deletes[0] and not other.dead:
                    block.size += other.size
                    block.tail = other.tail
                    del blocks[place + 1]
        if place > 0:
            other = blocks[place - 1]
            if other.insert is None and len(other.deletes) == 1:
                if other.deletes[0] is deletes[0] and not other.dead:
                    other.size += block.size
                    other.tail = block.tail
                    del blocks[place]
                    return place - 1
        return place

    def split(self, block: Block, size: int) -> Block:
        """Cut a block behind its first ``size`` elements; the rest, which the caller inserts."""
        content = block.content
        rest_size = block.size - size
        if block.insert is None:  # between stable elements: nobody knows a number of them
            tail = self.cuts
            head = tail - 1
            self.cuts = tail - 2
            left = right = LOST
        else:
            tail = left = block.head + size - 1
            head = tail + 1
            right = block.right
        if content is None:
            rest = Block(None, rest_size, 0, block.insert, left, right, head, block.tail)
            rest.deletes = block.deletes
            rest.dead = block.dead
        else:
            rest = Block(
                content[size:], rest_size, rest_size, block.insert, left, right, head, block.tail
            )
            block.content = content[:size]
            block.shown = size
        block.size = size
        block.tail = tail
        if block.run is not None:
            self._split_run(block, rest, size)
        return rest

    def _split_run(self, block: Block, rest: Block, size: int) -> None:
        run: Run = []
        others: Run = []
        assert block.run is not None
        covered = 0
        for end, stamp in block.run:
            if covered < size:
                run.append((min(end, size), stamp))
            if end > size:
                others.append((end - size, stamp))
            covered = end
        block.insert = run[-1][1]
        block.run = run if len(run) > 1 else None
        rest.insert = others[-1][1]
        rest.run = others if len(others) > 1 else None

    def spread(self, at: int) -> None:
        """Cut a chunk of too many blocks."""
        chunk = self.chunks[at]
        blocks = chunk.blocks
        if len(blocks) <= CHUNK_BLOCKS_MAX:
            return
        new = []
        for start in range(0, len(blocks), CHUNK_BLOCKS_MAX // 2):
            part = blocks[start : start + CHUNK_BLOCKS_MAX // 2]
            shown = 0
            for block in part:
                shown += block.shown
            new.append(Chunk(part, shown, chunk.settled, chunk.noted))
        self.chunks[at : at + 1] = new
        if at < self.at:
            self.at += len(new) - 1
        for view in self.views.values():
            view.counts.pop(chunk, None)
            if at < view.at:
                view.at += len(new) - 1
