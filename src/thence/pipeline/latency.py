"""When the messages of a log arrived, could be handed over, were, and became stable.

One log at a time, in NumPy, from what the checker knows of the run (thence.trace): a duration at a
node is the time between two records of its own log, and which two is a question of the causal
past.  The definitions are those of docs/reference/metrics.md:

- a message has *arrived with its past* at the last arrival among it and its past, which is one
  gather of the arrivals over its version vector (``complete_from``);
- it can be stable once every other member is known to be past it by what has arrived, each piece
  of evidence with its past: the same look-ups as in the rules on stability, over arrivals instead
  of deliveries, and followed back through the views of the log.

Rows are rows of one log, in 32 bits; ``NEVER`` is the row of what was not logged.  Where the
records do not say it the result is null, never a guess.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from thence.pipeline.cpu_times import Spent
from thence.pipeline.log import Log
from thence.pipeline.metrics.base import ARROW
from thence.pipeline.observed import AboutLog, Messages
from thence.trace.check import Facts
from thence.trace.columns import ABSENT, KIND_CODE, Ints, Mask
from thence.trace.gathers import prefix_max, suffix_min
from thence.trace.numbering import NEVER, Numbering
from thence.trace.record import READY, RECEIVE
from thence.trace.rules_deliver import complete_from, expected_here
from thence.trace.run import Life
from thence.trace.vectors import context_vectors
from thence.trace.views import Views, views_of

KIND_RECEIVE: Final = KIND_CODE[RECEIVE]
KIND_READY: Final = KIND_CODE[READY]
ROWS_AT_A_TIME: Final = 1 << 17
"""Of the table, in memory: about 200 bytes each."""


def send_times(total: int, logs: Iterable[Log]) -> Ints:
    """By id: the time of its send on the clock of its sender, or ``ABSENT``."""
    times = np.full(total, ABSENT, np.int64)
    for log in logs:
        for life in log.index.lives:
            times[life.send_id] = log.t_us[life.send_at]
    return times


def latencies(
    facts: Facts, log: Log, sent_us: Ints, about: AboutLog, spent: Spent | None
) -> Iterator[Messages]:
    """The messages of one log, life by life, some thousand at a time."""
    index, run = log.index, facts.run
    for_node = facts.for_node(index.node)
    views = views_of(index.node, run.members, index.changes)
    ends = [*(life.start for life in index.lives[1:]), len(log.kind)]
    for number, end in enumerate(ends):
        life = index.lives[number]
        seen = _Seen(facts, log, number, end, for_node)
        completing: Ints = np.full(run.numbering.total, NEVER, np.int32)
        if run.causal and len(life.stable_id):
            completing[life.stable_id] = _Completing(facts, log, life, seen, views).rows()
        yield from _messages(facts, log, number, seen, completing, sent_us, about, spent)


class _Seen:
    """Where messages arrived, became ready and were handed over in one life of a node, by id."""

    def __init__(
        self, facts: Facts, log: Log, number: int, end: int, for_node: Mask | None
    ) -> None:
        run, total = facts.run, facts.run.numbering.total
        life = log.index.lives[number]
        self.for_node = for_node
        delivered: Ints = np.full(total, NEVER, np.int32)
        delivered[life.deliver_id] = life.deliver_at
        if not run.total:
            delivered[life.send_id] = life.send_at
        came = _came(facts, log, number)
        own = _own(facts, log.index.node)
        received = _first_rows(log, KIND_RECEIVE, life.start, end, total)
        received[own | (received > delivered) | (received > came)] = NEVER
        ready = _first_rows(log, KIND_READY, life.start, end, total)
        ready[(ready > delivered) | (~own & (ready > came))] = NEVER
        ready[(received != NEVER) & (ready < received)] = NEVER
        self.delivered, self.received, self.ready = delivered, received, ready
        arrived = np.minimum(came, received)
        expected = expected_here(arrived, for_node)
        self.complete = np.maximum(arrived, complete_from(run, facts.vectors, expected))
        """Where it had arrived, and all of its past that is for this node."""
        some = ((received != NEVER) | (ready != NEVER)) & facts.sent
        for ids in (life.send_id, life.deliver_id, life.stable_id):
            some[ids] = True
        self.ids: Ints = np.flatnonzero(some)

    def latest(self) -> Ints:
        """``complete`` of what was received; NEVER where the log did not wait for it."""
        latest = self.complete.copy()
        latest[latest > np.minimum(self.ready, self.delivered)] = NEVER
        latest[self.received == NEVER] = NEVER
        return latest


def _came(facts: Facts, log: Log, number: int) -> Ints:
    """By id: where it was sent here, or came with a snapshot or the restart of this life."""
    life = log.index.lives[number]
    came = life.delivered.astype(np.int32)
    came[life.deliver_id] = NEVER  # to be handed over is not to arrive
    if facts.run.total:  # what was sent is not among the delivered
        for earlier in log.index.lives[: number + 1]:
            came[earlier.send_id] = np.minimum(came[earlier.send_id], earlier.send_at)
    came[(came >= 0) & (came < life.start)] = life.start
    return came


def _own(facts: Facts, node: int) -> Mask:
    """By id: whether it is a message of this node."""
    own = np.zeros(facts.run.numbering.total, np.bool_)
    for origin in np.flatnonzero(facts.run.numbering.owner == node).tolist():
        own[facts.run.numbering.messages(origin)] = True
    return own


def _first_rows(log: Log, kind: int, start: int, end: int, total: int) -> Ints:
    rows = start + np.flatnonzero(log.kind[start:end] == kind)
    rows = rows[log.ids[rows] >= 0]
    first: Ints = np.full(total, NEVER, np.int32)
    first[log.ids[rows][::-1]] = rows[::-1]  # of repeated indices the last assignment stays
    return first


class _Completing:
    """Which record of a log completed the condition of each stable event of one life."""

    def __init__(self, facts: Facts, log: Log, life: Life, seen: _Seen, views: Views) -> None:
        self._facts, self._life, self._views = facts, life, views
        self._node = log.index.node
        self._there = seen.complete[life.stable_id]
        numbering, index = facts.run.numbering, log.index
        self._soonest = suffix_min(seen.complete, numbering)
        last = index.phantom_id - 1
        self._announcer = np.searchsorted(numbering.base, index.phantom_id, side="right") - 1
        # What a phantom says of its announcer's own messages is moot: an event's dot has arrived.
        self._knows = context_vectors(facts.run, facts.vectors, index.phantom_context, slice(None))
        earlier = prefix_max(expected_here(seen.complete, seen.for_node), numbering)[last]
        self._usable = np.maximum(index.phantom_at, earlier).astype(np.int32)

    def rows(self) -> Ints:
        """By stable event: the row, or NEVER.

        Within a view the condition holds from the last piece of evidence on.  Where a view begins
        with the condition met, its record of membership completed it, or something before that.
        """
        life, views = self._life, self._views
        epoch = views.epoch(life.stable_at)
        result: Ints = np.full(len(epoch), NEVER, np.int32)
        known: dict[int, Ints] = {}
        before: Ints = np.zeros(0, np.int32)
        completed: Ints = before
        for number in range(int(epoch.max()) + 1):
            start = views.starts[number]
            met_from = self._met_from(views.members[number], known)
            if number:
                at_start = np.where(before >= start, np.int32(start), completed)
                completed = np.where(met_from > start, met_from, at_start)
            else:
                completed = met_from
            before = met_from
            some = epoch == number
            result[some] = completed[some]
        result[(result < 0) | (result >= life.stable_at)] = NEVER
        result[self._on_stream()] = NEVER
        return result

    def _met_from(self, members: tuple[int, ...], known: dict[int, Ints]) -> Ints:
        """Where the event's dot is there and every other one of these is known to be past it."""
        met_from = self._there
        for member in members:
            if member == self._node:
                continue
            if member not in known:
                known[member] = self._known(member)
            met_from = np.maximum(met_from, known[member])
            if len(self._views.starts) == 1:
                known.clear()  # as much as all vectors together, and not asked for again
        return met_from

    def _known(self, member: int) -> Ints:
        """Where this member is known to be past each event's dot: by its messages or phantoms."""
        dots = self._life.stable_id
        known: Ints = self._soonest[self._facts.firsts[member][dots]]
        mine = np.flatnonzero(self._announcer == member)
        if len(mine):
            table = np.full(len(self._soonest), NEVER, np.int32)
            knows = self._knows[:, mine]
            # Flat: NumPy 2.4 reads past the end of values that it has to broadcast here.
            np.minimum.at(table, knows.ravel(), np.tile(self._usable[mine], len(knows)))
            known = np.minimum(known, suffix_min(table, self._facts.run.numbering)[dots])
        return known

    def _on_stream(self) -> Mask:
        numbering = self._facts.run.numbering
        origin = np.searchsorted(numbering.base, self._life.stable_id, side="right") - 1
        on_stream: Mask = numbering.is_stream[origin]
        return on_stream


# Times by message.


def _messages(
    facts: Facts, log: Log, number: int, seen: _Seen, completing: Ints, sent_us: Ints,
    about: AboutLog, spent: Spent | None,
) -> Iterator[Messages]:  # fmt: skip
    numbering, life = facts.run.numbering, log.index.lives[number]
    told: Ints = np.full(numbering.total, NEVER, np.int32)
    told[life.stable_id] = life.stable_at
    told[told < life.delivered] = NEVER  # of what was not there
    completing[told == NEVER] = NEVER
    sent: Ints = np.full(numbering.total, NEVER, np.int32)
    sent[life.send_id] = life.send_at
    latest = seen.latest()
    own = _own(facts, log.index.node)
    nothing: Ints = np.full(1, ABSENT, np.int64)
    dots = log.context_dots if facts.run.info.tags != "none" else None
    for first in range(0, len(seen.ids), ROWS_AT_A_TIME):
        ids = seen.ids[first : first + ROWS_AT_A_TIME]
        unknown = np.broadcast_to(nothing, len(ids))
        yield Messages(
            log=about,
            life=number,
            ids=ids,
            own=own[ids],
            sent=sent[ids] != NEVER,
            t_send=sent_us[ids],
            t_receive=_at(log.t_us, seen.received[ids]),
            t_ready=_at(log.t_us, seen.ready[ids]),
            t_deliver=_at(log.t_us, seen.delivered[ids]),
            t_stable=_at(log.t_us, told[ids]),
            latest_receive=_at(log.t_us, latest[ids]),
            completing_receive=_at(log.t_us, completing[ids]),
            had_to_wait=(latest[ids] > seen.received[ids]) & (latest[ids] != NEVER),
            wait_known=latest[ids] != NEVER,
            context_dots=unknown if dots is None else _at(dots, sent[ids]),
            bytes=_at(log.bytes, sent[ids]),
            ready_ns=unknown if spent is None else _at(spent.ready_ns, seen.ready[ids]),
            t_told=unknown if spent is None else _at(spent.told_us, told[ids]),
            told_ns=unknown if spent is None else _at(spent.told_ns, told[ids]),
        )


def _at(values: Ints, rows: Ints) -> Ints:
    """The values of these rows; ``ABSENT`` for NEVER."""
    found: Ints = values[np.where(rows == NEVER, 0, rows)].astype(np.int64)
    found[rows == NEVER] = ABSENT
    return found


def latency_rows(messages: Messages, numbering: Numbering) -> pa.Table:
    """These messages as rows of the table ``latency``."""
    ids, log = messages.ids, messages.log
    origin = np.searchsorted(numbering.base, ids, side="right") - 1
    columns = {
        "run": _repeated(log.run, len(ids)),
        "node": _repeated(log.node, len(ids)),
        "life": pa.array(np.full(len(ids), messages.life, np.int32)),
        "dot_node": pa.array(numbering.names, pa.string()).take(pa.array(origin)),
        "dot_seq": pa.array(seqs_of(numbering, origin, ids)),
        "own": pa.array(messages.own),
        "had_to_wait": pa.array(messages.had_to_wait, mask=~messages.wait_known),
    }
    schema = ARROW["latency"]
    for name in schema.names:
        if name not in columns:
            columns[name] = _nullable(getattr(messages, name))
    return pa.Table.from_pydict(columns, schema=schema)


def _repeated(text: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _nullable(values: Ints) -> pa.Array:
    return pa.array(values, pa.int64(), mask=values == ABSENT)


def seqs_of(numbering: Numbering, origin: Ints, ids: Ints) -> Ints:
    """The sequence numbers of these ids of these origins."""
    seqs: Ints = (ids - numbering.base[origin]).astype(np.int64)
    for code, known in numbering.ranked.items():
        mine = origin == code
        seqs[mine] = known[seqs[mine] - 1]
    return seqs
