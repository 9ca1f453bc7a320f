"""The one-process checker: every rule of the trace reference over NumPy columns.

Algorithm 14 of the thesis replays all logs and jumps between them.  That is not needed: the
version vector of a send is what its sender had sent and delivered by then, which its own log
says.  So one pass per log finds what each node sent, delivered and was told and the vectors of
its sends (index.py, vectors.py); then every rule is a gather (rules_*.py), log by log.

Members that come and go are judged by their views (views.py), a node that restarted by its lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import numpy as np

from thence.trace.columns import Columns, Ints, Mask
from thence.trace.files import as_paths
from thence.trace.index import index_log
from thence.trace.reader import PathLike, iter_runs
from thence.trace.record import RunInfo
from thence.trace.rules_context import check_contexts, check_streams
from thence.trace.rules_deliver import (
    carried_without_past,
    check_after_stable,
    check_early,
    check_missing,
    check_unsent,
    complete_from,
    early_deliveries,
    expected_here,
)
from thence.trace.rules_order import check_order, compared
from thence.trace.rules_stable import check_disorder, check_stable, check_undelivered
from thence.trace.rules_views import check_outside, check_views
from thence.trace.run import Life, LogIndex, Run, open_run
from thence.trace.segments import Quarantine
from thence.trace.vectors import close_vectors, firsts_of, local_vectors
from thence.trace.verdict import LISTED_MAX, Report, Verdict, report_of, sort_key
from thence.trace.views import Group, Views, group_of, views_of

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and how much there is."""


def check_paths(
    paths: PathLike | Sequence[PathLike],
    keep_going: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Check every run below these paths, or this one, one run in memory at a time.

    Raises UnusableInputError when there is nothing to check, and TraceError when something could
    not be read, unless ``keep_going`` and something else could: then the report says what was set
    aside.
    """
    quarantine, notes = Quarantine(), list[str]()
    texts = as_paths(paths)
    runs = iter_runs(texts, quarantine, notes, progress)
    verdicts = [check_run(columns, info) for columns, info in runs]
    if quarantine.count and not (keep_going and verdicts):
        raise quarantine.error()
    return report_of(verdicts, texts, quarantine.listed, quarantine.count, notes)


def check_run(columns: Columns, info: RunInfo, listed: int = LISTED_MAX) -> Verdict:
    """Check one run; the first ``listed`` violations are spelt out."""
    opened = open_run(columns, info)
    run = opened.run
    logs = [index_log(opened, node) for node in opened.nodes]
    group = group_of(run.members, [(log.node, log.changes) for log in logs])
    facts = facts_of(run, logs, group)
    early = {} if facts.early is None else facts.early
    for log in logs:
        check_log(facts, log, early.get(log.node))
    if run.total:
        nodes = compared(group, opened.nodes)
        ends = {log.node: log.lives[-1].delivered for log in logs}
        for log in logs:
            if log.node in nodes:
                check_order(run, log, [ends[node] for node in nodes if node < log.node])
    return _verdict(run, columns, logs, listed)


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What the check of one log must know of the others."""

    run: Run
    group: Group
    vectors: Ints
    firsts: Mapping[int, Ints]
    """By member: by id, its first message at or after the dot."""
    sent: Mask
    """By id: whether the log of its own node says it was sent."""
    recipients: dict[int, tuple[int, ...]]
    """Id to the nodes a multicast was for."""
    early: dict[int, list[Mask]] | None = None
    """By node, by life: its early deliveries, when that is known already."""

    def for_node(self, node: int) -> Mask | None:
        """By id: whether the message was for this node; None when all were for everyone."""
        if not self.recipients:
            return None
        for_node = np.ones(self.run.numbering.total, np.bool_)
        for dot, recipients in self.recipients.items():
            for_node[dot] = node in recipients
        return for_node


def facts_of(run: Run, logs: Sequence[LogIndex], group: Group) -> Facts:
    """What all logs of a run together say."""
    sent = np.zeros(run.numbering.total, np.bool_)
    recipients: dict[int, tuple[int, ...]] = {}
    for log in logs:
        recipients.update(log.recipients)
        for life in log.lives:
            sent[life.send_id] = True
    vectors, early = vectors_of(run, logs)
    everyone = {
        member for log in logs for member in views_of(log.node, run.members, log.changes).everyone()
    }
    return Facts(
        run=run,
        group=group,
        vectors=vectors,
        firsts=firsts_of(run, sorted(everyone) if run.causal else (), vectors),
        sent=sent,
        recipients=recipients,
        early=early,
    )


def vectors_of(run: Run, logs: Sequence[LogIndex]) -> tuple[Ints, dict[int, list[Mask]] | None]:
    """The past of every dot and, when they came with the proof of it, the early deliveries."""
    vectors, exact = local_vectors(run, logs)
    early: dict[int, list[Mask]] = {}
    if exact and run.causal:
        for log in logs:
            found, proof = early_in(run, log, vectors)
            early[log.node] = found
            exact &= proof
    if not exact:
        close_vectors(run, logs, vectors)
        return vectors, None
    return vectors, early


def early_in(run: Run, log: LogIndex, vectors: Ints) -> tuple[list[Mask], bool]:
    """The early deliveries of each life, and whether there are none nor anything like them."""
    found, proof = [], True
    for life in log.lives:
        complete = complete_from(run, vectors, life.delivered)
        found.append(early_deliveries(run, life, complete))
        proof &= not bool(found[-1].any()) and not carried_without_past(run, life, complete)
    return found, proof


def check_log(facts: Facts, log: LogIndex, early: list[Mask] | None = None) -> None:
    """The rules of one node's log; ``early``: which deliveries are, when that is known."""
    for_node = facts.for_node(log.node)
    check_streams(facts.run, log, facts.sent)
    views = views_of(log.node, facts.run.members, log.changes)
    check_outside(facts.run, log, views)
    check_views(log, facts.group, facts.run.numbering)
    for number, life in enumerate(log.lives):
        _check_life(facts, log, life, views, for_node, None if early is None else early[number])


def _check_life(
    facts: Facts, log: LogIndex, life: Life, views: Views, for_node: Mask | None,
    early: Mask | None,
) -> None:  # fmt: skip
    run, vectors, sent = facts.run, facts.vectors, facts.sent
    expected = expected_here(life.delivered, for_node)
    if early is None:
        early = early_deliveries(run, life, complete_from(run, vectors, expected))
    check_contexts(run, log, life, vectors)
    check_unsent(log, life, sent)
    check_early(run, log, life, vectors, expected, early)
    check_missing(run, log, life, sent, for_node, facts.group)
    check_undelivered(log, life)
    if run.causal:  # what stability means without causality no record says
        check_stable(run, log, life, views, vectors, facts.firsts, expected, sent, facts.group)
        check_disorder(run, log, life, vectors, for_node)
        check_after_stable(run, log, life, vectors, sent)


def _verdict(run: Run, columns: Columns, logs: Sequence[LogIndex], listed: int) -> Verdict:
    counts: dict[str, int] = {}
    violations = []
    for log in logs:
        for rule, count in log.findings.counts().items():
            counts[rule] = counts.get(rule, 0) + count
        name = columns.names[log.node]
        violations += log.findings.listed(run.info.run, name, run.numbering.dot, listed)
    violations.sort(key=sort_key)
    return Verdict(
        run=run.info.run,
        events=columns.events,
        counts=dict(sorted(counts.items())),
        violations=tuple(violations[:listed]),
    )
