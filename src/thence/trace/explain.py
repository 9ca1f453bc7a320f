"""Why a violation is one: the failed step, what the nodes knew, and the records around it.

The run is read again, so that a report holds no columns: explaining is for people, a few at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from thence.causal.dot import Dot
from thence.trace.check import vectors_of
from thence.trace.columns import NO_NAME, Columns, Ints
from thence.trace.index import index_log
from thence.trace.numbering import NEVER
from thence.trace.reader import PathLike, read_run
from thence.trace.record import KINDS, RunInfo
from thence.trace.run import Life, LogIndex, Opened, Run, open_run
from thence.trace.verdict import Report, Violation
from thence.trace.views import views_of

AROUND: Final = 3  # records shown before and after


def explain(report: Report, violation: Violation) -> str:
    """Several lines of text on one violation of a report that ``check_paths`` made."""
    return explain_all(report.paths, [violation])[0]


def explain_all(paths: Sequence[PathLike], violations: Sequence[Violation]) -> list[str]:
    """The same on some violations below these paths; each log's run is read once."""
    texts: dict[int, str] = {}
    for run, node in sorted({(violation.run, violation.node) for violation in violations}):
        columns, info = read_run(paths, run, node)
        for number, violation in enumerate(violations):
            if (violation.run, violation.node) == (run, node):
                texts[number] = explain_in(columns, info, violation)
    return [texts[number] for number in range(len(violations))]


def explain_in(columns: Columns, info: RunInfo, violation: Violation) -> str:
    """The same when the run is at hand."""
    opened = open_run(columns, info)
    story = _Story(opened, [index_log(opened, node) for node in opened.nodes], violation)
    return "\n".join(story.lines()) + "\n"


class _Story:
    """One violation told from the run it is in."""

    def __init__(self, opened: Opened, logs: list[LogIndex], violation: Violation) -> None:
        self.columns, self.run = opened.columns, opened.run
        self.logs = {log.node: log for log in logs}
        self.vectors, _ = vectors_of(opened.run, logs)
        self.violation = violation
        self.here = self.logs[opened.columns.names.index(violation.node)]
        self.positions: Ints = self.columns.pos[self.columns.node == self.here.node]
        row = int(np.searchsorted(self.positions, violation.pos))
        self.row = row
        self.life = [life for life in self.here.lives if life.start <= row][-1]

    def lines(self) -> list[str]:
        violation = self.violation
        lines = [
            f"{violation.rule} at {violation.node}, position {violation.pos} of run "
            f"{violation.run}:",
            f"  {violation.why}",
            *self._knowledge(),
        ]
        for dot in (violation.dot, violation.missing):
            if dot is not None:
                lines += self._message(dot)
        return lines + self._records()

    def _knowledge(self) -> list[str]:
        """What the node had delivered, and been told, before the position."""
        delivered = _vector_text(self.run, _latest(self.run, self.life.delivered, self.row))
        told = _vector_text(self.run, _latest(self.run, self.life.told, self.row))
        name = self.violation.node
        lines = [f"  {name} had delivered {delivered}", f"  and knew stable  {told}"]
        if self.here.changes:
            views = views_of(self.here.node, self.run.members, self.here.changes)
            epoch = int(views.epoch(np.array([self.row]))[0])
            members = [self.columns.name(code) for code in views.members[epoch]]
            lines.append(f"  its view was     {{{', '.join(members)}}}")
        return lines

    def _message(self, dot: Dot) -> list[str]:
        """Where a message was sent, its vector and context, and where this node has it."""
        dot_id = _id_of(self.run, dot)
        if dot_id is None:
            return [f"  {dot}: in no log"]
        lines = self._sending(dot, dot_id)
        for word, table in (("delivered", self.life.delivered), ("stable", self.life.told)):
            when = int(table[dot_id])
            where = "never" if when == NEVER else int(self.positions[when])
            lines.append(f"    {word} at {self.violation.node}: {where}")
        return lines

    def _sending(self, dot: Dot, dot_id: int) -> list[str]:
        owner = int(self.run.numbering.owner[self.run.numbering.origin(dot_id)])
        sender = self.logs.get(owner)
        row = None if sender is None else _row_of_send(sender.lives, dot_id)
        if row is None:
            return [f"  {dot}: no log says it was sent"]
        row += int(np.searchsorted(self.columns.node, owner))
        context = " ".join(str(before) for before in self.columns.context(row)) or "nothing"
        name = self.columns.names[owner]
        return [
            f"  {dot}: sent by {name} at position {int(self.columns.pos[row])}",
            f"    context {context}",
            f"    vector  {_vector_text(self.run, self.vectors[:, dot_id])}",
        ]

    def _records(self) -> list[str]:
        """The records around a position of a log, the one in question marked."""
        positions, pos = self.positions, self.violation.pos
        first = int(np.searchsorted(self.columns.node, self.here.node))
        rows = range(max(0, self.row - AROUND), min(len(positions), self.row + AROUND + 1))
        lines = [f"  the log of {self.violation.node}:"]
        for row in rows:
            mark = ">" if int(positions[row]) == pos else " "
            lines.append(f"  {mark} {int(positions[row]):6} {_record(self.columns, first + row)}")
        if pos > int(positions[-1]):
            lines.append(f"  > {pos:6} (the end)")
        return lines


def _row_of_send(lives: tuple[Life, ...], dot_id: int) -> int | None:
    for life in lives:
        found = np.flatnonzero(life.send_id == dot_id)
        if len(found):
            return int(life.send_at[found[0]])
    return None


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


def _id_of(run: Run, dot: Dot) -> int | None:
    """The id of a dot, if anything speaks of it."""
    names = run.numbering.names
    if dot.node not in names:
        return None
    origin = names.index(dot.node)
    dot_id = run.numbering.id_of(origin, dot.seq)
    return dot_id if run.numbering.seq(dot_id) == dot.seq else None


def _record(columns: Columns, row: int) -> str:
    code = int(columns.kind[row])
    kind = KINDS[code] if code < len(KINDS) else "(another kind)"
    dot, context, change = columns.dot(row), columns.context(row), columns.changes.get(row)
    text = kind if dot is None else f"{kind} {dot}"
    if change is not None and change.peer != NO_NAME:
        text += f" of {columns.name(change.peer)}"
    return f"{text} after {' '.join(map(str, context))}" if context else text
