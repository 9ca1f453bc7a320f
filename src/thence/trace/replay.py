"""Vectors of a broken run in causal order: each log waits for what it delivers next.

The whole-log passes of vectors.py need one pass for each early delivery (or stream) that a chain
of messages goes through; this walk needs one step per event however long the chains are.  It is
plain Python, and only runs that already failed or use streams pay for it.  Where logs contradict
each other (a message before itself) it goes on without what it waits for, and the passes do the
rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from thence.trace.columns import Ints
from thence.trace.index import NodeIndex, Run


def replay(run: Run, indices: Sequence[NodeIndex], vectors: Ints) -> None:
    """Raise ``vectors`` in place along causal order."""
    _Replay(run, indices, vectors).go()


class _Replay:
    def __init__(self, run: Run, indices: Sequence[NodeIndex], vectors: Ints) -> None:
        self.run = run
        self.rows = np.ascontiguousarray(vectors.T)  # one row per dot while dots are handled singly
        self.vectors = vectors
        self.logs = [_events(index) for index in indices]
        self.cursor = [0] * len(indices)
        self.known = [run.numbering.base[:-1].copy() for _ in indices]
        self.starts = [index.first_row for index in indices]
        self.unsent = {dot for index in indices for dot in index.send_id.tolist()}
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
        events, known = self.logs[log], self.known[log]
        while self.cursor[log] < len(events):
            at, dot, is_send = events[self.cursor[log]]
            named = self._stream_context(log, at) if is_send else None
            needs = (dot,) if not is_send else named or ()
            if log in self.unlocked:
                self.unlocked.discard(log)
                needs = ()
            for need in needs:
                if need in self.unsent and not (is_send and need == dot):
                    self.waiting.setdefault(need, []).append(log)
                    self.waits_for[log] = need
                    return
            if is_send:
                self._send(dot, named, known)
                ready += self.waiting.pop(dot, ())
            np.maximum(known, self.rows[dot], out=known)
            self.cursor[log] += 1

    def _stream_context(self, log: int, at: int) -> list[int] | None:
        """The logged context of a send on a stream; None on the default stream."""
        numbering, row = self.run.numbering, self.starts[log] + at
        if not numbering.is_stream[self.run.columns.dot_node[row]]:
            return None
        start = self.run.columns.context_start
        named: list[int] = numbering.context_ids[int(start[row]) : int(start[row + 1])].tolist()
        return named

    def _send(self, dot: int, named: list[int] | None, known: Ints) -> None:
        row = self.rows[dot]
        np.maximum(row, self.rows[dot - 1], out=row)  # the earlier dot of its origin, or nothing
        if named is None:
            np.maximum(row, known, out=row)
        else:
            for before in named:
                np.maximum(row, self.rows[before], out=row)
        self.unsent.discard(dot)


def _events(index: NodeIndex) -> list[tuple[int, int, bool]]:
    """(position, dot, whether sent) of what a node took, in log order."""
    events = [
        (at, dot, True)
        for at, dot in zip(index.send_at.tolist(), index.send_id.tolist(), strict=True)
    ]
    events += [
        (at, dot, False)
        for at, dot in zip(index.deliver_at.tolist(), index.deliver_id.tolist(), strict=True)
    ]
    events.sort()
    return events
