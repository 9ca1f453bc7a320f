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
from thence.trace.index import NodeIndex, Run
from thence.trace.numbering import NEVER
from thence.trace.verdict import Missing


def expected_here(table: Ints, for_node: Mask | None) -> Ints:
    """``table`` with what was not for this node counted as there from the beginning."""
    return table if for_node is None else np.where(for_node, table, np.int32(-1))


def early_deliveries(run: Run, index: NodeIndex, vectors: Ints, expected: Ints) -> Mask:
    """Which deliveries of this node came before something of their past."""
    if run.info.guarantee == "total":
        return np.zeros(len(index.deliver_id), np.bool_)
    origins = np.arange(len(run.numbering.names))
    complete = greatest(prefix_max(expected, run.numbering), vectors, origins)
    early: Mask = complete[index.deliver_id] > index.deliver_at
    return early


def check_early(run: Run, index: NodeIndex, vectors: Ints, expected: Ints, early: Mask) -> None:
    """deliver-early."""
    at, ids = index.deliver_at[early], index.deliver_id[early]
    missing = smallest_missing(run, vectors, expected, at, ids)
    index.findings.add("deliver-early", run.columns.pos[index.first_row + at], ids, missing)


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


def check_unsent(run: Run, index: NodeIndex, sent: Mask) -> None:
    """deliver-unsent: no log says that it was sent."""
    unsent = ~sent[index.deliver_id]
    rows = index.first_row + index.deliver_at[unsent]
    index.findings.add("deliver-unsent", run.columns.pos[rows], index.deliver_id[unsent])


def check_missing(run: Run, index: NodeIndex, sent: Mask, for_node: Mask | None) -> None:
    """deliver-missing: a complete log ends without a member's message."""
    if not (run.info.complete and index.ended and index.node in run.members):
        return
    by_member = np.zeros(len(run.numbering.names), np.bool_)
    by_member[np.isin(run.numbering.owner, run.members)] = True
    absent = np.flatnonzero(sent & (index.delivered == NEVER))
    absent = absent[by_member[np.searchsorted(run.numbering.base, absent, side="right") - 1]]
    if for_node is not None:
        absent = absent[for_node[absent]]
    index.findings.add("deliver-missing", np.full(len(absent), index.length), absent)


def check_after_stable(run: Run, index: NodeIndex, vectors: Ints, sent: Mask) -> None:
    """deliver-after-stable: taken while something outside its past was already stable here.

    ``suffix_min`` of the stable positions says when the first dot above a given one was told.
    """
    numbering, delivered, told = run.numbering, index.delivered, index.told
    above = np.append(suffix_min(told, numbering)[1:], np.int32(NEVER))
    soonest = least(above, vectors, np.flatnonzero(~numbering.is_stream))
    late = sent & (delivered != NEVER) & (soonest < delivered)
    for origin in np.flatnonzero(numbering.is_stream).tolist():
        late[numbering.messages(origin)] = False
    ids = np.flatnonzero(late)

    def missing(which: int) -> Dot | None:
        dot = int(ids[which])
        for origin in np.flatnonzero(~numbering.is_stream).tolist():
            first, end = int(vectors[origin, dot]) + 1, numbering.messages(origin).stop
            before = np.flatnonzero(told[first:end] < delivered[dot])
            if len(before):
                return numbering.dot(first + int(before[0]))
        return None

    rows = index.first_row + delivered[ids]
    index.findings.add("deliver-after-stable", run.columns.pos[rows], ids, missing)
