"""Kinds of runs of whole nodes, by what befalls them."""

from __future__ import annotations

from typing import Any

from thence.config.node import FlowConfig
from thence.sim.datagrams import Weather
from thence.sim.node_options import EVERY_COMMIT, NEVER, NodesOptions

TIGHT = FlowConfig(outbox_messages_max=4, credit_messages=3)
NARROW = FlowConfig(outbox_messages_max=1, credit_messages=1)

CLASSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "breaks": {"breaks": 8, "partitions": 2},
    "no journal": {"breaks": 8, "partitions": 2, "journal": False},
    "kills": {"kills": 6, "breaks": 3},
    "crashes": {"crashes": 8, "partitions": 1},
    "confirms": {"kills": 5, "crashes": 5, "confirms": True},
    "eager": {"kills": 4, "crashes": 4, "eager": True, "confirms": True},
    "joined": {"kills": 4, "crashes": 4, "breaks": 4, "turn_s": 0.004, "eager": True},
    "joined, confirms": {"kills": 4, "crashes": 4, "breaks": 4, "turn_s": 0.004, "confirms": True},
    "long turns": {"kills": 6, "crashes": 2, "breaks": 12, "turn_s": 0.1, "confirms": True},
    "tight": {"kills": 3, "breaks": 3, "slow": True, "flow": TIGHT},
    "narrow": {"kills": 3, "breaks": 3, "confirms": True, "turn_s": 0.004, "flow": NARROW},
    "bursts": {"breaks": 8, "partitions": 2, "journal": False, "bursts": 7, "turn_s": 0.004},
    "bursts, kills": {"kills": 4, "crashes": 4, "bursts": 5, "confirms": True},
    "bursts, tight": {"kills": 3, "breaks": 3, "slow": True, "bursts": 9, "flow": TIGHT},
    "bursts, streams": {
        "kills": 3, "crashes": 3, "bursts": 5, "multicasts": True, "streams": True, "turn_s": 0.004,
    },
    "streams": {"kills": 4, "crashes": 4, "streams": True, "confirms": True},
    "multicasts": {"kills": 4, "crashes": 4, "multicasts": True, "confirms": True},
    "multicasts, streams": {"kills": 3, "breaks": 3, "multicasts": True, "streams": True},
    "no stability": {"kills": 4, "crashes": 4, "stability": False},
    "known": {"kills": 4, "crashes": 4, "k": 2, "stability_batch": 1, "confirms": True},
    "fails": {"fails": 6, "kills": 2, "confirms": True},
    "fails, groups": {"fails": 6, "eager": True, "groups": 2, "messages": 8},
    "kept": {"kills": 4, "crashes": 4, "kept": True, "turn_s": 0.004},
    "kept, confirms": {"kills": 3, "crashes": 6, "kept": True, "confirms": True, "bursts": 3},
    "kept, everything": {
        "kills": 3, "crashes": 4, "fails": 2, "kept": True, "eager": True, "streams": True,
        "multicasts": True, "groups": 2, "k": 2, "messages": 8, "checkpoint_bytes": 600,
    },
    "kept, never": {"kills": 3, "crashes": 5, "kept": True, "checkpoint_bytes": NEVER},
    "kept, no stability": {"kills": 3, "crashes": 5, "kept": True, "stability": False},
    "kept, no journal": {"breaks": 8, "kept": True, "journal": False, "bursts": 3},
    "every commit": {"kills": 3, "crashes": 5, "confirms": True, "checkpoint_bytes": EVERY_COMMIT},
    "never": {"kills": 3, "crashes": 5, "confirms": True, "checkpoint_bytes": NEVER},
    "groups": {"kills": 3, "crashes": 3, "breaks": 2, "groups": 3, "messages": 6},
    "late": {"kills": 3, "breaks": 2, "late": 1, "confirms": True},
    "late, tight": {"kills": 3, "breaks": 2, "late": 2, "flow": TIGHT},
    "datagrams": {"kills": 2, "partitions": 1, "breaks": 2, "weather": Weather(loss=0.2)},
    "datagrams, joined": {
        "crashes": 3, "turn_s": 0.004, "confirms": True, "groups": 2, "messages": 8,
        "weather": Weather(loss=0.1, duplicate=0.2, jitter_s=0.03),
    },
    "big": {"nodes": 7, "kills": 4, "crashes": 4, "messages": 6},
    "everything": {
        "nodes": 5, "messages": 6, "groups": 2, "late": 1, "breaks": 3, "partitions": 1, "kills": 3,
        "crashes": 3, "fails": 2, "turn_s": 0.004, "eager": True, "confirms": True, "k": 2,
        "streams": True, "multicasts": True, "flow": TIGHT,
    },
}  # fmt: skip


def options_of(name: str, seed: int) -> NodesOptions:
    """The run of this class with this seed."""
    fields = {"nodes": 3 + seed % 2, **CLASSES[name]}
    return NodesOptions(seed=seed, **fields)
