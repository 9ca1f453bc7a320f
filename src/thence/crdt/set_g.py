"""A set that only grows: adds commute, so there is nothing to log.

Operation: ``add`` (element, ...).  It cannot be reset: maps have ``set_aw``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Element, Op, Stamp, StampOf, merge_elements
from thence.crdt.set_aw import check_elements, prepare_elements
from thence.errors import LocalProtocolError

ADD: Final = 0


class SetG(Crdt):
    """A set; ``in``, ``len`` and iteration work on it as it is."""

    __slots__ = ("_elements",)
    NAME: ClassVar[str] = "set_g"
    CODE: ClassVar[int] = 12
    OPS: ClassVar[tuple[str, ...]] = ("add",)

    def __init__(self) -> None:
        self._elements: set[Element] = set()

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call."""
        return prepare_elements(self, name, arguments)

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        if len(op) < 2 or type(op[0]) is not int or op[0] != ADD:
            return "expected add (element, ...)"
        return check_elements(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Elements join."""
        return merge_elements(last, new)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Add."""
        self._elements.update(op[1:])

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Nothing: no stamp is kept."""

    def reset(self, stamp: Stamp) -> None:
        """LocalProtocolError."""
        raise LocalProtocolError("set_g cannot be reset: set_aw can")

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
        """Whether it is empty."""
        return not self._elements

    def stamps(self) -> list[Stamp]:
        """None."""
        return []

    def export(self) -> Any:
        """[element, ...]."""
        return list(self._elements)

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> SetG:
        """The set whose state was exported."""
        made = cls()
        made._elements = set(exported)
        return made
