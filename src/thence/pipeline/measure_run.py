"""A run measured by one task: its files in, its part of every table out."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.errors import ThenceError
from thence.pipeline.latency import open_log, send_times
from thence.pipeline.measure_rows import (
    Rows,
    clock_of,
    rows_of_log,
    rows_of_run,
    shares_of,
    times_of,
)
from thence.pipeline.metrics.base import ARROW, TABLES
from thence.pipeline.metrics.concurrency import order_of
from thence.trace.check import facts_of
from thence.trace.columns import Columns
from thence.trace.files import filesystem
from thence.trace.index import index_log
from thence.trace.reader import Place, runs_in
from thence.trace.record import RunInfo
from thence.trace.run import open_run
from thence.trace.segments import Quarantine, Quarantined
from thence.trace.views import group_of


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """What a task is to measure: the places of one run (or of one folder that names none)."""

    stem: str
    """Of the names of the files that it writes."""
    places: tuple[Place, ...]
    folder: str
    only: str | None = None
    """The one run of these places that is wanted."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a task tells the driver."""

    runs: tuple[tuple[str, int], ...] = ()
    """(name, events)."""
    error: str | None = None
    quarantined: tuple[Quarantined, ...] = ()
    quarantined_count: int = 0
    notes: tuple[str, ...] = ()


def measure_unit(unit: Unit) -> Outcome:
    """Measure the runs of the unit's places and write its part of every table."""
    quarantine = Quarantine()
    notes: list[str] = []
    runs = []
    try:
        with Parts(unit.folder, unit.stem, tuple(TABLES)) as parts:
            for columns, info in runs_in(unit.places, quarantine, notes, measured=True):
                if unit.only not in (None, columns.run):
                    continue
                for table, rows in tables_of(columns, info):
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


def tables_of(columns: Columns, info: RunInfo) -> Iterator[Rows]:
    """The rows of a run whose columns were read with clocks and sizes."""
    opened = open_run(columns, info)
    indices = [index_log(opened, node) for node in opened.nodes]
    group = group_of(opened.run.members, [(index.node, index.changes) for index in indices])
    facts = facts_of(opened.run, indices, group)
    logs = [open_log(columns, facts.run.numbering, index) for index in indices]
    sent_us = send_times(facts.run.numbering.total, logs)
    times = [times_of(log) for log in logs]
    shares = shares_of(times, clock_of(info) is not None)
    for log, when, share in zip(logs, times, shares, strict=True):
        yield from rows_of_log(facts, log, when, share, sent_us)
    yield from rows_of_run(info, len(info.members), columns.events, times, order_of(facts))


class Parts:
    """The files of one task, one a table; each appears under its name when it is whole."""

    def __init__(self, folder: str, stem: str, tables: Sequence[str]) -> None:
        self._where, inner = filesystem(folder)
        # A task that is tried again may meet its predecessor: each writes a file of its own.
        self._names = {
            table: (
                f"{inner}/{table}/_{stem}-{uuid.uuid4()}",
                f"{inner}/{table}/part-{stem}.parquet",
            )
            for table in tables
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
