"""Random interleavings judged by the order that applications saw: for every engine of the table.

The same seed asks every engine for the same: who sends when, to whom, how the network reorders,
repeats and, where links are FIFO, does not reorder.  A node may crash: what it sent is lost on some
links from some message on, and the others learn of the crash, each in its time, after the last of
its messages that reaches them.
"""

from __future__ import annotations

import random

import msgspec
from msgspec.structs import replace

from thence.engine.base import EngineOptions, EngineSpec
from thence.sim.cluster import Cluster
from thence.sim.names import node_names
from thence.sim.orders import Orders

SKEW_STEPS_MAX = 50
"""How far clocks are apart at most, for engines that read them: a step is a microsecond."""


class OrderWalkOptions(msgspec.Struct, frozen=True):
    """One walk.  ``order_plan`` draws a varied one from a seed."""

    seed: int
    nodes: int = 3
    messages: int = 8
    fifo: bool = False
    """Links bring messages in the order of sending."""
    some: float = 0.0
    """Chance that a message is for some members only (engines that have that)."""
    duplicate: float = 0.0
    crashes: int = 0
    eagerness: float = 0.5
    through_codec: bool = False
    engine: EngineOptions = EngineOptions()


def order_plan(spec: EngineSpec, seed: int, crashes: int = 0) -> OrderWalkOptions:
    """A varied walk: size, load and network all follow from the seed."""
    rng = random.Random(seed)
    return OrderWalkOptions(
        seed=seed,
        nodes=rng.choice((2, 3, 3, 4, 5)),
        messages=rng.randint(1, 14) if rng.random() < 0.9 else rng.randint(20, 60),
        fifo=spec.fifo_links or rng.random() < 0.3,
        some=rng.choice((0.0, 0.5, 1.0)) if spec.multicast else 0.0,
        # A link that is FIFO repeats nothing either.
        duplicate=0.0 if spec.fifo_links else rng.choice((0.0, 0.1, 0.4)),
        crashes=crashes,
        eagerness=rng.choice((0.1, 0.5, 0.9)),
        through_codec=rng.random() < 0.3,
        engine=EngineOptions(
            stability=spec.stability, wait_us=rng.choice((0, 10, 100)) if spec.timed else 0
        ),
    )


class OrderWalk:
    """One walk, on its way."""

    def __init__(self, spec: EngineSpec, options: OrderWalkOptions) -> None:
        self.options = options
        self.rng = random.Random(f"orders {options.seed}")
        names = node_names(options.nodes)
        self.steps = 0
        engine = options.engine
        if spec.timed:
            self.skews = [self.rng.randrange(SKEW_STEPS_MAX) for _ in names]
            engine = replace(engine, clock=lambda slot: self.steps + self.skews[slot])
        self.orders = Orders(spec, names)
        self.cluster = Cluster(
            spec, names, engine, [self.orders], through_codec=options.through_codec
        )
        self.spec = spec
        self.messages = options.messages
        self.crashes = options.crashes
        self.duplicates = int(options.duplicate * options.messages * options.nodes)
        self.live = set(range(options.nodes))
        self.untold: list[tuple[int, int]] = []
        """(node, crashed node) of those who have not learned of a crash."""

    def go(self) -> Orders:
        """All of it."""
        rng = self.rng
        while self.messages or self.crashes or self._busy():
            node = rng.choice(sorted(self.live))
            if rng.random() < self.options.eagerness:
                self._serve(node)
            self._step(node)
            self.steps += 1
        return self.orders

    def _busy(self) -> bool:
        cluster = self.cluster
        if cluster.in_flight or self.untold:
            return True
        if any(cluster.to_middleware[i] or cluster.to_client[i] for i in self.live):
            return True
        if self.spec.timed:
            self.steps += self.options.engine.wait_us + SKEW_STEPS_MAX
        return any([cluster.flush(i) for i in sorted(self.live)])

    def _step(self, node: int) -> None:
        rng, cluster = self.rng, self.cluster
        kind = rng.randrange(7)
        if kind == 0 and self.messages:
            self.messages -= 1
            self._send(node)
        elif kind == 1 and self.crashes and len(self.live) > 1 and rng.random() < 0.2:
            self.crashes -= 1
            self._crash(node)
        elif kind == 2:
            cluster.middleware_step(node)
        elif kind == 3:
            cluster.client_take(node)
        elif kind == 4:
            self._tell()
        elif cluster.in_flight:
            self._network(rng.randrange(len(cluster.in_flight)))
        if self.crashes and len(self.live) <= 1:
            self.crashes = 0

    def _serve(self, node: int) -> None:
        if self.rng.random() < 0.5:
            self.cluster.middleware_step(node)
        else:
            self.cluster.client_take(node)

    def _send(self, node: int) -> None:
        rng = self.rng
        payload = b"x" * rng.randrange(3)
        others = sorted(self.live - {node})
        # Drawn in any case, so that engines without multicasts walk the same way.
        is_for_some, count = rng.random() < self.options.some, rng.randint(1, self.options.nodes)
        if is_for_some and others:
            some = rng.sample(others, min(count, len(others)))
            self.cluster.client_broadcast(node, payload, to=some)
        else:
            self.cluster.client_broadcast(node, payload)

    def _network(self, index: int) -> None:
        flights = self.cluster.in_flight
        i, j, _ = flights[index]
        if j not in self.live:
            flights.pop(index)  # sent by one who has not learned of the crash
            return
        if self.options.fifo:
            index = next(at for at, each in enumerate(flights) if each[:2] == (i, j))
        if self.duplicates and self.rng.random() < self.options.duplicate:
            self.duplicates -= 1
            self.cluster.network_deliver(*flights[index])
        elif self.cluster.network_deliver(*flights[index]):
            flights.pop(index)  # what came of it is behind it

    def _crash(self, node: int) -> None:
        """It is gone; each link keeps some of what it sent last, and loses the rest."""
        rng, cluster = self.rng, self.cluster
        self.live.discard(node)
        self.orders.crash(node)
        kept = {j: rng.random() for j in self.live}
        flights = []
        for flight in cluster.in_flight:
            i, j, _ = flight
            if j not in self.live:
                continue
            if i == node:
                if kept[j] < 1 and rng.random() > kept[j]:
                    kept[j] = 2.0  # from here on nothing
                if kept[j] > 1:
                    continue
            flights.append(flight)
        cluster.in_flight[:] = flights
        self.untold += [(j, node) for j in sorted(self.live)]
        self.untold = [(j, i) for j, i in self.untold if j in self.live]

    def _tell(self) -> None:
        """Somebody learns of a crash, once nothing of that node is on its way there."""
        due = [
            (j, i)
            for j, i in self.untold
            if not any(flight[:2] == (i, j) for flight in self.cluster.in_flight)
        ]
        if due:
            j, i = self.rng.choice(due)
            self.untold.remove((j, i))
            self.cluster.crashed(j, i)


def order_walk(spec: EngineSpec, options: OrderWalkOptions | int) -> Orders:
    """Walk; what the applications saw.  ``options`` may be just a seed."""
    if isinstance(options, int):
        options = order_plan(spec, options)
    return OrderWalk(spec, options).go()
