"""A set in which an add wins over a concurrent remove.

Operations: ``add`` (element, ...), ``remove`` (element, ...), ``clear``.

Each drops the adds that it sees: add and remove those of their elements, clear all.  Adds are kept,
removes are not: an element is there if some add of it is.  Stable elements are a plain set.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar, Final

from thence.crdt.base import (
    Crdt,
    Element,
    Op,
    Stamp,
    StampOf,
    export_stamp,
    merge_elements,
    mypyc_attr,
    op_number,
)
from thence.crdt.scalars import element_fault, element_of
from thence.errors import LocalProtocolError

ADD: Final = 0
REMOVE: Final = 1
CLEAR: Final = 2


def check_elements(op: Op) -> str:
    """What is wrong with add (element, ...), remove (element, ...) or clear ()."""
    size = len(op)
    if size and type(op[0]) is int:
        if size == 2 and 0 <= op[0] <= REMOVE:
            return element_fault(op[1])
        if size == 1 and op[0] == CLEAR:
            return ""
        if size > 2 and 0 <= op[0] <= REMOVE:
            for element in op[1:]:
                fault = element_fault(element)
                if fault:
                    return fault
            return ""
    return "expected add (element, ...), remove (element, ...) or clear ()"


def prepare_elements(of: Crdt, name: str, arguments: tuple[Any, ...]) -> Op:
    """The operation of a call whose arguments are elements."""
    number = op_number(of, name)
    if (number == CLEAR) != (not arguments):
        what = "no elements" if number == CLEAR else "one element or more"
        raise LocalProtocolError(f"{of.NAME}.{name}: expected {what}")
    if len(arguments) == 1:
        return number, element_of(arguments[0])
    return (number, *map(element_of, arguments))


@mypyc_attr(allow_interpreted_subclasses=True)
class SetAw(Crdt):
    """A set; ``in``, ``len`` and iteration work on it as it is."""

    __slots__ = ("_adds", "_by_stamp", "_stable")
    NAME: ClassVar[str] = "set_aw"
    CODE: ClassVar[int] = 2
    OPS: ClassVar[tuple[str, ...]] = ("add", "remove", "clear")

    def __init__(self) -> None:
        # Elements with a stable add.
        self._stable: set[Element] = set()
        # The adds that are not stable.  An element may be in both.
        self._adds: dict[Element, list[Stamp]] = {}
        # Where to look when a stamp is stable; may also have elements that were removed since.
        self._by_stamp: dict[Stamp, list[Element]] = {}

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call."""
        return prepare_elements(self, name, arguments)

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        return check_elements(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Clear drops all that was before; elements of the same operation join."""
        return new if new[0] == CLEAR else merge_elements(last, new)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == ADD:
            if len(op) == 2:
                self._add(op[1], stamp)
            else:
                for element in op[1:]:
                    self._add(element, stamp)
        elif number == REMOVE:
            for element in op[1:]:
                self._remove(element, stamp)
        else:
            self.reset(stamp)

    def _add(self, element: Element, stamp: Stamp) -> None:
        self._stable.discard(element)
        adds = self._adds
        before = adds.get(element)
        if before is None:
            adds[element] = [stamp]
        else:
            if len(before) == 1 and before[0] is stamp:
                return
            kept = [add for add in before if not stamp.sees(add)]
            kept.append(stamp)
            adds[element] = kept
        elements = self._by_stamp.get(stamp)
        if elements is None:
            self._by_stamp[stamp] = [element]
        else:
            elements.append(element)

    def _remove(self, element: Element, stamp: Stamp) -> None:
        self._stable.discard(element)
        before = self._adds.get(element)
        if before is None:
            return
        kept = [add for add in before if not stamp.sees(add)]
        if kept:
            self._adds[element] = kept
        else:
            del self._adds[element]
            if not self._adds:
                self._by_stamp.clear()

    def reset(self, stamp: Stamp) -> None:
        """Drop every add that ``stamp`` sees."""
        self._stable.clear()
        for element in list(self._adds):
            self._remove(element, stamp)

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Elements of these stamps are stable."""
        by_stamp = self._by_stamp
        if not by_stamp:
            return
        if len(by_stamp) <= len(stamps):
            found = [stamp for stamp in by_stamp if stamp in stamps]
        else:
            found = [stamp for stamp in stamps if stamp in by_stamp]
        adds = self._adds
        for stamp in found:
            for element in by_stamp.pop(stamp):
                before = adds.get(element)
                if before is None:
                    continue
                if len(before) == 1:
                    if before[0] is stamp:
                        del adds[element]
                        self._stable.add(element)
                elif stamp in before:
                    before.remove(stamp)
                    self._stable.add(element)
        if not adds:
            by_stamp.clear()

    def value(self) -> set[Element]:
        """The elements."""
        return self._stable.union(self._adds) if self._adds else self._stable.copy()

    def __contains__(self, element: object) -> bool:
        return element in self._stable or element in self._adds

    def __len__(self) -> int:
        if not self._adds:
            return len(self._stable)
        both = sum([element in self._stable for element in self._adds])
        return len(self._stable) + len(self._adds) - both

    def __iter__(self) -> Iterator[Element]:
        """The elements, in no order that replicas agree on."""
        yield from self._stable
        for element in self._adds:
            if element not in self._stable:
                yield element

    @property
    def is_initial(self) -> bool:
        """Whether it is empty."""
        return not self._stable and not self._adds

    def stamps(self) -> list[Stamp]:
        """Those of the adds that are not stable."""
        return list(dict.fromkeys([add for adds in self._adds.values() for add in adds]))

    def export(self) -> Any:
        """[stable elements, [[element, stamp, ...], ...]]."""
        adds = [[e, *map(export_stamp, stamps)] for e, stamps in self._adds.items()]
        return [list(self._stable), adds]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> SetAw:
        """The set whose state was exported."""
        made = cls()
        made._stable = set(exported[0])
        for element, *stamps in exported[1]:
            made._adds[element] = [stamp_of(*stamp) for stamp in stamps]
            for stamp in made._adds[element]:
                made._by_stamp.setdefault(stamp, []).append(element)
        return made
