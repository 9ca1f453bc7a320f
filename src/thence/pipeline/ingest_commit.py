"""How an ingest becomes visible: all of it or nothing, whenever it is killed.

Everything is written below ROOT/_staging/<id>/ first, which nobody reads.  Then ``plan.json`` says
what has to be moved where.  Its appearance, one rename, is the moment of the commit: an ingest
killed before it leaves a folder that the next one removes, an ingest killed after it leaves a plan
that the next one carries out.  Every step of a plan may be carried out twice.

killed                                   the next ingest finds            and
before plan.json                         staging without a plan           removes it
between plan.json and the last move      a plan, some files not moved     moves the rest
before the ledger is in place            the same, all files moved        moves the ledger
before the staging folder is gone        a plan with nothing left to do   removes it

Between such a kill and the next ingest, readers see some of the new files and not the others; each
of them is whole.  ``_run.json`` is written after the events, so a new run that lacks files counts
as not complete.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from thence.errors import UnusableInputError
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.tables import EVENTS, INFOS, QUARANTINE, SEGMENTS, SEGMENTS_ARROW, STAGING

PLAN_FILE: Final = "plan.json"
LEDGER_FILE: Final = "ledger.parquet"


class Plan(msgspec.Struct, frozen=True):
    """What makes a staged ingest part of the table; names are paths below the table folder."""

    folders: tuple[str, ...]
    moves: tuple[tuple[str, str], ...]
    writes: tuple[tuple[str, str], ...]
    """Small files and their text."""
    removals: tuple[str, ...]
    ledger: tuple[str, str] | None
    """Moved last; None when no input was taken."""


class Entry(msgspec.Struct, frozen=True):
    """One input of the ledger."""

    segment: str
    size: int
    mtime_ns: int
    digest: str
    how: str
    home: str
    copy_of: str | None
    read: int
    taken: int
    quarantined: int
    logs: tuple[tuple[str, str], ...]
    """(run, node) of what was taken."""


def open_table(files: TableFiles) -> None:
    """Make the folders of a table; UnusableInputError for a folder that holds something else."""
    there = files.names()
    foreign = [name for name in there if not name.startswith(("_", ".")) and name != EVENTS]
    if foreign and SEGMENTS not in there:
        raise UnusableInputError(
            f"{files.root} holds other things ({foreign[0]}): name a new folder or a table"
        )
    for name in (EVENTS, QUARANTINE, INFOS, STAGING, SEGMENTS):
        if name not in there:
            files.make_folder(name)


def stage(files: TableFiles) -> str:
    """A new staging folder."""
    folder = f"{STAGING}/{uuid.uuid4().hex}"
    for name in ("pieces", "logs", "aside"):
        files.make_folder(f"{folder}/{name}")
    return folder


def commit(files: TableFiles, folder: str, plan: Plan) -> None:
    """Make what is staged part of the table."""
    files.write(f"{folder}/{PLAN_FILE}", msgspec.json.encode(plan))
    _carry_out(files, folder, plan)


def recover(files: TableFiles) -> None:
    """Finish, or remove, what an ingest left that was killed."""
    for name in files.names(STAGING):
        folder = f"{STAGING}/{name}"
        if files.exists(f"{folder}/{PLAN_FILE}"):
            text = files.read(f"{folder}/{PLAN_FILE}")
            _carry_out(files, folder, msgspec.json.decode(text, type=Plan))
        else:
            files.remove_folder(folder)


def _carry_out(files: TableFiles, folder: str, plan: Plan) -> None:
    for name in plan.folders:
        files.make_folder(name)
    for source, target in plan.moves:
        _move(files, source, target)
    for name, text in plan.writes:
        files.write(name, text.encode())
    for name in plan.removals:
        if files.exists(name):
            files.remove(name)
    if plan.ledger is not None:
        _move(files, *plan.ledger)
    files.remove_folder(folder)


def _move(files: TableFiles, source: str, target: str) -> None:
    """Move a file unless that has been done."""
    if files.exists(source):
        files.move(source, target)
    elif not files.exists(target):
        raise UnusableInputError(
            f"{files.path(target)} is lost: an ingest was killed, and what it had staged in "
            f"{files.path(STAGING)} was removed; ingest into a new folder"
        )


def read_ledger(files: TableFiles) -> dict[str, Entry]:
    """What was taken so far, by the path of the input; the latest entry of each."""
    entries = {}
    for name in files.names(SEGMENTS):
        if name.startswith((".", "_")):
            continue
        with files.open_input(f"{SEGMENTS}/{name}") as source:
            rows = pq.ParquetFile(source).read().to_pylist()
        for row in rows:
            logs = tuple((log["run"], log["node"]) for log in row.pop("logs"))
            entries[row["segment"]] = Entry(**row, logs=logs)
    return entries


def stage_ledger(files: TableFiles, folder: str, entries: Sequence[Entry]) -> tuple[str, str]:
    """Write the ledger of this ingest: where it is staged, and its place in the table."""
    rows: list[dict[str, Any]] = []
    for entry in entries:
        row = {name: getattr(entry, name) for name in SEGMENTS_ARROW.names}
        rows.append(row | {"logs": [{"run": run, "node": node} for run, node in entry.logs]})
    staged = f"{folder}/{LEDGER_FILE}"
    files.write_parquet(staged, pa.Table.from_pylist(rows, schema=SEGMENTS_ARROW))
    number = len([name for name in files.names(SEGMENTS) if name.endswith(".parquet")])
    return staged, f"{SEGMENTS}/{number:06d}.parquet"
