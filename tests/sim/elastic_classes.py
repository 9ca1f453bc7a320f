"""Kinds of runs of nodes whose members change, by what befalls them."""

from __future__ import annotations

from typing import Any

import msgspec

from thence.config.node import FlowConfig
from thence.sim.datagrams import Weather
from thence.sim.elastic_options import MEMBERSHIP, ElasticOptions

TIGHT = FlowConfig(outbox_messages_max=6, credit_messages=4)
SMALL = FlowConfig(unstable_bytes_max=1024)

# With a fifth of all datagrams lost, silence is less of a sign.
PATIENT = msgspec.structs.replace(MEMBERSHIP, beat_ms=150.0, suspect_s=0.9, evict_s=1.2)
LATENCIES_S = (0.005, 0.02, 0.05)

CLASSES: dict[str, dict[str, Any]] = {
    "joins": {"joins": 3},
    "dense": {
        "nodes": 3, "joins": 2, "messages": 60, "interval_s": 0.006, "busy_s": 0.6,
        "slow_link_s": 0.15, "stability_batch": 1,
    },
    "listeners": {
        "nodes": 4, "joins": 2, "messages": 60, "interval_s": 0.006, "busy_s": 0.6, "talkers": 2,
        "slow_link_s": 0.15, "stability_batch": 1,
    },
    "joins, breaks": {"nodes": 2, "joins": 3, "breaks": 12, "aimed": True},
    "leaves": {"nodes": 5, "leaves": 3},
    "joins, leaves": {"nodes": 4, "joins": 3, "leaves": 3, "breaks": 2},
    "crashes": {"nodes": 5, "crashes": 2, "rejoins": 0.0},
    "rejoins": {"nodes": 4, "crashes": 2, "rejoins": 1.0},
    "false suspicion": {"nodes": 4, "stops": 2, "rejoins": 0.7},
    "partitions": {"nodes": 5, "partitions": 3, "breaks": 3},
    "contacts crash": {"nodes": 4, "joins": 3, "crashes": 2, "aimed": True},
    "coordinators crash": {"nodes": 5, "leaves": 2, "crashes": 2, "stops": 1, "aimed": True},
    "tight": {"nodes": 3, "joins": 2, "leaves": 1, "stops": 1, "slow": True, "flow": TIGHT},
    "bursts": {"nodes": 4, "joins": 2, "crashes": 1, "stops": 1, "bursts": 6, "turn_s": 0.004},
    "pair": {"nodes": 2, "joins": 1, "crashes": 1, "leaves": 1},
    "alone": {"nodes": 1, "joins": 3, "leaves": 1, "crashes": 1, "aimed": True},
    "large": {
        "nodes": 8, "joins": 3, "leaves": 3, "crashes": 2, "stops": 1, "messages": 6,
        "interval_s": 0.06,
    },
    "loss": {
        "nodes": 4, "joins": 2, "leaves": 1, "crashes": 1, "stops": 1, "messages": 6,
        "latency_s": 0.004, "weather": Weather(loss=0.2, duplicate=0.15), "membership": PATIENT,
    },
    "restarts": {"nodes": 4, "crashes": 3, "faults": 2, "stops": 1, "journal": True},
    "restarts, joins": {
        "nodes": 3, "joins": 3, "leaves": 1, "crashes": 2, "faults": 3, "aimed": True,
        "journal": True,
    },
    "restarts, everything": {
        "nodes": 4, "joins": 2, "leaves": 1, "crashes": 3, "faults": 3, "stops": 1, "breaks": 2,
        "partitions": 1, "aimed": True, "bursts": 3, "journal": True,
    },
    "kept": {
        "nodes": 3, "joins": 3, "leaves": 1, "crashes": 2, "faults": 3, "stops": 1, "aimed": True,
        "bursts": 3, "journal": True, "kept": True,
    },
    "kept, shelves": {
        "nodes": 4, "joins": 2, "crashes": 3, "faults": 3, "stops": 1, "breaks": 4, "bursts": 3,
        "partitions": 1, "payload_bytes": 100, "flow": SMALL, "journal": True, "kept": True,
    },
    "kept, no journal": {"nodes": 3, "joins": 3, "crashes": 1, "kept": True, "bursts": 2},
    "shelves": {
        "nodes": 4, "joins": 2, "leaves": 1, "crashes": 3, "faults": 3, "stops": 1, "breaks": 4,
        "partitions": 1, "bursts": 3, "payload_bytes": 100, "flow": SMALL, "journal": True,
    },
    "full": {
        "nodes": 4, "joins": 1, "stops": 2, "crashes": 1, "breaks": 2, "payload_bytes": 100,
        "flow": SMALL, "membership": msgspec.structs.replace(MEMBERSHIP, evict_s=2.0),
    },
    "everything": {
        "nodes": 4, "joins": 3, "leaves": 2, "crashes": 2, "stops": 1, "partitions": 1, "breaks": 3,
        "aimed": True, "bursts": 3, "turn_s": 0.004,
    },
}  # fmt: skip


def options_of(name: str, seed: int) -> ElasticOptions:
    """The run of this class with this seed."""
    # A turn for everything that arrives, or one for all that arrives within some milliseconds.
    fields = {"turn_s": 0.006 if seed % 4 else 0.0, "latency_s": LATENCIES_S[seed % 3]}
    return ElasticOptions(seed=seed, **{**fields, **CLASSES[name]})
