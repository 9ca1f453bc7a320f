"""Random correct executions, and ways to break them.

A tiny group with explicit sets for pasts; nothing of thence but the record.  ``execution(seed)``
gives logs that break no rule, ``broken(seed)`` the same with one to three random mutations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from thence.causal.dot import Dot
from thence.trace.record import Record, RunInfo

D = tuple[str, int]
Logs = dict[str, list[dict[str, Any]]]


class Group:
    """A group in one process; every log is a list of dicts without positions."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = [f"n{k}" for k in range(rng.randint(1, 5))]
        self.guarantee = rng.choice(["causal"] * 7 + ["causal-total", "total", "fifo"])
        self.total = self.guarantee in ("total", "causal-total")
        self.causal = self.guarantee in ("causal", "causal-total")
        self.tags = rng.choice(["exact"] * 5 + ["over", "none"]) if self.causal else "none"
        self.multicast = self.guarantee == "causal" and rng.random() < 0.1
        self.streams = self.guarantee == "causal" and rng.random() < 0.25
        self.stability = self.causal and not self.multicast and rng.random() < 0.9
        self.logs: Logs = {name: [] for name in self.names}
        self.seq: dict[str, int] = {}
        self.past: dict[D, set[D]] = {}
        self.to: dict[D, list[str]] = {}
        self.order: list[D] = []
        self.taken: dict[str, set[D]] = {name: set() for name in self.names}
        self.there: dict[str, set[D]] = {name: set() for name in self.names}
        self.told: dict[str, set[D]] = {name: set() for name in self.names}
        self.phantoms: list[tuple[D, frozenset[D]]] = []
        self.heard: dict[str, list[tuple[D, frozenset[D]]]] = {name: [] for name in self.names}

    def run(self) -> tuple[Logs, RunInfo]:
        rng = self.rng
        messages = rng.randint(1, 9) if rng.random() < 0.85 else rng.randint(10, 30)
        quiet = rng.random()
        while messages:
            name = rng.choice(self.names)
            roll = rng.random()
            if roll < 0.25:
                self.send(name)
                messages -= 1
            elif roll < 0.75:
                self.deliver_one(name)
            elif roll < 0.85 and self.stability:
                self.phantom(name)
            elif rng.random() < quiet:
                self.tell(name, rng.randint(1, 4))
        for name in rng.sample(self.names, len(self.names)):
            while self.deliver_one(name):
                pass
        for name in self.names:
            if self.stability:
                self.tell(name, 10**6)
            self.log(name, "end")
        info = RunInfo(
            run="r",
            engine="test",
            members=tuple(self.names),
            complete=True,
            guarantee=self.guarantee,
            tags=self.tags,
            stability=self.stability,
        )
        return self.logs, info

    def log(self, name: str, kind: str, dot: D | None = None, **more: Any) -> None:
        self.logs[name].append({"kind": kind, "dot": dot, **more})

    def maximal(self, dots: set[D]) -> set[D]:
        return {e for e in dots if not any(e in self.past[f] for f in dots)}

    def send(self, name: str) -> None:
        on_stream = self.streams and self.rng.random() < 0.3
        origin = f"{name}/s{self.rng.randint(1, 2)}" if on_stream else name
        self.seq[origin] = self.seq.get(origin, 0) + 1
        dot = (origin, self.seq[origin])
        more: dict[str, Any] = {}
        if on_stream:
            known = sorted(self.taken[name])
            context = self.maximal(set(self.rng.sample(known, min(len(known), 2))))
            past = {(origin, dot[1] - 1)} if dot[1] > 1 else set()
            more["stream"] = origin.partition("/")[2]
        else:
            context = self.maximal(self.taken[name])
            past = set(self.taken[name])
        for before in past | context:
            past = past | {before} | self.past[before]
        if self.tags == "over" and not on_stream:
            context = context | set(self.rng.sample(self.order, min(len(self.order), 1)))
        if self.guarantee in ("fifo", "total"):
            past = {(origin, s) for s in range(1, dot[1])}
        if self.multicast and self.rng.random() < 0.5:
            self.to[dot] = self.rng.sample(self.names, self.rng.randint(1, len(self.names)))
            more["to"] = self.to[dot]
        self.past[dot] = past
        self.order.append(dot)
        self.taken[name].add(dot)
        if not self.total:
            self.there[name].add(dot)
        self.log(name, "send", dot, context=sorted(context), **more)

    def deliver_one(self, name: str) -> bool:
        ready = []
        for dot in self.order:
            own = dot[0].partition("/")[0] == name and not self.total
            if own or dot in self.there[name] or name not in self.to.get(dot, self.names):
                continue
            need = {d for d in self.past[dot] if name in self.to.get(d, self.names)}
            if self.total or need <= self.there[name]:
                ready.append(dot)
            if self.total:
                break
        if not ready:
            return False
        dot = self.rng.choice(ready)
        if self.rng.random() < 0.2:
            self.log(name, "receive", dot)
        self.log(name, "deliver", dot)
        self.taken[name].add(dot)
        self.there[name].add(dot)
        return True

    def phantom(self, name: str) -> None:
        if self.phantoms and self.rng.random() < 0.7:
            dot, context = self.rng.choice(self.phantoms)
            if dot[0] != name:
                self.heard[name].append((dot, context))
                self.log(name, "phantom", dot, context=sorted(context))
            return
        dot = (name, self.seq.get(name, 0) + 1)
        context = frozenset(self.maximal(self.taken[name]))
        self.phantoms.append((dot, context))
        self.log(name, "phantom", dot, context=sorted(context))

    def is_stable(self, name: str, dot: D) -> bool:
        there = self.there[name]
        if any(dot not in self.past[own] for own in self.taken[name] - there):
            return False  # in total orders: sent here before the dot, and still to be delivered
        for other in self.names:
            if other == name or any(
                d[0] == other and (d == dot or dot in self.past[d]) for d in there
            ):
                continue
            if not any(
                d[0] == other
                and all((other, s) in there for s in range(1, d[1]))
                and (
                    dot in {(other, s) for s in range(1, d[1])}
                    or any(dot == c or dot in self.past[c] for c in context)
                )
                for d, context in self.heard[name]
            ):
                return False
        return True

    def tell(self, name: str, limit: int) -> None:
        if not self.stability:
            return
        for _ in range(limit):
            ready = [
                dot
                for dot in self.order
                if dot in self.there[name]
                and dot not in self.told[name]
                and "/" not in dot[0]
                and {d for d in self.past[dot] if "/" not in d[0]} <= self.told[name]
                and self.is_stable(name, dot)
            ]
            if not ready:
                return
            dot = self.rng.choice(ready)
            self.told[name].add(dot)
            self.log(name, "stable", dot)


def records_of(logs: Logs) -> list[Record]:
    """Records with dense positions, except where a mutation put ``pos`` in the dict."""
    records = []
    for node, log in logs.items():
        skipped = 0
        for at, event in enumerate(log):
            skipped += event.get("skip", 0)
            dot, to = event.get("dot"), event.get("to")
            records.append(
                Record(
                    run="r",
                    node=node,
                    pos=max(0, at + skipped),
                    kind=event["kind"],
                    t_us=at,
                    dot=None if dot is None else Dot(*dot),
                    context=_dots(event.get("context")),
                    to=None if to is None else tuple(to),
                    peer=event.get("peer"),
                    stable=_dots(event.get("stable")),
                )
            )
    return records


def _dots(pairs: Iterable[D] | None) -> tuple[Dot, ...] | None:
    """Absent and empty are not the same on a restart."""
    return None if pairs is None else tuple(Dot(*pair) for pair in pairs)


def execution(seed: int) -> tuple[Logs, RunInfo]:
    """A correct execution."""
    return Group(random.Random(seed)).run()


def broken(seed: int) -> tuple[Logs, RunInfo]:
    """An execution with one to three mutations."""
    rng = random.Random(f"broken {seed}")
    logs, info = execution(seed)
    for _ in range(rng.choice((1, 1, 2, 3))):
        info = rng.choice(MUTATORS)(rng, logs, info) or info
    return logs, info


def _log(rng: random.Random, logs: Logs) -> list[dict[str, Any]]:
    return rng.choice([log for log in logs.values() if log] or [[{"kind": "sample"}]])


def pick(rng: random.Random, logs: Logs, *kinds: str) -> tuple[list[dict[str, Any]], int] | None:
    places = [
        (log, at)
        for log in logs.values()
        for at, event in enumerate(log)
        if not kinds or event["kind"] in kinds
    ]
    return rng.choice(places) if places else None


def any_dot(rng: random.Random, logs: Logs) -> D:
    dots = sorted({e["dot"] for log in logs.values() for e in log if e.get("dot")})
    node, seq = rng.choice(dots) if dots else ("n0", 1)
    return rng.choice([(node, seq), (node, seq), (node, seq + 1), (node, max(1, seq - 1))])


def drop(rng, logs, info):
    if place := pick(rng, logs):
        del place[0][place[1]]


def duplicate(rng, logs, info):
    if place := pick(rng, logs):
        log, at = place
        log.insert(rng.randint(0, len(log)), dict(log[at]))


def swap(rng, logs, info):
    log = _log(rng, logs)
    a, b = rng.randrange(len(log)), rng.randrange(len(log))
    log[a], log[b] = log[b], log[a]


def move(rng, logs, info):
    if place := pick(rng, logs):
        log, at = place
        event = log.pop(at)
        log.insert(rng.randint(0, len(log)), event)


def earlier(rng, logs, info):
    if place := pick(rng, logs, "deliver", "stable"):
        log, at = place
        event = log.pop(at)
        log.insert(rng.randint(max(0, at - 4), at), event)


def other_dot(rng, logs, info):
    if place := pick(rng, logs, "send", "deliver", "stable", "phantom"):
        place[0][place[1]] = {**place[0][place[1]], "dot": any_dot(rng, logs)}


def far_seq(rng, logs, info):
    if place := pick(rng, logs, "send", "deliver", "stable", "phantom"):
        event = place[0][place[1]]
        place[0][place[1]] = {**event, "dot": (event["dot"][0], rng.choice((5, 12, 30)))}


def unknown_origin(rng, logs, info):
    if place := pick(rng, logs, "send", "deliver", "stable"):
        event = place[0][place[1]]
        name = rng.choice(("zz", "a0", "n0/s9", "n1/s1"))
        place[0][place[1]] = {**event, "dot": (name, event["dot"][1])}


def other_kind(rng, logs, info):
    if place := pick(rng, logs, "send", "deliver", "stable", "phantom"):
        kind = rng.choice(("send", "deliver", "stable", "phantom", "receive", "novelty"))
        place[0][place[1]] = {**place[0][place[1]], "kind": kind}


def context(rng, logs, info):
    if place := pick(rng, logs, "send", "phantom"):
        event = place[0][place[1]]
        dots = list(event.get("context") or ())
        for _ in range(rng.randint(1, 2)):
            if dots and rng.random() < 0.5:
                dots.pop(rng.randrange(len(dots)))
            else:
                dots.append(any_dot(rng, logs))
        place[0][place[1]] = {**event, "context": rng.choice((dots, dots, dots, None))}


def into_other_log(rng, logs, info):
    if place := pick(rng, logs):
        log = rng.choice(list(logs.values()))
        log.insert(rng.randint(0, len(log)), dict(place[0][place[1]]))


def jumble(rng, logs, info):
    log = _log(rng, logs)
    a, b = sorted((rng.randint(0, len(log)), rng.randint(0, len(log))))
    part = log[a:b]
    rng.shuffle(part)
    log[a:b] = part


def positions(rng, logs, info):
    if place := pick(rng, logs):
        place[0][place[1]] = {**place[0][place[1]], "skip": rng.choice((-2, -1, 1, 3))}


def cut(rng, logs, info):
    log = _log(rng, logs)
    del log[rng.randint(0, len(log)) :]


def lose_log(rng, logs, info):
    if len(logs) > 1:
        del logs[rng.choice(list(logs))]


def recipients(rng, logs, info):
    if place := pick(rng, logs, "send"):
        to = rng.sample(info.members, rng.randint(0, len(info.members)))
        place[0][place[1]] = {**place[0][place[1]], "to": to}


def other_info(rng, logs, info):
    change: dict[str, Any] = rng.choice(
        [
            {"complete": False},
            {"stability": not info.stability},
            {"members": info.members[1:]},
            {"members": (*info.members, "zz")},
            {"tags": rng.choice(("exact", "over", "none"))},
            {"guarantee": rng.choice(("fifo", "causal", "total", "causal-total"))},
        ]
    )
    return msgspec.structs.replace(info, **change)


MUTATORS: list[Callable[[random.Random, Logs, RunInfo], RunInfo | None]] = [
    drop, drop, duplicate, swap, move, move, earlier, earlier, earlier, other_dot, other_dot,
    far_seq, unknown_origin, other_kind, context, context, into_other_log, jumble, positions,
    cut, lose_log, recipients, other_info,
]  # fmt: skip
