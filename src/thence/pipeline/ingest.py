"""Ingest: raw segments, or logs that others wrote, into the events table.

1. Find the inputs below the paths given, and leave out those the ledger has.
2. A Spark task for each input reads and judges it and writes sorted pieces (ingest_read.py).
3. A Spark task for each log merges its pieces into files of the table (ingest_table.py).
4. The files become part of the table, and their inputs of the ledger, at once (ingest_commit.py).

The driver sees names and counts of inputs, logs and files, never an event.  What is read is either
taken or set aside, and that is added up; what is taken is what the files hold, and that is counted.

Segments that come later are added in files of their own: rows are sorted by position within a file,
and files of a node may overlap when positions come late.  Readers sort.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from thence.errors import UnusableInputError
from thence.pipeline.importers import text_importer
from thence.pipeline.ingest_commit import Entry, open_table, read_ledger, recover, stage
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_intake import LISTED_MAX, Aside, Line
from thence.pipeline.ingest_pieces import Piece
from thence.pipeline.ingest_read import (
    TRACE,
    How,
    ReadTask,
    SourceResult,
    Unit,
    UnitResult,
    read_unit,
)
from thence.pipeline.ingest_sources import Found, find_inputs, notes_on, sort_out
from thence.pipeline.ingest_table import Added, Addition, add_to_table, check_homes, new_infos
from thence.pipeline.tasks import Progress, R, Runner, S, spark_runner
from thence.trace.files import join
from thence.trace.reader import INFO_FILE, TABLE_INFO_FILE
from thence.trace.record import RunInfo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class IngestReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one ingest did; lines are counted as read = taken + quarantined."""

    segments: int = 0
    """Inputs that were taken now."""
    segments_there: int = 0
    """Inputs that the table already had."""
    segments_copied: int = 0
    """Inputs with the bytes of another one that was taken: passed over."""
    unreadable: int = 0
    """Files that cannot be read to their end; they will be tried again."""
    read: int = 0
    """Lines, or rows, or what an importer found; in the inputs taken now."""
    taken: int = 0
    quarantined: int = 0
    quarantined_before: int = 0
    """Lines of the inputs named that an earlier ingest set aside."""
    events: int = 0
    """Rows that the events table gained."""
    runs: tuple[str, ...] = ()
    """The runs that gained events."""
    nodes: int = 0
    """Logs that gained events."""
    files: int = 0
    """Files that the events table gained."""
    listed: tuple[Line, ...] = ()
    """The first of what was set aside; the quarantine table has all."""
    remarks: tuple[Line, ...] = ()
    """The first oddities of what an importer took."""
    remarks_count: int = 0
    notes: tuple[str, ...] = ()
    """A sentence on each thing that is taken and that a check would object to, or take for granted:
    a complete run that lacks the log of a member, a folder without ``run.json``."""

    @property
    def ok(self) -> bool:
        """Whether nothing of the inputs named is set aside."""
        return not (self.quarantined or self.quarantined_before or self.unreadable)


Spark: TypeAlias = "SparkSession | Callable[[], SparkSession] | None"


def ingest(
    spark: Spark,
    paths: Sequence[str | os.PathLike[str]],
    root: str | os.PathLike[str],
    *,
    importer: str = TRACE,
    settings: Mapping[str, str] | None = None,
    run: str | None = None,
    progress: Progress | None = None,
) -> IngestReport:
    """Take what is below ``paths`` and not yet in the table folder ``root`` into it.

    Without an importer the paths are as for ``thence check``.  With one they are files, or folders
    of files, each of them a run called after it; with ``run`` they are read as one text, and that
    is the name of the run.  ``settings`` are the importer's.

    ``spark`` may be a function that makes a session, called when there is something to do.
    Without one the same work is done in this process.

    UnusableInputError when a path has nothing, when an input has changed since it was taken, when
    two folders hold the log of a node in one run, or when another ingest is writing.
    """
    how = How(importer, dict(settings or {}), run)
    if importer != TRACE:
        text_importer(importer).check(how.settings)
    elif run is not None:
        raise UnusableInputError("a trace names its run itself: no other name can be given")
    files = TableFiles(root)
    found = find_inputs(paths, files, how)
    files.make_root()
    with files.alone():
        open_table(files)
        recover(files)
        return _Ingest(runner_for(spark, progress), files, how, found).run()


def runner_for(spark: Spark, progress: Progress | None) -> Runner:
    """What runs the tasks: Spark, or this process."""

    def run(
        what: str, work: Callable[[S], R], specs: Sequence[S], result: type[R],
        weights: Sequence[int] | None = None,
    ) -> list[R]:  # fmt: skip
        if spark is not None and specs:
            session = spark() if callable(spark) else spark
            return spark_runner(session, progress)(what, work, specs, result, weights)
        results = []
        for done, spec in enumerate(specs):
            if progress is not None:
                progress(what, done, len(specs))
            results.append(work(spec))
        return results

    return run


class _Ingest:
    """One ingest into a table that nobody else is writing."""

    def __init__(self, runner: Runner, files: TableFiles, how: How, found: Found) -> None:
        self._runner = runner
        self._files = files
        self._how = how
        self._found = found
        self._ledger = read_ledger(files)

    def run(self) -> IngestReport:
        todo, there = sort_out(self._found, self._ledger, self._how)
        folder = stage(self._files) if todo or self._found.faults else ""
        try:
            results = self._read(folder, todo)
            there += [result.unit for result in results if result.same]
            fresh, copied = self._without_copies([each for each in results if not each.same])
            taken = [each for each in fresh if not each.sources[0].unreadable]
            check_homes(self._ledger.values(), _pieces_of(taken))
        except Exception:
            if folder:
                self._files.remove_folder(folder)  # else the next ingest does it
            raise
        entries = self._entries(taken, copied)
        added = self._add(folder, fresh, taken, entries)
        report = self._report(there, fresh, taken, copied, added)
        notes = notes_on(self._found, [*self._ledger.values(), *entries])
        return msgspec.structs.replace(report, notes=tuple(notes))

    def _read(self, folder: str, todo: Sequence[Unit]) -> list[UnitResult]:
        tasks = [ReadTask(self._files.root, folder, self._how, unit) for unit in todo]
        sizes = [sum(source.size for source in unit.sources) for unit in todo]
        results = self._runner("reading segments", read_unit, tasks, UnitResult, sizes)
        changed = [result.changed for result in results if result.changed is not None]
        if changed:
            more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
            raise UnusableInputError(
                f"{changed[0]}{more} has changed since it was ingested, and nothing was taken: "
                "put the old file back, or ingest into a new folder"
            )
        for result in results:
            for source in result.sources:
                _check_counts(source)
        return results

    def _without_copies(
        self, results: Sequence[UnitResult]
    ) -> tuple[list[UnitResult], list[tuple[UnitResult, str]]]:
        """(units whose bytes are new, units whose bytes were taken with the path they have)."""
        how = self._how.text()
        known = {e.digest: e.segment for e in self._ledger.values() if e.how == how}
        fresh, copied = [], []
        for result in results:
            digests = [source.digest for source in result.sources if not source.unreadable]
            if digests and all(digest in known for digest in digests):
                copied.append((result, known[digests[0]]))
                continue
            fresh.append(result)
            known.update((source.digest, source.source.path) for source in result.sources)
        return fresh, copied

    def _add(
        self,
        folder: str,
        fresh: Sequence[UnitResult],
        taken: Sequence[UnitResult],
        entries: Sequence[Entry],
    ) -> Added:
        infos: dict[str, tuple[RunInfo, ...]] = {
            home: (info,) for home, info in self._found.infos.items()
        }
        infos |= {result.unit.home: result.infos for result in taken if result.infos}
        infos = new_infos(self._files, infos)
        if not (fresh or entries or infos or self._found.faults):
            if folder:
                self._files.remove_folder(folder)
            return Added((), 0, 0, 0)
        folder = folder or stage(self._files)
        addition = Addition(
            folder=folder,
            pieces=[piece for _, piece in _pieces_of(taken)],
            entries=entries,
            infos=infos,
            asides=self._asides(folder, fresh),
        )
        return add_to_table(self._runner, self._files, addition)

    def _entries(
        self, taken: Sequence[UnitResult], copied: Sequence[tuple[UnitResult, str]]
    ) -> list[Entry]:
        """What the ledger gains."""
        entries = [self._entry(each, at) for each in taken for at in range(len(each.sources))]
        return entries + [
            self._entry(each, at, copy_of) for each, copy_of in copied
            for at in range(len(each.sources))
        ]  # fmt: skip

    def _entry(self, result: UnitResult, at: int, copy_of: str | None = None) -> Entry:
        each = result.sources[at]
        copied = copy_of is not None
        # The logs of a text belong to all of its files; they are noted with the first.
        logs = {(p.run, p.node) for p in result.pieces} if at == 0 and not copied else ()
        return Entry(
            segment=each.source.path,
            size=each.source.size,
            mtime_ns=each.source.mtime_ns,
            digest=each.digest,
            how=self._how.text(),
            home=result.unit.home,
            copy_of=copy_of,
            read=0 if copied else each.read,
            taken=0 if copied else each.taken,
            quarantined=0 if copied else each.quarantined,
            logs=tuple(sorted(logs)),
        )

    def _asides(self, folder: str, fresh: Sequence[UnitResult]) -> dict[str, str | None]:
        asides: dict[str, str | None] = {}
        for home in self._found.infos:
            asides |= {join(home, name): None for name in (INFO_FILE, TABLE_INFO_FILE)}
        asides |= {each.source.path: each.aside for result in fresh for each in result.sources}
        for number, fault in enumerate(self._found.faults):
            aside = Aside(self._files, f"{folder}/aside/info-{number}.parquet", fault.file)
            aside.add(fault.line, fault.reason, None)
            asides[fault.file] = aside.close()
        return asides

    def _report(
        self,
        there: Sequence[Unit],
        fresh: Sequence[UnitResult],
        taken: Sequence[UnitResult],
        copied: Sequence[tuple[UnitResult, str]],
        added: Added,
    ) -> IngestReport:
        sources = [source for result in taken for source in result.sources]
        named = [source.path for unit in there for source in unit.sources]
        faults = self._found.faults
        listed = [*faults, *(line for r in fresh for s in r.sources for line in s.listed)]
        remarks = [line for result in taken for line in result.remarks]
        return IngestReport(
            segments=len(sources),
            segments_there=len(named),
            segments_copied=sum(len(result.sources) for result, _ in copied),
            unreadable=sum(s.unreadable for r in fresh for s in r.sources) + len(faults),
            read=sum(source.read for source in sources),
            taken=sum(source.taken for source in sources),
            quarantined=sum(source.quarantined for source in sources),
            quarantined_before=sum(self._ledger[path].quarantined for path in named),
            events=added.rows,
            runs=added.runs,
            nodes=added.nodes,
            files=added.files,
            listed=tuple(listed[:LISTED_MAX]),
            remarks=tuple(remarks[:LISTED_MAX]),
            remarks_count=sum(result.remarks_count for result in taken),
        )


def _pieces_of(results: Sequence[UnitResult]) -> list[tuple[str, Piece]]:
    return [(result.unit.home, piece) for result in results for piece in result.pieces]


def _check_counts(result: SourceResult) -> None:
    if not result.unreadable and result.read != result.taken + result.quarantined:
        raise RuntimeError(
            f"{result.source.path}: {result.read} read, {result.taken} taken, "
            f"{result.quarantined} set aside: nothing was committed"
        )
