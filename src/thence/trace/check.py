"""The one-process checker: every rule of the trace reference over NumPy columns.

Algorithm 14 of the thesis replays all logs and jumps between them.  That is not needed: the
version vector of a send is what its sender had sent and delivered by then, which its own log
says.  So one pass per log finds what each node sent, delivered and was told and the vectors of
its sends (index.py, vectors.py); then every rule is a gather (rules_*.py), log by log.

A static group is checked.  ``join``, ``leave``, ``evict``, ``snapshot`` and ``restart`` are read
and ignored; membership intervals belong where ``Run.members`` is used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec
import numpy as np

from thence.trace.columns import Columns, Ints, Mask
from thence.trace.index import NodeIndex, Run, index_node, open_run
from thence.trace.reader import PathLike, iter_runs
from thence.trace.record import RunInfo
from thence.trace.rules_context import check_contexts
from thence.trace.rules_deliver import (
    check_after_stable,
    check_early,
    check_missing,
    check_unsent,
    early_deliveries,
    expected_here,
)
from thence.trace.rules_order import check_order
from thence.trace.rules_stable import check_stable
from thence.trace.segments import Quarantine
from thence.trace.vectors import close_vectors, first_at_or_after, local_vectors
from thence.trace.verdict import LISTED_MAX, Report, Verdict, report_of, sort_key


def check_paths(paths: Sequence[PathLike], keep_going: bool = False) -> Report:
    """Check every run below these paths, one run in memory at a time.

    Raises UnusableInputError when there is nothing to check, and TraceError when something could
    not be read, unless ``keep_going`` and something else could: then the report says what was set
    aside.
    """
    quarantine = Quarantine()
    verdicts = [check_run(columns, info) for columns, info in iter_runs(paths, quarantine)]
    if quarantine.count and not (keep_going and verdicts):
        raise quarantine.error()
    texts = [os.fspath(path) for path in paths]
    return report_of(verdicts, texts, quarantine.listed, quarantine.count)


def check_run(columns: Columns, info: RunInfo) -> Verdict:
    """Check one run."""
    run = open_run(columns, info)
    indices = [index_node(run, node) for node in run.nodes]
    sends = find_sends(run, indices)
    vectors, early = vectors_of(run, indices)
    firsts = first_at_or_after(run, vectors) if run.causal else {}
    for index in indices:
        check_node(run, index, vectors, firsts, sends, early.get(index.node))
    if run.total:
        check_order(run, indices)
    return _verdict(run, indices)


def check_node(
    run: Run, index: NodeIndex, vectors: Ints, firsts: dict[int, Ints], sends: Sends,
    early: Mask | None = None,
) -> None:  # fmt: skip
    """The rules of one node's log; ``early``: which deliveries are, when that is known."""
    for_node = _for_node(run, index.node, sends)
    expected = expected_here(index.delivered, for_node)
    if early is None:
        early = early_deliveries(run, index, vectors, expected)
    check_contexts(run, index, vectors, sends.sent)
    check_unsent(run, index, sends.sent)
    check_early(run, index, vectors, expected, early)
    check_missing(run, index, sends.sent, for_node)
    check_stable(run, index, vectors, firsts, expected, for_node, sends.sent)
    if run.causal:
        check_after_stable(run, index, vectors, sends.sent)


class Sends(msgspec.Struct, frozen=True):
    """What all logs together say was sent."""

    sent: Mask
    """By id: whether the log of its own node says it was sent."""
    recipients: dict[int, tuple[int, ...]]
    """Id to the nodes a multicast was for."""


def find_sends(run: Run, indices: Sequence[NodeIndex]) -> Sends:
    """Put the sends of all logs together."""
    sent = np.zeros(run.numbering.total, np.bool_)
    recipients: dict[int, tuple[int, ...]] = {}
    to = run.columns.to
    for index in indices:
        sent[index.send_id] = True
        if to:
            rows = (index.first_row + index.send_at).tolist()
            pairs = zip(rows, index.send_id.tolist(), strict=True)
            recipients.update((dot, to[row]) for row, dot in pairs if row in to)
    return Sends(sent, recipients)


def vectors_of(run: Run, indices: Sequence[NodeIndex]) -> tuple[Ints, dict[int, Mask]]:
    """The past of every dot and, when they came with the proof of it, the early deliveries."""
    vectors, exact = local_vectors(run, indices)
    early: dict[int, Mask] = {}
    if exact and run.causal:
        for index in indices:
            early[index.node] = early_deliveries(run, index, vectors, index.delivered)
        exact = not any(bool(mask.any()) for mask in early.values())
    if not exact:
        close_vectors(run, indices, vectors)
        early = {}
    return vectors, early


def _for_node(run: Run, node: int, sends: Sends) -> Mask | None:
    """By id: whether the message was for this node; None when every message was for everyone."""
    if not sends.recipients:
        return None
    for_node = np.ones(run.numbering.total, np.bool_)
    for dot, recipients in sends.recipients.items():
        for_node[dot] = node in recipients
    return for_node


def _verdict(run: Run, indices: Sequence[NodeIndex]) -> Verdict:
    counts: dict[str, int] = {}
    violations = []
    for index in indices:
        for rule, count in index.findings.counts().items():
            counts[rule] = counts.get(rule, 0) + count
        name = run.columns.names[index.node]
        violations += index.findings.listed(run.info.run, name, run.numbering.dot)
    violations.sort(key=sort_key)
    return Verdict(
        run=run.info.run,
        events=run.columns.events,
        counts=dict(sorted(counts.items())),
        violations=tuple(violations[:LISTED_MAX]),
    )
