"""What happens before what in a run, as the page asks it.

The version vectors of the messages (trace/vectors.py) say everything; here they are carried over
to records.  The records of an application are a sequence.  A message is on its way from its
``send`` to its ``deliver``; its ``receive`` and ``ready`` at a node lie between the two and are in
nobody else's past: an application knows of a message once it took it.  What a restart took back is
in the past of nothing after it, and a send on a stream has in its past what its context says, no
more.

So the past of a record is, for each log, a prefix, but for these exceptions; the future is, for
each log, all from some record on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from thence.trace.columns import Ints, Mask
from thence.trace.layout import KIND_READY, KIND_RECEIVE, Layout
from thence.trace.numbering import KIND_SEND, NEVER
from thence.trace.run import Life, LogIndex, Opened
from thence.trace.vectors import taken_in
from thence.trace.views import all_removals, views_of

NOTHING, PAST, SELF, FUTURE, CONCURRENT = range(5)
"""What a record is to the one that was chosen."""
PATH_STEPS_MAX: Final = 100_000
_NOT_TAKEN: Final = int(NEVER)


class Step(NamedTuple):
    """A link of a causal path: from a row to a later one, and why the one is before the other."""

    tail: int
    head: int
    how: str
    """``log``: one log has them in this order; ``message``: sent there, taken here; ``context``:
    a message on a stream names the other; ``arrival``: the same message on its way."""


class Past(msgspec.Struct, frozen=True):
    """The past of a row."""

    row: int
    prefix: Ints
    """By lane: the last local row in it, -1 for none."""
    vector: Ints
    """By origin: the last dot in it, as an id."""


class Order:
    """Happens-before among the rows of a layout."""

    def __init__(
        self, opened: Opened, logs: Sequence[LogIndex], vectors: Ints, layout: Layout
    ) -> None:
        self.opened, self.logs, self.vectors, self.layout = opened, tuple(logs), vectors, layout
        numbering = opened.run.numbering
        self.numbering = numbering
        self.kind = opened.columns.kind
        self.in_transit: Mask = (self.kind == KIND_RECEIVE) | (self.kind == KIND_READY)
        self.lane_of = {node: lane for lane, node in enumerate(layout.nodes)}
        self.undone, self.taken = self._lives()
        sent = layout.send_row
        self.sent_at: Ints = np.where(sent >= 0, layout.local(np.maximum(sent, 0)), -1)
        """By id: the local row of its send, -1 without one."""
        self.sent_up_to = self.sent_at.copy()
        """The same of the latest send up to it in the log."""
        for origin in range(len(numbering.names)):
            some = self.sent_up_to[numbering.messages(origin)]
            np.maximum.accumulate(some, out=some)
        self.on_stream: Mask = np.zeros(len(layout), np.bool_)
        for log in self.logs:
            self.on_stream[layout.first[self.lane_of[log.node]] + log.stream_at] = True

    def _lives(self) -> tuple[Ints, Ints]:
        """By row: the local row of the restart that took it back (NEVER: none did); and for
        arrivals the local row at which their message was taken (NEVER: never)."""
        layout = self.layout
        undone = np.full(len(layout), _NOT_TAKEN, np.int64)
        taken = np.full(len(layout), _NOT_TAKEN, np.int64)
        for lane, log in enumerate(self.logs):
            first, end = layout.first[lane : lane + 2].tolist()
            for number, life in enumerate(log.lives):
                for later in log.lives[number + 1 :]:
                    _take_back(undone[first:end], life, later)
                last = end - first
                if not life.is_last:
                    last = log.lives[number + 1].start
                rows = np.flatnonzero(self.in_transit[first + life.start : first + last])
                rows = rows + first + life.start
                rows = rows[layout.ids[rows] >= 0]
                when = life.delivered[layout.ids[rows]]
                taken[rows] = np.where(when > layout.local(rows), when, _NOT_TAKEN)
        return undone, taken

    # ---- past and future -------------------------------------------------------------------------

    def life_at(self, lane: int, local: int) -> Life:
        """The life of a log in which a local row is."""
        return [life for life in self.logs[lane].lives if life.start <= local][-1]

    def place(self, row: int) -> tuple[int, int]:
        """(lane, local row)."""
        lane = int(self.layout.lane[row])
        return lane, row - int(self.layout.first[lane])

    def knowledge(self, lane: int, local: int) -> Ints:
        """By origin: the latest dot a node knew of after a local row, by what it had taken."""
        known: Ints = self.numbering.base[:-1].copy()
        if local < 0:
            return known
        at, ids = taken_in(self.life_at(lane, local))
        some = self.vectors[:, ids[at <= local]]
        return np.maximum(known, some.max(axis=1)) if some.shape[1] else known

    def past(self, row: int) -> Past:
        """Everything that happens before a row."""
        lane, local = self.place(row)
        dot = int(self.layout.ids[row])
        is_alone = self.in_transit[row] or self.on_stream[row]
        if is_alone:
            vector = self.numbering.base[:-1] if dot < 0 else self.vectors[:, dot]
        else:
            vector = self.knowledge(lane, local)
        prefix = self.prefix_of(vector)
        if not is_alone:
            prefix[lane] = local
        return Past(row, prefix, vector)

    def prefix_of(self, vector: Ints) -> Ints:
        """By lane: the local row of the last send a vector has of its node."""
        return np.array(self.sent_up_to[vector[list(self.layout.nodes)]])

    def is_past(self, past: Past, rows: Ints) -> Mask:
        """Which of some rows happen before the row whose past this is."""
        found: Mask
        layout, lane = self.layout, self.layout.lane[rows]
        local, limit = layout.local(rows), past.prefix[lane]
        dots = layout.ids[rows]
        origin = np.searchsorted(self.numbering.base, dots, side="right") - 1
        known = (dots >= 0) & (layout.send_row[dots] == rows) & (dots <= past.vector[origin])
        before = ((local <= limit) & (limit < self.undone[rows])) | known
        taken = self.taken[rows]
        gone = self.undone[layout.first[lane] + np.where(taken == _NOT_TAKEN, 0, taken)]
        mine, here = self.place(past.row)
        same = (lane == mine) & (dots == layout.ids[past.row]) & (dots >= 0) & (local < here)
        passed = ((taken <= limit) & (limit < gone)) | (same & self.in_transit[past.row])
        found = np.where(self.in_transit[rows], passed, before)
        found[rows == past.row] = False
        return found

    def future(self, row: int, rows: Ints) -> Mask:
        """Which of some rows happen after ``row``."""
        layout, lane = self.layout, self.layout.lane[rows]
        mine, here = self.place(row)
        start, goals = row, self._goals(row)
        same: Mask = np.zeros(len(rows), np.bool_)
        if self.in_transit[row]:
            dot = layout.ids[row]
            same = (lane == mine) & (layout.ids[rows] == dot) & self.in_transit[rows]
            same &= layout.local(rows) > here
            taken = int(self.taken[row])
            if dot < 0 or not 0 <= taken < NEVER:
                return same
            start = int(layout.first[mine]) + taken
            same |= rows == start
            goals = self._goals(start)
        local = layout.local(rows)
        after = np.zeros(len(rows), np.bool_)
        for which, life in self._known_from(goals):
            first, end = life
            after |= (lane == which) & (local >= first) & (local < end)
        here = self.place(start)[1]
        after |= (lane == mine) & (local > here) & (local < self.undone[start])
        alone = self.in_transit[rows] | self.on_stream[rows]
        dots = layout.ids[rows]
        carried = np.zeros(len(rows), np.bool_)
        for goal in goals:
            origin = self.numbering.origin(goal)
            carried |= (dots >= 0) & (self.vectors[origin, dots] >= goal)
        found: Mask = np.where(alone, carried, after) | same
        found[(rows == row)] = False
        return found

    def _goals(self, row: int) -> list[int]:
        """The messages by which others come to know of a row: whoever knows one of them comes
        after it."""
        lane, local = self.place(row)
        dot = int(self.layout.ids[row])
        own = [dot] if self.kind[row] == KIND_SEND and self.layout.send_row[dot] == row else []
        if self.on_stream[row] and own:
            return own
        some = self.sent_at[self.numbering.messages(self.layout.nodes[lane])]
        later = np.flatnonzero((some >= local) & (some < self.undone[row]))
        base = int(self.numbering.base[self.layout.nodes[lane]]) + 1
        return sorted({*own, *([base + int(later[0])] if len(later) else [])})

    def _known_from(self, goals: Sequence[int]) -> Iterator[tuple[int, tuple[int, int]]]:
        """(lane, (first local row, end)) of each life that knows one of some messages."""
        for lane, log in enumerate(self.logs):
            ends = [life.start for life in log.lives[1:]] + [self._length(lane)]
            for life, end in zip(log.lives, ends, strict=True):
                firsts = [self._first_knowing(life, goal) for goal in goals]
                if firsts and min(firsts) < end:
                    yield lane, (max(min(firsts), life.start), end)

    def _length(self, lane: int) -> int:
        return int(self.layout.first[lane + 1] - self.layout.first[lane])

    def _first_knowing(self, life: Life, goal: int) -> int:
        """The local row at which a life first has something that has a message in its past."""
        at, ids = taken_in(life)
        knows = self.vectors[self.numbering.origin(goal), ids] >= goal
        return int(at[int(np.argmax(knows))]) if knows.any() else _NOT_TAKEN

    def future_from(self, row: int) -> list[tuple[int, int, int]]:
        """(lane, first local row, end): what the future is of the logs of others."""
        start = row
        if self.in_transit[row]:
            lane, _ = self.place(row)
            taken = int(self.taken[row])
            if not 0 <= taken < NEVER:
                return []
            start = int(self.layout.first[lane]) + taken
        return [(lane, *life) for lane, life in self._known_from(self._goals(start))]

    def relation(self, row: int, rows: Ints) -> Ints:
        """By row: what it is to the chosen one."""
        found = np.full(len(rows), CONCURRENT, np.int8)
        found[self.future(row, rows)] = FUTURE
        found[self.is_past(self.past(row), rows)] = PAST
        found[rows == row] = SELF
        return found

    def before(self, one: int, other: int) -> bool:
        """Whether one row happens before another."""
        return bool(self.is_past(self.past(other), np.array([one]))[0])

    # ---- the path that proves it -----------------------------------------------------------------

    def path(self, one: int, other: int) -> list[Step]:
        """Links from one row to another that it happens before; empty if it does not.

        From the later row back, always by the first message taken there that knows of the earlier.
        """
        if one == other or not self.before(one, other):
            return []
        steps: list[Step] = []
        at = other
        if self.in_transit[at]:
            at = self._back_to_send(at, one, steps)
        first = one
        if self.in_transit[one] and at != one:
            lane, _ = self.place(one)
            first = int(self.layout.first[lane] + self.taken[one])
        goals = self._goals(first)
        for _ in range(PATH_STEPS_MAX):
            if at == first or at == one:
                break
            sent = self._back(at, first, goals, steps)
            if sent is None:
                break
            at = sent
        if first != one and at != one:
            steps.append(Step(one, first, "arrival"))
        return steps[::-1]

    def _back_to_send(self, at: int, one: int, steps: list[Step]) -> int:
        """From an arrival to the send of its message, or to ``one`` if that is an arrival of it."""
        dot = int(self.layout.ids[at])
        if self.in_transit[one] and self.layout.ids[one] == dot:
            if self.layout.lane[one] == self.layout.lane[at]:
                steps.append(Step(one, at, "arrival"))
                return one
        sent = int(self.layout.send_row[dot])
        steps.append(Step(sent, at, "message"))
        return sent

    def _back(self, at: int, first: int, goals: list[int], steps: list[Step]) -> int | None:
        """The links from ``at`` to a send before it that is ``first`` or after it; None when one
        log has both, and the path is complete."""
        lane, local = self.place(at)
        if self.on_stream[at]:
            return self._back_in_context(at, goals, steps)
        if lane == self.layout.lane[first] and first < at:
            if local < self.undone[first] and not self.on_stream[first]:
                steps.append(Step(first, at, "log"))
                return first
        at_rows, ids = taken_in(self.life_at(lane, local))
        ids = ids[at_rows <= local]
        knows = np.zeros(len(ids), np.bool_)
        for goal in goals:
            knows |= self.vectors[self.numbering.origin(goal), ids] >= goal
        if not knows.any():
            return None
        which = int(np.argmax(knows))
        dot = int(ids[which])
        taken = int(self.layout.first[lane]) + self._taken_at(lane, local, dot)
        sent = int(self.layout.send_row[dot])
        if taken != at:
            steps.append(Step(taken, at, "log"))
        if sent < 0 or sent == at:
            return None
        if sent != taken:
            steps.append(Step(sent, taken, "message"))
        return sent

    def _taken_at(self, lane: int, local: int, dot: int) -> int:
        """The local row at which a log took what it knows of at a local row: in the life this is
        in, or in an earlier one from which a restart carried it on."""
        for life in reversed(self.logs[lane].lives):
            at, ids = taken_in(life)
            found = at[(ids == dot) & (at >= 0) & (at <= local)]
            if len(found):
                return int(found[0])
        return self.life_at(lane, local).start

    def _back_in_context(self, at: int, goals: list[int], steps: list[Step]) -> int | None:
        """The same from a send on a stream, whose past is what its context names."""
        log = self.logs[int(self.layout.lane[at])]
        dot = int(self.layout.ids[at])
        named = log.stream_context.of(int(np.flatnonzero(log.stream_id == dot)[0])).tolist()
        for before in [*named, dot - 1]:
            sent = int(self.layout.send_row[before])
            knows = [self.vectors[self.numbering.origin(g), before] >= g for g in goals]
            if sent >= 0 and any(knows):
                steps.append(Step(sent, at, "context"))
                return sent
        return None

    # ---- cuts ------------------------------------------------------------------------------------

    def lacking(self, cut: Ints) -> list[tuple[int, int]]:
        """(lane, id): what a cut (the last local row of each lane, -1 for none) lacks to be
        consistent, by the lanes that know of it: the first such dot of each origin."""
        found = []
        for lane in range(len(self.logs)):
            at, ids = self._heard_of(lane)
            inside = self.vectors[:, ids[at <= cut[lane]]]
            if not inside.shape[1]:
                continue
            known = inside.max(axis=1)
            for origin in np.flatnonzero(self._outside(known, cut)).tolist():
                some = self.numbering.messages(origin)
                owner = self.lane_of[int(self.numbering.owner[origin])]
                late = np.flatnonzero(self.sent_at[some] > cut[owner])
                if len(late) and some.start + int(late[0]) <= known[origin]:
                    found.append((lane, some.start + int(late[0])))
        return found

    def _heard_of(self, lane: int) -> tuple[Ints, Ints]:
        """(local row, id) of the messages of a log's records in order: what it took, in whatever
        life, and what arrived."""
        first, end = self.layout.first[lane : lane + 2].tolist()
        arrived = np.flatnonzero(self.in_transit[first:end] & (self.layout.ids[first:end] >= 0))
        taken = [taken_in(life) for life in self.logs[lane].lives]
        at = np.concatenate([arrived, *(rows for rows, _ in taken)])
        ids = np.concatenate([self.layout.ids[first + arrived], *(dots for _, dots in taken)])
        order = np.argsort(at, kind="stable")
        order = order[at[order] >= 0]  # what a restart carried on was taken before
        return at[order], ids[order]

    def _outside(self, vectors: Ints, cut: Ints) -> Mask:
        """[origin(, dot)]: whether vectors have something that was sent after the cut."""
        owner = np.array([self.lane_of.get(int(node), -1) for node in self.numbering.owner])
        limit = np.where(owner >= 0, cut[owner], _NOT_TAKEN)
        outside: Mask = self.sent_up_to[vectors] > (limit if vectors.ndim == 1 else limit[:, None])
        return outside

    def consistent_within(self, cut: Ints) -> Ints:
        """The greatest consistent cut inside this one."""
        cut = cut.copy()
        heard = [self._heard_of(lane) for lane in range(len(self.logs))]
        changed = True
        while changed:
            changed = False
            for lane, (at, ids) in enumerate(heard):
                some = at <= cut[lane]
                bad = self._outside(self.vectors[:, ids[some]], cut).any(axis=0)
                if bad.any():
                    cut[lane] = int(at[some][int(np.argmax(bad))]) - 1
                    changed = True
        return cut

    # ---- stability -------------------------------------------------------------------------------

    def stable_up_to(self, lane: int, local: int) -> Ints:
        """By origin: the last dot up to which all was told stable at a node after a local row."""
        stable: Ints = self.numbering.base[:-1].copy()
        if local < 0:
            return stable
        told = self.life_at(lane, local).told
        for origin in range(len(stable)):
            whole = np.maximum.accumulate(told[self.numbering.messages(origin)])
            stable[origin] += int(np.searchsorted(whole, local, side="right"))
        return stable

    def group_at(self, cut: Sequence[int]) -> list[int]:
        """The lanes of the nodes that belong to the group at a cut (the last local row of each
        lane): without who is yet to join, who left, and who was removed by what any log inside
        says.  All lanes if that is nobody."""
        removed = {
            removal.node
            for log, last in zip(self.logs, cut, strict=True)
            for removal in all_removals(log.changes)
            if removal.at <= last
        }
        found = []
        for lane, (log, last) in enumerate(zip(self.logs, cut, strict=True)):
            views = views_of(log.node, self.opened.run.members, log.changes)
            epoch = max(0, int(views.epoch(np.array([last]))[0]))
            if log.node in views.members[epoch] and log.node not in removed:
                found.append(lane)
        return found or list(range(len(self.logs)))


def _take_back(undone: Ints, life: Life, later: Life) -> None:
    """Note the rows of a life that a later one begins without."""
    for rows, ids, table in (
        (life.deliver_at, life.deliver_id, later.delivered),
        (life.stable_at, life.stable_id, later.told),
    ):
        gone = rows[table[ids] >= later.start]
        undone[gone] = np.minimum(undone[gone], later.start)
