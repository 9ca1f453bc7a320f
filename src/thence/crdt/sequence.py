"""sequence: lists and text whose concurrent runs never interleave.

Operations carry no identifiers: an index counts in the sequence that the sender saw, and the stamp
says what that was.  Concurrent inserts at the same place are ordered by FugueMax (Weidner and
Kleppmann, arXiv 2305.00583); an element is deleted once anybody who saw it deleted it.  Once all
is stable, what is kept is the plain text or list.

    insert(index, content)    content: text, or a list of bytes, text, integers and floats
    delete(index, count)
    clear()

The elements of a text are its characters.  A sequence is the one or the other: ``prepare`` refuses
to mix them.  If replicas insert both kinds concurrently, the characters are elements of a list
as long as any other is there.

The blocks of the state are in ``sequence_blocks`` and ``sequence_list``, what operations do to them
in ``sequence_effect`` and ``sequence_seen``, what stability does in ``sequence_stable``, and how a
state is written down in ``sequence_snapshot``.
docs/explanation/sequence.md tells why it works.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar, Final

from thence.crdt import sequence_effect, sequence_snapshot, sequence_stable
from thence.crdt.base import (
    INTEGER_MAX,
    INTEGER_MIN,
    Crdt,
    Op,
    Stamp,
    StampOf,
    mypyc_attr,
    op_number,
)
from thence.crdt.sequence_blocks import Content
from thence.crdt.sequence_list import BlockList
from thence.errors import LocalProtocolError

INSERT: Final = 0
DELETE: Final = 1
CLEAR: Final = 2
LENGTHS: Final = (3, 3, 1)
"""How long the operations are, by their numbers."""
MERGED_ELEMENTS_MAX: Final = 4096
"""How many elements operations are merged into one for."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sequence(Crdt):
    """One replica of a list or a text."""

    __slots__ = ("_blocks",)
    NAME: ClassVar[str] = "sequence"
    CODE: ClassVar[int] = 4
    OPS: ClassVar[tuple[str, ...]] = ("insert", "delete", "clear")

    def __init__(self) -> None:
        self._blocks = BlockList()

    # Operations

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation; LocalProtocolError if the index is out of range, or the content is of
        the other kind than what is there."""
        op = (op_number(self, name), *arguments)
        fault = self.check(op) or self._fault_here(op)
        if fault:
            raise LocalProtocolError(f"{self.NAME}.{name}: {fault}")
        if op[0] == INSERT and not isinstance(op[2], str):
            return INSERT, op[1], list(op[2])
        return op

    def _fault_here(self, op: Op) -> str:
        length = self._blocks.length
        if op[0] == INSERT:
            if op[1] > length:
                return f"index {op[1]} of {length} elements"
            if length and isinstance(op[2], str) != self.is_text:
                return "the sequence holds " + ("text" if self.is_text else "a list")
        elif op[0] == DELETE and op[1] + op[2] > length:
            return f"elements {op[1]} to {op[1] + op[2]} of {length}"
        return ""

    @classmethod
    def check(cls, op: Op) -> str:
        number = op[0] if op else None
        if type(number) is not int or not INSERT <= number <= CLEAR:
            return "no such operation"
        if len(op) != LENGTHS[number]:
            return "wrong number of arguments"
        if number == CLEAR:
            return ""
        if type(op[1]) is not int or not 0 <= op[1] <= INTEGER_MAX:
            return "an index is an integer from 0"
        if number == DELETE:
            if type(op[2]) is not int or not 1 <= op[2] <= INTEGER_MAX:
                return "a count is an integer from 1"
            return ""
        return content_fault(op[2])

    @staticmethod
    def asks_clock(op: Op) -> bool:
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        number = op[0]
        if number == INSERT:
            sequence_effect.insert(self._blocks, op[1], op[2], stamp)
        elif number == DELETE:
            sequence_effect.delete(self._blocks, op[1], op[2], stamp)
        else:
            sequence_effect.clear(self._blocks, stamp)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """One operation for two of the same stamp, the second of which comes right after the
        first: what is typed, or deleted, in one go.  None if there is none that every replica
        would take for the two."""
        number = last[0]
        if number != new[0] or number == CLEAR:
            return None
        if number == INSERT:
            content: Content = last[2]
            more: Content = new[2]
            if new[1] != last[1] + len(content) or len(content) >= MERGED_ELEMENTS_MAX:
                return None
            if isinstance(content, str):
                return (INSERT, last[1], content + more) if isinstance(more, str) else None
            return None if isinstance(more, str) else (INSERT, last[1], [*content, *more])
        if new[1] <= last[1] <= new[1] + new[2]:
            return DELETE, new[1], last[2] + new[2]
        return None

    def reset(self, stamp: Stamp) -> None:
        sequence_effect.clear(self._blocks, stamp)

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        if self._blocks.log:
            sequence_stable.stabilise(self._blocks, stamps)
        else:  # of what changed nothing
            self._blocks.tip = None

    # Reading

    @property
    def is_text(self) -> bool:
        """Whether ``value`` is text: nothing that users see was inserted as an element of a list.
        Of an empty sequence nobody knows; it counts as text."""
        return not self._blocks.listed

    def __len__(self) -> int:
        return self._blocks.length

    def __iter__(self) -> Iterator[Any]:
        """The elements in their order.  Nothing may change the sequence meanwhile."""
        for chunk in self._blocks.chunks:
            for block in chunk.blocks:
                if block.content is not None:
                    yield from block.content

    def item(self, index: int) -> Any:
        """The element at an index from 0; IndexError if there is none."""
        if not 0 <= index < self._blocks.length:
            raise IndexError(f"index {index} of {self._blocks.length} elements")
        return self._blocks.item(index)

    def slice(self, start: int, stop: int) -> Content:
        """The elements from ``start`` to before ``stop``, as far as there are such: text or a list,
        as ``value`` is."""
        start = max(start, 0)
        stop = min(stop, self._blocks.length)
        parts = self._blocks.parts(start, stop) if start < stop else []
        return joined(parts, self.is_text)

    def value(self) -> Content:
        """Text or a list; the empty text if there is nothing."""
        return joined(self._blocks.parts(0, self._blocks.length), self.is_text)

    # State

    @property
    def is_initial(self) -> bool:
        return not self._blocks.chunks

    @property
    def is_empty(self) -> bool:
        """Whether users see no element; what is deleted may be kept until that is stable."""
        return not self._blocks.length

    def stamps(self) -> list[Stamp]:
        return list(self._blocks.log)

    def export(self) -> Any:
        return sequence_snapshot.export(self._blocks)

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> Sequence:
        sequence = cls()
        sequence._blocks = sequence_snapshot.load(exported, stamp_of)
        return sequence


def joined(parts: list[Content], is_text: bool) -> Content:
    """Pieces of content as one."""
    if is_text:
        return "".join([part for part in parts if isinstance(part, str)])
    elements: list[Any] = []
    for part in parts:
        elements.extend(part)
    return elements


def content_fault(content: Any) -> str:
    """What is wrong with something to insert; empty if nothing is."""
    if isinstance(content, str):
        if not content:
            return "nothing to insert"
        return text_fault(content)
    if not isinstance(content, list | tuple):
        return "content is text or a list"
    if not content:
        return "nothing to insert"
    for element in content:
        kind = type(element)
        if kind is int:
            if not INTEGER_MIN <= element <= INTEGER_MAX:
                return "an integer of more than 64 bits"
        elif kind is str:
            fault = text_fault(element)
            if fault:
                return fault
        elif kind is not bytes and kind is not float:
            return "an element is bytes, text, an integer or a float"
    return ""


def text_fault(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "text with half a character (a lone surrogate)"
    return ""
