"""``sequencer``: a coordinator gives every message its number (Garg, 003, 12.3.1).

Theory of operation
    A message goes to the coordinator, which gives it the next number and sends it to all others;
    the sender, who has it, gets only its number.  Everybody delivers by number.  N messages per
    broadcast, N - 1 if the coordinator is the sender.  How far each has the list travels with its
    messages; a member that sends nothing says so once for many (``ACK_MESSAGES``).  What may wait
    for a number is what the coordinator's limit allows, which it says with the first number.

    The coordinator is the member in the lowest slot that is there.  When any member crashes the
    survivors agree on the list so far (engine/numbered.py), and send messages that are not in it
    to the coordinator of the new epoch.

Invariants
    ``numbered.py`` has those of the list.  The coordinator takes the messages of each sender in
    the order of sending, hence the order is causal.

Differences from the source
    Links need not be FIFO: messages between two members are numbered (engine/total.py).  The source
    does not survive crashes.
"""

from __future__ import annotations

from collections import deque
from typing import ClassVar

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.numbered import ASK, HAVE, ORDER, ORDERED, NumberedEngine
from thence.engine.plain import PlainTag
from thence.engine.reject import BAD_SEQ, NOT_A_MEMBER, Reject
from thence.engine.total import Report, TotalClient
from thence.message import Control, Stamped

REQUEST = 2
"""Role of a Stamped for the coordinator: how far its sender has the list."""


class SequencerEngine(NumberedEngine):
    """The middleware; every node can be the coordinator."""

    ROLES: ClassVar[dict[int, int]] = {ORDER: 2, REQUEST: 1}
    KINDS: ClassVar[dict[int, int]] = {ORDERED: 4, HAVE: 1, ASK: 1}

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        self._asked = 0
        """The last own message that was submitted."""
        self._requests: deque[PlainTag] = deque()
        """At the coordinator: what has no number yet."""
        self._queued = [0] * len(members.names)
        """By origin, how many these are."""

    @property
    def _coordinator(self) -> int:
        return min(self._slot, *self._others) if self._others else self._slot

    def _listeners(self) -> list[int]:
        return [] if self._coordinator == self._slot else [self._coordinator]

    @property
    def _last_out(self) -> int:
        placed = self._placed[self._slot]
        return placed if self._coordinator == self._slot else max(placed, self._asked)

    def _go(self, out: Effects) -> None:
        if self._coordinator == self._slot:
            self._submit(self._due())
            while self._may_number() and self._requests:
                tag = self._requests.popleft()
                self._queued[tag.origin] -= 1
                self._next(tag, out)
                self._submit(self._due())
            if self._requests:
                self._ask(out)
            return
        for tag in self._due():
            self._said = self._have
            self._stamped([self._coordinator], REQUEST, tag, (self._have,), out)
        self._acknowledge(out)

    def _submit(self, tags: list[PlainTag]) -> None:
        for tag in tags:
            self._requests.append(tag)
            self._queued[tag.origin] += 1

    def _due(self) -> list[PlainTag]:
        """Own messages to submit now."""
        if self._have < self._top:
            return []  # what is missing may have own messages in it
        placed, window = self._placed[self._slot], self._limit
        if self._coordinator != self._slot:
            window = min(window, self._room(self._coordinator))
        first, last = max(placed, self._asked) + 1, min(self._seq, placed + window)
        self._asked = max(self._asked, last)
        return [self._mine[seq] for seq in range(first, last + 1)]

    def _next(self, tag: PlainTag, out: Effects) -> None:
        if tag.seq == self._placed[tag.origin] + 1:
            self._number(tag, out)
        else:
            detail = f"message {tag.seq} while {self._placed[tag.origin]} was the last"
            out.reject.append(Reject(tag.origin, BAD_SEQ, detail))

    def _is_full(self, peer: int, message: Stamped | Control) -> bool:
        """Or it has submitted more than it was told that may wait."""
        is_new = isinstance(message, Stamped) and message.stamp[2] == REQUEST
        if is_new and self._queued[peer] >= self._limit:
            return True
        return super()._is_full(peer, message)

    def _take(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        if isinstance(message, Control) and message.kind != ORDERED:
            self._take_have(peer, message, out)
        elif isinstance(message, Control) or message.stamp[2] == ORDER:
            self._take_order(peer, message, out)
        elif self._coordinator != self._slot or message.origin != peer:
            out.reject.append(Reject(peer, NOT_A_MEMBER, f"{peer} submits {message.origin} here"))
        else:
            self._know(peer, message.stamp[3])
            self._submit([PlainTag(peer, message.seq, message.payload)])
        self._go(out)

    def _begin(self, reports: dict[int, Report], out: Effects) -> None:
        self._asked = 0
        self._requests.clear()
        self._queued = [0] * len(self._queued)
        super()._begin(reports, out)

    def words(self) -> int:
        """Also the dots of what has no number yet."""
        return super().words() + 2 * len(self._requests)


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[TotalClient, SequencerEngine]:
    """Both processes of one node."""
    engine = SequencerEngine(members, slot, options)
    return TotalClient(members, slot, engine, some=False), engine


SPEC = EngineSpec(
    name="sequencer",
    summary="a coordinator numbers all messages: everybody takes them in one, causal, order",
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
