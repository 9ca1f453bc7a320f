"""Vectors of a broken run in causal order: each log waits for what it delivers next.

The whole-log passes of vectors.py need one pass for each early delivery (or stream) that a chain
of messages goes through; this walk needs one step per event however long the chains are.  It is
plain Python, and only runs that already failed or use streams pay for it.  Where logs contradict
each other (a message before itself) it goes on without what it waits for, and the passes do the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from thence.trace.columns import Ints
from thence.trace.run import Life, LogIndex, Run

_BEGIN: Final = -1  # in place of a dot: a life begins, with what was carried into it


def replay(run: Run, logs: Sequence[LogIndex], vectors: Ints) -> None:
    """Raise ``vectors`` in place along causal order."""
    _Replay(run, logs, vectors).go()


class _Replay:
    def __init__(self, run: Run, logs: Sequence[LogIndex], vectors: Ints) -> None:
        self.base = run.numbering.base[:-1]
        self.rows = np.ascontiguousarray(vectors.T)  # one row per dot while dots are handled singly
        self.vectors = vectors
        self.logs = [_events(log) for log in logs]
        self.cursor = [0] * len(logs)
        self.known = [self.base.copy() for _ in logs]
        self.streams = {
            dot: log.stream_context.of(which).tolist()
            for log in logs
            for which, dot in enumerate(log.stream_id.tolist())
        }
        self.unsent = {dot for log in logs for life in log.lives for dot in life.send_id.tolist()}
        self.waiting: dict[int, list[int]] = {}  # dot to the logs that wait for its send
        self.waits_for: dict[int, int] = {}
        self.unlocked: set[int] = set()

    def go(self) -> None:
        ready = list(range(len(self.logs)))
        while ready:
            while ready:
                self._advance(ready.pop(), ready)
            self._unlock(ready)
        np.maximum(self.vectors, self.rows.T, out=self.vectors)

    def _unlock(self, ready: list[int]) -> None:
        """When logs wait for each other, let the one that is furthest behind go on by a step."""
        behind = [log for log, events in enumerate(self.logs) if self.cursor[log] < len(events)]
        if behind:
            log = min(behind, key=self.cursor.__getitem__)
            self.waiting[self.waits_for[log]].remove(log)
            self.unlocked.add(log)
            ready.append(log)

    def _advance(self, log: int, ready: list[int]) -> None:
        """Go through one log until it meets a message whose send has not been met."""
        events = self.logs[log]
        while self.cursor[log] < len(events):
            dot, is_send = events[self.cursor[log]]
            if dot == _BEGIN:
                self.known[log] = self.base.copy()
                self.cursor[log] += 1
                continue
            named = self.streams.get(dot) if is_send else None
            needs = (dot,) if not is_send else named or ()
            if log in self.unlocked:
                self.unlocked.discard(log)
                needs = ()
            for need in needs:
                if need in self.unsent and not (is_send and need == dot):
                    self.waiting.setdefault(need, []).append(log)
                    self.waits_for[log] = need
                    return
            known = self.known[log]
            if is_send:
                self._send(dot, named, known)
                ready += self.waiting.pop(dot, ())
            np.maximum(known, self.rows[dot], out=known)
            self.cursor[log] += 1

    def _send(self, dot: int, named: list[int] | None, known: Ints) -> None:
        row = self.rows[dot]
        np.maximum(row, self.rows[dot - 1], out=row)  # the earlier dot of its origin, or nothing
        if named is None:
            np.maximum(row, known, out=row)
        else:
            for before in named:
                np.maximum(row, self.rows[before], out=row)
        self.unsent.discard(dot)


def _events(log: LogIndex) -> list[tuple[int, bool]]:
    """(dot, whether sent) of what a node took, in log order, life by life."""
    events: list[tuple[int, bool]] = []
    for life in log.lives:
        events.append((_BEGIN, False))
        events += [(dot, False) for dot in life.carried_id.tolist()]
        events += _events_of(life)
    return events


def _events_of(life: Life) -> list[tuple[int, bool]]:
    taken = [
        (at, dot, is_send)
        for rows, dots, is_send in (
            (life.snapshot_at, life.snapshot_id, False),
            (life.send_at, life.send_id, True),
            (life.deliver_at, life.deliver_id, False),
        )
        for at, dot in zip(rows.tolist(), dots.tolist(), strict=True)
    ]
    taken.sort()
    return [(dot, is_send) for _, dot, is_send in taken]
