"""Data types over a group, by name: ``thence.crdt.bind(group)``.

    objects = bind(group)
    cart = objects.open("cart", "set_aw")
    cart.add("milk")
    cart.value()                        {"milk"}

Operations take effect here at once, and at the other members in one go with everything else that is
done here in the same turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from thence.client.group import Group
from thence.client.replica import Replica
from thence.client.retaining import Retaining
from thence.crdt.base import Crdt, Element, Op, Stamp
from thence.crdt.counter_bounded import CounterBounded
from thence.crdt.counter_ranged import CounterRanged
from thence.crdt.keyspace import KEYS
from thence.crdt.registry import CRDTS
from thence.crdt.retained import Bound, Cut
from thence.crdt.scalars import element_of
from thence.errors import Full, LocalProtocolError

Changed = Callable[["Handle"], object]


class Handle:
    """One object.  Its operations are methods: those of its type (``thence crdts``)."""

    def __init__(self, objects: Objects, name: Element, kind: type[Crdt]) -> None:
        self.objects = objects
        self.name = name
        self.kind = kind

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name.startswith("_"):  # asked by copy and pickle, of a handle that is not made yet
            raise AttributeError(name)
        kind: type[Crdt] = self.__dict__["kind"]
        if name not in kind.OPS:
            raise AttributeError(f"{kind.NAME} has no {name!r}: it has {', '.join(kind.OPS)}")
        return lambda *arguments: self.do(name, *arguments)

    def do(self, operation: str, *arguments: Any) -> None:
        """Carry out an operation; ``Full`` if the group holds as much as it may."""
        self.objects.do(self, operation, arguments)

    @property
    def crdt(self) -> Crdt:
        """The data type itself, to be read only."""
        found = self.objects.replica.keyspace.child(self.name, self.kind.CODE)
        return self.kind() if found is None else found

    def value(self) -> Any:
        """What users read; of an object that retains its operations, without what is undone."""
        found = self.objects.retaining(self)
        return self.crdt.value() if found is None else found.retained.value()

    @property
    def retaining(self) -> Retaining:
        """What was done to it, with stamps; LocalProtocolError unless it was opened so."""
        found = self.objects.retaining(self)
        if found is None:
            raise LocalProtocolError(
                f"{self.name!r} keeps no operations: clone, undo and redo need "
                "open(..., retain=True) from the start"
            )
        return found

    def clone(self, since: Bound | None, upto: Bound) -> Crdt:
        """A new object with the operations that ``upto`` sees and ``since`` does not (None: all
        that it sees); bounds are stamps of this object, or ``Cut({node: number})``.  What is done
        next is another batch."""
        self.objects.replica.flush()  # what is not sent has no number that a cut could count
        retaining = self.retaining
        for bound in (since, upto):
            is_bound = bound is None or isinstance(bound, Cut) or retaining.has(bound)
            if not is_bound or upto is None:
                raise LocalProtocolError(
                    f"a bound is a stamp of this object or a Cut, not {bound!r}"
                )
        return retaining.retained.clone(since, upto).object

    def undo(self, stamp: Stamp | None = None) -> Stamp:
        """Show what there would be without a batch (by default the last one that did something to
        this object and is not undone), here only; its stamp, for ``redo``.  What is done next is
        another batch, so within ``objects.batch()`` what was done in it cannot be undone."""
        replica, retaining = self.objects.replica, self.retaining
        replica.flush()
        found = retaining.latest if stamp is None else stamp
        if found is None:
            raise LocalProtocolError(f"nothing is left to undo of {self.name!r}")
        if retaining.has(found) and found.seq == 0 and not replica.failure:
            raise LocalProtocolError("what is being done can be undone when its batch is over")
        retaining.retained.undo(found)
        return found

    def redo(self, stamp: Stamp) -> None:
        """Take an undo back."""
        self.retaining.retained.redo(stamp)

    @property
    def is_stable(self) -> bool:
        """Whether every member has all of it."""
        return not self.crdt.stamps()

    def __repr__(self) -> str:
        return f"<{self.kind.NAME} {self.name!r}: {self.value()!r}>"


class Objects:
    """The objects of one member."""

    def __init__(self, replica: Replica | None = None) -> None:
        self.replica = Replica() if replica is None else replica
        self._changed: dict[tuple[Element, int], list[tuple[Handle, Changed]]] = {}
        self._told: dict[tuple[Element, int], None] = {}
        self._retained: dict[tuple[Element, int], Retaining] = {}

    @property
    def hooks(self) -> dict[str, Any]:
        """For a group that has a journal, or whose members change: ``Group("a", **hooks)``, and
        ``attach`` once it is started."""
        replica = self.replica
        return {"snapshot": replica.snapshot, "restore": self._restore, "kept": replica}

    def _restore(self, chunks: Iterator[bytes]) -> None:
        # What others did before is not retained here, and what was done here may be nowhere.
        self._retained.clear()
        self.replica.followers.forget()
        self.replica.restore(chunks)
        self._told.update(dict.fromkeys(self._changed))

    def attach(self, group: Group) -> Objects:
        """Take all events of a started group."""
        self.replica.attach(group)
        return self

    def open(self, name: Element, kind: str | type[Crdt], retain: bool = False) -> Handle:
        """The object of this name and type; it is there from its first operation on.

        ``retain``: keep, in this process, all that is done to it, for ``clone``, ``undo`` and
        ``redo``; open it so before anything is."""
        found = CRDTS.get(kind) if isinstance(kind, str) else kind
        if not (isinstance(found, type) and issubclass(found, Crdt)) or found is Crdt:
            raise LocalProtocolError(f"no data type is named {kind}: there are {', '.join(CRDTS)}")
        kind = found
        name = element_of(name)
        place = (name, kind.CODE)
        if retain and place not in self._retained:
            self._group()  # what comes back with it is not retained
            if self.replica.keyspace.child(name, kind.CODE) is not None:
                raise LocalProtocolError(
                    f"something was done to {name!r} before: it is not retained"
                )
            self._retained[place] = Retaining(kind)
            self.replica.followers.add(name, kind.CODE, self._retained[place])
        return Handle(self, name, kind)

    def retaining(self, handle: Handle) -> Retaining | None:
        """What was done to an object, if that is retained."""
        return self._retained.get((handle.name, handle.kind.CODE))

    def do(self, handle: Handle, operation: str, arguments: tuple[Any, ...]) -> None:
        """Carry out an operation on an object."""
        self._must_have_room()
        crdt = handle.crdt
        if isinstance(crdt, CounterBounded | CounterRanged):
            members = self.replica.group.members
            if operation.startswith("transfer") and arguments and arguments[0] not in members:
                raise LocalProtocolError(
                    f"{arguments[0]!r} is no member, and what it gets would be lost: there are "
                    f"{', '.join(members)}"
                )
            op = crdt.prepare(operation, *arguments, me=self.replica.name)
        else:
            op = crdt.prepare(operation, *arguments)
        self.replica.update(handle.name, handle.kind.CODE, op)

    def remove(self, name: Element) -> None:
        """Undo what is there under a name, of all types; what is concurrent survives."""
        self._must_have_room()
        self.replica.remove(element_of(name))

    def _group(self) -> Group:
        if not self.replica.is_attached:
            raise LocalProtocolError("these objects have no group: attach them to a started one")
        return self.replica.group

    def _must_have_room(self) -> None:
        if self.replica.failure:
            raise LocalProtocolError(self.replica.failure)
        group = self._group()
        group.must_be_open()
        if not group.has_room:
            raise Full("the group holds as much as it may: wait with `await group.until_room()`")

    @contextmanager
    def batch(self) -> Iterator[None]:
        """What is done inside takes effect at the other members in one go, up to 128 MiB.

        Do not await inside: LocalProtocolError at the end if something came meanwhile, because what
        was done before that had to be sent on its own."""
        self._group()
        self.replica.begin_whole()
        is_whole = True
        try:
            yield
        finally:
            is_whole = self.replica.end_whole()
        if not is_whole:
            raise LocalProtocolError(
                "the batch is sent in parts: something was awaited in it, and came. Nothing is lost"
            )

    def names(self) -> list[Element]:
        """Of the objects that show something."""
        return list(self.replica.keyspace)

    def on_change(self, handle: Handle, callback: Changed) -> None:
        """Call this with the object after it changed, here or because of others, once in a turn.
        What it raises goes to the exception handler of the event loop."""
        if not self._changed:
            self.replica.watchers.add(self._watch)
            self.replica.each_turn(self._tell)
        place = (handle.name, handle.kind.CODE)
        self._changed.setdefault(place, []).append((handle, callback))

    def _watch(self, key: Element, code: int, op: Op | None) -> None:
        if op is None:
            return
        if code == KEYS:
            for place in self._changed:
                if place[0] == key:
                    self._told[place] = None
        elif (key, code) in self._changed:
            self._told[key, code] = None

    def _tell(self) -> None:
        told, self._told = self._told, {}
        for place in told:
            for handle, callback in self._changed[place]:
                try:
                    callback(handle)
                except Exception as error:  # the application's: the node goes on
                    asyncio.get_running_loop().call_exception_handler(
                        {"message": f"a callback of {handle.name!r} failed", "exception": error}
                    )


def bind(group: Group, replica: Replica | None = None) -> Objects:
    """Objects over a started group, all of whose events they take from now on.

    With a journal, or where members change, make ``Objects()`` first and give its ``hooks`` to the
    group.
    """
    return Objects(replica).attach(group)
