"""The driver of the check: plan, run the stages, put the verdict together.

Small runs are checked whole, each by one task with the code of the local checker.  A long run is
checked by logs, in two stages; logs that are far longer than a task should be are decoded in pieces
first.  The driver sees files, counts, and the first violations, nothing that grows with the events.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from thence.pipeline.causality.aside import Asides
from thence.pipeline.causality.judge import (
    Flowed,
    Header,
    JudgeSpec,
    flow_log,
    header_of,
    is_exact,
    judge_log,
    save_header,
)
from thence.pipeline.causality.pieces import (
    DecodeSpec,
    FileSpec,
    Piece,
    Surveyed,
    decode_piece,
    survey_file,
)
from thence.pipeline.causality.scan import Scanned, ScanSpec, scan_log
from thence.pipeline.causality.spell import Judged
from thence.pipeline.causality.whole import WholeSpec, check_whole
from thence.pipeline.tasks import Runner
from thence.trace.files import absolute, join, make_folder
from thence.trace.reader import (
    PathLike,
    Place,
    by_run,
    find_places,
    info_of,
    look_at_group,
    no_records,
    note_home,
)
from thence.trace.record import RunInfo
from thence.trace.segments import Quarantine
from thence.trace.verdict import LISTED_MAX, Report, Violation, report_of

WHOLE_EVENTS_MAX: Final = 1_000_000  # a run up to this is checked by one task
LONG_LOG_EVENTS: Final = 4_000_000  # a log above this is decoded in pieces of about this
BATCH_EVENTS_MAX: Final = 5_000_000  # runs by logs go together up to this
ROUNDS_MAX: Final = 16  # of closing vectors; longer chains of faults go to one task, which replays

R = TypeVar("R", bound=msgspec.Struct)
FirstViolations = Callable[[Sequence[str], int], list[Violation]]
"""Reads the first so many violations of the tables in some folders."""


class CheckOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to check."""

    work: str
    """A folder that driver and tasks can write to and read; it is left with what was kept."""
    keep_going: bool = False
    listed: int = LISTED_MAX
    """Violations of one log in the table; all are counted."""
    whole_events_max: int = WHOLE_EVENTS_MAX
    long_log_events: int = LONG_LOG_EVENTS


class _RunPlan(msgspec.Struct, kw_only=True):
    """One run to be checked."""

    name: str
    info: RunInfo
    members: tuple[str, ...]
    """All names that its places' ``run.json`` give."""
    group: int
    """Which of the groups of places it was found in."""
    pieces: dict[str, list[Piece]]
    """By node, in the order of reading."""
    nodes: frozenset[str] = frozenset()
    """Those with a good record: known when the logs were read."""
    group_rows: dict[str, tuple[int, ...]]
    """By path of a Parquet file that is one piece: the rows of its row groups."""

    @property
    def rows(self) -> int:
        return sum(piece.rows for pieces in self.pieces.values() for piece in pieces)


class _Job(msgspec.Struct, kw_only=True):
    """A long run on its way to a verdict."""

    plan: _RunPlan
    header: Header | None = None
    """None: its logs cannot be judged one by one."""
    path: str = ""
    verdict: RunVerdict | None = None

    @property
    def logs(self) -> tuple[Scanned, ...]:
        return () if self.header is None else self.header.logs

    @property
    def stem(self) -> str:
        return "" if self.header is None else self.header.stem


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What a check found."""

    report: Report
    verdicts: tuple[RunVerdict, ...]
    tables: tuple[str, ...]
    """Folders below ``work`` that together hold the table of violations."""


class RunVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the check found in one run, in numbers."""

    run: str
    engine: str
    events: int
    counts: dict[str, int]


def check_with(
    runner: Runner, paths: Sequence[PathLike], options: CheckOptions, first: FirstViolations
) -> Checked:
    """Check every run below these paths; the same report as the local checker's.

    Raises as ``thence.trace.check.check_paths`` does.
    """
    # Workers keep what they read by its path, so no path may be used twice.
    unique = join(options.work, uuid.uuid4().hex)
    make_folder(unique)
    options = msgspec.structs.replace(options, work=unique)
    return _Check(runner, [os.fspath(path) for path in paths], options).go(first)


class _Check:
    def __init__(self, runner: Runner, paths: list[str], options: CheckOptions) -> None:
        self.runner = runner
        self.paths = paths
        self.options = options
        self.quarantine = Quarantine()
        self.asides = Asides()
        self.notes: list[str] = []
        self.numbers = itertools.count()
        """Of the files that decoding tasks write."""
        self.groups: list[list[Place]] = []
        self.files: dict[str, str] = {}
        """By path as given, in the order of reading: the path for tasks, which may run in another
        working folder."""
        self.tables: list[str] = []

    def go(self, first: FirstViolations) -> Checked:
        plans = self._plan()
        small = [plan for plan in plans if plan.rows <= self.options.whole_events_max]
        found = dict(zip(map(id, small), self._whole(small), strict=True))
        long = [plan for plan in plans if id(plan) not in found]
        for number, batch in enumerate(_batches(long)):
            stems = [f"run{number}.{which}" for which in range(len(batch))]
            found |= dict(zip(map(id, batch), self._by_logs(batch, stems), strict=True))
        verdicts = [found[id(plan)] for plan in plans if found[id(plan)].events]
        self._look_back(plans)
        if self.quarantine.count and not (self.options.keep_going and verdicts):
            raise self.quarantine.error()
        if not verdicts and not self.quarantine.count:
            raise no_records(self.paths)
        report = self._report(verdicts, first)
        return Checked(report=report, verdicts=tuple(verdicts), tables=tuple(self.tables))

    def _look_back(self, plans: list[_RunPlan]) -> None:
        """What was set aside and what should be known, in the order of reading."""
        for number, group in enumerate(self.groups):
            files = {file: self.files[file] for place in group for file in place.files}
            self.asides.put_in_order(self.quarantine, files)
            nodes = {
                plan.name: set(plan.nodes) for plan in plans if plan.group == number and plan.nodes
            }
            look_at_group(group, nodes, self.quarantine, self.notes)
        self.asides.count_rest(self.quarantine)

    def _report(self, verdicts: list[RunVerdict], first: FirstViolations) -> Report:
        counted = report_of((), self.paths, self.quarantine.listed, self.quarantine.count)
        counts: dict[str, int] = {}
        for verdict in verdicts:
            for rule, count in verdict.counts.items():
                counts[rule] = counts.get(rule, 0) + count
        violations = first(self.tables, LISTED_MAX) if counts else []
        return msgspec.structs.replace(
            counted,
            runs=len(verdicts),
            events=sum(verdict.events for verdict in verdicts),
            counts=dict(sorted(counts.items())),
            violations=tuple(violations),
            notes=tuple(self.notes),
        )

    # Planning.

    def _plan(self) -> list[_RunPlan]:
        self.groups = by_run(find_places(self.paths, self.quarantine))
        self.files = {
            file: absolute(file) for group in self.groups for place in group for file in place.files
        }
        work = self.options.work
        specs = [FileSpec(number, path, work) for number, path in enumerate(self.files.values())]
        surveyed = self.runner("looking at the files", survey_file, specs, Surveyed)
        found = dict(zip(self.files, surveyed, strict=True))
        for survey in surveyed:
            self.asides.take(survey.quarantined, survey.listed)
        plans: list[_RunPlan] = []
        for number in range(len(self.groups)):
            plans += self._plan_group(number, found)
        return plans

    def _plan_group(self, number: int, found: dict[str, Surveyed]) -> list[_RunPlan]:
        group = self.groups[number]
        infos = [place.info for place in group if place.info is not None]
        members = tuple(name for info in infos for name in info.members)
        found = self._sure_of_homes(group, found)
        plans: dict[str, _RunPlan] = {}
        for file in [file for place in group for file in place.files]:
            survey = found[file]
            for piece in survey.pieces:
                plan = plans.get(piece.run)
                if plan is None:
                    plan = plans[piece.run] = _RunPlan(
                        name=piece.run, info=info_of(piece.run, infos), members=members,
                        group=number, pieces={}, group_rows={},
                    )  # fmt: skip
                plan.pieces.setdefault(piece.node, []).append(piece)
                if survey.group_rows:
                    plan.group_rows[piece.path] = survey.group_rows
        return [plans[name] for name in sorted(plans)]

    def _sure_of_homes(self, group: list[Place], found: dict[str, Surveyed]) -> dict[str, Surveyed]:
        """The same, after a look at whether a node has logs in two places: that is unusable.

        Only a log with a good record is one, and a footer does not say whether there is any.
        """
        homes: dict[str, set[str]] = {}
        for place in group:
            for piece in (piece for file in place.files for piece in found[file].pieces):
                homes.setdefault(piece.node, set()).add(place.path)
        doubtful = {node for node, places in homes.items() if len(places) > 1}
        if not doubtful:
            return found
        files = [
            file
            for place in group
            for file in place.files
            if found[file].group_rows and found[file].pieces[0].node in doubtful
        ]
        pieces = [found[file].pieces[0] for file in files]
        found = found | dict(zip(files, self._decode(pieces), strict=True))
        home: dict[str, str] = {}
        for place in group:
            for piece in (piece for file in place.files for piece in found[file].pieces):
                note_home(home, piece.node, place.path)
        return found

    def _decode(self, pieces: list[Piece]) -> list[Surveyed]:
        """Have each of these decoded by a task of its own."""
        specs = [DecodeSpec(next(self.numbers), piece, self.options.work) for piece in pieces]
        weights = [piece.rows for piece in pieces]
        decoded = self.runner("decoding long logs", decode_piece, specs, Surveyed, weights)
        # A file that is damaged in one place is unusable as a whole, whoever else could read on.
        damaged: dict[str, Surveyed] = {}
        for piece, result in zip(pieces, decoded, strict=True):
            if any(item.line is None for item in result.listed):
                damaged.setdefault(piece.path, result)
        for piece, result in zip(pieces, decoded, strict=True):
            if damaged.get(piece.path, result) is result:
                self.asides.take(result.quarantined, result.listed)
        return [
            Surveyed(()) if piece.path in damaged else result
            for piece, result in zip(pieces, decoded, strict=True)
        ]

    # Small runs.

    def _whole(self, plans: list[_RunPlan]) -> Iterator[RunVerdict]:
        tables = self._table("whole")
        specs = [
            self._whole_spec(plan, tables, f"whole{number}") for number, plan in enumerate(plans)
        ]
        weights = [plan.rows for plan in plans]
        judged = self.runner("checking runs", check_whole, specs, Judged, weights)
        for plan, result in zip(plans, judged, strict=True):
            self.asides.take(result.quarantined, result.listed)
            plan.nodes = frozenset(result.nodes)
            yield _verdict_of(plan, [result])
        self._found(tables, judged)

    def _table(self, name: str) -> str:
        """A new folder for a part of the table of violations."""
        folder = join(self.options.work, f"violations-{name}")
        make_folder(folder)
        return folder

    def _found(self, tables: str, judged: Sequence[Judged]) -> None:
        """The violations in this folder count."""
        if any(result.counts for result in judged):
            self.tables.append(tables)

    def _whole_spec(self, plan: _RunPlan, tables: str, stem: str) -> WholeSpec:
        return WholeSpec(
            run=plan.name, info=plan.info, members=plan.members,
            pieces=tuple(
                sorted(
                    (piece for pieces in plan.pieces.values() for piece in pieces),
                    key=lambda piece: piece.number,
                )
            ),
            tables=tables, stem=stem, listed=self.options.listed,
        )  # fmt: skip

    # Long runs, some of them together: a stage costs the same for one log as for many.

    def _by_logs(self, plans: list[_RunPlan], stems: list[str]) -> list[RunVerdict]:
        self._split_long_logs(plans)
        jobs = self._scan(plans, stems)
        exact = [job for job in jobs if job.header is not None and is_exact(job.header)]
        self._judge(exact, 0)
        self._close([job for job in jobs if job.header is not None and job.verdict is None])
        return [
            job.verdict or self._in_one(job.plan, stem)
            for job, stem in zip(jobs, stems, strict=True)
        ]

    def _split_long_logs(self, plans: list[_RunPlan]) -> None:
        """Have the pieces of logs that are too long for one task decoded by several."""
        limit = self.options.long_log_events
        work: list[tuple[_RunPlan, Piece]] = []
        for plan in plans:
            for pieces in plan.pieces.values():
                if sum(piece.rows for piece in pieces) <= limit:
                    continue
                for piece in pieces:
                    parts = _row_groups(piece, plan.group_rows.get(piece.path), limit)
                    work += [(plan, part) for part in parts]
        decoded = self._decode([part for _, part in work])
        again: dict[tuple[int, str], list[Piece]] = {}
        for (plan, part), result in zip(work, decoded, strict=True):
            again.setdefault((id(plan), part.node), []).extend(
                piece for piece in result.pieces if piece.run == plan.name
            )
        for plan in plans:
            for node in plan.pieces:
                plan.pieces[node] = again.get((id(plan), node), plan.pieces[node])

    def _scan(self, plans: list[_RunPlan], stems: list[str]) -> list[_Job]:
        specs = [
            ScanSpec(
                run=plan.name, node=node, info=plan.info, pieces=tuple(plan.pieces[node]),
                run_rows=plan.rows, work=self.options.work, stem=f"{stem}-{number}",
            )
            for plan, stem in zip(plans, stems, strict=True)
            for number, node in enumerate(sorted(plan.pieces))
        ]  # fmt: skip
        weights = [sum(piece.rows for piece in spec.pieces) for spec in specs]
        scanned = iter(self.runner("reading logs", scan_log, specs, Scanned, weights))
        jobs = []
        for plan, stem in zip(plans, stems, strict=True):
            logs = [next(scanned) for _ in plan.pieces]
            for log in logs:
                self.asides.take(log.quarantined, log.listed)
            plan.nodes = frozenset(log.node for log in logs if log.events)
            job = _Job(plan=plan)
            if not any(log.has_holes for log in logs):
                some = tuple(log for log in logs if log.events)
                job.header = header_of(plan.info, some, self.options.work, stem)
                job.path = save_header(job.header)
            jobs.append(job)
        return jobs

    def _judge(self, jobs: list[_Job], number: int) -> None:
        """Give those a verdict whose vectors of this round turn out to be exact."""
        tables = [self._table(f"{job.stem}-{number}") for job in jobs]
        judged = self._each_log("judging logs", judge_log, Judged, jobs, number, tables)
        for job, folder, results in zip(jobs, tables, judged, strict=True):
            if all(result.proved for result in results):
                self._found(folder, results)
                job.verdict = _verdict_of(job.plan, results)

    def _close(self, jobs: list[_Job]) -> None:
        """Close the vectors in rounds, then judge."""
        for number in range(1, ROUNDS_MAX):
            if not jobs:
                return
            tables = [""] * len(jobs)
            flowed = self._each_log("closing pasts", flow_log, Flowed, jobs, number, tables)
            closed = [
                job
                for job, results in zip(jobs, flowed, strict=True)
                if not any(result.changed for result in results)
            ]
            self._judge(closed, number + 1)
            jobs = [job for job in jobs if job not in closed]

    def _each_log(
        self, what: str, work: Callable[[JudgeSpec], R], result: type[R], jobs: list[_Job],
        number: int, tables: list[str],
    ) -> list[list[R]]:  # fmt: skip
        """The results for the logs of each job."""
        specs = [
            JudgeSpec(
                header=job.path, log=log, round=number, tables=folder, listed=self.options.listed
            )
            for job, folder in zip(jobs, tables, strict=True)
            for log in range(len(job.logs))
        ]
        weights = [log.events for job in jobs for log in job.logs]
        results = iter(self.runner(what, work, specs, result, weights))
        return [[next(results) for _ in job.logs] for job in jobs]

    def _in_one(self, plan: _RunPlan, stem: str) -> RunVerdict:
        """Check a long run by one task after all."""
        tables = self._table(f"{stem}-one")
        spec = self._whole_spec(plan, tables, stem)
        judged = self.runner(f"{plan.name}: in one task", check_whole, [spec], Judged)
        self._found(tables, judged)
        return _verdict_of(plan, judged)


def _batches(plans: list[_RunPlan]) -> Iterator[list[_RunPlan]]:
    """Runs to be checked together: a worker that goes from run to run reads vectors again."""
    batch: list[_RunPlan] = []
    for plan in plans:
        if batch and sum(each.rows for each in batch) + plan.rows > BATCH_EVENTS_MAX:
            yield batch
            batch = []
        batch.append(plan)
    if batch:
        yield batch


def _row_groups(piece: Piece, sizes: tuple[int, ...] | None, limit: int) -> list[Piece]:
    """A piece cut into row groups of about ``limit`` rows together, if it can be."""
    if sizes is None or piece.rows <= limit:
        return [piece]
    pieces: list[Piece] = []
    groups: list[int] = []
    for number, size in enumerate(sizes):
        if groups and sum(sizes[group] for group in groups) + size > limit:
            pieces.append(_part_of(piece, groups, sizes))
            groups = []
        groups.append(number)
    pieces.append(_part_of(piece, groups, sizes))
    return pieces


def _part_of(piece: Piece, groups: list[int], sizes: tuple[int, ...]) -> Piece:
    rows = sum(sizes[group] for group in groups)
    return msgspec.structs.replace(piece, rows=rows, groups=tuple(groups))


def _verdict_of(plan: _RunPlan, judged: Sequence[Judged]) -> RunVerdict:
    counts: dict[str, int] = {}
    for result in judged:
        for rule, count in result.counts.items():
            counts[rule] = counts.get(rule, 0) + count
    return RunVerdict(
        run=plan.name,
        engine=plan.info.engine,
        events=sum(result.events for result in judged),
        counts=dict(sorted(counts.items())),
    )
