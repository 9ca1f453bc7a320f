"""One log as arrays by row, with the dots of every kind of record numbered."""

from __future__ import annotations

import msgspec
import numpy as np

from thence.errors import LocalProtocolError
from thence.trace.columns import BYTES, T_US, WORDS, Columns, Ints
from thence.trace.numbering import Numbering
from thence.trace.run import LogIndex


class Log(msgspec.Struct, frozen=True, kw_only=True):
    """One log, by row."""

    index: LogIndex
    kind: Ints
    ids: Ints
    """The id of its dot; -1 for a dot that the rules do not know, or none."""
    t_us: Ints
    bytes: Ints
    words: Ints
    context_dots: Ints


def open_log(columns: Columns, numbering: Numbering, index: LogIndex) -> Log:
    """The rows of one log among those of its run, whose columns have the codes of ``numbering``."""
    bounds = np.array([index.node, index.node + 1], columns.node.dtype)
    first, end = np.searchsorted(columns.node, bounds).tolist()
    return log_of(columns, slice(first, end), columns.dot_node[first:end], numbering, index)


def log_of(
    columns: Columns, rows: slice, origin: Ints, numbering: Numbering, index: LogIndex
) -> Log:
    """Some rows of columns as a log, with the dots of every kind of record numbered.

    ``origin``: the codes of ``numbering`` for the names in ``dot_node`` of these rows.
    """
    if columns.measured is None:
        raise LocalProtocolError("these columns were read without clocks and sizes")
    return Log(
        index=index,
        kind=columns.kind[rows],
        ids=_ids_of(numbering, origin, columns.dot_seq[rows]),
        t_us=columns.measured[T_US, rows],
        bytes=columns.measured[BYTES, rows],
        words=columns.measured[WORDS, rows],
        context_dots=np.diff(columns.context_start[rows.start : rows.stop + 1]),
    )


def _ids_of(numbering: Numbering, origin: Ints, seq: Ints) -> Ints:
    rank = np.where(origin >= 0, seq, 0).astype(np.int64)
    for code, known in numbering.ranked.items():
        mine = origin == code
        place = np.searchsorted(known, rank[mine])
        hit = known[np.minimum(place, len(known) - 1)] == rank[mine]
        rank[mine] = np.where(hit, place + 1, 0)
    rank[rank > numbering.count[origin]] = 0
    ids: Ints = np.where(rank > 0, numbering.base[origin] + rank, -1).astype(np.int32)
    return ids
