"""The causal order of messages, against explicit sets over random executions."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests.pipeline.oracles import (
    TALK,
    D,
    Maker,
    Truth,
    frame_of,
    many_runs,
    messages_and_truth,
    story,
    story_rows,
)
from tests.seeds import seeds
from tests.trace.dynamics import broken_dynamic, dynamic_execution
from tests.trace.executions import broken, execution
from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.pipeline.order import (
    causal_future,
    causal_order,
    causal_past,
    concurrent_with,
    depths,
    happens_before,
)

MAKERS = (execution, broken, dynamic_execution, broken_dynamic)
SEEDS = 15


@pytest.fixture(scope="module")
def executions(spark: SparkSession) -> Iterator[tuple[dict[str, Truth], DataFrame]]:
    """Small runs, correct and broken, with members that stay and that come and go."""
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


def dots(frame: DataFrame) -> set[tuple[str, D]]:
    return {(row.run, (row.node, row.seq)) for row in frame.collect()}


@pytest.mark.parametrize("make", MAKERS)
def test_the_kernels_find_the_pasts_and_depths_of_the_sets(make: Maker):
    for seed in seeds(60):
        if (found := messages_and_truth(make, seed)) is None:
            continue
        messages, truth = found
        origins = [messages.names[code] for code in messages.origin.tolist()]
        sent = list(zip(origins, messages.seqs().tolist(), strict=True))
        assert sent == truth.dots, seed
        for dot, entries in zip(sent, messages.entries(messages.id).T.tolist(), strict=True):
            latest = zip(messages.names, entries, strict=True)
            past = {(origin, seq) for origin, last in latest for seq in range(1, last + 1)}
            assert past == truth.past(dot) | {dot}, (seed, dot)
        depth = [None if one < 0 else one for one in depths(messages)[messages.id].tolist()]
        assert dict(zip(sent, depth, strict=True)) == truth.depths(), seed


def test_depths_positions_and_vectors_are_those_of_the_sets(
    runs: dict[str, Truth], events: DataFrame
):
    found: dict[str, dict[D, tuple]] = {run: {} for run in runs}
    places = events.selectExpr("*", "concat(run, ' ', node, ' ', pos, ' ', kind) AS place")
    for row in causal_order(places, vectors=True).collect():
        node, pos = runs[row.run].sent_at[row.node, row.seq]
        assert (node, pos) == (row.node.partition("/")[0], row.pos)
        assert row.place == f"{row.run} {node} {pos} send"
        assert (row.node, row.seq) not in found[row.run]
        found[row.run][row.node, row.seq] = (row.depth, row.position, row.vector)
    unordered = 0
    for run, truth in runs.items():
        depths = truth.depths()
        order = sorted((d for d in truth.dots if depths[d]), key=lambda d: (depths[d], d))
        assert {d: f[0] for d, f in found[run].items()} == depths, run
        assert {d: f[1] for d, f in found[run].items()} == {
            **dict.fromkeys(truth.dots),
            **{d: at for at, d in enumerate(order)},
        }, run
        for dot, (_, _, vector) in found[run].items():
            past = {(node, seq) for node, last in vector.items() for seq in range(1, last + 1)}
            assert past == truth.past(dot) | {dot}, (run, dot)
        for dot in order:
            assert all(found[run].get(d, (0, -1))[1] < found[run][dot][1] for d in truth.past(dot))
        unordered += len(truth.dots) - len(order)
    assert unordered, "no broken run put a message before itself: the null case is not tested"


def test_relations_of_all_pairs_are_those_of_the_sets(
    spark: SparkSession, runs: dict[str, Truth], events: DataFrame
):
    rng = random.Random(2)
    pairs = []
    for run, truth in runs.items():
        known = [*truth.dots, ("n0", 99), ("nobody", 1), ("n1", 1)]
        some = [(a, b) for a in known for b in known]
        pairs += [(run, *a, *b) for a, b in rng.sample(some, min(len(some), 40))]
    columns = ("run", "a_node", "a_seq", "b_node", "b_seq")
    asked = pa.table(dict(zip(columns, zip(*pairs, strict=True), strict=True)))
    seen = set()
    answers = happens_before(events, spark.createDataFrame(asked)).collect()
    assert len(answers) == len(pairs)
    for row in answers:
        expected = runs[row.run].relation((row.a_node, row.a_seq), (row.b_node, row.b_seq))
        assert row.relation == expected, row
        seen.add(expected)
    assert seen == {"before", "after", "concurrent", "same", "unknown", "contradictory"}


def test_past_future_and_concurrent_messages_divide_a_run(
    runs: dict[str, Truth], events: DataFrame
):
    dot = ("n0", 1)
    asked = {run: truth for run, truth in runs.items() if dot in truth.sent_at}
    past, future = dots(causal_past(events, dot)), dots(causal_future(events, Dot(*dot)))
    beside = dots(concurrent_with(events, "n0:1"))
    for run, truth in asked.items():
        for other in truth.dots:
            where = (run, other)
            relation = truth.relation(other, dot)
            assert (where in past) == (relation in ("before", "contradictory")), where
            assert (where in future) == (relation in ("after", "contradictory")), where
            assert (where in beside) == (relation == "concurrent"), where
    assert {run for run, _ in past | future | beside} <= set(asked)


def test_the_same_rows_in_another_order_give_the_same_table(events: DataFrame):
    events = events.where("run LIKE 'broken%'")
    here = {tuple(row) for row in causal_order(events).collect()}
    there = {tuple(row) for row in causal_order(events.orderBy("dot_seq", "pos")).collect()}
    assert here == there


def test_of_records_at_one_position_the_same_one_counts_whichever_comes_first(spark: SparkSession):
    rows = story_rows("ann send ann:1", "bob deliver ann:1", "bob send bob:1")
    rows.append({**rows[1], "kind": "send", "dot_node": "bob", "dot_seq": 1, "payload": '"other"'})
    rows.append(dict(rows[0]))
    answers = set()
    for order in (rows, rows[::-1]):
        frame = frame_of(spark, order).coalesce(1)
        kept = causal_order(frame).select("node", "seq", "pos", "depth", "payload").collect()
        answers.add(tuple(sorted(map(tuple, kept))))
    assert answers == {(("ann", 1, 0, 1, '"ann:1"'), ("bob", 1, 1, 2, '"bob:1"'))}


def test_the_columns_of_the_send_go_along(spark: SparkSession):
    frame = story(spark, *TALK).selectExpr("*", "concat(node, '!') AS `room no.`")
    order = causal_order(frame)
    assert order.columns == [
        "run", "node", "seq", "pos", "depth", "position", "t_us", "payload", "room no.",
    ]  # fmt: skip
    found = [tuple(row) for row in order.orderBy("position").collect()]
    assert found == [
        ("r", "ann", 1, 0, 1, 0, 0, '"ann:1"', "ann!"),
        ("r", "cy", 1, 0, 1, 1, 50, '"cy:1"', "cy!"),
        ("r", "bob", 1, 1, 2, 2, 20, '"bob:1"', "bob!"),
        ("r", "ann", 2, 2, 3, 3, 40, '"ann:2"', "ann!"),
    ]


def test_nested_columns_come_back_as_they_were(spark: SparkSession):
    nested = ("array(node, NULL) AS to", "map(node, array(pos)) AS `m.`", "struct(t_us) AS s")
    talk = story(spark, "ann send ann:1", "ann send ann:2")
    frame = talk.selectExpr("*", *nested)
    order = causal_order(frame)
    for name in ("to", "m.", "s"):
        kinds = [one.schema[name].dataType.simpleString() for one in (order, frame)]
        assert kinds[0] == kinds[1]
    (row,) = order.where("seq = 2").collect()
    assert (row["to"], row["m."], row["s"]) == (["ann", None], {"ann": [1]}, Row(t_us=10))


def test_pairs_without_a_run_are_asked_of_every_run_and_keep_their_columns(spark: SparkSession):
    other = story(spark, "ann send ann:1", "cy send cy:1", "ann deliver cy:1", run="s")
    both = story(spark, *TALK).union(other)
    pairs = spark.createDataFrame([("ann", 1, "bob", 1, ["why"])], "a_node string, a_seq int, "
                                  "b_node string, b_seq int, note array<string>")  # fmt: skip
    found = happens_before(both, pairs).orderBy("run").collect()
    assert [row.asDict() for row in found] == [
        {"run": run, "a_node": "ann", "a_seq": 1, "b_node": "bob", "b_seq": 1, "note": ["why"],
         "relation": relation}
        for run, relation in (("r", "before"), ("s", "unknown"))
    ]  # fmt: skip


def test_pairs_of_a_run_without_events_are_unknown(spark: SparkSession):
    pairs = spark.createDataFrame(
        [("gone", "ann", 1, "ann", 1)], "run string, a_node string, a_seq long, b_node string, "
        "b_seq long",
    )  # fmt: skip
    found = happens_before(story(spark, *TALK), pairs).collect()
    assert [row.relation for row in found] == ["unknown"]


def test_a_run_can_be_chosen(spark: SparkSession):
    both = story(spark, *TALK).union(story(spark, *TALK, run="s"))
    assert dots(causal_past(both, ("ann", 2), run="s")) == {("s", ("ann", 1)), ("s", ("bob", 1))}


@pytest.mark.parametrize(("dot", "run"), [("ann:9", None), ("ann:1", "s"), ("zz:1", "r")])
def test_a_dot_that_no_log_sent_is_an_error(spark: SparkSession, dot: str, run: str | None):
    with pytest.raises(UnusableInputError, match=f"no log .* sent {dot}"):
        causal_past(story(spark, *TALK, "cy send zz:1"), dot, run)


@pytest.mark.parametrize("dot", ["ann", "ann:0", ("ann", "1"), ("ann", 0), ("ann",), 7])
def test_what_is_no_dot_is_an_error(spark: SparkSession, dot: Any):
    with pytest.raises(UnusableInputError, match="is not a dot: expected"):
        concurrent_with(story(spark, *TALK), dot)


def test_a_column_that_is_added_must_not_be_there(spark: SparkSession):
    with pytest.raises(UnusableInputError, match=r"adds the columns depth, .* already"):
        causal_order(story(spark, *TALK).selectExpr("*", "1 AS depth"))


def test_an_empty_frame_has_no_messages(spark: SparkSession):
    empty = frame_of(spark, [])
    assert causal_order(empty).collect() == []
