"""The kernels of the metrics against explicit sets, on random executions."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable

import pyarrow as pa
import pytest

from tests.pipeline.metrics_brute import brute_of, latency_rows, order_row, with_arrivals
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import Logs, broken, execution, records_of
from thence.pipeline.cpu_times import CpuTimes
from thence.pipeline.measure_rows import Asked
from thence.pipeline.measure_run import measure_run
from thence.pipeline.metrics.base import ARROW, TABLES
from thence.trace.columns import gather_runs
from thence.trace.record import Record, RunInfo
from thence.trace.segments import part_of_records

Execution = Callable[[int], tuple[Logs, RunInfo]]


def tables(records: Iterable[Record], info: RunInfo) -> dict[str, list[dict]]:
    """The tables of a run by the kernels."""
    (columns,) = gather_runs([part_of_records(records, measured=True)], info.members)
    found: dict[str, list[pa.Table]] = {name: [ARROW[name].empty_table()] for name in TABLES}
    asked = Asked(metrics=(), rows=True)
    measure_run(columns, info, CpuTimes(), asked, lambda name, rows: found[name].append(rows))
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
    assert all(seen[name] > 50 for name in COLUMNS), seen


@pytest.mark.parametrize("kind", [dynamic_execution, broken_dynamic], ids=lambda k: k.__name__)
def test_latencies_are_those_of_the_sets_when_members_come_and_go(kind: Execution):
    seen = compare(kind, seeds(150))
    assert all(seen[name] > 50 for name in (*COLUMNS, "later lives")), seen


def log(*lines: str) -> list[dict]:
    """Events such as ``send a:1 < b:1`` (with a context), ``send a:2 to c`` or ``stable a/s:1``."""
    found = []
    for line in lines:
        kind, _, rest = line.partition(" ")
        dot, _, more = rest.partition(" ")
        words = more.split()
        event: dict = {"kind": kind, "dot": pair_of(dot) if dot else None}
        if words[:1] == ["<"]:
            event["context"] = [pair_of(word) for word in words[1:]]
        elif words:
            event["to"] = words[1:]
        found.append(event)
    return found


def pair_of(text: str) -> tuple[str, int]:
    node, _, seq = text.partition(":")
    return node, int(seq)


def completing(logs: Logs, node: str) -> dict[str, int | None]:
    """By stable dot: the row of the record that completed its condition; and as the sets say."""
    info = RunInfo(run="r", members=tuple(logs))
    records = records_of(logs)
    found = tables(records, info)["latency"]
    brute = latency_rows(brute_of(records, info))
    keys = ("node", "life", "dot_node", "dot_seq", "completing_receive")
    by_dot = [{tuple(row[key] for key in keys) for row in rows} for rows in (found, brute)]
    assert by_dot[0] == by_dot[1]
    return {
        f"{row['dot_node']}:{row['dot_seq']}": row["completing_receive"]
        for row in found
        if row["node"] == node and row["t_stable"] is not None
    }


def test_a_message_for_others_is_no_evidence_and_the_next_one_is():
    logs = {
        "a": log("send a:1"),
        "b": log("deliver a:1", "send b:1 to c", "send b:2"),
        "c": log("receive a:1", "deliver a:1", "send c:1"),
        "d": log("receive a:1", "deliver a:1", "receive c:1", "deliver c:1", "receive b:2",
                 "deliver b:2", "stable a:1"),
    }  # fmt: skip
    assert completing(logs, "d") == {"a:1": 4}


def test_a_phantom_waits_for_the_earlier_messages_that_are_for_this_node():
    logs = {
        "a": log("send a:1"),
        "b": log("send b:1", "send b:2 to a", "deliver a:1", "phantom b:3 < a:1 b:2"),
        "c": log("receive a:1", "deliver a:1", "phantom b:3 < a:1 b:2", "receive b:1",
                 "deliver b:1", "stable a:1"),
    }  # fmt: skip
    assert completing(logs, "c") == {"a:1": 3}


def test_a_dot_with_a_stream_has_no_condition_to_complete():
    logs = {
        "a": log("send a/s:1", "send a:1 < a/s:1"),
        "b": log("receive a/s:1", "deliver a/s:1", "receive a:1", "deliver a:1", "stable a/s:1"),
    }
    assert completing(logs, "b") == {"a/s:1": None}


def test_the_removal_of_the_last_member_waited_for_completes_the_condition():
    logs = {
        "a": log("send a:1"),
        "b": log("receive a:1", "deliver a:1", "evict", "stable a:1"),
        "c": log("end"),
    }
    logs["b"][2] |= {"peer": "c"}
    assert completing(logs, "b") == {"a:1": 2}
