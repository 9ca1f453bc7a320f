"""What an application sends with its group: how much there is room for, and where it goes.

A request of the client reaches the middleware at once, because both run in one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from itertools import accumulate, islice, takewhile
from typing import Any, Final

from thence.causal.members import Members
from thence.client.events import Blocked, Event
from thence.client.exchange import Exchange
from thence.client.ledger import Ledger
from thence.client.outbox import Outbox
from thence.client.stamped import StampedCredit
from thence.client.tracing import Tracing
from thence.engine.bursts import post
from thence.engine.effects import Effects
from thence.engine.outgoing import message_of
from thence.errors import Full, JournalError, LimitError
from thence.message import PAYLOAD_BYTES_MAX, Directed
from thence.wire import codec

_encode: Final = codec.encode


class Sending:
    """The half of ``Application`` (application.py, which makes all of this) that sends."""

    members: Members
    client: Any
    engine: Any
    exchange: Exchange
    failed: str
    counts: dict[str, int]
    on_room: Callable[[], None] | None
    unsaid: bool
    _is_tagged: bool
    _out: Effects
    _outbox: Outbox
    _outbox_messages_max: int
    _outbox_bytes_max: int
    _unstable_max: int
    _stamped: StampedCredit | None
    _ledger: Ledger | None
    _trace: Tracing | None
    _open_events: deque[tuple[int, int, Any]]
    _notices: dict[str, Callable[[int], Event]]
    _blocked: bool
    _phantom_at: float | None

    def broadcast(self, payload: bytes, now: float, **how: Any) -> Any:
        """Tag a message now, after everything taken so far; ``Full`` if it has to wait.

        It is on its way after the next ``commit``.  ``how``: ``after``, ``ordered``, ``stream``
        of the engine's client; ``to``, the names of the members that it is for.
        """
        if self._is_tagged and not how:
            return self.broadcast_many([payload], now)[0]
        self._make_room([payload])
        return self._broadcast_one(payload, now, **how)

    def _broadcast_one(self, payload: bytes, now: float, **how: Any) -> Any:
        out = self._out
        if "to" in how:
            how["to"] = [self.members.slot(name) for name in how["to"]]
        tag = self.client.broadcast(payload, **how)
        self.engine.broadcast(tag, out)
        if self._stamped is not None:
            self._post(tag, now)
            self._sent(1, True, now)
            return tag
        message = out.send.pop()
        self._keep(tag, message, now)
        aside = getattr(message, "aside", None)
        # Only what is for everyone says what was consumed; streams and multicasts do not.
        self._sent(1, aside is None or not (aside.stream or aside.to), now)
        return tag

    def broadcast_many(
        self, payloads: Sequence[bytes], now: float, overdraw: bool = False
    ) -> list[Any]:
        """Tag these messages now, one after the other: as many as there is room for, at least one;
        ``Full`` if all have to wait.  ``overdraw``: all of them, room or not, for one who asked
        ``has_room`` before he let in what they say."""
        if not payloads:
            return []
        room = self._make_room(payloads, overdraw)
        if room < len(payloads):
            payloads = payloads[:room]
        if not self._is_tagged:
            return self._broadcast_each(payloads, now, overdraw)
        out, outbox = self._out, self._outbox
        tags = post(self.client, self.engine, payloads, out)
        whole = len(out.send)
        if whole:
            for tag, message in zip(tags, out.send, strict=False):
                self._keep(tag, message, now)
            out.send.clear()
        if whole < len(tags):
            if self._ledger is not None or self._trace is not None:
                for tag in tags[whole:]:
                    message = message_of(tag)
                    self._write(tag, message, _encode(message), now)
            outbox.append_chain(tags[whole].seq, payloads[whole:] if whole else payloads)
            if not outbox.is_sent:
                outbox.release(outbox.last)
        self._sent(len(tags), True, now)
        return tags

    def _broadcast_each(self, payloads: Sequence[bytes], now: float, overdraw: bool) -> list[Any]:
        """The same where the engine knows no chains: all those that are sent have a tag."""
        if max(map(len, payloads)) > PAYLOAD_BYTES_MAX:
            raise LimitError(f"a payload has at most {PAYLOAD_BYTES_MAX} bytes")
        tags: list[Any] = []
        for payload in payloads:
            # The one before it took more room than its payload has bytes.
            if tags and not overdraw and not self.has_room:
                break
            tags.append(self._broadcast_one(payload, now))
        return tags

    def _make_room(self, payloads: Sequence[bytes], overdraw: bool = False) -> int:
        """For how many of these messages there is room now; then everything taken is confirmed.
        ``Full`` if there is none.  ``overdraw``: for all of them."""
        if self.failed:
            self.require_working()
        outbox, wanted = self._outbox, len(payloads)
        room = min(
            self._outbox_messages_max - outbox.waiting,
            self._unstable_max - self.unstable,
        )
        left = self._outbox_bytes_max - outbox.waiting_bytes
        if self._stamped is not None:
            messages, size = self.unsent
            room, left = room - messages, left - size
        if not overdraw and (room <= 0 or left <= 0):
            self._no_room()
        if overdraw or room > wanted:
            room = wanted
        if room > 1 and not overdraw and sum(map(len, payloads[:room])) > left:
            sizes = accumulate(map(len, payloads))
            room = 1 + sum(1 for _ in takewhile(left.__gt__, islice(sizes, room - 1)))
        if self._open_events or (self._is_tagged and self.client.telling):
            self.confirm_all()
        return room

    def _keep(self, tag: Any, message: Any, now: float) -> None:
        """An own message: for the peers, the journal and the trace."""
        encoded = _encode(message)
        self.exchange.keep(encoded, message)
        self._write(tag, message, encoded, now)

    def _post(self, tag: Any | None, now: float) -> None:
        """What the engine wants to be sent; ``tag``: because of this message of the application."""
        posted = []
        for each in self._out.send:
            to, message = (each.to, each.message) if type(each) is Directed else ((), each)
            self.exchange.keep(_encode(message), message, to)
            posted.append(message)
        self._out.send.clear()
        if tag is not None and self._trace is not None:
            self._trace.stamped(self._us(now), tag, posted)

    def _write(self, tag: Any, message: Any, encoded: bytes, now: float) -> None:
        if self._ledger is not None:
            self._ledger.sent(tag, encoded)
        if self._trace is not None:
            self._trace.sent(self._us(now), tag, message)

    def _sent(self, count: int, says_all: bool, now: float) -> None:
        self.counts["sent"] += count
        if says_all:
            self.unsaid = False
            self._phantom_at = None
        out = self._out
        if out.stable or out.k_stable or out.deliver:
            self._carry_out(now)
        if not self.exchange.peers:
            self._quiet(now)  # nobody else will make anything stable

    def require_working(self) -> None:
        """JournalError if this node cannot go on."""
        if self.failed:
            raise JournalError(self.failed)

    def await_room(self) -> None:
        """Somebody has to wait until there is room: tell him then (``on_room``)."""
        if not self._blocked:
            self._blocked = True
            behind = tuple(self.exchange.behind())
            self._notices["blocked"] = lambda number: Blocked(self, number, behind)

    def _no_room(self) -> None:
        self.await_room()
        behind = self.exchange.behind()
        raise Full(
            f"{self._outbox.waiting} messages are not acknowledged and {self.unstable} not "
            f"stable; {', '.join(behind) or 'nobody'} has acknowledged least"
        )

    @property
    def unstable(self) -> int:
        """Messages that were sent or delivered here and are not told stable."""
        return self.client.past.kept if self._is_tagged else 0

    @property
    def has_room(self) -> bool:
        """Whether a broadcast would be taken."""
        if self._stamped is not None:
            messages, size = self.unsent
            outbox = self._outbox
            if (
                outbox.waiting + messages >= self._outbox_messages_max
                or outbox.waiting_bytes + size >= self._outbox_bytes_max
            ):
                return False
        return self.exchange.has_room and self.unstable < self._unstable_max

    @property
    def unsent(self) -> tuple[int, int]:
        """Messages, and bytes of them, that the engine keeps until their turn comes."""
        unsent: tuple[int, int] = getattr(self.engine, "unsent", (0, 0))
        return unsent

    def _unblock(self) -> None:
        if self._blocked and self.has_room:
            self._blocked = False
            self._notices.pop("blocked", None)
            if self.on_room is not None:
                self.on_room()

    # What application.py has.

    def confirm(self, event: Event) -> None:
        """The application is done with this event and all before it."""
        raise NotImplementedError

    def confirm_all(self) -> None:
        """The application is done with everything that it has taken."""
        raise NotImplementedError

    def _carry_out(self, now: float) -> Any:
        raise NotImplementedError

    def _quiet(self, now: float) -> None:
        raise NotImplementedError

    def _us(self, now: float) -> int:
        raise NotImplementedError
