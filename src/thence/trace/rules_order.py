"""order-disagree: two members delivered two messages in opposite orders.

Each member is compared with every member of a smaller name: going through the messages both
delivered in the order of the first, the position at the second must keep growing.  The violation
is told at the member with the larger name, at the delivery that came too late.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints, Mask
from thence.trace.index import NodeIndex, Run
from thence.trace.numbering import NEVER
from thence.trace.verdict import Missing


def check_order(run: Run, indices: Sequence[NodeIndex]) -> None:
    """Find the deliveries of each member that another member made the other way round."""
    members = [index for index in indices if index.node in run.members]
    for index in members:
        others = [other.delivered for other in members if other.node < index.node]
        wrong = np.zeros(len(index.deliver_id), np.bool_)
        for other in others:
            wrong |= _late(index, other)
        at, ids = index.deliver_at[wrong], index.deliver_id[wrong]
        missing = _smallest_before(run, index, others, at, ids)
        index.findings.add("order-disagree", run.columns.pos[index.first_row + at], ids, missing)


def _late(index: NodeIndex, other: Ints) -> Mask:
    """Which deliveries came after one that the other member delivered later."""
    there = other[index.deliver_id]
    both = there != NEVER
    latest = np.maximum.accumulate(np.where(both, there, -1))
    late: Mask = both & (there < latest)
    return late


def _smallest_before(
    run: Run, index: NodeIndex, others: Sequence[Ints], at: Ints, ids: Ints
) -> Missing:
    """The smallest dot delivered before this one here and after it at another member."""

    def missing(which: int) -> Dot | None:
        dot = int(ids[which])
        before = index.deliver_id[index.deliver_at < at[which]]
        swapped = [
            int(before[late].min())
            for other in others
            if other[dot] != NEVER
            and len(before)
            and bool((late := (other[before] != NEVER) & (other[before] > other[dot])).any())
        ]
        return run.numbering.dot(min(swapped)) if swapped else None

    return missing
