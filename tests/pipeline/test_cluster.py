"""Spark on several machines, all of them this one: a master, two workers, a shared folder.

The processes are Spark's own, as its scripts start them, on loopback and free ports.  Programs run
beside them, not in the process of the tests, whose session is another.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipeline.runs import write_run
from tests.trace.dynamics import broken_dynamic
from tests.trace.executions import broken, records_of
from thence.pipeline.jvm import find_java, java_home
from thence.pipeline.session import spark_home
from thence.trace.check import check_paths

pytestmark = pytest.mark.timeout(600)

START_S_MAX = 120
END_S_MAX = 30
JOB_S_MAX = 240
WORKERS = 2
EXECUTOR_MEMORY = "512m"  # Spark takes no less than 450 MB
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# For programs: an executor on each worker, and no work before both are there.
SETTINGS = {
    "spark.executor.memory": EXECUTOR_MEMORY,
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": f"{START_S_MAX}s",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.executor.extraJavaOptions": QUICK_JVM,
}

# Counts rows of the shared folder in Python on the executors: with a master on this command line,
# or without one under spark-submit.
PROGRAM = """
import json
import os
import sys
import time

import pyarrow as pa

from thence.pipeline.session import spark_session


def count(batches):
    import thence

    time.sleep(1)  # so that no executor is done before the other begins
    rows = sum(batch.num_rows for batch in batches)
    # The folder that an executor works in is its own.
    found = {"rows": rows, "executor": os.getcwd(), "python": sys.executable}
    yield pa.RecordBatch.from_pylist([{**found, "thence": thence.__file__}])


folder, out, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
master = sys.argv[4] if len(sys.argv) > 4 else None
session = spark_session(master, settings=settings)
frame = session.read.parquet(folder).repartition(4)
schema = "rows long, executor string, python string, thence string"
found = frame.mapInArrow(count, schema).toPandas().to_dict("list")
found["master"] = session.sparkContext.master
with open(out, "w") as file:
    json.dump(found, file)
session.stop()
"""


def spark_environment(**more: str) -> dict[str, str]:
    """For Spark's own programs: this Java, this Python, small and quick JVMs."""
    return {
        **os.environ,
        "JAVA_HOME": os.fspath(java_home(find_java())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
        **more,
    }


def daemon(stack: ExitStack, folder: Path, name: str, *words: str) -> Path:
    """Start one of Spark's daemons, to be stopped with ``stack``; the file it logs to."""
    log = folder / f"{name}.log"
    command = [os.fspath(spark_home() / "bin" / "spark-class"), *words]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command, env=spark_environment(), cwd=folder, stdout=file, stderr=file
        )
    stack.callback(stop, process)
    return log


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(END_S_MAX)


def wait_for(log: Path, pattern: str, times: int = 1) -> str:
    """The first text that matches, once that many do."""
    until = time.monotonic() + START_S_MAX
    while time.monotonic() < until:
        found: list[str] = re.findall(pattern, log.read_text(errors="replace"))
        if len(found) >= times:
            return found[0]
        time.sleep(0.1)
    pytest.fail(f"no {pattern!r} in {log.name}:\n{log.read_text(errors='replace')[-4000:]}")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master that has two workers, of one core and 512 MB each."""
    folder = tmp_path_factory.mktemp("cluster")
    here = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
    room = ("--cores", "1", "--memory", EXECUTOR_MEMORY)
    with ExitStack() as stack:
        log = daemon(stack, folder, "master", "org.apache.spark.deploy.master.Master", *here)
        url = wait_for(log, r"Starting Spark master at (spark://\S+)")
        for n in range(WORKERS):
            words = (*here, *room, "--work-dir", os.fspath(folder / f"worker-{n}"), url)
            daemon(stack, folder, f"worker-{n}", "org.apache.spark.deploy.worker.Worker", *words)
        wait_for(log, r"Registering worker (\S+)", WORKERS)
        yield url


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the driver and all executors see, with a table of 1000 rows."""
    folder = tmp_path_factory.mktemp("shared")
    pq.write_table(pa.table({"n": list(range(1000))}), folder / "table.parquet")
    return folder


def run_plain(cluster: str, program: Path, *words: object) -> None:
    """Run a program that is told its master: the last word."""
    run([sys.executable, program, *words, cluster])


def run_submitted(
    cluster: str, program: Path, *words: object, settings: Mapping[str, str] = SETTINGS
) -> None:
    """Run a program under spark-submit, which decides."""
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    run([spark_home() / "bin" / "spark-submit", "--master", cluster, *conf, program, *words])


def run(command: list[object]) -> None:
    done = subprocess.run(
        [str(word) for word in command],
        env=spark_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=JOB_S_MAX,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]


@pytest.mark.soak
@pytest.mark.parametrize("way", ["plain", "submitted"])
def test_work_is_shared_by_executors_with_this_python(
    way: str, cluster: str, shared: Path, tmp_path: Path
):
    import thence

    program, out = tmp_path / "program.py", tmp_path / "found.json"
    program.write_text(PROGRAM)
    if way == "plain":
        run_plain(cluster, program, shared, out, json.dumps(SETTINGS))
    else:
        run_submitted(cluster, program, shared, out, "{}")
    found = json.loads(out.read_text())
    assert found["master"] == cluster
    assert sum(found["rows"]) == 1000
    assert len(set(found["executor"])) == WORKERS
    assert set(found["python"]) == {sys.executable}
    assert set(found["thence"]) == {thence.__file__}


# The check by logs, and that nothing of it stays beside the traces.
CHECK = """
import json
import os
import sys

from thence.pipeline import check_on_spark, spark_session

folder, out, settings = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
master = sys.argv[4] if len(sys.argv) > 4 else None
session = spark_session(master, settings=settings)
report = check_on_spark(session, [folder], keep_going=True, whole_events_max=0)
with open(out, "wb") as file:
    file.write(report.to_json())
session.stop()
"""


@pytest.mark.parametrize(("way", "make"), [("plain", broken), ("submitted", broken_dynamic)])
def test_the_check_on_a_cluster_gives_the_verdict_of_one_process(
    way: str, make: Callable[[int], Any], cluster: str, tmp_path: Path
):
    runs, program, out = tmp_path / "runs", tmp_path / "check.py", tmp_path / "report.json"
    runs.mkdir()
    logs, info = make(4)
    write_run(runs / "one", records_of(logs), info, 4)
    program.write_text(CHECK)
    if way == "plain":
        run_plain(cluster, program, runs, out, json.dumps(SETTINGS))
    else:
        run_submitted(cluster, program, runs, out, "{}")
    local = check_paths([runs], keep_going=True)
    assert out.read_bytes() == local.to_json()
    assert not local.ok
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
