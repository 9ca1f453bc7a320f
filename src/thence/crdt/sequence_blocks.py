"""The blocks of a sequence: runs of elements that were inserted one after the other.

A block is a piece of content, or only its size once it is deleted.  Blocks stand in chunks, so that
neither finding an index nor inserting a block touches all of them.

Elements are told apart by numbers that mean something at this replica only.  Those of a block whose
insert is not stable are ``head``, ``head + 1``, ..., ``tail``: whoever was inserted next to an
element of it has that number in ``left`` or ``right``, and finds it again however the block is cut.
A stable block remembers the numbers of its two ends alone; if it is cut, the new ends get negative
ones.  Nothing is lost: whoever will stand between two stable neighbours knows both, so nothing is
ever compared with what stands elsewhere (docs/explanation/sequence.md).
"""

from __future__ import annotations

from typing import Any, Final

from thence.crdt.base import Stamp

Content = str | list[Any]
"""Text, an element being one character; or a list of elements."""
Run = list[tuple[int, Stamp]]
"""The inserts of a block: (elements up to the end of this insert, its stamp), in their order."""

BLOCK_ELEMENTS_MAX: Final = 512
"""A block is cut or extended by copying it, so that it stays short."""
CHUNK_BLOCKS_MAX: Final = 48
NUMBERS_SPAN: Final = 2 * BLOCK_ELEMENTS_MAX
"""The numbers of a new block begin at a multiple of this, and end before the next with all that a
run adds to it."""

START: Final = -1
"""What stands for the left neighbour of the first element."""
END: Final = -2
"""What stands for the right neighbour of the last element."""
LOST: Final = -3
"""A neighbour with which nothing will be compared any more."""
CUT: Final = -4
"""The first of the numbers that the ends of stable blocks get where they are cut."""


class Block:
    """Elements that stand next to each other and of which the same is known."""

    __slots__ = (
        "content",
        "dead",
        "deletes",
        "head",
        "insert",
        "left",
        "right",
        "run",
        "shown",
        "size",
        "tail",
    )

    def __init__(
        self,
        content: Content | None,
        size: int,
        shown: int,
        insert: Stamp | None,
        left: int,
        right: int,
        head: int,
        tail: int,
    ) -> None:
        self.content: Content | None = content
        """None once some delete came."""
        self.size: int = size
        self.shown: int = shown
        """``size``, or 0 once some delete came: how many elements users see here."""
        self.insert: Stamp | None = insert
        """The last of its inserts; None once all of them are stable."""
        self.run: Run | None = None
        """Its inserts if they are several: all of one replica, each after the one before."""
        self.deletes: tuple[Stamp, ...] = ()
        """Deletes that are not stable."""
        self.dead: bool = False
        """Whether some delete is stable."""
        self.left: int = left
        """The element that was left of the first one when it was inserted."""
        self.right: int = right
        """The element that was right of all of them when they were inserted."""
        self.head: int = head
        self.tail: int = tail

    def first_insert(self) -> Stamp | None:
        """The first of its inserts; None once all of them are stable."""
        run = self.run
        return self.insert if run is None else run[0][1]

    def extend(self, content: Content, size: int, stamp: Stamp) -> None:
        """Let a block of an insert that is not stable go on with what the same replica inserted
        behind it."""
        if self.insert is not stamp:
            last = self.insert
            assert last is not None
            if self.run is None:
                self.run = [(self.size, last)]
            self.run.append((self.size + size, stamp))
            self.insert = stamp
        elif self.run is not None:
            self.run[-1] = (self.size + size, stamp)
        own = self.content
        if isinstance(own, str):
            assert isinstance(content, str)
            self.content = own + content
        else:
            assert own is not None
            assert isinstance(content, list)
            own.extend(content)
        self.size += size
        self.shown = self.size
        self.tail += size

    def mark(self, stamp: Stamp) -> int:
        """Note a delete; how many elements users see no more."""
        shown = self.shown
        self.deletes = (*self.deletes, stamp)
        self.content = None
        self.shown = 0
        return shown


class Chunk:
    """Some blocks in a row, never none, and how many elements users see in them."""

    __slots__ = ("blocks", "noted", "settled", "shown")

    def __init__(self, blocks: list[Block], shown: int, settled: bool, noted: int) -> None:
        self.blocks: list[Block] = blocks
        self.shown: int = shown
        self.settled: bool = settled
        """Whether all of it is stable and shown: then every operation to come sees the same."""
        self.noted: int = noted
        """The numbers in the log of the stamps in it are not greater."""


class View:
    """What the operations of one replica see that do not see everything."""

    __slots__ = ("at", "before", "counts", "unseen", "waiting")

    def __init__(self) -> None:
        self.unseen: set[Stamp] = set()
        self.waiting: dict[str, list[Stamp]] = {}
        """The same by replica, each in its order: whoever sees the first sees more than before."""
        self.counts: dict[Chunk, int] = {}
        """Elements that are seen in the chunks where that was counted already."""
        self.at: int = 0
        """The place of the chunk of the last operation."""
        self.before: int = 0
        """Elements that are seen before that chunk."""

    def hide(self, stamp: Stamp) -> None:
        """A stamp came that this replica is not known to have seen."""
        if stamp not in self.unseen:
            self.unseen.add(stamp)
            self.waiting.setdefault(stamp.node, []).append(stamp)

    def look(self, stamp: Stamp, log: dict[Stamp, int], chunks: list[Chunk]) -> None:
        """The next operation of the replica: what does it see by now?"""
        oldest = -1
        for waiting in self.waiting.values():
            seen = 0
            while seen < len(waiting) and stamp.sees(waiting[seen]):
                self.unseen.remove(waiting[seen])
                seen += 1
            if seen:
                number = log[waiting[0]]
                if oldest < 0 or number < oldest:
                    oldest = number
                del waiting[:seen]
        if oldest >= 0 and self.unseen:
            self.forget_counts_since(oldest, chunks)

    def settle(self, stable: list[Stamp]) -> None:
        """Everything to come sees these."""
        self.unseen.difference_update(stable)
        for node, waiting in self.waiting.items():
            self.waiting[node] = [stamp for stamp in waiting if stamp in self.unseen]
        self.forget_counts()

    def forget_counts_since(self, oldest: int, chunks: list[Chunk]) -> None:
        """It sees stamps that it did not see, none of a lower number."""
        for at, chunk in enumerate(chunks):
            if chunk.noted >= oldest:
                self.counts.pop(chunk, None)
                if at < self.at:
                    self.at = self.before = 0

    def forget_counts(self) -> None:
        self.counts.clear()
        self.at = self.before = 0
