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
from thence.cli.main import main
from thence.errors import ThenceError, TraceError, UnusableInputError
from thence.pipeline.causality.spark import check_on_spark, explain_on_spark
from thence.pipeline.tables import spark_path
from thence.pipeline.tasks import spark_runner
from thence.trace.check import check_paths
from thence.trace.explain import explain
from thence.trace.verdict import RULES

BROKEN = (*range(35), 43)  # static and dynamic; together they break every rule


@pytest.fixture(scope="module")
def broken_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many broken executions, each a run of its own."""
    root = tmp_path_factory.mktemp("broken")
    for make in (broken, broken_dynamic):
        for seed in BROKEN:
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
    assert set(local.counts) == set(RULES)


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
import resource
import sys
from thence.pipeline.causality.spark import check_on_spark, explain_on_spark
from thence.pipeline.session import spark_session
spark = spark_session("local[2]", memory="480m", settings={"spark.driver.maxResultSize": "32k"})
check_on_spark(spark, [sys.argv[2]])  # everything is loaded
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
report = check_on_spark(spark, [sys.argv[1]])
text = explain_on_spark(spark, report, report.violations)[0]
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(text.splitlines()[0])
print(grown)
print(report.to_json().decode())
spark.stop()
"""
DRIVER_KB_MAX = 16_000
"""What the driver's Python may grow by: a sixth of what the columns of that run take."""


def test_nothing_that_grows_with_the_events_reaches_the_driver(tmp_path):
    Execution(2, 100).write_new(tmp_path / "small")
    events = Execution(4, 3_000_000).write_new(tmp_path / "run")
    told = {"v": 1, "run": "bench", "node": "node01", "pos": 10**7, "kind": "stable"}
    told |= {"run": check_run_name(tmp_path / "run"), "dot": ["node01", 1]}
    (tmp_path / "run" / "node01-000001.jsonl").write_text(json.dumps(told) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", SMALL_DRIVER, str(tmp_path / "run"), str(tmp_path / "small")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said, grown, last = done.stdout.splitlines()[-3:]
    report = json.loads(last)
    assert report["counts"] == {"log-gap": 1, "stable-duplicate": 1}
    assert report["events"] == events + 1
    assert said.startswith("log-gap at node01, position 10000000 of run ")
    assert int(grown) < DRIVER_KB_MAX


def check_run_name(folder: Path) -> str:
    name: str = json.loads((folder / "run.json").read_text())["run"]
    return name


def test_folders_may_have_names_that_mean_something_to_spark(
    spark, broken_runs, tmp_path, monkeypatch
):
    """Brackets are a pattern where Spark reads; a relative path is relative to the driver."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").symlink_to(broken_runs)
    report = check_on_spark(
        spark, ["runs"], keep_going=True, work="work[1]", out="out{a,b}*", whole_events_max=0
    )
    local = check_paths(["runs"], keep_going=True)
    assert report.to_json() == local.to_json()
    table = spark.read.parquet(spark_path(str(tmp_path / "out{a,b}*" / "violations")))
    assert table.count() == sum(local.counts.values())
    texts = explain_on_spark(spark, report, report.violations[:3])
    assert texts == [explain(local, violation) for violation in local.violations[:3]]


def test_a_task_that_fails_is_told_in_one_sentence(spark, tmp_path):
    run = spark_runner(spark)
    with pytest.raises(UnusableInputError, match=r"^no such thing: spec 7$"):
        run("trying", fail_as_ours, [ForFailing(7)], ForFailing)
    with pytest.raises(ThenceError, match=r"^Spark failed while trying: ZeroDivisionError: "):
        run("trying", fail_otherwise, [ForFailing(7)], ForFailing)


class ForFailing(msgspec.Struct):
    number: int


def fail_as_ours(spec: ForFailing) -> ForFailing:
    raise UnusableInputError(f"no such thing: spec {spec.number}")


def fail_otherwise(spec: ForFailing) -> ForFailing:
    return ForFailing(spec.number // 0)


def test_the_command_gives_verdict_tables_and_exit_code(spark, broken_runs, tmp_path, capsys):
    words = ["check", "--spark", "--out", str(tmp_path / "out"), "--work", str(tmp_path)]
    assert main([*words, "--json", "--explain", "--keep-going", str(broken_runs)]) == 1
    captured = capsys.readouterr()
    local = check_paths([broken_runs], keep_going=True)
    assert captured.out == local.to_json().decode() + "\n"
    assert explain(local, local.violations[0]) in captured.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"verdicts", "violations"}
    clean = tmp_path / "clean"
    events = Execution(3, 300).write_new(clean)
    assert main(["check", "--spark", str(clean)]) == 0
    assert capsys.readouterr().out == f"ok: 1 run, {events} events, no rule broken\n"
    assert main(["check", "--spark", str(tmp_path / "absent")]) == 2
    assert "absent does not exist" in capsys.readouterr().err
    (clean / "node01-000000.parquet").write_bytes(b"PAR1")
    assert main(["check", "--spark", str(clean)]) == 2
