"""One run as the page has it: read, laid out, checked, and ready to be asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import numpy as np

from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.trace.check import check_run, vectors_of
from thence.trace.columns import ABSENT, BYTES, KIND_CODE, NO_NAME, Columns, Mask
from thence.trace.explain import explain_in
from thence.trace.index import index_log
from thence.trace.layout import (
    KIND_READY,
    KIND_RECEIVE,
    Layout,
    here_from,
    lay_out,
    recipients_of,
)
from thence.trace.numbering import KIND_SEND
from thence.trace.record import KINDS, SNAPSHOT, RunInfo
from thence.trace.run import open_run
from thence.trace.verdict import Verdict, Violation
from thence.web.order import Order, Past

GUARANTEE_SHOWN: Final = {"fifo": "causal", "total": "causal-total"}
"""What happens before what does not depend on what an engine promises: these have vectors too."""
VIOLATIONS_MAX: Final = 1000
LACKING_MAX: Final = 20
KIND_NAMES: Final = (*KINDS, "other")


class Execution:
    """One run."""

    def __init__(self, columns: Columns, info: RunInfo, notes: Sequence[str] = ()) -> None:
        shown = GUARANTEE_SHOWN.get(info.guarantee, info.guarantee)
        self.columns, self.info, self.notes = columns, info, tuple(notes)
        self.opened = open_run(columns, msgspec.structs.replace(info, guarantee=shown))
        self.logs = [index_log(self.opened, node) for node in self.opened.nodes]
        vectors, _ = vectors_of(self.opened.run, self.logs)
        self.layout: Layout = lay_out(self.opened, self.logs, vectors)
        self.order = Order(self.opened, self.logs, vectors, self.layout)
        self.numbering = self.opened.run.numbering
        self.names = tuple(columns.names[code] for code in self.opened.nodes)
        self.lanes = {name: lane for lane, name in enumerate(self.names)}
        self.verdict: Verdict | None = None
        """None until it was checked."""
        self.bad: Mask = np.zeros(len(self.layout), np.bool_)
        """By row: whether a violation is listed there."""

    # ---- places ----------------------------------------------------------------------------------

    def row(self, node: str, pos: int) -> int:
        """The row of a record; UnusableInputError if there is none."""
        lane = self.lanes.get(node)
        if lane is None:
            raise UnusableInputError(f"there is no log of {node}")
        row = self.row_at_or_after(lane, pos)
        if row < 0 or int(self.columns.pos[row]) != pos:
            raise UnusableInputError(f"the log of {node} has no position {pos}")
        return row

    def row_at_or_after(self, lane: int, pos: int) -> int:
        """The row of the first record at a position or after it, the last one if there is none."""
        first, end = self.layout.first[lane : lane + 2].tolist()
        found = first + int(np.searchsorted(self.columns.pos[first:end], pos))
        return int(min(found, end - 1))

    def where(self, row: int) -> dict[str, Any] | None:
        """A row as the page names it; None for -1."""
        if row < 0:
            return None
        lane = int(self.layout.lane[row])
        return {"node": self.names[lane], "lane": lane, "pos": int(self.columns.pos[row])}

    def dot_row(self, dot: Dot) -> int:
        """Where a dot was sent, -1 without that."""
        if dot.node not in self.columns.names:
            return -1
        origin = self.columns.names.index(dot.node)
        found = self.numbering.id_of(origin, dot.seq)
        known = self.numbering.seq(found) == dot.seq
        return int(self.layout.send_row[found]) if known else -1

    # ---- the check -------------------------------------------------------------------------------

    def check(self) -> Verdict:
        """Check the run, and mark the records at which something is listed."""
        verdict = check_run(self.columns, self.info, VIOLATIONS_MAX)
        bad = np.zeros(len(self.layout), np.bool_)
        for violation in verdict.violations:
            bad[self.row_of(violation)] = True
        self.bad, self.verdict = bad, verdict
        return verdict

    def row_of(self, violation: Violation) -> int:
        """The row a violation is at; one at the end of a log is at its last record."""
        return self.row_at_or_after(self.lanes[violation.node], violation.pos)

    def violations(self) -> list[dict[str, Any]]:
        """What was found, as the page lists it."""
        if self.verdict is None:
            return []
        return [
            {**msgspec.to_builtins(found), "at": self.where(self.row_of(found))}
            for found in self.verdict.violations
        ]

    def explain(self, number: int) -> str:
        """Several lines on one listed violation."""
        if self.verdict is None or not 0 <= number < len(self.verdict.violations):
            raise UnusableInputError(f"no violation has the number {number}")
        return explain_in(self.columns, self.info, self.verdict.violations[number])

    # ---- one record ------------------------------------------------------------------------------

    def event(self, row: int) -> dict[str, Any]:
        """What is known of one record."""
        columns = self.columns
        kind = KIND_NAMES[int(columns.kind[row])]
        dot = columns.dot(row)
        found: dict[str, Any] = {
            **(self.where(row) or {}),
            "kind": kind,
            "dot": None if dot is None else str(dot),
            "level": int(self.layout.level[row]),
            "context": [str(each) for each in columns.context(row)],
            "to": [columns.name(code) for code in columns.to.get(row, ())],
            "violations": self._violations_at(row),
            "undone": self._undone(row),
        }
        if columns.measured is not None and columns.measured[0, row] != ABSENT:
            found["t_us"] = int(columns.measured[0, row])
            size = int(columns.measured[BYTES, row])
            if kind != SNAPSHOT and size != ABSENT:
                found["bytes"] = size
        change = columns.changes.get(row)
        if change is not None and change.peer != NO_NAME:
            found["from"] = columns.name(change.peer)
        if dot is not None:
            found["sent"] = self.where(int(self.layout.send_row[self.layout.ids[row]]))
        if columns.kind[row] == KIND_RECEIVE:
            found["waits_for"] = self.lacking(row)
        return found

    def _undone(self, row: int) -> dict[str, Any] | None:
        """The restart that took a record back, if one did."""
        local, lane = int(self.order.undone[row]), int(self.layout.lane[row])
        first, end = self.layout.first[lane : lane + 2].tolist()
        return self.where(first + local) if local < end - first else None

    def _violations_at(self, row: int) -> list[int]:
        if self.verdict is None or not self.bad[row]:
            return []
        found = self.verdict.violations
        return [n for n, violation in enumerate(found) if self.row_of(violation) == row]

    def lacking(self, row: int) -> list[dict[str, Any]]:
        """What a message lacked when it arrived: of each origin, the first of its past that was
        not ready here, and whether it had arrived at all."""
        layout, lane = self.layout, int(self.layout.lane[row])
        dot, local = int(layout.ids[row]), row - int(layout.first[lane])
        if dot < 0:
            return []
        log = self.logs[lane]
        life = self.order.life_at(lane, local)
        first, not_for = int(layout.first[lane]), recipients_of(self.logs, log.node)
        tables = [
            here_from(self.opened, log, life, first, layout.ids, not_for, kinds)
            for kinds in ((KIND_READY,), (KIND_READY, KIND_RECEIVE))
        ]
        need = self.order.vectors[:, dot].astype(np.int64)
        need[self.numbering.origin(dot)] = dot - 1
        found = []
        for origin in np.flatnonzero(tables[0][need] > local).tolist():
            some = self.numbering.messages(origin)
            which = some.start + int(np.searchsorted(tables[0][some], local, side="right"))
            arrived = bool(tables[1][need[origin]] <= local)
            absent = which
            if not arrived:
                absent = some.start + int(np.searchsorted(tables[1][some], local, side="right"))
            found.append(
                {
                    "dot": str(self.numbering.dot(absent)),
                    "arrived": arrived,
                    "sent": self.where(int(layout.send_row[absent])),
                }
            )
        found.sort(key=lambda each: bool(each["arrived"]))
        return found[:LACKING_MAX]

    def waiting(self, limit: int) -> dict[str, Any]:
        """Messages that were held back, the longest waits first."""
        holds, level, t_us = self.layout.holds, self.layout.level, self.layout.t_us
        end = np.where(holds.until >= 0, holds.until, holds.row)
        waited = (t_us if self.layout.has_clock else level)[end]
        waited = waited - (t_us if self.layout.has_clock else level)[holds.row]
        waited = np.where(holds.until < 0, np.iinfo(np.int64).max, waited)
        longest = np.argsort(-waited, kind="stable")[:limit].tolist()
        items = [
            {
                **(self.where(int(holds.row[n])) or {}),
                "dot": str(self.columns.dot(int(holds.row[n]))),
                "until": self.where(int(holds.until[n])),
                "missing": str(self.numbering.dot(int(holds.missing[n])) or ""),
                "waited": None if holds.until[n] < 0 else int(waited[n]),
                "unit": "us" if self.layout.has_clock else "levels",
            }
            for n in longest
        ]
        return {"count": len(holds.row), "items": items}

    # ---- what is asked of it ---------------------------------------------------------------------

    def past(self, row: int) -> dict[str, Any]:
        """The past of a record: by node, the last position in it."""
        past: Past = self.order.past(row)
        first = self.layout.first[:-1]
        return {
            name: None if local < 0 else int(self.columns.pos[start + local])
            for name, local, start in zip(
                self.names, past.prefix.tolist(), first.tolist(), strict=True
            )
        }

    def future(self, row: int) -> dict[str, Any]:
        """The future of a record in the logs of others: by node, the first position of each life
        in it."""
        found: dict[str, list[int]] = {name: [] for name in self.names}
        for lane, local, _ in self.order.future_from(row):
            found[self.names[lane]].append(int(self.columns.pos[self.layout.first[lane] + local]))
        return {name: positions[0] if positions else None for name, positions in found.items()}

    def counts(self, row: int) -> dict[str, int]:
        """How many records are in the past, in the future, and concurrent."""
        relation = self.order.relation(row, np.arange(len(self.layout)))
        _, past, _, future, concurrent = np.bincount(relation, minlength=5).tolist()
        return {"past": past, "future": future, "concurrent": concurrent}

    def compare(self, one: int, other: int) -> dict[str, Any]:
        """Which of two records came first, and the path that proves it."""
        if self.order.before(other, one):
            steps, answer = self.order.path(other, one), "after"
        else:
            steps = self.order.path(one, other)
            answer = "before" if steps else "same" if one == other else "concurrent"
        path = [{"from": self.label(s.tail), "to": self.label(s.head), "how": s.how} for s in steps]
        return {"answer": answer, "path": path}

    def label(self, row: int) -> dict[str, Any]:
        """A row with what one needs to speak of it."""
        dot = self.columns.dot(row)
        return {
            **(self.where(row) or {}),
            "kind": KIND_NAMES[int(self.columns.kind[row])],
            "dot": None if dot is None else str(dot),
        }

    # ---- the whole -------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """What the page must know before it draws anything."""
        layout, info = self.layout, self.info
        counts = np.bincount(self.columns.kind, minlength=len(KIND_NAMES)).tolist()
        verdict = self.verdict
        return {
            "run": self.columns.run,
            "engine": info.engine,
            "guarantee": info.guarantee,
            "complete": info.complete,
            "members": list(info.members),
            "nodes": list(self.names),
            "events": len(layout),
            "kinds": {n: c for n, c in zip(KIND_NAMES, counts, strict=True) if c},
            "messages": int(np.count_nonzero(layout.send_row >= 0)),
            "held": len(layout.holds.row),
            "has_clock": layout.has_clock,
            "notes": list(self.notes),
            "checked": verdict is not None,
            "violations": 0 if verdict is None else sum(verdict.counts.values()),
            "rules": {} if verdict is None else verdict.counts,
        }

    def is_send(self, row: int) -> bool:
        """Whether a row is a send that counts."""
        dot = int(self.layout.ids[row])
        is_one = self.columns.kind[row] == KIND_SEND and dot >= 0
        return bool(is_one and self.layout.send_row[dot] == row)


KIND_CODES: Final = {**KIND_CODE, "other": len(KIND_CODE)}
