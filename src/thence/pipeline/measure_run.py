"""What one task of ``measure`` does: the files of a run in, its part of every table out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thence.errors import ThenceError, UnusableInputError
from thence.pipeline.latency import KIND_READY, KIND_RECEIVE, Log, latencies, open_log, send_times
from thence.pipeline.measure_segments import ABSENT, Measurements, Segments
from thence.pipeline.metrics.base import ARROW, COMMON, TABLES
from thence.pipeline.metrics.concurrency import order_of
from thence.trace.check import Facts, facts_of
from thence.trace.columns import KIND_CODE, Columns, Ints
from thence.trace.files import filesystem
from thence.trace.index import index_log
from thence.trace.reader import find_places, iter_runs
from thence.trace.record import SAMPLE, RunInfo
from thence.trace.run import open_run
from thence.trace.segments import Quarantine, Quarantined
from thence.trace.views import group_of

BUCKETS_MAX: Final = 50
"""Shares into which the time of a run is divided, at most."""
KIND_SAMPLE: Final = KIND_CODE[SAMPLE]


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What a task is to measure: the places of one run (or of one folder that names none)."""

    number: int
    """Of the files that it writes."""
    paths: tuple[str, ...]
    folder: str


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a task tells the driver."""

    runs: tuple[tuple[str, int], ...] = ()
    """(name, events)."""
    error: str | None = None
    quarantined: tuple[Quarantined, ...] = ()
    quarantined_count: int = 0
    notes: tuple[str, ...] = ()


class AllLines(Quarantine):
    """A quarantine that remembers every line, so that the same ones can be left out again."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, list[int]] = {}

    def add(self, file: str, line: int | None, reason: str) -> None:
        """Set one line, or a whole file, aside."""
        super().add(file, line, reason)
        if line is not None:
            self.lines.setdefault(file, []).append(line)


def measure_unit(unit: Unit) -> Outcome:
    """Measure the runs below the unit's paths and write its part of every table."""
    quarantine = AllLines()
    notes: list[str] = []
    runs = []
    try:
        files = [file for place in find_places(unit.paths, Quarantine()) for file in place.files]
        segments = Segments(files, quarantine)
        with Parts(unit.folder, unit.number) as parts:
            for columns, info in _runs(unit.paths, segments, quarantine, notes):
                measured = segments.of_run(columns, quarantine.lines)
                for table, rows in tables_of(columns, info, measured):
                    parts.write(table, rows)
                runs.append((columns.run, columns.events))
    except (ThenceError, OSError) as error:
        return Outcome(error=str(error))
    return Outcome(
        runs=tuple(runs),
        quarantined=tuple(quarantine.listed),
        quarantined_count=quarantine.count,
        notes=tuple(notes),
    )


def _runs(
    paths: Sequence[str], segments: Segments, quarantine: Quarantine, notes: list[str]
) -> Iterator[tuple[Columns, RunInfo]]:
    try:
        yield from iter_runs(paths, quarantine, notes)
    except UnusableInputError:
        if len(segments) or quarantine.count:
            raise
        # Otherwise there is nothing in it, which is for the driver to judge.


class Parts:
    """The files of one task, one a table; each appears under its name when it is whole."""

    def __init__(self, folder: str, number: int) -> None:
        self._where, inner = filesystem(folder)
        # A task that is tried again may meet its predecessor: each writes a file of its own.
        self._names = {
            table: (
                f"{inner}/{table}/_{number:06d}-{uuid.uuid4()}",
                f"{inner}/{table}/part-{number:06d}.parquet",
            )
            for table in TABLES
        }
        self._writers: dict[str, Any] = {}

    def __enter__(self) -> Parts:
        for table, (hidden, _) in self._names.items():
            self._writers[table] = pq.ParquetWriter(
                hidden, ARROW[table], filesystem=self._where, compression="zstd"
            )
        return self

    def write(self, table: str, rows: pa.Table) -> None:
        """Add rows."""
        if len(rows):
            self._writers[table].write_table(rows)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for table, writer in self._writers.items():
            writer.close()
            hidden, name = self._names[table]
            if error is None:
                self._where.move(hidden, name)
            else:
                self._where.delete_file(hidden)


# One run.


def tables_of(
    columns: Columns, info: RunInfo, measured: Measurements
) -> Iterator[tuple[str, pa.Table]]:
    """(table, rows) of a run."""
    opened = open_run(columns, info)
    indices = [index_log(opened, node) for node in opened.nodes]
    group = group_of(opened.run.members, [(index.node, index.changes) for index in indices])
    facts = facts_of(opened.run, indices, group)
    logs = [open_log(columns, facts, index, measured) for index in indices]
    sent_us = send_times(facts, logs)
    for log in logs:
        for rows in latencies(facts, log, sent_us):
            yield "latency", rows
    clock = COMMON if has_common_clock(info) else None
    spans = [_span(log) for log in logs]
    yield "runs", _rows("runs", [_about_run(columns, info, clock, spans)])
    of_logs = zip(logs, spans, strict=True)
    yield "logs", _rows("logs", [_about_log(facts, log, span, clock) for log, span in of_logs])
    yield "samples", _samples(facts, logs, clock is not None)
    order = msgspec.to_builtins(order_of(facts))
    yield "orders", _rows("orders", [{"run": columns.run, **order}])


def has_common_clock(info: RunInfo) -> bool:
    """Whether the times of different nodes can be compared: run.json says so."""
    return info.scenario.get("clock") == COMMON or info.scenario.get("simulated") is True


def _rows(table: str, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, ARROW[table])


def _about_run(
    columns: Columns, info: RunInfo, clock: str | None, spans: list[tuple[int, int] | None]
) -> dict[str, Any]:
    interval: Any = info.scenario.get("interval_ms")
    experiment = info.scenario.get("experiment")
    is_number = isinstance(interval, int | float) and not isinstance(interval, bool)
    return {
        "run": columns.run,
        "engine": info.engine,
        "guarantee": info.guarantee,
        "tags": info.tags,
        "stability": info.stability,
        "complete": info.complete,
        "group_size": len(info.members),
        "interval_ms": float(interval) if is_number else None,
        "experiment": experiment if isinstance(experiment, str) else None,
        "clock": clock,
        "scenario": msgspec.json.encode(info.scenario).decode(),
        "events": columns.events,
        "span_us": _span_of_run(spans, clock is not None),
    }


def _span(log: Log) -> tuple[int, int] | None:
    """When the log's first and last send or delivery was; None without any, or without clock."""
    lives = log.index.lives
    rows = np.concatenate([rows for life in lives for rows in (life.send_at, life.deliver_at)])
    times = log.t_us[rows]
    if not len(times) or bool((times == ABSENT).any()):
        return None
    return int(times.min()), int(times.max())


def _span_of_run(spans: list[tuple[int, int] | None], common: bool) -> int | None:
    known = [span for span in spans if span is not None]
    if not known:
        return None
    if common:
        return max(last for _, last in known) - min(first for first, _ in known)
    return max(last - first for first, last in known)


def _about_log(
    facts: Facts, log: Log, span: tuple[int, int] | None, clock: str | None
) -> dict[str, Any]:
    lives, info = log.index.lives, facts.run.info
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
        "guarantee": info.guarantee,
        "tags": info.tags,
        "stability": info.stability,
        "clock": clock,
    }


# Samples.


def _sampled(log: Log) -> Ints:
    rows: Ints = np.flatnonzero((log.kind == KIND_SAMPLE) & (log.words != ABSENT))
    return rows


def _samples(facts: Facts, logs: list[Log], common: bool) -> pa.Table:
    """The samples of a run, each in its share of the run's time."""
    timed = [log.t_us[log.t_us != ABSENT] for log in logs]
    begins = [int(times.min()) if len(times) else ABSENT for times in timed]
    if common:
        known = [begin for begin in begins if begin != ABSENT]
        begins = [min(known, default=ABSENT)] * len(logs)
    lasted = [int(t.max()) - begin for t, begin in zip(timed, begins, strict=True) if len(t)]
    width = bucket_width(max(lasted, default=0))
    pieces = [ARROW["samples"].empty_table()]
    for log, begin in zip(logs, begins, strict=True):
        rows = _sampled(log)
        t_us = log.t_us[rows]
        untimed = t_us == ABSENT
        since = np.where(untimed, 0, t_us - (0 if begin == ABSENT else begin))
        columns = {
            "run": pa.repeat(pa.scalar(facts.run.info.run, pa.string()), len(rows)),
            "node": pa.repeat(facts.run.numbering.names[log.index.node], len(rows)),
            "t_us": pa.array(t_us, pa.int64(), mask=untimed),
            "bucket_us": pa.array(since // width * width, pa.int64(), mask=untimed),
            "words": pa.array(log.words[rows], pa.int64()),
        }
        pieces.append(pa.Table.from_pydict(columns, schema=ARROW["samples"]))
    return pa.concat_tables(pieces)


def bucket_width(lasted_us: int) -> int:
    """The shortest of 1, 2, 5, 10, ... us that covers so long a time ``BUCKETS_MAX`` times."""
    width = 1
    while True:
        for step in (1, 2, 5):
            if width * step * BUCKETS_MAX > lasted_us:
                return width * step
        width *= 10
