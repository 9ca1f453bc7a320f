"""One pass over one node's log: what it sent, delivered and was told, and when.

Positions here are rows counted from the beginning of the node's own log: only their order
matters.  The rules about a single log (foreign, repeated and skipped dots) are found on the way,
and what they reject takes no further part: a foreign or repeated record is as if it were not
there, so that one fault is one violation.
"""

from __future__ import annotations

import msgspec
import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import KIND_CODE, Columns, Ints, Mask, used_codes
from thence.trace.numbering import (
    KIND_DELIVER,
    KIND_PHANTOM,
    KIND_SEND,
    KIND_STABLE,
    NEVER,
    Numbering,
    number_dots,
)
from thence.trace.record import END, RunInfo
from thence.trace.verdict import Findings, Missing


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run about to be checked."""

    columns: Columns
    info: RunInfo
    numbering: Numbering
    members: tuple[int, ...]
    """Codes of the members, ascending."""
    nodes: tuple[int, ...]
    """Codes of the nodes that have a log, ascending."""

    @property
    def causal(self) -> bool:
        """Whether the guarantee speaks of causality beyond one sender."""
        return self.info.guarantee in ("causal", "causal-total")

    @property
    def total(self) -> bool:
        """Whether the guarantee is one order for all; then sending is not delivering."""
        return self.info.guarantee in ("total", "causal-total")


def open_run(columns: Columns, info: RunInfo) -> Run:
    """Number the dots of a run and find its nodes."""
    code_of = {name: code for code, name in enumerate(columns.names)}
    return Run(
        columns=columns,
        info=info,
        numbering=number_dots(columns),
        members=tuple(sorted({code_of[name] for name in info.members if name in code_of})),
        nodes=tuple(used_codes(columns.node, len(columns.names))),
    )


class NodeIndex(msgspec.Struct, frozen=True, kw_only=True):
    """What one node's log says.  ``*_at`` are positions, ``*_id`` dot ids, in log order."""

    node: int
    first_row: int
    length: int
    """The position after the last record, as logged."""
    ended: bool
    send_at: Ints
    send_id: Ints
    deliver_at: Ints
    deliver_id: Ints
    stable_at: Ints
    stable_id: Ints
    phantom_at: Ints
    """Phantoms of other nodes taken into account here."""
    phantom_id: Ints
    mark_at: Ints
    """Sends of the default stream and phantoms announced here: what has a full context."""
    mark_id: Ints
    mark_is_send: Mask
    frontier: Ints
    """[origin, mark]: the latest dot sent or delivered here before the mark, as an id."""
    delivered: Ints
    """By id: where it was delivered here (sent, for its own); NEVER where it was not.  "Nothing of
    this origin" counts as there from the beginning, at -1."""
    told: Ints
    """By id: where this node was told that it is stable, in the same way."""
    findings: Findings


def index_node(run: Run, node: int) -> NodeIndex:
    """Read one node's log."""
    columns, numbering, findings = run.columns, run.numbering, Findings()
    bounds = np.array([node, node + 1], columns.node.dtype)
    first, end = np.searchsorted(columns.node, bounds).tolist()
    kind, ids = columns.kind[first:end], numbering.ids[first:end]
    pos, origin = columns.pos[first:end], columns.dot_node[first:end]
    own = (numbering.owner[origin] == node) & (origin >= 0)
    _log_gaps(run, node, pos, findings)

    sends: Ints = np.flatnonzero(kind == KIND_SEND)
    foreign = ~own[sends]
    _found(findings, "send-foreign", pos, ids, sends[foreign])
    taken = _no_positions(numbering)
    sends = _first_only(taken, "send-duplicate", pos, ids, sends[~foreign], findings)

    deliveries: Ints = np.flatnonzero(kind == KIND_DELIVER)
    if run.total:
        taken = _no_positions(numbering)  # sending is not delivering
    else:
        mine = own[deliveries]
        _found(findings, "deliver-own", pos, ids, deliveries[mine])
        deliveries = deliveries[~mine]
    deliveries = _first_only(taken, "deliver-duplicate", pos, ids, deliveries, findings)
    told = _no_positions(numbering)
    stables: Ints = np.flatnonzero(kind == KIND_STABLE)
    stables = _first_only(told, "stable-duplicate", pos, ids, stables, findings)

    phantoms = np.flatnonzero((kind == KIND_PHANTOM) & ~numbering.is_stream[origin])
    announced = phantoms[origin[phantoms] == node]
    phantoms = phantoms[origin[phantoms] != node]
    marks = np.concatenate([sends[~numbering.is_stream[origin[sends]]], announced])
    marks.sort()
    _send_gaps(run, node, pos, ids, sends, origin[sends], announced, findings)
    return NodeIndex(
        node=node,
        first_row=first,
        length=int(pos[-1]) + 1,
        ended=bool((kind == KIND_CODE[END]).any()),
        send_at=sends, send_id=ids[sends],
        deliver_at=deliveries, deliver_id=ids[deliveries],
        stable_at=stables, stable_id=ids[stables],
        phantom_at=phantoms, phantom_id=ids[phantoms],
        mark_at=marks, mark_id=ids[marks],
        mark_is_send=kind[marks] == KIND_SEND,
        frontier=_frontier(numbering, ids, origin, sends, deliveries, marks),
        delivered=taken,
        told=told,
        findings=findings,
    )  # fmt: skip


def _found(findings: Findings, rule: str, pos: Ints, ids: Ints, rows: Ints) -> None:
    findings.add(rule, pos[rows], ids[rows])


def _no_positions(numbering: Numbering) -> Ints:
    table = np.full(numbering.total, NEVER, np.int32)
    table[numbering.base[:-1]] = -1
    return table


def _first_only(
    table: Ints, rule: str, pos: Ints, ids: Ints, rows: Ints, findings: Findings
) -> Ints:
    """The rows that are the first with their dot, noted in ``table``; the others break ``rule``."""
    dots = ids[rows]
    table[dots[::-1]] = rows[::-1]  # of repeated indices the last assignment stays
    first: Mask = table[dots] == rows
    if bool(first.all()):
        return rows
    _found(findings, rule, pos, ids, rows[~first])
    kept: Ints = rows[first]
    return kept


def _log_gaps(run: Run, node: int, pos: Ints, findings: Findings) -> None:
    columns = run.columns
    gaps = pos[np.diff(pos, prepend=-1) != 1]
    repeated = columns.repeated_pos[columns.repeated_node == node]
    wrong = np.union1d(gaps, repeated)
    findings.add("log-gap", wrong, np.full(len(wrong), -1))


def _send_gaps(
    run: Run, node: int, pos: Ints, ids: Ints, sends: Ints, origin: Ints, announced: Ints,
    findings: Findings,
) -> None:  # fmt: skip
    """A send, or the dot a phantom announces, that is not one after the last send."""
    numbering = run.numbering
    rows, expected = [], []
    for code in used_codes(origin, len(numbering.names)):
        mine = sends[origin == code]
        rows.append(mine)
        expected.append(np.concatenate([numbering.base[code : code + 1], ids[mine[:-1]]]) + 1)
    if len(announced):
        mine = sends[origin == node]
        last = np.concatenate([numbering.base[node : node + 1], ids[mine]])
        rows.append(announced)
        expected.append(last[np.searchsorted(mine, announced)] + 1)
    if not rows:
        return
    at, want = np.concatenate(rows), np.concatenate(expected)
    wrong = ids[at] != want
    at, want = at[wrong], want[wrong]
    findings.add("send-gap", pos[at], ids[at], _gap_missing(numbering, ids[at], want))


def _gap_missing(numbering: Numbering, ids: Ints, expected: Ints) -> Missing:
    def missing(index: int) -> Dot | None:
        before = int(expected[index]) - 1
        if ids[index] < before + 1:
            return None
        # Not the dot of id before + 1: with ranks the next id may be another number.
        return Dot(numbering.names[numbering.origin(before)], numbering.seq(before) + 1)

    return missing


def _frontier(
    numbering: Numbering, ids: Ints, origin: Ints, sends: Ints, deliveries: Ints, marks: Ints
) -> Ints:
    """[origin, mark]: the greatest dot of each origin sent or delivered before each mark."""
    base = numbering.base
    taken = np.zeros(len(ids), np.bool_)
    taken[sends] = True
    taken[deliveries] = True
    rows = np.flatnonzero(taken)
    codes = origin[rows]
    if len(base) < 1 << 15:
        codes = codes.astype(np.int16)  # sorted by counting, much faster
    rows = rows[np.argsort(codes, kind="stable")]
    # Ids grow from origin to origin, so one running maximum serves all of them.
    latest = np.maximum.accumulate(ids[rows])
    marked = np.zeros(len(ids), np.int32)
    marked[marks] = 1
    next_mark = np.cumsum(marked, dtype=np.int32)[rows]
    frontier = np.empty((len(base) - 1, len(marks) + 1), np.int32)
    frontier[:] = base[:-1, None]
    frontier[origin[rows], next_mark] = latest  # of several before a mark the last one stays
    np.maximum.accumulate(frontier, axis=1, out=frontier)
    return frontier[:, :-1]
