"""From the pieces that reading left to the events table: the second half of an ingest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import pyarrow.parquet as pq

from thence.errors import UnusableInputError
from thence.pipeline.ingest_commit import Entry, Plan, commit, stage_ledger
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_intake import aside_name
from thence.pipeline.ingest_pieces import Piece, write_log
from thence.pipeline.tables import EVENTS, INFOS, QUARANTINE, log_stem, run_folder
from thence.pipeline.tasks import Runner
from thence.trace.reader import TABLE_INFO_FILE
from thence.trace.record import RunInfo, info_to_json

Log = tuple[str, str]
"""(run, node)"""


class WriteTask(msgspec.Struct, frozen=True):
    """One log to be written into a staging folder."""

    root: str
    folder: str
    number: int
    pieces: tuple[Piece, ...]


class WriteResult(msgspec.Struct, frozen=True):
    """The files of one log: (staged name, rows)."""

    run: str
    node: str
    files: tuple[tuple[str, int], ...]


class HomeInfos(msgspec.Struct, frozen=True):
    """What one home says of its runs; a file in ``_infos``."""

    home: str
    infos: tuple[RunInfo, ...]


class Addition(msgspec.Struct, frozen=True):
    """What an ingest adds to a table, staged in ``folder``."""

    folder: str
    pieces: Sequence[Piece]
    entries: Sequence[Entry]
    infos: Mapping[str, tuple[RunInfo, ...]]
    """By home; only homes whose infos are to be kept."""
    asides: Mapping[str, str | None]
    """Input path to its staged quarantine file; None: nothing is set aside of it any more."""


class Added(msgspec.Struct, frozen=True):
    """What was added."""

    runs: tuple[str, ...]
    nodes: int
    rows: int
    files: int


def write_log_of(task: WriteTask) -> WriteResult:
    """The writing task: merge the pieces of one log, and count what the files hold."""
    files = TableFiles(task.root)
    first = task.pieces[0]
    written = []
    for name, _ in write_log(files, f"{task.folder}/logs/{task.number}", task.pieces):
        with files.open_input(name) as source:
            written.append((name, pq.ParquetFile(source).metadata.num_rows))
    return WriteResult(first.run, first.node, tuple(written))


def add_to_table(runner: Runner, files: TableFiles, add: Addition) -> Added:
    """Write the logs and commit; RuntimeError when a row got lost, which would be a bug."""
    logs: dict[Log, list[Piece]] = {}
    for piece in add.pieces:
        logs.setdefault((piece.run, piece.node), []).append(piece)
    tasks = [
        WriteTask(files.root, add.folder, number, tuple(logs[log]))
        for number, log in enumerate(sorted(logs))
    ]
    weights = [sum(piece.rows for piece in task.pieces) for task in tasks]
    results = runner("writing logs", write_log_of, tasks, WriteResult, weights)
    rows = sum(count for result in results for _, count in result.files)
    expected = sum(weights)
    if rows != expected:
        raise RuntimeError(f"{expected} events were read and {rows} written: nothing was committed")
    runs = tuple(sorted({run for run, _ in logs}))
    commit(files, add.folder, _plan(files, add, results, runs))
    return Added(runs, len(logs), rows, sum(len(result.files) for result in results))


def _plan(
    files: TableFiles, add: Addition, results: Sequence[WriteResult], runs: tuple[str, ...]
) -> Plan:
    moves = list(_event_moves(files, results))
    quarantine = set(files.names(QUARANTINE))
    removals = []
    for path, staged in add.asides.items():
        name = aside_name(path)
        if staged is not None:
            moves.append((staged, f"{QUARANTINE}/{name}"))
        elif name in quarantine:
            removals.append(f"{QUARANTINE}/{name}")
    ledger = stage_ledger(files, add.folder, add.entries) if add.entries else None
    return Plan(
        folders=tuple(f"{EVENTS}/{run_folder(run)}" for run in runs),
        moves=tuple(moves),
        writes=tuple(_info_writes(files, add.infos, runs)),
        removals=tuple(removals),
        ledger=ledger,
    )


def _event_moves(files: TableFiles, results: Iterable[WriteResult]) -> Iterable[tuple[str, str]]:
    """Each staged file and its place: numbers go on after the files the node already has."""
    there: dict[str, list[str]] = {}
    for result in results:
        folder = f"{EVENTS}/{run_folder(result.run)}"
        if folder not in there:
            there[folder] = files.names(folder)
        stem = log_stem(result.node)
        pattern = re.compile(rf"{re.escape(stem)}-(\d+)\.parquet")
        numbers = [int(found[1]) for name in there[folder] if (found := pattern.fullmatch(name))]
        first = max(numbers, default=-1) + 1
        for number, (name, _) in enumerate(result.files, first):
            yield name, f"{folder}/{stem}-{number:06d}.parquet"


def infos_name(home: str) -> str:
    """The file of what one home says of its runs."""
    return f"{INFOS}/{hashlib.sha256(home.encode()).hexdigest()[:32]}.json"


def read_infos(files: TableFiles) -> dict[str, tuple[RunInfo, ...]]:
    """What every home said of its runs when it was last taken from."""
    found = {}
    for name in files.names(INFOS):
        if not name.startswith("."):
            kept = msgspec.json.decode(files.read(f"{INFOS}/{name}"), type=HomeInfos)
            found[kept.home] = kept.infos
    return dict(sorted(found.items()))


def new_infos(
    files: TableFiles, infos: Mapping[str, tuple[RunInfo, ...]]
) -> dict[str, tuple[RunInfo, ...]]:
    """Those that say something else than what is kept."""
    kept = read_infos(files)
    return {home: said for home, said in infos.items() if kept.get(home) != said}


def _info_writes(
    files: TableFiles, infos: Mapping[str, tuple[RunInfo, ...]], runs: tuple[str, ...]
) -> Iterable[tuple[str, str]]:
    """The files of ``_infos`` and ``_run.json`` that change."""
    for home, said in infos.items():
        yield infos_name(home), msgspec.json.encode(HomeInfos(home, said)).decode()
    kept = dict(sorted({**read_infos(files), **infos}.items()))
    by_run: dict[str, list[RunInfo]] = {}
    for said in kept.values():
        for info in said:
            by_run.setdefault(info.run, []).append(info)
    there = {*files.names(EVENTS), *(run_folder(run) for run in runs)}
    told = {info.run for said in infos.values() for info in said}
    for run in sorted(told.union(runs)):
        if run in by_run and run_folder(run) in there:
            name = f"{EVENTS}/{run_folder(run)}/{TABLE_INFO_FILE}"
            yield name, info_to_json(_merged(by_run[run])).decode()


def _merged(infos: Sequence[RunInfo]) -> RunInfo:
    """What the folders of one run say together: complete when all of them say so."""
    return msgspec.structs.replace(infos[0], complete=all(info.complete for info in infos))


def check_homes(entries: Iterable[Entry], pieces: Iterable[tuple[str, Piece]]) -> None:
    """UnusableInputError when the log of a node would come from two homes: two runs of one name."""
    homes = {log: entry.home for entry in entries for log in entry.logs}
    for home, piece in pieces:
        other = homes.setdefault((piece.run, piece.node), home)
        if other != home:
            raise UnusableInputError(
                f"{other} and {home} both hold a log of {piece.node} in the run {piece.run}: "
                "ingest them into different folders"
            )
