"""Runs that are longer than a task should hold: measured log by log, stage after stage.

The stages are those of measure_logs.py.  The driver sees files, names, counts and a few times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final

import msgspec

from thence.pipeline.causality.check import ROUNDS_MAX
from thence.pipeline.causality.judge import (
    Flowed,
    JudgeSpec,
    flow_log,
    header_of,
    save_header,
)
from thence.pipeline.causality.pieces import Piece, Surveyed
from thence.pipeline.causality.scan import ScanSpec
from thence.pipeline.cpu_times import cpu_folders
from thence.pipeline.measure_logs import (
    DecodeSpec,
    Done,
    LogRead,
    LogSpec,
    Proved,
    ProveSpec,
    WholeSpec,
    decode_file,
    measure_log,
    measure_whole,
    prove_log,
    read_log,
)
from thence.pipeline.measure_rows import Asked, Times, clock_of, shares_of
from thence.pipeline.measure_run import Outcome, Unit, measure_unit
from thence.pipeline.tasks import Runner
from thence.trace.files import COMPRESSION, filesystem, join, make_folder, name_of, remove_folder
from thence.trace.reader import Place, info_of, look_at_group, note_home
from thence.trace.record import RunInfo
from thence.trace.segments import Quarantine, Quarantined

WHOLE_EVENTS_MAX: Final = 1_000_000
"""About so many events of a run are measured by one task, which then holds less than 300 MB."""
TOGETHER_EVENTS_MAX: Final = 20_000_000
"""Longer runs share their stages up to about this: a worker keeps the vectors of one run."""
# What an event takes, about, in each form; wrong by two it is right enough.
PARQUET_EVENT_BYTES: Final = 4
LINE_EVENT_BYTES: Final = 100
COMPRESSED_EVENT_BYTES: Final = 8


class Sized(msgspec.Struct, frozen=True):
    """The places of a run, and about how many events they hold."""

    places: tuple[Place, ...]
    events: int


def sized(places: Sequence[Place]) -> Sized:
    """By the sizes of its files: what is in them is for the tasks to see."""
    return Sized(tuple(places), sum(_about(file) for place in places for file in place.files))


def _about(file: str) -> int:
    """About how many events a file holds."""
    where, inner = filesystem(file)
    size: int = where.get_file_info(inner).size or 0
    return size // _event_bytes(name_of(file))


def _event_bytes(name: str) -> int:
    if name.endswith(tuple(COMPRESSION)):
        return COMPRESSED_EVENT_BYTES
    return PARQUET_EVENT_BYTES if name.endswith(".parquet") else LINE_EVENT_BYTES


class _Run(msgspec.Struct, kw_only=True):
    """One run on its way."""

    name: str
    stem: str
    info: RunInfo
    places: tuple[Place, ...]
    pieces: dict[str, list[Piece]]
    """By node, in the order of reading."""
    reads: tuple[LogRead, ...] = ()
    """By log, in the order of names."""
    header: str = ""
    """The path of what its tasks must know; empty when its logs cannot be measured one by one."""
    round: int | None = None
    """Of the vectors that are exact."""

    @property
    def logs(self) -> list[tuple[str, list[Piece]]]:
        return sorted(self.pieces.items())

    @property
    def rows(self) -> int:
        return sum(piece.rows for pieces in self.pieces.values() for piece in pieces)

    @property
    def times(self) -> tuple[Times, ...]:
        return tuple(read.times for read in self.reads)


class ByLogs:
    """Measures long runs; ``work`` is a folder for what the stages hand to each other.

    Only the digests of runs stay there: what else a batch of runs leaves goes before the next.
    """

    def __init__(self, runner: Runner, folder: str, work: str, asked: Asked) -> None:
        self._runner = runner
        self._folder = folder
        self._digests = work
        self._work = join(work, "logs")
        self._asked = asked
        self._quarantine = Quarantine()
        self._notes: list[str] = []
        self._outcomes: list[Outcome] = []
        self._numbers = count()

    def measure(self, groups: Sequence[Sized]) -> list[Outcome]:
        """Measure the runs of all these, and write their parts of every table.

        UnusableInputError as ``measure`` says.
        """
        for batch in _batches(groups):
            make_folder(self._work)
            self._measure([group.places for group in batch])
            remove_folder(self._work)
        told = Outcome(
            quarantined=tuple(self._quarantine.listed),
            quarantined_count=self._quarantine.count,
            notes=tuple(self._notes),
        )
        return [*self._outcomes, told]

    def _measure(self, groups: Sequence[tuple[Place, ...]]) -> None:
        runs = self._read(self._decode(groups))
        self._prove([run for run in runs if run.header])
        self._close([run for run in runs if run.header and run.round is None])
        self._write([run for run in runs if run.round is not None])
        self._in_one([run for run in runs if run.round is None])

    def _decode(self, groups: Sequence[tuple[Place, ...]]) -> list[_Run]:
        files = [file for group in groups for place in group for file in place.files]
        specs = [
            DecodeSpec(path=file, work=self._work, stem=f"file{next(self._numbers)}")
            for file in files
        ]
        weights = [_about(file) for file in files]
        decoded = self._runner("decoding segments", decode_file, specs, Surveyed, weights)
        found = dict(zip(files, decoded, strict=True))
        return [run for group in groups for run in self._runs_of(group, found)]

    def _runs_of(self, group: tuple[Place, ...], found: dict[str, Surveyed]) -> list[_Run]:
        infos = [place.info for place in group if place.info is not None]
        home: dict[str, str] = {}
        pieces: dict[str, dict[str, list[Piece]]] = {}
        for place in group:
            for file in place.files:
                self._set_aside(found[file].quarantined, found[file].listed)
                for piece in found[file].pieces:
                    note_home(home, piece.node, place.path)
                    logs = pieces.setdefault(piece.run, {})
                    logs.setdefault(piece.node, []).append(piece)
        nodes = {name: set(logs) for name, logs in pieces.items()}
        look_at_group(group, nodes, self._quarantine, self._notes)
        return [
            _Run(
                name=name, stem=f"logs-{next(self._numbers):06d}", info=info_of(name, infos),
                places=group, pieces=pieces[name],
            )
            for name in sorted(pieces)
        ]  # fmt: skip

    def _set_aside(self, number: int, listed: Sequence[Quarantined]) -> None:
        for item in listed:
            self._quarantine.add(item.file, item.line, item.reason)
        self._quarantine.count += number - len(listed)

    def _read(self, runs: list[_Run]) -> list[_Run]:
        """Scan all logs; runs whose logs can be measured one by one get a header."""
        specs = [
            ScanSpec(
                run=run.name, node=node, info=run.info, pieces=tuple(pieces), run_rows=run.rows,
                work=self._work, stem=f"{run.stem}-{number}",
            )
            for run in runs
            for number, (node, pieces) in enumerate(run.logs)
        ]  # fmt: skip
        weights = [sum(piece.rows for piece in spec.pieces) for spec in specs]
        reads = iter(self._runner("reading logs", read_log, specs, LogRead, weights))
        for run in runs:
            run.reads = tuple(next(reads) for _ in run.logs)
            logs = tuple(read.scanned for read in run.reads)
            if not any(log.has_holes for log in logs):
                run.header = save_header(header_of(run.info, logs, self._work, run.stem))
        return runs

    def _prove(self, runs: list[_Run]) -> None:
        """Find the runs whose vectors are exact as they are."""
        specs = [
            ProveSpec(header=run.header, log=log) for run in runs for log in range(len(run.reads))
        ]
        proved = iter(self._runner("proving pasts", prove_log, specs, Proved, _weights(runs)))
        for run in runs:
            if all([next(proved).exact for _ in run.reads]):
                run.round = 0

    def _close(self, runs: list[_Run]) -> None:
        """Close the vectors of the others in rounds, as far as ``ROUNDS_MAX`` gets."""
        for number in range(1, ROUNDS_MAX):
            specs = [
                JudgeSpec(header=run.header, log=log, round=number, tables="", listed=0)
                for run in runs
                for log in range(len(run.reads))
            ]
            flowed = iter(self._runner("closing pasts", flow_log, specs, Flowed, _weights(runs)))
            for run in runs:
                if not any([next(flowed).changed for _ in run.reads]):
                    run.round = number + 1
            runs = [run for run in runs if run.round is None]
            if not runs:
                return

    def _write(self, runs: list[_Run]) -> None:
        specs = [spec for run in runs for spec in self._log_specs(run)]
        self._runner("measuring logs", measure_log, specs, Done, _weights(runs))
        wholes = [
            WholeSpec(
                header=run.header, round=run.round or 0, times=run.times,
                cpu_folders=cpu_folders(run.places), folder=self._folder, stem=run.stem,
                digest=join(self._digests, f"{run.stem}.digest"), asked=self._asked,
            )
            for run in runs
        ]  # fmt: skip
        weights = [run.rows for run in runs]
        done = self._runner("putting runs together", measure_whole, wholes, Done, weights)
        for run, spec, told in zip(runs, wholes, done, strict=True):
            events = sum(read.scanned.events for read in run.reads)
            self._notes += told.notes
            self._outcomes.append(Outcome(runs=((run.name, events),), digests=(spec.digest,)))

    def _log_specs(self, run: _Run) -> Iterator[LogSpec]:
        shares = shares_of(run.times, clock_of(run.info) is not None)
        for number, (_, pieces) in enumerate(run.logs):
            yield LogSpec(
                header=run.header, round=run.round or 0, log=number, pieces=tuple(pieces),
                times=run.times[number], shares=shares[number],
                cpu_folders=cpu_folders(run.places), folder=self._folder,
                stem=f"{run.stem}-{number:04d}", asked=self._asked,
            )  # fmt: skip

    def _in_one(self, runs: list[_Run]) -> None:
        """Measure runs by one task each after all; what is bad in them has been told."""
        units = [
            Unit(
                stem=run.stem, places=run.places, folder=self._folder, work=self._digests,
                asked=self._asked, only=run.name,
            )
            for run in runs
        ]  # fmt: skip
        weights = [run.rows for run in runs]
        outcomes = self._runner("measuring in one task", measure_unit, units, Outcome, weights)
        self._outcomes += [
            msgspec.structs.replace(each, quarantined=(), quarantined_count=0, notes=())
            for each in outcomes
        ]


def _weights(runs: Sequence[_Run]) -> list[int]:
    return [read.scanned.events for run in runs for read in run.reads]


def _batches(groups: Sequence[Sized]) -> Iterator[list[Sized]]:
    batch: list[Sized] = []
    for group in groups:
        if batch and sum(each.events for each in batch) + group.events > TOGETHER_EVENTS_MAX:
            yield batch
            batch = []
        batch.append(group)
    if batch:
        yield batch
