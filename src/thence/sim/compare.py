"""What each engine costs on one workload: messages, metadata, delay beyond that of the network.

Everything is counted where messages arrive, in a network that loses and repeats nothing: one
arrival is one message to one member, whatever it is for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from thence.engine.base import EngineOptions, EngineSpec
from thence.engine.registry import ENGINES
from thence.message import WireMessage
from thence.sim.clock import TimedWatcher
from thence.sim.network import NetworkOptions
from thence.sim.run import SimulationOptions, simulate
from thence.sim.workload import WorkloadOptions
from thence.wire.codec import metadata_bytes


class Cost(msgspec.Struct, frozen=True):
    """Of one engine in one group."""

    engine: str
    guarantee: str
    nodes: int
    broadcasts: int
    messages: float
    """To one member each, for a message of the application; N - 1 if nothing else is said."""
    bytes: float
    """Of metadata in all of them, for a message of the application and a member that gets it."""
    delay_ms: float
    """From sending to where the application may take it, beyond the mean delay of the network."""


class CompareOptions(msgspec.Struct, frozen=True):
    """The workload: every node broadcasts.  Times in milliseconds."""

    messages: int = 20
    """Per node."""
    interval_ms: float = 1000.0
    """Mean time between two messages of a node."""
    latency_ms: float = 10.0
    """Mean, Weibull as in the thesis (8.1.2)."""
    seed: int = 1

    def simulation(self, spec: EngineSpec, nodes: int) -> SimulationOptions:
        """Of that engine; what is not the engine's own work takes no time."""
        return SimulationOptions(
            nodes=nodes,
            engine=spec.name,
            seed=self.seed,
            workload=WorkloadOptions(
                messages=self.messages, interval_ms=self.interval_ms, client_ms=0.0,
                middleware_ms=0.0,
            ),
            network=NetworkOptions(latency_ms=self.latency_ms, fifo=spec.fifo_links),
            engine_options=EngineOptions(stability=False),
            sample_ms=0.0,
        )  # fmt: skip


class _Counter(TimedWatcher):
    """Counts what arrives, and how long messages of the application take."""

    def __init__(self) -> None:
        self.arrivals = self.bytes = self.broadcasts = self.deliveries = self.taken_us = 0
        self._sent_us: dict[tuple[int, int], int] = {}

    def sent(self, node: int, tag: Any, after: object) -> None:
        self.broadcasts += 1
        self._sent_us[tag.origin, tag.seq] = self.now_us

    def arriving(self, node: int, peer: int, message: WireMessage) -> None:
        self.arrivals += 1
        self.bytes += metadata_bytes(message)

    def ready(self, node: int, tag: Any) -> None:
        if tag.origin != node:  # one's own come back without a network
            self.deliveries += 1
            self.taken_us += self.now_us - self._sent_us[tag.origin, tag.seq]


def cost_of(spec: EngineSpec, nodes: int, options: CompareOptions) -> Cost:
    """Run it; OracleFailure if it does not keep its order."""
    counter = _Counter()
    simulate(options.simulation(spec, nodes), watchers=[counter])
    deliveries = max(1, counter.deliveries)
    return Cost(
        engine=spec.name,
        guarantee=spec.guarantee,
        nodes=nodes,
        broadcasts=counter.broadcasts,
        messages=counter.arrivals / max(1, counter.broadcasts),
        bytes=counter.bytes / deliveries,
        delay_ms=counter.taken_us / deliveries / 1000 - options.latency_ms,
    )


def costs(
    nodes: Iterable[int], options: CompareOptions, engines: Iterable[str] = tuple(ENGINES)
) -> Iterable[Cost]:
    """Of each engine in groups of these sizes, one after the other as they are found."""
    for size in nodes:
        for name in engines:
            yield cost_of(ENGINES[name], size, options)
