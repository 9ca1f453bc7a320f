"""A DataFrame into the events table: for logs that are in tables of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
import pyarrow as pa

from thence.errors import UnusableInputError
from thence.pipeline.importers.mapping import events_from
from thence.pipeline.ingest import IngestReport
from thence.pipeline.ingest_commit import Entry, open_table, read_ledger, recover, stage
from thence.pipeline.ingest_files import TableFiles
from thence.pipeline.ingest_pieces import Piece, PieceWriter
from thence.pipeline.ingest_rows import conform, fault_of_row, plainly_good
from thence.pipeline.ingest_table import Addition, add_to_table, check_homes, new_infos
from thence.pipeline.tasks import Progress, spark_runner
from thence.trace.record import RunInfo

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOW: Final = "mapping"


class FramePart(msgspec.Struct, frozen=True):
    """What one partition of a frame gave."""

    pieces: tuple[Piece, ...]
    rows: int
    faulty: int
    fault: str | None
    """The first reason."""


def import_frame(
    df: DataFrame,
    mapping: Mapping[str, Any],
    root: str | os.PathLike[str],
    *,
    source: str,
    infos: Sequence[RunInfo] = (),
    progress: Progress | None = None,
) -> IngestReport:
    """Take a frame into the table folder ``root``; ``mapping`` is what ``events_from`` takes.

    ``source`` is its name in the ledger: a source is taken once, and given again it is passed
    over.  ``infos`` say what is known of the runs, as ``run.json`` does; a run without one counts
    as causal and not complete, its members the nodes seen.

    UnusableInputError when rows cannot be events; then nothing is taken.
    """
    files = TableFiles(root)
    files.make_root()
    with files.alone():
        open_table(files)
        recover(files)
        ledger = read_ledger(files)
        segment = f"frame {source}"
        if segment in ledger:
            return IngestReport(segments_there=1)
        parts, folder = _write_pieces(events_from(df, **mapping), files)
        pieces = [piece for part in parts for piece in part.pieces]
        # Positions that were given fit those of other frames, derived ones begin with 0 each time.
        home = "frames" if mapping.get("pos") is not None else segment
        check_homes(ledger.values(), [(home, piece) for piece in pieces])
        rows = sum(part.rows for part in parts)
        entry = Entry(
            segment=segment, size=rows, mtime_ns=0, digest=segment, how=HOW, home=home,
            copy_of=None, read=rows, taken=rows, quarantined=0,
            logs=tuple(sorted({(piece.run, piece.node) for piece in pieces})),
        )  # fmt: skip
        said = new_infos(files, {segment: tuple(infos)} if infos else {})
        addition = Addition(folder=folder, pieces=pieces, entries=[entry], infos=said, asides={})
        added = add_to_table(spark_runner(df.sparkSession, progress), files, addition)
    return IngestReport(
        segments=1, read=rows, taken=rows, events=added.rows, runs=added.runs, nodes=added.nodes,
        files=added.files,
    )  # fmt: skip


def _write_pieces(events: DataFrame, files: TableFiles) -> tuple[list[FramePart], str]:
    """Spark sorts, so that each log is one run of rows in one partition; a task writes it."""
    folder = stage(files)
    ordered = events.repartition("run", "node").sortWithinPartitions("run", "node", "pos")
    rows = ordered.mapInArrow(_writer(files.root, folder), "part BINARY").collect()
    parts = [msgspec.msgpack.decode(bytes(row["part"]), type=FramePart) for row in rows]
    faulty = [part for part in parts if part.faulty]
    if faulty:
        files.remove_folder(folder)
        count = sum(part.faulty for part in faulty)
        raise UnusableInputError(
            f"{count} rows cannot be events, the first of them for this: {faulty[0].fault}"
        )
    return parts, folder


def _writer(
    root: str, folder: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = PieceWriter(TableFiles(root), f"{folder}/pieces", 0)
        faulty, fault = 0, None
        for batch in batches:
            table = conform(pa.Table.from_batches([batch]))
            if plainly_good(table):
                pieces.add_table(table)
                continue
            reasons = [reason for row in table.to_pylist() if (reason := fault_of_row(row))]
            faulty += len(reasons)
            fault = fault or next(iter(reasons), None)
            if not reasons:
                pieces.add_table(table)
        pieces.close()
        part = FramePart(tuple(pieces.pieces), pieces.rows, faulty, fault)
        text = pa.array([msgspec.msgpack.encode(part)], pa.binary())
        yield pa.RecordBatch.from_arrays([text], names=["part"])

    return write
