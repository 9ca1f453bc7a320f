"""Objects that keep all their operations: clones between two cuts, undo and redo.

Thesis 9.1.1 rebuilds states that are free of what turned out to be unsafe.  That needs every
operation with its stamp; an object that is compacted has dropped, say, an add as soon as a remove
of it came, and without the remove nothing would bring the add back.  So it is opt-in: ``Retained``
has an object and the log of all that was done to it, and both grow with every operation.

    milk = Retained(SetAw)
    milk.effect(milk.object.prepare("add", "milk"), stamp)
    milk.clone(None, cut)           a new one, with what the cut sees
    milk.clone(cut, later, safe)    ``safe``, at ``cut`` so far, goes on to ``later``
    milk.undo(stamp)                as if the operations of the stamp had not been done
    milk.redo(stamp)                as if they had not been undone

The thesis copies what is between the bounds: t <= t'' <= t'.  Printed so, it loses every operation
that is concurrent with t and before t': it is not after t.  Here the bound excludes instead: what
t' sees and t does not.

Undoing is local, as being told what is unsafe is.  Replicas that have the same operations and have
undone the same stamps show the same, in whatever order and whenever they did.  Each undo and redo
carries the whole log out again.

The indices of a sequence count in what their sender saw, so nothing it saw can be taken away:
whatever has a sequence in it can be cloned from the start, or onto a clone, but not undone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final, Protocol

from thence.crdt.base import Crdt, Op, Stamp
from thence.crdt.children import MAPS, UPDATE
from thence.crdt.sequence import Sequence
from thence.errors import LocalProtocolError

RETAINED_OPS_MAX: Final = 1_000_000
"""When more come than this, nothing is retained any more."""


class Bound(Protocol):
    """What clones begin after and go up to: a stamp, or a ``Cut``."""

    def sees(self, stored: Stamp) -> bool:
        """Whether this is behind the bound."""


class Cut:
    """A version vector: how many batches of each replica."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = dict(counts)

    def sees(self, stored: Stamp) -> bool:
        """Whether it counts the batch of a stamp; not one that is not sent, whose number is 0."""
        return 0 < stored.seq <= self._counts.get(stored.node, 0)


class Retained:
    """An object of a data type, and everything that was done to it."""

    __slots__ = ("_has_sequence", "_log", "_ops_max", "_stable", "_undone", "kind", "object")

    def __init__(self, kind: type[Crdt], ops_max: int = RETAINED_OPS_MAX) -> None:
        self.kind: Final = kind
        self.object = kind()
        """What users read and prepare operations with; another one after undo and redo."""
        self._ops_max = ops_max
        # In the order in which they came, resets as None; None once there were too many.
        self._log: list[tuple[Stamp, Op | None]] | None = []
        self._has_sequence = kind is Sequence
        self._stable: dict[Stamp, None] = {}
        self._undone: dict[Stamp, None] = {}

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation, and keep it; if its stamp is undone already, only keep it."""
        if stamp not in self._undone:
            self.object.effect(op, stamp)
        self._has_sequence = self._has_sequence or _is_of_sequence(self.kind, op)
        self._keep(stamp, op)

    def reset(self, stamp: Stamp) -> None:
        """The object is removed, as far as the stamp sees it; that is an operation, too."""
        if stamp not in self._undone:
            self.object.reset(stamp)
        self._keep(stamp, None)

    def _keep(self, stamp: Stamp, op: Op | None) -> None:
        if self._log is None:
            return
        if len(self._log) >= self._ops_max:
            self._log = None
            self._stable.clear()
            return
        self._log.append((stamp, op))

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """The object forgets these stamps.  The log does not."""
        self.object.stabilise(stamps)
        if self._log is not None:
            self._stable.update(dict.fromkeys(stamps))

    def value(self) -> Any:
        """What users read."""
        return self.object.value()

    @property
    def is_complete(self) -> bool:
        """Whether everything that was done to it is retained still."""
        return self._log is not None

    @property
    def undone(self) -> list[Stamp]:
        """The stamps that are undone."""
        return list(self._undone)

    def clone(self, since: Bound | None, upto: Bound, into: Retained | None = None) -> Retained:
        """A new object with the operations that ``upto`` sees and ``since`` does not, and that are
        not undone; or ``into``, which is at ``since`` and goes on from there.

        Without ``into``, what came after ``since`` is carried out as if nothing had been before.
        """
        log = self._retained()
        if into is None:
            if since is not None and self._has_sequence:
                raise LocalProtocolError(
                    "the indices of a sequence count in what was before: give clone the object "
                    "that is at its first bound"
                )
            into = Retained(self.kind, self._ops_max)
        elif into.kind is not self.kind:
            raise LocalProtocolError(f"a {self.kind.NAME} cannot go on as a {into.kind.NAME}")
        for stamp, op in log:
            if stamp in self._undone or not upto.sees(stamp):
                continue
            if since is None or not since.sees(stamp):
                if op is None:
                    into.reset(stamp)
                else:
                    into.effect(op, stamp)
        return into

    def undo(self, stamp: Stamp) -> None:
        """Show what there would be without the operations of a stamp.  What is undone already stays
        so."""
        self._require_undoable(stamp)
        if stamp not in self._undone:
            self._undone[stamp] = None
            self._carry_out_again()

    def redo(self, stamp: Stamp) -> None:
        """Take an undo back, if there was one."""
        self._require_undoable(stamp)
        if stamp in self._undone:
            del self._undone[stamp]
            self._carry_out_again()

    def _retained(self) -> list[tuple[Stamp, Op | None]]:
        if self._log is None:
            raise LocalProtocolError(
                f"there were more than {self._ops_max} operations: they are not retained any more"
            )
        return self._log

    def _require_undoable(self, stamp: Stamp) -> None:
        log = self._retained()
        if self._has_sequence:
            raise LocalProtocolError(
                "the indices of a sequence count in what was before: nothing of that can be undone"
            )
        if not any([stamp is kept for kept, _ in log]):
            raise LocalProtocolError(f"nothing was done here by {_said(stamp)}")

    def _carry_out_again(self) -> None:
        made = self.kind()
        for stamp, op in self._retained():
            if stamp not in self._undone:
                if op is None:
                    made.reset(stamp)
                else:
                    made.effect(op, stamp)
        made.stabilise(self._stable)
        self.object = made


def retained(of: Retained | Crdt) -> Retained:
    """The object itself; LocalProtocolError if it does not retain its operations."""
    if isinstance(of, Retained):
        return of
    raise LocalProtocolError(
        f"this {of.NAME} keeps no operations: clone, undo and redo need Retained({of.NAME}) from "
        "the start"
    )


def _said(stamp: Any) -> str:
    if hasattr(stamp, "node") and hasattr(stamp, "seq"):
        return f"batch {stamp.seq} of {stamp.node}"
    return repr(stamp)


def _is_of_sequence(kind: type[Crdt], op: Op) -> bool:
    """Whether an operation is one on a sequence in maps."""
    code = kind.CODE
    while code in MAPS and op[0] == UPDATE:
        code, op = op[2], op[3]
    return code == Sequence.CODE
