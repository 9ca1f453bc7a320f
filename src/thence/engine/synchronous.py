"""``synchronous``: rendezvous, every message an instant (Garg, 003: the chat's ``synch`` option).

Theory of operation
    A node takes part in one message at a time: it is *active*, or *passive* for one message.  To
    send, a node asks all who take part, itself included, from the highest slot down; who is active
    becomes passive and permits, others answer when they are active again.  The lowest is not asked:
    the message itself goes there, and is taken once that node is active.  By then all take part at
    the same time, and that is the instant of the message.  Then the others get it, are active
    again and confirm.  When all have confirmed the sender gets it back, and goes on.

    A node sends one message after the other; while it waits for permission it takes others.  Who is
    passive waits for lower slots only, so no circle of nodes waits for each other, whoever sends to
    whom at once.  With one recipient this is Garg's algorithm: a message to a lower slot and its
    acknowledgement, or a request to a higher one, permission and message.

Invariants
    A node hands over a message, or gets back its own, only while it is passive for it (the lowest:
    in one step).  At most one message of each origin is asked for or held here.

Messages, for d recipients: 2 d if the lowest slot is the only recipient; else at most 4 d.

Differences from the source
    Garg's is for one recipient; here it is one after the other for all.  A message to a higher slot
    is acknowledged too, so that its sender learns when it is there: sending ends with that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from thence.causal.dot import SEQ_MAX, pack
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.effects import Effects
from thence.engine.plain import PlainClient, PlainTag, refusal
from thence.engine.reject import (
    BAD_CONTEXT,
    BAD_SEQ,
    DUPLICATE,
    NOT_A_MEMBER,
    WRONG_KIND,
    Reject,
    Waiting,
)
from thence.engine.vector_rules import is_member
from thence.errors import LimitError, LocalProtocolError
from thence.message import Control, Directed, Phantom, Stamped, WireMessage

TO_SEND_MAX: Final = 65_536
"""Own messages that wait until those before them are through."""

REQUEST: Final = 1
"""May I send you this message?  Its number is the stamp."""
PERMIT: Final = 2
"""You may: until it came nothing else is taken here."""
CONFIRM: Final = 3
"""It was handed over."""


class Wish(msgspec.Struct, frozen=True, gc=False):
    """A message that this node is to be passive for; without one it is only asked for."""

    origin: int
    seq: int
    message: Stamped | None = None


class SynchronousEngine:
    """The middleware.  Messages have no stamp."""

    __slots__ = (
        "_ask",
        "_done",
        "_is_due",
        "_is_through",
        "_members",
        "_passive",
        "_seq",
        "_slot",
        "_to_send",
        "_to_send_bytes",
        "_unconfirmed",
        "_wishes",
    )

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        self._members = members
        self._slot = slot
        self._seq = 0
        self._to_send: deque[PlainTag] = deque()
        """Own messages; the first is on its way."""
        self._to_send_bytes = 0
        self._ask: list[int] = []
        """Those that the first has yet to ask, the next one last."""
        self._unconfirmed: set[int] = set()
        """Those that have it and did not confirm."""
        self._is_through = False
        """All have it."""
        self._is_due = False
        """It has a step to take."""
        self._passive: Wish | None = None
        self._wishes: dict[int, Wish] = {}
        """By origin, in the order in which they came."""
        self._done = [0] * len(members.names)
        """By origin, the number of the last message that was handed over."""

    # ---- sending ---------------------------------------------------------------------------------

    def broadcast(self, tag: PlainTag, out: Effects) -> None:
        """Send it when those before it are through.  LimitError if too many are waiting."""
        if tag.origin != self._slot or tag.seq <= self._seq:
            raise LocalProtocolError(f"{tag} is not the next message of slot {self._slot}")
        if len(self._to_send) >= TO_SEND_MAX:
            raise LimitError(f"{len(self._to_send)} messages wait for others to be ready")
        self._seq = tag.seq
        self._to_send.append(tag)
        self._to_send_bytes += len(tag.payload)
        if len(self._to_send) == 1:
            self._begin()
        self._run(out)

    def _begin(self) -> None:
        """The first of the own messages is next."""
        self._ask = sorted({self._slot, *self._recipients(self._to_send[0].to)})
        self._is_due = True

    def _recipients(self, to: tuple[int, ...]) -> list[int]:
        everyone = range(len(self._done))
        return list(to) or [slot for slot in everyone if slot != self._slot]

    def _run(self, out: Effects) -> None:
        """All steps that are possible: those who wait come first, so that a busy sender keeps
        nobody waiting."""
        while True:
            if self._wishes and self._passive is None:
                self._serve(out)
            elif self._is_due:
                self._is_due = False
                self._step(out)
            else:
                return

    def _step(self, out: Effects) -> None:
        """Ask the next one, or send the message to the last one; to all if there is none left."""
        tag = self._to_send[0]
        if self._is_through:
            self._is_through = False
            self._passive = None
            self._to_send_bytes -= len(tag.payload)
            out.deliver.append(self._to_send.popleft())
            if self._to_send:
                self._begin()
        elif not self._ask:
            self._send(self._recipients(tag.to), out)
        elif self._ask[-1] == self._slot:
            self._wishes[self._slot] = Wish(self._slot, tag.seq)
        elif len(self._ask) == 1:
            self._send([self._ask[0]], out)
        else:
            ask = Control(self._slot, REQUEST, (tag.seq,))
            out.send.append(Directed((self._ask[-1],), ask))

    def _send(self, slots: list[int], out: Effects) -> None:
        """The message, to these: whoever else it is for is passive for it."""
        tag = self._to_send[0]
        self._unconfirmed = set(slots)
        if slots:
            message = Stamped(self._slot, tag.seq, (), tag.payload, tag.to)
            out.send.append(Directed(tuple(slots), message))
        else:
            self._is_through = self._is_due = True

    def _permitted(self) -> None:
        self._ask.pop()
        self._is_due = True

    def _confirmed(self, peer: int, out: Effects) -> None:
        self._unconfirmed.discard(peer)
        if self._unconfirmed:
            return
        rest = [slot for slot in self._recipients(self._to_send[0].to) if slot != peer]
        if self._ask and rest:
            self._send(rest, out)  # that was the lowest one: all the others wait for the message
        else:
            self._is_through = self._is_due = True
        self._ask.clear()

    # ---- taking part -----------------------------------------------------------------------------

    def _serve(self, out: Effects) -> None:
        """This node is active: hand over the message that waits longest for that, or be passive for
        the one that is asked for."""
        wish = self._wishes.pop(next(iter(self._wishes)))
        if wish.message is not None:
            self._hand_over(wish.message, out)
            return
        self._passive = wish
        if wish.origin == self._slot:
            self._permitted()
        else:
            permit = Control(self._slot, PERMIT, (wish.seq,))
            out.send.append(Directed((wish.origin,), permit))

    def _hand_over(self, message: Stamped, out: Effects) -> None:
        origin, seq = message.origin, message.seq
        self._done[origin] = seq
        out.deliver.append(PlainTag(origin, seq, message.payload, message.to))
        out.send.append(Directed((origin,), Control(self._slot, CONFIRM, (seq,))))

    def receive(self, peer: int, message: WireMessage, out: Effects) -> None:
        """A message, or a word about one."""
        if isinstance(message, Stamped):
            refused = refusal(peer, message, self._members, self._slot, 0)
            refused = refused or self._take(peer, message, out)
        elif isinstance(message, Control):
            refused = self._heard(peer, message, out)
        else:
            refused = Reject(peer, WRONG_KIND, "this engine takes messages without stamps")
        if refused is not None:
            out.reject.append(refused)
        else:
            self._run(out)

    def _take(self, peer: int, message: Stamped, out: Effects) -> Reject | None:
        origin, seq = message.origin, message.seq
        if seq <= self._done[origin]:
            return Reject(peer, DUPLICATE, f"message {seq} of slot {origin} is here")
        if self._slot == min({origin, *(message.to or range(len(self._done)))}):
            fault = self._second_wish(peer, origin, seq)
            if fault is None:
                self._wishes[origin] = Wish(origin, seq, message)
            return fault
        passive = self._passive
        if passive is None or (passive.origin, passive.seq) != (origin, seq):
            return Reject(peer, BAD_CONTEXT, f"message {seq} of slot {origin} has no permission")
        self._hand_over(message, out)
        self._passive = None
        return None

    def _heard(self, peer: int, said: Control, out: Effects) -> Reject | None:
        if peer != said.origin or peer == self._slot or not is_member(peer, self._members):
            return Reject(peer, NOT_A_MEMBER, f"slot {said.origin} did not say this")
        if len(said.stamp) != 1 or not 1 <= said.stamp[0] <= SEQ_MAX:
            return Reject(peer, BAD_CONTEXT, "a word about a message has its number")
        seq = said.stamp[0]
        if said.kind == REQUEST:
            if seq <= self._done[peer]:
                return Reject(peer, DUPLICATE, f"message {seq} of slot {peer} is here")
            fault = self._second_wish(peer, peer, seq)
            if fault is None:
                self._wishes[peer] = Wish(peer, seq)
            return fault
        current = self._to_send[0].seq if self._to_send else 0
        if said.kind == PERMIT and seq == current and len(self._ask) > 1 and self._ask[-1] == peer:
            self._permitted()
        elif said.kind == CONFIRM and seq == current and peer in self._unconfirmed:
            self._confirmed(peer, out)
        elif said.kind in (PERMIT, CONFIRM) and seq <= self._seq:
            return Reject(peer, DUPLICATE, f"nothing is asked of slot {peer} about message {seq}")
        else:
            return Reject(peer, WRONG_KIND, f"no word {said.kind} about message {seq}")
        return None

    def _second_wish(self, peer: int, origin: int, seq: int) -> Reject | None:
        """A node sends one message at a time: why it cannot wish for this one."""
        known = self._wishes.get(origin)
        if known is None and self._passive is not None and self._passive.origin == origin:
            known = self._passive
        if known is None:
            return None
        if known.seq == seq:
            return Reject(peer, DUPLICATE, f"message {seq} of slot {origin} waits")
        return Reject(peer, BAD_SEQ, f"message {known.seq} of slot {origin} is not through")

    @property
    def unsent(self) -> tuple[int, int]:
        """Own messages that are not through, and the bytes of their payloads: a driver takes no
        more than it has room for."""
        return len(self._to_send), self._to_send_bytes

    def announce(self, phantom: Phantom, out: Effects) -> None:
        """There are none."""
        raise LocalProtocolError("the synchronous engine has no phantoms")

    def forget(self, tag: PlainTag) -> None:
        """There is no stability."""

    def receive_many(self, peer: int, messages: Sequence[WireMessage], out: Effects) -> None:
        """One after the other."""
        for message in messages:
            self.receive(peer, message, out)

    def flush(self, out: Effects) -> None:
        """There is no stability."""

    def waiting(self) -> list[Waiting]:
        """Messages and requests that wait until this node is active, each with the message that it
        is passive for."""
        if self._passive is None:
            return []
        passive = pack(self._passive.origin, self._passive.seq)
        found = [Waiting(pack(each.origin, each.seq), passive) for each in self._wishes.values()]
        return sorted(found, key=lambda each: each.dot)

    def words(self) -> int:
        """Dots of what waits and what it is passive for, whom is asked, a number per member."""
        dots = len(self._to_send) + len(self._wishes) + (self._passive is not None)
        return 2 * dots + len(self._ask) + len(self._unconfirmed) + len(self._done)


def make(
    members: Members, slot: int, options: EngineOptions
) -> tuple[PlainClient, SynchronousEngine]:
    """Both processes of one node."""
    return PlainClient(members, slot, some=True), SynchronousEngine(members, slot, options)


SPEC = EngineSpec(
    name="synchronous",
    summary="rendezvous: every message an instant; its sender gets it back when all have it",
    guarantee="synchronous",
    tags="none",
    stability=False,
    phantoms=False,
    make=make,
    reach=("broadcast", "multicast", "unicast"),
    stamped=True,
    own=True,
)
