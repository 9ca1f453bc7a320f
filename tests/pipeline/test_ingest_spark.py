"""Ingest on Spark: the same table as without, and tables that Spark reads."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.pipeline.test_import_shiviz import AKKA, DATA, clocks_in, less
from tests.pipeline.test_ingest import record, snapshot, write_records
from thence.errors import UnusableInputError
from thence.pipeline.ingest import ingest
from thence.pipeline.order import happens_before
from thence.pipeline.tables import (
    EVENTS,
    EVENTS_SCHEMA,
    PLAIN,
    QUARANTINE_ARROW,
    QUARANTINE_SCHEMA,
    SEGMENTS_ARROW,
    SEGMENTS_SCHEMA,
    log_stem,
    read_events,
    read_quarantine,
    read_segments,
    run_fault,
    run_folder,
    spark_path,
)
from thence.trace.check import check_paths

# Names that Spark would take for something else, or that a file system would not take.
RUNS = ["7", "007", "1e5", "-1", "2024-01-01", "NaN", "Infinity", "a=b/c", "é", "x y", "100%", "A",
        "a", "__HIVE_DEFAULT_PARTITION__", ".", "#1", "r"]  # fmt: skip


def test_a_table_made_on_spark_is_the_table_made_without(spark: SparkSession, tmp_path: Path):
    raw = tmp_path / "raw"
    records = [record(pos, node) for node in "abc" for pos in range(50)]
    random.Random(1).shuffle(records)
    for at in range(6):
        write_records(raw / f"{at}.{['jsonl', 'parquet', 'jsonl.gz'][at % 3]}", records[at::6])
    (raw / "9.jsonl").write_bytes(b"nonsense\n")
    seen: list[tuple[str, int, int]] = []
    report = ingest(spark, [raw], tmp_path / "one", progress=lambda *told: seen.append(told))
    assert report == ingest(None, [raw], tmp_path / "two")
    assert (report.segments, report.events, report.quarantined) == (7, 150, 1)
    one, two = snapshot(tmp_path / "one"), snapshot(tmp_path / "two")
    assert one == two
    assert all(done <= total for _, done, total in seen)
    again = ingest(spark, [raw], tmp_path / "one")
    assert (again.segments, again.segments_there) == (0, 7)
    assert snapshot(tmp_path / "one") == two


def test_spark_reads_the_tables_whatever_the_runs_are_called(spark: SparkSession, tmp_path: Path):
    raw, table = tmp_path / "raw", tmp_path / "odd [table]*{x}?"
    for at, run in enumerate(RUNS):
        records = [record(0, "N#2", run), record(1, "N#2", run, payload={"x": run})]
        write_records(raw / str(at) / "a.jsonl", records)
    (raw / "0" / "b.jsonl").write_bytes(b'{"run":"7"}\n')
    report = ingest(None, [raw], table)
    assert report.runs == tuple(sorted(RUNS))
    events = read_events(spark, table)
    assert events.columns == PLAIN.names
    assert sorted(row.run for row in events.where("pos = 0").collect()) == sorted(RUNS)
    one = events.where("run = '007'").collect()
    assert [json.loads(row.payload) for row in one if row.payload] == [{"x": "007"}]
    # Without thence: Spark's own discovery gives the same strings.
    plain = spark.read.parquet(spark_path(str(table / EVENTS)))
    assert dict(plain.dtypes)["run"] == "string"
    assert sorted(row.run for row in plain.where("pos = 0").collect()) == sorted(RUNS)
    (bad,) = read_quarantine(spark, table).collect()
    assert (bad.run, bad.line, Path(bad.file).name) == ("7", 1, "b.jsonl")
    taken = read_segments(spark, table).selectExpr("sum(taken)", "sum(quarantined)").first()
    assert taken is not None
    assert tuple(taken) == (2 * len(RUNS), 1)
    assert check_paths([table / EVENTS]).runs == len(RUNS)


def test_a_run_that_looks_like_a_number_alone_is_a_string(spark: SparkSession, tmp_path: Path):
    """Spark guesses from all folders together: one odd name would hide another."""
    for at, run in enumerate(["7", "1e5", "2024-01-01", "NaN"]):
        write_records(tmp_path / f"raw{at}" / "a.jsonl", [record(0, run=run)])
        ingest(None, [tmp_path / f"raw{at}"], tmp_path / f"table{at}")
        found = spark.read.parquet(str(tmp_path / f"table{at}" / EVENTS))
        assert [row.run for row in found.collect()] == [run]


def test_happens_before_on_spark_is_the_order_of_the_clocks(spark: SparkSession, tmp_path: Path):
    path = DATA / "reliable-broadcast.log"
    report = ingest(
        spark, [path], tmp_path / "table", importer="shiviz", settings={"expression": AKKA}
    )
    assert report.taken == 116
    clocks = clocks_in(path.read_text(), AKKA)
    rng = random.Random(3)
    dots = sorted(clocks)
    pairs = [(*rng.choice(dots), *rng.choice(dots)) for _ in range(300)]
    frame = spark.createDataFrame(pairs, "a_node string, a_seq long, b_node string, b_seq long")
    found = happens_before(read_events(spark, tmp_path / "table"), frame).collect()
    assert len(found) == 300
    for row in found:
        one, other = clocks[row.a_node, row.a_seq], clocks[row.b_node, row.b_seq]
        relation = "before" if less(one, other) else "after" if less(other, one) else "concurrent"
        assert row.relation == ("same" if one == other else relation)


def test_a_session_is_made_only_when_there_is_something_to_do(tmp_path: Path):
    def never() -> Any:
        raise AssertionError

    write_records(tmp_path / "raw" / "a.jsonl", [record(0)])
    ingest(None, [tmp_path / "raw"], tmp_path / "table")
    assert ingest(never, [tmp_path / "raw"], tmp_path / "table").segments_there == 1
    with pytest.raises(UnusableInputError, match="does not exist"):
        ingest(never, [tmp_path / "none"], tmp_path / "table")


def test_a_folder_that_is_no_table_is_named(spark: SparkSession, tmp_path: Path):
    with pytest.raises(UnusableInputError, match=r"is not a table folder: `thence ingest` makes"):
        read_events(spark, tmp_path)


def test_schemas_for_spark_and_for_arrow_are_the_same(spark: SparkSession, tmp_path: Path):
    for text, arrow in (
        (EVENTS_SCHEMA, PLAIN),
        (QUARANTINE_SCHEMA, QUARANTINE_ARROW),
        (SEGMENTS_SCHEMA, SEGMENTS_ARROW),
    ):
        path = tmp_path / f"{len(arrow)}-{arrow.names[0]}.parquet"
        pq.write_table(pa.Table.from_pylist([], schema=arrow), path)
        read = spark.read.parquet(str(path)).schema
        given = spark.read.schema(text).parquet(str(path)).schema
        assert [(f.name, f.dataType) for f in read] == [(f.name, f.dataType) for f in given]


@pytest.mark.parametrize("run", [*RUNS, "%41", "run=x", "日本", "a\nb"])
def test_folders_of_runs_are_unescaped_as_spark_does_it(run: str):
    folder = run_folder(run)
    assert re.sub("%(..)", lambda found: chr(int(found[1], 16)), folder) == f"run={run}"
    assert "/" not in folder[4:]
    assert folder == folder.lower()
    with pytest.raises(ValueError, match="could not convert"):
        float(folder[4:])  # Spark looks at the name as it is escaped


def test_folders_differ_where_runs_differ_even_without_case():
    names = [*RUNS, "%41", "%61"]
    assert len({run_folder(run).lower() for run in names}) == len(set(names))


def test_names_that_are_too_long_have_a_digest_or_a_reason():
    assert run_fault("r" * 200) is None
    assert run_fault("R" * 200) is not None
    long = ["n" * 1000, "n" * 999 + "m"]
    assert len({log_stem(name) for name in long}) == 2
    assert all(len(log_stem(name)) <= 160 for name in long)


def test_paths_of_spark_are_absolute_and_literal():
    assert spark_path("s3://bucket/x?region=eu") == "s3a://bucket/x"
    assert spark_path("hdfs://host/x") == "hdfs://host/x"
    assert spark_path("relative").startswith("file:///")
