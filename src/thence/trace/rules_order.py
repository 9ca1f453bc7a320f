"""order-disagree: two nodes delivered two messages in opposite orders.

Each node is compared with every node of a smaller name: going through the messages both
delivered in the order of the first, the position at the second must keep growing.  The violation
is told at the node with the larger name, at the delivery that came too late.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints, Mask
from thence.trace.numbering import NEVER
from thence.trace.run import LogIndex, Run
from thence.trace.verdict import Missing
from thence.trace.views import Group


def check_order(run: Run, log: LogIndex, others: Sequence[Ints]) -> None:
    """Find the deliveries of a node that another one made the other way round.

    ``others``: what is there, and where, in the last lives of the nodes with smaller names.
    """
    at, ids, judged = _in_order(log)
    wrong = np.zeros(len(ids), np.bool_)
    for other in others:
        wrong |= _late(ids, other)
    wrong &= judged
    missing = _smallest_before(run, ids, others, np.flatnonzero(wrong))
    log.findings.add("order-disagree", log.pos(at[wrong]), ids[wrong], missing)


def compared(group: Group, nodes: Sequence[int]) -> list[int]:
    """The nodes whose orders are compared, ascending."""
    return [node for node in nodes if node in group.ever]


def _in_order(log: LogIndex) -> tuple[Ints, Ints, Mask]:
    """(row, id, whether by a delivery) of what is there in the last life, in order."""
    table = log.lives[-1].delivered
    at = np.concatenate([life.deliver_at for life in log.lives])
    ids = np.concatenate([life.deliver_id for life in log.lives])
    stands = table[ids] == at  # no restart took it back
    at, ids = at[stands], ids[stands]
    judged = np.ones(len(ids), np.bool_)
    if any(len(life.snapshot_at) for life in log.lives):
        there = np.flatnonzero((table != NEVER) & (table >= 0))
        taken = np.setdiff1d(there, ids)
        at, ids = np.concatenate([at, table[taken]]), np.concatenate([ids, taken])
        judged = np.concatenate([judged, np.zeros(len(taken), np.bool_)])
        order = np.argsort(at, kind="stable")
        at, ids, judged = at[order], ids[order], judged[order]
    return at, ids, judged


def _late(ids: Ints, other: Ints) -> Mask:
    """Which deliveries came after one that the other node delivered later."""
    there = other[ids]
    both = there != NEVER
    latest = np.maximum.accumulate(np.where(both, there, -1))
    late: Mask = both & (there < latest)
    return late


def _smallest_before(run: Run, ids: Ints, others: Sequence[Ints], wrong: Ints) -> Missing:
    """The smallest dot delivered before this one here and after it at another node."""

    def missing(which: int) -> Dot | None:
        dot = int(ids[wrong[which]])
        before = ids[: int(wrong[which])]
        swapped = [
            int(before[late].min())
            for other in others
            if other[dot] != NEVER
            and len(before)
            and bool((late := (other[before] != NEVER) & (other[before] > other[dot])).any())
        ]
        return run.numbering.dot(min(swapped)) if swapped else None

    return missing
