"""Where the records of a run are in a space-time diagram, and what is drawn between them.

A lane for each log, and for each record two coordinates along it: its clock, and its *level*, the
length of the longest chain of records that lead to it (one log after the other, a send before its
arrivals).  Levels need no clock, an arrow never goes back, and what is concurrent may be side by
side.  In the causal graph a message has a *depth* instead: the longest chain of contexts.

Everything here is arrays by *row*, the row of a record in the columns of the run; -1 is none.
Nothing is drawn here: a page, or a picture, takes what it shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from thence.trace.columns import ABSENT, KIND_CODE, T_US, Ints
from thence.trace.numbering import KIND_DELIVER, KIND_PHANTOM, NEVER, Numbering
from thence.trace.record import READY, RECEIVE, SNAPSHOT
from thence.trace.run import Life, LogIndex, Opened

KIND_RECEIVE: Final = KIND_CODE[RECEIVE]
KIND_READY: Final = KIND_CODE[READY]
KIND_SNAPSHOT: Final = KIND_CODE[SNAPSHOT]
ARROW_MESSAGE: Final = 0
ARROW_PHANTOM: Final = 1
CHUNK_ENTRIES: Final = 1 << 22  # of vectors that are looked at together
_NO_ROW: Final = -1


class Arrows(msgspec.Struct, frozen=True, kw_only=True):
    """From a row to a row."""

    tail: Ints
    head: Ints
    kind: Ints
    """ARROW_MESSAGE or ARROW_PHANTOM."""


class Holds(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in the hold-back queue, by arrival."""

    row: Ints
    """The ``receive``."""
    until: Ints
    """The row of its ``ready`` or ``deliver``; -1: it waits to the end."""
    missing: Ints
    """The id of the predecessor that arrived last, or, if all had arrived, that was ready last; -1:
    nothing of its past was missing, and it waited for its turn."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """Where everything is."""

    nodes: tuple[int, ...]
    """By lane: the code of its node."""
    first: Ints
    """By lane: its first row; one more entry: the number of rows."""
    lane: Ints
    ids: Ints
    """By row: the id of its dot, -1 without one and for one that no rule knows."""
    level: Ints
    t_us: Ints
    has_clock: bool
    """Whether clocks say anything."""
    send_row: Ints
    """By dot id: where it was sent, -1 if no log says so."""
    arrows: Arrows
    holds: Holds
    depth: Ints
    """By row of a send: its depth in the causal graph, from 1; -1 for other rows."""
    edges: Arrows
    """From the send of a dot in a context to the send that names it."""

    def __len__(self) -> int:
        return len(self.lane)

    def local(self, rows: Ints) -> Ints:
        """Rows counted from the beginning of their logs, as in ``LogIndex``."""
        return rows - self.first[self.lane[rows]]


def lay_out(opened: Opened, logs: Sequence[LogIndex], vectors: Ints) -> Layout:
    """Lay out a run.  ``logs``: of ``opened.nodes``, in this order; ``vectors``: of their dots."""
    columns = opened.columns
    codes = np.array(opened.nodes, columns.node.dtype)
    first = np.append(np.searchsorted(columns.node, codes), len(columns)).astype(np.int64)
    lane = np.repeat(np.arange(len(codes)), np.diff(first)).astype(np.int32)
    ids = _ids(opened)
    send_row = _send_rows(opened.run.numbering, logs, first)
    arrows = _arrows(opened, lane, ids, send_row)
    needs = _needs(columns.kind, lane, ids, send_row, arrows)
    level = _levels(first, needs, _held_by_snapshots(opened, lane, send_row))
    t_us, has_clock = _clocks(columns.measured, first)
    edges = _edges(opened, send_row)
    return Layout(
        nodes=opened.nodes, first=first, lane=lane, ids=ids, level=level,
        t_us=t_us, has_clock=has_clock, send_row=send_row, arrows=arrows,
        holds=_holds(opened, logs, vectors, first, ids),
        depth=_depths(opened.run.numbering, level, send_row, edges),
        edges=edges,
    )  # fmt: skip


def _ids(opened: Opened) -> Ints:
    """The ids of all rows; ``open_run`` numbers only those that rules look at."""
    columns, numbering = opened.columns, opened.run.numbering
    ids: Ints = opened.ids.astype(np.int32, copy=True)
    arrivals = (columns.kind == KIND_RECEIVE) | (columns.kind == KIND_READY)
    ids[(columns.dot_node < 0) | arrivals] = -1
    rows = np.flatnonzero(arrivals & (columns.dot_node >= 0))
    origin, seq = columns.dot_node[rows], columns.dot_seq[rows]
    count = numbering.count.copy()
    count[list(numbering.ranked)] = 0
    plain = seq <= count[origin]
    ids[rows[plain]] = numbering.base[origin[plain]] + seq[plain]
    for code, known in numbering.ranked.items():
        some = rows[origin == code]
        place = np.searchsorted(known, columns.dot_seq[some])
        there = (place < len(known)) & (
            known[np.minimum(place, len(known) - 1)] == columns.dot_seq[some]
        )
        ids[some[there]] = numbering.base[code] + place[there] + 1
    return ids


def _send_rows(numbering: Numbering, logs: Sequence[LogIndex], first: Ints) -> Ints:
    rows = np.full(numbering.total, _NO_ROW, np.int64)
    for lane, log in enumerate(logs):
        for life in log.lives:
            rows[life.send_id] = life.send_at + first[lane]
    return rows


def _clocks(measured: Ints | None, first: Ints) -> tuple[Ints, bool]:
    """Clocks by row, those that a log does not say as the last one it said."""
    if measured is None:
        return np.zeros(int(first[-1]), np.int64), False
    t_us = measured[T_US].astype(np.int64, copy=True)
    for lane in range(len(first) - 1):
        clock = t_us[first[lane] : first[lane + 1]]
        said = clock != ABSENT
        if not said.all():
            last = np.maximum.accumulate(np.where(said, np.arange(len(clock)), -1))
            at = np.where(last < 0, int(np.argmax(said)), last)
            clock[:] = clock[at] if said.any() else 0
    return t_us, len(t_us) > 0 and bool(t_us.max() > t_us.min())


def _arrows(opened: Opened, lane: Ints, ids: Ints, send_row: Ints) -> Arrows:
    """A message to its first record at each other node, a phantom to where it is heard."""
    kind, total = opened.columns.kind, opened.run.numbering.total
    arrivals = (kind == KIND_RECEIVE) | (kind == KIND_READY) | (kind == KIND_DELIVER)
    rows = np.flatnonzero(arrivals & (ids >= 0))
    rows = rows[send_row[ids[rows]] >= 0]
    _, once = np.unique(lane[rows].astype(np.int64) * total + ids[rows], return_index=True)
    rows = rows[np.sort(once)]
    rows = rows[lane[send_row[ids[rows]]] != lane[rows]]
    announced, heard = _phantoms(opened, lane, ids)
    return Arrows(
        tail=np.concatenate([send_row[ids[rows]], announced]),
        head=np.concatenate([rows, heard]),
        kind=np.repeat([ARROW_MESSAGE, ARROW_PHANTOM], [len(rows), len(heard)]).astype(np.int8),
    )


def _phantoms(opened: Opened, lane: Ints, ids: Ints) -> tuple[Ints, Ints]:
    """The rows at which phantoms were announced, and at which those were heard.

    A node announces the same dot, its next one, until it sends it: which phantom was heard is told
    by the context.  Of those that say the same, the n-th that a node heard is taken for the n-th
    announced: none can have been heard before that.
    """
    columns = opened.columns
    rows = np.flatnonzero((columns.kind == KIND_PHANTOM) & (ids >= 0))
    own = columns.dot_node[rows] == columns.node[rows]
    announced: dict[tuple[int, bytes], list[int]] = {}
    for row in rows[own].tolist():
        announced.setdefault((int(ids[row]), _spoken(opened, row)), []).append(row)
    times: dict[tuple[int, int, bytes], int] = {}
    tails, heads = [], []
    for row in rows[~own].tolist():
        dot, context = int(ids[row]), _spoken(opened, row)
        known = announced.get((dot, context))
        if known is not None:
            before = times.get((int(lane[row]), dot, context), 0)
            times[int(lane[row]), dot, context] = before + 1
            tails.append(known[min(before, len(known) - 1)])
            heads.append(row)
    return np.array(tails, np.int64), np.array(heads, np.int64)


def _spoken(opened: Opened, row: int) -> bytes:
    """The context of a phantom as it travels, which is without streams, to compare."""
    columns = opened.columns
    some = slice(int(columns.context_start[row]), int(columns.context_start[row + 1]))
    node, seq = columns.context_node[some], columns.context_seq[some]
    travels = ~opened.run.numbering.is_stream[node]
    pairs = np.stack([node[travels], seq[travels]], axis=1).astype(np.int64)
    return pairs[np.lexsort(pairs.T)].tobytes()


def _needs(kind: Ints, lane: Ints, ids: Ints, send_row: Ints, arrows: Arrows) -> Ints:
    """By row: the row in another log that has to come first, -1 for none."""
    arrives = ((kind == KIND_RECEIVE) | (kind == KIND_READY) | (kind == KIND_DELIVER)) & (ids >= 0)
    needs: Ints = np.where(arrives, send_row[np.where(arrives, ids, 0)], _NO_ROW)
    phantoms = arrows.kind == ARROW_PHANTOM
    needs[arrows.head[phantoms]] = arrows.tail[phantoms]
    needs[(needs >= 0) & (lane[needs] == lane)] = _NO_ROW  # its own log has put it before
    return needs


def _held_by_snapshots(opened: Opened, lane: Ints, send_row: Ints) -> dict[int, list[int]]:
    """By row of a snapshot: the rows in other logs at which what it contains was last sent."""
    columns, found = opened.columns, dict[int, list[int]]()
    for row in np.flatnonzero(columns.kind == KIND_SNAPSHOT).tolist():
        some = slice(int(columns.context_start[row]), int(columns.context_start[row + 1]))
        sent = send_row[opened.context_ids[some]]
        sent = sent[(sent >= 0) & (lane[sent] != lane[row])]
        if len(sent):
            found[row] = sent.tolist()
    return found


def _levels(first: Ints, needs: Ints, more: dict[int, list[int]]) -> Ints:
    """By row: one more than the record before it in its log and than what it needs; ``more``: rows
    that need several.

    A walk: each log goes on until it meets a row that needs one without a level.  Where logs
    contradict each other, the one furthest behind goes on without.
    """
    need: list[int] = needs.tolist()
    for row, rows in more.items():
        need[row] = rows.pop()
    ends: list[int] = first[1:].tolist()
    cursor: list[int] = first[:-1].tolist()
    reached = [0] * len(ends)
    level = [-1] * len(need)
    waiting: dict[int, list[int]] = {}
    waits_for: dict[int, int] = {}
    ready = list(range(len(ends)))
    while ready:
        while ready:
            log = ready.pop()
            row, end, now = cursor[log], ends[log], reached[log]
            while row < end:
                before = need[row]
                if before >= 0:
                    sent = level[before]
                    if sent < 0:
                        waiting.setdefault(before, []).append(log)
                        waits_for[log] = before
                        break
                    if sent > now:
                        now = sent
                    if more.get(row):
                        need[row] = more[row].pop()
                        continue
                now += 1
                level[row] = now
                if row in waiting:
                    ready += waiting.pop(row)
                row += 1
            cursor[log], reached[log] = row, now
        behind = [log for log, end in enumerate(ends) if cursor[log] < end]
        if behind:
            log = min(behind, key=lambda one: reached[one])
            waiting[waits_for[log]].remove(log)
            need[cursor[log]] = more[cursor[log]].pop() if more.get(cursor[log]) else _NO_ROW
            ready.append(log)
    return np.array(level, np.int64)


def _edges(opened: Opened, send_row: Ints) -> Arrows:
    """The contexts of what was sent, as pairs of sends."""
    columns = opened.columns
    sends = np.sort(send_row[send_row >= 0])
    begin = columns.context_start[sends].astype(np.int64)
    count = columns.context_start[sends + 1].astype(np.int64) - begin
    entry = np.arange(int(count.sum())) + np.repeat(begin - (np.cumsum(count) - count), count)
    tail, head = send_row[opened.context_ids[entry]], np.repeat(sends, count)
    known = tail >= 0
    return Arrows(tail=tail[known], head=head[known], kind=np.zeros(int(known.sum()), np.int8))


def _depths(numbering: Numbering, level: Ints, send_row: Ints, edges: Arrows) -> Ints:
    """Depths of sends, along contexts and along each origin."""
    depth = [-1] * len(level)
    sent = np.flatnonzero(send_row >= 0)
    own = send_row[sent - 1]  # the id before the first message of an origin has no row
    tail = np.concatenate([edges.tail, own[own >= 0]])
    head = np.concatenate([edges.head, send_row[sent][own >= 0]])
    # Contexts lead from lower to higher levels, so in this order whatever leads to a send is done.
    by_head = np.lexsort((head, level[head]))
    for row in send_row[sent].tolist():
        depth[row] = 1
    for before, after in zip(tail[by_head].tolist(), head[by_head].tolist(), strict=True):
        if depth[before] >= depth[after]:
            depth[after] = depth[before] + 1
    return np.array(depth, np.int64)


def _holds(
    opened: Opened, logs: Sequence[LogIndex], vectors: Ints, first: Ints, ids: Ints
) -> Holds:
    """What arrived before something of its past was there."""
    found = [
        _holds_of(opened, log, life, vectors, int(first[lane]), ids, recipients_of(logs, log.node))
        for lane, log in enumerate(logs)
        for life in log.lives
    ]
    none = np.zeros(0, np.int64)
    row, until, missing = (
        np.concatenate([none, *(each[part] for each in found)]) for part in range(3)
    )
    return Holds(row=row, until=until, missing=missing)


def recipients_of(logs: Sequence[LogIndex], node: int) -> Ints:
    """The ids of multicasts that were not for a node: nobody waits for them there."""
    return np.array(
        [dot for log in logs for dot, to in log.recipients.items() if node not in to], np.int64
    )


def here_from(
    opened: Opened, log: LogIndex, life: Life, start: int, ids: Ints, not_for: Ints,
    kinds: tuple[int, ...],
) -> Ints:  # fmt: skip
    """By id: the local row from which on a node has it and all before it of its origin; NEVER
    without one.  It has what it took, and what it has a record of these kinds of.

    ``start``: the first row of the log.
    """
    there: Ints = life.delivered.astype(np.int64)
    there[not_for] = -1
    found = np.flatnonzero(np.isin(_kinds(opened, log, life, start), kinds)) + life.start
    found = found[ids[start + found] >= 0]
    np.minimum.at(there, ids[start + found], found)
    for origin in range(len(opened.run.numbering.names)):
        some = opened.run.numbering.messages(origin)
        np.maximum.accumulate(there[some], out=there[some])
    return there


def _kinds(opened: Opened, log: LogIndex, life: Life, start: int) -> Ints:
    """The kinds of the records of one life."""
    later = [other.start for other in log.lives if other.start > life.start]
    node = opened.columns.node
    end = start + min(later) if later else int(np.searchsorted(node, node[start], side="right"))
    return opened.columns.kind[start + life.start : end]


def _holds_of(
    opened: Opened, log: LogIndex, life: Life, vectors: Ints, start: int, ids: Ints, not_for: Ints
) -> tuple[Ints, Ints, Ints]:
    ready = here_from(opened, log, life, start, ids, not_for, (KIND_READY,))
    arrived = here_from(opened, log, life, start, ids, not_for, (KIND_READY, KIND_RECEIVE))
    kinds = _kinds(opened, log, life, start)
    rows = np.flatnonzero(kinds == KIND_RECEIVE) + life.start
    rows = rows[ids[start + rows] >= 0]
    dots = ids[start + rows]
    worst = np.full(len(rows), -1, np.int64)
    step = max(1, CHUNK_ENTRIES // max(1, len(vectors)))
    for begin in range(0, len(rows), step):
        some = slice(begin, begin + step)
        held = _worst(opened.run.numbering, vectors, ready, rows[some], dots[some])
        absent = _worst(opened.run.numbering, vectors, arrived, rows[some], dots[some])
        worst[some] = np.where((held >= 0) & (absent >= 0), absent, held)
    until = _first_handed(opened.run.numbering.total, kinds, ids[start + life.start :])[dots]
    until = np.where(until == NEVER, NEVER, until + life.start)
    # In a total order a message may have all of its past and wait for its turn.
    waits = (worst >= 0) | (opened.run.total & (until > rows + 1))
    until = np.where(until == NEVER, _NO_ROW, until + start)
    return rows[waits] + start, until[waits], worst[waits]


def _first_handed(total: int, kinds: Ints, ids: Ints) -> Ints:
    """By id: where it is first ready or delivered in these records, NEVER without that."""
    found = np.full(total, NEVER, np.int64)
    rows = np.flatnonzero((kinds == KIND_READY) | (kinds == KIND_DELIVER))
    rows = rows[ids[rows] >= 0]
    np.minimum.at(found, ids[rows], rows)
    return found


def _worst(numbering: Numbering, vectors: Ints, whole: Ints, rows: Ints, dots: Ints) -> Ints:
    """By arrival: the dot of its past that was there last, if that was after the arrival."""
    need = vectors[:, dots].astype(np.int64)
    origin = np.searchsorted(numbering.base, dots, side="right") - 1
    need[origin, np.arange(len(dots))] = dots - 1
    when = whole[need]
    last = np.argmax(when, axis=0)
    latest = when[last, np.arange(len(dots))]
    worst = np.full(len(dots), -1, np.int64)
    for place in np.flatnonzero(latest > rows).tolist():
        some = numbering.messages(int(last[place]))
        worst[place] = some.start + int(np.searchsorted(whole[some], latest[place]))
    return worst
