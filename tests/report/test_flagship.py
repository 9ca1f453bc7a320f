"""The rule for the flagship: which rival counts, what is forgiven, and that nothing is silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.report.made_tables import VARIANTS, Row, make_lab, usual
from thence.report.data import Tables, read_lab
from thence.report.evidence import Evidence
from thence.report.figures import PANELS
from thence.report.flagship import Comparison, compare
from thence.report.ratios import ratios

THESIS = [panel for panel in PANELS.values() if panel.is_thesis]


def rows(folder: Path, panel: str, **given: object) -> list[Comparison]:
    lab = make_lab(folder, **given)  # type: ignore[arg-type]
    return compare(Evidence(Tables(lab / "metrics"), read_lab(lab).variants), PANELS[panel])


def law_of(series: str, **values: float):
    """The usual laws with fixed values of some variants in one series."""

    def law(row: Row) -> float | None:
        name = row["variant"].replace("-", "_")
        return values.get(name, usual(row)) if row["series"] == series else usual(row)

    return law


def test_it_is_compared_in_every_panel_at_every_setting(tmp_path: Path):
    lab = make_lab(tmp_path)
    evidence = Evidence(Tables(lab / "metrics"), read_lab(lab).variants)
    for panel in THESIS:
        found = compare(evidence, panel)
        divided = panel.experiments[0] not in ("exp3", "exp3-slow")
        assert len(found) == (18 if divided else 6), panel.name
        assert {each.outcome for each in found} <= {"better", "equal"}


@pytest.mark.parametrize(
    ("own", "outcome"),
    [(99.0, "better"), (100.0, "equal"), (105.0, "within tolerance"), (105.1, "worse")],
)
def test_the_better_rival_counts_and_latencies_have_a_tolerance(
    own: float, outcome: str, tmp_path: Path
):
    law = law_of("waited_work", tagged_at_once=own, vector=100.0, graph=400.0, tagged=90.0)
    (found,) = rows(tmp_path, "35a", law=law, sizes=(128,))
    assert (found.outcome, found.rival, found.best) == (outcome, "vector", 100.0)
    assert found.ratio == pytest.approx(own / 100)
    assert found.default == 90.0


def test_metadata_and_memory_are_forgiven_nothing(tmp_path: Path):
    law = law_of("words", tagged_at_once=100.1, vector=200.0, graph=100.0)
    (found,) = rows(tmp_path, "32b", law=law, sizes=(128,))
    assert (found.outcome, found.rival) == ("worse", "graph")
    assert found.best == 800.0  # words of 8 bytes


@pytest.mark.parametrize(
    ("own", "best", "outcome"), [(0.0, 0.0, "equal"), (1.0, 0.0, "worse"), (0.0, 1.0, "better")]
)
def test_medians_of_zero_are_compared_too(own: float, best: float, outcome: str, tmp_path: Path):
    law = law_of("words", tagged_at_once=own, vector=best, graph=best)
    (found,) = rows(tmp_path, "31b", law=law, sizes=(8,))
    assert found.outcome == outcome
    assert found.ratio == (own / best / 1 if best else None)


def test_roles_decide_and_not_names(tmp_path: Path):
    variants = [dict(each) for each in VARIANTS]
    for each in variants:
        each["role"] = {"graph": "flagship", "tagged-at-once": "rival"}.get(each["name"], "none")
    (found,) = rows(tmp_path, "33b", sizes=(128,), variants=variants)
    assert (found.outcome, found.rival) == ("worse", "tagged-at-once")


def test_one_rival_alone_is_compared_and_the_other_is_named(tmp_path: Path):
    (found,) = rows(tmp_path, "35b", sizes=(8,), keep=lambda run: run["variant"] != "graph")
    assert found.outcome == "better"
    assert "graph" in found.reason


@pytest.mark.parametrize(
    ("panel", "left_out", "reason"),
    [
        ("35a", {"tagged-at-once"}, "no run of tagged-at-once"),
        ("35a", {"vector", "graph", "cbcast-e2e"}, "no run of a rival"),
        ("35a", {each["name"] for each in VARIANTS}, "no runs of exp3 without stability"),
    ],
)
def test_what_cannot_be_compared_is_a_row_with_its_reason(
    panel: str, left_out: set[str], reason: str, tmp_path: Path
):
    keep = lambda run: run["experiment"] == "exp2" or run["variant"] not in left_out  # noqa: E731
    (found,) = rows(tmp_path, panel, sizes=(8,), keep=keep)
    assert (found.outcome, found.reason) == ("not compared", reason)


def test_a_lab_without_a_flagship_says_so(tmp_path: Path):
    variants = [each for each in VARIANTS if each["role"] == "rival"]
    (found,) = rows(tmp_path, "35a", sizes=(8,), variants=variants)
    assert found.reason == "the lab names no variant of role flagship"


def test_few_observations_conclude_nothing(tmp_path: Path):
    (found,) = rows(tmp_path, "35a", sizes=(8,), count=19)
    assert found.outcome == "not compared"
    assert found.reason == "fewer than 20 observations (19 and 19)"


def test_ratios_are_by_size_and_reach_over_the_intervals(tmp_path: Path):
    def law(row: Row) -> float | None:
        if row["series"] != "entries":
            return usual(row)
        return 0.0 if row["variant"] == "tagged-at-once" and row["group_size"] == 8 else (
            row["interval_ms"] if row["variant"] == "graph" else 10.0
        )  # fmt: skip

    lab = make_lab(tmp_path, sizes=(4, 8), law=law)
    evidence = Evidence(Tables(lab / "metrics"), read_lab(lab).variants)
    cells = {row.variant: row.cells for row in ratios(evidence, PANELS["30a"])}
    assert cells["graph"] == {4: "1 to 100", 8: "∞"}
    assert cells["vector"] == {4: "1", 8: "∞"}
    assert "tagged-at-once" not in cells
    assert json.dumps(cells)
