"""The stability rules of one node.

A dot is stable here once every other member's first message at or after it is delivered here, or
a phantom of that member says the same.  ``suffix_min`` of the delivery positions answers "the
first of these messages or a later one", so one gather per member covers all dots.
"""

from __future__ import annotations

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints, Mask
from thence.trace.gathers import greatest, prefix_max, suffix_min
from thence.trace.index import NodeIndex, Run
from thence.trace.numbering import NEVER
from thence.trace.rules_deliver import expected_here, smallest_missing
from thence.trace.vectors import context_vectors


def check_stable(
    run: Run, index: NodeIndex, vectors: Ints, firsts: dict[int, Ints],
    expected: Ints, for_node: Mask | None, sent: Mask,
) -> None:  # fmt: skip
    """Every stable rule but stable-duplicate, which the index finds."""
    _check_undelivered(run, index)
    if not run.causal:
        return  # what stability means without causality no record says
    numbering, delivered, told = run.numbering, index.delivered, index.told
    evidence = _Evidence(run, index, vectors, firsts, expected)
    stable_from = evidence.stable_from()
    on_stream = numbering.is_stream[run.columns.dot_node[index.first_row + index.stable_at]]
    early = on_stream | (stable_from[index.stable_id] >= index.stable_at)
    at, ids = index.stable_at[early], index.stable_id[early]

    def missing(which: int) -> Dot | None:
        return evidence.lacking(int(ids[which]), int(at[which]), sent)

    index.findings.add("stable-early", run.columns.pos[index.first_row + at], ids, missing)
    _check_disorder(run, index, vectors, for_node, on_stream)
    if run.info.complete and run.info.stability and index.ended and index.node in run.members:
        untold = (told == NEVER) & (delivered != NEVER) & (stable_from != NEVER)
        untold[numbering.base[:-1]] = False
        for origin in np.flatnonzero(numbering.is_stream).tolist():
            untold[numbering.messages(origin)] = False
        never_told = np.flatnonzero(untold)
        at_end = np.full(len(never_told), index.length)
        index.findings.add("stable-missing", at_end, never_told)


def _check_undelivered(run: Run, index: NodeIndex) -> None:
    absent = index.delivered[index.stable_id] > index.stable_at
    rows = index.first_row + index.stable_at[absent]
    index.findings.add("stable-undelivered", run.columns.pos[rows], index.stable_id[absent])


def _check_disorder(
    run: Run, index: NodeIndex, vectors: Ints, for_node: Mask | None, on_stream: Mask
) -> None:
    """stable-disorder: told before a dot of its past was."""
    told = expected_here(index.told, for_node)
    origins = np.flatnonzero(~run.numbering.is_stream)
    complete = greatest(prefix_max(told, run.numbering), vectors, origins)
    wrong = ~on_stream & (complete[index.stable_id] > index.stable_at)
    at, ids = index.stable_at[wrong], index.stable_id[wrong]
    missing = smallest_missing(run, vectors, told, at, ids, streams=False)
    index.findings.add("stable-disorder", run.columns.pos[index.first_row + at], ids, missing)


class _Evidence:
    """What tells one node that the other members are past a dot: messages, or phantoms."""

    def __init__(
        self, run: Run, index: NodeIndex, vectors: Ints, firsts: dict[int, Ints], expected: Ints
    ) -> None:
        self._run = run
        self._index = index
        self._firsts = {member: firsts[member] for member in run.members if member != index.node}
        self._soonest = suffix_min(index.delivered, run.numbering)
        self._phantoms = _Phantoms(run, index, vectors, expected)

    def stable_from(self) -> Ints:
        """By id: the position after which every other member is known to be past it."""
        stable_from = np.full(self._run.numbering.total, -1, np.int32)
        for member, first in self._firsts.items():
            known = np.take(self._soonest, first, mode="clip")
            if self._phantoms.has(member):
                # Only where the messages do not settle it: phantoms are the slower look-up.
                doubtful = np.flatnonzero(known >= self._index.told)
                usable = self._phantoms.usable(member, doubtful)
                known[doubtful] = np.minimum(known[doubtful], usable)
            np.maximum(stable_from, known, out=stable_from)
        return stable_from

    def lacking(self, dot: int, at: int, sent: Mask) -> Dot | None:
        """Of the first messages at or after the dot that were still to come, the smallest."""
        numbering = self._run.numbering
        if numbering.is_stream[numbering.origin(dot)]:
            return None
        lacking: list[int] = []
        for member, firsts in self._firsts.items():
            first = int(firsts[dot])
            usable = int(self._phantoms.usable(member, np.array([dot]))[0])
            if min(int(self._soonest[first]), usable) >= at:
                sent_after = np.flatnonzero(sent[first : numbering.messages(member).stop])
                lacking += (first + sent_after[:1]).tolist()
        return numbering.dot(min(lacking)) if lacking else None


class _Phantoms:
    """The phantoms one node took into account, by announcer.

    One says: this member has consumed all this context, and its messages up to here.  It is
    usable from the position where it was logged or, if later, where the last of those messages
    was delivered.
    """

    def __init__(self, run: Run, index: NodeIndex, vectors: Ints, expected: Ints) -> None:
        self._run = run
        at, last = index.phantom_at, index.phantom_id - 1
        self._member = run.columns.dot_node[index.first_row + at]
        self._knows = context_vectors(run, vectors, index.first_row + at)
        which = np.arange(len(at))
        own = self._knows[self._member, which]
        self._knows[self._member, which] = np.maximum(own, last)
        self._from = np.maximum(at, prefix_max(expected, run.numbering)[last])

    def has(self, member: int) -> bool:
        return bool((self._member == member).any())

    def usable(self, member: int, ids: Ints) -> Ints:
        """By dot: where the first phantom of the member that covers it becomes usable."""
        base = self._run.numbering.base
        mine = np.flatnonzero(self._member == member)
        usable = np.full(len(ids), NEVER, np.int32)
        bounds = np.searchsorted(ids, base)
        for origin in np.flatnonzero(np.diff(bounds)).tolist():
            some = slice(int(bounds[origin]), int(bounds[origin + 1]))
            order = np.argsort(self._knows[origin, mine])
            soonest = np.minimum.accumulate(self._from[mine][order][::-1])[::-1]
            at = np.searchsorted(self._knows[origin, mine][order], ids[some])
            usable[some] = np.append(soonest, np.int32(NEVER))[at]
        return usable
