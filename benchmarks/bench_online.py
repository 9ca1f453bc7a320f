"""The checker that follows a run: records a second, and what it holds from beginning to end.

    python -m benchmarks.bench_online [--events 450000]

One process, CPU seconds.  The logs are fed side by side in pieces, as the streaming job does.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from benchmarks.bench_check import Execution
from thence.trace.online import OnlineChecker
from thence.trace.online_parts import nodes_of, records_of_part
from thence.trace.reader import find_places, read_segment
from thence.trace.segments import Quarantine

PIECE_RECORDS = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=450_000)
    events = parser.parse_args().events
    print("nodes   events   records a CPU second   messages held: median, most   bytes: most")
    for nodes in (5, 16):
        with tempfile.TemporaryDirectory() as name:
            Execution(nodes, events).write_new(Path(name) / "run")
            measure(nodes, Path(name) / "run")


def measure(nodes: int, folder: Path) -> None:
    """Feed the run and print one line."""
    (place,) = find_places([folder], Quarantine())
    parts = [part for file in place.files if (part := read_segment(file, Quarantine())) is not None]
    logs = [(part, rows) for part in parts for _, _, rows in nodes_of(part)]
    assert place.info is not None
    checker = OnlineChecker(place.info.run, place.info)
    held, sizes = [], []
    spent = 0.0
    for at in range(0, max(len(rows) for _, rows in logs), PIECE_RECORDS):
        pieces = [records_of_part(part, rows[at : at + PIECE_RECORDS]) for part, rows in logs]
        start = time.process_time()
        for piece in pieces:
            if checker.feed(piece):
                raise SystemExit("the execution is correct")
        spent += time.process_time() - start
        held.append(checker.counters().dots)
        if at % (32 * PIECE_RECORDS) == 0:
            sizes.append(len(checker.dump()))
    count = checker.counters().events
    if checker.needs_batch or checker.close(place.info):
        raise SystemExit("the execution is correct")
    middle = sorted(held)[len(held) // 2]
    print(f"{nodes:5}{count:9,}{count / spent:23,.0f}{middle:24,}, {max(held):,}{max(sizes):14,}")


if __name__ == "__main__":
    main()
