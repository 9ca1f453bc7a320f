"""Session-wide rules of the test suite.

- The header says which form of the flagship is tested, and warns when it is older than its source.
- There is one Spark session: starting it takes longer than most tests, so it happens once a run,
  when a test first asks for it.  With xdist, test files that ask for it run on one worker.
- No test fails for having been slow: examples of Hypothesis have no deadline.
- THENCE_FORBID_SKIPS=1 (CI) turns skipped tests into a failed run that lists them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis
import pytest

hypothesis.settings.register_profile("thence", deadline=None)
hypothesis.settings.load_profile("thence")
ROOT = Path(__file__).resolve().parent.parent
FORBID_SKIPS = os.environ.get("THENCE_FORBID_SKIPS") == "1"
# Tests leave no process behind that makes an archive of Spark's classes (pipeline/archive.py).
os.environ.setdefault("THENCE_SPARK_ARCHIVE", "0")
SKIPS = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Any]:
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


ASKS_FOR_SPARK = re.compile(r"def \w+\([^)]*\bspark\b|usefixtures\(\"spark\"\)")


@cache
def asks_for_spark(file: str) -> bool:
    """Whether a test file uses the session."""
    path = ROOT / file
    return path.is_file() and ASKS_FOR_SPARK.search(path.read_text(encoding="utf-8")) is not None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files that use the session are one piece of work; every other test is one of its own.

    What ``--dist loadgroup`` is for, but xdist 3.8 marks groups in node ids, which pytest 9.2 no
    longer lets it change.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "spark" if asks_for_spark(nodeid.partition("::")[0]) else nodeid

    return Scheduling(config, log)


def pytest_report_header() -> str:
    if os.environ.get("THENCE_PURE") == "1":
        return "thence: interpreted form (THENCE_PURE=1)"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    present, stale = [], []
    for name in settings["tool"]["thence"]["compiled"]:
        source = ROOT / name
        for _ in source.parent.glob(f"{source.stem}.*.so"):
            present.append(source.stem)
            # the modules' own files are shims; the code is in one library for all of them
            built = max(lib.stat().st_mtime for lib in (ROOT / "src").glob("thence__mypyc.*.so"))
            if source.is_file() and built < source.stat().st_mtime:
                stale.append(source.stem)
    header = f"thence: compiled {', '.join(present)}" if present else "thence: interpreted form"
    if stale:
        header += f"; OLDER THAN ITS SOURCE: {', '.join(stale)} (make setup compiles again)"
    return header


def pytest_configure(config: pytest.Config) -> None:
    config.stash[SKIPS] = {}
    if not hasattr(config, "workerinput"):  # with xdist the reports of all workers arrive here
        config.pluginmanager.register(SkipWatch(config), "thence-skip-watch")


class SkipWatch:
    """Collects skips and, where they are forbidden, fails the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._skips = config.stash[SKIPS]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self._skips[report.nodeid] = str(reason)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if FORBID_SKIPS and self._skips and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if FORBID_SKIPS and self._skips:
            terminalreporter.section("skips are forbidden here (THENCE_FORBID_SKIPS=1)", red=True)
            for nodeid, reason in sorted(self._skips.items()):
                terminalreporter.line(f"{nodeid}: {reason}")
