"""``thence check``: do these traces obey the rules?  Exit 0 yes, 1 no, 2 unusable."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from thence.cli.plural import counted
from thence.cli.progress import progress_bar
from thence.errors import UnusableInputError
from thence.trace.check import Progress, check_paths
from thence.trace.explain import explain_all
from thence.trace.segments import told_together
from thence.trace.verdict import Report, Violation

SHOWN_MAX = 10
"""Violations that are listed for people; --json lists up to 1000."""
EXPLAINED_MAX = 3
"""They are explained from the records, which are read again."""
Flag = Parameter(negative=())


def command(
    *paths: str,
    local: Annotated[bool, Flag] = False,
    spark: Annotated[bool, Flag] = False,
    master: str | None = None,
    out: str | None = None,
    work: str | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    explain: Annotated[bool, Flag] = False,
    keep_going: Annotated[bool, Flag] = False,
    follow: Annotated[bool, Flag] = False,
    checkpoint: str | None = None,
    until_closed: Annotated[bool, Flag] = False,
) -> int:
    """Check traces against the rules of causality.

    Exit code 0: no rule broken; 1: violations; 2: something could not be read.

    Parameters
    ----------
    paths
        Run folders, folders with run folders below, or single segments. URLs too (hdfs://, s3://).
    local
        Check in this process (the default).
    spark
        Check on Spark: the same verdict, for more events than one process can hold.
    master
        Spark's master, such as local[4] or spark://host:7077; implies --spark.
    out
        With --spark: folder for the tables of verdicts and violations. With --follow: folder for
        the tables of violations and quarantined input.
    work
        With --spark: a folder that the driver and all executors share, for what lies between
        stages. Default: a temporary one, on a cluster a hidden one beside the traces.
    as_json
        Print one JSON object instead of text; with --follow one a line.
    explain
        Show the failed step of the first violations: vectors, contexts and the records around it.
    keep_going
        Check what can be read even if something cannot.
    follow
        Check a folder while nodes still write to it, on Spark.
    checkpoint
        With --follow: folder that remembers how far it came; a restart goes on from there.
    until_closed
        With --follow: end when every run that was seen is closed.
    """
    on_spark = spark or master is not None
    if local and (on_spark or follow):
        raise UnusableInputError("--local and Spark (--spark, --master, --follow): choose one")
    if not paths:
        raise UnusableInputError("no trace given: name a run folder, or a .jsonl or .parquet file")
    if follow:
        if explain or work is not None:
            raise UnusableInputError(
                "--explain and --work do not go with --follow; a run that is closed can be "
                "explained with: thence check --explain"
            )
        from thence.cli.follow import follow_folders

        return follow_folders(
            paths, checkpoint=checkpoint, out=out, as_json=as_json, until_closed=until_closed,
            master=master, keep_going=keep_going,
        )  # fmt: skip
    if checkpoint is not None or until_closed:
        raise UnusableInputError("--checkpoint and --until-closed go with --follow")
    if not on_spark and (out is not None or work is not None):
        raise UnusableInputError("--out and --work go with --spark")
    explainer: Explainer
    with progress_bar() as progress:
        if on_spark:
            report, explainer = check_spark(paths, master, out, work, progress)
        else:
            progress("looking for traces", 0, 1)
            report = check_paths(paths, keep_going=True, progress=progress)
            explainer = _explain_here
    return tell(report, explainer if explain else None, as_json=as_json, keep_going=keep_going)


Explainer = Callable[[Report, Sequence[Violation]], list[str]]
"""Gives several lines of text on each of these violations of a report."""


def _explain_here(report: Report, violations: Sequence[Violation]) -> list[str]:
    return explain_all(report.paths, violations)


def check_spark(
    paths: Sequence[str], master: str | None, out: str | None, work: str | None,
    progress: Progress | None,
) -> tuple[Report, Explainer]:  # fmt: skip
    """Check on Spark, with a session of our own unless there is one; and how to explain there."""
    from thence.pipeline.causality.spark import check_on_spark, explain_on_spark
    from thence.pipeline.session import spark_session

    if progress is not None:
        progress("starting Spark", 0, 1)
    session = spark_session(master)
    report = check_on_spark(session, paths, keep_going=True, out=out, work=work, progress=progress)
    return report, partial(explain_on_spark, session)


def tell(report: Report, explainer: Explainer | None, *, as_json: bool, keep_going: bool) -> int:
    """Print what was found; the exit code.  ``explainer``: to explain the first violations."""
    tell_quarantine(report)
    for note in report.notes:
        print(f"thence: {note}", file=sys.stderr)
    if report.quarantined_count and not keep_going:
        print(
            f"thence: {counted(report.quarantined_count, 'input')} could not be read, so nothing "
            "was decided; --keep-going checks the rest",
            file=sys.stderr,
        )
        return 2
    if as_json:
        print(report.to_json().decode())
    else:
        print(text(report), end="")
    if explainer is not None and not report.ok:
        # With --json the explanation must not get into the object.
        stream = sys.stderr if as_json else sys.stdout
        for text_of_one in explainer(report, report.violations[:EXPLAINED_MAX]):
            print(f"\n{text_of_one}", end="", file=stream)
    return 0 if report.ok else 1


def tell_quarantine(report: Report) -> None:
    """What could not be read, as ``file:line: reason``."""
    for line in told_together(report.quarantined):
        print(line, file=sys.stderr)
    more = report.quarantined_count - len(report.quarantined)
    if more > 0:
        print(f"... and {more} more", file=sys.stderr)


def text(report: Report) -> str:
    """The verdict for people."""
    read = f"{counted(report.runs, 'run')}, {counted(report.events, 'event')}"
    if report.ok:
        return f"ok: {read}, no rule broken\n"
    total = sum(report.counts.values())
    lines = [f"NOT ok: {read}, {counted(total, 'violation')}", ""]
    width = max(map(len, report.counts))
    lines += [f"  {rule:<{width}}  {count:>8,}" for rule, count in report.counts.items()]
    lines.append("")
    several = report.runs > 1
    for violation in report.violations[:SHOWN_MAX]:
        run = f"{violation.run} " if several else ""
        lines.append(f"  {run}{violation.node} at {violation.pos}: {violation.why}")
        lines[-1] += f" [{violation.rule}]"
    if total > SHOWN_MAX:
        lines.append(f"  ... and {total - SHOWN_MAX:,} more; --json lists up to 1000")
    return "\n".join(lines) + "\n"
