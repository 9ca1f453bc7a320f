"""A set in which what was removed once never comes back.

Operations: ``add`` (element, ...), ``remove`` (element, ...).

They commute, so there is nothing to log; but what was removed is remembered for good, and so the
set cannot be reset: maps have ``set_rw``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Element, Op, Stamp, StampOf, merge_elements
from thence.crdt.set_aw import check_elements, prepare_elements
from thence.errors import LocalProtocolError

ADD: Final = 0
REMOVE: Final = 1


class Set2p(Crdt):
    """A set; ``in``, ``len`` and iteration work on it as it is."""

    __slots__ = ("_elements", "_removed")
    NAME: ClassVar[str] = "set_2p"
    CODE: ClassVar[int] = 13
    OPS: ClassVar[tuple[str, ...]] = ("add", "remove")

    def __init__(self) -> None:
        self._elements: set[Element] = set()
        self._removed: set[Element] = set()

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call."""
        return prepare_elements(self, name, arguments)

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        if len(op) < 2:
            return "expected add (element, ...) or remove (element, ...)"
        return check_elements(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Elements of the same operation join."""
        return merge_elements(last, new)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        if op[0] == ADD:
            self._elements.update([element for element in op[1:] if element not in self._removed])
        else:
            self._elements.difference_update(op[1:])
            self._removed.update(op[1:])

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Nothing: no stamp is kept."""

    def reset(self, stamp: Stamp) -> None:
        """LocalProtocolError."""
        raise LocalProtocolError("set_2p cannot be reset: set_rw can")

    def value(self) -> set[Element]:
        """The elements."""
        return self._elements.copy()

    def __contains__(self, element: object) -> bool:
        return element in self._elements

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Element]:
        """The elements, in no order that replicas agree on."""
        return iter(self._elements)

    @property
    def is_initial(self) -> bool:
        """Whether nothing was ever added or removed."""
        return not self._elements and not self._removed

    @property
    def is_empty(self) -> bool:
        """Whether there is no element."""
        return not self._elements

    def stamps(self) -> list[Stamp]:
        """None."""
        return []

    def export(self) -> Any:
        """[[element, ...], [removed element, ...]]."""
        return [list(self._elements), list(self._removed)]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> Set2p:
        """The set whose state was exported."""
        made = cls()
        made._elements = set(exported[0])
        made._removed = set(exported[1])
        return made
