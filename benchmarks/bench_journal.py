"""What it costs a node to write things down: the journal, and the log of a node that may restart.

    python benchmarks/bench_journal.py [--records 100000] [--folder FOLDER]

Records of 100 bytes, 64 in a commit and one in a commit, beside what SQLite does with the same
blobs and nothing else; the median of five rounds that take turns, in records a second of wall-clock
time.  Then the log: nanoseconds a record of CPU time for append and flush (64 records each), and
for sealing.  Then rows of an application, of 100 bytes: nanoseconds a row of CPU time for a
checkpoint with all of them, for one with the tenth that has changed, and to read them.  FOLDER is
where the files go: a disk, not memory, is what is to be measured.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from thence.causal.dot import Dot
from thence.journal.base import Identity
from thence.journal.sqlite import Durability, SqliteJournal
from thence.trace.resumable import ResumableLog
from thence.trace.writer import Form

ROUNDS = 5
BATCH = 64
RECORD = bytes(range(100))


def journal_rate(path: Path, records: int, batch: int, durability: Durability) -> float:
    """Records a second into a journal."""
    journal = SqliteJournal(path, Identity("g", "a"), durability)
    start = time.perf_counter()
    for _ in range(records // batch):
        for _ in range(batch):
            journal.append(RECORD)
        journal.commit()
    spent = time.perf_counter() - start
    journal.close()
    return records / spent


def bare_rate(path: Path, records: int, batch: int) -> float:
    """The same blobs into a table of SQLite, without numbers, checksums, lock or mark."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("CREATE TABLE log (seq INTEGER PRIMARY KEY, data BLOB)")
    start = time.perf_counter()
    for _ in range(records // batch):
        db.execute("INSERT INTO log (data) VALUES (?)", (RECORD * batch,))
    spent = time.perf_counter() - start
    db.close()
    return records / spent


def log_cost(folder: Path, records: int, form: Form) -> tuple[float, float]:
    """CPU nanoseconds a record: append and flush; seal."""
    log = ResumableLog(folder, "run", "a", 0, form)
    dots = [Dot("b", seq) for seq in range(1, 1000)]
    start = time.process_time()
    for at in range(records):
        log.append("deliver", 1_000_000 + at, dots[at % len(dots)])
        if at % BATCH == BATCH - 1:
            log.flush()
    middle = time.process_time()
    log.seal(log.flush())
    end = time.process_time()
    log.close()
    return (middle - start) / records * 1e9, (end - middle) / records * 1e9


def row_cost(path: Path, rows: int) -> tuple[float, float, float]:
    """CPU nanoseconds a row: all for the first time; every tenth again, in no order; reading."""
    names = [b"key %d" % number for number in range(rows)]
    changed = random.Random(1).sample(names, rows // 10)
    journal = SqliteJournal(path, Identity("g", "a"))
    times = [time.process_time()]
    for some, value in ((names, RECORD[:90]), (changed, RECORD[10:])):
        journal.checkpoint(b"", rows=[(name, value) for name in some])
        times.append(time.process_time())
    count = sum(1 for _ in journal.rows())
    times.append(time.process_time())
    journal.close()
    spent = [after - before for before, after in pairwise(times)]
    return spent[0] / rows * 1e9, spent[1] / len(changed) * 1e9, spent[2] / count * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--folder", default=".")
    options = parser.parse_args()
    several, few = options.records, max(BATCH, options.records // 10)
    kinds: dict[str, Callable[[Path], float]] = {
        f"journal, {BATCH} a commit": lambda path: journal_rate(path, several, BATCH, "process"),
        f"bare SQLite, {BATCH} a commit": lambda path: bare_rate(path, several, BATCH),
        "journal, 1 a commit": lambda path: journal_rate(path, few, 1, "process"),
        "bare SQLite, 1 a commit": lambda path: bare_rate(path, few, 1),
        f'"power", {BATCH} a commit': lambda path: journal_rate(path, few, BATCH, "power"),
    }
    rates: dict[str, list[float]] = {name: [] for name in kinds}
    costs: dict[Form, list[tuple[float, float]]] = {"parquet": [], "jsonl": []}
    rows: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        for turn in range(ROUNDS):
            for at, (kind, measure) in enumerate(kinds.items()):
                rates[kind].append(measure(Path(name) / f"{turn}-{at}"))
            for form, found in costs.items():
                found.append(log_cost(Path(name) / f"{turn}-{form}", 1 << 16, form))
            rows.append(row_cost(Path(name) / f"{turn}-rows", several))
    print(f"{'':28}{'records/s':>12}")
    for kind, found in rates.items():
        print(f"{kind:28}{statistics.median(found):12,.0f}")
    print(f"{'':28}{'append ns':>12}{'seal ns':>12}")
    for form, pairs in costs.items():
        append, seal = (statistics.median(values) for values in zip(*pairs, strict=True))
        print(f"{'log, ' + form:28}{append:12,.0f}{seal:12,.0f}")
    print(f"{'':28}{'all ns':>12}{'a tenth ns':>12}{'reading ns':>12}")
    costs_of_rows = [statistics.median(values) for values in zip(*rows, strict=True)]
    print(f"{'rows':28}" + "".join([f"{cost:12,.0f}" for cost in costs_of_rows]))


if __name__ == "__main__":
    main()
