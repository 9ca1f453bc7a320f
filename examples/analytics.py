"""Two simulated runs, asked what happened before what: does a slow network cost causality?

Five nodes send twenty messages each, once over a quick network and once over a slow one.  The
slower the network, the less a node knows when it sends: chains of messages are shorter and more
messages are concurrent.  Then both runs are stopped on the way, at the latest cut that is a state
the run could have been in.  docs/howto/analytics.md explains the functions.

    python examples/analytics.py

    5 ms: the longest chain has 42 of 100 messages; c:10 is concurrent with 4
    5 ms: at 100 ms, 45 messages: a at 151, b at 129, c at 144, d at 123, e at 139
    80 ms: the longest chain has 23 of 100 messages; c:10 is concurrent with 56
    80 ms: at 100 ms, 49 messages: a at 17, b at 22, c at 13, d at 20, e at 24
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from pyspark.sql import functions as F

from thence.pipeline import (
    causal_order,
    concurrent_with,
    latest_cut,
    materialise,
    positions_of,
    spark_session,
)
from thence.sim.network import NetworkOptions
from thence.sim.run import SimulationOptions, run_info, simulate
from thence.sim.workload import WorkloadOptions
from thence.trace.writer import RunWriter

LATENCIES_MS = (5, 80)
NODES = 5
MESSAGES = 20


def record(folder: Path, latency_ms: int) -> None:
    """Simulate a group and write its logs, one Parquet file for each node."""
    options = SimulationOptions(
        nodes=NODES,
        workload=WorkloadOptions(messages=MESSAGES),
        network=NetworkOptions(latency_ms=latency_ms),
    )
    with RunWriter(folder / f"{latency_ms}", run_info(options)) as writer:
        simulate(options, writer)


def main() -> None:
    spark = spark_session()
    with tempfile.TemporaryDirectory() as name:
        for latency_ms in LATENCIES_MS:
            record(Path(name), latency_ms)
            run = spark.read.parquet(f"{name}/{latency_ms}/*.parquet")
            deepest = causal_order(run).agg(F.max("depth")).first()
            beside = concurrent_with(run, "c:10").count()
            print(
                f"{latency_ms} ms: the longest chain has {deepest[0]} of {NODES * MESSAGES} "
                f"messages; c:10 is concurrent with {beside}"
            )
            cut = latest_cut(run, before_us=100_000)
            state = materialise(run, cut, fold="count", check=False).first()
            where = ", ".join(f"{node} at {pos}" for node, pos in positions_of(cut).items())
            print(f"{latency_ms} ms: at 100 ms, {state.state} messages: {where}")


if __name__ == "__main__":
    main()
