"""The check on Spark itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.bench_check import Execution
from tests.pipeline.runs import write_run
from tests.trace.dynamics import broken_dynamic
from tests.trace.executions import broken, records_of
from thence.causal.dot import Dot
from thence.errors import TraceError, UnusableInputError
from thence.pipeline.causality.spark import check_on_spark
from thence.trace.check import check_paths
from thence.trace.verdict import RULES

BROKEN_EACH = 35  # static and dynamic


@pytest.fixture(scope="module")
def broken_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many broken executions, each a run of its own."""
    root = tmp_path_factory.mktemp("broken")
    for make in (broken, broken_dynamic):
        for seed in range(BROKEN_EACH):
            logs, info = make(seed)
            name = f"{make.__name__}-{seed}"
            records = [msgspec.structs.replace(record, run=name) for record in records_of(logs)]
            write_run(root / name, records, msgspec.structs.replace(info, run=name), seed)
    return root


@pytest.mark.parametrize("whole", [0, 10**6])
def test_broken_executions_are_judged_as_by_the_local_checker(spark, broken_runs, whole):
    report = check_on_spark(spark, [broken_runs], keep_going=True, whole_events_max=whole)
    local = check_paths([broken_runs], keep_going=True)
    assert json.loads(report.to_json()) == json.loads(local.to_json())
    assert report.quarantined == local.quarantined
    assert report.notes == local.notes
    assert len(local.counts) > len(RULES) / 2


def test_verdicts_and_violations_are_tables(spark, broken_runs, tmp_path):
    report = check_on_spark(spark, [broken_runs], keep_going=True, out=str(tmp_path / "out"))
    verdicts = spark.read.parquet(str(tmp_path / "out" / "verdicts")).collect()
    assert len(verdicts) == report.runs
    assert sum(row["events"] for row in verdicts) == report.events
    assert {row["run"] for row in verdicts if not row["ok"]} >= {v.run for v in report.violations}
    counted: dict[str, int] = {}
    for row in verdicts:
        for rule, count in row["counts"].items():
            counted[rule] = counted.get(rule, 0) + count
    assert counted == report.counts
    violations = spark.read.parquet(str(tmp_path / "out" / "violations"))
    assert violations.count() == sum(report.counts.values())
    first = violations.orderBy("run", "node", "pos", "rule", "dot_node", "dot_seq").first()
    said = report.violations[0]
    assert (first["run"], first["node"], first["pos"], first["rule"], first["why"]) == (
        said.run, said.node, said.pos, said.rule, said.why,
    )  # fmt: skip
    if said.dot is not None:
        assert Dot(first["dot_node"], first["dot_seq"]) == said.dot


def test_nothing_is_left_behind(spark, broken_runs, tmp_path):
    before = sorted(broken_runs.rglob("*"))
    check_on_spark(spark, [broken_runs], keep_going=True, work=str(tmp_path))
    assert list(tmp_path.iterdir()) == []
    assert sorted(broken_runs.rglob("*")) == before


def test_what_cannot_be_read_raises_as_it_does_locally(spark, tmp_path):
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "absent"):
        with pytest.raises(UnusableInputError) as local:
            check_paths([path])
        with pytest.raises(UnusableInputError) as there:
            check_on_spark(spark, [path])
        assert str(there.value) == str(local.value)
    run = tmp_path / "run"
    Execution(3, 300).write_new(run)
    whole = (run / "node01-000000.parquet").read_bytes()
    (run / "node01-000000.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError) as local:
        check_paths([run])
    with pytest.raises(TraceError) as there:
        check_on_spark(spark, [run])
    assert str(there.value) == str(local.value)
    assert "node01-000000.parquet: not a readable Parquet segment" in str(there.value)


SMALL_DRIVER = """
import sys
from pathlib import Path
from thence.pipeline.causality.spark import check_on_spark
from thence.pipeline.session import spark_session
spark = spark_session("local[2]", memory="480m", settings={"spark.driver.maxResultSize": "32k"})
report = check_on_spark(spark, [sys.argv[1]])
print(report.to_json().decode())
spark.stop()
"""


def test_nothing_that_grows_with_the_events_reaches_the_driver(tmp_path):
    events = Execution(4, 3_000_000).write_new(tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DRIVER, str(tmp_path / "run")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    report = json.loads(done.stdout.splitlines()[-1])
    assert report["ok"]
    assert report["events"] == events
