"""A map of objects in which an update wins over a concurrent remove.

Operations: ``update`` (field, type, operation of that type), ``remove`` (field), ``clear``.

A field holds one object of each type that it was updated as; users see the one whose type has the
smallest number.  Remove and clear reset objects: what they see is undone, what is concurrent stays.

A ``register_counter`` that is stable is kept as its plain value, and one of which nothing is known
but a single set as (stamp, value).  So a stable map of registers is a dictionary and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, ClassVar

from thence.crdt.base import Crdt, Element, Op, Stamp, StampOf, mypyc_attr, op_number
from thence.crdt.children import (
    MAP_OPS,
    REGISTER,
    REMOVE,
    UPDATE,
    check_map,
    class_of,
    code_of,
    prepare_update,
)
from thence.crdt.register_counter import SET, UNSETTLED, RegisterCounter
from thence.crdt.scalars import element_of
from thence.errors import LocalProtocolError

Place = Element | tuple[Element, int]
"""Where an object is: its field if it is a ``register_counter``, otherwise (field, code)."""


def register_of(held: Any) -> RegisterCounter:
    """The object for what a field has of a ``register_counter``."""
    if isinstance(held, RegisterCounter):
        return held
    if isinstance(held, tuple):
        return RegisterCounter.pending(held[0], held[1])
    return RegisterCounter.of(held)


def shown_by(held: Any) -> Any:
    """What that shows."""
    if isinstance(held, tuple):
        return held[1]
    return held.value() if isinstance(held, RegisterCounter) else held


@mypyc_attr(allow_interpreted_subclasses=True)
class MapUw(Crdt):
    """A map; ``in``, ``len``, ``get`` and iteration work on it as it is."""

    __slots__ = ("_by_stamp", "_fields", "_nested")
    NAME: ClassVar[str] = "map_uw"
    CODE: ClassVar[int] = 3
    OPS: ClassVar[tuple[str, ...]] = MAP_OPS

    def __init__(self) -> None:
        # The registers: stable ones as their plain values, one set as (stamp, value).
        self._fields: dict[Element, Any] = {}
        # Objects of other types, by field and code; no inner dictionary is empty.
        self._nested: dict[Element, dict[int, Crdt]] = {}
        # Where to look when a stamp is stable; may also have places of what was removed since.
        self._by_stamp: dict[Stamp, list[Place]] = {}

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation of a call: update (field, type, (name, argument, ...)), the type as its
        name, number or class; remove (field); clear ()."""
        number = op_number(self, name)
        try:
            if number == UPDATE and len(arguments) == 3:
                field, kind, call = element_of(arguments[0]), arguments[1], arguments[2]
                code = code_of(kind)
                # What a register is asked for does not depend on its state.
                child = None if code == REGISTER else self.child(field, code)
                return prepare_update(child, field, code, call)
            if number == REMOVE and len(arguments) == 1:
                return number, element_of(arguments[0])
        except LocalProtocolError as error:
            raise LocalProtocolError(f"{self.NAME}.{name}: {error}") from None
        return super().prepare(name, *arguments)

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        return check_map(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Updates of the same object merge as it says; what is done twice is done once."""
        if last[0] != UPDATE or new[0] != UPDATE:
            return new if tuple(last) == tuple(new) else None
        if last[1] != new[1] or last[2] != new[2]:
            return None
        inner = class_of(new[2]).merge(last[3], new[3])
        return None if inner is None else (UPDATE, new[1], new[2], inner)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """If the object of an update does."""
        return op[0] == UPDATE and class_of(op[2]).asks_clock(op[3])

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == UPDATE:
            if op[2] == REGISTER:
                self._update_register(op[1], op[3], stamp)
            else:
                self._update_nested(op[1], op[2], op[3], stamp)
        elif number == REMOVE:
            self._remove(op[1], stamp)
        else:
            self.reset(stamp)

    def _update_register(self, field: Element, op: Op, stamp: Stamp) -> None:
        fields = self._fields
        found = fields.get(field)
        if op[0] == SET and not isinstance(found, RegisterCounter):
            # A set drops what is stable anyway.
            if not isinstance(found, tuple) or stamp.sees(found[0]):
                fields[field] = (stamp, op[1])
                self._note(field, stamp)
                return
        child = RegisterCounter() if found is None else register_of(found)
        fields[field] = child
        child.effect(op, stamp)
        if child.is_initial:
            del fields[field]
        else:
            self._note(field, stamp)

    def _update_nested(self, field: Element, code: int, op: Op, stamp: Stamp) -> None:
        children = self._nested.get(field)
        if children is None:
            children = self._nested[field] = {}
        child = children.get(code)
        if child is None:
            child = children[code] = class_of(code)()
        child.effect(op, stamp)
        self._settle_nested(field, code, stamp)

    def _note(self, place: Place, stamp: Stamp) -> None:
        places = self._by_stamp.get(stamp)
        if places is None:
            self._by_stamp[stamp] = [place]
        elif places[-1] != place:
            places.append(place)

    def _settle_nested(self, field: Element, code: int, stamp: Stamp) -> None:
        """Forget an object as which nothing is left; otherwise look at it when ``stamp`` is
        stable."""
        children = self._nested[field]
        if not children[code].is_initial:
            self._note((field, code), stamp)
            return
        del children[code]
        if not children:
            del self._nested[field]

    def _remove(self, field: Element, stamp: Stamp) -> None:
        found = self._fields.get(field)
        if isinstance(found, RegisterCounter):
            found.reset(stamp)
            if found.is_initial:
                del self._fields[field]
        elif found is not None:
            if not isinstance(found, tuple) or stamp.sees(found[0]):
                del self._fields[field]
        if not self._nested:
            return
        for code in list(self._nested.get(field, ())):
            self._nested[field][code].reset(stamp)
            self._settle_nested(field, code, stamp)

    def reset(self, stamp: Stamp) -> None:
        """Reset every object."""
        for field in [*self._fields, *self._nested]:
            self._remove(field, stamp)
        if not self._fields and not self._nested:
            self._by_stamp.clear()

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Objects with these stamps are told; registers that are stable become plain values."""
        by_stamp = self._by_stamp
        if not by_stamp:
            return
        if len(by_stamp) <= len(stamps):
            found = [stamp for stamp in by_stamp if stamp in stamps]
        else:
            found = [stamp for stamp in stamps if stamp in by_stamp]
        if len(found) == 1:
            places = by_stamp.pop(found[0])
        else:
            places = list(dict.fromkeys([at for stamp in found for at in by_stamp.pop(stamp)]))
        fields = self._fields
        for place in places:
            if isinstance(place, tuple):
                self._stabilise_nested(place[0], place[1], stamps)
                continue
            held = fields.get(place)
            if isinstance(held, tuple):
                if held[0] in stamps:
                    fields[place] = held[1]
            elif isinstance(held, RegisterCounter):
                held.stabilise(stamps)
                settled = held.settled
                if settled is not UNSETTLED:
                    fields[place] = settled

    def _stabilise_nested(self, field: Element, code: int, stamps: Collection[Stamp]) -> None:
        children = self._nested.get(field)
        child = None if children is None else children.get(code)
        if children is None or child is None:
            return
        child.stabilise(stamps)
        if child.is_initial:
            del children[code]
            if not children:
                del self._nested[field]

    def child(self, field: Element, code: int) -> Crdt | None:
        """The object of this type that a field holds; None if it holds none.  Most of type
        ``register_counter`` are made for the call: the map does not see what is done to them."""
        if code == REGISTER:
            found = self._fields.get(field)
            return None if found is None else register_of(found)
        children = self._nested.get(field)
        return None if children is None else children.get(code)

    def get(self, field: Element) -> Any:
        """The value that a field shows; None if it has none."""
        found = self._fields.get(field)
        if found is not None:
            return shown_by(found)
        child = self._shown(field)
        return None if child is None else child.value()

    def _shown(self, field: Element) -> Crdt | None:
        children = self._nested.get(field)
        if children is not None:
            for code in sorted(children):
                if not children[code].is_empty:
                    return children[code]
        return None

    def value(self) -> dict[Element, Any]:
        """Each field with what it shows."""
        found = {field: shown_by(held) for field, held in self._fields.items()}
        for field in self._nested:
            if field not in found:
                child = self._shown(field)
                if child is not None:
                    found[field] = child.value()
        return found

    def __contains__(self, field: object) -> bool:
        return field in self._fields or (field in self._nested and self._shown(field) is not None)

    def __len__(self) -> int:
        if not self._nested:
            return len(self._fields)
        return sum([1 for _ in self])

    def __iter__(self) -> Iterator[Element]:
        """The fields, in no order that replicas agree on."""
        yield from self._fields
        for field in self._nested:
            if field not in self._fields and self._shown(field) is not None:
                yield field

    @property
    def is_initial(self) -> bool:
        """Whether it holds nothing."""
        return not self._fields and not self._nested

    @property
    def is_empty(self) -> bool:
        """Whether no field shows anything."""
        return not self._fields and all([self._shown(field) is None for field in self._nested])

    def stamps(self) -> list[Stamp]:
        """Those of its objects."""
        found: dict[Stamp, None] = {}
        for held in self._fields.values():
            if isinstance(held, tuple):
                found[held[0]] = None
            elif isinstance(held, RegisterCounter):
                found.update(dict.fromkeys(held.stamps()))
        for children in self._nested.values():
            for nested in children.values():
                found.update(dict.fromkeys(nested.stamps()))
        return list(found)

    def export(self) -> Any:
        """[[field, plain value, ...], [field, code, exported object, ...]]."""
        plain: list[Any] = []
        objects: list[Any] = []
        for field, held in self._fields.items():
            if isinstance(held, (tuple, RegisterCounter)):
                objects += (field, REGISTER, register_of(held).export())
            else:
                plain += (field, held)
        for field, children in self._nested.items():
            for code, nested in children.items():
                objects += (field, code, nested.export())
        return [plain, objects]

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> MapUw:
        """The map whose state was exported."""
        made = cls()
        plain, objects = exported
        made._fields = dict(zip(plain[::2], plain[1::2], strict=True))
        for field, code, state in zip(objects[::3], objects[1::3], objects[2::3], strict=True):
            child = class_of(code).load(state, stamp_of)
            if code == REGISTER:
                made._fields[field] = child
            else:
                made._nested.setdefault(field, {})[code] = child
            for stamp in child.stamps():
                made._note(field if code == REGISTER else (field, code), stamp)
        return made
