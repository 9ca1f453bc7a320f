"""Changes of the membership on their way to the application."""

from __future__ import annotations

import msgspec

from thence.errors import LocalProtocolError
from thence.wire.membership import View


class Change(msgspec.Struct, frozen=True, gc=False):
    """One change of the membership, on its way to the application."""

    kind: str
    """As in the trace: join, leave or evict."""
    member: str
    cut: int
    view: View
    """The view that it belongs to ..."""
    is_last: bool
    """... and whether it is the last of its changes."""
    is_self: bool = False

    @property
    def hollow(self) -> bool:
        """It is for this application."""
        return False


def view_name(view: View, slot: int) -> str:
    """The member in that slot, as in ``a#2``."""
    found = view.member(slot)
    if found is None:
        raise LocalProtocolError(f"slot {slot} is not in view {view.num}")
    return found.id


def each_change(changes: list[tuple[str, str, int]], view: View) -> list[Change]:
    """The changes of one view: kind, member and cut of each."""
    last = len(changes) - 1
    return [
        Change(kind, member, cut, view, at == last)
        for at, (kind, member, cut) in enumerate(changes)
    ]
