"""The tables of the metrics from explicit sets: slow, short, and sharing no code with the kernels.

What takes part in a log and what the past of a dot is says the brute force of the rules.  Every
function says its definition as docs/reference/metrics.md does.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.trace.brute import Brute, base, is_stream, pair, up_to
from tests.trace.executions import Logs
from thence.trace.record import Record, RunInfo

D = tuple[str, int]
Row = dict[str, Any]


def with_arrivals(rng: random.Random, logs: Logs) -> Logs:
    """The logs with ``receive`` and ``ready`` records put in, most of them where they belong."""
    share = rng.choice((1.0, 1.0, 1.0, 0.9, 0.4))
    found: Logs = {}
    for node, log in logs.items():
        before: dict[int, list[Row]] = {}
        start = 0
        for at, event in enumerate(log):
            if event["kind"] == "restart":
                start = at + 1
            if event["kind"] != "deliver":
                continue
            low = min(at, max(start, at - rng.choice((0, 3, 8, 20))))
            arrival = rng.randint(low, at)
            if rng.random() < share:
                before.setdefault(arrival, []).append({"kind": "receive", "dot": event["dot"]})
            if rng.random() < share:
                ready = rng.randint(arrival, at)
                before.setdefault(ready, []).append({"kind": "ready", "dot": event["dot"]})
        if rng.random() < 0.2:
            dots = sorted({e["dot"] for other in logs.values() for e in other if e.get("dot")})
            for dot in rng.choices(dots, k=3) if dots else ():
                kind = rng.choice(("receive", "ready"))
                before.setdefault(rng.randint(0, len(log)), []).append({"kind": kind, "dot": dot})
        plain = [e if e["kind"] != "receive" else {"kind": "novelty"} for e in log]
        found[node] = [
            event for at in range(len(log) + 1) for event in (*before.get(at, ()), *plain[at:][:1])
        ]
    return found


class Life:
    """One life of a node: where things happened in it, as rows of the log; None for never."""

    def __init__(self, brute: Brute, node: str, number: int, start: int, end: int) -> None:
        self.brute, self.node, self.number, self.start = brute, node, number, start
        log, states = brute.logs[node], brute.states[node]
        good = [(at, kind, dot) for at, kind, dot, _ in brute.good[node] if start <= at < end]
        self.sent = {dot: at for at, kind, dot in good if kind == "send"}
        self.delivered = {dot: at for at, kind, dot in good if kind == "deliver"}
        if not brute.total:
            self.delivered |= self.sent
        self.told = {
            dot: at for at, kind, dot in good if kind == "stable" and dot in brute.there(states[at])
        }
        self.stables = {dot for _, kind, dot in good if kind == "stable"}
        self.arrivals: dict[D, int] = {}
        self.find_what_came(end)
        came = dict(self.arrivals)
        self.received = {
            dot: at
            for dot, at in self.first(log, "receive", end).items()
            if base(dot[0]) != node and at <= min(self.delivered.get(dot, at), came.get(dot, at))
        }
        self.ready = {
            dot: at
            for dot, at in self.first(log, "ready", end).items()
            if self.received.get(dot, at) <= at <= self.delivered.get(dot, at)
            and (base(dot[0]) == node or at <= came.get(dot, at))
        }
        for dot, at in self.received.items():
            self.arrive(dot, at)

    def first(self, log: list[Record], kind: str, end: int) -> dict[D, int]:
        rows = [at for at in range(self.start, end) if log[at].kind == kind]
        return {pair(log[at].dot): at for at in reversed(rows)}

    def find_what_came(self, end: int) -> None:
        """What was there without being received: own, carried, or of a snapshot."""
        brute, node = self.brute, self.node
        states = brute.states[node]
        if self.number:
            carried = states[self.start + 1]
            for dot in carried.taken if not brute.total else carried.delivered | carried.sent:
                self.arrive(dot, self.start)
        for at, kind, _, record in brute.good[node]:
            if kind == "snapshot" and self.start <= at < end:
                for dot in up_to(record.context or ()) - brute.there(states[at]):
                    self.arrive(dot, at)
        for dot, at in self.sent.items():
            self.arrive(dot, at)

    def arrive(self, dot: D, at: int) -> None:
        self.arrivals[dot] = min(at, self.arrivals.get(dot, at))

    @cache  # noqa: B019  (a life does not outlive its test)
    def complete(self, dot: D) -> int | None:
        """Where it had arrived, and all of its past that is for this node."""
        needed = {d for d in self.brute.past(dot) if self.brute.is_for(d, self.node)} | {dot}
        if not needed <= self.arrivals.keys():
            return None
        return max(self.arrivals[d] for d in needed)

    def latest(self, dot: D) -> int | None:
        complete = self.complete(dot)
        if dot not in self.received or complete is None:
            return None
        limit = min(self.ready.get(dot, complete), self.delivered.get(dot, complete))
        return complete if complete <= limit else None

    def completing(self, dot: D) -> int | None:
        """Since which row the condition has held without a break."""
        told = self.told.get(dot)
        if told is None or not self.brute.causal or is_stream(dot):
            return None
        since = None
        for row in range(told - 1, self.start - 1, -1):
            if not self.condition(dot, row):
                break
            since = row
        return since

    def condition(self, dot: D, row: int) -> bool:
        """By what has arrived up to a row: every other member of the view is past the dot."""
        state = self.brute.states[self.node][row + 1]
        complete = self.complete(dot)
        return (
            complete is not None
            and complete <= row
            and all(
                member == self.node
                or self.by_message(member, dot, row)
                or self.by_phantom(member, dot, row)
                for member in self.brute.members_at(self.node, state)
            )
        )

    def by_message(self, member: str, dot: D, row: int) -> bool:
        for other in self.arrivals:
            if other[0] == member and (other == dot or dot in self.brute.past(other)):
                complete = self.complete(other)
                if complete is not None and complete <= row:
                    return True
        return False

    def by_phantom(self, member: str, dot: D, row: int) -> bool:
        for at, kind, phantom, record in self.brute.good[self.node]:
            if kind != "phantom" or at > row or phantom[0] != member:
                continue
            sent = {(member, seq) for seq in range(1, phantom[1])}
            mine = [self.complete(d) for d in sent if self.brute.is_for(d, self.node)]
            if any(complete is None or complete > row for complete in mine):
                continue
            named = [pair(d) for d in record.context or ()]
            if dot in sent or any(dot == d or dot in self.brute.past(d) for d in named):
                return True
        return False

    def rows(self) -> Iterable[Row]:
        brute, log = self.brute, self.brute.logs[self.node]
        seen = (self.received.keys() | self.ready.keys()) & brute.sends.keys()
        for dot in sorted(seen | self.sent.keys() | self.delivered.keys() | self.stables):

            def time(row: int | None) -> int | None:
                return None if row is None else log[row].t_us

            latest, sent = self.latest(dot), self.sent.get(dot)
            where = brute.sends.get(dot)
            record = None if sent is None else log[sent]
            dots = None if record is None else len(record.context or ())
            yield {
                "run": brute.info.run,
                "node": self.node,
                "life": self.number,
                "dot_node": dot[0],
                "dot_seq": dot[1],
                "own": base(dot[0]) == self.node,
                "t_send": None if where is None else brute.logs[where[0]][where[1]].t_us,
                "t_receive": time(self.received.get(dot)),
                "t_ready": time(self.ready.get(dot)),
                "t_deliver": time(self.delivered.get(dot)),
                "t_stable": time(self.told.get(dot)),
                "latest_receive": time(latest),
                "completing_receive": time(self.completing(dot)),
                "had_to_wait": None if latest is None else latest > self.received[dot],
                "context_dots": None if brute.info.tags == "none" else dots,
                "bytes": None if record is None else record.bytes,
                **self.work(dot),
            }

    def work(self, dot: D) -> Row:
        """What the calls took that made it ready and found it stable."""
        cpu = self.brute.cpu.get(self.node)
        ready, told = self.ready.get(dot), self.told.get(dot)
        told_us, told_ns = (None, None) if cpu is None or told is None else cpu.told[told]
        return {
            "ready_ns": None if cpu is None or ready is None else cpu.ready[ready],
            "t_told": told_us,
            "told_ns": told_ns,
        }


class Cpu:
    """What cpu.arrow says of one node: by row of its log, the call that the record belongs to."""

    def __init__(self, log: list[Record], calls: list[Row], total: Row) -> None:
        made = [call["ns"] for call in calls for _ in range(call["ready"])]
        told = [(call["t_us"], call["ns"]) for call in calls for _ in range(call["stable"])]
        self.ready = dict(zip(self.rows(log, "ready"), made, strict=True))
        self.told = dict(zip(self.rows(log, "stable"), told, strict=True))
        self.ns: int = total["ns"]

    def rows(self, log: list[Record], kind: str) -> list[int]:
        return [at for at, record in enumerate(log) if record.kind == kind]


def read_cpu(folder: Path, logs: dict[str, list[Record]]) -> dict[str, Cpu]:
    """By node; nothing when the run has no such file."""
    if not (folder / "cpu.arrow").exists():
        return {}
    table = pa.ipc.open_file(folder / "cpu.arrow").read_all()
    calls, totals = table.to_pylist(), json.loads(table.schema.metadata[b"totals"])
    return {
        node: Cpu(log, [call for call in calls if call["node"] == node], totals[node])
        for node, log in logs.items()
    }


def latency_rows(brute: Brute) -> list[Row]:
    """The table ``latency`` of a run, in the order of its columns' rows."""
    found: list[Row] = []
    for node in sorted(brute.logs):
        log = brute.logs[node]
        restarts = [at for at, record in enumerate(log) if record.kind == "restart"]
        bounds = zip([0, *restarts], [*restarts, len(log)], strict=True)
        for number, (start, end) in enumerate(bounds):
            found += Life(brute, node, number, start, end).rows()
    return found


def order_row(brute: Brute) -> Row:
    """The table ``orders`` of a run: pairs and antichains one by one."""
    dots = sorted(brute.sends)
    before = {(a, b) for a in dots for b in dots if a != b and a in brute.past(b)}
    contradictory = any((b, a) in before for a, b in before)
    pairs = list(combinations(dots, 2))
    concurrent = [(a, b) for a, b in pairs if (a, b) not in before and (b, a) not in before]
    return {
        "run": brute.info.run,
        "messages": len(dots),
        "pairs": len(pairs),
        "concurrent_pairs": None if contradictory else len(concurrent),
        "width": None if contradictory else largest_antichain(dots, set(concurrent)),
        "contradictory": contradictory,
        "too_large": False,
    }


def largest_antichain(dots: list[D], concurrent: set[tuple[D, D]]) -> int:
    """Every antichain, each grown from smaller ones by a later dot."""
    sets: list[tuple[D, ...]] = [(dot,) for dot in dots]
    size = 0
    while sets:
        size += 1
        sets = [
            (*some, dot)
            for some in sets
            for dot in dots[dots.index(some[-1]) + 1 :]
            if all((other, dot) in concurrent for other in some)
        ]
    return size


def brute_of(records: Iterable[Record], info: RunInfo) -> Brute:
    """What takes part in the logs of a run, and the past of its dots."""
    brute = Brute(records, info)
    brute.sends, brute.good, brute.states, brute.came, brute.reached = {}, {}, {}, {}, {}
    brute.cpu = {}
    for node, log in brute.logs.items():
        brute.follow(node, log)
    return brute
