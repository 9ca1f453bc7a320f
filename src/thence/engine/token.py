"""``token``: whoever holds the token gives numbers (Garg, 003, 12.3.1).

Theory of operation
    The token carries the next number.  Its holder sends its own messages with numbers to everyone,
    then hands the token to the next member, around the ring of slots, that wants it.  A node with
    something to send and no token tells everyone that it wants it, once for all that it has by the
    time the token comes.  Everybody delivers by number.  N - 1 messages per broadcast for those
    who hold the token, and N for a turn of others: a wish and the token.

    How far each has the list travels with its messages and wishes; a member that is silent says so
    once for many (``ACK_MESSAGES``).

    When any member crashes the survivors agree on the list so far (engine/numbered.py); the token
    of the old epoch is void, and the member in the lowest slot has that of the new one.

Invariants
    ``numbered.py`` has those of the list.  In each epoch there is one token.  The holder gives no
    number before it has all below it, hence the order is causal.

Differences from the source
    The source rotates the token without end; here it rests with its last holder while nobody wants
    it.  A wish for the message ``seq`` is fulfilled when that message is in the list, so no
    counters travel with the token.  The source does not survive crashes.
"""

from __future__ import annotations

from typing import ClassVar

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.numbered import ASK, HAVE, ORDER, NumberedEngine
from thence.engine.reject import BAD_SEQ, Reject
from thence.engine.total import Report, TotalClient
from thence.message import Control, Stamped

TOKEN = 3
"""Kind of Control: the next number."""
WANT = 4
"""Kind of Control: the last message that its sender has, and how far it has the list."""


class TokenEngine(NumberedEngine):
    """The middleware; the member in slot 0 begins with the token."""

    ROLES: ClassVar[dict[int, int]] = {ORDER: 2}
    KINDS: ClassVar[dict[int, int]] = {HAVE: 1, TOKEN: 1, WANT: 2, ASK: 1}

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        self._is_holder = slot == 0
        self._wanted = [0] * len(members.names)
        """By member, the last message for which it wants the token, own slot included."""

    def _listeners(self) -> list[int]:
        return self._others

    @property
    def _last_out(self) -> int:
        return self._placed[self._slot]

    def _go(self, out: Effects) -> None:
        if self._have < self._top:
            return  # what is missing may have own messages in it
        if self._is_holder:
            self._hold(out)
        elif self._mine and self._wanted[self._slot] <= self._placed[self._slot]:
            self._wanted[self._slot], self._said = self._seq, self._have
            self._control(self._others, WANT, (self._seq, self._have), out)
        self._acknowledge(out)

    def _hold(self, out: Effects) -> None:
        while self._mine and self._may_number():
            self._number(self._mine[self._placed[self._slot] + 1], out)
            self._said = self._have
        if self._mine:
            self._ask(out)  # it goes on when the others have more of the list
            return
        size = len(self._wanted)
        ring = ((self._slot + step) % size for step in range(1, size))
        for peer in ring:
            if self._wanted[peer] > self._placed[peer]:
                self._is_holder = False
                self._control([peer], TOKEN, (self._have + 1,), out)
                return

    def _take(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        if isinstance(message, Stamped):
            self._take_order(peer, message, out)
        elif message.kind in (HAVE, ASK):
            self._take_have(peer, message, out)
        elif message.kind == WANT:
            self._wanted[peer] = max(self._wanted[peer], message.stamp[2])
            self._know(peer, message.stamp[3])
        elif self._is_holder or message.stamp[2] <= self._have:
            out.reject.append(Reject(peer, BAD_SEQ, f"no token for number {message.stamp[2]}"))
        else:
            self._is_holder = True
            self._top = max(self._top, message.stamp[2] - 1)
        self._go(out)

    def _begin(self, reports: dict[int, Report], out: Effects) -> None:
        self._is_holder = self._slot == min([self._slot, *self._others])
        self._wanted = [0] * len(self._wanted)
        super()._begin(reports, out)

    def words(self) -> int:
        """Also who wants the token."""
        return super().words() + len(self._wanted)


def make(members: Members, slot: int, options: EngineOptions) -> tuple[TotalClient, TokenEngine]:
    """Both processes of one node."""
    engine = TokenEngine(members, slot, options)
    return TotalClient(members, slot, engine, some=False), engine


SPEC = EngineSpec(
    name="token",
    summary="who holds the token numbers its messages: everybody takes them in one, causal, order",
    guarantee="causal-total",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
    relays=True,
    own=True,
    survives=True,
)
