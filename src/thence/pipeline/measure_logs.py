"""A run measured log by log: what one task does in each of the stages.

1. ``decode_file``: the records of one file, by log, as arrays on the shelf (causality/shelf.py).
2. ``read_log``: the index and the vectors of one log, by the scan of the check, and when its node
   sent its messages.
3. ``prove_log``: whether the vectors are exact; if not, they are closed in rounds as for the check.
4. ``measure_log``: the digest of one log, with the vectors and send times of the others.
5. ``measure_whole``: the digest of the run, from those of its logs.

A task holds one log, and the vectors and send times of its run; never the records of two logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import numpy as np

from thence.pipeline.causality.judge import _shared as shared_run  # the run, as judges share it
from thence.pipeline.causality.judge import is_exact
from thence.pipeline.causality.kept import Rebase, load_index
from thence.pipeline.causality.pieces import KEPT_ENDING, Piece, Surveyed, load_part, save_part
from thence.pipeline.causality.scan import Scanned, ScanSpec, index_path, scan_log
from thence.pipeline.causality.shelf import load, save
from thence.pipeline.cpu_times import CpuTimes, cpu_notes, cpu_times
from thence.pipeline.digest import load_log, save_log, save_run
from thence.pipeline.latency import send_times
from thence.pipeline.log import log_of
from thence.pipeline.measure_rows import (
    OF_LOG,
    OF_RUN,
    Asked,
    Shares,
    Times,
    digest_log,
    digest_run,
    times_of,
)
from thence.pipeline.measure_run import Parts
from thence.trace.check import early_in
from thence.trace.columns import ABSENT, Columns, Ints, Part, gather_runs, logs_in
from thence.trace.files import join, name_of, parent
from thence.trace.numbering import numbering_of
from thence.trace.reader import read_segment
from thence.trace.segments import Quarantine

# Stage 1.


class DecodeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One file to be decoded."""

    path: str
    work: str
    stem: str


def decode_file(spec: DecodeSpec) -> Surveyed:
    """Keep the good records of one file, each log's for itself."""
    quarantine = Quarantine()
    part = read_segment(spec.path, quarantine, measured=True)
    pieces = () if part is None else tuple(_keep(part, spec))
    return Surveyed(pieces, (), quarantine.count, tuple(quarantine.listed))


def _keep(part: Part, spec: DecodeSpec) -> Iterator[Piece]:
    for number, (run, node, log) in enumerate(logs_in(part)):
        path = join(spec.work, f"{spec.stem}-{number}{KEPT_ENDING}")
        save_part(path, log)
        if log.measured is not None:
            save(_clocks_path(path), b"", {"measured": log.measured})
        yield Piece(path, run, node, len(log.node))


def _clocks_path(path: str) -> str:
    """Where the clocks and sizes of a kept part are."""
    return join(parent(path), f"{name_of(path)}.clocks")


def _columns_of(pieces: Sequence[Piece]) -> Columns:
    """The records of one log as the scan has them, with clocks and sizes."""
    parts = []
    for piece in pieces:
        _, clocks = load(_clocks_path(piece.path))
        parts.append(msgspec.structs.replace(load_part(piece.path), **clocks))
    return gather_runs(parts)[0]


# Stage 2.


class LogRead(msgspec.Struct, frozen=True, kw_only=True):
    """What the driver learns of a log."""

    scanned: Scanned
    times: Times


def read_log(spec: ScanSpec) -> LogRead:
    """Scan one log, and keep when its node sent its messages."""
    scanned = scan_log(spec)
    if scanned.has_holes:
        return LogRead(scanned=scanned, times=Times(of_all=None, of_messages=None))
    counts = np.array(scanned.counts, np.int64)
    own = numbering_of(spec.run, scanned.names, counts, {}, scanned.bystanders)
    index = load_index(index_path(spec.work, spec.stem), own, own)
    columns = _columns_of(spec.pieces)
    log = log_of(columns, slice(0, len(columns)), columns.dot_node, own, index)
    ids = np.concatenate([life.send_id for life in index.lives])
    sent = send_times(own.total, [log])[ids]
    save(_sent_path(spec.work, spec.stem), b"", {"id": ids, "t_us": sent})
    return LogRead(scanned=scanned, times=times_of(log))


def _sent_path(work: str, stem: str) -> str:
    return join(work, f"{stem}.sent")


# Stage 3.


class ProveSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One log of a run whose vectors may be exact."""

    header: str
    log: int


class Proved(msgspec.Struct, frozen=True, kw_only=True):
    """Whether they are, as far as this log goes."""

    exact: bool


def prove_log(spec: ProveSpec) -> Proved:
    """Whether the vectors of the scan are those of the run: no delivery here is early."""
    shared = shared_run(spec.header, 0)
    if not shared.run.causal:
        return Proved(exact=True)  # a message has only its own origin in its past
    if not is_exact(shared.header):
        return Proved(exact=False)
    _, exact = early_in(shared.run, shared.log(spec.log), shared.vectors)
    return Proved(exact=exact)


# Stages 4 and 5.


class LogSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One log to be measured."""

    header: str
    round: int
    """Of closing vectors; 0 when those of the scan are exact."""
    log: int
    pieces: tuple[Piece, ...]
    times: Times
    shares: Shares
    cpu_folders: tuple[str, ...]
    """Where the CPU times of the run may be."""
    folder: str
    stem: str
    asked: Asked


class Done(msgspec.Struct, frozen=True):
    """What is to be told of it."""

    notes: tuple[str, ...] = ()


def measure_log(spec: LogSpec) -> Done:
    """Keep the digest of one log, and write its rows if they are asked for."""
    shared = shared_run(spec.header, spec.round)
    numbering = shared.run.numbering
    index = shared.log(spec.log)
    columns = _columns_of(spec.pieces)
    code_of = {name: code for code, name in enumerate(numbering.names)}
    codes = np.array([*(code_of[name] for name in columns.names), -1], np.int32)
    log = log_of(columns, slice(0, len(columns)), codes[columns.dot_node], numbering, index)
    sent_us = _sent_us(spec.header, spec.round)
    cpu = _cpu(spec.header, spec.cpu_folders)
    with Parts(spec.folder, spec.stem, OF_LOG if spec.asked.rows else ()) as parts:
        digest = digest_log(
            shared.facts, log, spec.times, spec.shares, sent_us, cpu, spec.asked, parts.write
        )
    save_log(_digest_path(shared.header.work, shared.header.log_stem(spec.log)), digest)
    return Done()


def _digest_path(work: str, stem: str) -> str:
    return join(work, f"{stem}.digest")


_CPU: Final[dict[str, CpuTimes]] = {}


def _cpu(path: str, folders: Sequence[str]) -> CpuTimes:
    """The CPU times of the run this worker is busy with; ``path`` of its header."""
    if path not in _CPU:
        _CPU.clear()
        _CPU[path] = cpu_times(folders)
    return _CPU[path]


_SENT: Final[dict[str, Ints]] = {}


def _sent_us(path: str, number: int) -> Ints:
    """When each message of the run this worker is busy with was sent; see ``send_times``."""
    if path not in _SENT:
        _SENT.clear()
        shared = shared_run(path, number)
        times = np.full(shared.run.numbering.total, ABSENT, np.int64)
        for log, own in enumerate(shared.own):
            _, sent = load(_sent_path(shared.header.work, shared.header.log_stem(log)))
            times[Rebase(own, shared.run.numbering).ids(sent["id"])] = sent["t_us"]
        _SENT[path] = times
    return _SENT[path]


class WholeSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run whose logs are measured."""

    header: str
    round: int
    times: tuple[Times, ...]
    """By log."""
    cpu_folders: tuple[str, ...]
    folder: str
    stem: str
    digest: str
    """The path of what is to be kept."""
    asked: Asked


def measure_whole(spec: WholeSpec) -> Done:
    """Keep the digest of a run, and write its tables."""
    shared = shared_run(spec.header, spec.round)
    header = shared.header
    paths = [_digest_path(header.work, header.log_stem(log)) for log in range(len(header.logs))]
    logs = [load_log(path) for path in paths]
    with Parts(spec.folder, spec.stem, OF_RUN) as parts:
        digest = digest_run(shared.facts, spec.times, logs, spec.asked, parts.write)
    save_run(spec.digest, digest)
    return Done(tuple(cpu_notes(spec.cpu_folders, [log.about for log in logs])))
