"""What a replicated data type is: pure, operation-based, compacted by stability.

Baquero, Almeida, Shoker, "Pure Operation-Based Replicated Data Types" (arXiv 1710.04469): a replica
sends its operations themselves, and what an operation does is decided from its *stamp*, which says
what happened before it.  State is a log of (stamp, operation), from which operations go that later
ones make redundant, and what is stable, which is kept without stamps.

How a type is used, at every replica alike:

    op = x.prepare("add", "milk")    at the origin: checks the call; reads, changes nothing
    x.effect(op, stamp)              at every replica, in causal order; at the origin first of all
    x.stabilise(stamps)              nothing concurrent with these can come any more, and everything
                                     that comes is after them: their stamps are forgotten
    x.value()                        what users read
    x.reset(stamp)                   everything that the stamp sees is undone; what is concurrent
                                     stays.  Maps and keyspaces remove their children so

Rules for whoever writes a type:

- Only the newcomer's stamp may be asked (``stamp.sees(stored)``), two stored ones are never
  compared.
- Several operations may share one stamp (a batch): they take effect in their order, the same at all
  replicas, and a stamp sees itself.  So "stored before the newcomer" is ``stamp.sees(stored)``.
- What sets or dictionaries are iterated in must not reach the state: replicas get operations in
  different orders.
- An operation is a tuple of a number, the place of its name in ``OPS``, and arguments that
  MessagePack can say.  What another replica sends has its shape checked by ``check``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Final, Protocol

from thence.errors import LocalProtocolError

Op = Sequence[Any]
"""(place of the name in ``OPS``, argument, ...); a tuple here, a list if a peer sent it."""
Element = str | bytes | int | float
"""What sets hold and maps have as keys."""


class Stamp(Protocol):
    """The tag of a batch of operations, as data types see it.  One object for each batch and
    replica: two stamps are the same if they are the same object."""

    @property
    def node(self) -> str:
        """The replica it is from: the same text at every replica."""

    @property
    def seq(self) -> int:
        """The number of the batch at its replica."""

    @property
    def clock_ms(self) -> int:
        """The wall clock of its replica when it was made; 0 if the batch does not say."""

    def sees(self, stored: Stamp) -> bool:
        """Whether ``stored`` is this stamp or happened before it."""


StampOf = Callable[[str, int, int], Stamp]
"""The stamp of (node, seq, clock_ms) when a state is loaded: one object for each."""


try:  # it comes with the compiler, to which it says that types may also be left to the interpreter
    from mypy_extensions import mypyc_attr as mypyc_attr  # noqa: PLC0414, for other modules
except ImportError:

    def mypyc_attr(*attrs: str, **kwattrs: Any) -> Any:  # type: ignore[misc]
        return lambda made: made


@mypyc_attr(allow_interpreted_subclasses=True)
class Crdt:
    """One replica of one object.  Subclasses have ``__slots__``: there may be millions."""

    __slots__ = ()
    NAME: ClassVar[str]
    """``<type>_<semantics>``: its name in ``CRDTS``, and of its module."""
    CODE: ClassVar[int]
    """Its number in operations and snapshots; never used for another type."""
    OPS: ClassVar[tuple[str, ...]]
    """The names of its operations; their places are in the operations."""

    def prepare(self, name: str, *arguments: Any) -> Op:
        """The operation that a call of a user is; LocalProtocolError if it makes no sense."""
        op = (op_number(self, name), *arguments)
        fault = self.check(op)
        if fault:
            raise LocalProtocolError(f"{self.NAME}.{name}: {fault}")
        return op

    @classmethod
    def check(cls, op: Op) -> str:
        """What is wrong with the shape of an operation, which may be a peer's; empty if nothing.
        ``op[0]`` is not checked yet either.  Never raises."""
        raise NotImplementedError

    @staticmethod
    def asks_clock(op: Op) -> bool:
        """Whether what the operation does may depend on ``clock_ms`` of its stamp.  A batch in
        which none does need not carry it."""
        return True

    def effect(self, op: Op, stamp: Stamp) -> None:
        """Carry out an operation whose shape is right."""
        raise NotImplementedError

    @staticmethod
    def merge(last: Op, new: Op) -> Op | None:
        """One operation for two of the same stamp, the second of which comes after the first with
        no other on this object between; None if there is none that does the same everywhere."""
        return None

    def stabilise(self, stamps: Collection[Stamp]) -> None:
        """These stamps, and everything before them, are stable.  ``stamps`` has a fast ``in``."""
        raise NotImplementedError

    def reset(self, stamp: Stamp) -> None:
        """Undo everything that ``stamp`` sees.  LocalProtocolError if the type cannot."""
        raise NotImplementedError

    def value(self) -> Any:
        """What users read."""
        raise NotImplementedError

    @property
    def is_initial(self) -> bool:
        """Whether it is as before any operation, so that nobody need keep it."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether users see nothing in it, so that maps do not show it.  Stability never changes
        that; it does change ``is_initial`` where something invisible is kept until it is stable."""
        return self.is_initial

    def stamps(self) -> list[Stamp]:
        """Every stamp that is in its state, each once; empty once all is stable."""
        raise NotImplementedError

    def export(self) -> Any:
        """Its state, as MessagePack can say it; stamps as ``export_stamp`` gives them."""
        raise NotImplementedError

    @classmethod
    def load(cls, exported: Any, stamp_of: StampOf) -> Crdt:
        """The object whose state was exported.  Stamps that are stable by now: the caller
        stabilises them."""
        raise NotImplementedError


def op_number(of: type[Crdt] | Crdt, name: str) -> int:
    """The place of an operation's name; LocalProtocolError if there is none of that name."""
    try:
        return of.OPS.index(name)
    except ValueError:
        raise LocalProtocolError(
            f"{of.NAME} has no operation {name!r}; it has {', '.join(of.OPS)}"
        ) from None


def export_stamp(stamp: Stamp) -> tuple[str, int, int]:
    """How a stamp is written down; ``stamp_of(*exported)`` gives it back."""
    return stamp.node, stamp.seq, stamp.clock_ms


INTEGER_MAX: Final = 2**63 - 1
INTEGER_MIN: Final = -(2**63)
MERGED_ELEMENTS_MAX: Final = 4096
"""How many elements an operation may have to be merged with more."""


def merge_amounts(last: Op, new: Op) -> Op | None:
    """Two operations of one amount each as one of the sum, if they are of the same name and the sum
    is an amount."""
    if last[0] != new[0] or last[1] + new[1] > INTEGER_MAX:
        return None
    return new[0], last[1] + new[1]


def merge_elements(last: Op, new: Op) -> Op | None:
    """Two operations on elements as one on all of them, if they are of the same name."""
    if last[0] != new[0] or len(last) > MERGED_ELEMENTS_MAX:
        return None
    return (*last, *new[1:])
