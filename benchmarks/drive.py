"""One node, fed with an execution: what it costs, in CPU time per delivered message.

Counted are the middleware and the client: receiving, holding back, delivering, consuming, stability
and forgetting, and the node's own sends.  A tick is what a driver does between two looks at the
network: the messages that came (at most TICK_MESSAGES), then what they led to, then an own send.
The garbage collector is off while the clock runs, as in ``timeit``.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.workload import PAYLOAD, Step
from thence.causal.members import Members
from thence.engine.base import EngineOptions, EngineSpec

TICK_MESSAGES = 16

Tick = tuple[list[tuple[int, Any]], bool]


def ticks_of(steps: Sequence[Step], vectors: bool) -> list[Tick]:
    """The steps in the wire form an engine takes, in ticks; True where the node itself sends."""
    ticks: list[Tick] = []
    batch: list[tuple[int, Any]] = []
    for step in steps:
        if step is not None:
            batch.append((step[0].origin, step[1] if vectors else step[0]))
        if step is None or len(batch) == TICK_MESSAGES:
            ticks.append((batch, step is None))
            batch = []
    return [*ticks, (batch, False)]


class Node:
    """The node under test."""

    def __init__(self, spec: EngineSpec, effects: Callable[[], Any], nodes: int) -> None:
        members = Members([f"n{k:03}" for k in range(nodes)])
        made: tuple[Any, Any] = spec.make(members, 0, EngineOptions())
        self.client, self.engine = made
        self.out = effects()
        self.delivered = 0

    def run(self, ticks: list[Tick]) -> None:
        """Feed it; the hot loop of the benchmark, so everything it needs is a local."""
        client, engine, out = self.client, self.engine, self.out
        receive, consume = engine.receive, client.consume
        stabilised, forget = client.stabilised, engine.forget
        deliver, stable, send = out.deliver, out.stable, out.send
        for batch, sends in ticks:
            for peer, message in batch:
                receive(peer, message, out)
            if deliver:
                for tag in deliver:
                    consume(tag)
                self.delivered += len(deliver)
                deliver.clear()
            if stable:
                for tag in stable:
                    stabilised(tag)
                    forget(tag)
                stable.clear()
            if sends:
                engine.broadcast(client.broadcast(PAYLOAD), out)
                send.clear()
        assert not out.reject, out.reject[0]

    def cost_us(self, ticks: list[Tick]) -> float:
        """CPU microseconds per message delivered while running these ticks."""
        before = self.delivered
        gc.collect()
        gc.disable()
        start = time.process_time()
        self.run(ticks)
        seconds = time.process_time() - start
        gc.enable()
        return seconds / (self.delivered - before) * 1e6


class Contender:
    """An engine in one form, with a label."""

    def __init__(self, label: str, module: Any, spec: EngineSpec, vectors: bool) -> None:
        self.label = label
        self.spec = spec
        self.effects = module.Effects
        self.vectors = vectors


def race(runs: dict[str, tuple[Contender, int, list[Step]]], rounds: int) -> dict[str, list[float]]:
    """Every run once per round, a fresh node each: costs by name, in order of rounds."""
    prepared = {
        name: (who, nodes, ticks_of(steps, who.vectors))
        for name, (who, nodes, steps) in runs.items()
    }
    costs: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, (who, nodes, ticks) in prepared.items():
            costs[name].append(Node(who.spec, who.effects, nodes).cost_us(ticks))
    return costs


def median_ratio(costs: dict[str, list[float]], above: str, below: str) -> float:
    """Median over rounds of the ratio within a round: drift of the machine cancels out."""
    pairs = zip(costs[above], costs[below], strict=True)
    return statistics.median([a / b for a, b in pairs])
