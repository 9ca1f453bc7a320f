"""``thence check``: do these traces obey the rules?  Exit 0 yes, 1 no, 2 unusable."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thence.errors import UnusableInputError
from thence.trace.check import check_paths
from thence.trace.explain import explain as explain_violation
from thence.trace.verdict import Report

SHOWN_MAX = 10
"""Violations that are listed for people; --json lists up to 1000."""
EXPLAINED_MAX = 3
"""Each is explained from the records, which are read again."""
Flag = Parameter(negative=())


def command(
    *paths: Path,
    local: Annotated[bool, Flag] = False,
    spark: Annotated[bool, Flag] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    explain: Annotated[bool, Flag] = False,
    keep_going: Annotated[bool, Flag] = False,
) -> int:
    """Check traces against the rules of causality.

    Exit code 0: no rule broken; 1: violations; 2: something could not be read.

    Parameters
    ----------
    paths
        Run folders, folders with run folders below, or single segments.
    local
        Check in this process (the default).
    spark
        Check on Spark.
    as_json
        Print one JSON object instead of text.
    explain
        Show the failed step of the first violations: vectors, contexts and the records around it.
    keep_going
        Check what can be read even if something cannot.
    """
    if spark:
        if local:
            raise UnusableInputError("--local and --spark: choose one")
        raise UnusableInputError(
            "the Spark checker is not part of this version yet: use --local, which checks the same "
            "rules in one process"
        )
    if not paths:
        raise UnusableInputError("no trace given: name a run folder, or a .jsonl or .parquet file")
    report = check_paths(paths, keep_going=True)
    tell_quarantine(report)
    if report.quarantined_count and not keep_going:
        print(
            f"thence: {_count(report.quarantined_count, 'input')} could not be read, so nothing "
            "was decided; --keep-going checks the rest",
            file=sys.stderr,
        )
        return 2
    if as_json:
        print(report.to_json().decode())
    else:
        print(text(report), end="")
    if explain and not report.ok:
        # With --json the explanation must not get into the object.
        stream = sys.stderr if as_json else sys.stdout
        for violation in report.violations[:EXPLAINED_MAX]:
            print(f"\n{explain_violation(report, violation)}", end="", file=stream)
    return 0 if report.ok else 1


def tell_quarantine(report: Report) -> None:
    """What could not be read, as ``file:line: reason``."""
    for item in report.quarantined:
        where = item.file if item.line is None else f"{item.file}:{item.line}"
        print(f"{where}: {item.reason}", file=sys.stderr)
    more = report.quarantined_count - len(report.quarantined)
    if more > 0:
        print(f"... and {more} more", file=sys.stderr)


def text(report: Report) -> str:
    """The verdict for people."""
    read = f"{_count(report.runs, 'run')}, {_count(report.events, 'event')}"
    if report.ok:
        return f"ok: {read}, no rule broken\n"
    total = sum(report.counts.values())
    lines = [f"NOT ok: {read}, {_count(total, 'violation')}", ""]
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


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
