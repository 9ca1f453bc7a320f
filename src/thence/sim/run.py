"""Simulate a group under virtual time: one seed drives network and workload, nothing else does.

The loop plans, per node: sends, looks of the middleware at its client's requests, looks of the
application at its queue, an idle flush, phantoms; and per message its arrivals.  Each look waits
for a random while, so clients and middlewares overtake each other as real ones do.
"""

from __future__ import annotations

import random
import shlex
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from thence.engine.base import EngineOptions, EngineSpec
from thence.errors import UnusableInputError
from thence.message import WireMessage
from thence.sim.checkers import Oracle, OracleFailure
from thence.sim.clock import TIME_MS_MAX, Clock, TimedWatcher
from thence.sim.cluster import Cluster, Watcher
from thence.sim.meter import Meter
from thence.sim.names import node_names
from thence.sim.network import Network, NetworkOptions, matrix_text
from thence.sim.orders import OrderOracle
from thence.sim.workload import Workload, WorkloadOptions
from thence.trace.record import NAME_CHARS_MAX, RunInfo
from thence.trace.writer import RunWriter

NODES_MAX = 1024
ORACLE_MESSAGES_MAX = 2_000
"""The oracle keeps a bit per pair of messages; past this many a trace is checked instead."""
STREAM_TAGS = 8


class SimulationOptions(msgspec.Struct, frozen=True):
    """One simulation.  The same options give the same trace, byte for byte."""

    seed: int = 1
    engine: str = "tagged"
    nodes: int = 5
    workload: WorkloadOptions = WorkloadOptions()
    network: NetworkOptions = NetworkOptions()
    engine_options: EngineOptions = EngineOptions()
    sample_ms: float = 100.0
    """How often the metadata that each node holds is logged; 0 is never."""
    through_codec: bool = False
    """Turn every message into bytes and back."""
    skew_ms: float = 0.0
    """How far the clocks of the nodes are apart at most, for engines that read them."""
    experiment: str | None = None
    """What this run is a repetition or a setting of; metrics group runs by it."""

    @property
    def names(self) -> list[str]:
        """Of the nodes, in order of their slots."""
        return node_names(self.nodes)

    def check(self) -> EngineSpec:
        """The engine; UnusableInputError says which option cannot be."""
        # Imported late: the table imports every engine.
        from thence.engine.registry import ENGINES

        spec = ENGINES.get(self.engine)
        if spec is None:
            raise UnusableInputError(f"no engine {self.engine!r}; there are {', '.join(ENGINES)}")
        if not 1 <= self.nodes <= NODES_MAX:
            raise UnusableInputError(f"nodes {self.nodes}: expected 1 to {NODES_MAX}")
        if not 0 <= self.sample_ms <= TIME_MS_MAX:
            raise UnusableInputError(f"sample {self.sample_ms} ms: expected 0 to {TIME_MS_MAX:g}")
        if not 0 <= self.skew_ms <= TIME_MS_MAX:
            raise UnusableInputError(f"skew {self.skew_ms} ms: expected 0 to {TIME_MS_MAX:g}")
        if self.experiment is not None and not 1 <= len(self.experiment) <= NAME_CHARS_MAX:
            raise UnusableInputError(
                f"experiment {self.experiment[:40]!r}: expected a name of up to {NAME_CHARS_MAX} "
                "characters"
            )
        if self.workload.streams and not spec.streams:
            raise UnusableInputError(f"engine {self.engine!r} has no streams of their own")
        if self.workload.phantom_ms and not spec.phantoms:
            raise UnusableInputError(f"engine {self.engine!r} has no phantoms")
        if self.engine_options.k and not spec.k_stability:
            raise UnusableInputError(f"engine {self.engine!r} has no k-stability")
        if self.workload.passive > self.nodes:
            raise UnusableInputError(
                f"passive {self.workload.passive}: expected at most the {self.nodes} nodes"
            )
        if spec.fifo_links and not self.network.fifo:
            raise UnusableInputError(
                f"engine {self.engine!r} needs links that keep the order of sending (--fifo)"
            )
        self.workload.check()
        self.network.check(self.names)
        return spec

    def command(self) -> str:
        """The command that does this again."""
        words = ["thence", "simulate", "--engine", self.engine, "--nodes", str(self.nodes)]
        words += ["--messages", str(self.workload.messages), "--seed", str(self.seed)]
        for option, value, usual in _flags(self):
            if value == usual:
                continue
            if isinstance(value, bool):
                words.append(option if value else option.replace("--", "--no-", 1))
            else:
                text = f"{value:g}" if isinstance(value, float) else str(value)
                words += [option, shlex.quote(text)]
        for link in self.network.slow_links:
            words += ["--slow-link", str(link)]
        for partition in self.network.partitions:
            words += ["--partition", f"'{partition}'"]
        if self.network.matrix_ms:
            words += ["--matrix-ms", f"'{matrix_text(self.network.matrix_ms)}'"]
        return " ".join(words)

    def scenario(self) -> dict[str, Any]:
        """Every option by its name, for ``run.json``: what the run was made of."""
        plain = replace(self, engine_options=replace(self.engine_options, clock=None))
        options: dict[str, Any] = msgspec.to_builtins(plain)
        for part in ("workload", "network", "engine_options"):
            options |= options.pop(part)
        if self.experiment is None:
            del options["experiment"]
        return {"simulated": True, "command": self.command(), **options}


def _flags(options: SimulationOptions) -> list[tuple[str, Any, Any]]:
    """(option of the command line, value, default) of everything that is one value."""
    network, workload, engine = options.network, options.workload, options.engine_options
    usual = SimulationOptions()
    found: list[tuple[str, Any, Any]] = []
    for value, default, names in (
        (network, usual.network, ("latency_ms", "distribution", "loss", "resend_ms", "duplicate",
                                  "fifo")),
        (workload, usual.workload, ("interval_ms", "pacing", "client_ms", "middleware_ms",
                                    "flush_ms", "phantom_ms", "passive", "streams",
                                    "payload_bytes")),
        (engine, usual.engine_options, ("stability", "stability_batch", "k",
                                        "pending_per_origin_max", "concurrent", "wait_us")),
        (options, usual, ("sample_ms", "skew_ms", "through_codec", "experiment")),
    ):  # fmt: skip
        for name in names:
            option = "--" + name.replace("_", "-")
            found.append((option, getattr(value, name), getattr(default, name)))
    return found


class SimulationResult(msgspec.Struct, frozen=True):
    """What came of it, over all nodes.  ``seconds`` is real time and not part of any promise."""

    messages: int
    deliveries: int
    stable: int
    phantoms: int
    virtual_us: int
    attempts_lost: int
    duplicates: int
    refused: int
    checked: bool
    seconds: float


def run_info(options: SimulationOptions) -> RunInfo:
    """What ``run.json`` of its trace says."""
    spec = options.check()
    total = options.workload.messages
    return RunInfo(
        run=f"{options.engine}-{options.nodes}x{total}-{options.seed}",
        engine=options.engine,
        members=tuple(options.names),
        guarantee=spec.guarantee,
        tags=spec.tags,
        stability=spec.stability and options.engine_options.stability,
        vectors=spec.vectors,
        scenario=options.scenario(),
    )


def simulate(
    options: SimulationOptions,
    trace: RunWriter | None = None,
    check: bool | None = None,
    watchers: Iterable[Watcher] = (),
    meter: Meter | None = None,
) -> SimulationResult:
    """Run to the end: everything sent has been consumed everywhere and no flush finds more.

    ``check`` has the oracle watch every step; None does so for runs small enough.  It raises
    OracleFailure with the command that replays the run.  The trace's logs get their ``end``;
    closing the writer is up to the caller.  ``meter`` measures what the engines' calls cost.
    """
    spec = options.check()
    if check is None:
        check = options.nodes * options.workload.messages <= ORACLE_MESSAGES_MAX
    started = time.perf_counter()
    run = _Run(spec, options, trace, check, list(watchers), meter)
    try:
        run.go()
    except (OracleFailure, UnusableInputError):
        raise
    except Exception as error:
        what = f"{spec.name}: {type(error).__name__}: {error}"
        raise OracleFailure(what, options.command()) from error
    return run.result(time.perf_counter() - started)


class _Count(Watcher):
    """What the summary needs."""

    def __init__(self) -> None:
        self.messages = self.deliveries = self.stable = self.phantoms = self.refused = 0

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        self.messages += 1

    def consumed(self, node: int, tag: Any) -> None:
        self.deliveries += 1

    def stabilised(self, node: int, tag: Any) -> None:
        self.stable += 1

    def phantom_made(self, node: int, phantom: Any) -> None:
        self.phantoms += 1


class _Recent(Watcher):
    """The last tags that each application consumed or sent and that are not stable yet: what
    explicit dependencies are drawn from."""

    def __init__(self, size: int) -> None:
        self.tags: list[list[Any]] = [[] for _ in range(size)]

    def sent(self, node: int, tag: Any, after: Sequence[Any] | None) -> None:
        self.tags[node] = [*self.tags[node][1 - STREAM_TAGS :], tag]

    def consumed(self, node: int, tag: Any) -> None:
        self.tags[node] = [*self.tags[node][1 - STREAM_TAGS :], tag]

    def stabilised(self, node: int, tag: Any) -> None:
        self.tags[node] = [kept for kept in self.tags[node] if kept is not tag]


class _Run:
    """The loop.  Methods with one argument are actions that the clock calls."""

    def __init__(
        self,
        spec: EngineSpec,
        options: SimulationOptions,
        trace: RunWriter | None,
        check: bool,
        watchers: list[Watcher],
        meter: Meter | None,
    ) -> None:
        names = options.names
        self.options = options
        self.clock = Clock()
        self.network = Network(options.network, names, f"{options.seed}/network")
        self.workload = Workload(options.workload, f"{options.seed}/workload")
        self.count = _Count()
        self.recent = _Recent(options.nodes) if options.workload.streams else None
        self.oracle: Oracle | OrderOracle
        if spec.stamped:
            self.oracle = OrderOracle(spec, names, options.command())
        else:
            self.oracle = Oracle(spec, names, options.engine_options, options.command())
        self.checked = check
        self.recorder = None
        mine: list[Watcher] = [self.count]
        if check:
            mine.append(self.oracle)
        if self.recent is not None:
            mine.append(self.recent)
        if trace is not None:
            from thence.sim.recorder import Recorder

            self.recorder = Recorder(spec, names, trace)
            mine.append(self.recorder)
        self.timed = [w for w in (*mine, *watchers) if isinstance(w, TimedWatcher)]
        for watcher in self.timed:
            watcher.clock = self.clock
        engine_options = options.engine_options
        self.skews_us = [0] * options.nodes
        self.due_us: list[int | None] = [None] * options.nodes
        self.is_timed = spec.timed
        if spec.timed:
            rng = random.Random(f"{options.seed}/skew")
            self.skews_us = [int(rng.uniform(0, options.skew_ms) * 1000) for _ in names]
            engine_options = replace(engine_options, clock=self._time_us)
        self.cluster = Cluster(
            spec,
            names,
            engine_options,
            [*mine, *watchers],
            transmit=self._transmit,
            through_codec=options.through_codec,
            around=None if meter is None else meter.around,
        )
        if meter is not None:
            meter.clock = self.clock
        if self.recorder is not None:
            self.recorder.clients = self.cluster.clients
        self.keeps_order = spec.fifo_links
        self.stalled: dict[tuple[int, int], deque[tuple[int, int, WireMessage]]] = {}
        size = options.nodes
        passive = options.workload.passive
        self.left = [options.workload.messages] * (size - passive) + [0] * passive
        self.client_planned = [False] * size
        self.middleware_planned = [False] * size
        self.flush_planned = [False] * size
        self.active_us = [0] * size
        self.expected = sum(self.left) * (size - 1 + spec.own)
        self.payload = b"." * options.workload.payload_bytes
        self.flush_us = int(options.workload.flush_ms * 1000)
        self.phantom_us = int(options.workload.phantom_ms * 1000)

    def go(self) -> None:
        """Until nothing is left to do."""
        size = self.options.nodes
        for node in range(size):
            if self.left[node]:
                self.clock.at(self.workload.interval_us(), self._send, node)
            if self.phantom_us and (not self.options.workload.passive or not self.left[node]):
                # Spread over the period, so that not all announce at once.
                self.clock.at(self.phantom_us * (node + 1) // size, self._announce, node)
        if self.timed and self.options.sample_ms:
            self.clock.at(int(self.options.sample_ms * 1000), self._sample, None)
        self.clock.run()
        while any([self.cluster.flush(node) for node in range(size)]):
            for node in range(size):
                self._plan_looks(node)
            self.clock.run()
        if self.checked:
            self.oracle.check_end()
        self._take_sample()
        if self.recorder is not None:
            self.recorder.end()

    def result(self, seconds: float) -> SimulationResult:
        """The summary."""
        return SimulationResult(
            messages=self.count.messages,
            deliveries=self.count.deliveries,
            stable=self.count.stable,
            phantoms=self.count.phantoms,
            virtual_us=self.clock.now_us,
            attempts_lost=self.network.attempts_lost,
            duplicates=self.network.duplicates,
            refused=self.count.refused,
            checked=self.checked,
            seconds=seconds,
        )

    # The application.

    def _send(self, node: int) -> None:
        self.left[node] -= 1
        if self.recent is not None and self.workload.rng.random() < self.options.workload.streams:
            self._send_on_stream(node, self.recent.tags[node])
        else:
            self.cluster.client_broadcast(node, self.payload)
        self._plan_middleware(node)
        if self.left[node]:
            self.clock.after(self.workload.interval_us(), self._send, node)

    def _send_on_stream(self, node: int, known: list[Any]) -> None:
        rng = self.workload.rng
        if rng.random() < 0.5:
            self.cluster.client_broadcast(node, self.payload, ordered=False)
        else:
            after = rng.sample(known, rng.randint(0, min(2, len(known))))
            self.cluster.client_broadcast(node, self.payload, stream="s", after=after)

    def _look(self, node: int) -> None:
        """The application takes everything that is in its queue by now."""
        self.client_planned[node] = False
        cluster = self.cluster
        for _ in range(len(cluster.to_client[node])):
            cluster.client_take(node)
        if self.options.engine_options.stability_batch == 1:
            # Told at once: also what only this application had to take.
            cluster.flush(node)
            self._plan_looks(node)
        if cluster.to_middleware[node]:
            self._plan_middleware(node)

    def _announce(self, node: int) -> None:
        # Once everything was consumed everywhere each node announces a last time.
        last = self.count.deliveries >= self.expected
        self.cluster.client_phantom(node)
        self._plan_middleware(node)
        if not last:
            self.clock.after(self.phantom_us, self._announce, node)

    # The middleware.

    def _plan_middleware(self, node: int) -> None:
        if not self.middleware_planned[node]:
            self.middleware_planned[node] = True
            self.clock.after(self.workload.middleware_us(), self._serve, node)

    def _serve(self, node: int) -> None:
        self.middleware_planned[node] = False
        while self.cluster.middleware_step(node):
            pass
        self._plan_looks(node)

    def _arrive(self, flight: tuple[int, int, WireMessage]) -> None:
        i, j, message = flight
        if (i, j) in self.stalled:
            self.stalled[i, j].append(flight)
            return
        if not self.cluster.network_deliver(i, j, message):
            self.count.refused += 1
            if self.keeps_order:
                self.stalled[i, j] = deque([flight])
                self.clock.after(self.network.retry_us, self._offer_again, (i, j))
            else:
                self.clock.after(self.network.retry_us, self._arrive, flight)
        # The two looks, in line: this runs for every delivery.
        if self.cluster.to_client[j] and not self.client_planned[j]:
            self.client_planned[j] = True
            self.clock.after(self.workload.client_us(), self._look, j)
        if self.is_timed:
            self._plan_due(j)
        self.active_us[j] = self.clock.now_us
        if not self.flush_planned[j]:
            self.flush_planned[j] = True
            self.clock.after(self.flush_us, self._flush, j)

    def _offer_again(self, link: tuple[int, int]) -> None:
        """What was refused, and what came behind it on a link that keeps the order."""
        flights = self.stalled.pop(link)
        while flights and self.cluster.network_deliver(*flights[0]):
            flights.popleft()
        if flights:
            self.count.refused += 1
            self.stalled[link] = flights
            self.clock.after(self.network.retry_us, self._offer_again, link)
        self._plan_looks(link[1])

    def _plan_looks(self, node: int) -> None:
        if self.cluster.to_client[node] and not self.client_planned[node]:
            self.client_planned[node] = True
            self.clock.after(self.workload.client_us(), self._look, node)

    def _flush(self, node: int) -> None:
        idle_us = self.clock.now_us - self.active_us[node]
        if idle_us < self.flush_us:
            self.clock.after(self.flush_us - idle_us, self._flush, node)
            return
        self.flush_planned[node] = False
        self.cluster.flush(node)
        self._plan_looks(node)

    # Engines that read a clock.

    def _time_us(self, node: int) -> int:
        """What the clock of a node shows."""
        return self.clock.now_us + self.skews_us[node]

    def _plan_due(self, node: int) -> None:
        engine: Any = self.cluster.engines[node]
        due_us = engine.due()
        planned_us = self.due_us[node]
        if due_us is not None and (planned_us is None or due_us < planned_us):
            self.due_us[node] = due_us
            self.clock.at(due_us - self.skews_us[node], self._due, node)

    def _due(self, node: int) -> None:
        self.due_us[node] = None
        self.cluster.flush(node)
        self._plan_looks(node)
        self._plan_due(node)

    # The network and the trace.

    def _transmit(self, i: int, message: WireMessage, to: Sequence[int] | None) -> None:
        at, arrive = self.clock.at, self._arrive
        for t_us, j in self.network.arrivals(i, self.clock.now_us, self.options.nodes):
            if to is None or j in to:
                at(t_us, arrive, (i, j, message))

    def _sample(self, _: None) -> None:
        self._take_sample()
        if len(self.clock):
            self.clock.after(int(self.options.sample_ms * 1000), self._sample, None)

    def _take_sample(self) -> None:
        for watcher in self.timed:
            watcher.sample(self.cluster)
