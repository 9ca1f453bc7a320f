"""``thence report``: what runs cost, drawn, on one page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from thence.cli.progress import progress_bar
from thence.errors import UnusableInputError
from thence.report.build import METRICS_FOLDER, Built, build_lab, build_runs, check_folder
from thence.report.data import (
    LAB_FILE,
    Lab,
    Tables,
    are_usable,
    read_lab,
    read_summary,
    variants_of,
)
from thence.trace.files import is_url
from thence.trace.segments import Quarantine

RUNS_FOLDER = "runs"
"""Of a lab: where its run folders are."""
Progress = Callable[[str, int, int], None]
Flag = Parameter(negative=())


def command(
    *paths: str,
    out: Path | None = None,
    master: str | None = None,
    strict: Annotated[bool, Flag] = False,
) -> int:
    """Draw what runs cost, on one HTML page that needs nothing else.

    Parameters
    ----------
    paths
        The folder of a lab, or run folders (URLs too), which are measured on Spark.
    out
        Folder for the report: a new one, or one that an earlier call wrote, which is replaced.
    master
        Spark's master, such as local[4] or spark://host:7077; the default is this machine.
    strict
        Of a lab: exit code 1 unless every shape of metadata and memory that the thesis claims is
        reproduced.
    """
    if not paths:
        raise UnusableInputError("nothing to report on: name the folder of a lab, or run folders")
    if out is None:
        raise UnusableInputError("no folder for the report given: --out DIR")
    check_folder(out)
    labs = [Path(path) for path in paths if not is_url(path) and Path(path, LAB_FILE).is_file()]
    with progress_bar() as progress:
        if labs and len(paths) > 1:
            raise UnusableInputError(f"{labs[0]} is the folder of a lab: report on it alone")
        built = (
            report_lab(labs[0], out, master, progress)
            if labs
            else report_runs(paths, out, master, progress)
        )
    print(text(built), end="")
    return verdict(built) if strict else 0


def report_lab(folder: Path, out: Path, master: str | None, progress: Progress | None) -> Built:
    """The report of a lab; its runs are measured if its tables are not those of all of them."""
    lab = read_lab(folder)
    metrics = folder / METRICS_FOLDER
    # There may be more than those of the last call: a lab keeps runs.
    if not are_usable(metrics) or read_summary(metrics).runs < (lab.runs or 0):
        measure_to([str(folder / RUNS_FOLDER)], metrics, master, progress)
    return build_lab(lab, metrics, out, progress=progress)


def report_runs(
    paths: Sequence[str], out: Path, master: str | None, progress: Progress | None
) -> Built:
    """The report of run folders: of experiments if all of them are of one, else of single runs."""
    metrics = out / METRICS_FOLDER
    measure_to(paths, metrics, master, progress)
    tables = Tables(metrics)
    if all(run.experiment and run.role for run in tables.runs):
        return build_lab(Lab(variants=variants_of(tables)), metrics, out, progress=progress)
    return build_runs(metrics, out, progress=progress)


def measure_to(
    paths: Sequence[str],
    metrics: Path,
    master: str | None,
    progress: Progress | None,
    names: Sequence[str] = (),
) -> None:
    """Measure traces on Spark, with a session of our own unless there is one.

    ``names``: which metrics, all when there are none.
    """
    from thence.cli.metrics import tell
    from thence.pipeline.measure import measure, usable_places

    usable_places(paths, str(metrics), Quarantine())  # a mistake shows before Spark starts
    if progress is not None:
        progress("starting Spark", 0, 1)
    from thence.pipeline.session import spark_session

    tell(measure(spark_session(master), paths, str(metrics), names, progress=progress))


def verdict(built: Built) -> int:
    """The exit code of ``--strict``; what fails is told on stderr."""
    if built.findings is None:
        raise UnusableInputError("--strict asks for the claims of the thesis: name a lab's folder")
    for name in built.findings.failed_shapes:
        found = built.findings.verdicts[name]
        told = " ".join(
            [f"{found.status}.", *(f"{each.where}: {each.text}." for each in found.parts)]
        )
        print(f"thence: {name}: {told} {found.reason}".rstrip(), file=sys.stderr)
    return 1 if built.findings.failed_shapes else 0


def text(built: Built) -> str:
    """What was found, and where the page is."""
    return "".join(f"{line}\n" for line in [*built.summary, f"report: {built.page}"])
