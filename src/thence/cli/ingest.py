"""``thence ingest``: logs into a table on Spark.  Exit 0 all of it, 2 something was set aside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from thence.cli.plural import counted
from thence.cli.progress import progress_bar
from thence.errors import UnusableInputError
from thence.pipeline.ingest import IngestReport, ingest
from thence.pipeline.tables import EVENTS, QUARANTINE
from thence.trace.files import join

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHOWN_MAX = 10
"""Lines that are named for people; the quarantine table has them all."""
Flag = Parameter(negative=())


def command(
    *paths: str,
    out: str,
    shiviz: str | None = None,
    delimiter: str | None = None,
    run: str | None = None,
    master: str | None = None,
    local: Annotated[bool, Flag] = False,
    keep_going: Annotated[bool, Flag] = False,
) -> int:
    """Take logs into a table folder, each input once.

    Exit code 0: everything is taken; 2: something was set aside, or cannot be used.

    Parameters
    ----------
    paths
        Run folders, folders with run folders below, or single segments; with --shiviz text files
        or folders of them.
    out
        The table folder: a new one, or one to which new inputs are added.
    shiviz
        Read text with vector clocks: a regular expression with the groups host, clock and event,
        as for ShiViz.
    delimiter
        With --shiviz: a regular expression for what separates executions; its group trace names
        them.
    run
        With --shiviz: read all files as one text, a run of this name.
    master
        Where Spark runs; the default is this machine.
    local
        Work in this process, without Spark: quicker for small logs.
    keep_going
        Exit with 0 even if something was set aside.
    """
    if not paths:
        raise UnusableInputError("no input given: name a run folder, or a trace or log file")
    if local and master is not None:
        raise UnusableInputError("--local and --master: choose one")
    settings = _settings(shiviz, delimiter, run)

    def session() -> SparkSession:
        from thence.pipeline.session import spark_session

        return spark_session(master)

    with progress_bar() as progress:
        report = ingest(
            None if local else session,
            paths,
            out,
            importer="trace" if shiviz is None else "shiviz",
            settings=settings,
            run=run,
            progress=progress,
        )
    print(text(report, out), end="")
    _tell(report)
    if report.ok or keep_going:
        return 0
    print(
        f"thence: not everything could be taken; {join(out, QUARANTINE)} has what was set aside, "
        "--keep-going accepts that",
        file=sys.stderr,
    )
    return 2


def _settings(shiviz: str | None, delimiter: str | None, run: str | None) -> dict[str, str]:
    if shiviz is None:
        for name, value in (("--delimiter", delimiter), ("--run", run)):
            if value is not None:
                raise UnusableInputError(f"{name} is for logs of others: it goes with --shiviz")
        return {}
    settings = {"expression": shiviz}
    if delimiter is not None:
        settings["delimiter"] = delimiter
    return settings


def text(report: IngestReport, out: str) -> str:
    """What was done, for people."""
    segments = [f"{report.segments:,} taken", f"{report.segments_there:,} already there"]
    if report.segments_copied:
        segments.append(f"{report.segments_copied:,} copies passed over")
    if report.unreadable:
        segments.append(f"{report.unreadable:,} unreadable")
    lines = [
        f"segments     {', '.join(segments)}",
        f"events       {report.events:,} of {counted(report.nodes, 'node')} in "
        f"{counted(len(report.runs), 'run')}",
    ]
    if report.events != report.taken:
        lines.append(f"             made of {report.taken:,} events of the log")
    before = report.quarantined_before
    earlier = f", and {before:,} earlier" if before else ""
    lines.append(f"quarantined  {report.quarantined:,} of {counted(report.read, 'line')}{earlier}")
    lines.append(f"table in {out}; check it with: thence check {join(out, EVENTS)}")
    return "\n".join(lines) + "\n"


def _tell(report: IngestReport) -> None:
    """What was set aside, and what is odd, as ``file:line: reason``."""
    for line in report.listed[:SHOWN_MAX]:
        print(line, file=sys.stderr)
    more = report.quarantined + report.unreadable - len(report.listed[:SHOWN_MAX])
    if more > 0:
        print(f"... and {more:,} more set aside", file=sys.stderr)
    for line in report.remarks[:SHOWN_MAX]:
        print(f"{line} (taken)", file=sys.stderr)
    more = report.remarks_count - len(report.remarks[:SHOWN_MAX])
    if more > 0:
        print(f"... and {more:,} more such remarks", file=sys.stderr)
    for note in report.notes:
        print(f"thence: {note}", file=sys.stderr)
