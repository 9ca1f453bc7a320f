"""Objects of all types under keys, with times at which keys expire: what a store replicates.

A key holds one object of each type that it was used as; users see the one whose type has the
smallest number.  Operations on the keyspace itself have the code ``KEYS``:

    key:  remove ()             what is seen of the key is undone, and of the time at which it goes
    "":   clear ()              the same for all keys
    key:  publish (message)     changes nothing: it travels in its place among the changes

Removing resets objects: what is concurrent survives.  Objects of types that cannot be reset stay.

A ``register_counter`` that is stable is its plain value, one of which nothing is known but a single
set is (stamp, value), and a stable time is a number.  So a keyspace in which all is stable is two
dictionaries, and objects without a stamp in them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from thence.crdt.base import Crdt, Element, Op, Stamp, StampOf
from thence.crdt.children import REGISTER, UNREMOVABLE, class_of
from thence.crdt.expiry import Expiry
from thence.crdt.register_counter import SET, UNSETTLED, RegisterCounter

KEYS: Final = 0
REMOVE: Final = 0
CLEAR: Final = 1
PUBLISH: Final = 2
EXPIRY: Final = Expiry.CODE
_REMOVE_OP: Final = (REMOVE,)

Place = Element | tuple[Element, int]
"""Where an object is: its key if it is a ``register_counter``, otherwise (key, code)."""
Watch = Callable[[Element, int, Op | None], None]


def check_keys(op: Op) -> str:
    """What is wrong with an operation on the keyspace itself."""
    if op and type(op[0]) is int:
        if len(op) == 1 and REMOVE <= op[0] <= CLEAR:
            return ""
        if len(op) == 2 and op[0] == PUBLISH and type(op[1]) is bytes:
            return ""
    return "expected remove (), clear () or publish (message)"


class Keyspace:
    """One replica of it."""

    __slots__ = (
        "_by_stamp",
        "_expiries",
        "_objects",
        "_plain",
        "_uncounted",
        "dirty",
        "on_expiry",
        "watch",
    )

    def __init__(self) -> None:
        # The registers: stable ones as their plain values, one set as (stamp, value).
        self._plain: dict[Element, Any] = {}
        # Objects of other types, by key and code; no inner dictionary is empty.
        self._objects: dict[Element, dict[int, Crdt]] = {}
        # Keys of ``_objects`` that are in ``_plain``, too, or show nothing.
        self._uncounted: set[Element] = set()
        # Times: stable ones as numbers of milliseconds.
        self._expiries: dict[Element, Expiry | int] = {}
        # Where to look when a stamp is stable; may also have places of what was removed since.
        self._by_stamp: dict[Stamp, list[Place]] = {}
        self.dirty: dict[Element, None] | None = None
        """Keys of which something changed, if somebody wants to know; emptied by whoever does."""
        self.on_expiry: Callable[[Element, int], None] | None = None
        """Called with a key and the time that was given for it."""
        self.watch: Watch | None = None
        """Called with key, code and operation before anything changes; None instead of an
        operation: stamps go, and no value changes."""

    # Operations

    def apply(self, key: Element, code: int, op: Op, stamp: Stamp) -> None:
        """Carry out an operation whose shape is right."""
        if self.dirty is not None:
            self.dirty[key] = None
        if self.watch is not None:
            self.watch(key, code, op)
        if code == REGISTER:
            self._apply_register(key, op, stamp)
        elif code == KEYS:
            if op[0] == REMOVE:
                self._remove(key, stamp)
            elif op[0] == CLEAR:
                self._clear(stamp)
        elif code == EXPIRY:
            self._expiry_object(key).effect(op, stamp)
            self._settle_expiry(key, stamp)
            if self.on_expiry is not None and len(op) > 1:
                self.on_expiry(key, op[1])
        else:
            objects = self._objects.get(key)
            if objects is None:
                objects = self._objects[key] = {}
            child = objects.get(code)
            if child is None:
                child = objects[code] = class_of(code)()
            child.effect(op, stamp)
            self._settle_object(key, code, stamp)

    def write(self, key: Element, value: Any) -> None:
        """Set a register to something that is stable at once: nobody else is there who could do
        something concurrent, and this is after everything."""
        if self.dirty is not None:
            self.dirty[key] = None
        if self.watch is not None:
            self.watch(key, REGISTER, (SET, value))
        self._plain[key] = value
        if self._objects:
            self._recount(key)

    def _apply_register(self, key: Element, op: Op, stamp: Stamp) -> None:
        plain = self._plain
        found: Any = plain.get(key)
        kind = type(found)
        if op[0] == SET and kind is not RegisterCounter:
            # A set drops what is stable anyway.
            if kind is not tuple or stamp.sees(found[0]):
                plain[key] = (stamp, op[1])
                self._note_register(key, stamp)
                return
        if kind is RegisterCounter:
            child: RegisterCounter = found
        else:
            child = RegisterCounter() if found is None else _register(found)
            plain[key] = child
        child.effect(op, stamp)
        if child.is_initial:
            del plain[key]
            if self._objects:
                self._recount(key)
        else:
            self._note_register(key, stamp)

    def _note_register(self, key: Element, stamp: Stamp) -> None:
        places = self._by_stamp.get(stamp)
        if places is None:
            self._by_stamp[stamp] = [key]
        else:
            places.append(key)
        if self._objects:
            self._recount(key)

    def _expiry_object(self, key: Element) -> Expiry:
        found = self._expiries.get(key)
        if not isinstance(found, Expiry):
            found = Expiry() if found is None else Expiry.of(found)
            self._expiries[key] = found
        return found

    def _settle_expiry(self, key: Element, stamp: Stamp | None) -> None:
        found = self._expiries[key]
        if isinstance(found, Expiry):
            if found.is_initial:
                del self._expiries[key]
            elif found.settled_ms is not None:
                self._expiries[key] = found.settled_ms
            elif stamp is not None:
                self._note((key, EXPIRY), stamp)

    def _note(self, place: Place, stamp: Stamp) -> None:
        places = self._by_stamp.get(stamp)
        if places is None:
            self._by_stamp[stamp] = [place]
        elif places[-1] != place:
            places.append(place)

    def _settle_object(self, key: Element, code: int, stamp: Stamp | None) -> None:
        """Forget an object of which nothing is left; otherwise look at it when ``stamp`` is
        stable."""
        objects = self._objects[key]
        if objects[code].is_initial:
            del objects[code]
            if not objects:
                del self._objects[key]
        elif stamp is not None:
            self._note((key, code), stamp)
        self._recount(key)

    def _recount(self, key: Element) -> None:
        objects = self._objects.get(key)
        if objects is not None and (key in self._plain or self._shown(objects) is None):
            self._uncounted.add(key)
        else:
            self._uncounted.discard(key)

    def _remove(self, key: Element, stamp: Stamp) -> None:
        found = self._plain.get(key)
        if type(found) is RegisterCounter:
            found.reset(stamp)
            if found.is_initial:
                del self._plain[key]
        elif found is not None and (type(found) is not tuple or stamp.sees(found[0])):
            del self._plain[key]
        objects = self._objects.get(key)
        if objects is not None:
            for code in list(objects):
                if objects[code].NAME not in UNREMOVABLE:
                    objects[code].reset(stamp)
                    self._settle_object(key, code, stamp)
            self._recount(key)
        if self._expiries and key in self._expiries:
            self._expiry_object(key).reset(stamp)
            self._settle_expiry(key, stamp)

    def _clear(self, stamp: Stamp) -> None:
        for key in [*dict.fromkeys([*self._plain, *self._objects, *self._expiries])]:
            if self.dirty is not None:
                self.dirty[key] = None
            if self.watch is not None:
                self.watch(key, KEYS, _REMOVE_OP)
            self._remove(key, stamp)
        if not self._plain and not self._objects and not self._expiries:
            self._by_stamp.clear()

    # Stability

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """These stamps, and everything before them, are stable.  ``stamps`` has a fast ``in``."""
        by_stamp = self._by_stamp
        if not by_stamp:
            return
        if len(by_stamp) <= len(stamps):
            found = [stamp for stamp in by_stamp if stamp in stamps]
        else:
            found = [stamp for stamp in stamps if stamp in by_stamp]
        # Each once, in however many of the stamps it is: it looks through all that it has.
        objects: dict[tuple[Element, int], None] = {}
        registers: dict[Element, RegisterCounter] = {}
        plain, dirty, watch = self._plain, self.dirty, self.watch
        for stamp in found:
            for place in by_stamp.pop(stamp):
                if isinstance(place, tuple):
                    objects[place] = None
                    continue
                held: Any = plain.get(place)
                kind = type(held)
                if kind is RegisterCounter:
                    registers[place] = held
                elif kind is tuple:
                    if dirty is not None:
                        dirty[place] = None
                    if watch is not None:
                        watch(place, REGISTER, None)
                    if held[0] in stamps:
                        plain[place] = held[1]
        for key, register in registers.items():
            self._stabilise_register(key, register, stamps)
        for key, code in objects:
            self._stabilise_object(key, code, stamps)

    def _stabilise_register(
        self, key: Element, register: RegisterCounter, stamps: Collection[Stamp]
    ) -> None:
        if self.dirty is not None:
            self.dirty[key] = None
        if self.watch is not None:
            self.watch(key, REGISTER, None)
        register.stabilise(stamps)
        settled = register.settled
        if settled is not UNSETTLED:
            self._plain[key] = settled

    def _stabilise_object(self, key: Element, code: int, stamps: Collection[Stamp]) -> None:
        if self.dirty is not None:
            self.dirty[key] = None
        if self.watch is not None:
            self.watch(key, code, None)
        if code == EXPIRY:
            found = self._expiries.get(key)
            if isinstance(found, Expiry):
                found.stabilise(stamps)
                self._settle_expiry(key, None)
            return
        objects = self._objects.get(key)
        if objects is not None and code in objects:
            objects[code].stabilise(stamps)
            self._settle_object(key, code, None)

    # Reading

    def get(self, key: Element) -> Any:
        """What a key shows: the value of a register itself, otherwise the object; None: nothing."""
        found = self._plain.get(key)
        if found is not None:
            if type(found) is tuple:
                return found[1]
            return found.value() if type(found) is RegisterCounter else found
        objects = self._objects.get(key)
        return None if objects is None else self._shown(objects)

    def _shown(self, objects: dict[int, Crdt]) -> Crdt | None:
        if len(objects) == 1:
            for child in objects.values():
                return None if child.is_empty else child
        for code in sorted(objects):
            if not objects[code].is_empty:
                return objects[code]
        return None

    def is_register(self, key: Element) -> bool:
        """Whether nothing but a register is kept of the key, if anything is."""
        return key not in self._objects and key not in self._expiries

    def child(self, key: Element, code: int) -> Crdt | None:
        """The object of this type at a key, which may show nothing; None if there is none.  A
        stable ``register_counter`` or time is made for the call: do nothing to it."""
        if code == REGISTER:
            found = self._plain.get(key)
            return None if found is None else _register(found)
        if code == EXPIRY:
            expiry = self._expiries.get(key)
            return Expiry.of(expiry) if isinstance(expiry, int) else expiry
        objects = self._objects.get(key)
        return None if objects is None else objects.get(code)

    def codes(self, key: Element) -> list[int]:
        """The types of which the key holds something, times apart, in their order."""
        found = sorted(self._objects.get(key, ()))
        return [REGISTER, *found] if key in self._plain else found

    def expiry_ms(self, key: Element) -> int | None:
        """When the key goes; None: never."""
        found = self._expiries.get(key)
        return found.at_ms if isinstance(found, Expiry) else found

    @property
    def expiry_count(self) -> int:
        """Of how many keys something is kept about when they go."""
        return len(self._expiries)

    def expiring(self) -> list[tuple[Element, int]]:
        """The keys that go, and when."""
        times = [(key, self.expiry_ms(key)) for key in self._expiries]
        return [(key, at_ms) for key, at_ms in times if at_ms is not None]

    def __len__(self) -> int:
        """Keys that show something."""
        return len(self._plain) + len(self._objects) - len(self._uncounted)

    def __iter__(self) -> Iterator[Element]:
        """Those keys, in no order that replicas agree on.  Nothing may change meanwhile."""
        yield from self._plain
        if self._uncounted:
            for key in self._objects:
                if key not in self._uncounted:
                    yield key
        else:
            yield from self._objects

    def is_stable(self, key: Element) -> bool:
        """Whether no stamp is left in anything at the key."""
        held = [self._plain.get(key), self._expiries.get(key), *self._objects.get(key, {}).values()]
        if isinstance(held[0], tuple):
            return False
        # A sum that no scalar can say stays an object for good.
        return not any([child.stamps() for child in held if isinstance(child, Crdt)])

    # State

    def stamps(self) -> list[Stamp]:
        """Every stamp that is in the state, each once; empty once all is stable."""
        found: dict[Stamp, None] = {}
        for child in [*self._plain.values(), *self._expiries.values()]:
            if isinstance(child, tuple):
                found[child[0]] = None
            elif isinstance(child, Crdt):
                found.update(dict.fromkeys(child.stamps()))
        for objects in self._objects.values():
            for nested in objects.values():
                found.update(dict.fromkeys(nested.stamps()))
        return list(found)

    def kept(self) -> list[Element]:
        """All keys of which anything is kept."""
        return list(dict.fromkeys([*self._plain, *self._objects, *self._expiries]))

    def export(self, key: Element) -> Any:
        """What is kept of a key, as MessagePack can say it: [] if nothing is; [plain value], or
        [plain value, code, exported object, ...], the time as an object of its own type."""
        plain = self._plain.get(key)
        found: list[Any] = [plain]
        if isinstance(plain, tuple | RegisterCounter):
            found = [None, REGISTER, _register(plain).export()]
        for code, child in self._objects.get(key, {}).items():
            found += (code, child.export())
        expiry = self.child(key, EXPIRY) if self._expiries else None
        if expiry is not None:
            found += (EXPIRY, expiry.export())
        return [] if found == [None] else found

    def load(self, key: Element, exported: Any, stamp_of: StampOf) -> None:
        """Take over what was exported; of the key nothing was there."""
        if exported[0] is not None:
            self._plain[key] = exported[0]
        for at in range(1, len(exported), 2):
            code = exported[at]
            child = class_of(code).load(exported[at + 1], stamp_of)
            if code == REGISTER:
                self._plain[key] = child
            elif isinstance(child, Expiry):
                self._expiries[key] = child
            else:
                self._objects.setdefault(key, {})[code] = child
            for stamp in child.stamps():
                self._note(key if code == REGISTER else (key, code), stamp)
            if isinstance(child, Expiry):
                self._settle_expiry(key, None)
        if key in self._objects:
            self._recount(key)

    def forget_everything(self) -> None:
        """As if it were new; ``dirty`` and ``watch`` stay, and are told nothing."""
        self._plain.clear()
        self._objects.clear()
        self._uncounted.clear()
        self._expiries.clear()
        self._by_stamp.clear()


def _register(found: Any) -> RegisterCounter:
    """A register as an object.  Unless it was one, the keyspace does not see what is done to it."""
    if type(found) is RegisterCounter:
        return found
    if type(found) is tuple:
        return RegisterCounter.pending(found[0], found[1])
    return RegisterCounter.of(found)
