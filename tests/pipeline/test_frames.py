"""Frames that are not traces are refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from tests.pipeline.oracles import TALK, frame_of, kernel_table, story, story_rows
from thence.causal.dot import Dot
from thence.errors import UnusableInputError
from thence.pipeline.cuts import cut, latest_cut, positions_of
from thence.pipeline.folds import materialise
from thence.pipeline.frames import messages_of, require_columns
from thence.pipeline.order import causal_order, causal_past, happens_before

PAIRS = "a_node string, a_seq long, b_node string, b_seq long"


def test_missing_columns_are_told_with_what_was_expected_and_what_is_there(spark: SparkSession):
    frame = frame_of(spark, []).drop("pos", "dot_seq")
    with pytest.raises(UnusableInputError) as error:
        causal_order(frame)
    assert str(error.value) == (
        "causal_order expected the columns run, node, pos, kind, dot_node, dot_seq; the frame has "
        "run, node, kind, dot_node, context, t_us, payload: no pos, dot_seq"
    )


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("CAST(pos AS string) AS pos", "column pos to be an integer; it is string"),
        ("array(node) AS context", "column context to be array<struct<node:string,seq:bigint>>; "
                                   "it is array<string>"),
        ("1 AS kind", "column kind to be a string; it is int"),
    ],
)  # fmt: skip
def test_a_column_of_another_type_is_told(spark: SparkSession, column: str, text: str):
    name = column.rpartition(" ")[2]
    frame = frame_of(spark, [])
    kept = [field for field in frame.columns if field != name]
    with pytest.raises(UnusableInputError, match=text):
        causal_order(frame.selectExpr(*kept, column))


@pytest.mark.parametrize(
    ("given", "kind"), [([1, 2], "builtins.list"), (pd.DataFrame({"run": []}), "pandas.*DataFrame")]
)
def test_what_is_no_frame_of_spark_is_told(spark: SparkSession, given: Any, kind: str):
    asks: list[Callable[[], object]] = [
        lambda: causal_order(given),
        lambda: causal_past(given, "ann:1"),
        lambda: happens_before(frame_of(spark, []), given),
        lambda: happens_before(given, spark.createDataFrame([], PAIRS)),
        lambda: cut(given, {"ann": 1}),
        lambda: latest_cut(given),
        lambda: positions_of(given),
        lambda: materialise(given),
    ]
    for ask in asks:
        with pytest.raises(UnusableInputError, match=f"expected a DataFrame of Spark, got {kind}"):
            ask()


def test_a_frame_without_contexts_will_do(spark: SparkSession):
    frame = story(spark, *TALK).drop("context", "payload")
    require_columns(frame, ["run"], "this")
    assert causal_order(frame).count() == 4


def test_a_row_that_is_no_record_fails_the_job_with_its_reason(spark: SparkSession):
    rows = story_rows(*TALK)
    rows[2]["dot_node"] = None
    with pytest.raises(PythonException, match=r"run r: 1 rows are not trace records.*dot"):
        causal_order(frame_of(spark, rows)).collect()


def test_great_holes_in_the_numbers_of_messages_are_no_trouble():
    far = 1 << 35
    lines = [f"ann send ann:{far}", f"bob deliver ann:{far}", "bob send bob:1"]
    messages = messages_of("r", kernel_table(story_rows(*lines)))
    assert messages.seqs().tolist() == [far, 1]
    assert messages.entries(messages.id).T.tolist() == [[far, 0], [far, 1]]
    assert [messages.find_one(Dot("ann", seq)) >= 0 for seq in (1, far - 1, far, far + 1)] == [
        False, False, True, False,
    ]  # fmt: skip


def test_names_that_do_not_occur_have_no_code():
    messages = messages_of("r", kernel_table(story_rows("ann send ann:1")))
    assert messages.codes(pa.chunked_array([["ann", None, "zz"], ["ann"]])).tolist() == [
        0, -1, -1, 0,
    ]  # fmt: skip
