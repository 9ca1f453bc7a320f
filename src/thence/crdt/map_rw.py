"""A map of objects in which a remove wins over a concurrent update.

Operations: ``update`` (field, type, operation of that type), ``remove`` (field), ``clear``.

A remove undoes every update of its field that is there, and is kept as a marker until it is stable:
updates that have not seen it count for nothing.  What an object does then is decided by the updates
that have seen all markers.  Clear resets the objects: it undoes what it sees and is not kept, so it
loses against what is concurrent.

A set of fields that removes win, with an object beside each that they wipe, is not the same: the
field comes back by an update that saw the remove, but the object differs by whether concurrent
updates came before the remove or after it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

from thence.crdt.base import Element, Op, Stamp, StampOf, export_stamp
from thence.crdt.children import REMOVE, UPDATE
from thence.crdt.map_uw import MapUw


class MapRw(MapUw):
    """A map; ``in``, ``len``, ``get`` and iteration work on it as it is."""

    __slots__ = ("_markers", "_of_stamp")
    NAME: ClassVar[str] = "map_rw"
    CODE: ClassVar[int] = 16

    def __init__(self) -> None:
        super().__init__()
        # The removes that are not stable; no list is empty.
        self._markers: dict[Element, list[Stamp]] = {}
        # The fields that a marker is, or was, of.
        self._of_stamp: dict[Stamp, list[Element]] = {}

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == REMOVE:
            self._fields.pop(op[1], None)
            self._nested.pop(op[1], None)
            self._mark(op[1], stamp)
            return
        if number == UPDATE:
            for marker in self._markers.get(op[1], ()):
                if not stamp.sees(marker):
                    return
        super().effect(op, stamp)

    def _mark(self, field: Element, stamp: Stamp) -> None:
        before = self._markers.get(field, ())
        self._markers[field] = [kept for kept in before if not stamp.sees(kept)] + [stamp]
        fields = self._of_stamp.setdefault(stamp, [])
        if field not in fields[-1:]:
            fields.append(field)

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Objects are told; a stable marker has nothing left to reject."""
        super().stabilise(stamps)
        for stamp in [stamp for stamp in self._of_stamp if stamp in stamps]:
            for field in self._of_stamp.pop(stamp):
                left = [kept for kept in self._markers.get(field, ()) if kept is not stamp]
                if left:
                    self._markers[field] = left
                else:
                    self._markers.pop(field, None)

    @property
    def is_initial(self) -> bool:
        """Whether it holds nothing, and no marker either."""
        return not self._markers and super().is_initial

    def stamps(self) -> list[Stamp]:
        """Those of its objects and markers."""
        markers = [stamp for kept in self._markers.values() for stamp in kept]
        return list(dict.fromkeys([*super().stamps(), *markers]))

    def export(self) -> Any:
        """[..., [[field, stamp of a marker, ...], ...]] after what an update-wins map has."""
        markers = [[field, *map(export_stamp, kept)] for field, kept in self._markers.items()]
        return [*super().export(), markers]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> MapRw:
        """The map whose state was exported."""
        made = super().load(exported[:-1], stamp_of)
        assert isinstance(made, MapRw)
        for field, *stamps in exported[-1]:
            for stamp in stamps:
                made._mark_loaded(field, stamp_of(*stamp))
        return made

    def _mark_loaded(self, field: Element, stamp: Stamp) -> None:
        self._markers.setdefault(field, []).append(stamp)
        self._of_stamp.setdefault(stamp, []).append(field)
