"""Pasts, depths and cuts of random executions from explicit sets, and their logs as frames.

The sets know nothing of thence but the record; the definitions are those of
docs/reference/trace.md.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.trace.executions import Logs, records_of
from thence.causal.dot import Dot
from thence.pipeline.frames import Messages, messages_of
from thence.trace.record import Record, RunInfo

D = tuple[str, int]
Cut = Mapping[str, int]

ORDERING = ("send", "deliver", "snapshot", "restart")
_DOT = pa.struct([("node", pa.string()), ("seq", pa.int64())])
EVENTS = pa.schema(
    [
        ("run", pa.string()),
        ("node", pa.string()),
        ("pos", pa.int64()),
        ("kind", pa.string()),
        ("dot_node", pa.string()),
        ("dot_seq", pa.int64()),
        ("context", pa.list_(_DOT)),
        ("t_us", pa.int64()),
        ("payload", pa.string()),
    ]
)


def rows_of(records: Iterable[Record], run: str) -> list[dict[str, Any]]:
    """The records as rows of a frame."""
    return [
        {
            "run": run,
            "node": record.node,
            "pos": record.pos,
            "kind": record.kind,
            "dot_node": None if record.dot is None else record.dot.node,
            "dot_seq": None if record.dot is None else record.dot.seq,
            "context": None
            if record.context is None
            else [{"node": dot.node, "seq": dot.seq} for dot in record.context],
            "t_us": record.t_us,
            "payload": None
            if record.payload is None
            else msgspec.json.encode(record.payload).decode(),
        }
        for record in records
    ]


def table_of(rows: Iterable[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), EVENTS)


def kernel_table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    """The table as a kernel is given it: what says something of the order, contexts as text."""
    some = [kernel_row(row) for row in rows if row["kind"] in ORDERING]
    at = EVENTS.get_field_index("context")
    return pa.Table.from_pylist(some, EVENTS.set(at, pa.field("context", pa.string())))


def kernel_row(row: dict[str, Any]) -> dict[str, Any]:
    context = None
    if row["kind"] in ("snapshot", "restart") or "/" in (row["dot_node"] or ""):
        if row["context"] is not None:
            context = msgspec.json.encode(row["context"]).decode()
    payload = row["payload"] if row["kind"] == "send" else None
    return {**row, "context": context, "payload": payload}


def frame_of(spark: SparkSession, rows: Iterable[dict[str, Any]]) -> DataFrame:
    return spark.createDataFrame(table_of(rows))


Maker = Callable[[int], tuple[Logs, RunInfo]]


def many_runs(
    spark: SparkSession, makers: Iterable[Maker], seeds: int
) -> tuple[dict[str, Truth], DataFrame]:
    """Random executions in one frame, its rows in no order, and the truth of each run."""
    truths, rows = {}, []
    for make in makers:
        for seed in range(seeds):
            run = f"{make.__name__} {seed}"
            records = records_of(make(seed)[0])
            truths[run] = Truth(records)
            rows += rows_of(records, run)
    random.Random(1).shuffle(rows)
    return truths, frame_of(spark, rows)


def messages_and_truth(make: Maker, seed: int) -> tuple[Messages, Truth] | None:
    """One random execution through the kernels alone; None when it sent and took nothing."""
    records = records_of(make(seed)[0])
    rows = rows_of(records, "r")
    random.Random(seed).shuffle(rows)
    table = kernel_table(rows)
    return (messages_of("r", table), Truth(records)) if len(table) else None


# ann:1 -> bob:1 -> ann:2, and cy:1 beside them all
TALK = (
    "ann send ann:1",
    "bob deliver ann:1",
    "bob send bob:1",
    "ann deliver bob:1",
    "ann send ann:2",
    "cy send cy:1",
    "cy deliver ann:1",
)


def story(spark: SparkSession, *lines: str, run: str = "r") -> DataFrame:
    """The frame of ``story_rows``."""
    return frame_of(spark, story_rows(*lines, run=run))


def story_rows(*lines: str, run: str = "r") -> list[dict[str, Any]]:
    """Rows from lines such as ``bob send bob:1`` or ``cy snapshot [ann:2 bob:1]``.

    Clocks go by 10 us a line; the payload of a send is the text of its dot.
    """
    rows: list[dict[str, Any]] = []
    for line in lines:
        text, bracket, named = line.partition("[")
        node, kind, *rest = text.split()
        dot = Dot.parse(rest[0]) if rest else None
        context = [Dot.parse(name) for name in named.strip("] ").split()]
        record = Record(
            run=run,
            node=node,
            pos=sum(row["node"] == node for row in rows),
            kind=kind,
            dot=dot,
            context=tuple(context) if bracket else None,
            t_us=10 * len(rows),
            payload=str(dot) if kind == "send" else None,
        )
        rows += rows_of([record], run)
    return rows


class Truth:
    """One run; of the records at one position in one log that matter, the smallest counts."""

    def __init__(self, records: Iterable[Record]) -> None:
        at: dict[tuple[str, int], list[Record]] = {}
        self.ends: dict[str, int] = {}
        for record in records:
            self.ends[record.node] = max(record.pos, self.ends.get(record.node, -1))
            if record.kind in ORDERING:
                at.setdefault((record.node, record.pos), []).append(record)
        logs: dict[str, list[Record]] = {}
        for (node, _), same in sorted(at.items()):
            logs.setdefault(node, []).append(min(same, key=_repeated_key))
        self.sent_at: dict[D, tuple[str, int]] = {}
        self.before: dict[D, set[D]] = {}
        self._pasts: dict[D, set[D]] = {}
        self.takings: list[tuple[str, int, set[D]]] = []
        """(node, pos, what was taken there) in any life."""
        for node, log in logs.items():
            self._read(node, log)

    def _read(self, node: str, log: list[Record]) -> None:
        sent: set[D] = set()
        delivered: set[D] = set()
        for record in log:
            dot = None if record.dot is None else (record.dot.node, record.dot.seq)
            context = {(d.node, d.seq) for d in record.context or ()}
            own = dot is not None and dot[0].partition("/")[0] == node
            new: set[D] = set()
            if record.kind == "send" and own and dot is not None and dot not in sent:
                self.before[dot] = context if "/" in dot[0] else sent | delivered
                self.sent_at[dot] = (node, record.pos)
                sent.add(dot)
                new = {dot}
            elif record.kind == "deliver" and not own and dot is not None:
                delivered.add(dot)
                new = {dot}
            elif record.kind == "snapshot":
                new = {(o, s) for o, last in context for s in range(1, last + 1)}
                delivered |= new
            elif record.kind == "restart" and record.context is not None:
                kept = {(o, s) for o, last in context for s in range(1, last + 1)}
                delivered &= kept
            if new:
                self.takings.append((node, record.pos, new))

    @property
    def dots(self) -> list[D]:
        """The messages, by dot."""
        return sorted(self.sent_at)

    def past(self, dot: D) -> set[D]:
        """What happens before a dot, sent or not."""
        if dot not in self._pasts:
            seen: set[D] = set()
            work = [dot]
            while work:
                node, seq = work.pop()
                before = self.before.get((node, seq), set())
                for other in before | ({(node, seq - 1)} if seq > 1 else set()):
                    if other not in seen:
                        seen.add(other)
                        work.append(other)
            self._pasts[dot] = {d for d in seen if not (d[0] == dot[0] and d[1] >= dot[1])}
        return self._pasts[dot]

    def depths(self) -> dict[D, int | None]:
        """Messages in the longest chain up to each; None at and after a contradiction."""
        depth: dict[D, int | None] = {}
        knots = {d for d in self.dots if any(d in self.past(e) for e in self.past(d))}
        for dot in sorted(self.dots, key=lambda d: len(self.past(d))):
            if ({dot} | self.past(dot)) & knots:
                depth[dot] = None
            else:
                chains = [depth[d] or 0 for d in self.past(dot) if d in self.sent_at]
                depth[dot] = 1 + max(chains, default=0)
        return depth

    def relation(self, a: D, b: D) -> str:
        if a not in self.sent_at or b not in self.sent_at:
            return "unknown"
        if a == b:
            return "same"
        before, after = a in self.past(b), b in self.past(a)
        if before and after:
            return "contradictory"
        return "before" if before else "after" if after else "concurrent"

    def inside(self, cut: Cut) -> set[D]:
        """The messages sent inside a cut."""
        return {d for d, (node, pos) in self.sent_at.items() if pos <= cut.get(node, -1)}

    def needs(self, cut: Cut) -> list[tuple[str, int, set[D]]]:
        """(node, pos, what it depends on) of the records inside a cut, by node and position."""
        return [
            (node, pos, taken.union(*map(self.past, taken)))
            for node, pos, taken in sorted(self.takings, key=lambda taking: taking[:2])
            if pos <= cut.get(node, -1)
        ]

    def missing(self, cut: Cut) -> set[D]:
        """What a cut depends on and has not."""
        return set().union(*(needed for _, _, needed in self.needs(cut))) - self.inside(cut)

    def greatest(self, within: Cut) -> dict[str, int]:
        """The greatest consistent cut within another, a record less at a time."""
        cut = {node: min(within.get(node, -1), end) for node, end in self.ends.items()}
        while missing := self.missing(cut):
            for node, pos, needed in self.needs(cut):
                if needed & missing:
                    cut[node] = min(cut[node], pos - 1)
        return cut


def _repeated_key(record: Record) -> list[str]:
    """As ``messages_of`` has it: by kind, dot, then the other fields by name of column."""
    row = kernel_row(rows_of([record], "r")[0])
    first = ("kind", "dot_node", "dot_seq")
    rest = sorted(name for name in row if name not in first)
    return [repr(row[name]) for name in (*first, *rest)]
