"""Logs that no group would write: records drawn at random, and dots of another log among one's own.

tests/trace/executions.py and dynamics.py break what was once right, so a fault there has a right
run around it.  Here nothing was ever right: a snapshot names the node's own dots before it sends
them, restarts follow each other, a log speaks of nodes that are not there.  The definitions of
docs/reference/trace.md cover such logs as well.
"""

from __future__ import annotations

import random
from typing import Any

from tests.trace.executions import D, Logs
from thence.trace.record import RunInfo

KINDS = (
    ["send"] * 6 + ["deliver"] * 8 + ["stable"] * 4 + ["phantom"] * 2
    + ["snapshot"] * 2 + ["restart"] * 3 + ["join", "leave", "evict", "end", "receive", "unheard"]
)  # fmt: skip
LIFE_KINDS = (
    ["send"] * 4 + ["stable"] * 4 + ["deliver"] * 3 + ["snapshot"] * 2 + ["restart"] * 2
)  # fmt: skip
"""Of a log that is mostly about its own dots: states that bring them, and what is told of them."""
GUARANTEES = ["causal"] * 4 + ["fifo", "total", "causal-total", "causal-total"]


class _Chaos:
    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(f"chaos {seed}")
        self.views = random.Random(f"chaos views {seed}")  # apart: the rest is as it always was
        self.nodes = [f"n{number}" for number in range(rng.randint(1, 4))]
        self.origins = list(self.nodes)
        if rng.random() < 0.4:
            self.origins.append(f"{rng.choice(self.nodes)}/s")
        if rng.random() < 0.3:
            self.origins.append("ghost")
        self.last = rng.choice((2, 3, 5))
        self.own: str | None = None  # whose dots a log speaks of most

    def dot(self) -> D:
        origin = self.rng.choice(self.origins)
        if self.own is not None and self.rng.random() < 0.6:
            origin = self.own
        return origin, self.rng.randint(1, self.last)

    def dots(self, most: int) -> list[D]:
        return [self.dot() for _ in range(self.rng.randint(0, most))]

    def log(self, name: str) -> list[dict[str, Any]]:
        rng = self.rng
        log: list[dict[str, Any]] = []
        kinds, self.own = rng.choice(((KINDS, None), (LIFE_KINDS, name)))
        for _ in range(rng.choice((0, 3, 6, 10, 18))):
            log.append(self.event(name, rng.choice(kinds), log))
        if rng.random() < 0.8:
            log.append({"kind": "end"})
        return log

    def event(self, name: str, kind: str, log: list[dict[str, Any]]) -> dict[str, Any]:
        rng = self.rng
        event: dict[str, Any] = {"kind": kind}
        if kind == "send" and rng.random() < 0.85:
            mine = [origin for origin in self.origins if origin.partition("/")[0] == name]
            origin = rng.choice(mine)
            sent = [e["dot"][1] for e in log if e["kind"] == "send" and e["dot"][0] == origin]
            event["dot"] = (origin, max(sent, default=0) + 1)
        elif kind in ("join", "leave", "evict"):
            event["peer"] = rng.choice([*self.nodes, "late", None])
            event["dot"] = rng.choice([None, self.dot()])
        elif kind not in ("snapshot", "restart", "end"):
            event["dot"] = self.dot()
        if kind in ("send", "phantom") and rng.random() < 0.8:
            event["context"] = self.dots(3)
        if kind in ("snapshot", "restart"):
            if rng.random() < 0.7:
                event["context"] = self.dots(3)
            if rng.random() < 0.7:
                event["stable"] = self.dots(2)
        if kind in ("send", "snapshot") and rng.random() < 0.15:
            event["to"] = rng.sample(self.nodes, rng.randint(0, len(self.nodes)))
        if kind == "restart" and self.views.random() < 0.3:
            names = [*self.nodes, "late"]
            event["to"] = self.views.sample(names, self.views.randint(0, len(names)))
        return event

    def info(self) -> RunInfo:
        rng = self.rng
        return RunInfo(
            run="r",
            members=tuple(self.nodes) if rng.random() < 0.8 else (),
            complete=rng.random() < 0.8,
            guarantee=rng.choice(GUARANTEES),
            tags=rng.choice(["exact", "exact", "over", "none"]),
            stability=rng.random() < 0.8,
        )


def chaos(seed: int) -> tuple[Logs, RunInfo]:
    """Logs of random records."""
    drawn = _Chaos(seed)
    return {name: drawn.log(name) for name in drawn.nodes}, drawn.info()


def stretched(logs: Logs, seed: int) -> Logs:
    """The same logs with holes in the sequence numbers of some origins, the same in all logs."""
    rng = random.Random(f"stretched {seed}")
    named: dict[str, set[int]] = {}
    for log in logs.values():
        for event in log:
            for origin, seq in _dots_of(event):
                named.setdefault(origin, set()).add(seq)
    moved: dict[D, D] = {}
    for origin in sorted(named):
        gaps, seq = rng.choice(([0], [0, 0, 1, 2], [0, 3, 7])), 0
        for number in sorted(named[origin]):
            seq += 1 + rng.choice(gaps)
            moved[origin, number] = (origin, seq)
    return {name: [_moved(event, moved) for event in log] for name, log in logs.items()}


def _dots_of(event: dict[str, Any]) -> list[D]:
    own = [event["dot"]] if event.get("dot") else []
    return [*own, *(event.get("context") or ()), *(event.get("stable") or ())]


def _moved(event: dict[str, Any], moved: dict[D, D]) -> dict[str, Any]:
    event = dict(event)
    if event.get("dot"):
        event["dot"] = moved[event["dot"]]
    for name in ("context", "stable"):
        if event.get(name) is not None:
            event[name] = [moved[dot] for dot in event[name]]
    return event
