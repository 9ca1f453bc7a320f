"""One pass over one node's log: what it sent, delivered and was told, and when.

Positions here are rows counted from the beginning of the node's own log: only their order
matters.  The rules about a single log (foreign, repeated and skipped dots) are found on the way;
what the first two reject takes no further part: a foreign or repeated record is as if it were not
there, so that one fault is one violation.

A log is read by its *lives*: a ``restart`` begins another one, with what was confirmed before it
(docs/reference/trace.md).  Nearly every log has one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thence.causal.dot import Dot
from thence.trace.columns import KIND_CODE, Ints, Mask, used_codes
from thence.trace.numbering import KIND_DELIVER, KIND_PHANTOM, KIND_SEND, KIND_STABLE, NEVER
from thence.trace.record import END, RESTART, SNAPSHOT
from thence.trace.run import Contexts, Life, LogIndex, Opened
from thence.trace.verdict import Findings, Missing
from thence.trace.views import ChangeRecord, changes_view

KIND_RESTART = KIND_CODE[RESTART]
KIND_SNAPSHOT = KIND_CODE[SNAPSHOT]


def index_log(opened: Opened, node: int) -> LogIndex:
    """Read one node's log."""
    return _Reading(opened, node).index()


class _Reading:
    """One node's log while it is read."""

    def __init__(self, opened: Opened, node: int) -> None:
        columns = opened.columns
        bounds = np.array([node, node + 1], columns.node.dtype)
        first, end = np.searchsorted(columns.node, bounds).tolist()
        self.opened, self.run, self.node = opened, opened.run, node
        self.numbering = opened.run.numbering
        self.first, self.rows = first, end - first
        self.kind, self.ids = columns.kind[first:end], opened.ids[first:end]
        self.pos, self.origin = columns.pos[first:end], columns.dot_node[first:end]
        self.findings = Findings()

    def index(self) -> LogIndex:
        kind, origin = self.kind, self.origin
        phantoms = np.flatnonzero((kind == KIND_PHANTOM) & ~self.numbering.is_stream[origin])
        announced = phantoms[origin[phantoms] == self.node]
        phantoms = phantoms[origin[phantoms] != self.node]
        positions, repeated = self._log_gaps()
        sends = self._sends(announced)
        on_stream = self.numbering.is_stream[origin[sends]]
        streams = sends[on_stream]
        marks = np.concatenate([sends[~on_stream], announced])
        marks.sort()
        return LogIndex(
            node=self.node,
            events=self.rows + repeated,
            length=int(self.pos[-1]) + 1,
            ended=bool((kind == KIND_CODE[END]).any()),
            positions=positions,
            changes=self._changes(),
            phantom_at=phantoms, phantom_id=self.ids[phantoms],
            phantom_context=self._contexts(phantoms),
            stream_at=streams, stream_id=self.ids[streams],
            stream_context=self._contexts(streams),
            recipients=self._recipients(sends),
            lives=tuple(self._lives(sends, marks)),
            findings=self.findings,
        )  # fmt: skip

    def _found(self, rule: str, rows: Ints) -> None:
        self.findings.add(rule, self.pos[rows], self.ids[rows])

    def _log_gaps(self) -> tuple[Ints | None, int]:
        """log-gap; the positions unless they are the rows, and how many records repeat one."""
        columns = self.opened.columns
        gaps = self.pos[np.diff(self.pos, prepend=-1) != 1]
        repeated = columns.repeated_pos[columns.repeated_node == self.node]
        wrong = np.union1d(gaps, repeated)
        self.findings.add("log-gap", wrong, np.full(len(wrong), -1))
        return (self.pos if len(gaps) else None), len(repeated)

    def _sends(self, announced: Ints) -> Ints:
        """The sends that take part: the node's own, once each."""
        sends: Ints = np.flatnonzero(self.kind == KIND_SEND)
        foreign = self.numbering.owner[self.origin[sends]] != self.node
        self._found("send-foreign", sends[foreign])
        sends = sends[~foreign]
        first = np.zeros(self.numbering.total, np.int32)
        dots = self.ids[sends]
        first[dots[::-1]] = sends[::-1]  # of repeated indices the last assignment stays
        again = first[dots] != sends
        if bool(again.any()):
            self._found("send-duplicate", sends[again])
            sends = sends[~again]
        self._send_gaps(sends, announced)
        return sends

    def _send_gaps(self, sends: Ints, announced: Ints) -> None:
        """A send, or the dot a phantom announces, that is not one after the last send."""
        numbering, origin = self.numbering, self.origin[sends]
        rows, expected = [], []
        for code in used_codes(origin, len(numbering.names)):
            mine = sends[origin == code]
            rows.append(mine)
            before = [numbering.base[code : code + 1], self.ids[mine[:-1]]]
            expected.append(np.concatenate(before) + 1)
        if len(announced):
            mine = sends[origin == self.node]
            last = np.concatenate([numbering.base[self.node : self.node + 1], self.ids[mine]])
            rows.append(announced)
            expected.append(last[np.searchsorted(mine, announced)] + 1)
        if not rows:
            return
        at, want = np.concatenate(rows), np.concatenate(expected)
        wrong = self.ids[at] != want
        at, want = at[wrong], want[wrong]
        missing = np.where(self.ids[at] < want, -1, want)
        if numbering.ranked:
            # The next id may be another number than the next one.
            self.findings.add("send-gap", self.pos[at], self.ids[at], self._skipped(missing))
        else:
            self.findings.add("send-gap", self.pos[at], self.ids[at], missing)

    def _skipped(self, expected: Ints) -> Missing:
        numbering = self.numbering

        def missing(index: int) -> Dot | None:
            before = int(expected[index]) - 1
            if before < 0:
                return None
            return Dot(numbering.names[numbering.origin(before)], numbering.seq(before) + 1)

        return missing

    def _contexts(self, rows: Ints) -> Contexts:
        columns = self.opened.columns
        start = columns.context_start
        at = self.first + rows
        return Contexts(start[at], start[at + 1], self.opened.context_ids, columns.context_node)

    def _recipients(self, sends: Ints) -> dict[int, tuple[int, ...]]:
        to = self.opened.columns.to
        if not to:
            return {}
        pairs = zip((self.first + sends).tolist(), self.ids[sends].tolist(), strict=True)
        return {dot: to[row] for row, dot in pairs if row in to}

    def _changes(self) -> tuple[ChangeRecord, ...]:
        columns = self.opened.columns
        rows = sorted(row for row in columns.changes if 0 <= row - self.first < self.rows)
        return tuple(
            ChangeRecord(
                row - self.first,
                int(columns.kind[row]),
                columns.changes[row].peer,
                int(columns.dot_node[row]),
                int(columns.dot_seq[row]),
                columns.to.get(row),
            )
            for row in rows
            if changes_view(int(columns.kind[row]), row in columns.to)
        )

    # Lives.

    def _lives(self, sends: Ints, marks: Ints) -> Iterator[Life]:
        kind, own = self.kind, self.numbering.owner[self.origin] == self.node
        deliveries: Ints = np.flatnonzero(kind == KIND_DELIVER)
        if not self.run.total:
            mine = own[deliveries]
            self._found("deliver-own", deliveries[mine])
            deliveries = deliveries[~mine]
        stables: Ints = np.flatnonzero(kind == KIND_STABLE)
        restarts = np.flatnonzero(kind == KIND_RESTART).tolist()
        starts, ends = [0, *restarts], [*restarts, self.rows]
        delivered: Ints | None = None
        told: Ints | None = None
        carried: Ints = np.zeros(0, np.int32)
        for start, end in zip(starts, ends, strict=True):
            if delivered is not None and told is not None:
                before = sends[sends < start]
                delivered, told = self._carry(start, delivered, told, before)
                carried = self._latest(delivered, before)
            life = self._life(
                start, end, _within(sends, start, end), _within(deliveries, start, end),
                _within(stables, start, end), _within(marks, start, end),
                delivered, told, carried,
            )  # fmt: skip
            yield life
            delivered, told = life.delivered, life.told

    def _carry(self, row: int, delivered: Ints, told: Ints, sends: Ints) -> tuple[Ints, Ints]:
        """The tables with what a restart's record does not cover taken back."""
        change = self.opened.columns.changes[self.first + row]
        if change.has_context:
            some = self._contexts(np.array([row]))
            kept = self._covered(some.pairs(0))
            if not self.run.total:
                kept[self.ids[sends]] = True
            delivered = np.where(kept, delivered, np.int32(NEVER))
        if change.stable is not None:
            dots = [(code, self.numbering.id_of(code, seq)) for code, seq in change.stable]
            told = np.where(self._covered(dots), told, np.int32(NEVER))
        return delivered, told

    def _covered(self, dots: list[tuple[int, int]]) -> Mask:
        """By id: whether one of (origin, id) is it or a later one; "nothing" always is."""
        covered = np.zeros(self.numbering.total, np.bool_)
        covered[self.numbering.base[:-1]] = True
        for origin, dot in dots:
            covered[int(self.numbering.base[origin]) : dot + 1] = True
        return covered

    def _latest(self, delivered: Ints, sends: Ints) -> Ints:
        """The latest dot of each origin that is there or was sent."""
        there = delivered != NEVER
        there[self.ids[sends]] = True
        latest = []
        for origin in range(len(self.numbering.names)):
            some = self.numbering.messages(origin)
            found = np.flatnonzero(there[some])
            if len(found):
                latest.append(some.start + int(found[-1]))
        return np.array(latest, np.int32)

    def _life(
        self, start: int, end: int, sends: Ints, deliveries: Ints, stables: Ints, marks: Ints,
        delivered: Ints | None, told: Ints | None, carried: Ints,
    ) -> Life:  # fmt: skip
        table = self._nothing() if delivered is None else delivered.copy()
        if not self.run.total:
            # A dot that a snapshot brought before a restart is there since then.
            table[self.ids[sends]] = np.minimum(table[self.ids[sends]], sends)
        snapshot_at, snapshot_id, covers, tells = self._snapshots(start, end)
        deliveries = self._first_only(table, "deliver-duplicate", deliveries, covers)
        told = self._nothing() if told is None else told.copy()
        stables = self._first_only(told, "stable-duplicate", stables, tells)
        taken = (sends, deliveries, snapshot_at, snapshot_id, carried)
        return Life(
            start=start,
            is_last=end == self.rows,
            send_at=sends, send_id=self.ids[sends],
            deliver_at=deliveries, deliver_id=self.ids[deliveries],
            stable_at=stables, stable_id=self.ids[stables],
            snapshot_at=snapshot_at, snapshot_id=snapshot_id, carried_id=carried,
            mark_at=marks, mark_id=self.ids[marks],
            mark_is_send=self.kind[marks] == KIND_SEND,
            mark_context=self._contexts(marks),
            frontier=self._frontier(marks, *taken),
            delivered=table,
            told=told,
        )  # fmt: skip

    def _snapshots(
        self, start: int, end: int
    ) -> tuple[Ints, Ints, list[tuple[int, Mask]], list[tuple[int, Mask]]]:
        """What snapshots name (rows, ids), and by row what each takes and what was told in it."""
        rows = _within(np.flatnonzero(self.kind == KIND_SNAPSHOT), start, end)
        at: list[int] = []
        named: list[int] = []
        covers: list[tuple[int, Mask]] = []
        tells: list[tuple[int, Mask]] = []
        contexts = self._contexts(rows)
        for which, row in enumerate(rows.tolist()):
            pairs = sorted(set(contexts.pairs(which)))
            at += [row] * len(pairs)
            named += [dot for _, dot in pairs]
            covers.append((row, self._covered(pairs)))
            stable = self.opened.columns.changes[self.first + row].stable or ()
            dots = [(code, self.numbering.id_of(code, seq)) for code, seq in stable]
            tells.append((row, self._covered(dots)))
        return np.array(at, np.int64), np.array(named, np.int32), covers, tells

    def _nothing(self) -> Ints:
        table = np.full(self.numbering.total, NEVER, np.int32)
        table[self.numbering.base[:-1]] = -1
        return table

    def _first_only(
        self, table: Ints, rule: str, rows: Ints, covers: list[tuple[int, Mask]]
    ) -> Ints:
        """The rows that are the first with their dot, noted in ``table``; others break ``rule``.

        ``covers`` holds by row what happens there to many dots at once.
        """
        dots = self.ids[rows]
        before = table[dots]
        table[dots[::-1]] = rows[::-1]  # of repeated indices the last assignment stays
        if bool((before != NEVER).any()):
            table[dots] = np.minimum(table[dots], before)
        for row, covered in covers:
            table[covered & (table > row)] = row
        first: Mask = table[dots] == rows
        if bool(first.all()):
            return rows
        self._found(rule, rows[~first])
        kept: Ints = rows[first]
        return kept

    def _frontier(
        self, marks: Ints, sends: Ints, deliveries: Ints, snapshot_at: Ints, snapshot_id: Ints,
        carried: Ints,
    ) -> Ints:  # fmt: skip
        """[origin, mark]: the greatest dot of each origin sent or delivered before each mark."""
        base = self.numbering.base
        taken = np.zeros(self.rows, np.bool_)
        taken[sends] = True
        taken[deliveries] = True
        rows = np.flatnonzero(taken)
        codes, ids = self.origin[rows], self.ids[rows]
        if len(base) < 1 << 15:
            codes = codes.astype(np.int16)  # sorted by counting, much faster
        if len(snapshot_at) or len(carried):
            more = np.concatenate([carried, snapshot_id])
            at = np.concatenate([np.full(len(carried), -1), snapshot_at])
            rows, ids = np.concatenate([at, rows]), np.concatenate([more, ids])
            new = np.searchsorted(base, more, side="right") - 1
            codes = np.concatenate([new.astype(codes.dtype), codes])
            in_order = np.argsort(rows, kind="stable")
            rows, ids, codes = rows[in_order], ids[in_order], codes[in_order]
            next_mark: Ints = np.searchsorted(marks, rows, side="right")
        else:
            marked = np.zeros(self.rows, np.int32)
            marked[marks] = 1
            next_mark = np.cumsum(marked, dtype=np.int32)[rows]
        order = np.argsort(codes, kind="stable")
        # Ids grow from origin to origin, so one running maximum serves all of them.
        latest = np.maximum.accumulate(ids[order])
        frontier = np.empty((len(base) - 1, len(marks) + 1), np.int32)
        frontier[:] = base[:-1, None]
        # Of several before a mark the last one stays.
        frontier[codes[order], next_mark[order]] = latest
        np.maximum.accumulate(frontier, axis=1, out=frontier)
        return frontier[:, :-1]


def _within(rows: Ints, start: int, end: int) -> Ints:
    first, stop = np.searchsorted(rows, [start, end]).tolist()
    return rows[first:stop]
