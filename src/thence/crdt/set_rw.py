"""A set in which a remove wins over a concurrent add.

Operations: ``add`` (element, ...), ``remove`` (element, ...), ``clear``.

An element is there if some add of it has seen every remove of it that there is, and no clear that
saw the add came.  So a remove drops all adds of its elements, and is kept until it is stable: adds
that have not seen it count for nothing.  Clear drops the adds that it sees and is not kept, so it
loses against concurrent ones.

The form in the paper keeps less and converges as well, but to something else than the paper says
that a remove-wins set is: an add that was concurrent with one remove comes back with the next.
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
)
from thence.crdt.set_aw import check_elements, prepare_elements

ADD: Final = 0
REMOVE: Final = 1
CLEAR: Final = 2
Log = dict[Element, list[Stamp]]


class SetRw(Crdt):
    """A set; ``in``, ``len`` and iteration work on it as it is."""

    __slots__ = ("_adds", "_by_stamp", "_removes", "_stable")
    NAME: ClassVar[str] = "set_rw"
    CODE: ClassVar[int] = 18
    OPS: ClassVar[tuple[str, ...]] = ("add", "remove", "clear")

    def __init__(self) -> None:
        # Elements with a stable add.
        self._stable: set[Element] = set()
        # What is not stable; no list is empty.  An element may be in all three.
        self._adds: Log = {}
        self._removes: Log = {}
        # Where to look when a stamp is stable; may also have elements that nothing is kept of.
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
        """Elements of the same operation join; a clear drops the adds before it."""
        return new if new[0] == CLEAR and last[0] != REMOVE else merge_elements(last, new)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Never."""
        return False

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == CLEAR:
            self.reset(stamp)
            return
        for element in op[1:]:
            if number == ADD:
                self._add(element, stamp)
            else:
                self._stable.discard(element)
                self._adds.pop(element, None)
                self._replace(self._removes, element, stamp)

    def _add(self, element: Element, stamp: Stamp) -> None:
        for remove in self._removes.get(element, ()):
            if not stamp.sees(remove):
                return
        self._stable.discard(element)
        self._replace(self._adds, element, stamp)

    def _replace(self, log: Log, element: Element, stamp: Stamp) -> None:
        """Put ``stamp`` in the place of those that it sees."""
        log[element] = [kept for kept in log.get(element, ()) if not stamp.sees(kept)] + [stamp]
        elements = self._by_stamp.setdefault(stamp, [])
        if not elements or elements[-1] != element:
            elements.append(element)

    def reset(self, stamp: Stamp) -> None:
        """Drop every add that ``stamp`` sees; what rejects concurrent ones stays."""
        self._stable.clear()
        for element in list(self._adds):
            kept = [add for add in self._adds[element] if not stamp.sees(add)]
            if kept:
                self._adds[element] = kept
            else:
                del self._adds[element]
        self._forget_places()

    def _forget_places(self) -> None:
        if not self._adds and not self._removes:
            self._by_stamp.clear()

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """A stable add needs no stamp; a stable remove has nothing left to reject."""
        by_stamp = self._by_stamp
        if len(by_stamp) <= len(stamps):
            found = [stamp for stamp in by_stamp if stamp in stamps]
        else:
            found = [stamp for stamp in stamps if stamp in by_stamp]
        for stamp in found:
            for element in by_stamp.pop(stamp):
                if _discard(self._adds, element, stamp):
                    self._stable.add(element)
                _discard(self._removes, element, stamp)
        self._forget_places()

    def value(self) -> set[Element]:
        """The elements."""
        return self._stable.union(self._adds)

    def __contains__(self, element: object) -> bool:
        return element in self._stable or element in self._adds

    def __len__(self) -> int:
        return len(self._stable) + sum([element not in self._stable for element in self._adds])

    def __iter__(self) -> Iterator[Element]:
        """The elements, in no order that replicas agree on."""
        yield from self._stable
        for element in self._adds:
            if element not in self._stable:
                yield element

    @property
    def is_initial(self) -> bool:
        """Whether it is empty, and no remove is kept."""
        return not self._stable and not self._adds and not self._removes

    @property
    def is_empty(self) -> bool:
        """Whether there is no element."""
        return not self._stable and not self._adds

    def stamps(self) -> list[Stamp]:
        """Those of adds and removes that are not stable."""
        logs = [*self._adds.values(), *self._removes.values()]
        return list(dict.fromkeys([stamp for log in logs for stamp in log]))

    def export(self) -> Any:
        """[stable elements, [[element, stamp of an add, ...], ...], the same of removes]."""
        return [list(self._stable), _exported(self._adds), _exported(self._removes)]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> SetRw:
        """The set whose state was exported."""
        made = cls()
        made._stable = set(exported[0])
        for log, entries in ((made._adds, exported[1]), (made._removes, exported[2])):
            for element, *stamps in entries:
                log[element] = [stamp_of(*stamp) for stamp in stamps]
                for stamp in log[element]:
                    made._by_stamp.setdefault(stamp, []).append(element)
        return made


def _discard(log: Log, element: Element, stamp: Stamp) -> bool:
    """Take a stamp out; whether it was there."""
    stamps = log.get(element)
    if stamps is None or stamp not in stamps:
        return False
    stamps.remove(stamp)
    if not stamps:
        del log[element]
    return True


def _exported(log: Log) -> list[Any]:
    return [[element, *map(export_stamp, stamps)] for element, stamps in log.items()]
