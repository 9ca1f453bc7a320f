"""A register that is also a counter, as a string of Redis is.

Operations: ``set`` (value), ``inc`` (number), ``del``.

A set or del drops everything that it sees.  Concurrent sets stay side by side, and the one with the
greatest (clock, node) is shown; increments that no set has seen are added to it.  If what is shown
is no number, increments beside it count nothing until it is overwritten.

What is stable: at most one set, for a newcomer sees, and thus drops, all of them at once; it keeps
its clock and node only while it competes with a set that is not stable.  Stable increments add up
to one number, which goes into the set as soon as it cannot lose.  In the end there is nothing but a
plain value: ``settled``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Final

from thence.crdt.base import Crdt, Op, Stamp, StampOf, export_stamp, mypyc_attr
from thence.crdt.scalars import (
    Number,
    Scalar,
    difference_of,
    exact,
    export_exact,
    is_plain,
    load_exact,
    number_fault,
    number_in,
    scalar_fault,
    settled_number,
    shown,
    sum_of,
)

SET: Final = 0
INC: Final = 1
DEL: Final = 2
UNSETTLED: Final = object()
"""What ``settled`` is while there is more, or less, than a stable value."""


def check_register(op: Op) -> str:
    """What is wrong with set (value), inc (number) or del ()."""
    size = len(op)
    if size == 2:
        number = op[0]
        if type(number) is int:
            if number == SET:
                return scalar_fault(op[1])
            if number == INC:
                return number_fault(op[1])
    elif size == 1 and type(op[0]) is int and op[0] == DEL:
        return ""
    return "expected set (value), inc (number) or del ()"


@mypyc_attr(allow_interpreted_subclasses=True)
class RegisterCounter(Crdt):
    """A value that can be overwritten, counted up and deleted."""

    __slots__ = ("_incs", "_plain", "_rank", "_sets", "_sum", "_total")
    NAME: ClassVar[str] = "register_counter"
    CODE: ClassVar[int] = 1
    OPS: ClassVar[tuple[str, ...]] = ("set", "inc", "del")

    def __init__(self) -> None:
        # The stable value: bytes, str, int, float, or an exact number that is none of these.
        self._plain: Any = None
        # (clock_ms, node) of the stable set, only while other sets are not stable.
        self._rank: tuple[int, str] | None = None
        # Stable increments, only while sets are not stable.
        self._sum: Number | None = None
        self._sets: list[tuple[Stamp, Scalar]] | None = None
        self._incs: dict[Stamp, Number] | None = None
        # The sum of ``_incs``.
        self._total: Number = 0

    @classmethod
    def of(cls, plain: Scalar) -> RegisterCounter:
        """The object with this stable value."""
        made = cls()
        made._plain = plain
        return made

    @classmethod
    def pending(cls, stamp: Stamp, value: Scalar) -> RegisterCounter:
        """The object that was set once, which is not stable."""
        made = cls()
        made._sets = [(stamp, value)]
        return made

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with an operation."""
        return check_register(op)

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """Set and del drop what was before; increments add up."""
        if new[0] != INC:
            return new
        if last[0] != INC:
            return None
        amount = settled_number(sum_of(exact(last[1]), exact(new[1])))
        return None if number_fault(amount) else (INC, amount)

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Sets alone compete."""
        return bool(op[0] == SET)

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation."""
        number = op[0]
        if number == INC:
            self._add(exact(op[1]), stamp)
            return
        self._plain = None
        self._rank = None
        self._sum = None
        if self._incs is not None:
            self._drop_incs(stamp)
        sets = self._sets
        if sets is not None:
            sets = [entry for entry in sets if not stamp.sees(entry[0])]
            if number == SET:
                sets.append((stamp, op[1]))
            self._sets = sets or None
        elif number == SET:
            self._sets = [(stamp, op[1])]

    def reset(self, stamp: Stamp) -> None:
        """As del."""
        self.effect((DEL,), stamp)

    def _add(self, amount: Number, stamp: Stamp) -> None:
        incs = self._incs
        if incs is None:
            self._incs = {stamp: amount}
            self._total = amount
            return
        before = incs.get(stamp)
        incs[stamp] = amount if before is None else sum_of(before, amount)
        self._total = sum_of(self._total, amount)

    def _drop_incs(self, stamp: Stamp) -> None:
        assert self._incs is not None
        self._keep_incs({kept: n for kept, n in self._incs.items() if not stamp.sees(kept)})

    def _keep_incs(self, incs: dict[Stamp, Number]) -> None:
        self._incs = incs or None
        total: Number = 0
        for amount in incs.values():
            total = sum_of(total, amount)
        self._total = total

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """Forget stamps; fold what can be folded."""
        if self._sets is not None:
            self._stabilise_sets(self._sets, stamps)
        if self._incs is not None:
            self._stabilise_incs(self._incs, stamps)
        if self._sets is None:
            self._rank = None
            if self._sum is not None:
                number = 0 if self._plain is None else number_in(self._plain)
                if number is not None:
                    self._plain = settled_number(sum_of(number, self._sum))
                self._sum = None

    def _stabilise_sets(self, sets: list[tuple[Stamp, Scalar]], stamps: Collection[Stamp]) -> None:
        left = []
        for entry in sets:
            stamp = entry[0]
            if stamp not in stamps:
                left.append(entry)
                continue
            rank = (stamp.clock_ms, stamp.node)
            if self._rank is None or rank > self._rank:
                self._rank = rank
                self._plain = entry[1]
        self._sets = left or None

    def _stabilise_incs(self, incs: dict[Stamp, Number], stamps: Collection[Stamp]) -> None:
        # There may be many of either, and news of what is stable may come in many pieces.
        if len(incs) <= len(stamps):
            stable = [stamp for stamp in incs if stamp in stamps]
        else:
            stable = [stamp for stamp in stamps if stamp in incs]
        for stamp in stable:
            amount = incs.pop(stamp)
            self._sum = amount if self._sum is None else sum_of(self._sum, amount)
            self._total = difference_of(self._total, amount)
        if not incs:
            self._incs = None
            self._total = 0

    def value(self) -> Any:
        """The value; None if there is none."""
        found = self._plain if self._sets is None else self._winner(self._sets)
        if self._incs is None and self._sum is None:
            return shown(found)
        number = 0 if found is None else number_in(found)
        if number is None:
            return found
        if self._sum is not None:
            number = sum_of(number, self._sum)
        return shown(sum_of(number, self._total))

    def _winner(self, sets: list[tuple[Stamp, Scalar]]) -> Any:
        if len(sets) == 1 and self._rank is None:
            return sets[0][1]
        best = self._rank
        found = self._plain
        for stamp, value in sets:
            rank = (stamp.clock_ms, stamp.node)
            if best is None or rank > best:
                best = rank
                found = value
        return found

    @property
    def settled(self) -> Any:
        """The value, if it is stable and nothing else is there; otherwise ``UNSETTLED``."""
        plain = self._plain
        if plain is None or self._sets is not None or self._incs is not None:
            return UNSETTLED
        return plain if is_plain(plain) else UNSETTLED

    @property
    def is_initial(self) -> bool:
        """Whether nothing is there."""
        return (
            self._plain is None and self._sets is None and self._incs is None and self._sum is None
        )

    def stamps(self) -> list[Stamp]:
        """Those of sets and increments that are not stable."""
        found = dict.fromkeys(self._incs or ())
        for stamp, _ in self._sets or ():
            found[stamp] = None
        return list(found)

    def export(self) -> Any:
        """[stable value, rank, stable sum, sets, increments], without what is empty at its end."""
        exported: list[Any] = [export_exact(self._plain)]
        if self._sets is not None or self._incs is not None:
            sets = [[export_stamp(stamp), value] for stamp, value in self._sets or ()]
            incs = [
                [export_stamp(stamp), export_exact(n)] for stamp, n in (self._incs or {}).items()
            ]
            exported += [self._rank, export_exact(self._sum), sets, incs]
        return exported

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> RegisterCounter:
        """The object whose state was exported."""
        made = cls()
        made._plain = load_exact(exported[0])
        if len(exported) > 1:
            rank, stable, sets, incs = exported[1:]
            made._rank = None if rank is None else (rank[0], rank[1])
            made._sum = load_exact(stable)
            made._sets = [(stamp_of(*stamp), value) for stamp, value in sets] or None
            made._keep_incs({stamp_of(*stamp): load_exact(n) for stamp, n in incs})
        return made
