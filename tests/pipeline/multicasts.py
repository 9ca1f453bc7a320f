"""A simulated run with multicasts, phantoms and CPU times: workloads of the simulator have none."""

from __future__ import annotations

import random
from pathlib import Path

from thence.engine.base import EngineOptions
from thence.engine.registry import ENGINES
from thence.sim.clock import Clock
from thence.sim.cluster import Cluster
from thence.sim.meter import Meter
from thence.sim.recorder import Recorder
from thence.trace.record import RunInfo
from thence.trace.writer import RunWriter

NAMES = ("a", "b", "c")


def multicast_run(folder: Path, name: str, seed: int) -> None:
    """Twenty messages, half of them for one node only."""
    rng = random.Random(seed)
    spec, clock, meter = ENGINES["tagged"], Clock(), Meter()
    info = RunInfo(
        run=name, engine="multicasts", members=NAMES, stability=True, scenario={"simulated": True}
    )
    with RunWriter(folder, info) as writer:
        recorder = Recorder(spec, NAMES, writer)
        recorder.clock = meter.clock = clock
        cluster = Cluster(
            spec, NAMES, EngineOptions(stability_batch=1), [recorder], around=meter.around
        )
        recorder.clients = cluster.clients
        for _ in range(20):
            node = rng.randrange(3)
            to = [rng.choice([n for n in range(3) if n != node])] if rng.random() < 0.5 else None
            cluster.client_broadcast(node, to=to)
            for _ in range(rng.randrange(9)):
                step(cluster, clock, rng)
        for _ in range(3):  # so that all of it becomes stable
            for node in range(3):
                cluster.client_phantom(node)
            while step(cluster, clock, rng):
                pass
        recorder.end()
    meter.write(folder, NAMES)


def step(cluster: Cluster, clock: Clock, rng: random.Random) -> bool:
    """One thing that can happen, somewhere; False when there is none."""
    clock.now_us += rng.randrange(50)
    if cluster.in_flight and rng.random() < 0.5:
        cluster.network_deliver(*cluster.in_flight.pop(rng.randrange(len(cluster.in_flight))))
        return True
    nodes = rng.sample(range(3), 3)
    if any(cluster.client_take(n) or cluster.middleware_step(n) for n in nodes):
        return True
    return bool(cluster.in_flight)
