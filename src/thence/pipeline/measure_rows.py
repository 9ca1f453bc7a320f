"""The rows of the tables: of a log, and of a run as a whole.

What is said of a run is put together from small facts of its logs (``Times``), so that it does not
matter whether one task has all of them or each log had a task of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa

from thence.pipeline.latency import KIND_READY, KIND_RECEIVE, Log, latencies
from thence.pipeline.metrics.base import ARROW, COMMON
from thence.pipeline.metrics.concurrency import Order
from thence.trace.check import Facts
from thence.trace.columns import ABSENT, KIND_CODE, Ints
from thence.trace.record import SAMPLE, RunInfo

BUCKETS_MAX: Final = 50
"""Shares into which the time of a run is divided, at most."""
KIND_SAMPLE: Final = KIND_CODE[SAMPLE]
OF_LOG: Final = ("latency", "logs", "samples")
OF_RUN: Final = ("runs", "orders")

Rows = tuple[str, pa.Table]
"""(table, some of its rows)"""


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


# Rows of a log.


def rows_of_log(
    facts: Facts, log: Log, times: Times, shares: Shares, sent_us: Ints
) -> Iterator[Rows]:
    """What one log gives to the tables ``OF_LOG``; ``sent_us`` by id: when it was sent."""
    for rows in latencies(facts, log, sent_us):
        yield "latency", rows
    yield "logs", _table("logs", _about_log(facts, log, times))
    yield "samples", _samples(facts, log, shares)


def _table(name: str, row: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist([row], ARROW[name])


def _about_log(facts: Facts, log: Log, times: Times) -> dict[str, Any]:
    lives, info, span = log.index.lives, facts.run.info, times.of_messages
    return {
        "run": info.run,
        "node": facts.run.numbering.names[log.index.node],
        "events": log.index.events,
        "timed": not bool((log.t_us == ABSENT).any()),
        "sends": sum(len(life.send_id) for life in lives),
        "receives": int(np.count_nonzero(log.kind == KIND_RECEIVE)),
        "readies": int(np.count_nonzero(log.kind == KIND_READY)),
        "deliveries": sum(len(life.deliver_id) for life in lives),
        "stables": sum(len(life.stable_id) for life in lives),
        "phantoms": len(log.index.phantom_at),
        "samples": len(_sampled(log)),
        "span_us": None if span is None else span[1] - span[0],
        "slow": facts.run.numbering.names[log.index.node] in slow_nodes_of(info),
        "guarantee": info.guarantee,
        "tags": info.tags,
        "stability": info.stability,
        "clock": clock_of(info),
    }


def _sampled(log: Log) -> Ints:
    rows: Ints = np.flatnonzero((log.kind == KIND_SAMPLE) & (log.words != ABSENT))
    return rows


def _samples(facts: Facts, log: Log, shares: Shares) -> pa.Table:
    """The samples of a log, each in its share of the run's time."""
    rows = _sampled(log)
    t_us = log.t_us[rows]
    untimed = t_us == ABSENT
    since = np.where(untimed, 0, t_us - shares.begin_us)
    columns = {
        "run": pa.repeat(pa.scalar(facts.run.info.run, pa.string()), len(rows)),
        "node": pa.repeat(facts.run.numbering.names[log.index.node], len(rows)),
        "t_us": pa.array(t_us, pa.int64(), mask=untimed),
        "bucket_us": pa.array(since // shares.width_us * shares.width_us, pa.int64(), mask=untimed),
        "words": pa.array(log.words[rows], pa.int64()),
    }
    return pa.Table.from_pydict(columns, schema=ARROW["samples"])


# Rows of a run.


def rows_of_run(
    info: RunInfo, members: int, events: int, times: Sequence[Times], order: Order
) -> Iterator[Rows]:
    """What a run gives to the tables ``OF_RUN``; ``members``: how many it began with."""
    yield "runs", _table("runs", _about_run(info, members, events, times))
    yield "orders", _table("orders", {"run": info.run, **msgspec.to_builtins(order)})


def _about_run(info: RunInfo, members: int, events: int, times: Sequence[Times]) -> dict[str, Any]:
    interval: Any = info.scenario.get("interval_ms")
    is_number = isinstance(interval, int | float) and not isinstance(interval, bool)
    clock = clock_of(info)
    return {
        "run": info.run,
        "engine": info.engine,
        "variant": _word(info, "variant") or info.engine,
        "role": _word(info, "role"),
        "form": _word(info, "form"),
        "vectors": info.vectors,
        "slow_nodes": slow_nodes_of(info),
        "guarantee": info.guarantee,
        "tags": info.tags,
        "stability": info.stability,
        "complete": info.complete,
        "group_size": members,
        "interval_ms": float(interval) if is_number else None,
        "experiment": _word(info, "experiment"),
        "clock": clock,
        "scenario": msgspec.json.encode(info.scenario).decode(),
        "events": events,
        "span_us": _span_of_run(times, clock is not None),
    }
