"""The delivery rules of one node, each a gather over all messages at once.

A message was delivered early when the position of the latest-delivered dot of its past is after
its own.  ``prefix_max`` of the delivery positions answers that for all earlier messages of an
origin together, whatever order they came in, so broken logs need no other code.
"""

from __future__ import annotations

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints, Mask
from thence.trace.gathers import greatest, least, prefix_max, suffix_min
from thence.trace.numbering import NEVER
from thence.trace.run import Life, LogIndex, Run
from thence.trace.verdict import Missing
from thence.trace.views import Group, removals_of


def expected_here(table: Ints, for_node: Mask | None) -> Ints:
    """``table`` with what was not for this node counted as there from the beginning."""
    return table if for_node is None else np.where(for_node, table, np.int32(-1))


def complete_from(run: Run, vectors: Ints, expected: Ints) -> Ints:
    """By id: where the last of its past that is for this node was there, itself included."""
    origins = np.arange(len(run.numbering.names))
    return greatest(prefix_max(expected, run.numbering), vectors, origins)


def early_deliveries(run: Run, life: Life, complete: Ints) -> Mask:
    """Which deliveries, then which dots of snapshots, came before something of their past."""
    at = np.concatenate([life.deliver_at, life.snapshot_at])
    if run.info.guarantee == "total":
        return np.zeros(len(at), np.bool_)
    early: Mask = complete[np.concatenate([life.deliver_id, life.snapshot_id])] > at
    return early


def carried_without_past(run: Run, life: Life, complete: Ints) -> bool:
    """Whether something was carried into a life and something of its past was not."""
    if run.info.guarantee == "total":
        return False
    return bool((complete[life.carried_id] >= life.start).any())


def check_early(
    run: Run, log: LogIndex, life: Life, vectors: Ints, expected: Ints, early: Mask
) -> None:
    """deliver-early."""
    at = np.concatenate([life.deliver_at, life.snapshot_at])[early]
    ids = np.concatenate([life.deliver_id, life.snapshot_id])[early]
    # What a snapshot takes is there at its own row.
    after = at + (np.flatnonzero(early) >= len(life.deliver_at))
    missing = smallest_missing(run, vectors, expected, after, ids)
    log.findings.add("deliver-early", log.pos(at), ids, missing)


def smallest_missing(
    run: Run, vectors: Ints, table: Ints, at: Ints, ids: Ints, streams: bool = True
) -> Missing:
    """The smallest dot in the past of ``ids[which]`` that is not there before ``at[which]``."""
    numbering = run.numbering

    def missing(which: int) -> Dot | None:
        dot = int(ids[which])
        for origin in range(len(numbering.names)):
            if numbering.is_stream[origin] and not streams:
                continue
            first = int(numbering.base[origin]) + 1
            last = min(int(vectors[origin, dot]), dot - 1 if dot >= first else NEVER)
            absent = np.flatnonzero(table[first : last + 1] >= at[which])
            if len(absent):
                return numbering.dot(first + int(absent[0]))
        return None

    return missing


def check_unsent(log: LogIndex, life: Life, sent: Mask) -> None:
    """deliver-unsent: no log says that it was sent."""
    at = np.concatenate([life.deliver_at, life.snapshot_at])
    ids = np.concatenate([life.deliver_id, life.snapshot_id])
    unsent = ~sent[ids]
    log.findings.add("deliver-unsent", log.pos(at[unsent]), ids[unsent])


def check_missing(
    run: Run, log: LogIndex, life: Life, sent: Mask, for_node: Mask | None, group: Group
) -> None:
    """deliver-missing: a complete log ends without a message it should have."""
    if not (run.info.complete and log.ended and life.is_last and log.node in group.at_end):
        return
    numbering = run.numbering
    lacks = sent & (life.delivered == NEVER)
    if for_node is not None:
        lacks &= for_node
    cuts = {node: seq for node, (_, seq) in group.removed.items()}
    cuts.update((removal.node, removal.seq) for removal in removals_of(log.changes))
    for origin, owner in enumerate(numbering.owner.tolist()):
        some = numbering.messages(origin)
        if owner in group.at_end:
            continue
        if owner in cuts and not numbering.is_stream[origin]:
            some = slice(numbering.id_of(origin, cuts[owner]) + 1, some.stop)
        lacks[some] = False
    absent = np.flatnonzero(lacks)
    log.findings.add("deliver-missing", np.full(len(absent), log.length), absent)


def check_after_stable(run: Run, log: LogIndex, life: Life, vectors: Ints, sent: Mask) -> None:
    """deliver-after-stable: taken while something outside its past was already stable here.

    ``suffix_min`` of the stable positions says when the first dot above a given one was told.
    """
    numbering, told = run.numbering, life.told
    above = np.append(suffix_min(told, numbering)[1:], np.int32(NEVER))
    soonest = least(above, vectors, np.flatnonzero(~numbering.is_stream))
    # Where it was sent or delivered: a snapshot may have taken it before.
    taken_at = np.full(numbering.total, -1, np.int32)
    taken_at[life.deliver_id] = life.deliver_at
    if not run.total:
        taken_at[life.send_id] = life.send_at
    late = sent & (soonest < taken_at)
    for origin in np.flatnonzero(numbering.is_stream).tolist():
        late[numbering.messages(origin)] = False
    ids = np.flatnonzero(late)

    def missing(which: int) -> Dot | None:
        dot = int(ids[which])
        for origin in np.flatnonzero(~numbering.is_stream).tolist():
            first, end = int(vectors[origin, dot]) + 1, numbering.messages(origin).stop
            before = np.flatnonzero(told[first:end] < taken_at[dot])
            if len(before):
                return numbering.dot(first + int(before[0]))
        return None

    log.findings.add("deliver-after-stable", log.pos(taken_at[ids]), ids, missing)
