"""Run functions of plain values as Spark tasks.

A ``Runner`` is the only way the check's kernels meet Spark: specifications in, results out, both
small; what is large the tasks read and write themselves.  Tasks are dealt out longest first, so
that one long piece of work does not start last.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
import pyarrow as pa

from thence.pipeline.failures import told_plainly

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS_PER_CORE: Final = 4
POLL_S: Final = 0.2
JOB_GROUP: Final = "spark.jobGroup.id"

S = TypeVar("S", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)
Progress = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is, and how much there is."""


class Runner(Protocol):
    """Runs one function on many specifications; results in their order."""

    def __call__(
        self, what: str, work: Callable[[S], R], specs: Sequence[S], result: type[R],
        weights: Sequence[int] | None = None,
    ) -> list[R]: ...  # fmt: skip


def run_here(
    what: str, work: Callable[[S], R], specs: Sequence[S], result: type[R],
    weights: Sequence[int] | None = None,
) -> list[R]:  # fmt: skip
    """A Runner without Spark."""
    return [work(spec) for spec in specs]


def spark_runner(spark: SparkSession, progress: Progress | None = None) -> Runner:
    """A Runner on Spark."""

    def run(
        what: str, work: Callable[[S], R], specs: Sequence[S], result: type[R],
        weights: Sequence[int] | None = None,
    ) -> list[R]:  # fmt: skip
        if not specs:
            return []
        cores = spark.sparkContext.defaultParallelism
        hands = deal(weights or [1] * len(specs), cores * TASKS_PER_CORE)
        encode = msgspec.msgpack.encode
        given = [[(index, encode(specs[index])) for index in hand] for hand in hands]
        # One type for all: the decoder must be found again in the worker.
        kind = type(specs[0])
        frame = spark.range(0, len(given), 1, len(given)).mapInArrow(
            _task(work, kind, given), "index long, result binary"
        )
        with _Watch(spark, what, progress), told_plainly(what):
            rows = frame.collect()
        found = {row["index"]: bytes(row["result"]) for row in rows}
        return [msgspec.msgpack.decode(found[index], type=result) for index in range(len(specs))]

    return run


def deal(weights: Sequence[int], hands: int) -> list[list[int]]:
    """Indices dealt to at most so many hands, the heaviest first, each to the lightest hand."""
    count = min(hands, len(weights))
    dealt: list[list[int]] = [[] for _ in range(count)]
    load = [0] * count
    for index in sorted(range(len(weights)), key=lambda index: -weights[index]):
        hand = load.index(min(load))
        dealt[hand].append(index)
        load[hand] += max(1, weights[index])
    dealt.sort(key=lambda hand: -sum(weights[index] for index in hand))
    return dealt


_SCHEMA: Final = pa.schema([("index", pa.int64()), ("result", pa.binary())])


def _task(
    work: Callable[[Any], Any], kind: type[Any], given: list[list[tuple[int, bytes]]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function of one partition; a partition is one row, the number of its hand."""

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for hand in batch.column(0).to_pylist():
                for index, spec in given[hand]:
                    result = work(msgspec.msgpack.decode(spec, type=kind))
                    columns = [[index], [msgspec.msgpack.encode(result)]]
                    arrays = [
                        pa.array(column, field.type)
                        for column, field in zip(columns, _SCHEMA, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    return task


class _Watch:
    """Tells ``progress`` how many tasks of the jobs run inside are done, until it is closed."""

    def __init__(self, spark: SparkSession, what: str, progress: Progress | None) -> None:
        self._context = spark.sparkContext
        self._tracker = spark.sparkContext.statusTracker()
        self._group = f"thence-{uuid.uuid4().hex}"
        self._what = what
        self._progress = progress
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> _Watch:
        if self._progress is not None:
            self._context.setJobGroup(self._group, self._what)
            self._thread = threading.Thread(target=self._go, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._context.setLocalProperty(JOB_GROUP, None)  # type: ignore[arg-type]

    def _go(self) -> None:
        while not self._stop.wait(POLL_S):
            self._tell()

    def _tell(self) -> None:
        if self._progress is None:
            return
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            stages = [] if info is None else list(info.stageIds)
            known = [self._tracker.getStageInfo(stage) for stage in stages]
            done = sum(stage.numCompletedTasks for stage in known if stage is not None)
            total = sum(stage.numTasks for stage in known if stage is not None)
            if total:
                self._progress(self._what, done, total)
