"""Data types with one bug each, such as one is tempted to write: the executions have to find them.

``MUTANTS`` has, for each, what it breaks: the type whose specification it is held to, and whether
it is in that type's place or in that of the objects of a map.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple

from thence.crdt import children
from thence.crdt.base import Crdt, Op, Stamp
from thence.crdt.counter_bounded import CounterBounded
from thence.crdt.counter_pn import CounterPn
from thence.crdt.counter_ranged import INC as INC_UP
from thence.crdt.counter_ranged import CounterRanged
from thence.crdt.counter_resettable import CounterResettable
from thence.crdt.expiry import NEVER_MS, NOTHING_MS, Expiry
from thence.crdt.flag_dw import FlagDw
from thence.crdt.flag_ew import DISABLE, FlagEw
from thence.crdt.map_rw import MapRw
from thence.crdt.map_uw import MapUw
from thence.crdt.register_counter import RegisterCounter
from thence.crdt.register_lww import NOTHING, SET, RegisterLww
from thence.crdt.register_mv import RegisterMv
from thence.crdt.sequence import Sequence
from thence.crdt.set_2p import REMOVE, Set2p
from thence.crdt.set_aw import SetAw
from thence.crdt.set_g import SetG
from thence.crdt.set_rw import ADD, CLEAR, SetRw
from thence.crdt.zset_uw import SortedSet


class SeesAll:
    """A stamp that is taken to be after everything that is here."""

    def __init__(self, stamp: Stamp) -> None:
        self.node = stamp.node
        self.seq = stamp.seq
        self.clock_ms = stamp.clock_ms

    def sees(self, stored: Stamp) -> bool:
        return True


class ClampedCounter(CounterPn):
    """Never below zero, wherever it is counted."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        self._total = max(0, self._total)


class CounterThatForgets(CounterResettable):
    """A reset takes what it has not seen as well."""

    def reset(self, stamp: Stamp) -> None:
        super().reset(SeesAll(stamp))


class CounterThatRemembers(CounterResettable):
    """A reset leaves what is stable."""

    def reset(self, stamp: Stamp) -> None:
        stable = self._stable
        super().reset(stamp)
        self._stable = stable


class UnguardedCounter(CounterBounded):
    """Whoever asks may decrement."""

    def prepare(self, name: str, *arguments: Any, me: str = "") -> Op:
        return Crdt.prepare(self, name, *arguments)


class GenerousCounter(CounterBounded):
    """Who transfers rights keeps them."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        if len(op) == 3:
            self._rights.add(stamp.node, op[2])


class EndlessCounter(CounterRanged):
    """An increment uses nothing up."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        if op[0] == INC_UP:
            self._up.add(stamp.node, op[1])


def rank(stamp: Stamp) -> tuple[int, str]:
    return stamp.clock_ms, stamp.node


class DroppingRegister(RegisterLww):
    """A concurrent set that loses by its clock is dropped at once."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        if self._sets:
            self._sets = [max(self._sets, key=lambda entry: rank(entry[0]))]


class ForgetfulRegister(RegisterLww):
    """A stable set forgets its clock while others compete with it."""

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        super().stabilise(stamps)
        self._rank = None


class SilentRegister(RegisterLww):
    """It does not ask for the clock that it compares."""

    @staticmethod
    def asks_clock(op: Op) -> bool:
        return False


class FormBRegister(RegisterLww):
    """Of two sets the one with the smaller (clock, node) goes, seen or not.  Right by itself if
    clocks extend happens-before; not in a map that undoes only what it has seen."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        if op[0] != SET:
            self.reset(stamp)
            return
        if self._sets and rank(self._sets[0][0]) > rank(stamp):
            return
        if self._rank is not None and self._rank > rank(stamp):
            return
        self._sets = [(stamp, op[1])]
        self._stable = NOTHING
        self._rank = None


class LastStableRegister(RegisterMv):
    """There is room for one stable value."""

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        super().stabilise(stamps)
        self._stable = self._stable[-1:]


class DeafRegister(RegisterCounter):
    """A set takes increments that it has not seen."""

    def _drop_incs(self, stamp: Stamp) -> None:
        super()._drop_incs(SeesAll(stamp))


class HastyRegister(RegisterCounter):
    """Stable sets do not compete any more."""

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        super().stabilise(stamps)
        self._rank = None


class RemoveAll(SetAw):
    """A remove takes adds that it has not seen."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp if op[0] == ADD else SeesAll(stamp))


class CompactSetRw(SetRw):
    """The form in the paper: whatever comes drops what it sees of its element, removes too."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        if op[0] == CLEAR:
            self.reset(stamp)
            return
        for element in op[1:]:
            self._stable.discard(element)
            for log in (self._adds, self._removes):
                kept = [old for old in log.get(element, ()) if not stamp.sees(old)]
                log.pop(element, None)
                if kept:
                    log[element] = kept
            self._replace(self._adds if op[0] == ADD else self._removes, element, stamp)

    def value(self) -> set[Any]:
        return super().value() - set(self._removes)

    def __contains__(self, element: object) -> bool:
        return element in self.value()

    def __len__(self) -> int:
        return len(self.value())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value())

    @property
    def is_empty(self) -> bool:
        return not self.value()


class WipedSetRw(SetRw):
    """Undone in a map, it forgets the removes that reject concurrent adds."""

    def reset(self, stamp: Stamp) -> None:
        super().reset(stamp)
        self._removes.clear()


class SetThatLosesRemoves(SetRw):
    """Its state for newcomers has no removes."""

    def export(self) -> Any:
        return [*super().export()[:2], []]


class SetMergedBadly(SetG):
    """Of two adds in one batch the second counts."""

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        return new


class SetThatForgives(Set2p):
    """What is not there when it is removed may come."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        if op[0] == REMOVE:
            op = (REMOVE, *[element for element in op[1:] if element in self._elements])
        super().effect(op, stamp)


class FlagOff(FlagEw):
    """Off is off."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp if op[0] != DISABLE else SeesAll(stamp))


class FlagThatForgets(FlagDw):
    """A disable is not kept."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        self._disables = []


class FlagEnabledTwice(FlagDw):
    """An enable that has seen a disable ends it."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        if op[0] == 0:
            self._disables = [kept for kept in self._disables if not stamp.sees(kept)]


class MapThatForgets(MapUw):
    """A remove takes the object, updates that it has not seen and all."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, SeesAll(stamp) if op[0] == children.REMOVE else stamp)


class MapThatSettles(MapUw):
    """Objects in it are not told what is stable."""

    def _stabilise_nested(self, field: Any, code: int, stamps: Collection[Stamp]) -> None:
        return


class WipingMap(MapRw):
    """A set of fields that removes win, and an object beside each that they wipe."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        markers = self._markers
        if op[0] == children.UPDATE and self.child(op[1], op[2]) is not None:
            self._markers = {}
        super().effect(op, stamp)
        self._markers = markers


class MapThatUnmarks(MapRw):
    """An update that has seen a marker ends it."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, stamp)
        if op[0] == children.UPDATE and op[1] in self._markers:
            kept = [marker for marker in self._markers[op[1]] if not stamp.sees(marker)]
            self._markers[op[1]] = kept


class ScoresThatForget(SortedSet):
    """A remove takes increments that it has not seen."""

    def effect(self, op: Op, stamp: Stamp) -> None:
        super().effect(op, SeesAll(stamp) if op[0] == children.REMOVE else stamp)


class HastyExpiry(Expiry):
    """A stable never is forgotten while times compete with it."""

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        super().stabilise(stamps)
        if self._stable_ms == NEVER_MS:
            self._stable_ms = NOTHING_MS


class HastySequence(Sequence):
    """Whatever is here is stable."""

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        super().stabilise(dict.fromkeys(self.stamps()))


class SequenceMergedBadly(Sequence):
    """Two inserts are one, wherever they are."""

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        if last[0] == new[0] == 0 and type(last[2]) is type(new[2]):
            return 0, last[1], last[2] + new[2]
        return None


class Mutant(NamedTuple):
    """A type with a bug."""

    kind: type[Crdt]
    name: str
    """Whose specification it breaks."""
    is_nested: bool = False
    """It is the type of objects in a map of that name."""
    is_lamport: bool = False


MUTANTS = (
    Mutant(ClampedCounter, "counter_pn"),
    Mutant(CounterThatForgets, "counter_resettable"),
    Mutant(CounterThatRemembers, "counter_resettable"),
    Mutant(UnguardedCounter, "counter_bounded"),
    Mutant(GenerousCounter, "counter_bounded"),
    Mutant(EndlessCounter, "counter_ranged"),
    Mutant(DroppingRegister, "register_lww"),
    Mutant(ForgetfulRegister, "register_lww"),
    Mutant(SilentRegister, "register_lww"),
    Mutant(FormBRegister, "map_uw", is_nested=True, is_lamport=True),
    Mutant(LastStableRegister, "register_mv"),
    Mutant(DeafRegister, "register_counter"),
    Mutant(HastyRegister, "register_counter"),
    Mutant(RemoveAll, "set_aw"),
    Mutant(CompactSetRw, "set_rw"),
    Mutant(WipedSetRw, "map_uw", is_nested=True),
    Mutant(SetThatLosesRemoves, "set_rw"),
    Mutant(SetMergedBadly, "set_g"),
    Mutant(SetThatForgives, "set_2p"),
    Mutant(FlagOff, "flag_ew"),
    Mutant(FlagThatForgets, "flag_dw"),
    Mutant(FlagEnabledTwice, "flag_dw"),
    Mutant(MapThatForgets, "map_uw"),
    Mutant(MapThatSettles, "map_uw"),
    Mutant(WipingMap, "map_rw"),
    Mutant(MapThatUnmarks, "map_rw"),
    Mutant(ScoresThatForget, "zset_uw"),
    Mutant(HastyExpiry, "expiry"),
    Mutant(HastySequence, "sequence"),
    Mutant(SequenceMergedBadly, "sequence"),
)
