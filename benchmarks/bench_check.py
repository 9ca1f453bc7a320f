"""The local checker against Algorithm 14 of the thesis, on the same correct execution.

    python benchmarks/bench_check.py [--events 10000000] [--nodes 8] [--rounds 3]

Both get the same Parquet segments.  What is timed, in CPU seconds of one process:

- read:  ours, segments to NumPy columns; Algorithm 14, the same segments to Python lists of
         (kind, origin, seq), the cheapest form it can walk.  It never reads contexts.
- check: ours, every rule of the trace reference, contexts included; Algorithm 14, with the errata
         of its printed form fixed, the send, deliver and stable checks it has, and no others.

The two take turns in one process and medians are compared, so that a busy machine slows both.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from thence.trace.check import check_run
from thence.trace.columns import KIND_CODE, Columns
from thence.trace.reader import read_runs
from thence.trace.record import RunInfo, info_to_json
from thence.trace.tables import SCHEMA, write_segment

SEND, DELIVER, STABLE = "send", "deliver", "stable"
SEGMENT_RECORDS = 1 << 18


class Execution:
    """Rounds of concurrent messages: a few nodes send, then all deliver, in orders of their own.

    The context of a message is the previous round.  A dot is told stable at the end of the round
    in which the last node has spoken after it.  In the last round everyone speaks.
    """

    def __init__(self, nodes: int, events: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.nodes, self.width = nodes, max(1, nodes // 2)
        self.rounds = max(2, events // (2 * nodes * self.width))
        speaks = np.zeros((self.rounds, nodes), bool)
        chosen = np.argsort(rng.random((self.rounds, nodes)), axis=1)[:, : self.width]
        np.put_along_axis(speaks, chosen, True, axis=1)
        speaks[-1] = True
        self.seq = np.cumsum(speaks, axis=0)
        self.round, self.origin = np.nonzero(speaks)
        self.number = self.seq[self.round, self.origin]
        self.first = np.searchsorted(self.round, np.arange(self.rounds + 1))
        self.rng = rng
        # By round and node: the next round in which the node speaks.
        later = np.where(speaks, np.arange(self.rounds)[:, None], self.rounds)
        upcoming = np.minimum.accumulate(later[::-1], axis=0)[::-1]
        self.next = np.vstack([upcoming[1:], np.full((1, nodes), self.rounds)])

    def log(self, node: int) -> tuple[np.ndarray, np.ndarray]:
        """(kind code, message index) of one node's events, in order."""
        others = np.delete(self.next, node, axis=1)
        told_in = others.max(axis=1)[self.round]
        own = self.origin == node
        taken_key = self.round + np.where(own, 0.0, 0.1 + 0.4 * self.rng.random(len(own)))
        told = np.flatnonzero(told_in < self.rounds)
        told_key = told_in[told] + 0.6 + 0.3 * (self.round[told] / self.rounds)
        order = np.argsort(np.concatenate([taken_key, told_key]), kind="stable")
        message = np.concatenate([np.arange(len(own)), told])[order]
        kinds = np.concatenate([np.where(own, 0, 1), np.full(len(told), 2)])[order]
        return kinds, message

    def write_new(self, folder: Path) -> int:
        """Make a folder and write the run to it; the number of events."""
        folder.mkdir()
        return self.write(folder)

    def write(self, folder: Path) -> int:
        """Write the run; the number of events."""
        names = [f"node{k:02d}" for k in range(self.nodes)]
        info = RunInfo(run="bench", engine="bench", members=tuple(names), complete=True)
        (folder / "run.json").write_bytes(info_to_json(info))
        events = 0
        for node, name in enumerate(names):
            kinds, message = self.log(node)
            kinds, message = np.append(kinds, 3), np.append(message, 0)
            events += len(kinds)
            for at in range(0, len(kinds), SEGMENT_RECORDS):
                some = slice(at, at + SEGMENT_RECORDS)
                table = self._table(names, node, at, kinds[some], message[some])
                write_segment(table, str(folder / f"{name}-{at // SEGMENT_RECORDS:06d}.parquet"))
        return events

    def _table(
        self, names: list[str], node: int, at: int, kinds: np.ndarray, message: np.ndarray
    ) -> pa.Table:
        count, ended = len(kinds), kinds == 3
        node_names = pa.array(names)
        words = pa.array([SEND, DELIVER, STABLE, "end"])
        start, dots = self._contexts(kinds, message)
        structs = pa.StructArray.from_arrays(
            [pa.array(np.array(names)[self.origin[dots]]), pa.array(self.number[dots])],
            ["node", "seq"],
        )
        columns = {
            "v": pa.array(np.ones(count, np.int32)),
            "run": pa.array(["bench"] * count).dictionary_encode(),
            "node": pa.array([names[node]] * count).dictionary_encode(),
            "pos": pa.array(np.arange(at, at + count)),
            "kind": pa.DictionaryArray.from_arrays(pa.array(kinds.astype(np.int32)), words),
            "dot_node": pa.DictionaryArray.from_arrays(
                pa.array(self.origin[message].astype(np.int32), mask=ended), node_names
            ),
            "dot_seq": pa.array(self.number[message], mask=ended),
            "context": pa.ListArray.from_arrays(start, structs, mask=pa.array(kinds != 0)),
            "t_us": pa.array(np.arange(at, at + count) * 7),
        }
        arrays = [
            columns[field.name].cast(field.type)
            if field.name in columns
            else pa.nulls(count, field.type)
            for field in SCHEMA
        ]
        return pa.Table.from_arrays(arrays, schema=SCHEMA)

    def _contexts(self, kinds: np.ndarray, message: np.ndarray) -> tuple[pa.Array, np.ndarray]:
        """Row pointers and message indices: the previous round, on sends."""
        before = self.round[message] - 1
        is_send = (kinds == 0) & (before >= 0)
        begin = self.first[np.maximum(before, 0)]
        size = np.where(is_send, self.first[np.maximum(before, 0) + 1] - begin, 0)
        start = np.concatenate([[0], np.cumsum(size)])
        dots = np.arange(start[-1]) + np.repeat(begin - start[:-1], size)
        return pa.array(start.astype(np.int32)), dots


Logs = list[tuple[list[int], list[int], list[int]]]


def python_logs(columns: Columns) -> Logs:
    """Per node: kinds, origins and sequence numbers as Python lists."""
    bounds = np.searchsorted(columns.node, np.arange(len(columns.names) + 1))
    return [
        (
            columns.kind[a:b].tolist(),
            columns.dot_node[a:b].tolist(),
            columns.dot_seq[a:b].tolist(),
        )
        for a, b in pairwise(bounds.tolist())
    ]


def algorithm_14(logs: Logs) -> bool:
    """Algorithm 14 with its errata fixed: both comparisons turned round, vectors copied, the
    backtracking a stack of log numbers instead of calls.  True when every check passes."""
    send, deliver, stable = KIND_CODE[SEND], KIND_CODE[DELIVER], KIND_CODE[STABLE]
    nodes = range(len(logs))
    vectors = [[0] * len(logs) for _ in nodes]  # PVV
    matrices = [[[0] * len(logs) for _ in nodes] for _ in nodes]  # PMAT
    known: list[dict[int, list[int]]] = [{} for _ in nodes]  # G and DVV, by origin
    cursors: list[Iterator[tuple[int, int, int]]] = [zip(*log, strict=True) for log in logs]
    parked: dict[int, tuple[int, int]] = {}  # a delivery that waits for its send to be met
    for outer in nodes:
        stack = [(outer, -1)]  # go through this log until it sends that number
        while stack:
            node, wanted = stack[-1]
            vector, matrix = vectors[node], matrices[node]
            if node in parked:
                origin, seq = parked.pop(node)
                if not _deliver(node, origin, seq, known, vector, matrix):
                    return False
            for kind, origin, seq in cursors[node]:
                if kind == deliver:
                    if seq not in known[origin]:
                        parked[node] = (origin, seq)
                        stack.append((origin, seq))
                        break
                    if not _deliver(node, origin, seq, known, vector, matrix):
                        return False
                elif kind == stable:
                    at = known[origin][seq][origin]
                    for row in matrix:
                        if row[origin] < at:
                            return False
                elif kind == send:
                    if origin != node or seq in known[node]:
                        return False
                    vector[node] += 1
                    known[node][seq] = matrix[node] = vector.copy()
                    if seq == wanted:
                        stack.pop()
                        break
            else:
                stack.pop()
    return True


def _deliver(
    node: int,
    origin: int,
    seq: int,
    known: list[dict[int, list[int]]],
    vector: list[int],
    matrix: list[list[int]],
) -> bool:
    dot = known[origin][seq]
    if dot[origin] != vector[origin] + 1:
        return False
    for k, (here, there) in enumerate(zip(vector, dot, strict=True)):
        if here < there and k != origin:
            return False
    vector[origin] += 1
    matrix[origin] = dot
    matrix[node] = vector.copy()
    return True


T = TypeVar("T")


def timed(work: Callable[..., T], *arguments: Any) -> tuple[T, float]:
    """(result, CPU seconds)."""
    gc.collect()
    start = time.process_time()
    result = work(*arguments)
    return result, time.process_time() - start


def measure(folder: Path, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each part, one entry per round."""
    times: dict[str, list[float]] = {name: [] for name in ("read", "check", "read 14", "check 14")}
    for _ in range(rounds):
        (runs, _), read = timed(read_runs, [folder])
        columns, info = runs[0]
        verdict, check = timed(check_run, columns, info)
        if not verdict.ok:
            sys.exit(f"the execution is correct, the checker says {verdict.counts}")
        logs, lists = timed(python_logs, columns)
        del runs, columns
        passed, check_14 = timed(algorithm_14, logs)
        if not passed:
            sys.exit("the execution is correct, Algorithm 14 says otherwise")
        del logs
        for name, seconds in zip(times, (read, check, read + lists, check_14), strict=True):
            times[name].append(seconds)
    return times


def row(label: str, ours: float, theirs: float) -> str:
    """One line of the table."""
    return f"{label:24}{ours:10.2f}{theirs:10.2f}{theirs / ours:8.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--bar", type=float, default=0.0, help="exit 1 below this ratio of read and check"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        events = Execution(options.nodes, options.events).write(folder)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{events} events, {options.nodes} nodes, {size / events:.2f} bytes an event")
        times = measure(folder, options.rounds)
    median = {name: statistics.median(values) for name, values in times.items()}
    print(f"{'CPU s, median of ' + str(options.rounds):24}{'ours':>10}{'alg. 14':>10}{'ratio':>8}")
    ours, theirs = median["read"] + median["check"], median["read 14"] + median["check 14"]
    print(row("read", median["read"], median["read 14"]))
    print(row("check", median["check"], median["check 14"]))
    print(row("read and check", ours, theirs))
    print(f"ours: {events / ours / 1e6:.2f} million events a CPU second, read and checked")
    if theirs / ours < options.bar:
        sys.exit(f"below the bar of {options.bar}")


if __name__ == "__main__":
    main()
