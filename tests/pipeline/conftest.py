"""One Spark session for all tests of the pipeline.

Starting Spark takes longer than most tests, so it happens once a run, when a test first asks for
it.  With xdist, tests that ask for it run on one worker: ``make test`` passes ``--dist loadgroup``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from thence.pipeline.archive import SWITCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests leave no process behind that makes an archive of Spark's classes.
os.environ.setdefault(SWITCH, "0")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker for whatever takes the session; before xdist reads the marks."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[SparkSession]:
    """The session: two cores, two shuffle partitions, files in pytest's folder only.

    512 MB are what Spark's JVM needs here with room to spare; tables of tests are small, and a test
    that collects one on the driver should hurt.
    """
    from thence.pipeline.session import spark_session

    folder = tmp_path_factory.mktemp("spark")
    source = root / "src"
    session = spark_session(
        "local[2]",
        memory="512m",
        settings={
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": os.fspath(folder / "warehouse"),
            "spark.local.dir": os.fspath(folder / "local"),
            # Workers import the functions and state classes of test modules too.
            "spark.executorEnv.PYTHONPATH": f"{source}{os.pathsep}{root}",
        },
    )
    yield session
    session.stop()
