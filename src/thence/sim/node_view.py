"""What an application saw over all lives of its node, and whether that is what was promised.

An application takes events and is done with them (confirms) in the order in which it took them.
The view is told all that, and when turns end and when the node crashes.  It knows then

    sure     what was confirmed in a turn that ended: it may never come again
    maybe    what was confirmed in a turn that did not: it comes again, all of it, or never
    again    what was taken and not confirmed before a crash: it must come again, in that order,
             before anything new

and the same of what it sent: a message whose turn ended is at every member in the end, with the
payload it had, and no other message ever has its dot.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from thence.causal.dot import SEQ_MAX
from thence.client.driver import Driver
from thence.client.events import Delivered, Event, Known, Stable

Seen = tuple[str, str]
"""What happened ("deliver", "stable" or "known"), and the dot of the message."""


class Broken(AssertionError):
    """A promise was not kept."""


class Payloads:
    """Of one group: what was sent, by everybody, in turns that ended."""

    def __init__(self) -> None:
        self.by_dot: dict[str, bytes] = {}
        self._to: dict[str, Sequence[str]] = {}

    def sent(self, dot: str, payload: bytes, to: Sequence[str] | None) -> None:
        """A message is written down; ``to``: for these only."""
        if to is not None:
            self._to[dot] = to
        if self.by_dot.setdefault(dot, payload) != payload:
            raise Broken(f"{dot} was used twice: for {self.by_dot[dot]!r} and {payload!r}")

    def of(self, name: str) -> list[str]:
        """What is for this member, own messages included."""
        return [
            dot
            for dot in self.by_dot
            if dot not in self._to or name in self._to[dot] or node_of(dot) == name
        ]

    def came(self, dot: str, name: str, payload: bytes) -> None:
        """A message was delivered to a member."""
        if dot in self._to and name not in self._to[dot]:
            raise Broken(f"{dot} came to {name}, and is for {self._to[dot]}")
        if self.by_dot.get(dot) != payload:
            there = self.by_dot.get(dot, b"nothing that was written down")
            raise Broken(f"{dot} came with {payload!r}, and was sent with {there!r}")


class View:
    """One application in one group."""

    def __init__(self, name: str, names: Sequence[str], payloads: Payloads) -> None:
        self.name = name
        self._names = names
        self._payloads = payloads
        self.sent: list[str] = []
        """Dots of own messages that are written down."""
        self.sure: dict[Seen, None] = {}
        self.maybe: dict[Seen, None] = {}
        self.again: deque[tuple[str, bool]] = deque()
        """Dots, and whether it must come: what is in ``maybe`` need not."""
        self.events: list[Event] = []
        """Taken in this life and not confirmed."""
        self._taken: dict[Seen, bool] = {}
        """The same; whether it is written down that the message arrived."""
        self._staged: dict[Seen, bool] = {}
        """Confirmed in this turn; the same."""
        self._sending: list[tuple[str, bytes, Sequence[str] | None]] = []
        self._unsure: list[tuple[str, bytes, Sequence[str] | None]] = []
        """Sent in a turn that did not end."""

    # ---- what the application does ---------------------------------------------------------------

    def took(self, event: Event) -> None:
        """It took the next event."""
        self.events.append(event)
        seen = self._seen(event)
        if seen is None:
            return
        if seen in self.sure or seen in self._taken or seen in self._staged:
            raise Broken(f"{self.name}: {seen} came again, and was confirmed or taken")
        written = False
        if isinstance(event, Delivered):
            self._payloads.came(seen[1], self.name, bytes(event.payload))
            written = self._is_again(seen[1])
        elif isinstance(event, Stable):
            self._require_delivered(seen[1])
        self._taken[seen] = written

    def _is_again(self, dot: str) -> bool:
        """Whether this delivery is one that had to come again; it must be, if there is one."""
        again = self.again
        if again and not again[0][1]:
            if again[0][0] == dot:  # the confirmation was not written down, nor any of that turn
                self.again = again = deque((each, True) for each, _ in again)
            else:
                while again and not again[0][1]:
                    again.popleft()
        if not again:
            return False
        if again[0][0] != dot:
            raise Broken(f"{self.name}: {dot} came, and {again[0][0]} was to come again before it")
        again.popleft()
        return True

    def _require_delivered(self, dot: str) -> None:
        if node_of(dot) == self.name:
            return
        seen = ("deliver", dot)
        there = seen in self.sure or seen in self._taken or seen in self._staged
        if not there and (seen not in self.maybe or (dot, True) in self.again):
            raise Broken(f"{self.name}: {dot} is stable, and was not delivered in this life")

    def done(self, count: int | None = None) -> None:
        """It is done with the first of what it has taken, or with all."""
        done = self.events[:count]
        self.events = self.events[len(done) :]
        for event in done:
            seen = self._seen(event)
            if seen is not None:
                self._staged[seen] = self._taken.pop(seen)

    def sending(self, tag: Any, payload: bytes, to: Sequence[str] | None = None) -> None:
        """It broadcast; that confirms what was taken before."""
        self.done()
        self._sending.append((self.dot_of(tag), payload, to))

    # ---- what becomes of it ----------------------------------------------------------------------

    def turned(self) -> None:
        """The turn ended: what happened in it is written down."""
        if self._staged:
            self.sure.update(dict.fromkeys(self._staged))
            self._staged = {}
        for seen, written in self._taken.items():
            if not written:
                self._taken[seen] = True
        for dot, payload, to in self._sending:
            self._payloads.sent(dot, payload, to)
            self.sent.append(dot)
        self._sending = []

    def crashed(self) -> None:
        """The node is gone, maybe in the middle of a turn."""
        again: list[tuple[str, bool]] = []
        for seen, written in self._staged.items():
            self.maybe[seen] = None
            if seen[0] == "deliver" and written:
                again.append((seen[1], False))
        again += [
            (dot, True)
            for (what, dot), written in self._taken.items()
            if what == "deliver" and written
        ]
        self.again = deque(again + list(self.again))
        self.events = []
        self._staged, self._taken = {}, {}
        self._unsure += self._sending
        self._sending = []

    def began(self, driver: Driver) -> None:
        """The node is there again: what it remembers of own messages decides what was unsure."""
        for dot, payload, to in self._unsure:
            if _number(dot) <= _last(driver, dot):
                self._payloads.sent(dot, payload, to)
                self.sent.append(dot)
        self._unsure = []
        for dot in self.sent[-1:]:
            if _number(dot) > _last(driver, dot):
                raise Broken(f"{self.name}: {dot} was written down, and it forgot it")

    # ---- the end ---------------------------------------------------------------------------------

    def has(self, what: str, dot: str) -> bool:
        """Whether the application is done with it."""
        return (what, dot) in self.sure or (what, dot) in self.maybe

    def left(self) -> list[str]:
        """What had to come again and did not."""
        return [dot for dot, must in self.again if must]

    def dot_of(self, tag: Any) -> str:
        """The dot of an engine's tag."""
        return str(tag) if hasattr(tag, "packed") else f"{self._names[tag.origin]}:{tag.seq}"

    def _seen(self, event: Event) -> Seen | None:
        """What the event tells of a message; None if it tells of something else."""
        for kind, what in ((Delivered, "deliver"), (Stable, "stable"), (Known, "known")):
            if isinstance(event, kind):
                return what, self.dot_of(event.tag)
        return None


def node_of(dot: str) -> str:
    """Who sent the message with this dot."""
    return dot.rpartition(":")[0].partition("/")[0]


def _number(dot: str) -> int:
    return int(dot.rpartition(":")[2])


def _last(driver: Driver, dot: str) -> int:
    """The last number that the node remembers to have used where this dot is from."""
    stream = dot.rpartition(":")[0].partition("/")[2]
    client = driver.client
    if not stream:
        last: int = client.sent & SEQ_MAX
        return last
    number = client.past.stream_ids.get((driver.slot, stream), -1)
    last = client.stream_sent.get(number, 0) & SEQ_MAX
    return last
