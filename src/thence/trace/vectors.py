"""The causal past of every message, as version vectors.

``vectors[o, d]`` is the id of the latest dot of origin o in the past of d, d itself included.
By definition (docs/reference/trace.md) the past of a send holds everything its sender had sent or
delivered before it, everything in the past of those, and the earlier messages of its own origin.

On a log that breaks no delivery rule the sender's own per-origin delivered counts are exactly
that vector, so nothing is replayed: ``local_vectors`` copies the frontiers the index has found.
That it was exact is proved afterwards by the rule deliver-early finding nothing.  When it does
find something the least solution is computed by ``close_vectors``: vectors flow through
deliveries until nothing changes, first by a replay in causal order (one pass is enough unless
logs contradict each other), then by whole-log passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thence.trace.columns import Ints
from thence.trace.index import NodeIndex, Run
from thence.trace.numbering import Numbering
from thence.trace.replay import replay


def empty_vectors(numbering: Numbering) -> Ints:
    """Nothing known: each dot has only itself in its past."""
    vectors = np.empty((len(numbering.names), numbering.total), np.int32)
    vectors[:] = numbering.base[:-1, None]
    _own_entries(vectors, numbering)
    return vectors


def _own_entries(vectors: Ints, numbering: Numbering) -> None:
    for origin in range(len(numbering.names)):
        some = numbering.messages(origin)
        vectors[origin, some] = np.arange(some.start, some.stop)


def local_vectors(run: Run, indices: Sequence[NodeIndex]) -> tuple[Ints, bool]:
    """Vectors by what each sender itself had sent and delivered, and whether they may be exact.

    They are when the second is True and then no delivery is early.
    """
    vectors = empty_vectors(run.numbering)
    if not run.causal:
        return vectors, True
    in_order = not bool(run.numbering.is_stream.any())  # a stream lacks its sender's past
    for index in indices:
        ids = index.mark_id[index.mark_is_send]
        if not len(ids):
            continue
        frontier = index.frontier[:, index.mark_is_send]
        some = run.numbering.messages(index.node)
        dense = len(ids) == some.stop - some.start and bool((np.diff(ids) == 1).all())
        in_order &= dense
        # A slice when the log is in order: a plain copy, several times faster.
        where: slice | Ints = some if dense else ids
        for origin in range(len(frontier)):
            if origin != index.node:
                vectors[origin, where] = frontier[origin]
    return vectors, in_order


def _rise_along_origins(vectors: Ints, numbering: Numbering) -> None:
    """Give each dot the past of the earlier dots of its origin."""
    for origin in range(len(numbering.names)):
        part = vectors[:, numbering.messages(origin)]
        np.maximum.accumulate(part, axis=1, out=part)


def close_vectors(run: Run, indices: Sequence[NodeIndex], vectors: Ints) -> None:
    """Raise ``vectors`` in place to the least solution of the definition."""
    _send_once(run, indices, vectors)
    replay(run, indices, vectors)
    while _send_once(run, indices, vectors):
        pass
    # Contradictory logs can put a dot before itself; what it has of its own origin ends with it.
    _own_entries(vectors, run.numbering)


def _send_once(run: Run, indices: Sequence[NodeIndex], vectors: Ints) -> bool:
    """Let every vector flow once through every delivery; whether anything changed."""
    _rise_along_origins(vectors, run.numbering)
    changed = False
    for index in indices:
        changed |= _through_log(index, vectors)
        changed |= _through_streams(run, index, vectors)
    return changed


def _through_log(index: NodeIndex, vectors: Ints) -> bool:
    """What a node had taken before each of its sends is in the past of that send."""
    at = np.concatenate([index.send_at, index.deliver_at])
    order = np.argsort(at, kind="stable")
    ids = np.concatenate([index.send_id, index.deliver_id])[order]
    known = vectors[:, ids]
    np.maximum.accumulate(known, axis=1, out=known)
    sent_at = index.mark_at[index.mark_is_send]
    sent = index.mark_id[index.mark_is_send]
    new = known[:, np.searchsorted(at[order], sent_at)]
    changed = bool((new > vectors[:, sent]).any())
    vectors[:, sent] = np.maximum(new, vectors[:, sent])
    return changed


def _through_streams(run: Run, index: NodeIndex, vectors: Ints) -> bool:
    """The past of a send on a stream is what its logged context says."""
    changed = False
    for row, dot in stream_sends(run, index):
        named = context_of(run, row)
        if len(named):
            new = np.maximum(vectors[:, named].max(axis=1), vectors[:, dot])
            changed |= bool((new > vectors[:, dot]).any())
            vectors[:, dot] = new
    return changed


def stream_sends(run: Run, index: NodeIndex) -> list[tuple[int, int]]:
    """(row, id) of the sends on streams other than the default one."""
    origin = run.columns.dot_node[index.first_row + index.send_at]
    on_stream = run.numbering.is_stream[origin]
    rows = index.first_row + index.send_at[on_stream]
    return list(zip(rows.tolist(), index.send_id[on_stream].tolist(), strict=True))


def context_of(run: Run, row: int) -> Ints:
    """The ids in the context of one row."""
    start = run.columns.context_start
    return run.numbering.context_ids[int(start[row]) : int(start[row + 1])]


def context_entries(run: Run, rows: Ints) -> tuple[Ints, Ints]:
    """(index into ``rows``, index of the entry) of every dot in the contexts of ``rows``."""
    start = run.columns.context_start
    begin, count = start[rows], start[rows + 1] - start[rows]
    mark = np.repeat(np.arange(len(rows)), count)
    first = np.repeat(begin - (np.cumsum(count) - count), count)
    return mark, np.arange(len(mark)) + first


def context_vectors(run: Run, vectors: Ints, rows: Ints) -> Ints:
    """[origin, row]: the latest dot of each origin in the past of the contexts of ``rows``."""
    joined = np.empty((len(vectors), len(rows)), np.int32)
    joined[:] = run.numbering.base[:-1, None]
    which, entry = context_entries(run, rows)
    if len(entry):
        named = run.numbering.context_ids[entry]
        starts = np.flatnonzero(np.diff(which, prepend=-1))
        joined[:, which[starts]] = np.maximum.reduceat(vectors[:, named], starts, axis=1)
    return joined


def first_at_or_after(run: Run, vectors: Ints) -> dict[int, Ints]:
    """By member: by id, that member's first message with the dot in its past (or the dot itself).

    "One past the end" of the member when there is none.  Vectors only grow along an origin, so
    the first is found by bisection.
    """
    numbering = run.numbering
    firsts: dict[int, Ints] = {}
    for member in run.members:
        own = numbering.messages(member)
        first = np.full(numbering.total, own.stop, np.int32)
        for origin in range(len(numbering.names)):
            some = numbering.messages(origin)
            ids = np.arange(some.start, some.stop, dtype=np.int32)
            if origin != member:
                ids = own.start + np.searchsorted(vectors[origin, own], ids)
            first[some] = ids
        firsts[member] = first
    return firsts
