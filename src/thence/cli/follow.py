"""``thence check --follow``: violations as they are found, while nodes still write."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from thence.cli.plural import counted
from thence.errors import UnusableInputError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from thence.pipeline.stream_run import Finding
    from thence.trace.segments import Quarantined

POLL_S: Final = 0.2


def follow_folders(
    paths: Sequence[str],
    *,
    checkpoint: str | None = None,
    out: str | None = None,
    as_json: bool = False,
    until_closed: bool = False,
    master: str | None = None,
    keep_going: bool = False,
) -> int:
    """Print what is found below these folders until interrupted; the exit code.

    0: no rule broken; 1: violations; 2: something could not be read, or there was nothing.
    """
    from thence.cli.progress import progress_bar
    from thence.pipeline.session import spark_session
    from thence.pipeline.stream import follow
    from thence.pipeline.stream_files import require_folders
    from thence.trace.files import join

    require_folders(paths)
    with ExitStack() as stack:
        if checkpoint is None:
            if master is not None and not master.startswith("local"):
                raise UnusableInputError(
                    f"--follow on {master} needs --checkpoint, a folder that all executors share"
                )
            checkpoint = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="thence-follow-", ignore_cleanup_errors=True)
            )
        out = out or join(checkpoint, "findings")
        with progress_bar() as progress:
            progress("starting Spark", 0, 1)
            session = spark_session(master)
        stop = stack.enter_context(_stopped_by_signals())  # after Spark, which sets its own
        query = follow(session, list(paths), checkpoint, out)
        stack.callback(query.stop)
        teller = Teller(checkpoint, out, as_json)
        _watch(query, teller, stop, until_closed)
    return teller.sum_up(keep_going, paths)


def _hold_traces(paths: Sequence[str]) -> bool:
    """Whether there is a segment anywhere below these folders."""
    from thence.trace.files import folders, is_segment

    return any(is_segment(name) for path in paths for _, files in folders(path) for name in files)


def _watch(
    query: StreamingQuery, teller: Teller, stop: threading.Event, until_closed: bool
) -> None:
    """Tell what is found until a signal comes or, if asked for, until every run is closed."""
    settled: threading.Thread | None = None
    while not stop.wait(POLL_S):
        teller.drain()
        if not query.isActive:
            break
        if not until_closed or not teller.all_closed:
            settled = None
        elif settled is None:
            # Everything seen is closed; is there anything that was not looked at yet?
            settled = threading.Thread(target=_process_all, args=(query,), daemon=True)
            settled.start()
        elif not settled.is_alive():
            teller.drain()
            if teller.all_closed:
                break
            settled = None
    query.stop()
    teller.drain()
    _raise_failure(query)


def _process_all(query: StreamingQuery) -> None:
    from pyspark.errors import PySparkException

    try:
        query.processAllAvailable()
    except PySparkException:
        pass  # the query failed or was stopped: whoever waits for it sees that


def _raise_failure(query: StreamingQuery) -> None:
    """Say in one sentence why the query ended, if it was not we who ended it."""
    from thence.pipeline.failures import plainly

    failure = query.exception()
    if failure is None:
        return
    raise plainly("following", str(failure))


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of what they do otherwise."""
    stop = threading.Event()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: stop.set())
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Teller:
    """Prints findings once, also over restarts, and keeps count of all.

    Which files of the table were printed is written down in the checkpoint after printing: a
    restart prints the others.  What was printed just before a crash may come again; it is never
    left out.
    """

    def __init__(self, checkpoint: str, out: str, as_json: bool) -> None:
        from thence.pipeline.stream_pages import Pages
        from thence.pipeline.stream_sink import Sink
        from thence.trace.files import join

        self._sink = Sink(out)
        self._pages = Pages(join(checkpoint, "printed"))
        self._printed: set[str] = set()
        for page in self._pages.read():
            self._printed.update(msgspec.json.decode(page, type=list[str]))
        if self._pages.is_long:
            self._pages.replace(sorted(self._printed))
        self._json = as_json
        self._opened: set[str] = set()
        self._closed: set[str] = set()
        self._events = 0
        self._counts = dict.fromkeys(("violation", "quarantine"), 0)

    @property
    def all_closed(self) -> bool:
        """Whether there were runs and all of them are closed."""
        return bool(self._opened) and self._opened <= self._closed

    def drain(self) -> None:
        """Print what has been committed since the last call."""
        from thence.trace.segments import told_together

        printed = []
        for name in self._sink.fresh():
            is_new = name not in self._printed
            for line in told_together(self._take(name, is_new)):
                print(line, file=sys.stderr, flush=True)
            if is_new:
                printed.append(name)
        if printed:
            sys.stdout.flush()
            self._pages.append(printed)

    def _take(self, name: str, is_new: bool) -> Iterator[Quarantined]:
        """Count the findings of one file and print them if they are new; but what was set aside is
        given back, to be told together."""
        from thence.trace.segments import Quarantined

        for finding in self._sink.rows(name):
            self._count(finding)
            if is_new and finding.what == "quarantine":
                yield Quarantined(finding.file or "", finding.line, finding.reason or "")
            elif is_new:
                self._print(finding)

    def _count(self, finding: Finding) -> None:
        if finding.what == "opened":
            self._opened.add(finding.run or "")
        elif finding.what == "closed":
            self._closed.add(finding.run or "")
            self._events += finding.events or 0
        elif finding.what == "violation":
            self._counts["violation"] += 1
        elif finding.what == "quarantine":
            self._counts["quarantine"] += finding.events or 1

    def _print(self, finding: Finding) -> None:
        if finding.what == "note":
            print(f"thence: {finding.reason}", file=sys.stderr, flush=True)
        elif self._json:
            print(msgspec.json.encode(_as_object(finding)).decode())
        elif finding.what == "violation":
            where = f"{finding.run} {finding.node} at {finding.pos}"
            print(f"{where}: {finding.why} [{finding.rule}]")
        elif finding.what == "closed":
            print(_closing_line(finding))

    def sum_up(self, keep_going: bool, paths: Sequence[str] = ()) -> int:
        """Print the summary; the exit code.  ``paths``: what was watched."""
        violations, aside = self._counts["violation"], self._counts["quarantine"]
        still_open = len(self._opened - self._closed)
        if not self._opened and not aside:
            unread = _hold_traces(paths)
            what = "stopped before anything was read" if unread else "there was no run to check"
            print(f"thence: {what}", file=sys.stderr)
            return 2
        if self._json:
            summary = {
                "what": "summary", "ok": not violations, "closed": len(self._closed),
                "open": still_open, "events": self._events, "violations": violations,
                "quarantined": aside,
            }  # fmt: skip
            print(msgspec.json.encode(summary).decode())
        else:
            verdict = f"NOT ok: {counted(violations, 'violation')}" if violations else "ok"
            runs = f"{counted(len(self._closed), 'run')} closed, {still_open} open"
            print(f"{verdict}: {runs}, {counted(self._events, 'event')} in closed runs")
        if aside and not keep_going:
            print(f"thence: {counted(aside, 'input')} could not be used", file=sys.stderr)
            return 2
        return 1 if violations else 0


def _closing_line(finding: Finding) -> str:
    found = counted(finding.violations or 0, "violation")
    line = f"closed: {finding.run}, {counted(finding.events or 0, 'event')}, {found}"
    if finding.why:
        line += f" (checked as a whole: {finding.why})"
    return line


def _as_object(finding: Finding) -> dict[str, Any]:
    """A finding as ``--json`` prints it; a violation has the fields of the other checkers."""
    if finding.what != "violation":
        fields = msgspec.structs.asdict(finding)
        return {name: value for name, value in fields.items() if value is not None}
    return {
        "what": finding.what,
        "run": finding.run,
        "node": finding.node,
        "pos": finding.pos,
        "rule": finding.rule,
        "dot": None if finding.dot_node is None else [finding.dot_node, finding.dot_seq],
        "missing": (
            None if finding.missing_node is None else [finding.missing_node, finding.missing_seq]
        ),
        "why": finding.why,
    }
