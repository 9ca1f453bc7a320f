"""Bounds and deadlines of connections: strangers may neither fill a node nor keep it waiting.

A connection is *waiting* until its owner trusts it.  Waiting ones that were accepted are bounded;
when one more comes the oldest goes, not the newest: a real peer says who it is within a round trip,
so those that linger are the suspicious ones, and somebody who opens connections and says nothing
cannot lock real peers out.  Every connection is looked at a few times within the shortest deadline
by one timer; receiving costs nothing for that.  When this process itself was held up, what peers
said meanwhile is still unread: it is read before anybody is judged.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import msgspec

from thence.errors import UnusableInputError
from thence.transport.base import Reporter

WAITING_MAX: Final = 64
GREETING_S_MAX: Final = 5.0
STALL_S_MAX: Final = 15.0
DIAL_S_MAX: Final = 5.0
CLOSE_S_MAX: Final = 2.0
LOOKS_PER_DEADLINE: Final = 4
LOOK_S_MIN: Final = 0.005

# What is reported, as (what, detail): the first is one of these and can be counted.
BAD_FRAME: Final = "bad-frame"
CUT_FRAME: Final = "cut-frame"
STALLED_FRAME: Final = "stalled-frame"
NEVER_TRUSTED: Final = "never-trusted"
CROWDED: Final = "crowded"
NO_TLS: Final = "no-tls"
BAD_CERTIFICATE: Final = "bad-certificate"
REFUSED_BY_PEER: Final = "refused-by-peer"
TLS_FAILED: Final = "tls-failed"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a peer may take of a node before and after it is known.  Times in seconds."""

    waiting: int = WAITING_MAX
    """Accepted connections of one listener that nobody has trusted yet."""
    greeting_s: float = GREETING_S_MAX
    """From the first packet of a connection to ``trust``; TLS's handshake is part of it."""
    stall_s: float = STALL_S_MAX
    """How long a trusted peer may leave a frame half sent."""
    dial_s: float = DIAL_S_MAX
    """Until a peer that is dialled must have answered."""
    close_s: float = CLOSE_S_MAX
    """After ``close``: how long writing may make no progress, and the peer not close too."""

    def __post_init__(self) -> None:
        if self.waiting < 1 or min(self.greeting_s, self.stall_s, self.dial_s, self.close_s) <= 0:
            raise UnusableInputError("limits of a transport are above 0")


DEFAULT_LIMITS: Final = Limits()


class Watched(Protocol):
    """A connection, as the watch sees it."""

    dialled: bool

    def look(self, now: float, limits: Limits) -> None:
        """Give up if a deadline has passed; ``now`` is the loop's time."""

    def refuse(self, what: str, reason: str) -> None:
        """Report, and break off at once."""


class Watch:
    """The connections of one transport that are open."""

    def __init__(self, limits: Limits, report: Reporter | None) -> None:
        self.limits = limits
        self.report: Reporter = report if report is not None else _ignore
        # Dictionaries keep the order of arrival.
        self._open: dict[Watched, None] = {}
        self._waiting: dict[Watched, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        shortest = min(limits.greeting_s, limits.stall_s, limits.close_s)
        self._look_s = max(shortest / LOOKS_PER_DEADLINE, LOOK_S_MIN)
        self._look_at = 0.0
        self._late = False

    @property
    def waiting(self) -> int:
        """Accepted connections that are not trusted yet."""
        return len(self._waiting)

    def opened(self, connection: Watched) -> None:
        """A connection is there; if it is accepted and there are too many, the oldest goes."""
        self._open[connection] = None
        if self._timer is None:
            self._late = False
            self._set_timer()
        if connection.dialled:
            return
        if len(self._waiting) >= self.limits.waiting:
            oldest = next(iter(self._waiting))
            del self._waiting[oldest]
            oldest.refuse(CROWDED, f"{self.limits.waiting} newer connections wait to be known")
        self._waiting[connection] = None

    def trusted(self, connection: Watched) -> None:
        """It waits no longer."""
        self._waiting.pop(connection, None)

    def gone(self, connection: Watched) -> None:
        """It is closed."""
        self._open.pop(connection, None)
        self._waiting.pop(connection, None)
        if not self._open and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> float:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._look_at = now + self._look_s
        self._timer = loop.call_at(self._look_at, self._look)
        return now

    def _look(self) -> None:
        due = self._look_at
        now = self._set_timer()
        # Not twice in a row: a loop that is always late must not let strangers stay.
        self._late = now - due > self._look_s and not self._late
        if self._late:
            return
        for connection in list(self._open):
            connection.look(now, self.limits)


def _ignore(what: str, detail: str) -> None:
    """Nobody counts."""
