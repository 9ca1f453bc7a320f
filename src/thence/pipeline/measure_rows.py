"""What a log, and a run as a whole, give to the tables and to the metrics.

What is said of a run is put together from small facts of its logs (``Times``), so that it does not
matter whether one task has all of them or each log had a task of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from thence.pipeline.cpu_times import CpuTimes, Spent
from thence.pipeline.digest import LogDigest, LogTally, RunDigest, run_digest
from thence.pipeline.latency import KIND_READY, KIND_RECEIVE, latencies, latency_rows
from thence.pipeline.log import Log
from thence.pipeline.metrics.base import ARROW, COMMON
from thence.pipeline.metrics.concurrency import order_of
from thence.pipeline.observed import AboutLog, AboutRun, Samples, WholeRun
from thence.trace.check import Facts
from thence.trace.columns import ABSENT, KIND_CODE, Ints
from thence.trace.record import SAMPLE, RunInfo

BUCKETS_MAX: Final = 50
"""Shares into which the time of a run is divided, at most."""
KIND_SAMPLE: Final = KIND_CODE[SAMPLE]
OF_LOG: Final = ("latency", "samples")
OF_RUN: Final = ("runs", "logs", "orders")

Write = Callable[[str, pa.Table], None]
"""Takes a table's name and some of its rows."""


def clock_of(info: RunInfo) -> str | None:
    """``common`` when the times of different nodes can be compared: run.json says so."""
    says_so = info.scenario.get("clock") == COMMON or info.scenario.get("simulated") is True
    return COMMON if says_so else None


def slow_nodes_of(info: RunInfo) -> list[str]:
    """The ends of the slow link, as run.json says."""
    named: Any = info.scenario.get("slow_nodes")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


def _word(info: RunInfo, name: str) -> str | None:
    """A text of the scenario."""
    found = info.scenario.get(name)
    return found if isinstance(found, str) else None


# When things were.


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """When the records of a log were, by its clock: (first, last)."""

    of_all: tuple[int, int] | None
    """None when no record says its time."""
    of_messages: tuple[int, int] | None
    """Of sends and deliveries; None without any, or when one of them does not say its time."""


def times_of(log: Log) -> Times:
    """When the records of a log were."""
    lives = log.index.lives
    rows = np.concatenate([rows for life in lives for rows in (life.send_at, life.deliver_at)])
    times = log.t_us[rows]
    said = log.t_us[log.t_us != ABSENT]
    return Times(
        of_all=_range(said),
        of_messages=None if bool((times == ABSENT).any()) else _range(times),
    )


def _range(times: Ints) -> tuple[int, int] | None:
    return (int(times.min()), int(times.max())) if len(times) else None


def _span_of_run(times: Sequence[Times], common: bool) -> int | None:
    known = [log.of_messages for log in times if log.of_messages is not None]
    if not known:
        return None
    if common:
        return max(last for _, last in known) - min(first for first, _ in known)
    return max(last - first for first, last in known)


class Shares(msgspec.Struct, frozen=True, kw_only=True):
    """How the time of a log is divided into those of its run."""

    begin_us: int
    width_us: int


def shares_of(times: Sequence[Times], common: bool) -> list[Shares]:
    """By log; from the beginning of the run where clocks are common, else of the log."""
    known = [log.of_all for log in times if log.of_all is not None]
    first = min((begin for begin, _ in known), default=0)
    begins = [first if common or log.of_all is None else log.of_all[0] for log in times]
    lasted = [
        log.of_all[1] - begin
        for log, begin in zip(times, begins, strict=True)
        if log.of_all is not None
    ]
    width = bucket_width(max(lasted, default=0))
    return [Shares(begin_us=begin, width_us=width) for begin in begins]


def bucket_width(lasted_us: int) -> int:
    """The shortest of 1, 2, 5, 10, ... us that covers so long a time ``BUCKETS_MAX`` times."""
    width = 1
    while True:
        for step in (1, 2, 5):
            if width * step * BUCKETS_MAX > lasted_us:
                return width * step
        width *= 10


# Of a log.


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be measured."""

    metrics: tuple[str, ...]
    rows: bool
    """Whether the tables ``OF_LOG`` are wanted, which are as long as the traces."""


def about_log(facts: Facts, log: Log, times: Times, state: str, spent: Spent | None) -> AboutLog:
    """What is said of a log; ``state``: that of its CPU times."""
    lives, info, span = log.index.lives, facts.run.info, times.of_messages
    node = facts.run.numbering.names[log.index.node]
    return AboutLog(
        run=info.run,
        node=node,
        events=log.index.events,
        timed=not bool((log.t_us == ABSENT).any()),
        sends=sum(len(life.send_id) for life in lives),
        receives=int(np.count_nonzero(log.kind == KIND_RECEIVE)),
        readies=int(np.count_nonzero(log.kind == KIND_READY)),
        deliveries=sum(len(life.deliver_id) for life in lives),
        stables=sum(len(life.stable_id) for life in lives),
        phantoms=len(log.index.phantom_at),
        samples=len(_sampled(log)),
        span_us=None if span is None else span[1] - span[0],
        slow=node in slow_nodes_of(info),
        vector_entries=info.vectors * members_of(facts),
        cpu=state,
        cpu_calls=None if spent is None else spent.total.calls,
        cpu_ns=None if spent is None else spent.total.ns,
        guarantee=info.guarantee,
        tags=info.tags,
        stability=info.stability,
        clock=clock_of(info),
    )


def members_of(facts: Facts) -> int:
    """How many members the run began with."""
    return len(facts.run.info.members) or len(facts.run.members)


def digest_log(
    facts: Facts, log: Log, times: Times, shares: Shares, sent_us: Ints, cpu: CpuTimes,
    asked: Asked, write: Write,
) -> LogDigest:  # fmt: skip
    """Measure a log; ``sent_us`` by id: when it was sent."""
    state, spent = cpu.of(facts.run.numbering.names[log.index.node], log)
    about = about_log(facts, log, times, state, spent)
    tally = LogTally(asked.metrics, about)
    for messages in latencies(facts, log, sent_us, about, spent):
        tally.add(messages)
        if asked.rows:
            write("latency", latency_rows(messages, facts.run.numbering))
    samples = _samples(log, shares)
    if asked.rows:
        write("samples", _sample_rows(about, samples))
    return tally.digest(samples)


def _sampled(log: Log) -> Ints:
    rows: Ints = np.flatnonzero((log.kind == KIND_SAMPLE) & (log.words != ABSENT))
    return rows


def _samples(log: Log, shares: Shares) -> Samples:
    """The samples of a log, each in its share of the run's time."""
    rows = _sampled(log)
    t_us = log.t_us[rows].astype(np.int64)
    begin = (t_us - shares.begin_us) // shares.width_us * shares.width_us
    bucket_us = np.where(t_us == ABSENT, ABSENT, begin)
    return Samples(t_us=t_us, bucket_us=bucket_us, words=log.words[rows].astype(np.int64))


def _sample_rows(about: AboutLog, samples: Samples) -> pa.Table:
    count = len(samples.words)
    columns = {
        "run": pa.repeat(pa.scalar(about.run, pa.string()), count),
        "node": pa.repeat(pa.scalar(about.node, pa.string()), count),
        "t_us": pa.array(samples.t_us, mask=samples.t_us == ABSENT),
        "bucket_us": pa.array(samples.bucket_us, mask=samples.bucket_us == ABSENT),
        "words": pa.array(samples.words),
    }
    return pa.Table.from_pydict(columns, schema=ARROW["samples"])


# Of a run.


def digest_run(
    facts: Facts, times: Sequence[Times], logs: Sequence[LogDigest], asked: Asked, write: Write
) -> RunDigest:
    """Put the logs of a run together, and write the tables ``OF_RUN``."""
    about = about_run(facts, times, sum(log.about.events for log in logs))
    order = order_of(facts)
    write("runs", _table("runs", [about]))
    write("logs", _table("logs", [log.about for log in logs]))
    orders = {"run": about.run, **msgspec.to_builtins(order)}
    write("orders", pa.Table.from_pylist([orders], ARROW["orders"]))
    run = WholeRun(
        about=about,
        timed=all(log.about.timed for log in logs),
        sends=sum(log.about.sends for log in logs),
        deliveries=sum(log.about.deliveries for log in logs),
        order=order,
    )
    return run_digest(asked.metrics, run, logs)


def _table(name: str, rows: Sequence[msgspec.Struct]) -> pa.Table:
    return pa.Table.from_pylist([msgspec.to_builtins(row) for row in rows], ARROW[name])


def about_run(facts: Facts, times: Sequence[Times], events: int) -> AboutRun:
    """What is said of a run; ``times`` by log."""
    info = facts.run.info
    interval: Any = info.scenario.get("interval_ms")
    is_number = isinstance(interval, int | float) and not isinstance(interval, bool)
    clock = clock_of(info)
    return AboutRun(
        run=info.run,
        engine=info.engine,
        variant=_word(info, "variant") or info.engine,
        role=_word(info, "role"),
        form=_word(info, "form"),
        vectors=info.vectors,
        slow_nodes=tuple(slow_nodes_of(info)),
        guarantee=info.guarantee,
        tags=info.tags,
        stability=info.stability,
        complete=info.complete,
        group_size=members_of(facts),
        interval_ms=float(interval) if is_number else None,
        experiment=_word(info, "experiment"),
        clock=clock,
        scenario=msgspec.json.encode(info.scenario).decode(),
        events=events,
        span_us=_span_of_run(times, clock is not None),
    )
