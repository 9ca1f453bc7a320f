"""Builds a report: one page with everything in it, the pictures as files, and report.json.

OUT/index.html          self-contained: no address outside of it is ever asked for
OUT/figures/*.svg|png   each picture
OUT/report.json         verdicts, comparisons and numbers, for programs; not complete until all is

A folder that holds a report is written anew; files that a report did not write are left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from thence.errors import UnusableInputError
from thence.report.claims import CLAIMS
from thence.report.data import Lab, Tables
from thence.report.lab_page import LabFindings, LabPage
from thence.report.runs_page import Checked, Progress, RunsPage

PAGE: Final = "index.html"
FIGURES_FOLDER: Final = "figures"
REPORT_FILE: Final = "report.json"
METRICS_FOLDER: Final = "metrics"
"""Where the tables go that a report of plain runs is made from."""


class Built(msgspec.Struct, frozen=True, kw_only=True):
    """What was built."""

    page: Path
    summary: list[str]
    """What was found, in sentences."""
    findings: LabFindings | None = None
    """Of a lab."""


def build_lab(lab: Lab, metrics: Path, out: Path, *, progress: Progress | None = None) -> Built:
    """The report of a lab, from tables that were measured of its runs."""
    tables = Tables(metrics)
    figures = prepare(out)
    page = LabPage(lab, tables, figures, progress)
    text = page.render()
    findings = page.findings
    _write(out, text, page.pictures, lab_facts(page))
    return Built(page=out / PAGE, summary=findings.summary, findings=findings)


def build_runs(
    metrics: Path, out: Path, *, checked: Checked | None = None, about: str = "",
    progress: Progress | None = None,
) -> Built:  # fmt: skip
    """The report of runs that are no lab's, from tables that were measured of them.

    ``checked``: what a check of their logs said.  ``about``: what a reader should know of them.
    """
    tables = Tables(metrics)
    figures = prepare(out)
    page = RunsPage(tables, figures, checked, about, progress)
    text = page.render()
    facts = {
        "kind": "runs",
        "summary": page.summary,
        "check": None if checked is None else msgspec.to_builtins(checked),
        "runs": msgspec.to_builtins(page.numbers),
    }
    _write(out, text, page.pictures, facts)
    return Built(page=out / PAGE, summary=page.summary)


def lab_facts(page: LabPage) -> dict[str, Any]:
    """What report.json says of a lab."""
    findings = page.findings
    return {
        "kind": "lab",
        "summary": findings.summary,
        "claims": [
            {
                "name": name,
                "kind": CLAIMS[name].kind,
                "section": CLAIMS[name].section,
                "figure": CLAIMS[name].panel,
                "says": CLAIMS[name].says,
                "is_shape": CLAIMS[name].is_shape,
                **msgspec.to_builtins(verdict),
            }
            for name, verdict in findings.verdicts.items()
        ],
        "failed_shapes": findings.failed_shapes,
        "flagship": [
            {**msgspec.to_builtins(each), "ratio": each.ratio} for each in findings.comparisons
        ],
    }


def check_folder(out: Path) -> None:
    """UnusableInputError if a report cannot go there."""
    if out.exists() and not out.is_dir():
        raise UnusableInputError(f"{out} is a file: name a folder for the report")
    old = {path.name for path in out.iterdir()} if out.is_dir() else set()
    # Tables that an interrupted call measured are no reason to refuse the next.
    if old - {METRICS_FOLDER} and REPORT_FILE not in old:
        raise UnusableInputError(f"{out} is not empty and holds no report: choose another folder")


def prepare(out: Path) -> Path:
    """Make the folder ready for a report, without what is left of an old one; that for pictures."""
    check_folder(out)
    remove(out)
    figures = out / FIGURES_FOLDER
    figures.mkdir(parents=True, exist_ok=True)
    (out / REPORT_FILE).write_bytes(b'{"complete": false}\n')
    return figures


def remove(out: Path) -> None:
    """Remove the pictures and the page of an old report, and nothing else."""
    for name in _old_pictures(out):
        for suffix in ("svg", "png"):
            (out / FIGURES_FOLDER / f"{name}.{suffix}").unlink(missing_ok=True)
    if (out / REPORT_FILE).is_file():
        (out / PAGE).unlink(missing_ok=True)


def _old_pictures(out: Path) -> list[str]:
    """Those that a report of ours wrote, by name."""
    try:
        facts = msgspec.json.decode((out / REPORT_FILE).read_bytes(), type=dict[str, Any])
        names = msgspec.convert(facts.get("pictures", []), list[str])
    except (OSError, msgspec.MsgspecError):
        return []
    return [name for name in names if name == Path(name).name]


def _write(out: Path, text: str, pictures: list[str], facts: dict[str, Any]) -> None:
    (out / PAGE).write_text(text, encoding="utf-8")
    whole = {"complete": True, "v": 1, **facts, "pictures": pictures}
    encoded = msgspec.json.format(msgspec.json.encode(whole), indent=2)
    (out / REPORT_FILE).write_bytes(encoded + b"\n")
