"""Make the archive that Spark starts from: ``python -m thence.pipeline.train``.

A session that does once what the pipeline does (tables in and out, sorting, grouping, Arrow to and
from Python), so that those classes are loaded; its JVM writes them to a file when it ends.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from thence.pipeline.archive import SWITCH, Archive, archive_for, install, joined
from thence.pipeline.jvm import find_java
from thence.pipeline.launch import end
from thence.pipeline.session import spark_home, spark_session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

NICE: Final = 19
END_S_MAX: Final = 900
"""How long a JVM may take to write its archive, on a busy machine."""
MEMORY: Final = "512m"


def main(words: Sequence[str]) -> int:
    """Make the archive of this Java and Spark, or the one whose path is given."""
    import pyspark

    os.nice(NICE)
    archive = archive_for(find_java(), spark_home(), pyspark.__version__)
    if archive is None or (words and Path(words[0]) != archive.path):
        return 2  # switched off, or meant for a Java that is no longer the one in use
    # What this session leaves behind is the archive and nothing else, not another attempt.
    os.environ[SWITCH] = "0"
    archive.path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".making-", dir=archive.path.parent))
    try:
        return 0 if make(archive, folder) else 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def make(archive: Archive, folder: Path) -> bool:
    """Make it in ``folder`` and put it in its place; whether there is one."""
    part = folder / archive.path.name
    settings = {
        "spark.driver.extraJavaOptions": joined(archive.options_to_make(part)),
        "spark.local.dir": os.fspath(folder),
        "spark.sql.warehouse.dir": os.fspath(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
    }
    session = spark_session("local[2]", MEMORY, settings)
    gateway = session.sparkContext._gateway
    exercise(session, folder)
    session.stop()
    if end(gateway, END_S_MAX) != 0 or not part.is_file():
        return False
    install(archive, part)
    return True


def exercise(session: SparkSession, folder: Path) -> None:
    """One small job of each kind that the pipeline has."""
    from pyspark.sql import functions

    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    table = os.fspath(folder / "table")
    lines = os.fspath(folder / "lines")
    events = session.range(1000).selectExpr("id", "id % 7 AS node", "array(id) AS dots")
    events.write.json(lines)
    events.sort("node", "id").write.partitionBy("node").parquet(table)
    read = session.read.parquet(table).join(session.read.json(lines), "id")
    read.groupBy(read.id % 3).agg(functions.max("id")).toPandas()
    events.mapInArrow(same, events.schema).select(functions.explode("dots")).toArrow()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
