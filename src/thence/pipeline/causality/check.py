"""The driver of the check: plan, run the stages, put the verdict together.

Small runs are checked whole, each by one task with the code of the local checker.  A long run is
checked by logs, in two stages; logs that are far longer than a task should be are decoded in pieces
first.  The driver sees files, counts, and the first violations, nothing that grows with the events.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

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
from thence.trace.files import is_url, join, make_folder
from thence.trace.reader import (
    PathLike,
    Place,
    by_run,
    find_places,
    look_at_group,
    no_records,
    note_home,
)
from thence.trace.record import RunInfo
from thence.trace.segments import Quarantine, Quarantined
from thence.trace.verdict import LISTED_MAX, Report, Violation, report_of

WHOLE_EVENTS_MAX: Final = 1_000_000  # a run up to this is checked by one task
LONG_LOG_EVENTS: Final = 4_000_000  # a log above this is decoded in pieces of about this
ROUNDS_MAX: Final = 64  # of closing vectors; logs that contradict each other longer go to one task

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
    pieces: dict[str, list[Piece]]
    """By node, in the order of reading."""
    group_rows: dict[str, tuple[int, ...]]
    """By path of a Parquet file that is one piece: the rows of its row groups."""

    @property
    def rows(self) -> int:
        return sum(piece.rows for pieces in self.pieces.values() for piece in pieces)


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
        self.given = paths
        # Tasks may run in another working folder; what people read has the path they gave.
        self.paths = [path if is_url(path) else os.path.abspath(path) for path in paths]
        self.options = options
        self.quarantine = _Counted()
        self.notes: list[str] = []
        self.files: list[str] = []
        self.tables: list[str] = []

    def go(self, first: FirstViolations) -> Checked:
        plans = self._plan()
        small = [plan for plan in plans if plan.rows <= self.options.whole_events_max]
        found = dict(zip(map(id, small), self._whole(small), strict=True))
        for number, plan in enumerate(plans):
            if id(plan) not in found:
                found[id(plan)] = self._by_logs(plan, f"run{number}")
        verdicts = [found[id(plan)] for plan in plans if found[id(plan)].events]
        self._tidy()
        if self.quarantine.count and not (self.options.keep_going and verdicts):
            raise self.quarantine.error()
        if not verdicts and not self.quarantine.count:
            raise no_records(self.given)
        report = self._report(verdicts, first)
        return Checked(report=report, verdicts=tuple(verdicts), tables=tuple(self.tables))

    def _tidy(self) -> None:
        """What was set aside in the order of reading, under the paths that were given."""
        order = {file: number for number, file in enumerate(self.files)}
        self.quarantine.listed = [
            Quarantined(self._as_given(item.file), item.line, item.reason)
            for item in sorted(
                self.quarantine.listed,
                key=lambda item: (order.get(item.file, len(order)), item.line or 0),
            )
        ]
        self.notes = [self._as_given(note) for note in self.notes]

    def _as_given(self, text: str) -> str:
        for given, path in zip(self.given, self.paths, strict=True):
            if text.startswith(path):
                return given + text[len(path) :]
        return text

    def _report(self, verdicts: list[RunVerdict], first: FirstViolations) -> Report:
        counted = report_of((), self.given, self.quarantine.listed, self.quarantine.count)
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
        groups = by_run(find_places(self.paths, self.quarantine))
        self.files = [file for group in groups for place in group for file in place.files]
        work = self.options.work
        specs = [FileSpec(number, path, work) for number, path in enumerate(self.files)]
        surveyed = self.runner("looking at the files", survey_file, specs, Surveyed)
        found = dict(zip(self.files, surveyed, strict=True))
        plans: list[_RunPlan] = []
        for group in groups:
            plans += self._plan_group(group, found)
        return plans

    def _plan_group(self, group: list[Place], found: dict[str, Surveyed]) -> list[_RunPlan]:
        infos = [place.info for place in group if place.info is not None]
        members = tuple(name for info in infos for name in info.members)
        home: dict[str, str] = {}
        plans: dict[str, _RunPlan] = {}
        for place in group:
            for file in place.files:
                survey = found[file]
                self.quarantine.take(survey.quarantined, survey.listed)
                for piece in survey.pieces:
                    note_home(home, piece.node, place.path)
                    plan = plans.get(piece.run)
                    if plan is None:
                        plan = plans[piece.run] = _RunPlan(
                            name=piece.run, info=_info_of(piece.run, infos), members=members,
                            pieces={}, group_rows={},
                        )  # fmt: skip
                    plan.pieces.setdefault(piece.node, []).append(piece)
                    if survey.group_rows:
                        plan.group_rows[piece.path] = survey.group_rows
        nodes = {name: set(plan.pieces) for name, plan in plans.items()}
        look_at_group(group, nodes, self.quarantine, self.notes)
        return [plans[name] for name in sorted(plans)]

    # Small runs.

    def _whole(self, plans: list[_RunPlan]) -> Iterator[RunVerdict]:
        tables = self._table("whole")
        specs = [
            self._whole_spec(plan, tables, f"whole{number}") for number, plan in enumerate(plans)
        ]
        weights = [plan.rows for plan in plans]
        judged = self.runner("checking runs", check_whole, specs, Judged, weights)
        for plan, result in zip(plans, judged, strict=True):
            self.quarantine.take(result.quarantined, result.listed)
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
            pieces=tuple(piece for pieces in plan.pieces.values() for piece in pieces),
            tables=tables, stem=stem, listed=self.options.listed,
        )  # fmt: skip

    # Long runs.

    def _by_logs(self, plan: _RunPlan, stem: str) -> RunVerdict:
        self._split_long_logs(plan)
        nodes = sorted(plan.pieces)
        rows = [sum(piece.rows for piece in plan.pieces[node]) for node in nodes]
        specs = [
            ScanSpec(
                run=plan.name, node=node, info=plan.info, pieces=tuple(plan.pieces[node]),
                run_rows=plan.rows, work=self.options.work, stem=f"{stem}-{number}",
            )
            for number, node in enumerate(nodes)
        ]  # fmt: skip
        scanned = self.runner(f"{plan.name}: reading logs", scan_log, specs, Scanned, rows)
        for log in scanned:
            self.quarantine.take(log.quarantined, log.listed)
        logs = tuple(log for log in scanned if log.events)
        if any(log.has_holes for log in logs) or len(logs) < len(scanned):
            return self._in_one(plan, stem)
        header = header_of(plan.info, logs, self.options.work, stem)
        return self._judge(plan, header, rows)

    def _split_long_logs(self, plan: _RunPlan) -> None:
        """Have the pieces of logs that are too long for one task decoded by several."""
        limit = self.options.long_log_events
        specs: list[DecodeSpec] = []
        for pieces in plan.pieces.values():
            if sum(piece.rows for piece in pieces) > limit:
                for piece in pieces:
                    specs += [
                        DecodeSpec(0, part, self.options.work)
                        for part in _row_groups(piece, plan.group_rows.get(piece.path), limit)
                    ]
        specs = [msgspec.structs.replace(spec, number=number) for number, spec in enumerate(specs)]
        weights = [spec.piece.rows for spec in specs]
        decoded = self.runner(f"{plan.name}: decoding", decode_piece, specs, Surveyed, weights)
        again: dict[str, list[Piece]] = {}
        for spec, result in zip(specs, decoded, strict=True):
            self.quarantine.take(result.quarantined, result.listed)
            again.setdefault(spec.piece.node, []).extend(
                piece for piece in result.pieces if piece.run == plan.name
            )
        plan.pieces.update(again)

    def _judge(self, plan: _RunPlan, header: Header, rows: list[int]) -> RunVerdict:
        path = save_header(header)
        if is_exact(header):
            verdict = self._judge_round(plan, header, path, 0, rows)
            if verdict is not None:
                return verdict
        for number in range(1, ROUNDS_MAX):
            specs = self._specs(header, path, number, "")
            flowed = self.runner(f"{plan.name}: closing pasts", flow_log, specs, Flowed, rows)
            if not any(result.changed for result in flowed):
                verdict = self._judge_round(plan, header, path, number + 1, rows)
                if verdict is not None:
                    return verdict
        return self._in_one(plan, header.stem)

    def _judge_round(
        self, plan: _RunPlan, header: Header, path: str, number: int, rows: list[int]
    ) -> RunVerdict | None:
        """The verdict with the vectors of a round; None when they turn out not to be exact."""
        tables = self._table(f"{header.stem}-{number}")
        specs = self._specs(header, path, number, tables)
        judged = self.runner(f"{plan.name}: judging logs", judge_log, specs, Judged, rows)
        if not all(result.proved for result in judged):
            return None
        self._found(tables, judged)
        return _verdict_of(plan, judged)

    def _specs(self, header: Header, path: str, number: int, tables: str) -> list[JudgeSpec]:
        return [
            JudgeSpec(header=path, log=log, round=number, tables=tables, listed=self.options.listed)
            for log in range(len(header.logs))
        ]

    def _in_one(self, plan: _RunPlan, stem: str) -> RunVerdict:
        """Check a long run by one task after all."""
        tables = self._table(f"{stem}-one")
        spec = self._whole_spec(plan, tables, stem)
        judged = self.runner(f"{plan.name}: in one task", check_whole, [spec], Judged)
        self._found(tables, judged)
        return _verdict_of(plan, judged)


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


def _info_of(run: str, infos: Sequence[RunInfo]) -> RunInfo:
    mine = [info for info in infos if info.run == run]
    if not mine:
        return RunInfo(run=run)
    return msgspec.structs.replace(mine[0], complete=all(info.complete for info in mine))


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


class _Counted(Quarantine):
    """A quarantine that takes over what tasks set aside."""

    def take(self, count: int, listed: Sequence[Quarantined]) -> None:
        """Add what a task counted and listed."""
        for item in listed:
            self.add(item.file, item.line, item.reason)
        self.count += count - len(listed)
