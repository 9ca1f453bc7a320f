"""Session-wide rules of the test suite.

- The header says which form of the flagship is tested, and warns when it is older than its source.
- THENCE_FORBID_SKIPS=1 (CI) turns skipped tests into a failed run that lists them.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORBID_SKIPS = os.environ.get("THENCE_FORBID_SKIPS") == "1"
SKIPS = pytest.StashKey[dict[str, str]]()


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the repository."""
    return ROOT


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
