"""Any DataFrame as trace events."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.pipeline.test_ingest import rows_of, snapshot
from thence.errors import UnusableInputError
from thence.pipeline.importers.mapping import events_from
from thence.pipeline.ingest_frames import import_frame
from thence.pipeline.tables import EVENTS, PLAIN
from thence.trace.check import check_paths
from thence.trace.record import RunInfo

ROWS = [
    # job, host, op, n, sender, at, seen, body, rack
    ("j", 1, "publish", 1, 1, 10, {}, "hello", "x"),
    ("j", 2, "consume", 1, 1, 20, None, None, None),
    ("j", 2, "publish", 1, 2, 30, {1: 1}, 'he "said"', "y"),
    ("j", 1, "consume", 1, 2, 40, None, None, None),
    ("j", 1, "gc", None, None, 50, None, None, "x"),
]
SCHEMA = (
    "job string, host int, op string, n int, sender int, at long, seen map<int, int>, body string, "
    "rack string"
)
MAPPING: dict[str, Any] = {
    "run": "job", "node": "host", "kind": "op", "seq": "n", "origin": "sender", "time": "at",
    "order": "at", "context": "seen", "payload": "body", "extra": ["rack"],
    "kinds": {"publish": "send", "consume": "deliver"},
}  # fmt: skip


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(ROWS, SCHEMA).cache()


def test_columns_become_those_of_a_trace(frame: DataFrame):
    events = events_from(frame, **MAPPING)
    assert events.columns == PLAIN.names
    rows = [row.asDict(recursive=True) for row in events.orderBy("node", "pos").collect()]
    found = [
        (row["node"], row["pos"], row["kind"], row["dot_node"], row["dot_seq"]) for row in rows
    ]
    assert found == [
        ("1", 0, "send", "1", 1),
        ("1", 1, "deliver", "2", 1),
        ("1", 2, "gc", None, None),
        ("2", 0, "deliver", "1", 1),
        ("2", 1, "send", "2", 1),
    ]
    assert rows[4]["context"] == [{"node": "1", "seq": 1}]
    assert [row["context"] for row in rows[:2]] == [[], None]
    assert json.loads(rows[4]["payload"]) == 'he "said"'
    assert [row["extra"] for row in rows] == [
        '{"rack":"x"}',
        None,
        '{"rack":"x"}',
        None,
        '{"rack":"y"}',
    ]
    assert [row["t_us"] for row in rows] == [10, 40, 50, 20, 30]
    assert {row["v"] for row in rows} == {1}


def test_a_frame_becomes_a_table_that_can_be_checked(frame: DataFrame, tmp_path: Path):
    info = RunInfo(run="j", members=("1", "2"), engine="theirs")
    report = import_frame(frame, MAPPING, tmp_path, source="day one", infos=[info])
    assert (report.events, report.nodes, report.runs) == (5, 2, ("j",))
    verdict = check_paths([tmp_path / EVENTS])
    assert verdict.ok
    assert verdict.events == 5
    kept = json.loads((tmp_path / EVENTS / "run=j" / "_run.json").read_bytes())
    assert kept["engine"] == "theirs"
    before = snapshot(tmp_path)
    again = import_frame(frame, MAPPING, tmp_path, source="day one")
    assert (again.segments_there, again.events) == (1, 0)
    with pytest.raises(UnusableInputError, match="both hold a log of 1 in the run j"):
        import_frame(frame, MAPPING, tmp_path, source="day two")
    assert snapshot(tmp_path) == before


def test_frames_with_positions_of_their_own_are_parts_of_one_log(
    spark: SparkSession, tmp_path: Path
):
    mapping = {"run": F.lit("r"), "node": F.lit("a"), "kind": F.lit("sample"), "pos": "id"}
    for start in (0, 10):
        part = spark.range(start, start + 10)
        import_frame(part, mapping, tmp_path, source=f"from {start}")
    assert [row["pos"] for row in rows_of(tmp_path)] == list(range(20))
    assert check_paths([tmp_path / EVENTS]).ok


def test_columns_that_are_not_there_are_listed_with_those_that_are(frame: DataFrame):
    with pytest.raises(UnusableInputError) as caught:
        events_from(frame, **MAPPING | {"node": "server", "time": "clock"})
    text = str(caught.value)
    assert text.startswith("expected the columns job, server, op")
    assert "the frame has job, host, op, n, sender, at, seen, body, rack" in text
    assert text.endswith("no server, clock")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"seq": "body"}, "seq: expected an integer, got string"),
        ({"time": "body"}, "time: expected a timestamp, or an integer of microseconds, got string"),
        ({"context": "n"}, "context: expected an array of structs .node, seq., or a map from node"),
        ({"node": "seen"}, "node: expected a string or an integer, got map<int,int>"),
        ({"to": "body"}, "to: expected an array of strings, got string"),
        ({"order": None}, "positions are needed: give pos, or order"),
    ],
)
def test_wrong_types_say_what_was_expected(frame: DataFrame, change: Any, sentence: str):
    with pytest.raises(UnusableInputError, match=sentence):
        events_from(frame, **MAPPING | change)


def test_extra_columns_with_names_of_the_format_are_refused(frame: DataFrame):
    renamed = frame.withColumnRenamed("rack", "pos")
    with pytest.raises(UnusableInputError, match="extra: pos is a field of a trace"):
        events_from(renamed, **MAPPING | {"extra": ["pos"]})


def test_rows_that_cannot_be_events_are_counted_and_refused(spark: SparkSession):
    rows: list[tuple[Any, ...]] = [
        ("j", None, "publish", 1, 1, 10),
        (None, "a", "publish", 1, 1, 10),
        ("j", "a/b", "publish", 1, 1, 10),
        ("j", "a", "publish", None, 1, 10),
        ("j", "a", "publish", 0, 1, None),
        ("j", "a", "consume", 5, None, 10),
        ("j", "a", None, 5, 1, None),
        ("j", "a", "publish", 1, 1, 10),
    ]
    frame = spark.createDataFrame(
        rows, "job string, host string, op string, n int, sender int, at int"
    )
    mapping = {k: v for k, v in MAPPING.items() if k not in ("context", "payload", "extra")}
    with pytest.raises(UnusableInputError) as caught:
        events_from(frame, **mapping)
    assert str(caught.value) == (
        "rows that cannot be events: 1 with no run; 1 with no node; 1 with no kind; 2 with nothing "
        "to order by; 1 with a node with '/' or without a name; 1 with a kind that needs a seq, "
        "and no seq; 1 with a seq below 1 or above 2**40-1; 1 with a seq, and no origin"
    )
    del mapping["origin"]
    with pytest.raises(UnusableInputError, match="1 with a kind that needs an origin, which is"):
        events_from(frame, **mapping)
    pos = F.expr("CASE WHEN host IS NULL THEN NULL WHEN job IS NULL THEN -1 ELSE 4 END")
    with pytest.raises(UnusableInputError, match="1 with no pos; 1 with a pos below 0"):
        events_from(frame, **mapping | {"pos": pos})


def test_origins_may_be_left_out_where_dots_are_the_nodes_own(spark: SparkSession):
    frame = spark.createDataFrame([("a", 1)], "h string, n long")
    (row,) = events_from(
        frame, run=F.lit("r"), node="h", kind=F.lit("send"), seq="n", order="n"
    ).collect()
    assert (row.dot_node, row.dot_seq, row.pos) == ("a", 1, 0)


def test_times_lists_and_names_of_other_shapes_are_taken(spark: SparkSession):
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 6, datetime.UTC)
    frame = spark.createDataFrame(
        [("a", moment, [("b", 2)], ["c"], {"k": [1]}, 7)],
        "`my.host` string, w timestamp, c array<struct<who: string, what: int>>, t array<string>, "
        "p map<string, array<int>>, z long",
    )
    (row,) = events_from(
        frame, run=F.lit("r"), node="my.host", kind=F.lit("x"), time="w", context="c", to="t",
        payload="p", order=["w", F.desc("z")], bytes="z", words="z", peer="my.host", stable="c",
    ).collect()  # fmt: skip
    assert row.t_us == int(moment.timestamp()) * 1_000_000 + 6
    assert [tuple(dot) for dot in row.context] == [("b", 2)] == [tuple(dot) for dot in row.stable]
    assert (row.to, json.loads(row.payload), row.bytes) == (["c"], {"k": [1]}, 7)
    assert row["from"] == "a"


def test_rows_with_other_faults_leave_the_table_as_it_was(spark: SparkSession, tmp_path: Path):
    frame = spark.createDataFrame(
        [("a", [("b", 0)])], "h string, c array<struct<n: string, s: int>>"
    )
    mapping = {"run": F.lit("r"), "node": "h", "kind": F.lit("x"), "context": "c", "order": "h"}
    with pytest.raises(UnusableInputError, match=r"1 rows cannot be events.*context\[0\]"):
        import_frame(frame, mapping, tmp_path, source="x")
    assert not rows_of(tmp_path)
    assert not list((tmp_path / "_staging").iterdir())
