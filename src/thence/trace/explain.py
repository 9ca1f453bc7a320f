"""Why a violation is one: the failed step, what the nodes knew, and the records around it.

The run is read again, so that a report holds no columns: explaining is for people, one at a time.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.trace.check import find_sends, vectors_of
from thence.trace.columns import Columns, Ints
from thence.trace.index import NodeIndex, Run, index_node, open_run
from thence.trace.numbering import NEVER
from thence.trace.reader import read_runs
from thence.trace.record import KINDS, RunInfo
from thence.trace.verdict import Report, Violation

AROUND: Final = 3  # records shown before and after


def explain(report: Report, violation: Violation) -> str:
    """Several lines of text on one violation of a report that ``check_paths`` made."""
    runs, _ = read_runs(report.paths, keep_going=True)
    for columns, info in runs:
        if info.run == violation.run and violation.node in columns.names:
            return explain_in(columns, info, violation)
    raise UnusableInputError(f"run {violation.run} is no longer where it was checked")


def explain_in(columns: Columns, info: RunInfo, violation: Violation) -> str:
    """The same when the run is at hand."""
    run = open_run(columns, info)
    indices = {node: index_node(run, node) for node in run.nodes}
    vectors, _ = vectors_of(run, list(indices.values()))
    here = indices[columns.names.index(violation.node)]
    lines = [
        f"{violation.rule} at {violation.node}, position {violation.pos} of run {violation.run}:",
        f"  {violation.why}",
    ]
    lines += _knowledge(run, here, violation)
    for dot in (violation.dot, violation.missing):
        if dot is not None:
            lines += _message(run, indices, vectors, dot, violation.node)
    return "\n".join(lines + _records(run, here, violation.pos)) + "\n"


def _knowledge(run: Run, index: NodeIndex, violation: Violation) -> list[str]:
    """What the node had delivered, and been told, before the position."""
    before = np.searchsorted(_log(run, index), violation.pos)
    delivered = _vector_text(run, _latest(run, index.delivered, int(before)))
    told = _vector_text(run, _latest(run, index.told, int(before)))
    return [f"  {violation.node} had delivered {delivered}", f"  and knew stable  {told}"]


def _log(run: Run, index: NodeIndex) -> Ints:
    """The positions in one node's log, as logged."""
    some = run.columns.node == index.node
    positions: Ints = run.columns.pos[some]
    return positions


def _latest(run: Run, table: Ints, before: int) -> Ints:
    """By origin: the greatest id that was there before a row."""
    latest = run.numbering.base[:-1].copy()
    for origin in range(len(latest)):
        there = np.flatnonzero(table[run.numbering.messages(origin)] < before)
        if len(there):
            latest[origin] += int(there[-1]) + 1
    return latest


def _vector_text(run: Run, vector: Ints) -> str:
    """``{a: 3, b: 1}``, without the origins nothing is known of."""
    entries = [
        f"{name}: {run.numbering.seq(int(dot))}"
        for name, dot, nothing in zip(
            run.numbering.names, vector, run.numbering.base[:-1], strict=True
        )
        if dot > nothing
    ]
    return "{" + ", ".join(entries) + "}"


def _message(
    run: Run, indices: dict[int, NodeIndex], vectors: Ints, dot: Dot, node: str
) -> list[str]:
    """Where a message was sent, its vector and context, and where this node has it."""
    dot_id = _id_of(run, dot)
    if dot_id is None:
        return [f"  {dot}: in no log"]
    lines = []
    sender = indices.get(int(run.numbering.owner[run.numbering.origin(dot_id)]))
    sent = find_sends(run, list(indices.values())).sent
    if sender is None or not sent[dot_id]:
        lines.append(f"  {dot}: no log says it was sent")
    else:
        at = int(sender.send_at[np.flatnonzero(sender.send_id == dot_id)[0]])
        row = sender.first_row + at
        context = " ".join(str(before) for before in run.columns.context(row)) or "nothing"
        name = run.columns.names[sender.node]
        lines += [
            f"  {dot}: sent by {name} at position {int(run.columns.pos[row])}",
            f"    context {context}",
            f"    vector  {_vector_text(run, vectors[:, dot_id])}",
        ]
    here = indices[run.columns.names.index(node)]
    for word, table in (("delivered", here.delivered), ("stable", here.told)):
        when = int(table[dot_id])
        where = "never" if when == NEVER else int(run.columns.pos[here.first_row + when])
        lines.append(f"    {word} at {node}: {where}")
    return lines


def _id_of(run: Run, dot: Dot) -> int | None:
    """The id of a dot, if anything speaks of it."""
    names = run.numbering.names
    if dot.node not in names:
        return None
    some = run.numbering.messages(names.index(dot.node))
    ranked = run.numbering.ranked.get(names.index(dot.node))
    rank = dot.seq - 1 if ranked is None else int(np.searchsorted(ranked, dot.seq))
    dot_id = some.start + rank
    return dot_id if dot_id < some.stop and run.numbering.seq(dot_id) == dot.seq else None


def _records(run: Run, index: NodeIndex, pos: int) -> list[str]:
    """The records around a position of a log, the one in question marked."""
    positions = _log(run, index)
    at = int(np.searchsorted(positions, pos))
    rows = range(max(0, at - AROUND), min(len(positions), at + AROUND + 1))
    lines = [f"  the log of {run.columns.names[index.node]}:"]
    for row in rows:
        mark = ">" if int(positions[row]) == pos else " "
        lines.append(f"  {mark} {int(positions[row]):6} {_record(run, index.first_row + row)}")
    if pos > int(positions[-1]):
        lines.append(f"  > {pos:6} (the end)")
    return lines


def _record(run: Run, row: int) -> str:
    code = int(run.columns.kind[row])
    kind = KINDS[code] if code < len(KINDS) else "(another kind)"
    dot, context = run.columns.dot(row), run.columns.context(row)
    text = kind if dot is None else f"{kind} {dot}"
    return f"{text} after {' '.join(map(str, context))}" if context else text
