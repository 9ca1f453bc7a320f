"""The stability rules of one node.

A dot is stable here once every other member's first message at or after it is delivered here, or
a phantom of that member says the same.  ``suffix_min`` of the delivery positions answers "the
first of these messages or a later one", so one gather per member covers all dots.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import Ints, Mask
from thence.trace.gathers import greatest, prefix_max, suffix_min
from thence.trace.numbering import NEVER
from thence.trace.rules_deliver import expected_here, smallest_missing
from thence.trace.run import Life, LogIndex, Run
from thence.trace.vectors import context_vectors
from thence.trace.views import Group, Views


def check_undelivered(log: LogIndex, life: Life) -> None:
    """stable-undelivered: told before it was there."""
    absent = life.delivered[life.stable_id] > life.stable_at
    at, ids = life.stable_at[absent], life.stable_id[absent]
    log.findings.add("stable-undelivered", log.pos(at), ids)


def check_disorder(
    run: Run, log: LogIndex, life: Life, vectors: Ints, for_node: Mask | None
) -> None:
    """stable-disorder: told before a dot of its past was."""
    told = expected_here(life.told, for_node)
    origins = np.flatnonzero(~run.numbering.is_stream)
    complete = greatest(prefix_max(told, run.numbering), vectors, origins)
    on_stream = _on_stream(run, life.stable_id)
    wrong = ~on_stream & (complete[life.stable_id] > life.stable_at)
    at, ids = life.stable_at[wrong], life.stable_id[wrong]
    missing = smallest_missing(run, vectors, told, at, ids, streams=False)
    log.findings.add("stable-disorder", log.pos(at), ids, missing)


def _on_stream(run: Run, ids: Ints) -> Mask:
    if not bool(run.numbering.is_stream.any()):
        return np.zeros(len(ids), np.bool_)
    origin = np.searchsorted(run.numbering.base, ids, side="right") - 1
    on_stream: Mask = run.numbering.is_stream[origin]
    return on_stream


def check_stable(
    run: Run, log: LogIndex, life: Life, views: Views, vectors: Ints,
    firsts: Mapping[int, Ints], expected: Ints, sent: Mask, group: Group,
) -> None:  # fmt: skip
    """stable-early and stable-missing."""
    evidence = _Evidence(run, log, life, views, vectors, firsts, expected)
    early = _on_stream(run, life.stable_id) | evidence.early()
    at, ids = life.stable_at[early], life.stable_id[early]

    def missing(which: int) -> Dot | None:
        return evidence.lacking(int(ids[which]), int(at[which]), sent)

    log.findings.add("stable-early", log.pos(at), ids, missing)
    if not (run.info.complete and run.info.stability and log.ended and life.is_last):
        return
    if log.node in group.at_end:
        numbering = run.numbering
        untold = sent & (life.told == NEVER) & (life.delivered != NEVER)
        untold &= evidence.stable_from(views.members[-1]) != NEVER
        for origin in np.flatnonzero(numbering.is_stream).tolist():
            untold[numbering.messages(origin)] = False
        never_told = np.flatnonzero(untold)
        at_end = np.full(len(never_told), log.length)
        log.findings.add("stable-missing", at_end, never_told)


class _Evidence:
    """What tells one node that the other members are past a dot: messages, or phantoms."""

    def __init__(
        self, run: Run, log: LogIndex, life: Life, views: Views, vectors: Ints,
        firsts: Mapping[int, Ints], expected: Ints,
    ) -> None:  # fmt: skip
        self._run = run
        self._views = views
        self._log = log
        self._life = life
        self._firsts = firsts
        self._soonest = suffix_min(life.delivered, run.numbering)
        self._phantoms = _Phantoms(run, log, vectors, expected)
        self._stable_from: dict[tuple[int, ...], Ints] = {}

    def stable_from(self, members: tuple[int, ...]) -> Ints:
        """By id: the position after which every other one of these is known to be past it."""
        if members not in self._stable_from:
            stable_from = np.full(self._run.numbering.total, -1, np.int32)
            for member in members:
                if member == self._log.node:
                    continue
                if self._run.numbering.is_silent(member):
                    stable_from[:] = NEVER  # nothing will ever tell what it is past
                    break
                np.maximum(stable_from, self._known(member), out=stable_from)
            self._stable_from = {members: stable_from}  # the last is all that is asked for again
        return self._stable_from[members]

    def _known(self, member: int) -> Ints:
        """By id: the position after which this member is known to be past it."""
        known = np.take(self._soonest, self._firsts[member], mode="clip")
        if self._phantoms.has(member):
            # Only where the messages do not settle it: phantoms are the slower look-up.
            doubtful = np.flatnonzero(known >= self._life.told)
            usable = self._phantoms.usable(member, doubtful)
            known[doubtful] = np.minimum(known[doubtful], usable)
        return known

    def early(self) -> Mask:
        """Which stable events came before every other member of their view was past the dot."""
        views, life = self._views, self._life
        epoch = views.epoch(life.stable_at)
        early = np.zeros(len(life.stable_at), np.bool_)
        for number in sorted(set(epoch.tolist())):
            some = epoch == number
            stable_from = self.stable_from(views.members[number])
            early[some] = stable_from[life.stable_id[some]] >= life.stable_at[some]
        return early

    def lacking(self, dot: int, at: int, sent: Mask) -> Dot | None:
        """Of the first messages at or after the dot that were still to come, the smallest."""
        numbering, views = self._run.numbering, self._views
        if numbering.is_stream[numbering.origin(dot)]:
            return None
        lacking: list[int] = []
        for member in views.members[int(views.epoch(np.array([at]))[0])]:
            if member == self._log.node or numbering.is_silent(member):
                continue
            first = int(self._firsts[member][dot])
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

    def __init__(self, run: Run, log: LogIndex, vectors: Ints, expected: Ints) -> None:
        self._run = run
        at, last = log.phantom_at, log.phantom_id - 1
        self._member = np.searchsorted(run.numbering.base, log.phantom_id, side="right") - 1
        self._knows = context_vectors(run, vectors, log.phantom_context, slice(None))
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
