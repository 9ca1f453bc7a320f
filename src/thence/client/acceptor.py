"""What a member has promised to those who agree on the next view (council.py)."""

from __future__ import annotations

import msgspec

from thence.wire.membership import NO_BALLOT, Ballot, Reached, Slots, View


class AcceptorState(msgspec.Struct, frozen=True, array_like=True):
    """What a member has promised, to be remembered over a crash."""

    view: View
    promised: Ballot = NO_BALLOT
    accepted_in: Ballot = NO_BALLOT
    accepted: View | None = None
    frozen: Slots = ()
    limit: Reached = ()
    leaving: int = -1
    """The number of its last message, if it said that it leaves: the others may hold it to that at
    any time, so nothing may come after it."""
