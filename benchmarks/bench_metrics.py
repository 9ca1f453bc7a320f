"""What it takes to measure a run: CPU seconds and memory by stage, in one task and by logs.

    python -m benchmarks.bench_metrics [--events 10000000] [--nodes 8] [--spark]

The tasks run one after the other in one process, which holds at least what a worker would; the
peak of each stage is that of this process (Linux), of which about 90 MB are Python and its
libraries.  With --spark also the whole of ``thence metrics`` on this machine, in seconds that pass.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.bench_check import Execution
from thence.pipeline.measure import WORK_FOLDER, measure, measure_with
from thence.pipeline.tasks import run_here


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--measure", nargs=3, metavar=("RUN", "OUT", "EVENTS_MAX"), help="one way")
    options = parser.parse_args()
    if options.measure:
        run, out, events_max = options.measure
        report = measure_with(run_stage, [run], out, whole_events_max=int(events_max))
        print(f"{report.events:,} events")
        return
    with tempfile.TemporaryDirectory() as name:
        run = f"{name}/run"
        Execution(options.nodes, options.events).write_new(Path(run))
        for what, events_max in (("in one task", 1 << 60), ("by logs", 0)):
            print(f"{what}:", flush=True)
            words = ["--measure", run, f"{name}/out", str(events_max)]
            # A process of its own, so that nothing is left of the other way.
            subprocess.run([sys.executable, "-m", "benchmarks.bench_metrics", *words], check=True)
        if options.spark:
            on_spark(run, f"{name}/spark")


def run_stage(
    what: str, work: Callable[[Any], Any], specs: Sequence[Any], result: type[Any],
    weights: Sequence[int] | None = None,
) -> list[Any]:  # fmt: skip
    """A Runner that prints what a stage took."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    start = time.process_time()
    results = run_here(what, work, specs, result, weights)
    spent = time.process_time() - start
    if specs:
        print(f"  {what:24}{len(specs):5} tasks{spent:8.2f} s{peak_mb():8.0f} MB", flush=True)
    if what == "putting runs together" and specs:
        work = Path(specs[0].folder) / WORK_FOLDER
        size = sum(path.stat().st_size for path in work.rglob("*") if path.is_file())
        print(f"  {size / 1e6:,.0f} MB of files between stages")
    return results


def peak_mb() -> float:
    """The most memory this process has held since the peak was last forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1e3


def on_spark(run: str, out: str) -> None:
    """All of ``measure``, on this machine, with a session that is there."""
    from thence.pipeline.session import spark_session

    spark = spark_session()
    spark.range(10).count()
    start = time.perf_counter()
    measure(spark, [run], out)
    cores = spark.sparkContext.defaultParallelism
    print(f"on Spark, {cores} cores: {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
