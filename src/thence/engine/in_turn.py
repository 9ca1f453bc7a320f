"""What engines share that keep the order of each sender, and beside that a rule of their own.

``scalar``, ``last-sender`` and ``realtime`` are such: per sender in order, and then as the stamps
say.  Only the next message of each sender can be ready, so a step looks at one per sender.
"""

from __future__ import annotations

from collections.abc import Sequence

from thence.causal.dot import pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.plain import PlainTag, refusal
from thence.engine.reject import (
    BAD_RECIPIENTS,
    DUPLICATE,
    TOO_FAR_AHEAD,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.errors import LocalProtocolError
from thence.message import Phantom, Stamped, WireMessage


class InTurn:
    """The middleware without its rule.  An engine says what a stamp is, and when it is ready."""

    numbers = 0
    """How long a stamp is."""

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._pending_max = options.pending_per_origin_max
        self._delivered = [0] * len(members.names)
        """The first so many of each sender were handed over; of this node, sent."""
        self._held: list[dict[int, Stamped]] = [{} for _ in members.names]
        """By origin and number."""

    # What an engine has.

    def _stamp(self, tag: PlainTag) -> tuple[int, ...]:
        """An own message is sent now."""
        raise NotImplementedError

    def _stamp_fault(self, peer: int, message: Stamped) -> Reject | None:
        """What is wrong with numbers that are right in kind and count."""
        raise NotImplementedError

    def _missing(self, message: Stamped) -> int | None:
        """A dot that the next message of a sender waits for, 0 for one that has no name yet; None
        if it is ready."""
        raise NotImplementedError

    def _take(self, message: Stamped) -> PlainTag:
        """It is handed over; ``delivered`` does not count it yet."""
        raise NotImplementedError

    # What it gets.

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Stamp it."""
        if tag.origin != self._slot or tag.seq != self._delivered[self._slot] + 1:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        out.send.append(Stamped(self._slot, tag.seq, self._stamp(tag), tag.payload))
        self._delivered[self._slot] += 1
        self._hand_over(out)

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("this engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """Hand it over if it is ready, and what waited for it."""
        if not isinstance(message, Stamped):
            out.reject.append(Reject(peer, WRONG_KIND, "this engine takes messages with numbers"))
            return
        refused = refusal(peer, message, self._members, self._slot, self.numbers)
        refused = refused or self._fault(peer, message) or self._stamp_fault(peer, message)
        if refused is not None:
            out.reject.append(refused)
            return
        self._held[message.origin][message.seq] = message
        self._hand_over(out)

    def _fault(self, peer: int, message: Stamped) -> Reject | None:
        origin, seq = message.origin, message.seq
        delivered = self._delivered[origin]
        if message.to:
            return Reject(peer, BAD_RECIPIENTS, "messages are for everyone")
        if seq <= delivered or seq in self._held[origin]:
            return Reject(peer, DUPLICATE, f"message {seq} of slot {origin} is here")
        if seq > delivered + self._pending_max:
            detail = f"message {seq} of slot {origin} while {delivered} is delivered"
            return Reject(peer, TOO_FAR_AHEAD, detail, True)
        return None

    def _next(self) -> list[Stamped]:
        """The next message of each sender, where it is here."""
        return [
            held[self._delivered[origin] + 1]
            for origin, held in enumerate(self._held)
            if self._delivered[origin] + 1 in held
        ]

    def _hand_over(self, out: Effects) -> None:
        again = True
        while again:
            again = False
            for message in self._next():
                if self._missing(message) is None:
                    out.deliver.append(self._take(message))
                    self._delivered[message.origin] += 1
                    del self._held[message.origin][message.seq]
                    again = True

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    @property
    def held(self) -> int:
        """How many messages wait."""
        return sum(map(len, self._held))

    def waiting(self) -> list[Waiting]:
        """What is held back, and a message that is missing: that of its sender before it, or what
        the stamp names; where it names none, the message itself."""
        found: list[Waiting] = []
        for origin, held in enumerate(self._held):
            following = self._delivered[origin] + 1
            for seq, message in sorted(held.items()):
                dot = pack(origin, seq)
                missing = pack(origin, following)
                if seq == following:
                    missing = self._missing(message) or dot
                found.append(Waiting(dot, missing))
        return found
