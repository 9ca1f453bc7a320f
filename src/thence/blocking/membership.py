"""What threads do with the members of a group, where these change."""

from __future__ import annotations

from typing import Any

from thence.blocking.background import Caller
from thence.client import group as asynchronous
from thence.wire.membership import View


class Membership:
    """The part of the blocking ``Group`` that has to do with members that come and go."""

    _caller: Caller
    _group: asynchronous.Group

    @property
    def view(self) -> View:
        """The members as the events that were taken tell, in order of seniority."""
        return self._caller.call(lambda: self._group.view)

    @property
    def is_minority(self) -> bool:
        """Whether this side of the group is too small to let anybody in or out."""
        return self._caller.call(lambda: self._group.is_minority)

    @property
    def suspects(self) -> tuple[str, ...]:
        """Members that do not answer."""
        return self._caller.call(lambda: self._group.suspects)

    @property
    def is_out(self) -> bool:
        """Whether this node is no member any more: it left, or was evicted."""
        return self._caller.call(lambda: self._group.is_out)

    @property
    def rejected(self) -> tuple[Any, ...]:
        """Tags of own messages that the group did not accept, once this node is evicted."""
        return self._caller.call(lambda: self._group.rejected)

    def evict(self, name: str, is_dead: bool = False) -> None:
        """Have a member removed, though it may answer still (``thence.Group.evict``)."""
        self._caller.call(self._group.evict, name, is_dead)

    def leave(self, leave_s: float | None = None) -> bool:
        """Send no more, and leave the group in order; whether that is done.  Somebody must take the
        events meanwhile, here and at the others; then close it."""
        return self._caller.wait(self._group.leave(leave_s))
