"""Executions as run folders, and the check without Spark."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from thence.causal.dot import Dot
from thence.pipeline.causality.check import CheckOptions, check_with
from thence.pipeline.tasks import run_here
from thence.trace.record import Record, RunInfo, info_to_json, record_to_json
from thence.trace.tables import table_of, write_segment
from thence.trace.verdict import Report, Violation


def write_run(folder: Path, records: list[Record], info: RunInfo, seed: int) -> None:
    """A run folder; how records are spread over files, and their form, is up to the seed."""
    rng = random.Random(seed)
    folder.mkdir(parents=True)
    (folder / "run.json").write_bytes(info_to_json(info))
    form = rng.choice(["parquet", "jsonl", "mixed"])
    logs: dict[str, list[Record]] = {}
    for record in records:
        logs.setdefault("all" if form == "mixed" else record.node, []).append(record)
    for name, log in logs.items():
        cut = rng.randint(0, len(log))
        for number, some in enumerate((log[:cut], log[cut:])):
            if form == "parquet":
                write_parquet(folder / f"{name}-{number}.parquet", some)
            else:
                lines = b"".join(record_to_json(record) + b"\n" for record in some)
                (folder / f"{name}-{number}.jsonl").write_bytes(lines)


def write_parquet(path: Path, records: list[Record]) -> None:
    """Records as they are, positions and all."""
    if not records:
        return
    tables = []
    start = 0
    for end in range(1, len(records) + 1):
        if end < len(records) and _follows(records[end - 1], records[end]):
            continue
        some = records[start:end]
        given: dict[str, list] = {}
        for row, record in enumerate(some):
            for name in ("context", "to", "peer", "stable"):
                if getattr(record, name) is not None:
                    given.setdefault(name, []).append((row, getattr(record, name)))
        events = [(record.kind, record.t_us, record.dot) for record in some]
        tables.append(table_of(some[0].run, some[0].node, some[0].pos, events, given))
        start = end
    write_segment(pa.concat_tables(tables).unify_dictionaries(), str(path))


def _follows(before: Record, after: Record) -> bool:
    return (before.run, before.node, before.pos + 1) == (after.run, after.node, after.pos)


def check_without_spark(paths: list[Path], work: Path, **options) -> Report:
    """All stages of the check, one task after the other in this process."""
    chosen = CheckOptions(work=str(work), **options)
    return check_with(run_here, paths, chosen, first_violations).report


def first_violations(folders: Sequence[str], count: int) -> list[Violation]:
    """What Spark reads from the table of violations, with pyarrow."""

    def dot(node: str | None, seq: int | None) -> Dot | None:
        return None if node is None else Dot(node, seq)

    found = []
    for path in [path for folder in folders for path in Path(folder).glob("*.parquet")]:
        for row in pq.read_table(path).to_pylist():
            found.append(
                Violation(
                    row["run"], row["node"], row["pos"], row["rule"],
                    dot(row["dot_node"], row["dot_seq"]),
                    dot(row["missing_node"], row["missing_seq"]), row["why"],
                )
            )  # fmt: skip
    found.sort(key=lambda v: (v.run, v.node, v.pos, v.rule, v.dot or Dot("", 0)))
    return found[:count]
