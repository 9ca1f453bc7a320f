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

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from thence.trace.columns import Ints
from thence.trace.numbering import Numbering
from thence.trace.replay import replay
from thence.trace.run import Contexts, Life, LogIndex, Run

CHUNK_TAKES: Final = 1 << 14  # taken dots at a time when vectors flow through a log


def empty_vectors(numbering: Numbering) -> Ints:
    """Nothing known: each dot has only itself in its past."""
    vectors = np.empty((len(numbering.names), numbering.total), np.int32)
    vectors[:] = numbering.base[:-1, None]
    own_entries(vectors, numbering)
    return vectors


def own_entries(vectors: Ints, numbering: Numbering) -> None:
    """What a dot has of its own origin ends with it."""
    for origin in range(len(numbering.names)):
        some = numbering.messages(origin)
        vectors[origin, some] = np.arange(some.start, some.stop)


def local_vectors(run: Run, logs: Sequence[LogIndex]) -> tuple[Ints, bool]:
    """Vectors by what each sender itself had sent and delivered, and whether they may be exact.

    They are when the second is True and then no delivery is early.
    """
    vectors = empty_vectors(run.numbering)
    if not run.causal:
        return vectors, True
    in_order = not bool(run.numbering.is_stream.any())  # a stream lacks its sender's past
    for log in logs:
        in_order &= sends_in_order(run, log)
        for life in log.lives:
            copy_vectors(run, log.node, life, vectors)
    return vectors, in_order


def sends_in_order(run: Run, log: LogIndex) -> bool:
    """Whether a log sent every message of its node, one after the other, and forgot nothing."""
    ids = np.concatenate([life.mark_id[life.mark_is_send] for life in log.lives])
    some = run.numbering.messages(log.node)
    if len(ids) != some.stop - some.start or not bool((np.diff(ids) == 1).all()):
        return len(ids) == 0
    frontiers = [life.frontier for life in log.lives if life.frontier.shape[1]]
    return all(bool((later[:, 0] >= sooner[:, -1]).all()) for sooner, later in pairwise(frontiers))


def copy_vectors(run: Run, node: int, life: Life, vectors: Ints) -> None:
    """Write the vectors of one life's sends, by what it had taken itself."""
    ids = life.mark_id[life.mark_is_send]
    if not len(ids):
        return
    frontier = life.frontier
    if len(ids) < frontier.shape[1]:
        frontier = frontier[:, life.mark_is_send]
    dense = bool((np.diff(ids) == 1).all())
    # A slice when the log is in order: a plain copy, several times faster.
    where: slice | Ints = slice(int(ids[0]), int(ids[-1]) + 1) if dense else ids
    for origin in range(len(frontier)):
        if origin != node:
            vectors[origin, where] = frontier[origin]


def rise_along_origins(vectors: Ints, numbering: Numbering) -> None:
    """Give each dot the past of the earlier dots of its origin."""
    for origin in range(len(numbering.names)):
        part = vectors[:, numbering.messages(origin)]
        np.maximum.accumulate(part, axis=1, out=part)


def close_vectors(run: Run, logs: Sequence[LogIndex], vectors: Ints) -> None:
    """Raise ``vectors`` in place to the least solution of the definition."""
    _flow_once(run, logs, vectors)
    replay(run, logs, vectors)
    while _flow_once(run, logs, vectors):
        pass
    # Contradictory logs can put a dot before itself.
    own_entries(vectors, run.numbering)


def _flow_once(run: Run, logs: Sequence[LogIndex], vectors: Ints) -> bool:
    """Let every vector flow once through every delivery; whether anything changed."""
    rise_along_origins(vectors, run.numbering)
    changed = False
    for log in logs:
        changed |= flow_through(log, vectors)
    return changed


def flow_through(log: LogIndex, vectors: Ints) -> bool:
    """Raise the vectors of one node's sends by what it had taken; whether any changed."""
    changed = False
    for life in log.lives:
        changed |= _through_life(life, vectors)
    for which, dot in enumerate(log.stream_id.tolist()):
        # The past of a send on a stream is what its logged context says.
        named = log.stream_context.of(which)
        if len(named):
            new = np.maximum(vectors[:, named].max(axis=1), vectors[:, dot])
            changed |= bool((new > vectors[:, dot]).any())
            vectors[:, dot] = new
    return changed


def _through_life(life: Life, vectors: Ints) -> bool:
    """What a node had taken before each of its sends is in the past of that send."""
    at, ids = taken_in(life)
    sent_at, sent = life.mark_at[life.mark_is_send], life.mark_id[life.mark_is_send]
    if not len(sent):
        return False
    before = np.searchsorted(at, sent_at)  # how much was taken before each send
    changed = False
    known: Ints = np.full(len(vectors), -1, np.int32)
    for first in range(0, len(ids), CHUNK_TAKES):
        some = vectors[:, ids[first : first + CHUNK_TAKES]]
        some[:, 0] = np.maximum(some[:, 0], known)
        np.maximum.accumulate(some, axis=1, out=some)
        known = some[:, -1]
        here = np.flatnonzero((before > first) & (before <= first + CHUNK_TAKES))
        if len(here):
            new = np.maximum(some[:, before[here] - first - 1], vectors[:, sent[here]])
            changed |= bool((new > vectors[:, sent[here]]).any())
            vectors[:, sent[here]] = new
    return changed


def taken_in(life: Life) -> tuple[Ints, Ints]:
    """(row, id) of what was taken in a life in order, first (row -1) what was carried into it."""
    at = np.concatenate(
        [np.full(len(life.carried_id), -1), life.snapshot_at, life.send_at, life.deliver_at]
    )
    ids = np.concatenate([life.carried_id, life.snapshot_id, life.send_id, life.deliver_id])
    order = np.argsort(at, kind="stable")
    return at[order], ids[order]


def context_vectors(run: Run, vectors: Ints, contexts: Contexts, some: slice) -> Ints:
    """[origin, record]: the latest dot of each origin in the past of the contexts of ``some``."""
    which, entry = contexts.entries(some)
    joined = np.empty((len(vectors), len(contexts.begin[some])), np.int32)
    joined[:] = run.numbering.base[:-1, None]
    if len(entry):
        named = contexts.ids[entry]
        starts = np.flatnonzero(np.diff(which, prepend=-1))
        joined[:, which[starts]] = np.maximum.reduceat(vectors[:, named], starts, axis=1)
    return joined


def firsts_of(run: Run, members: Iterable[int], vectors: Ints) -> dict[int, Ints]:
    """By member: by id, its first message at or after the dot.

    Those who sent nothing share one table: a run may have any number of such members.
    """
    none = never_after(run.numbering)
    silent = run.numbering.is_silent
    return {
        member: none if silent(member) else first_at_or_after(run, member, vectors)
        for member in members
    }


def never_after(numbering: Numbering) -> Ints:
    """The same table for a member that sent nothing: an id that is never there."""
    return np.full(numbering.total, numbering.total - 1, np.int32)


def first_at_or_after(run: Run, member: int, vectors: Ints, own: slice | None = None) -> Ints:
    """By id: the member's first message with the dot in its past (or the dot itself).

    "One past the end" of the member when there is none.  Vectors only grow along an origin, so
    the first is found by bisection.  ``own``: where in ``vectors`` the member's messages are, when
    it is not under their ids.
    """
    numbering = run.numbering
    mine = numbering.messages(member)
    columns = mine if own is None else own
    first = np.full(numbering.total, mine.stop, np.int32)
    for origin in range(len(numbering.names)):
        some = numbering.messages(origin)
        ids = np.arange(some.start, some.stop, dtype=np.int32)
        if origin != member:
            found = np.searchsorted(vectors[origin, columns], ids)
            ids = np.where(found == columns.stop - columns.start, mine.stop, mine.start + found)
        first[some] = ids
    return first
