"""A run measured by one task: its files in, its digest and its part of every table out."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.errors import ThenceError
from thence.pipeline.cpu_times import CpuTimes, cpu_folders, cpu_notes, cpu_times
from thence.pipeline.digest import RunDigest, save_run
from thence.pipeline.latency import send_times
from thence.pipeline.log import open_log
from thence.pipeline.measure_rows import (
    OF_LOG,
    OF_RUN,
    Asked,
    Write,
    clock_of,
    digest_log,
    digest_run,
    shares_of,
    times_of,
)
from thence.pipeline.metrics.base import ARROW
from thence.pipeline.observed import AboutLog
from thence.trace.check import facts_of
from thence.trace.columns import Columns
from thence.trace.files import filesystem, join
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
    work: str
    """A folder for digests."""
    asked: Asked
    only: str | None = None
    """The one run of these places that is wanted."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a task tells the driver."""

    runs: tuple[tuple[str, int], ...] = ()
    """(name, events)."""
    digests: tuple[str, ...] = ()
    """Where those of the runs are."""
    error: str | None = None
    quarantined: tuple[Quarantined, ...] = ()
    quarantined_count: int = 0
    notes: tuple[str, ...] = ()


def measure_unit(unit: Unit) -> Outcome:
    """Measure the runs of the unit's places."""
    quarantine = Quarantine()
    notes: list[str] = []
    runs: list[tuple[str, int]] = []
    digests: list[str] = []
    tables = (*OF_RUN, *OF_LOG) if unit.asked.rows else OF_RUN
    folders = cpu_folders(unit.places)
    try:
        cpu = cpu_times(folders)
        with Parts(unit.folder, unit.stem, tables) as parts:
            for columns, info in runs_in(unit.places, quarantine, notes, measured=True):
                if unit.only not in (None, columns.run):
                    continue
                digest, logs = measure_run(columns, info, cpu, unit.asked, parts.write)
                digests.append(join(unit.work, f"{unit.stem}-{len(runs)}.digest"))
                save_run(digests[-1], digest)
                runs.append((columns.run, columns.events))
                notes += cpu_notes(folders, logs)
    except (ThenceError, OSError) as error:
        return Outcome(error=str(error))
    return Outcome(
        runs=tuple(runs),
        digests=tuple(digests),
        quarantined=tuple(quarantine.listed),
        quarantined_count=quarantine.count,
        notes=tuple(notes),
    )


def measure_run(
    columns: Columns, info: RunInfo, cpu: CpuTimes, asked: Asked, write: Write
) -> tuple[RunDigest, list[AboutLog]]:
    """Measure a run whose columns were read with clocks and sizes."""
    opened = open_run(columns, info)
    indices = [index_log(opened, node) for node in opened.nodes]
    group = group_of(opened.run.members, [(index.node, index.changes) for index in indices])
    facts = facts_of(opened.run, indices, group)
    logs = [open_log(columns, facts.run.numbering, index) for index in indices]
    sent_us = send_times(facts.run.numbering.total, logs)
    times = [times_of(log) for log in logs]
    shares = shares_of(times, clock_of(info) is not None)
    digests = [
        digest_log(facts, log, when, share, sent_us, cpu, asked, write)
        for log, when, share in zip(logs, times, shares, strict=True)
    ]
    return digest_run(facts, times, digests, asked, write), [each.about for each in digests]


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
