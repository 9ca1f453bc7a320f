"""One node in a world of councils: a real council on a model of what it stands on.

Of the messages of the group only numbers are left: how many of each member are delivered here, and
which came and wait for others.  A site can be copied, and has a key for all that its future depends
on; both read the attributes of the council one by one, so that one that is added is not left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from thence.client.council import Council, Proposal
from thence.client.entries import AcceptorState
from thence.wire.membership import Accepted, Installed, Promise, Refused, View

Item = Any
"""In a queue: the number of a message of its sender, a ``Handed``, or what a council says."""
NOW: Final = 0.0
"""Time stands still: what is asked again is asked again by a step of its own."""

LIVE, DOWN, DEAD = "live", "down", "dead"
"""A node that is down comes back with what it had written down; a dead one does not."""


class Handed(msgspec.Struct, frozen=True):
    """The answer to a ``Pull``: these messages of a member."""

    view: int
    slot: int
    first: int
    last: int


class Site:
    """One node: its council, and how far it is with everybody's messages."""

    def __init__(self, slot: int, view: View, delivered: dict[int, int]) -> None:
        self.slot = slot
        self.state = LIVE
        self.council = Council(slot, view, self)
        self.delivered = delivered
        self.held: dict[int, list[int]] = {}
        """By sender, what came and waits for others' messages."""
        self.frozen: set[int] = set()
        self.is_leaving = False
        self.views: list[tuple[View, View, set[int]]] = []
        """What was installed in this step: the view before, the view, who was frozen."""
        self.kept: AcceptorState | None = None
        """What a node that is down has written down."""
        self._key: int | None = None
        self._would_tick: bool | None = None

    def copy(self) -> Site:
        """Another one that is changed without changing this one."""
        other = Site.__new__(Site)
        vars(other).update(vars(self))
        other.delivered = self.delivered.copy()
        other.held = {slot: held.copy() for slot, held in self.held.items()}
        other.frozen = self.frozen.copy()
        other.views = []
        other._key = other._would_tick = None
        other.council = _copy_council(self.council, other)
        return other

    @property
    def view(self) -> View:
        """The view here."""
        return self.council.view

    @property
    def sent(self) -> int:
        """How many messages this node has sent."""
        return self.delivered.get(self.slot, 0)

    def have(self, slot: int) -> int:
        """The last message of that node that came here in order."""
        return self.delivered.get(slot, 0) + len(self.held.get(slot, ()))

    def would_tick(self) -> bool:
        """Whether a tick of the clock changes something, apart from asking again."""
        if self._would_tick is None:
            other = self.copy()
            other.council.tick(NOW)
            self._would_tick = bool(other.council.out) or _plain(other.council) != _plain(
                self.council
            )
        return self._would_tick

    def key(self, names: dict[Any, int]) -> int:
        """A number for all that the future of this node depends on."""
        if self._key is None:
            council: Any = _plain(self.council) if self.state == LIVE else self.view
            plain = (
                self.state, council, _plain(self.delivered), _plain(self.held),
                _plain(self.frozen), self.is_leaving, self.kept,
            )  # fmt: skip
            self._key = names.setdefault(plain, len(names))
        return self._key

    # ---- what the council asks for (Plane) -------------------------------------------------------

    def reached(self, slot: int) -> int:
        """The number of the last message of that member that is delivered here."""
        return self.delivered.get(slot, 0)

    def freeze(self, slots: Iterable[int]) -> None:
        """Throw away what is held back of these, and take nothing of them but relays."""
        for slot in slots:
            self.frozen.add(slot)
            self.held.pop(slot, None)

    def install(self, old: View, new: View) -> None:
        """This is the view now; nobody is frozen."""
        self.views.append((old, new, self.frozen))
        self.frozen = set()


def is_stale(sender: Site, site: Site, item: Item) -> bool:
    """Whether it will change nothing whenever it arrives: then it need not be on its way.

    Something of an old view is answered with the view here; that is nothing to a sender who has
    that view as well.
    """
    council = site.council
    if isinstance(item, int | Handed):
        return False
    if isinstance(item, Installed):
        return item.value.num == council.view.num
    if item.view != council.view.num:
        return bool(item.view < council.view.num <= sender.view.num)
    proposal = council.proposal
    if isinstance(item, Promise | Accepted):
        return proposal is None or proposal.ballot != item.ballot
    if isinstance(item, Refused):  # no later ballot of this node will be below that one
        is_over = proposal is None or proposal.is_refused or proposal.ballot > item.ballot
        return is_over and item.ballot[0] <= max(council._round, council.promised[0])
    return False


_NOT_STATE: Final = {"_plane", "out", "dirty", "changes", "sent_at"}


def _plain(value: Any) -> Any:
    """As hashable values in one order; a council's or a proposal's attributes one by one."""
    if isinstance(value, Council | Proposal):
        return tuple([_plain(each) for name, each in vars(value).items() if name not in _NOT_STATE])
    if isinstance(value, dict):
        return tuple([(name, _plain(value[name])) for name in sorted(value)])
    if isinstance(value, set | frozenset):
        return tuple(sorted(value))
    return tuple(value) if isinstance(value, list) else value


def _copy_council(council: Council, plane: Site) -> Council:
    other = Council.__new__(Council)
    for name, value in vars(council).items():
        setattr(other, name, _copy_value(value))
    other._plane = plane
    return other


def _copy_value(value: Any) -> Any:
    if isinstance(value, dict | set | list):
        return value.copy()
    if isinstance(value, Proposal):
        other = Proposal.__new__(Proposal)
        for name, each in vars(value).items():
            setattr(other, name, _copy_value(each))
        return other
    return value
