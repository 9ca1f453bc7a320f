"""What a release and a stable message cost, and what is kept: the flagship against the thesis' two.

    python -m benchmarks.bench_calls [--rounds 3] [--sizes 4,16,64,128] [--intervals 10,100,1000]

A group is simulated once for each size and send interval, with 100 messages a node and the
latencies of thesis 8.4.2 (10 ms, Weibull).  What some of its nodes saw is then replayed to each
engine, in turns: arrivals, what the application took, sends, and moments at which the metadata is
counted.  All engines are interpreted, except where it says so; the flagship tells at once
(``stability_batch=1``), as the others do.

Microseconds of CPU of one call of the engine, medians: ``release`` over the calls that delivered
something, ``waited`` over the messages that another message released, ``told`` over the messages
told stable, by the call that told it.  ``all``: what all calls took, divided by the deliveries.
``words`` of metadata, median over the moments.  ``ratio`` is the flagship over the better of the
two, the median of the rounds' ratios: at most 1 is as good.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from benchmarks.__main__ import contenders
from benchmarks.drive import Contender
from thence.causal.members import Members
from thence.engine.base import EngineOptions
from thence.message import Message, VectorMessage
from thence.sim.clock import TimedWatcher
from thence.sim.cluster import Cluster
from thence.sim.names import node_names
from thence.sim.network import NetworkOptions, SlowLink
from thence.sim.run import SimulationOptions, simulate
from thence.sim.workload import WorkloadOptions

RECEIVED, TAKEN, TAGGED, SENT, SAMPLED = range(5)
RIVALS = ("vector", "graph")
CALLS_MIN = 3_000
"""Nodes are replayed until they have received so many messages."""
COLUMNS = ("release", "waited", "told", "all", "words")

Event = tuple[int, Any]
Figures = dict[str, float]


class Recorder(TimedWatcher):
    """What the first nodes of a simulated group saw, and every message in both forms."""

    def __init__(self, nodes: int, watched: int) -> None:
        self.events: list[list[Event]] = [[] for _ in range(watched)]
        self.messages: dict[tuple[int, int], tuple[Message, VectorMessage]] = {}
        self._vectors = [[0] * nodes for _ in range(nodes)]

    def sent(self, node: int, tag: Any, after: Any) -> None:
        vector = self._vectors[node]
        vector[node] = tag.seq
        self.messages[node, tag.seq] = (
            Message(node, tag.seq, tag.predecessors, b""),
            VectorMessage(node, tuple(vector), b""),
        )
        self._note(node, TAGGED)

    def wired(self, node: int, message: Any) -> None:
        self._note(node, SENT)

    def arriving(self, node: int, peer: int, message: Any) -> None:
        self._note(node, RECEIVED, (peer, message.seq))

    def consumed(self, node: int, tag: Any) -> None:
        self._vectors[node][tag.origin] = tag.seq
        self._note(node, TAKEN)

    def sample(self, cluster: Cluster) -> None:
        for events in self.events:
            events.append((SAMPLED, None))

    def _note(self, node: int, kind: int, what: Any = None) -> None:
        if node < len(self.events):
            self.events[node].append((kind, what))


def record(nodes: int, interval_ms: float, slow: bool) -> Recorder:
    """Simulate a group; the ends of a slow link are the first two nodes."""
    names = node_names(nodes)
    watched = min(nodes, max(2 if slow else 1, CALLS_MIN // (100 * (nodes - 1))))
    recorder = Recorder(nodes, watched)
    links = (SlowLink(names[0], names[1], 10.0),) if slow else ()
    options = SimulationOptions(
        nodes=nodes,
        workload=WorkloadOptions(messages=100, interval_ms=interval_ms),
        network=NetworkOptions(slow_links=links),
        engine_options=EngineOptions(stability=False),
        sample_ms=max(1.0, interval_ms / 4),
    )
    simulate(options, check=False, watchers=[recorder])
    return recorder


class Replay:
    """One engine, fed with what one node saw."""

    def __init__(self, who: Contender, nodes: int, slot: int, stability: bool) -> None:
        options = EngineOptions(stability=stability, stability_batch=1)
        made: Any = who.spec.make(Members(node_names(nodes)), slot, options)
        self.client, self.engine = made
        self.out = who.effects()
        self.form = 1 if who.vectors else 0
        self.queue: deque[tuple[bool, Any]] = deque()
        self.tags: deque[Any] = deque()
        self.releases: list[int] = []
        self.waited: list[int] = []
        self.told: list[int] = []
        self.total_ns = 0
        self.deliveries = 0
        self.words: list[int] = []

    def run(self, recorder: Recorder, events: list[Event]) -> None:
        """All of it."""
        client, engine, out = self.client, self.engine, self.out
        last = len(events) - 1
        for at, (kind, what) in enumerate(events):
            if kind == RECEIVED:
                message = recorder.messages[what][self.form]
                peer = message.origin
                start = time.thread_time_ns()
                engine.receive(peer, message, out)
                self._called(time.thread_time_ns() - start, what)
            elif kind == TAKEN:
                self._take()
                if at == last or events[at + 1][0] != TAKEN:
                    start = time.thread_time_ns()
                    engine.flush(out)
                    self._called(time.thread_time_ns() - start, None)
            elif kind == TAGGED:
                self.tags.append(client.broadcast(b""))
            elif kind == SENT:
                tag = self.tags.popleft()
                start = time.thread_time_ns()
                engine.broadcast(tag, out)
                self._called(time.thread_time_ns() - start, None)
            else:
                self.words.append(engine.words())

    def _called(self, ns: int, arrived: Any) -> None:
        out = self.out
        assert not out.reject, out.reject
        self.total_ns += ns
        self.deliveries += len(out.deliver)
        if out.deliver:
            self.releases.append(ns)
            for tag in out.deliver:
                self.queue.append((True, tag))
                if (tag.origin, tag.seq) != arrived:
                    self.waited.append(ns)
        for tag in out.stable:
            self.queue.append((False, tag))
            self.told.append(ns)
        out.clear()

    def _take(self) -> None:
        """One delivery, and the stable messages before and after it."""
        queue = self.queue
        taken = False
        while queue and not (taken and queue[0][0]):
            is_delivery, tag = queue.popleft()
            if is_delivery:
                taken = True
                self.client.consume(tag)
            else:
                self.client.stabilised(tag)
                self.engine.forget(tag)


def measure(who: Contender, recorder: Recorder, nodes: int, stability: bool) -> Figures:
    """One round of one engine: its medians, over all nodes that were watched."""
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for slot, events in enumerate(recorder.events):
        replay = Replay(who, nodes, slot, stability)
        gc.collect()
        gc.disable()
        replay.run(recorder, events)
        gc.enable()
        found["release"] += [ns / 1000 for ns in replay.releases]
        found["waited"] += [ns / 1000 for ns in replay.waited]
        found["told"] += [ns / 1000 for ns in replay.told]
        found["all"].append(replay.total_ns / replay.deliveries / 1000)
        found["words"] += replay.words
    return {name: statistics.median(values) for name, values in found.items() if values}


def compare(
    engines: dict[str, Contender], recorder: Recorder, nodes: int, stability: bool, rounds: int
) -> dict[str, list[Figures]]:
    """The rounds of every engine, in turns."""
    results: dict[str, list[Figures]] = {name: [] for name in engines}
    for _ in range(rounds):
        for name, who in engines.items():
            results[name].append(measure(who, recorder, nodes, stability))
    return results


def ratio(results: dict[str, list[Figures]], column: str) -> float | None:
    """The flagship over the better of the two."""
    found = []
    for at, mine in enumerate(results["tagged"]):
        better = min(results[rival][at].get(column, 0.0) for rival in RIVALS)
        if column in mine and better:
            found.append(mine[column] / better)
    return statistics.median(found) if found else None


def table(title: str, results: dict[str, list[Figures]], say: Callable[[str], None]) -> None:
    """One line for each engine and one of ratios."""
    for name, rounds in results.items():
        cells = ""
        for column in COLUMNS:
            values = [each[column] for each in rounds if column in each]
            shown = "-" if not values else f"{statistics.median(values):,.1f}"
            cells += f"{shown:>11}"
        say(f"{title:<26}{name:<18}{cells}")
    cells = ""
    for column in COLUMNS:
        value = ratio(results, column)
        cells += f"{'-' if value is None else f'{value:.2f}':>11}"
    say(f"{title:<26}{'ratio':<18}{cells}")


def main() -> None:
    """Simulate, replay, print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_calls", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", default="4,16,64,128")
    parser.add_argument("--intervals", default="10,100,1000")
    parser.add_argument("--slow", action="store_true", help="a slow link between two nodes")
    arguments = parser.parse_args()
    engines = contenders()
    print(f"{'':<44}" + "".join(f"{column:>11}" for column in COLUMNS))
    for nodes in map(int, arguments.sizes.split(",")):
        for interval in map(float, arguments.intervals.split(",")):
            recorder = record(nodes, interval, arguments.slow)
            for stability in (False, True):
                results = compare(engines, recorder, nodes, stability, arguments.rounds)
                title = f"N {nodes:>3} {interval:>5g} ms {'stable' if stability else '-'}"
                table(title, results, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
