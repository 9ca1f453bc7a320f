"""Two links over a network that does its worst, in virtual time, from one seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import msgspec

from thence.link.cookie import Gate
from thence.link.datagram import DATAGRAM_BYTES_MAX, OPEN, kind_of
from thence.link.options import LinkOptions
from thence.link.reliable import Link

SECRET = b"0123456789abcdef"
STEPS_MAX = 400_000
HELD_BYTES_MAX = LinkOptions().window_packets * DATAGRAM_BYTES_MAX + LinkOptions().message_bytes_max


class Weather(msgspec.Struct, frozen=True):
    """Of the network, both ways; times in seconds."""

    loss: float = 0.0
    duplicate: float = 0.0
    corrupt: float = 0.0
    delay_s: tuple[float, float] = (0.01, 0.01)
    """From dialler to listener, and back."""
    jitter_s: float = 0.0
    """Uniform on top: reorders."""
    burst: float = 0.0
    """Chance that a datagram starts a burst in which all are lost, for ``burst_s``."""
    burst_s: float = 0.05
    blackouts: tuple[tuple[int, float, float], ...] = ()
    """(direction, from, to): all of that direction are lost."""


def draw_weather(rng: random.Random) -> Weather:
    """Some weather; half of the time some part of it is bad."""

    def maybe(largest: float) -> float:
        return rng.random() * largest if rng.random() < 0.6 else 0.0

    blackouts = []
    for _ in range(rng.choice([0, 0, 0, 1, 2])):
        start = rng.random() * 4
        blackouts.append((rng.randrange(2), start, start + rng.random() * 2))
    return Weather(
        loss=maybe(0.3),
        duplicate=maybe(0.3),
        corrupt=maybe(0.1),
        delay_s=(rng.choice([0.0001, 0.01, 0.1, 0.4]), rng.choice([0.0001, 0.01, 0.1, 0.4])),
        jitter_s=maybe(0.1),
        burst=maybe(0.02),
        burst_s=rng.random() * 0.3,
        blackouts=tuple(blackouts),
    )


class Pair:
    """A dialler (0) and a listener (1)."""

    def __init__(
        self, weather: Weather, seed: object, options: LinkOptions | None = None, start: float = 5.0
    ) -> None:
        self.rng = random.Random(f"hostile {seed}")
        self.weather = weather
        self.options = options or LinkOptions()
        self.now = start
        self.started = start
        self.gate = Gate(SECRET)
        dialled = Link(self.rng.getrandbits(64), self.now, dialled=True, options=self.options)
        self.links: list[Link | None] = [dialled, None]
        self.got: list[list[bytes]] = [[], []]
        self.datagrams = [0, 0]
        self.bytes = [0, 0]
        self.kinds: list[list[int]] = [[], []]
        self.steps = 0
        self._bursts = [0.0, 0.0]
        self._queue: list[tuple[float, int, int, bytes]] = []
        self._actions: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def link(self, end: int) -> Link:
        link = self.links[end]
        assert link is not None
        return link

    def at(self, after_s: float, action: Callable[[], None]) -> None:
        """Do this so long after the start."""
        self._count += 1
        heapq.heappush(self._actions, (self.started + after_s, self._count, action))

    def flush(self, end: int) -> None:
        """Put what an end has to say on the wire; then it has nothing to say now."""
        link = self.links[end]
        if link is None:
            return
        for datagram in link.outgoing(self.now):
            self.wire(end, datagram)
        deadline = link.deadline()
        assert deadline is None or deadline > self.now, "it would spin"
        assert link.held_bytes <= HELD_BYTES_MAX

    def wire(self, end: int, datagram: bytes) -> None:
        assert len(datagram) <= DATAGRAM_BYTES_MAX
        self.datagrams[end] += 1
        self.bytes[end] += len(datagram)
        self.kinds[end].append(datagram[1])
        weather, rng, now = self.weather, self.rng, self.now
        if now < self._bursts[end]:
            return
        if weather.burst and rng.random() < weather.burst:
            self._bursts[end] = now + weather.burst_s
            return
        since = now - self.started
        if any(way == end and a <= since < b for way, a, b in weather.blackouts):
            return
        for _ in range(2 if rng.random() < weather.duplicate else 1):
            if rng.random() < weather.loss:
                continue
            sent = datagram
            if rng.random() < weather.corrupt:
                changed = bytearray(datagram)
                for _ in range(rng.randrange(1, 4)):
                    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
                sent = bytes(
                    changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.3 else changed
                )
            self._count += 1
            delay = weather.delay_s[end] + rng.random() * weather.jitter_s
            heapq.heappush(self._queue, (now + delay, self._count, 1 - end, sent))

    def arrive(self, end: int, datagram: bytes) -> None:
        link = self.links[end]
        if link is None:
            answer = self.gate.greet(datagram, "peer", self.now)
            if answer is not None:
                assert len(answer) <= len(datagram)
                self.wire(end, answer)
                return
            connection = self.gate.admit(datagram, "peer", self.now)
            if connection is None:
                return
            assert kind_of(datagram) == OPEN
            link = Link(connection, self.now, dialled=False, options=self.options)
            self.links[end] = link
        self.got[end] += link.receive(datagram, self.now)
        self.flush(end)

    def step(self) -> bool:
        """The next thing that happens; False when nothing will."""
        self.steps += 1
        assert self.steps < STEPS_MAX, "it does not come to an end"
        times: list[tuple[float, int]] = []
        for end in (0, 1):
            link = self.links[end]
            deadline = link.deadline() if link is not None else None
            if deadline is not None:
                times.append((deadline, end))
        if self._queue:
            times.append((self._queue[0][0], 2))
        if self._actions:
            times.append((self._actions[0][0], 3))
        if not times:
            return False
        at, what = min(times)
        self.now = max(self.now, at)
        if what == 2:
            _, _, end, datagram = heapq.heappop(self._queue)
            self.arrive(end, datagram)
        elif what == 3:
            heapq.heappop(self._actions)[2]()
        else:
            self.flush(what)
        return True

    def run(self, until: Callable[[], bool] = lambda: False, seconds: float = 600.0) -> None:
        """Until a condition holds, or nothing happens any more, or the time is over."""
        end = self.now + seconds
        while not until() and self.now < end and self.step():
            pass

    def open(self) -> None:
        """Both ends are open, and nothing is on its way."""
        self.flush(0)
        self.run(lambda: self.link(0).opened and self.links[1] is not None and not self._queue, 30)
        assert self.link(0).opened
