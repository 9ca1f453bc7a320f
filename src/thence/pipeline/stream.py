"""Check traces while nodes still write them, as a Structured Streaming job.

The source gives files (stream_source.py), keyed by the run they belong to; a task for each run
reads them, goes on with the run's online checker, whose state is kept in the state store, and gives
rows of the table of findings; the file sink appends them.  A batch that was not committed is
repeated from the state before it, and the sink counts only the files of committed batches: what is
found is neither lost nor repeated when the job is killed.

Records do not go through the JVM: rows are paths, and what crosses is the state, which is small
because it holds what is not stable yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from thence.errors import UnusableInputError
from thence.pipeline.stream_files import Entry, FileLog, require_folders
from thence.pipeline.stream_pages import Pages
from thence.pipeline.stream_run import RunFollower
from thence.pipeline.stream_sink import METADATA
from thence.pipeline.stream_source import SOURCE, FilesSource
from thence.pipeline.tables import spark_path, spark_uri
from thence.trace.files import absolute, is_below, join, kind_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FINDINGS_SCHEMA: Final = (
    "what STRING, run STRING, node STRING, pos BIGINT, rule STRING, dot_node STRING, "
    "dot_seq BIGINT, missing_node STRING, missing_seq BIGINT, why STRING, file STRING, "
    "line BIGINT, reason STRING, events BIGINT, violations BIGINT"
)
CHUNK_BYTES: Final = 1 << 20
"""Of a run's state in one value of the state store."""
INTERVAL_S: Final = 1.0
ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def follow(
    spark: SparkSession,
    folders: str | Sequence[str],
    checkpoint: str,
    out: str,
    *,
    interval_s: float = INTERVAL_S,
    partitions: int | None = None,
) -> StreamingQuery:
    """Start to check everything below these folders, now and as it appears.

    ``checkpoint`` remembers how far it came and belongs to these folders; ``out`` is a folder of
    Parquet files, read with ``findings``.  Folders are listed every ``interval_s`` seconds.
    ``partitions``: of the state; fixed by the first start with a checkpoint.
    """
    roots = [absolute(root) for root in ([folders] if isinstance(folders, str) else folders)]
    checkpoint, out = absolute(checkpoint), absolute(out)
    require_folders(roots)
    _require_apart(roots, checkpoint)
    _require_apart(roots, out)
    store = join(checkpoint, "files")
    FileLog(roots, store)  # a checkpoint of other folders is told now, in one sentence
    _require_same_out(checkpoint, out)
    session = spark.newSession()  # settings of a query are those of its session
    session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    count = partitions or spark.sparkContext.defaultParallelism
    session.conf.set("spark.sql.shuffle.partitions", str(count))
    session.dataSource.register(FilesSource)
    files = (
        session.readStream.format(SOURCE)
        .option("roots", msgspec.json.encode(roots).decode())
        .option("store", store)
        .load()
    )
    return (
        judged(files)
        .writeStream.format("parquet")
        .partitionBy("what")
        .option("path", spark_uri(out))
        .option("checkpointLocation", spark_uri(join(checkpoint, "spark")))
        .queryName(f"follow {', '.join(roots)}")
        .trigger(processingTime=f"{interval_s} seconds")
        .start()
    )


def judged(files: DataFrame) -> DataFrame:
    """The findings in a stream of files (``group``, ``entry``)."""
    return files.groupBy("group").transformWithState(
        RunProcessor(), FINDINGS_SCHEMA, "append", "none"
    )


class RunProcessor(StatefulProcessor):
    """Keeps the follower of each run in the state store."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """One list of binary pieces for each run."""
        self._pieces = handle.getListState("follower", "piece BINARY")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Files of one run in, findings out."""
        saved = b"".join(bytes(piece) for (piece,) in self._pieces.get())
        follower = RunFollower(key[0], saved)
        entries = [msgspec.json.decode(bytes(row["entry"]), type=Entry) for row in rows]
        for finding in follower.take(entries):
            yield Row(**msgspec.structs.asdict(finding))
        data = follower.dump()
        self._pieces.put(
            [(data[at : at + CHUNK_BYTES],) for at in range(0, len(data), CHUNK_BYTES)]
        )

    def close(self) -> None:
        """Nothing is held."""


def findings(spark: SparkSession, out: str) -> DataFrame:
    """The rows of committed batches: violations, what was set aside, runs opened and closed."""
    return spark.read.schema(FINDINGS_SCHEMA).parquet(spark_path(out))


def _require_same_out(checkpoint: str, out: str) -> None:
    """A checkpoint and its table go together: batches are numbered alike, and numbers count."""
    pages = Pages(join(checkpoint, "table"))
    before = [msgspec.json.decode(page, type=str) for page in pages.read()]
    if before and before[0] != out:
        raise UnusableInputError(
            f"the checkpoint {checkpoint} goes with the findings in {before[0]}, not in {out}"
        )
    if not before:
        if kind_of(join(out, METADATA)) != "none":
            raise UnusableInputError(
                f"{out} holds the findings of another checkpoint: choose another folder"
            )
        pages.append(out)


def _require_apart(roots: Sequence[str], ours: str) -> None:
    """What the job writes must not look like a trace to it."""
    for root in roots:
        if ours == root or is_below(ours, root):
            inner, outer = ours.partition("?")[0], root.partition("?")[0]
            below = inner[len(outer) :].strip("/").split("/")
            if not any(part.startswith((".", "_")) for part in below):
                raise UnusableInputError(
                    f"{ours} is below {root}, which is watched: choose a folder elsewhere, or a "
                    "name that begins with _"
                )
