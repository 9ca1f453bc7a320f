"""What it takes to ingest a run: CPU microseconds an event, by the form of its segments.

    python -m benchmarks.bench_ingest [--events 1000000] [--nodes 8]

Reading, sorting and writing in one process, without Spark.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.bench_check import Execution
from thence.pipeline.ingest import ingest
from thence.trace.reader import read_records
from thence.trace.record import record_to_json


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        rows, lines = Path(name) / "rows", Path(name) / "lines"
        Execution(options.nodes, options.events).write_new(rows)
        as_lines(rows, lines)
        for what, folder in (("Parquet", rows), ("JSON Lines", lines)):
            start = time.process_time()
            report = ingest(None, [folder], f"{name}/table-{folder.name}")
            spent = time.process_time() - start
            print(f"{what:12}{report.events:12,} events{spent / report.events * 1e6:8.2f} us each")


def as_lines(rows: Path, lines: Path) -> None:
    """The same run in JSON Lines."""
    lines.mkdir()
    (lines / "run.json").write_bytes((rows / "run.json").read_bytes())
    for path in sorted(rows.glob("*.parquet")):
        with (lines / f"{path.stem}.jsonl").open("wb") as file:
            file.writelines(record_to_json(record) + b"\n" for record in read_records([path]))


if __name__ == "__main__":
    main()
