"""The table of metrics, its documentation, and the kernels that need no Spark."""

from __future__ import annotations

import random
from pathlib import Path

import msgspec
import numpy as np
import pytest

from tests.pipeline.metrics_brute import D, largest_antichain
from tests.seeds import seeds
from thence.pipeline import metrics
from thence.pipeline.measure_rows import BUCKETS_MAX, bucket_width, clock_of
from thence.pipeline.metrics import METRICS
from thence.pipeline.metrics.base import COMMON, LEVELS, TABLES
from thence.pipeline.metrics.concurrency import WIDTH_ENTRIES_MAX, order_of, width_of
from thence.trace.check import Facts, facts_of
from thence.trace.columns import gather_runs
from thence.trace.index import index_log
from thence.trace.record import Record, RunInfo
from thence.trace.run import open_run
from thence.trace.segments import part_of_records
from thence.trace.views import group_of

PAGE = Path(__file__).parents[2] / "docs/reference/metrics.md"


def test_folder_and_table_agree():
    folder = Path(metrics.__file__).parent
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__", "base"}
    assert modules == set(METRICS)
    for name, metric in METRICS.items():
        assert metric.name == name
        assert METRICS[name] is getattr(metrics, name).METRIC
        assert metric.description
        assert metric.unit


def test_every_metric_level_and_column_is_documented():
    text = PAGE.read_text(encoding="utf-8")
    for level in LEVELS:
        assert f"| `{level}` |" in text
    for name, metric in METRICS.items():
        section = text.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for series in metric.series:
            assert f"| `{series.name}` | {series.unit} |" in section
    for name, columns in TABLES.items():
        assert f"\n### {name}\n" in text
        assert not [column for column in columns if f"`{column}`" not in text]
    assert f"{WIDTH_ENTRIES_MAX:,}" in text
    assert f"at most {BUCKETS_MAX} shares" in text


# Concurrency.


def drawn_order(rng: random.Random) -> list[tuple[int, int, list[int]]]:
    """(origin, seq, version vector) of messages, by origin."""
    origins = rng.randint(1, 6)
    known = [[0] * origins for _ in range(origins)]
    sent: list[tuple[int, int, list[int]]] = []
    for _ in range(rng.randint(1, 14)):
        origin = rng.randrange(origins)
        for _, _, vector in rng.sample(sent, min(len(sent), rng.choice((0, 0, 1, 1, 2)))):
            known[origin] = [max(pair) for pair in zip(known[origin], vector, strict=True)]
        known[origin][origin] += 1
        sent.append((origin, known[origin][origin], list(known[origin])))
    return sorted(sent)


def test_the_width_is_that_of_the_largest_antichain_of_all():
    seen = set()
    for seed in seeds(400):
        order = drawn_order(random.Random(seed))
        used = sorted({origin for origin, _, _ in order})
        before = np.array([[v[o] - (o == origin) for origin, _, v in order] for o in used])
        starts = np.array([[origin for origin, _, _ in order].index(o) for o in used])
        dots: list[D] = [(str(origin), seq) for origin, seq, _ in order]
        concurrent = {
            (dots[a], dots[b])
            for a, (oa, sa, va) in enumerate(order)
            for b, (ob, sb, vb) in enumerate(order)
            if vb[oa] < sa and va[ob] < sb
        }
        width = width_of(before, starts)
        assert width == largest_antichain(dots, concurrent), f"seed {seed}"
        seen.add((len(used), width))
    assert {(6, 3), (5, 2), (4, 2), (3, 1), (5, 4), (4, 4)} <= seen


def facts(sends: dict[str, list[str]]) -> Facts:
    """A run of logs such as ``{"a": ["send a1", "deliver b1"]}``."""
    records = [
        Record(run="r", node=node, pos=at, kind=kind, dot=None if not dot else _dot(dot))
        for node, log in sends.items()
        for at, (kind, _, dot) in enumerate(line.partition(" ") for line in log)
    ]
    (columns,) = gather_runs([part_of_records(records)])
    opened = open_run(columns, RunInfo(run="r", members=tuple(sends)))
    logs = [index_log(opened, node) for node in opened.nodes]
    group = group_of(opened.run.members, [(log.node, log.changes) for log in logs])
    return facts_of(opened.run, logs, group)


def _dot(text: str):
    from thence.causal.dot import Dot

    return Dot(text[0], int(text[1:]))


def test_pairs_are_counted_at_any_size_and_the_width_up_to_its_bound():
    two = facts({"a": ["send a1", "send a2"], "b": ["send b1", "deliver a1", "send b2"]})
    order = order_of(two)
    # a1 < a2, b1 < b2, a1 < b2 of six pairs.
    assert (order.messages, order.pairs, order.concurrent_pairs, order.width) == (4, 6, 3, 2)
    at_bound, beyond = order_of(two, entries_max=8), order_of(two, entries_max=7)
    assert (at_bound.width, at_bound.too_large) == (2, False)
    assert (beyond.width, beyond.too_large, beyond.concurrent_pairs) == (None, True, 3)


def test_logs_that_contradict_each_other_have_no_order():
    broken = facts({"a": ["deliver b1", "send a1"], "b": ["deliver a1", "send b1"]})
    order = order_of(broken)
    assert order.contradictory
    assert (order.concurrent_pairs, order.width) == (None, None)


def test_without_messages_there_is_no_width():
    assert order_of(facts({"a": ["end"]})).width == 0


# Time.


@pytest.mark.parametrize(
    ("lasted", "width"), [(0, 1), (49, 1), (50, 2), (99, 2), (100, 5), (250, 10), (10**6, 50_000)]
)
def test_a_bucket_is_the_shortest_round_time_that_covers_the_run(lasted: int, width: int):
    assert bucket_width(lasted) == width


def test_clocks_are_common_when_run_json_says_so():
    info = RunInfo(run="r")
    for scenario, common in (
        ({}, False),
        ({"clock": "common"}, True),
        ({"clock": "own"}, False),
        ({"simulated": True}, True),
        ({"simulated": "yes"}, False),
    ):
        clock = clock_of(msgspec.structs.replace(info, scenario=scenario))
        assert clock == (COMMON if common else None)
