"""The kernels of the metrics against explicit sets, on random executions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pytest

from tests.pipeline.metrics_brute import brute_of, latency_rows, order_row, with_arrivals
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import Logs, broken, execution, records_of
from thence.pipeline.measure_run import tables_of
from thence.pipeline.measure_segments import ABSENT, Measurements
from thence.trace.columns import gather_runs
from thence.trace.record import Record, RunInfo
from thence.trace.segments import part_of_records

Execution = Callable[[int], tuple[Logs, RunInfo]]


def tables(records: Iterable[Record], info: RunInfo) -> dict[str, list[dict]]:
    """The tables of a run by the kernels."""
    records = list(records)
    (columns,) = gather_runs([part_of_records(records)], info.members)
    first: dict[tuple[str, int], Record] = {}
    for record in records:
        first.setdefault((record.node, record.pos), record)
    ordered = [first[key] for key in sorted(first)]

    def numbers(name: str) -> np.ndarray:
        found = [getattr(record, name) for record in ordered]
        return np.array([ABSENT if value is None else value for value in found], np.int64)

    measured = Measurements(t_us=numbers("t_us"), bytes=numbers("bytes"), words=numbers("words"))
    found: dict[str, list[pa.Table]] = {}
    for name, rows in tables_of(columns, info, measured):
        found.setdefault(name, []).append(rows)
    return {name: pa.concat_tables(rows).to_pylist() for name, rows in found.items()}


def compare(execution: Execution, chosen: range) -> Counter[str]:
    """How many values of each column are there; fails where kernel and sets differ."""
    seen: Counter[str] = Counter()
    for seed in chosen:
        logs, info = execution(seed)
        records = records_of(with_arrivals(random.Random(seed), logs))
        if not records:
            continue
        brute = brute_of(records, info)
        found = tables(records, info)
        key = lambda row: (row["node"], row["life"], row["dot_node"], row["dot_seq"])  # noqa: E731
        expected = sorted(latency_rows(brute), key=key)
        assert sorted(found["latency"], key=key) == expected, f"seed {seed}"
        assert found["orders"] == [order_row(brute)], f"seed {seed}"
        for row in expected:
            seen.update(name for name, value in row.items() if value is not None)
            seen["waited"] += row["had_to_wait"] is True
            seen["later lives"] += row["life"] > 0
    return seen


COLUMNS = ("latest_receive", "completing_receive", "waited")


@pytest.mark.parametrize("kind", [execution, broken], ids=lambda kind: kind.__name__)
def test_latencies_are_those_of_the_sets(kind: Execution):
    seen = compare(kind, seeds(150))
    assert all(seen[name] > 100 for name in COLUMNS), seen


@pytest.mark.parametrize("kind", [dynamic_execution, broken_dynamic], ids=lambda k: k.__name__)
def test_latencies_are_those_of_the_sets_when_members_come_and_go(kind: Execution):
    seen = compare(kind, seeds(150))
    assert all(seen[name] > 100 for name in (*COLUMNS, "later lives")), seen
