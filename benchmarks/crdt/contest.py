"""Contestants take turns at the same calls: CPU time for each operation, bytes for each operation.

Two replicas.  In a turn each carries out ``BUNCH`` calls, then takes what the other did, which is
concurrent; then what everybody has is stable.  A text has one author: the other replica takes what
it did.  Afterwards both replicas show the same, and a text is that of plain Python.

Every contestant does all calls once in a round, on fresh replicas; ratios are those within a round,
and their medians count.  The garbage collector runs as it would, over what the contestant made.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from typing import Any

from benchmarks.crdt import workload
from benchmarks.crdt.ours import Ours
from benchmarks.crdt.theirs import Loro, Pycrdt
from benchmarks.crdt.workload import Call

BUNCH = 50
TEXT = "sequence"

Make = Callable[[], Any]
Costs = dict[str, list[dict[str, float]]]
"""By contestant, for each round: local, remote, bytes."""


def contestants(kind: str, per_message: int) -> dict[str, Make]:
    """By name; ``thence, group`` counts the work of the group, too."""
    return {
        "thence": lambda: Ours(kind, per_message),
        "thence, group": lambda: Ours(kind, per_message, whole=True),
        "pycrdt": lambda: Pycrdt(kind, per_message),
        "loro": lambda: Loro(kind, per_message),
    }


def calls_of(kind: str, calls: int) -> tuple[list[Call], list[Call]]:
    """What the two replicas are asked for."""
    if kind == TEXT:
        return workload.edits(calls, 1), []
    draw = {
        "map_uw": workload.updates,
        "set_aw": workload.members,
        "counter_pn": workload.counts,
        "register_counter": workload.counts,
    }[kind]
    return draw(calls // 2, 1), draw(calls // 2, 2)


def once(made: Any, calls: tuple[list[Call], list[Call]]) -> dict[str, float]:
    """One contestant, from nothing: microseconds and bytes for each call.

    A call is stable at both replicas, at its own and at the other: the time that this takes
    is part of both, of ``local`` and of ``remote``.
    """
    own, other = made.calls(calls[0]), made.calls(calls[1])
    gc.collect()
    gc.freeze()
    for at in range(0, len(own), BUNCH):
        first = made.local(0, own[at : at + BUNCH])
        if other:
            second = made.local(1, other[at : at + BUNCH])
            made.remote(0, second)
        made.remote(1, first)
        made.settle()
    gc.unfreeze()
    assert made.value(0) == made.value(1), "replicas show different values"
    assert not made.stamps_left(), "not all is stable"
    count = len(own) + len(other)
    us = {name: seconds / count * 1e6 for name, seconds in made.seconds.items()}
    return {
        "local": us["local"] + us["stable"] / 2,
        "remote": us["remote"] + us["stable"] / 2,
        "bytes": made.bytes / count,
    }


def race(kind: str, per_message: int, calls: int, rounds: int) -> Costs:
    """All contestants in turns."""
    asked = calls_of(kind, calls)
    makers = contestants(kind, per_message)
    expected = workload.written(asked[0]) if kind == TEXT else None
    costs: Costs = {name: [] for name in makers}
    for number in range(rounds + 1):
        for name, make in makers.items():
            made = make()
            found = once(made, asked)
            assert expected is None or made.value(1) == expected, f"{name} has another text"
            if number:  # the first is to warm up
                costs[name].append(found)
    return costs


def ratio(costs: Costs, what: str, name: str, other: str = "pycrdt") -> float:
    """The median over rounds of the ratio within a round."""
    pairs = zip(costs[name], costs[other], strict=True)
    return statistics.median([ours[what] / theirs[what] for ours, theirs in pairs])


def median(costs: Costs, what: str, name: str) -> float:
    """Of all rounds."""
    return statistics.median([found[what] for found in costs[name]])
