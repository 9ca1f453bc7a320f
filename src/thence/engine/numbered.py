"""An order that is a list of messages with numbers from 1: what ``sequencer`` and ``token`` share.

Theory of operation
    Somebody gives messages their numbers, and everybody delivers them by number.  Who gives number
    k has everything below k.  All keep the end of the list: what some member is not known to have.
    Who cannot give more numbers, because its limit is reached, asks those who hold it up.

    After a crash every survivor reports how far it has the list without a gap.  The longest of
    these lists holds all others, and every message whose sender is there: with a gap at j, whoever
    gave or sent a later number had j and would have reported it.  The survivor with the longest
    (of several, the one in the lowest slot) sends the others what they lack; it is the beginning
    of the new epoch's list.  Own messages that are not in it are submitted again.

Invariants
    Between steps ``held`` has no number ``have + 1``.  The lists of any two nodes that are there,
    up to ``have``, are one the beginning of the other.

Guarantee
    Causal and total: whoever delivered a message before it sent another has it in its list, hence
    below.  Survivors agree.  What only crashed nodes had delivered may come in another order, or,
    if its sender crashed, not at all: messages are delivered before others are known to have them.
"""

from __future__ import annotations

from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.engine.effects import Effects
from thence.engine.plain import PlainTag
from thence.engine.reject import BAD_SEQ, Reject
from thence.engine.total import Report, TotalEngine
from thence.message import Control, Stamped

ORDER = 1
"""Role of a Stamped in its place: number, and up to where everybody is known to have the list."""
ORDERED = 1
"""Kind of Control, for the sender of a message: number, its own number, the same, and how many of
its messages may wait for a number here."""
HAVE = 2
"""Kind of Control: how far the sender has the list."""
ASK = 5
"""Kind of Control: a number; who gets it says when it has the list up to there."""


class NumberedEngine(TotalEngine):
    """The middleware, without the one who gives numbers."""

    def __init__(self, members: Members, slot: int, options: EngineOptions) -> None:
        super().__init__(members, slot, options)
        size = len(members.names)
        self._list: dict[int, PlainTag] = {}
        """By number, from ``floor + 1`` to ``have``."""
        self._ahead: dict[int, tuple[int, PlainTag]] = {}
        """By number, who gave it and the message, where one before it is missing."""
        self._have = 0
        self._floor = 0
        """Everybody who is there is known to have the list up to here."""
        self._top = 0
        """Numbers up to here are given; whoever gives more must have them first."""
        self._haves = [0] * size
        self._placed = [0] * size
        """By origin, the number of its last message in the list."""
        self._said = 0
        """How far the others were told that this node has the list."""
        self._asking: set[int] = set()
        """Whom this node has asked."""
        self._askers: dict[int, int] = {}
        """Who has asked this node, and for which number."""

    def _listeners(self) -> list[int]:
        """Who has to know how far this node has the list."""
        raise NotImplementedError

    def _may_number(self) -> bool:
        """Whether there is room to give one more number, and nothing before it is missing."""
        self._forget(min([self._have, *(self._haves[peer] for peer in self._others)]))
        return self._top == self._have < self._floor + self._limit

    def _ask(self, out: Effects) -> None:
        """There is something to number: ask those for whom there is no room."""
        if self._top > self._have:
            return  # what is missing comes first
        for peer in self._others:
            if self._haves[peer] <= self._floor and peer not in self._asking:
                self._asking.add(peer)
                self._control([peer], ASK, (self._have,), out)

    def _take_have(self, peer: int, message: Control, out: Effects) -> None:
        """A question or an answer."""
        if message.kind == ASK:
            self._askers[peer] = message.stamp[2]
            self._answer(out)
        else:
            self._asking.discard(peer)
            self._know(peer, message.stamp[2])

    def _answer(self, out: Effects) -> None:
        for peer, number in sorted(self._askers.items()):
            if number <= self._have:
                del self._askers[peer]
                self._control([peer], HAVE, (self._have,), out)

    def _number(self, tag: PlainTag, out: Effects) -> None:
        """Give this message the next number."""
        number = self._top = self._have + 1
        to = [peer for peer in self._others if peer != tag.origin]
        if to:
            self._stamped(to, ORDER, tag, (number, self._floor), out)
        if tag.origin != self._slot:
            self._show(tag.origin, number, tag, out)
        self._place(tag, out)

    def _place(self, tag: PlainTag, out: Effects) -> None:
        """It is the next of the list."""
        self._have += 1
        self._list[self._have] = tag
        self._placed[tag.origin] = tag.seq
        if tag.origin == self._slot:
            del self._mine[tag.seq]
        out.deliver.append(tag)
        self._know(self._slot, self._have)

    def _know(self, peer: int, have: int) -> None:
        """A member has the list up to there: forget what everybody has."""
        self._haves[peer] = max(self._haves[peer], have)

    def _forget(self, floor: int) -> None:
        floor = min(floor, self._have)
        while self._floor < floor:
            self._floor += 1
            del self._list[self._floor]

    def _is_full(self, peer: int, message: Stamped | Control) -> bool:
        """Too many numbers before it are missing.  They come from others, or before it."""
        if isinstance(message, Stamped):
            return message.stamp[2] == ORDER and message.stamp[3] > self._have + self._limit
        return message.kind == ORDERED and message.stamp[2] > self._have + self._limit

    def _take_order(self, peer: int, message: Stamped | Control, out: Effects) -> None:
        """A message in its place, from whoever gives numbers or has a longer list."""
        if isinstance(message, Stamped):
            number, floor = message.stamp[3:]
            tag = PlainTag(message.origin, message.seq, message.payload)
        else:
            number, seq, floor, room = message.stamp[2:]
            if seq not in self._mine:
                out.reject.append(Reject(peer, BAD_SEQ, f"there is no own message {seq} to order"))
                return
            self._hear_room(peer, room)
            tag = self._mine[seq]
        if number <= self._have or number in self._ahead or floor >= number:
            out.reject.append(Reject(peer, BAD_SEQ, f"number {number} is given already"))
            return
        self._know(peer, number)
        self._ahead[number] = (peer, tag)
        self._catch_up(out)
        self._answer(out)
        self._forget(floor)

    def _catch_up(self, out: Effects) -> None:
        while (following := self._ahead.pop(self._have + 1, None)) is not None:
            peer, tag = following
            if tag.seq != self._placed[tag.origin] + 1:
                detail = f"message {tag.seq} of slot {tag.origin} is not its next"
                out.reject.append(Reject(peer, BAD_SEQ, detail))
                return
            self._place(tag, out)
        self._top = max(self._top, self._have)

    def _acknowledge(self, out: Effects) -> None:
        """Say how far this node has the list, if it was silent for long."""
        to = self._listeners()
        if to and self._have - self._said >= self._ack_every:
            self._said = self._have
            self._control(to, HAVE, (self._have,), out)

    # Crashes.

    def _is_report(self, numbers: tuple[int, ...]) -> bool:
        return len(numbers) == 1

    def _tell(self, peer: int, out: Effects) -> tuple[int, ...]:
        self._ahead.clear()
        return (self._have,)

    def _begin(self, reports: dict[int, Report], out: Effects) -> None:
        self._asking.clear()
        self._askers.clear()
        # What is reported, whatever was said before: all have to find the same.
        haves = {self._slot: self._have}
        for peer, report in reports.items():
            haves[peer] = report.numbers[0]
            self._know(peer, haves[peer])
        self._top = max(haves.values())
        longest = min(peer for peer, have in haves.items() if have == self._top)
        for peer in reports if longest == self._slot else ():
            for number in range(max(self._haves[peer], self._floor) + 1, self._top + 1):
                self._show(peer, number, self._list[number], out)

    def _show(self, peer: int, number: int, tag: PlainTag, out: Effects) -> None:
        if tag.origin == peer:
            self._control([peer], ORDERED, (number, tag.seq, self._floor, self._my_room), out)
        else:
            self._stamped([peer], ORDER, tag, (number, self._floor), out)

    def words(self) -> int:
        """Also two counts per member, number and dot of what is kept of the list, and who asks."""
        asked = len(self._asking) + 2 * len(self._askers)
        kept = 3 * (len(self._list) + len(self._ahead))
        return super().words() + 2 * len(self._haves) + kept + asked
