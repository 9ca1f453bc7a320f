"""The page of a lab: what was asked, what was found, the figures, and what they rest on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from thence.report.claims import CLAIMS, WORDS
from thence.report.claims.base import (
    IN_PART,
    NOT_MEASURED,
    NOT_REPRODUCED,
    REPRODUCED,
    Claim,
    Verdict,
)
from thence.report.data import FLAGSHIP, FLAGSHIP_DEFAULT, RIVAL, Lab, Tables, variants_of
from thence.report.drawing import Look, looks
from thence.report.evidence import Evidence
from thence.report.figures import FIGURES, PANELS
from thence.report.figures.base import Figure
from thence.report.figures.draw import draw_panel
from thence.report.figures.other import other_figures
from thence.report.flagship import GOOD, Comparison, compare
from thence.report.pages import render
from thence.report.panels import LATENCY_TOLERANCE, Drawn, Panel
from thence.report.ratios import RatioRow, ratios
from thence.report.thesis import SIZE, Published, published
from thence.report.units import interval, listed, number, reach, shown

Progress = Callable[[str, int, int], None]
STATUSES: Final = (REPRODUCED, IN_PART, NOT_REPRODUCED, NOT_MEASURED)
HEADLINE: Final = ("28a", "30a", "30b", "32a", "33a", "34b", "36b")
"""The panels whose numbers the page begins with."""
KINDS: Final = {"metadata": "Metadata", "memory": "Memory", "latency": "Latency"}


class LabFindings(msgspec.Struct, frozen=True, kw_only=True):
    """What a lab's tables say."""

    verdicts: dict[str, Verdict]
    """By claim."""
    comparisons: list[Comparison]
    summary: list[str]
    """Sentences."""

    @property
    def failed_shapes(self) -> list[str]:
        """Shapes of metadata and memory that are not there, or were not measured."""
        return [
            name
            for name, verdict in self.verdicts.items()
            if CLAIMS[name].is_shape and verdict.status != REPRODUCED
        ]


class LabPage:
    """Makes the page of one lab."""

    def __init__(self, lab: Lab, tables: Tables, folder: Path, progress: Progress | None) -> None:
        self.lab = lab
        self.tables = tables
        self._folder = folder
        self._progress = progress
        self.variants = lab.variants or variants_of(tables)
        self.evidence = Evidence(tables, self.variants)
        titles = {each.name: each.title for each in lab.experiments}
        of_thesis = {name for panel in PANELS.values() for name in panel.experiments}
        self.is_chapter_8 = any(run.experiment in of_thesis for run in tables.runs)
        self._figures = other_figures(tables, titles)
        if self.is_chapter_8:
            self._figures = [*FIGURES.values(), *self._figures]
        self.findings = self._find()
        self.pictures: list[str] = []

    # What is said.

    def _find(self) -> LabFindings:
        verdicts = {name: claim.verdict(self.evidence) for name, claim in CLAIMS.items()}
        comparisons = [
            row
            for panel in PANELS.values()
            if panel.is_thesis
            for row in compare(self.evidence, panel)
        ]
        summary = self._of_runs()
        if self.is_chapter_8:
            summary += [*summary_of(verdicts), *self._of_flagship(comparisons)]
        else:
            summary += [
                "None of the thesis' experiments is in this lab: nothing was asked of its claims."
            ]
        return LabFindings(verdicts=verdicts, comparisons=comparisons, summary=summary)

    def _of_runs(self) -> list[str]:
        made, asked = sum(run.complete is True for run in self.tables.runs), self.lab.runs or 0
        if made >= asked:
            return []
        return [
            f"Only {made:,} of the {asked:,} runs of this lab are whole: the command that began it "
            "makes the others."
        ]

    def _of_flagship(self, comparisons: Sequence[Comparison]) -> list[str]:
        own = next((each.name for each in self.variants if each.role == FLAGSHIP), None)
        made = [each for each in comparisons if each.outcome != "not compared"]
        if own is None or not made:
            return ["The flagship could not be compared with its rivals: see below why."]
        good = [each for each in made if each.outcome in GOOD]
        text = (
            f"The flagship ({own}) is at least as good as the better of its rivals in "
            f"{len(good):,} of {len(made):,} comparisons"
        )
        worse = Counter(each.panel for each in made if each.outcome == "worse")
        if not worse:
            return [f"{text}: in every panel, at every size and interval that was run."]
        return [
            f"{text}. It is not in {listed([f'figure {name} ({n})' for name, n in worse.items()])}"
            ": the table of the flagship shows where, and by how much."
        ]

    # The page.

    def render(self) -> str:
        """Draw everything and put it together."""
        style = looks(self.variants)
        figures = []
        total = sum(len(figure.panels) for figure in self._figures)
        for figure in self._figures:
            panels = [self._panel(panel, style, total) for panel in figure.panels]
            figures.append({"figure": figure, "panels": panels, "claims": self._claims(figure)})
        return render(
            "lab.html",
            title=self._title(),
            is_chapter_8=self.is_chapter_8,
            lab=self.lab,
            tables=self.tables,
            variants=self._variants(style),
            runs=self._runs(),
            findings=self.findings,
            headline=self._headline(),
            tallies=self._tallies(),
            claims=[self._claim(claim) for claim in CLAIMS.values()],
            statuses=STATUSES,
            words=WORDS,
            figures=figures,
            worse=[self._compared(each) for each in self.findings.comparisons
                   if each.outcome == "worse"],
            passed_over=self._passed_over(),
            ratios=self._ratios(),
            sizes=sorted({run.group_size for run in self.tables.runs if run.group_size}),
            tolerance=f"{LATENCY_TOLERANCE:.0%}",
            largest=SIZE,
        )  # fmt: skip

    def _title(self) -> str:
        if self.is_chapter_8:
            return "Causal broadcast: the experiments of a thesis, measured again"
        return "; ".join(file.title for file in self.lab.files if file.title) or "Experiments"

    def _panel(self, panel: Panel, style: dict[str, Look], total: int) -> dict[str, Any]:
        drawn = self.evidence.drawn(panel)
        stated = published(panel.name)
        found: dict[str, Any] = {
            "panel": panel,
            "is_empty": drawn.is_empty,
            "why_empty": self._why_empty(drawn),
            "stated": [self._stated(drawn, each) for each in stated],
            "numbers": self._numbers(drawn),
        }
        if not drawn.is_empty:
            shape = draw_panel(drawn, style, stated, self._folder)
            found["svg"] = shape.svg
            self.pictures.append(shape.name)
        if self._progress is not None:
            self._progress("drawing figures", len(self.pictures), total)
        return found

    def _why_empty(self, drawn: Drawn) -> str:
        if not drawn.is_empty:
            return ""
        reasons = {
            point.lacks
            for each in drawn.points.values()
            for point in each.values()
            if point.lacks is not None
        }
        kind = "with" if drawn.panel.stability else "without"
        asked = drawn.panel.experiments
        if any(
            run.experiment in asked and bool(run.stability) == drawn.panel.stability
            for run in self.tables.runs
        ):
            none = f"the metrics of these runs have no series {drawn.series}"
        else:
            none = f"no runs of {' and '.join(asked)} {kind} stability in this lab"
        return "; ".join(sorted(reasons)) or none

    def _stated(self, drawn: Drawn, stated: Published) -> dict[str, Any]:
        """What the thesis says, and ours at the same size, by interval."""
        unit = drawn.panel.quantity.unit
        points = self.evidence.by_engine(drawn.panel.name, stated.engine)
        sizes = [size for (size, _), point in points.items() if point.p50 is not None]
        if not sizes:
            return {"stated": stated, "ours": "not measured"}
        largest = max(sizes)
        ours = reach((point.p50 for (size, _), point in points.items() if size == largest), unit)
        return {"stated": stated, "ours": ours if largest == SIZE else f"{ours}, {largest} nodes"}

    def _headline(self) -> dict[str, Any]:
        """The main numbers at the largest size that all of the compared were run with."""
        compared = [each for each in self.variants if each.role != "none"]
        rows = []
        for name in HEADLINE:
            drawn = self.evidence.panel(name)
            shared = [each for each in compared if drawn.points[each.name]]
            if not shared:
                continue
            sizes = [
                {size for (size, _), point in drawn.points[each.name].items() if point.count}
                for each in shared
            ]
            common = set.intersection(*sizes)
            if common:
                unit = drawn.panel.quantity.unit
                cells = [
                    reach(
                        (
                            point.p50
                            for (size, _), point in drawn.points[each.name].items()
                            if size == max(common)
                        ),
                        unit,
                    )
                    for each in compared
                ]
                rows.append({"panel": drawn.panel, "size": max(common), "cells": cells})
        return {"names": [each.name for each in compared], "rows": rows}

    def _numbers(self, drawn: Drawn) -> dict[str, Any]:
        unit = drawn.panel.quantity.unit
        rows = []
        for setting in drawn.settings():
            cells = []
            for variant in drawn.variants:
                point = drawn.points[variant.name].get(setting)
                if point is None or point.p50 is None:
                    cells.append({"text": "–", "more": point.lacks if point else None})
                else:
                    spread = f"{shown(point.p25, unit)} to {shown(point.p75, unit)}"
                    more = f"{spread}, of {point.count:,}"
                    cells.append({"text": shown(point.p50, unit), "more": more})
            rows.append({"size": setting[0], "interval": interval(setting[1]), "cells": cells})
        return {"names": [variant.name for variant in drawn.variants], "rows": rows}

    def _claims(self, figure: Figure) -> list[dict[str, Any]]:
        names = {panel.name for panel in figure.panels}
        return [self._claim(claim) for claim in CLAIMS.values() if claim.panel in names]

    def _claim(self, claim: Claim) -> dict[str, Any]:
        return {"claim": claim, "verdict": self.findings.verdicts[claim.name]}

    def _tallies(self) -> list[dict[str, Any]]:
        rows = []
        for kind, title in KINDS.items():
            found = Counter(
                verdict.status
                for name, verdict in self.findings.verdicts.items()
                if CLAIMS[name].kind == kind
            )
            rows.append({"title": title, "counts": [found[status] for status in STATUSES]})
        return rows

    def _compared(self, each: Comparison) -> dict[str, Any]:
        unit = PANELS[each.panel].quantity.unit
        return {
            "panel": each.panel,
            "size": each.group_size,
            "interval": interval(each.interval_ms),
            "flagship": shown(each.flagship, unit),
            "rival": each.rival,
            "best": shown(each.best, unit),
            "ratio": "–" if each.ratio is None else number(each.ratio),
            "default": shown(each.default, unit),
        }

    def _passed_over(self) -> list[dict[str, Any]]:
        """What was not compared: settings by panel and reason."""
        found: dict[tuple[str, str], list[str]] = {}
        for each in self.findings.comparisons:
            if each.outcome == "not compared":
                where = (
                    "all of it"
                    if each.group_size is None
                    else f"{each.group_size} nodes, {interval(each.interval_ms)}"
                )
                found.setdefault((each.panel, each.reason), []).append(where)
        return [
            {"panel": panel, "reason": reason, "where": "; ".join(where)}
            for (panel, reason), where in found.items()
        ]

    def _ratios(self) -> list[RatioRow]:
        panels = [panel for figure in self._figures for panel in figure.panels]
        return [row for panel in panels for row in ratios(self.evidence, panel)]

    def _variants(self, style: dict[str, Look]) -> list[dict[str, Any]]:
        roles = {FLAGSHIP: "the flagship, looking for stable messages at every step",
                 FLAGSHIP_DEFAULT: "the flagship as installed: it looks now and then",
                 RIVAL: "what the flagship is compared with", "none": "shown beside"}  # fmt: skip
        return [
            {
                "variant": each,
                "colour": style[each.name].colour,
                "what": each.about,
                "role": roles[each.role],
            }
            for each in self.variants
        ]

    def _runs(self) -> list[dict[str, Any]]:
        """What was run, by experiment."""
        found: dict[str, dict[str, Any]] = {}
        for run in self.tables.runs:
            row = found.setdefault(
                run.experiment or "(none)",
                {"runs": 0, "events": 0, "sizes": set(), "intervals": set(), "variants": set()},
            )
            row["runs"] += 1
            row["events"] += run.events or 0
            row["sizes"].add(run.group_size)
            row["intervals"].add(run.interval_ms)
            row["variants"].add(run.variant or run.engine)
        return [
            {
                "experiment": name,
                "runs": f"{row['runs']:,}",
                "events": f"{row['events']:,}",
                "sizes": ", ".join(str(size) for size in sorted(row["sizes"] - {None})),
                "intervals": ", ".join(f"{ms:g}" for ms in sorted(row["intervals"] - {None})),
                "variants": ", ".join(sorted(row["variants"] - {None})),
            }
            for name, row in sorted(found.items())
        ]


def summary_of(verdicts: dict[str, Verdict]) -> list[str]:
    """A sentence on each kind of claim, from the verdicts alone."""
    told = []
    for kind, title in KINDS.items():
        statuses = [v.status for name, v in verdicts.items() if CLAIMS[name].kind == kind]
        found = Counter(statuses)
        parts = [f"{found[status]} {status}" for status in STATUSES if found[status]]
        told.append(
            f"{title}: of {len(statuses)} claims of the thesis about {SIZE} nodes, {listed(parts)}."
            f"{_of_smaller(kind, verdicts)}"
        )
    return told


def _of_smaller(kind: str, verdicts: dict[str, Verdict]) -> str:
    """What smaller groups say already to claims that compare engines."""
    seen = [v.smaller for name, v in verdicts.items() if v.smaller and CLAIMS[name].kind == kind]
    if not seen:
        return ""
    same = sum(all([part.holds for part in parts]) for parts in seen)
    many = "all" if same == len(seen) else "none" if not same else f"{same} of {len(seen)}"
    return (
        f" In the largest groups of these runs {many} of those that compare engines hold already."
    )
