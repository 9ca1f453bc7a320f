"""What the applications do, and how long things sit in the queues of a node."""

from __future__ import annotations

import random
from typing import Final, Literal

import msgspec

from thence.errors import UnusableInputError
from thence.sim.clock import TIME_MS_MAX

Pacing = Literal["exponential", "fixed"]

INTERVAL_CUT: Final = 4.0  # times the mean: one long pause must not decide how long a run lasts


class WorkloadOptions(msgspec.Struct, frozen=True):
    """Times in milliseconds."""

    messages: int = 100
    """Per node."""
    interval_ms: float = 10.0
    """Mean time between two sends of a node."""
    pacing: Pacing = "exponential"
    """How that time varies; exponential is cut at four times the mean."""
    client_ms: float = 0.2
    """Mean time for which events sit in the queue before the application takes them."""
    middleware_ms: float = 0.05
    """The same for requests of the client."""
    flush_ms: float = 5.0
    """The middleware looks for stable messages when nothing arrived for this long."""
    phantom_ms: float = 0.0
    """Each node announces what it consumed this often; 0 is never.  Where nodes are passive, only
    they do."""
    passive: int = 0
    """So many nodes, the last ones, send nothing (thesis 5.4)."""
    streams: float = 0.0
    """Chance that a message goes on a stream of its own."""
    payload_bytes: int = 16

    def check(self) -> None:
        """UnusableInputError says what cannot be."""
        if self.messages < 0:
            raise UnusableInputError(f"messages {self.messages}: expected 0 or more")
        if self.passive < 0:
            raise UnusableInputError(f"passive {self.passive}: expected 0 or more nodes")
        for field in ("interval_ms", "client_ms", "middleware_ms", "flush_ms", "phantom_ms"):
            value = getattr(self, field)
            if not 0 <= value <= TIME_MS_MAX:
                name = field.replace("_ms", "")
                raise UnusableInputError(f"{name} {value} ms: expected 0 to {TIME_MS_MAX:g}")
        if not 0 <= self.streams <= 1:
            raise UnusableInputError(f"streams {self.streams}: expected a chance from 0 to 1")
        if self.payload_bytes < 0:
            raise UnusableInputError(f"payload {self.payload_bytes} bytes: expected 0 or more")


class Workload:
    """Draws the times; one generator for all nodes, asked in the order of events."""

    def __init__(self, options: WorkloadOptions, seed: str) -> None:
        options.check()
        self.options = options
        self.rng = random.Random(seed)
        self._interval_us = options.interval_ms * 1000
        self._client_us = options.client_ms * 1000
        self._middleware_us = options.middleware_ms * 1000

    def interval_us(self) -> int:
        """Until the next send of a node."""
        if self.options.pacing == "fixed":
            return int(self._interval_us)
        return int(self._interval_us * min(self.rng.expovariate(1.0), INTERVAL_CUT))

    def client_us(self) -> int:
        """Until the application looks at its queue, from 0 to twice the mean."""
        return int(2 * self._client_us * self.rng.random())

    def middleware_us(self) -> int:
        """Until the middleware looks at the client's requests, from 0 to twice the mean."""
        return int(2 * self._middleware_us * self.rng.random())
