"""Which file holds which log, and decoding what is not one log in Parquet.

A *piece* holds records of one node in one run: a Parquet segment as it is, some row groups of one,
or a decoded part kept on the shelf.  The pieces of a log in order give the same records in the same
order as reading its files one after the other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from thence.pipeline.causality.shelf import load, save
from thence.trace.columns import Change, Part, take_rows
from thence.trace.files import join, name_of, random_access
from thence.trace.parquet import read_parquet
from thence.trace.reader import read_segment
from thence.trace.segments import Quarantine, Quarantined
from thence.trace.tables import REQUIRED_COLUMNS

KEPT_ENDING: Final = ".part"
_ARRAYS: Final = (
    "run", "node", "pos", "kind", "dot_node", "dot_seq", "context_start", "context_node",
    "context_seq",
)  # fmt: skip


class Piece(msgspec.Struct, frozen=True):
    """Records of one node in one run."""

    path: str
    run: str
    node: str
    rows: int
    groups: tuple[int, ...] | None = None
    """Row groups of a Parquet file; None: all of it."""
    number: int = 0
    """Of the file it comes from, in the order of reading."""


class Surveyed(msgspec.Struct, frozen=True):
    """What one file holds."""

    pieces: tuple[Piece, ...]
    group_rows: tuple[int, ...] = ()
    """Rows of each row group, of a file that is one piece."""
    quarantined: int = 0
    listed: tuple[Quarantined, ...] = ()


class FileSpec(msgspec.Struct, frozen=True):
    """A file to be looked at."""

    number: int
    path: str
    work: str


def survey_file(spec: FileSpec) -> Surveyed:
    """Find out whose records a file holds; decode it when that is more than one log's."""
    if name_of(spec.path).endswith(".parquet"):
        found = _one_log(spec.path, spec.number)
        if found is not None:
            return found
    quarantine = Quarantine()
    part = read_segment(spec.path, quarantine)
    pieces = () if part is None else _keep(part, spec.work, str(spec.number), spec.number)
    return Surveyed(tuple(pieces), (), quarantine.count, tuple(quarantine.listed))


def _one_log(path: str, number: int) -> Surveyed | None:
    """A Parquet file of one log, if its footer says that it is one."""
    try:
        with pq.ParquetFile(random_access(path)) as file:
            footer = file.metadata
            names = file.schema_arrow.names
            if not set(REQUIRED_COLUMNS) <= set(names) or not footer.num_rows:
                return None
            run, node = _only_value(footer, "run"), _only_value(footer, "node")
            sizes = tuple(footer.row_group(at).num_rows for at in range(footer.num_row_groups))
    except (pa.ArrowException, OSError, ValueError):
        return None
    if run is None or node is None:
        return None
    return Surveyed((Piece(path, run, node, sum(sizes), number=number),), sizes)


def _only_value(footer: pq.FileMetaData, column: str) -> str | None:
    """The one value of a text column, if the statistics say that there is one.

    They pass over nulls, and so does everyone: such rows are set aside wherever they are read.
    """
    values: set[object] = set()
    for at in range(footer.num_row_groups):
        group = footer.row_group(at)
        places = [k for k in range(group.num_columns) if group.column(k).path_in_schema == column]
        stats = group.column(places[0]).statistics if places else None
        if stats is None or not stats.has_min_max:
            return None
        values |= {stats.min, stats.max}
    value = values.pop() if len(values) == 1 else None
    return value if isinstance(value, str) else None


class DecodeSpec(msgspec.Struct, frozen=True):
    """A piece of a long log to be decoded on its own."""

    number: int
    piece: Piece
    work: str


def decode_piece(spec: DecodeSpec) -> Surveyed:
    """Read one piece and keep it decoded, so that whoever puts the log together has less to do."""
    quarantine = Quarantine()
    part = read_piece(spec.piece, quarantine)
    stem, file = f"long-{spec.number}", spec.piece.number
    kept = () if part is None else _keep(part, spec.work, stem, file)
    return Surveyed(tuple(kept), (), quarantine.count, tuple(quarantine.listed))


def read_piece(piece: Piece, quarantine: Quarantine) -> Part | None:
    """The good records of a piece."""
    if piece.path.endswith(KEPT_ENDING):
        return load_part(piece.path)
    if piece.groups is not None:
        return read_parquet(piece.path, quarantine, piece.groups)
    return read_segment(piece.path, quarantine)


def read_pieces(pieces: Sequence[Piece], quarantine: Quarantine) -> list[Part]:
    """The good records of several pieces."""
    parts = (read_piece(piece, quarantine) for piece in pieces)
    return [part for part in parts if part is not None]


def _keep(part: Part, work: str, stem: str, file: int) -> list[Piece]:
    """Keep a part of a file of this number, one file for each log in it."""
    pieces = []
    many = len(part.names) + 1
    owner = part.run.astype(np.int64) * many + part.node
    for number, key in enumerate(np.unique(owner).tolist()):
        rows = np.flatnonzero(owner == key)
        mine = part if len(rows) == len(owner) else take_rows(part, rows)
        path = join(work, f"{stem}-{number}{KEPT_ENDING}")
        save_part(path, mine)
        run, node = part.names[key // many], part.names[key % many]
        pieces.append(Piece(path, run, node, len(rows), number=file))
    return pieces


class _Rest(msgspec.Struct):
    """What of a part is not an array."""

    names: list[str]
    to: dict[int, tuple[int, ...]]
    changes: dict[int, Change]


def save_part(path: str, part: Part) -> None:
    """Keep a part on the shelf."""
    rest = _Rest(list(part.names), part.to, part.changes)
    save(path, msgspec.msgpack.encode(rest), {name: getattr(part, name) for name in _ARRAYS})


def load_part(path: str) -> Part:
    """What ``save_part`` kept."""
    meta, arrays = load(path)
    rest = msgspec.msgpack.decode(meta, type=_Rest)
    return Part(names=rest.names, to=rest.to, changes=rest.changes, **arrays)
