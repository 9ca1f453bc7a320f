"""Stage 1: read one log, index it, and keep what the others need of it.

Two files for each log: ``index``, which its own judge reads, and ``facts``, which every judge of
the run reads: the vectors of its sends and, by dot, its first message at or after that dot.
"""

from __future__ import annotations

import msgspec
import numpy as np

from thence.pipeline.causality.kept import save_index
from thence.pipeline.causality.pieces import Piece, read_pieces
from thence.pipeline.causality.shelf import save
from thence.trace.columns import gather_runs
from thence.trace.files import join
from thence.trace.index import index_log
from thence.trace.record import RunInfo
from thence.trace.run import LogIndex, Opened, open_run
from thence.trace.segments import Quarantine, Quarantined
from thence.trace.vectors import first_at_or_after, sends_in_order
from thence.trace.views import ChangeRecord


class ScanSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One log to be scanned."""

    run: str
    node: str
    info: RunInfo
    pieces: tuple[Piece, ...]
    run_rows: int
    """Records of the whole run: far higher sequence numbers than that have holes."""
    work: str
    stem: str
    """Of the names of the files to write."""


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver learns of a log: nothing that grows with it."""

    node: str
    stem: str = ""
    """Of the names of the files that keep it."""
    events: int = 0
    names: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()
    """By name: how many dots of it there are."""
    named: int = 0
    """Dots in its contexts."""
    bystanders: tuple[str, ...] = ()
    """The names without a log or a dot here, as far as this log knows."""
    sends: int = 0
    """On the default stream."""
    in_order: bool = True
    """Whether it sent its messages one after the other and never went back."""
    has_holes: bool = False
    """Whether sequence numbers are so far apart that only ranks can stand for them."""
    changes: tuple[ChangeRecord, ...] = ()
    quarantined: int = 0
    listed: tuple[Quarantined, ...] = ()


def index_path(work: str, stem: str) -> str:
    """Where the index of a log is kept."""
    return join(work, f"{stem}.index")


def facts_path(work: str, stem: str) -> str:
    """Where what the others need of a log is kept."""
    return join(work, f"{stem}.facts")


def scan_log(spec: ScanSpec) -> Scanned:
    """Scan one log."""
    quarantine = Quarantine()
    parts = read_pieces(spec.pieces, quarantine)
    found = [columns for columns in gather_runs(parts) if columns.run == spec.run]
    listed = tuple(quarantine.listed)
    if not found:
        return Scanned(node=spec.node, stem=spec.stem, quarantined=quarantine.count, listed=listed)
    columns = found[0]
    opened = open_run(columns, spec.info, spec.run_rows)
    numbering = opened.run.numbering
    log = index_log(opened, opened.nodes[0])
    if not numbering.ranked:
        save_index(index_path(spec.work, spec.stem), log)
        _save_facts(facts_path(spec.work, spec.stem), opened, log)
    return Scanned(
        node=spec.node,
        stem=spec.stem,
        events=log.events,
        names=numbering.names,
        counts=tuple(numbering.count.tolist()),
        named=len(columns.context_node),
        bystanders=numbering.bystanders,
        sends=sum(int(life.mark_is_send.sum()) for life in log.lives),
        in_order=sends_in_order(opened.run, log),
        has_holes=bool(numbering.ranked),
        changes=log.changes,
        quarantined=quarantine.count,
        listed=listed,
    )


def _save_facts(path: str, opened: Opened, log: LogIndex) -> None:
    run = opened.run
    vectors = np.concatenate([life.frontier[:, life.mark_is_send] for life in log.lives], axis=1)
    arrays = {
        "vectors": vectors,
        "vector_id": np.concatenate([life.mark_id[life.mark_is_send] for life in log.lives]),
        "send_id": np.concatenate([life.send_id for life in log.lives]),
    }
    if run.causal and sends_in_order(run, log):
        arrays["firsts"] = first_at_or_after(run, log.node, vectors, slice(0, vectors.shape[1]))
    save(path, msgspec.msgpack.encode((log.node, log.recipients)), arrays)
