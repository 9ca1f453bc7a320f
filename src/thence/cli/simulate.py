"""``thence simulate``: a group under virtual time, from a seed to a trace."""

from __future__ import annotations

import gc
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from thence.engine.base import Concurrent, EngineOptions
from thence.errors import ThenceError, UnusableInputError
from thence.sim.checkers import OracleFailure
from thence.sim.cluster import Watcher
from thence.sim.network import Distribution, NetworkOptions, Partition, SlowLink, parse_matrix
from thence.sim.run import SimulationOptions, SimulationResult, run_info, simulate
from thence.sim.workload import Pacing, WorkloadOptions
from thence.trace.record import info_from_json
from thence.trace.writer import CLOSED_FILE, Form, RunWriter

LONG_DELIVERIES = 100_000
"""Runs of at least so many show their progress on a terminal."""
GC_OBJECTS = 200_000
_ENGINE = EngineOptions()
_NETWORK = NetworkOptions()
_WORK = WorkloadOptions()
_RUN = SimulationOptions()
Flag = Parameter(negative=())


def command(
    *,
    engine: str = _RUN.engine,
    nodes: int = _RUN.nodes,
    messages: int = _WORK.messages,
    seed: int = _RUN.seed,
    loss: float = _NETWORK.loss,
    duplicate: float = _NETWORK.duplicate,
    slow_link: Annotated[tuple[str, ...], Flag] = (),
    partition: Annotated[tuple[str, ...], Flag] = (),
    interval_ms: float = _WORK.interval_ms,
    pacing: Pacing = _WORK.pacing,
    latency_ms: float = _NETWORK.latency_ms,
    distribution: Distribution = _NETWORK.distribution,
    matrix_ms: str = "",
    resend_ms: float = _NETWORK.resend_ms,
    fifo: Annotated[bool, Flag] = _NETWORK.fifo,
    client_ms: float = _WORK.client_ms,
    middleware_ms: float = _WORK.middleware_ms,
    flush_ms: float = _WORK.flush_ms,
    phantom_ms: float = _WORK.phantom_ms,
    passive: int = _WORK.passive,
    streams: float = _WORK.streams,
    payload_bytes: int = _WORK.payload_bytes,
    stability: bool = _ENGINE.stability,
    stability_batch: int = _ENGINE.stability_batch,
    k: int = _ENGINE.k,
    pending_per_origin_max: int = _ENGINE.pending_per_origin_max,
    concurrent: Concurrent = _ENGINE.concurrent,
    wait_us: int = _ENGINE.wait_us,
    skew_ms: float = _RUN.skew_ms,
    sample_ms: float = _RUN.sample_ms,
    through_codec: Annotated[bool, Flag] = _RUN.through_codec,
    oracle: bool | None = None,
    experiment: str | None = None,
    out: Path | None = None,
    form: Form = "parquet",
    overwrite: Annotated[bool, Flag] = False,
    timing: Path | None = None,
) -> int:
    """Simulate a group in virtual time.  The same options give the same trace, byte for byte.

    Parameters
    ----------
    engine
        One of `thence engines`.
    nodes
        How many nodes.
    messages
        How many messages each node sends.
    seed
        Drives clock, network and workload.
    loss
        Chance that an attempt to send is lost; it is made again after --resend-ms.
    duplicate
        Chance that a message arrives twice.
    slow_link
        A:B:FACTOR: delays between A and B, both ways, are this much longer; with :fixed after it
        they do not vary. May be repeated.
    partition
        START_MS:END_MS:GROUP|GROUP, as in 100:500:a,b|c: groups cannot reach each other. May be
        repeated.
    interval_ms
        Mean time between two sends of a node.
    pacing
        How that time varies.
    latency_ms
        Mean delay of a message.
    distribution
        How delays vary; weibull is that of the thesis (8.1.2).
    matrix_ms
        ROW;ROW;... as in 0,5;7,0: mean delays from each node (row) to each (column), instead of
        one for all.
    resend_ms
        Time until a lost attempt is repeated; 0 is four times the latency.
    fifo
        Messages of one link arrive in order.
    client_ms
        Mean time for which an event waits for the application.
    middleware_ms
        Mean time for which a request waits for the middleware.
    flush_ms
        Stable messages are looked for when nothing arrived for this long.
    phantom_ms
        Each node announces what it consumed this often; 0 is never. With --passive only those do.
    passive
        So many nodes, the last ones, send nothing.
    streams
        Chance that a message goes on a stream of its own.
    payload_bytes
        Size of each payload.
    stability
        Whether the engine looks for stable messages.
    stability_batch
        Messages taken between stability passes; 1 is a pass at each delivery, 0 amortised.
    k
        Also report messages known to k members; 0 is off.
    pending_per_origin_max
        How many messages of one origin a node holds back.
    concurrent
        What becomes of concurrent messages, for the engines that can tell.
    wait_us
        How long after it was sent realtime holds a message back for earlier ones.
    skew_ms
        How far the clocks of the nodes are apart at most, for realtime.
    sample_ms
        How often the metadata that each node holds is logged; 0 is never.
    through_codec
        Turn every message into bytes and back.
    oracle
        Whether the oracle watches every step; without this option it does in small runs.
    experiment
        A name that run.json keeps: metrics put the runs of one experiment together.
    out
        Folder for the trace; without it none is written.
    form
        Form of the trace.
    overwrite
        Replace the trace that is in the folder.
    timing
        File for the measured times, which differ from run to run.
    """
    options = SimulationOptions(
        seed=seed,
        engine=engine,
        nodes=nodes,
        workload=WorkloadOptions(
            messages=messages,
            interval_ms=interval_ms,
            pacing=pacing,
            client_ms=client_ms,
            middleware_ms=middleware_ms,
            flush_ms=flush_ms,
            phantom_ms=phantom_ms,
            passive=passive,
            streams=streams,
            payload_bytes=payload_bytes,
        ),
        network=NetworkOptions(
            latency_ms=latency_ms,
            distribution=distribution,
            loss=loss,
            resend_ms=resend_ms,
            duplicate=duplicate,
            fifo=fifo,
            slow_links=tuple(SlowLink.parse(text) for text in slow_link),
            partitions=tuple(Partition.parse(text) for text in partition),
            matrix_ms=parse_matrix(matrix_ms),
        ),
        engine_options=EngineOptions(
            stability=stability,
            stability_batch=stability_batch,
            k=k,
            pending_per_origin_max=pending_per_origin_max,
            concurrent=concurrent,
            wait_us=wait_us,
        ),
        sample_ms=sample_ms,
        skew_ms=skew_ms,
        through_codec=through_codec,
        experiment=experiment,
    )
    try:
        result = run_to(out, options, form=form, overwrite=overwrite, oracle=oracle)
    except OracleFailure as failure:
        print(f"thence: {failure.what}", file=sys.stderr)
        print(f"replay: {failure.replay}", file=sys.stderr)
        return 1
    print(summary(options, result, out), end="")
    if timing is not None:
        write_timing(timing, result)
    return 0


def run_to(
    out: Path | None,
    options: SimulationOptions,
    *,
    form: Form = "parquet",
    overwrite: bool = False,
    oracle: bool | None = None,
    watchers: tuple[Watcher, ...] = (),
) -> SimulationResult:
    """Simulate and, if there is a folder, write the trace there."""
    options.check()
    # Nothing here lives in cycles, and a run keeps millions of objects: looking for cycles among
    # them at the usual rate costs a tenth of the time.
    gc.set_threshold(GC_OBJECTS, 50, 50)
    with progress(options) as shown:
        watching = (*watchers, *shown)
        if out is None:
            return simulate(options, check=oracle, watchers=watching)
        prepare(out, overwrite)
        with RunWriter(out, run_info(options), form) as writer:
            return simulate(options, writer, check=oracle, watchers=watching)


# What RunWriter and ResumableLog name their segments: the node, a number, the form.
SEGMENT = re.compile(r".+-\d{6,}\.(parquet|jsonl)(\.partial|\.open)?")


def prepare(out: Path, overwrite: bool) -> None:
    """Make sure that the folder can take a trace; only a trace is ever removed from it."""
    if out.exists() and not out.is_dir():
        raise UnusableInputError(f"{out} is a file: name a folder for the trace")
    old = sorted(out.iterdir()) if out.is_dir() else []
    if not old:
        return
    if not overwrite:
        raise UnusableInputError(
            f"{out} is not empty: choose another folder, or replace its trace with --overwrite"
        )
    try:
        info_from_json((out / "run.json").read_bytes())
    except (OSError, ThenceError, ValueError):
        raise UnusableInputError(
            f"{out} holds no trace (no readable run.json): choose another folder"
        ) from None
    own = ("run.json", CLOSED_FILE)
    trace = [path for path in old if path.name in own or SEGMENT.fullmatch(path.name)]
    for path in old:
        if path.suffix in (".parquet", ".jsonl") and path not in trace:
            raise UnusableInputError(
                f"{out} holds {path.name}, which is not of its trace but would be read with it: "
                "choose another folder"
            )
    for path in trace:
        path.unlink()


def summary(options: SimulationOptions, result: SimulationResult, out: Path | None) -> str:
    """What a person wants to know of a run."""
    lines = [
        f"{options.engine}, {options.nodes} nodes, seed {options.seed}: "
        f"{result.virtual_us / 1e6:.3f} s of virtual time",
        f"messages    {result.messages:>12,}",
        f"deliveries  {result.deliveries:>12,}",
        f"stable      {result.stable:>12,}",
    ]
    if result.phantoms:
        lines.append(f"phantoms    {result.phantoms:>12,}")
    if result.attempts_lost or result.duplicates:
        lines.append(f"lost        {result.attempts_lost:>12,}  (sent again)")
        lines.append(f"duplicated  {result.duplicates:>12,}")
    if result.refused:
        lines.append(f"refused     {result.refused:>12,}  (too far ahead, offered again)")
    lines.append(
        "the oracle watched every step: no violation"
        if result.checked
        else "the oracle did not watch (a large run; --oracle has it watch)"
    )
    if out is not None:
        lines.append(f"trace in {out}; check it with: thence check {out}")
    return "\n".join(lines) + "\n"


def write_timing(path: Path, result: SimulationResult) -> None:
    """Real time and CPU time: what differs between two runs of the same seed."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    times = {
        "seconds": round(result.seconds, 3),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
    }
    path.write_bytes(msgspec.json.encode(times) + b"\n")


class _Progress(Watcher):
    """Counts deliveries for a progress bar; tells it every so often."""

    STEP = 4096

    def __init__(self, bar: Any, task: Any) -> None:
        self._bar = bar
        self._task = task
        self._count = 0

    def consumed(self, node: int, tag: Any) -> None:
        self._count += 1
        if not self._count % self.STEP:
            self._bar.update(self._task, completed=self._count)


@contextmanager
def progress(options: SimulationOptions) -> Iterator[tuple[Watcher, ...]]:
    """A bar on stderr while a long run goes on, if somebody is looking."""
    total = options.workload.messages * options.nodes * (options.nodes - 1)
    if total < LONG_DELIVERIES or not sys.stderr.isatty():
        yield ()
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        yield (_Progress(bar, bar.add_task("deliveries", total=total)),)
