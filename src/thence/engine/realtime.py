"""``realtime``: stamps of local clocks (Dewan's slide 11).  Fails when clocks differ.

Theory of operation
    A message is stamped with the sender's clock, in microseconds, and messages are handed over in
    the order of the stamps: what is caused by a message was sent after it.  The slide asks two
    things.  *How long to wait* for an earlier one that is still on its way: here for
    ``EngineOptions.wait_us`` after the stamp, by the clock of whoever waits.  And clocks at
    different sites are not synchronized.

What it guarantees
    In all executions: the order of each sender.  Causal order, and one order for all, if clocks do
    not differ and ``wait_us`` is above 0 and at least the longest delay of a message.  With skew a
    node whose clock is ahead of the others' does not wait long enough: an answer comes before its
    question (tests/engine/test_realtime.py shows both).  A message that comes too late for its
    place has the flag ``late``: the wait was too short, or clocks differ by more than it allows
    for.  A node whose clock is behind waits longer, because it takes nothing that is stamped in its
    future; so an answer always has a later stamp than its question, and only the wait can fail.

Time
    ``EngineOptions.clock`` gives the time at a slot; the engine reads it in its steps and has no
    other.  ``due`` says when ``flush`` has something to do.  The simulator's clock is virtual time
    plus a skew for each node, that of a real node the system's.

Invariants
    ``delivered[j]`` messages of j were handed over, the first so many.  The stamps of one sender
    increase.  When a step ends, the next message of no sender was stamped ``wait_us`` ago.

Differences from the slides
    Messages of one sender keep their order, by the numbers that they have anyway, also when its
    clock is set back; the wait is the user's to choose.
"""

from __future__ import annotations

from typing import Final

from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.in_turn import InTurn
from thence.engine.plain import PlainClient, PlainTag
from thence.engine.reject import Reject
from thence.errors import LocalProtocolError
from thence.message import Stamped

LATE: Final = "late"


class RealtimeEngine(InTurn):
    """The middleware.  The stamp of a message is the time of its sender, in microseconds."""

    numbers = 1

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        if options.clock is None:
            raise LocalProtocolError("the realtime engine needs a clock (EngineOptions.clock)")
        self._clock = options.clock
        self._wait_us = options.wait_us
        self._sent_us = 0
        self._reached = (0, 0)
        """Stamp and slot of the latest message sent or handed over here."""

    def _stamp(self, tag: PlainTag) -> tuple[int, ...]:
        self._sent_us = max(self._clock(self._slot), self._sent_us + 1)
        self._reached = max(self._reached, (self._sent_us, self._slot))
        return (self._sent_us,)

    def _stamp_fault(self, peer: int, message: Stamped) -> Reject | None:
        return None

    def _missing(self, message: Stamped) -> int | None:
        """There may be an earlier one, without a name."""
        return 0 if message.stamp[0] + self._wait_us > self._clock(self._slot) else None

    def _take(self, message: Stamped) -> PlainTag:
        place = (message.stamp[0], message.origin)
        flag = LATE if place < self._reached else ""
        self._reached = max(self._reached, place)
        return PlainTag(message.origin, message.seq, message.payload, flag=flag)

    def _first(self) -> Stamped | None:
        """The earliest of the messages that are the next of their senders."""
        return min(self._next(), key=lambda each: (each.stamp[0], each.origin), default=None)

    def _hand_over(self, out: Effects) -> None:
        while (message := self._first()) is not None and self._missing(message) is None:
            out.deliver.append(self._take(message))
            self._delivered[message.origin] += 1
            del self._held[message.origin][message.seq]

    def flush(self, out: Effects) -> None:
        """Hand over what has waited long enough."""
        self._hand_over(out)

    def due(self) -> int | None:
        """When ``flush`` hands over the next message, by the clock of this node; None: never."""
        message = self._first()
        return None if message is None else message.stamp[0] + self._wait_us

    def words(self) -> int:
        """Three times, a count per member, and dot and stamp of each held message."""
        return 3 + len(self._delivered) + 3 * self.held


def make(members: Members, slot: int, options: EngineOptions) -> tuple[PlainClient, RealtimeEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot), RealtimeEngine(members, slot, options)


SPEC = EngineSpec(
    name="realtime",
    summary="stamps of local clocks: causal if those agree and the wait is long enough, else fifo",
    guarantee="fifo",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    stamped=True,
    timed=True,
)
