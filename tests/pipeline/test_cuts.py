"""Consistent cuts, against explicit sets over random executions."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from tests.pipeline.oracles import (
    TALK,
    Maker,
    Truth,
    frame_of,
    kernel_table,
    many_runs,
    messages_and_truth,
    story,
    story_rows,
)
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import broken, execution
from thence.errors import UnusableInputError
from thence.pipeline.cuts import (
    MISSING_LISTED_MAX,
    cut,
    explain_missing,
    greatest,
    latest_cut,
    limits_of,
    missing_from,
    positions_of,
)
from thence.pipeline.folds import materialise
from thence.pipeline.frames import Messages, messages_of

MAKERS = (execution, broken, dynamic_execution, broken_dynamic)
SEEDS = 15
Cuts = dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def executions(spark: SparkSession) -> Iterator[tuple[dict[str, Truth], DataFrame]]:
    runs, events = many_runs(spark, MAKERS, SEEDS)
    events = events.repartition(3).cache()
    yield runs, events
    events.unpersist()


@pytest.fixture
def runs(executions: tuple[dict[str, Truth], DataFrame]) -> dict[str, Truth]:
    return executions[0]


@pytest.fixture
def events(executions: tuple[dict[str, Truth], DataFrame]) -> DataFrame:
    return executions[1]


@pytest.fixture(scope="module")
def random_cuts(executions: tuple[dict[str, Truth], DataFrame]) -> Cuts:
    """Positions near the middle or the end, before the beginning and past the end."""
    rng = random.Random(3)
    return {
        run: {
            node: rng.choice((rng.randint(-1, end + 1), max(-1, end - rng.randint(0, 3))))
            for node, end in truth.ends.items()
            if rng.random() < 0.9
        }
        for run, truth in executions[0].items()
    }


def frame_of_cuts(spark: SparkSession, given: Cuts) -> DataFrame:
    rows = [(run, node, pos) for run, at in given.items() for node, pos in at.items()]
    return spark.createDataFrame(rows, "run string, node string, pos long")


def cuts_of(frame: DataFrame) -> Cuts:
    found: Cuts = {}
    for row in frame.collect():
        assert row.node not in found.setdefault(row.run, {})
        found[row.run][row.node] = row.pos
    return found


def of_story(*lines: str) -> Messages:
    return messages_of("r", kernel_table(story_rows(*lines)))


def missing(messages: Messages, **at: int) -> list[tuple]:
    """(node, seq, pos, at_node, at_pos) of what the cut lacks."""
    limits = limits_of(messages, pa.table({"node": [*at], "pos": [*at.values()]}))
    found = explain_missing(messages, limits, missing_from(messages, limits))
    return [tuple(row.values()) for row in found]


def within(messages: Messages, **at: int) -> dict[str, int]:
    """The greatest cut within positions."""
    limits = limits_of(messages, pa.table({"node": [*at], "pos": [*at.values()]}))
    return dict(zip(messages.names, greatest(messages, limits).tolist(), strict=True))


@pytest.mark.parametrize("make", MAKERS)
def test_the_kernels_find_the_cuts_of_the_sets(make: Maker):
    for seed in seeds(60):
        if (found := messages_and_truth(make, seed)) is None:
            continue
        messages, truth = found
        rng = random.Random(seed)
        for _ in range(3):
            at = {n: rng.randint(-1, end) for n, end in truth.ends.items() if rng.random() < 0.9}
            limits = np.array([at.get(name, -1) for name in messages.names])
            lacks = [messages.numbering.dot(one) for one in missing_from(messages, limits).tolist()]
            assert [(d.node, d.seq) for d in lacks if d] == sorted(truth.missing(at)), (seed, at)
            best = dict(zip(messages.names, greatest(messages, limits).tolist(), strict=True))
            expected = truth.greatest(at)
            assert {name: best.get(name, expected[name]) for name in expected} == expected


def test_verdicts_and_what_is_missing_are_those_of_the_sets(
    spark: SparkSession, runs: dict[str, Truth], events: DataFrame, random_cuts: Cuts
):
    found = {row.run: row for row in cut(events, frame_of_cuts(spark, random_cuts)).collect()}
    assert found.keys() == {run for run, at in random_cuts.items() if at}
    for run, row in found.items():
        truth, at = runs[run], random_cuts[run]
        missing = truth.missing(at)
        assert row.consistent == (not missing), run
        assert row.missing_count == len(missing)
        assert [(m.node, m.seq) for m in row.missing] == sorted(missing)
        assert row.no_log == []
        for m in row.missing:
            assert m.pos == truth.sent_at.get((m.node, m.seq), (None, None))[1]
            first = next(n for n in truth.needs(at) if (m.node, m.seq) in n[2])
            assert (m.at_node, m.at_pos) == first[:2]
    assert 5 < sum(row.consistent for row in found.values()) < len(found) - 5


def test_the_greatest_cut_within_positions_is_that_of_the_sets(
    spark: SparkSession, runs: dict[str, Truth], events: DataFrame, random_cuts: Cuts
):
    found = cuts_of(latest_cut(events, within=frame_of_cuts(spark, random_cuts)))
    assert found == {run: runs[run].greatest(at) for run, at in random_cuts.items() if at}


def test_the_latest_cut_before_a_time_is_that_of_the_sets(
    runs: dict[str, Truth], events: DataFrame
):
    # In these executions the time of a record is its place in the log, not its position.
    late = 6
    before: Cuts = {run: dict(truth.ends) for run, truth in runs.items()}
    for row in events.where(f"t_us >= {late}").collect():
        before[row.run][row.node] = min(before[row.run][row.node], row.pos - 1)
    assert cuts_of(latest_cut(events, before_us=late)) == {
        run: runs[run].greatest(at) for run, at in before.items()
    }


def test_no_consistent_cut_within_positions_is_beyond_the_greatest(runs: dict[str, Truth]):
    """The sets themselves against all cuts there are."""
    tried = 0
    for truth in runs.values():
        size = 1
        for end in truth.ends.values():
            size *= end + 2
        if size > 2000:
            continue
        every = [
            dict(zip(truth.ends, at, strict=True))
            for at in product(*(range(-1, end + 1) for end in truth.ends.values()))
        ]
        consistent = [at for at in every if not truth.missing(at)]
        greatest = {node: max(at[node] for at in consistent) for node in truth.ends}
        assert truth.greatest(truth.ends) == greatest
        assert greatest in consistent
        tried += 1
    assert tried > 5


def test_in_correct_runs_consistent_means_no_delivery_inside_of_a_send_outside(
    runs: dict[str, Truth], random_cuts: Cuts
):
    for run, at in random_cuts.items():
        if not run.startswith(("execution", "dynamic_execution")):
            continue
        truth = runs[run]
        taken = [dots for node, pos, dots in truth.takings if pos <= at.get(node, -1)]
        assert (not truth.missing(at)) == (set().union(*taken) <= truth.inside(at)), run


def test_a_delivery_whose_send_is_outside_is_told():
    talk = of_story(*TALK)
    assert missing(talk, ann=0, bob=1, cy=1) == []
    assert missing(talk, ann=2, bob=0) == [("bob", 1, 1, "ann", 1)]


def test_one_step_back_takes_others_along():
    talk = of_story(*TALK, "cy deliver bob:1", "cy deliver ann:2", "cy send cy:2")
    assert within(talk, ann=2, bob=1, cy=4) == {"ann": 2, "bob": 1, "cy": 4}
    assert within(talk, ann=2, bob=0, cy=4) == {"ann": 0, "bob": 0, "cy": 1}
    assert within(talk, bob=2, cy=4) == {"ann": -1, "bob": -1, "cy": 0}


def test_streams_may_need_more_than_one_step_back():
    """What ann/s:1 names is inside, but the log that sent it must end before it."""
    talk = of_story(
        "bob send bob:1",
        "ann deliver bob:1",
        "ann send ann/s:1 []",
        "cy deliver ann/s:1",
        "dan deliver ann/s:1",
    )
    assert within(talk, bob=-1, ann=1, cy=0, dan=0) == {
        "ann": -1, "ann/s": -1, "bob": -1, "cy": -1, "dan": -1,
    }  # fmt: skip


def test_a_snapshot_needs_all_it_contains():
    joined = of_story(*TALK, "dan snapshot [ann:2]", "dan send dan:1", "cy deliver dan:1")
    assert missing(joined, ann=0, bob=1, dan=0) == [("ann", 2, 2, "dan", 0)]
    assert missing(joined, ann=2, bob=1, dan=0) == []
    late = within(joined, ann=0, bob=1, cy=2, dan=1)
    assert late == {"ann": 0, "bob": 1, "cy": 1, "dan": -1}


def test_what_a_restart_took_back_was_there_all_the_same():
    again = of_story("ann send ann:1", "bob deliver ann:1", "bob restart []", "bob send bob:1")
    assert missing(again, bob=2) == [("ann", 1, 0, "bob", 0)]


def test_a_message_that_no_log_sent_is_never_inside():
    lost = of_story("bob send bob:1", "bob deliver ann:1", "bob send bob:2")
    assert missing(lost, bob=2) == [("ann", 1, None, "bob", 1)]
    assert within(lost, bob=2) == {"ann": -1, "bob": 0}


def test_a_message_that_was_skipped_is_missing():
    gap = of_story("ann send ann:1", "ann send ann:3")
    assert missing(gap, ann=1) == [("ann", 2, None, "ann", 1)]
    assert within(gap, ann=1) == {"ann": 0}


def test_only_what_is_before_the_time_counts_even_if_a_clock_jumps_back(spark: SparkSession):
    rows = story_rows(*TALK, "ann end")
    jump = story_rows("ann send ann:1", "ann send ann:2", "ann send ann:3", run="jump")
    jump[1]["t_us"] = 99
    found = cuts_of(latest_cut(frame_of(spark, rows + jump), before_us=40))
    assert found == {"r": {"ann": 1, "bob": 1, "cy": -1}, "jump": {"ann": 0}}
    assert positions_of(latest_cut(frame_of(spark, rows))) == {"ann": 3, "bob": 1, "cy": 1}


def test_a_node_without_a_log_is_told_and_the_missing_are_counted(spark: SparkSession):
    many = [f"ann send ann:{seq}" for seq in range(1, 1003)]
    frame = story(spark, *many, "bob deliver ann:1002", "dan end")
    at = {"bob": 0, "zz": 0, "yy": 3, "xx": -1, "dan": 0}
    (row,) = cut(frame, at).collect()
    assert (row.run, row.consistent, row.no_log) == ("r", False, ["yy", "zz"])
    assert row.missing_count == 1002
    assert [lack.seq for lack in row.missing] == [*range(1, MISSING_LISTED_MAX + 1)]


def test_runs_that_the_cut_does_not_name_are_left_out(spark: SparkSession):
    both = story(spark, *TALK).union(story(spark, *TALK, run="s"))
    of_s = both.where("run = 's' AND node = 'ann' AND pos = 0")  # a cut from the frame itself
    assert [(row.run, row.consistent) for row in cut(both, of_s).collect()] == [("s", True)]
    assert cuts_of(latest_cut(both, within=of_s)) == {"s": {"ann": 0, "bob": -1, "cy": -1}}
    assert {row.run for row in cut(both, {"ann": 0}).collect()} == {"r", "s"}


@pytest.mark.parametrize("at", [{}, {"ann": -2}, {"ann": 1.5}, {"ann": True}, {3: 1}])
def test_positions_that_are_none_are_an_error(spark: SparkSession, at: dict):
    with pytest.raises(UnusableInputError, match="cut expected"):
        cut(story(spark, *TALK), at)


def test_a_node_named_twice_is_an_error():
    twice = pa.table({"node": ["ann", "ann"], "pos": [1, 2]})
    with pytest.raises(UnusableInputError, match="one position for each node, got ann: 1, ann: 2"):
        limits_of(of_story(*TALK), twice)


def test_positions_of_wants_one_run(spark: SparkSession):
    rows = [("r", "ann", 2), ("s", "ann", 3)]
    both = spark.createDataFrame(rows, "run string, node string, pos long")
    with pytest.raises(UnusableInputError, match="one run; it has the runs r, s"):
        positions_of(both)
    assert positions_of(both, "s") == {"ann": 3}
    with pytest.raises(UnusableInputError, match="one run named t; it has no run"):
        positions_of(both, "t")


def test_a_time_needs_the_clocks(spark: SparkSession):
    with pytest.raises(UnusableInputError, match="no t_us"):
        latest_cut(story(spark, *TALK).drop("t_us"), before_us=3)


@pytest.mark.parametrize("before", [1.5, True, "40", dt.datetime(2026, 1, 1), 1 << 63])
def test_a_time_is_whole_microseconds(spark: SparkSession, before: Any):
    with pytest.raises(UnusableInputError, match="before_us in whole microseconds"):
        latest_cut(story(spark, *TALK), before_us=before)


def test_records_without_a_time_are_not_taken_to_be_before_it(spark: SparkSession):
    rows = story_rows(*TALK)
    for row in rows[2:5]:
        row["t_us"] = None
    frame = frame_of(spark, rows)
    with pytest.raises(PythonException, match="run r: 3 rows have no t_us"):
        latest_cut(frame, before_us=np.int64(40)).collect()
    assert positions_of(latest_cut(frame)) == {"ann": 2, "bob": 1, "cy": 1}


def test_within_a_node_without_a_log_is_an_error(spark: SparkSession):
    both = story(spark, *TALK).union(story(spark, "dan send dan:1", run="s"))
    with pytest.raises(UnusableInputError, match="within names zed, which has no log in these"):
        latest_cut(both, within={"ann": 0, "zed": 1})
    assert cuts_of(latest_cut(both, within={"ann": 0, "dan": 0, "zed": -1})) == {
        "r": {"ann": 0, "bob": -1, "cy": -1},
        "s": {"dan": 0},
    }
    at = spark.createDataFrame([("r", "dan", 0)], "run string, node string, pos long")
    with pytest.raises(UnusableInputError, match="within names dan, which has no log in run r"):
        latest_cut(both, within=at)


@pytest.mark.parametrize("at", [[1, 2], "ann", 3, pd.DataFrame({"node": ["ann"], "pos": [1]})])
def test_positions_in_another_form_are_one_sentence(spark: SparkSession, at: Any):
    frame = story(spark, *TALK)
    for ask in (cut, materialise, lambda df, given: latest_cut(df, within=given)):
        with pytest.raises(UnusableInputError, match=r"expected positions as \{node: position\}"):
            ask(frame, at)
