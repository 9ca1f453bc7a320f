"""The check on Spark against Algorithm 14 and against the one-process checker.

    python benchmarks/bench_spark.py [--rounds 3] [--small 10000000] [--large 50000000]

It makes its own executions.  All get the same Parquet segments, read contexts and check every rule
(Algorithm 14 never reads contexts and has three checks).  What is timed is wall seconds: Spark uses
both cores, the others one; the session is warm.  The contestants take turns in one run, and medians
are compared, so that a busy machine slows all.

Promises: at least 3x Algorithm 14 (10M events, 8 nodes), at least 1.2x the NumPy checker (50M, 64
nodes), at most 5.5x the time for 5x the events, and at most 1.5 GB for the JVM.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.bench_check import Execution, algorithm_14, python_logs
from thence.pipeline.causality.check import CheckOptions, check_with
from thence.pipeline.causality.spark import check_on_spark
from thence.pipeline.session import spark_session
from thence.pipeline.tasks import Runner, run_here, spark_runner
from thence.trace.check import check_paths
from thence.trace.reader import read_runs

JVM_GB_MAX = 1.5
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """(result, wall seconds)."""
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def straightforward(folder: Path) -> bool:
    """Algorithm 14 with its errata fixed, reading included."""
    runs, _ = read_runs([folder])
    logs = python_logs(runs[0][0])
    del runs
    return algorithm_14(logs)


def by_spark(spark: Any, folder: Path) -> None:
    report = check_on_spark(spark, [folder])
    if not report.ok:
        sys.exit(f"the execution is correct, Spark says {report.counts}")


def by_numpy(folder: Path) -> None:
    report = check_paths([folder])
    if not report.ok:
        sys.exit(f"the execution is correct, the local checker says {report.counts}")


def make(folder: Path, nodes: int, events: int) -> int:
    made, seconds = timed(lambda: Execution(nodes, events).write_new(folder))
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(
        f"{made} events, {nodes} nodes, {size / made:.2f} bytes an event ({seconds:.0f} s to make)"
    )
    return made


def sizing(spark: Any, tiny: Path, folder: Path) -> None:
    """What a check costs before its first event, and what lies on disk between its stages."""
    Execution(8, 1000).write_new(tiny)
    fixed = [timed(lambda: by_logs(spark_runner(spark), tiny)[0])[1] for _ in range(3)]
    events, between = by_logs(run_here, folder)
    print(f"fixed: {statistics.median(fixed):.2f} s for the stages of a check of 1000 events")
    print(f"between the stages: {between / events:.1f} bytes an event on disk, 8 nodes")


def by_logs(runner: Runner, folder: Path) -> tuple[int, int]:
    """Check by logs, however short they are: (events, bytes left by the stages)."""
    with tempfile.TemporaryDirectory() as work:
        options = CheckOptions(work=work, whole_events_max=0)
        report = check_with(runner, [folder], options, lambda folders, count: []).report
        sizes = [path.stat().st_size for path in Path(work).rglob("*") if path.is_file()]
    return report.events, sum(sizes)


def peak_gb(pid: int) -> float:
    """The most memory a process ever held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1e6
    return 0.0


def worker_pids(jvm: int) -> list[int]:
    """The Python processes below a JVM."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
    found = [jvm]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found[1:]


class Bars:
    """Promises: printed with what was measured, and remembered when broken."""

    def __init__(self) -> None:
        self.broken = False

    def at_least(self, what: str, value: float, bar: float) -> None:
        self._tell(what, value, f">= {bar}", value >= bar)

    def at_most(self, what: str, value: float, bar: float) -> None:
        self._tell(what, value, f"<= {bar}", value <= bar)

    def _tell(self, what: str, value: float, bar: str, holds: bool) -> None:
        print(f"{what:58}{value:8.2f}  {bar:8} {'holds' if holds else 'BROKEN'}")
        self.broken |= not holds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, default=10_000_000)
    parser.add_argument("--large", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    bars = Bars()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        few, many, large = root / "few", root / "many", root / "large"
        make(few, 8, options.small)
        make(many, 64, options.small)
        events = make(large, 64, options.large)
        spark, start = timed(lambda: spark_session("local[2]"))
        print(f"session started in {start:.1f} s")
        jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
        by_spark(spark, few)  # warm
        sizing(spark, root / "tiny", few)
        times: dict[str, list[float]] = {}

        def measure(what: str, work: Callable[[], Any]) -> None:
            seconds = timed(work)[1]
            times.setdefault(what, []).append(seconds)
            print(f"  {what:24}{seconds:8.2f} s", flush=True)

        for _ in range(options.rounds):
            measure("spark, 8 nodes", lambda: by_spark(spark, few))
            measure("algorithm 14, 8 nodes", lambda: straightforward(few))
            measure("numpy, 8 nodes", lambda: by_numpy(few))
            measure("spark, 64 nodes", lambda: by_spark(spark, many))
            measure("numpy, 64 nodes", lambda: by_numpy(many))
            measure("spark, large", lambda: by_spark(spark, large))
            measure("numpy, large", lambda: by_numpy(large))
        workers = [peak_gb(pid) for pid in worker_pids(jvm)]
        jvm_gb = peak_gb(jvm)
        spark.stop()
    median = {what: statistics.median(values) for what, values in times.items()}
    print(f"\nwall s, median of {options.rounds}")
    for what, seconds in median.items():
        print(f"  {what:24}{seconds:8.2f}")
    print(f"large: {events / median['spark, large'] / 1e6:.2f} million events a second on Spark")
    print(
        f"Python workers: {max(workers, default=0):.2f} GB at most each, {len(workers)} of them\n"
    )
    few_s, many_s, large_s = (median[f"spark, {size}"] for size in ("8 nodes", "64 nodes", "large"))
    small = "small, 8 nodes"
    bars.at_least(f"algorithm 14 / spark, {small}", median["algorithm 14, 8 nodes"] / few_s, 3.0)
    print(f"{f'numpy / spark, {small}':58}{median['numpy, 8 nodes'] / few_s:8.2f}")
    bars.at_least("numpy / spark, large, 64 nodes", median["numpy, large"] / large_s, 1.2)
    bars.at_most("spark: large / small, 64 nodes", large_s / many_s, 5.5)
    bars.at_most("JVM peak, GB", jvm_gb, JVM_GB_MAX)
    if bars.broken:
        sys.exit(1)


if __name__ == "__main__":
    main()
